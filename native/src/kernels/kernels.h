/*
 * The kernel table: everything whose speed depends on the instruction set.
 *
 * A folder beside this file is an instruction set.  scalar/ is complete and plain: it is
 * the reference that tests/native/check compares every other set with.
 *
 * Two ways to multiply by a weight matrix, W [n_cols][n_k], one row of W per output column:
 *
 *   P8    prefill.  Per panel of up to 64 columns and 256 values of k the weights are expanded to
 *         int8 with one f32 scale per column, then one int8 x int8 micro-kernel runs over all rows,
 *         eight at a time.  Activations are int8 with one scale per (row, 128 k): their rounding, not the
 *         weights', is most of the error, and twice the scales cost little.
 *   GEMV  decode.  Reads the file's own blocks; activations are int8 with one scale per 32 k
 *         (f32 for the float weight types).
 *
 * No int8 value ever is -128.  A row's result depends neither on the rows beside it nor on how
 * many they are.  Nothing here allocates or fails.
 */
#ifndef QW_KERNELS_H
#define QW_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../quant.h"

enum {
    QW_BLOCK_K = 256,   /* k values of a panel, under one scale per column */
    QW_ACT_K = 128,     /* k values of an activation row under one scale */
    QW_BLOCK_ROWS = 8,  /* rows of one activation block */
    QW_PANEL_COLS = 64, /* columns of one weight panel */
    QW_TILE = QW_BLOCK_ROWS * QW_PANEL_COLS,
    QW_PANEL_BYTES = QW_PANEL_COLS * QW_BLOCK_K * 2, /* room for sets that expand to int16 */
    QW_PANEL_SCALES = QW_PANEL_COLS,
    QW_ACT_META = 32,  /* f32 words beside an activation block, 16 for each QW_ACT_K: scales, and what the set wants */
    QW_GEMV_ROWS = 4,  /* most rows of one gemv call */
    QW_ACT_GROUP = 32, /* k values under one GEMV activation scale */
    QW_CHUNK = 16,     /* tokens of one delta-rule chunk */
    QW_KEY_TILE = 64,  /* keys of one attention tile = tokens of one KV page */
    QW_CONV = 4        /* taps of the causal convolution */
};

/* One activation row as the GEMV reads it; arrays are zero-padded to a multiple of QW_BLOCK_K. */
typedef struct qw_gemv_row {
    const float *x;   /* [n_k] */
    const int8_t *q;  /* [n_k], x = d[k / 32] * q */
    const float *d;   /* [n_k / 32] */
    const float *sum; /* [n_k / 32]: d * (sum of the group's q), what a weight's min is multiplied by */
} qw_gemv_row;

/* One key tile of one KV head, for a block of query rows.  m, l and o carry the online softmax from tile to tile. */
typedef struct qw_attention_tile {
    size_t n_rows;
    size_t head_dim;
    const float *q;        /* [n_rows][head_dim], already scaled by 1 / sqrt(head_dim) */
    const void *keys;      /* [head_dim][64]: transposed, f16 or f32 */
    const void *values;    /* [64][head_dim] */
    bool half;             /* keys and values are f16 */
    const uint32_t *limit; /* [n_rows]: row r sees keys [0, limit[r]) of this tile; may be 0 */
    float *m;              /* [n_rows] running maximum, -inf at the start */
    float *l;              /* [n_rows] running sum of exp(score - m), 0 at the start */
    float *o;              /* [n_rows][head_dim] running sum of exp(score - m) * v, 0 at the start */
    float *scratch;        /* 64-byte aligned, QW_ATTENTION_SCRATCH(n_rows, head_dim) floats */
} qw_attention_tile;

#define QW_ATTENTION_SCRATCH(n_rows, head_dim) ((size_t)QW_KEY_TILE * (2 * (head_dim) + (n_rows)))

/* Columns [0, n_v) of one value head's state, for n_tokens <= QW_CHUNK tokens. */
typedef struct qw_delta_block {
    size_t n_tokens;
    size_t n_k;   /* key width: 64 or 128, a multiple of 16 */
    size_t n_v;   /* columns of this call, a multiple of 16 */
    float *state; /* S [n_k][ld_state], updated */
    size_t ld_state;
    const float *q, *k; /* [n_tokens][ld_qk], normalised, q scaled */
    size_t ld_qk;
    const float *v; /* [n_tokens][ld_v] */
    size_t ld_v;
    const float *log_decay; /* [n_tokens], <= 0 */
    const float *beta;      /* [n_tokens], in (0, 1) */
    float *o;               /* [n_tokens][ld_o] */
    size_t ld_o;
} qw_delta_block;

typedef struct qw_kernels {
    const char *isa;

    /* --- P8 --- */

    size_t act_block_bytes; /* of 8 rows x 256 k: 2048 for int8 layouts */

    /*
     * Quantize x [n_rows <= 8][ld] over n_k <= 256 values into one activation block of this set's layout.
     * Scale = max |x| / 127 per row and QW_ACT_K; missing rows and values are zeros.  NaN or inf makes a scale NaN.
     */
    void (*quantize_block)(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q, float *meta);

    /*
     * Expand n_cols <= 64 columns x n_k <= 256 weights into a panel of this set's layout; missing ones are zeros.
     * w is column 0's first block of this k range; columns are col_bytes apart.  scale gets QW_PANEL_SCALES words.
     * |int8 * scale - weight| <= 0.75 * scale.  A NaN or inf scale in the block makes that column's scale NaN.
     */
    void (*expand[QW_TYPE_COUNT])(const void *w, size_t col_bytes, size_t n_cols, size_t n_k, int8_t *panel,
                                  float *scale);

    /*
     * c[block] (+)= activations x panel for n_blocks consecutive activation blocks.  Block b's activations are at
     * q + b * act_block_bytes and meta + b * QW_ACT_META; its tile, rows [8][64], is at c + b * QW_TILE.
     * first: c is written, not added to.
     */
    void (*gemm_i8)(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel, const float *scale,
                    float *c, bool first);

    /* --- GEMV --- */

    /* Quantize one row of n_k values; q, d and sum are padded with zeros to a multiple of QW_BLOCK_K. */
    void (*quantize_row)(const float *x, size_t n_k, int8_t *q, float *d, float *sum);

    /* y[r * ld + c] = row r . column c, for n_cols columns and n_rows <= QW_GEMV_ROWS rows. */
    void (*gemv[QW_TYPE_COUNT])(const void *w, size_t col_bytes, size_t n_cols, size_t n_k, const qw_gemv_row *rows,
                                size_t n_rows, float *y, size_t ld);

    /* --- f32 --- */

    /* C [m][ldc] = beta * C + A . B, A(i, k) = a[i * a_row + k * a_k], B [n_k][ldb]; n a multiple of 16; 0 as beta
       does not read C. */
    void (*gemm_f32)(size_t m, size_t n, size_t n_k, const float *a, size_t a_row, size_t a_k, const float *b,
                     size_t ldb, float *c, size_t ldc, float beta);
    float (*dot_f32)(const float *a, const float *b, size_t n); /* any n */

    void (*rms_norm)(const float *x, const float *weight, float eps, size_t n, float *y); /* y may be x */
    void (*l2_norm)(float *x, size_t n, float eps, float scale);              /* x *= scale / sqrt(sum x^2 + eps) */
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *y); /* y = silu(gate) * up; y may be either */
    void (*sigmoid_mul)(const float *gate, const float *x, size_t n, float *y); /* y = sigmoid(gate) * x */
    void (*add)(const float *x, size_t n, float *y);                            /* y += x */

    /*
     * Causal depthwise convolution and SiLU: y[t][ch] = silu(sum_j w[ch][j] * u[t + j][ch]), u being QW_CONV - 1
     * rows of history and then the tokens' rows.
     */
    void (*conv_silu)(const float *u, size_t ld, const float *w, size_t n_channels, size_t n_tokens, float *y,
                      size_t ld_y);

    void (*delta_chunk)(const qw_delta_block *d); /* the chunk form; scratch on the stack */
    void (*delta_step)(const qw_delta_block *d);  /* n_tokens tokens one after another */

    void (*attention_tile)(const qw_attention_tile *t);
    void (*f32_to_f16)(const float *x, size_t n, uint16_t *y); /* ties to even, overflow to inf */
    void (*f16_to_f32)(const uint16_t *x, size_t n, float *y);
} qw_kernels;

/* The exact path's decoder, bit for bit what the format says, in the order (d * scale) * q - (dmin * min). */
void qw_dequantize_row(uint32_t type, const void *blocks, size_t n, float *y);

/*
 * The set named isa, or the best this CPU runs when isa is NULL.  NULL when the name is unknown or the CPU
 * lacks it.  qw_kernels_nth lists the runnable sets, best first, scalar last, then NULL.
 */
const qw_kernels *qw_kernels_select(const char *isa);
const qw_kernels *qw_kernels_nth(size_t n);

#endif
