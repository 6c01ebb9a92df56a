/* A model: its tensors by role, its kernel set, its threads, and the workspace of one evaluation. */
#ifndef QW_MODEL_H
#define QW_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/kernels.h"
#include "pool.h"
#include "qwarm.h"

enum { QW_MAX_ROWS = 512 }; /* tokens evaluated together; a multiple of QW_CHUNK */

/* A weight matrix as the file holds it: one row of n_k values per output column. */
typedef struct qw_matrix {
    const uint8_t *data;
    uint32_t type;
    size_t n_cols, n_k;
    size_t col_bytes;
} qw_matrix;

typedef struct qw_layer {
    bool recurrent;
    size_t index; /* among the layers of its kind: its place in the state, or in a KV page */
    const float *mixer_norm, *ffn_norm;
    qw_matrix ffn_gate, ffn_up, ffn_down;

    /* attention */
    qw_matrix q, k, v, attn_out; /* q: per head, head_dim query rows and then head_dim gate rows */
    const float *q_norm, *k_norm;

    /* Gated DeltaNet */
    qw_matrix qkv, z, alpha, beta, delta_out;
    const float *conv, *decay, *dt_bias, *delta_norm;
} qw_layer;

/* Activation rows in the form the matrices of one width read.  Which arrays are used depends on the math. */
typedef struct qw_input {
    size_t n_k;
    size_t n_row_blocks; /* P8: blocks per 256 k */
    int8_t *q;           /* P8: block (kb, rb) is number kb * n_row_blocks + rb; GEMV: [row][padded n_k] */
    float *meta;         /* P8: QW_ACT_META words per block */
    float *x;            /* GEMV, exact: [row][n_k] */
    float *d, *sum;      /* GEMV: [row][padded n_k / 32] */
} qw_input;

/* Buffers of one evaluation; rows are tokens.  Allocated once, used under the model's lock. */
typedef struct qw_workspace {
    float *x;         /* [rows][n_hidden] residual stream */
    float *u;         /* [3 + rows][delta channels] projections before the convolution; attention's [q|gate] */
    float *z;         /* [rows][value width]; attention's k and v rows */
    float *o;         /* [rows][value width or n_heads * head_dim] */
    float *ab;        /* [rows][2 * n_value_heads] alpha, then beta */
    float *h;         /* [rows][n_ffn] */
    float *cos, *sin; /* [rows][rotary_dims / 2] */
    void *attention;  /* partial results of decode attention */
    qw_input input;
    uint64_t gemm_rows, gemv_rows; /* multiplied in this evaluation, per matrix */
    uint8_t *scratch;              /* per thread */
    size_t scratch_bytes;
    void *arena;
    size_t arena_bytes;
} qw_workspace;

struct qw_model {
    atomic_size_t n_owners; /* the creator, and each session and snapshot: collectors free in any order */
    qw_config config;       /* recurrent_layers and isa are the caller's and not kept */
    const qw_kernels *kernels;
    qw_pool *pool;
    pthread_mutex_t lock;

    qw_matrix embedding, head;
    const float *output_norm;
    qw_layer *layers;
    size_t n_attention, n_delta; /* layers of each kind */

    size_t key_width, value_width, n_channels; /* Gated DeltaNet: of q or k, of v, of all three */
    size_t max_k;                              /* widest matrix input, padded to QW_BLOCK_K */
    size_t state_floats;                       /* of one position: all layers' S, then all layers' conv rows */
    size_t kv_element_bytes, page_bytes;

    qw_workspace work;
};

static inline size_t qw_smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t qw_round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* Floats of one recurrent layer's matrices. */
static inline size_t qw_layer_state_floats(const qw_model *m) {
    return m->value_width * m->config.delta_head_dim;
}

/* S [n_value_heads][key dim][value dim] of recurrent layer `index` in a state. */
static inline float *qw_state_s(const qw_model *m, float *state, size_t index) {
    return state + index * qw_layer_state_floats(m);
}

/* The last QW_CONV - 1 rows of u of recurrent layer `index` in a state. */
static inline float *qw_state_conv(const qw_model *m, float *state, size_t index) {
    return state + m->n_delta * qw_layer_state_floats(m) + index * (QW_CONV - 1) * m->n_channels;
}

/* What every thread has for itself: room for the largest user. */
static inline void *qw_thread_scratch(const qw_model *m, size_t thread) {
    return m->work.scratch + thread * m->work.scratch_bytes;
}

/* Share the ownership of a model; qw_model_free() gives a share back. */
qw_model *qw_model_share(const qw_model *m);

/* Workspace: sizes follow from the model; false when the system has no memory. */
bool qw_workspace_create(qw_model *m);
void qw_workspace_free(qw_model *m);

#endif
