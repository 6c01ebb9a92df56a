/*
 * qwarm's engine: Qwen3.5-family models (Gated DeltaNet + gated attention) on the CPU.
 *
 * This file is the whole public C API; the C compiler and cffi both read it (cffi skips
 * lines that begin with #).  Numbers only: the engine opens no file, reads no environment
 * and prints nothing.
 *
 * Every function that can fail returns a qw_status; qw_last_error() has the words, for
 * the calling thread, until its next failing call.  Out-parameters are written only on
 * success.  Pointers in arguments must be valid; NULL objects are accepted by *_free only.
 */
#ifndef QWARM_H
#define QWARM_H

#include <stddef.h>
#include <stdint.h>

typedef enum qw_status {
    QW_OK = 0,
    QW_ERR_ARGUMENT = 1, /* a value no caller should pass: a bug above */
    QW_ERR_MODEL = 2,    /* the model's shape, a tensor or a type is not what the architecture needs */
    QW_ERR_MEMORY = 3,   /* the system refused memory */
    QW_ERR_CONTEXT = 4,  /* the tokens do not fit the context */
    QW_ERR_ISA = 5,      /* the instruction set asked for is not on this CPU */
    QW_ERR_NUMERIC = 6   /* a result is not a finite number */
} qw_status;

/* One tensor of a model file.  dims are fastest first, as GGUF lists them. */
typedef struct qw_tensor {
    const char *name;
    uint32_t type; /* ggml's type number */
    uint32_t n_dims;
    uint64_t dims[4];
    const void *data; /* stays mapped until qw_model_free() */
    uint64_t n_bytes;
} qw_tensor;

typedef struct qw_config {
    uint32_t n_layers; /* without MTP blocks */
    uint32_t n_vocab;
    uint32_t n_hidden;
    uint32_t n_ffn;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t rotary_dims;
    uint32_t n_key_heads;   /* Gated DeltaNet */
    uint32_t n_value_heads; /* a multiple of n_key_heads; value head h uses key head h mod n_key_heads */
    uint32_t delta_head_dim;
    uint32_t conv_kernel;
    float rms_eps;
    float rope_base;
    const uint8_t *recurrent_layers; /* [n_layers]: 1 = Gated DeltaNet, 0 = attention; read during create only */
    uint32_t n_threads;              /* including the caller; at least 1 */
    const char *isa;                 /* a kernel set's name, or NULL for the best this CPU runs */
    uint32_t exact;                  /* 1: f32 activations x dequantized weights, f32 KV rows; slow, the reference */
} qw_config;

typedef struct qw_model qw_model;
typedef struct qw_session qw_session;
typedef struct qw_snapshot qw_snapshot;

/* The words of this thread's last failure; never NULL. */
const char *qw_last_error(void);

/* The best kernel set this CPU runs, and the n-th one it runs (NULL past the last; scalar is last). */
const char *qw_best_isa(void);
const char *qw_nth_isa(size_t n);

/*
 * Do a fixed piece of prefill's arithmetic, some 10 us of it, with one kernel set: where two sets run, whoever has a
 * clock can tell which is faster on this machine.
 */
qw_status qw_isa_trial(const char *isa);

/*
 * Create a model from tensors whose data stays mapped until qw_model_free().
 * The model is read-only from then on, so threads may share it; its thread pool runs one
 * evaluation at a time and later callers wait.  On failure the error names the tensor.
 */
qw_status qw_model_create(qw_model **out, const qw_config *config, const qw_tensor *tensors, size_t n_tensors);
void qw_model_free(qw_model *model); /* the memory lives until its last session and snapshot are freed too */

const char *qw_model_isa(const qw_model *model);        /* the kernel set in use */
const char *qw_model_gemm(const qw_model *model);       /* how prefill rows are multiplied: gemm_i8 or exact */
size_t qw_model_state_bytes(const qw_model *model);     /* recurrent state of one position */
size_t qw_model_kv_token_bytes(const qw_model *model);  /* attention rows of one token */
size_t qw_model_workspace_bytes(const qw_model *model); /* buffers of one evaluation, taken at create */

/* A timeline of tokens.  One thread at a time.  n_context: the most tokens it will ever hold. */
qw_status qw_session_create(qw_session **out, const qw_model *model, size_t n_context);
void qw_session_free(qw_session *session);

typedef enum qw_phase {
    QW_PREFILL = 0, /* P8 GEMM and the chunked delta rule, however few the tokens */
    QW_DECODE = 1   /* GEMV and the recurrent delta rule; few tokens */
} qw_phase;

/*
 * Tokens to run, and what to keep of the run.
 *
 * logits: n_logits rows of n_vocab, those of the last n_logits tokens.
 * hidden: NULL, or the residual stream [n_layers + 1][n_tokens][n_hidden]: what enters each layer, then the final
 *         norm's output.
 * marks:  increasing positions in (position, position + n_tokens] to take snapshots at; prefill only.
 * snapshots: [n_marks], written on success; the caller's to free.
 */
typedef struct qw_batch {
    const int32_t *tokens;
    size_t n_tokens;
    qw_phase phase;
    float *logits;
    size_t n_logits;
    float *hidden;
    const size_t *marks;
    size_t n_marks;
    qw_snapshot **snapshots;
} qw_batch;

/*
 * Run more tokens.  A token's result depends on the tokens before it, on the phase, and on the positions of marks
 * and of earlier prefills' ends that are not multiples of 16; never on the number of threads or on how many tokens
 * came in one call.
 * All checks and all memory come first: on failure the position has not moved, except for QW_ERR_NUMERIC, after
 * which the session must be reset or loaded.
 */
qw_status qw_session_eval(qw_session *session, const qw_batch *batch);

size_t qw_session_position(const qw_session *session);
void qw_session_reset(qw_session *session); /* position 0, as new */

/* What the C side counted since qw_session_create(): the log's figures come from here. */
typedef struct qw_counters {
    uint64_t prefill_tokens;
    uint64_t decode_tokens;
    uint64_t gemm_rows; /* rows that went through the P8 GEMM, per matrix */
    uint64_t gemv_rows; /* rows that went through the GEMV, per matrix */
} qw_counters;
void qw_session_counters(const qw_session *session, qw_counters *out);

/*
 * A snapshot: the state at the session's position.  The recurrent state is copied; KV rows
 * are pages shared by reference (a page is copied only when two timelines write into it).
 * A snapshot may outlive its session.
 */
qw_status qw_session_save(const qw_session *session, qw_snapshot **out);
qw_status qw_session_load(qw_session *session, const qw_snapshot *snapshot);
void qw_snapshot_free(qw_snapshot *snapshot);
size_t qw_snapshot_position(const qw_snapshot *snapshot);

/* Bytes held by a set of snapshots together, shared pages counted once. */
size_t qw_snapshots_bytes(const qw_snapshot *const *snapshots, size_t n);

/* A snapshot as bytes of a fixed, version-1 layout: recurrent state, conv rows, then KV rows.  For files. */
size_t qw_snapshot_export_bytes(const qw_snapshot *snapshot);
void qw_snapshot_export(const qw_snapshot *snapshot, void *buffer);
qw_status qw_snapshot_import(qw_snapshot **out, const qw_model *model, size_t position, const void *buffer,
                             size_t n_bytes);

/* Dequantize n values (a multiple of the type's block) with the reference code; for tests and tools. */
qw_status qw_dequantize(uint32_t type, const void *blocks, size_t n, float *out);

/*
 * The n largest of logits[0, n_vocab), by value then by lower index: ids and values, best first.
 * Returns how many were written (less than n only when n_vocab is smaller), or 0 when a logit is NaN or +inf
 * or all are -inf.
 */
size_t qw_top_logits(const float *logits, size_t n_vocab, size_t n, int32_t *ids, float *values);

#endif
