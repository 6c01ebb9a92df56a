/* Products of activation rows with weight matrices: quantize the rows once, multiply by several matrices. */
#ifndef QW_LINEAR_H
#define QW_LINEAR_H

#include "model.h"

/* How rows are multiplied in one evaluation. */
typedef enum qw_math {
    QW_MATH_P8,   /* prefill */
    QW_MATH_GEMV, /* decode */
    QW_MATH_EXACT /* the reference: f32 activations x dequantized weights */
} qw_math;

/* Write activation row `row` to out; called once per row, on any thread. */
typedef void (*qw_row_source)(const void *source, size_t row, float *out);

/* Rows [first, n_rows) of n_k values each -> m->work.input.  first is a multiple of QW_BLOCK_ROWS. */
void qw_linear_input(qw_model *m, qw_math math, size_t first, size_t n_rows, size_t n_k, qw_row_source fill,
                     const void *source);

/* y[row * ld + column]: stored, added to what is there, or, with `up`, silu(row . weight) * (row . up). */
typedef struct qw_product {
    const qw_matrix *weight;
    const qw_matrix *up;
    float *y;
    size_t ld;
    bool add;
    size_t first; /* rows [first, n_rows) are wanted; a multiple of QW_BLOCK_ROWS, at least the input's first */
} qw_product;

/* Multiply the prepared input's rows by each product's matrix. */
void qw_linear_multiply(qw_model *m, qw_math math, size_t n_rows, const qw_product *products, size_t n_products);

size_t qw_linear_scratch_bytes(const qw_model *m);

#endif
