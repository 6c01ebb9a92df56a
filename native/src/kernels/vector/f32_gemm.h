/*
 * C = beta * C + A . B in f32: a block of QW_MICRO_ROWS rows x two vectors of C stays in registers over all of k.
 *
 * Every element of C is one chain of fused multiply-adds in the order of k, whatever tile it lies in, so it
 * does not depend on m, n or its neighbors.
 */
#ifndef QW_F32_GEMM_H
#define QW_F32_GEMM_H

#include "f32_vec.h"

#define QW_MICRO_ROWS (QW_VL == 8 ? 6 : 8) /* AVX2 has 16 registers, the others 32 */

typedef struct gemm_operand {
    const float *a;
    size_t a_row, a_k;
    const float *b;
    size_t ldb;
} gemm_operand;

/* acc += A . B for k in [from, to): n_rows x n_vecs vectors, constants where this is inlined. */
QW_INLINE void gemm_sum(vf acc[8][2], size_t n_rows, size_t n_vecs, const gemm_operand *in, size_t from, size_t to) {
    for (size_t k = from; k < to; k++) {
        const float *a = in->a + k * in->a_k, *b = in->b + k * in->ldb;
        vf b0 = vf_load(b), b1 = n_vecs > 1 ? vf_load(b + QW_VL) : b0;

#pragma GCC unroll 8
        for (size_t r = 0; r < n_rows; r++) {
            vf weight = vf_splat(a[r * in->a_row]);

            acc[r][0] = vf_fma(weight, b0, acc[r][0]);
            if (n_vecs > 1)
                acc[r][1] = vf_fma(weight, b1, acc[r][1]);
        }
    }
}

QW_INLINE void gemm_tile(size_t n_rows, size_t n_vecs, size_t n_k, const gemm_operand *in, float *c, size_t ldc,
                         float beta) {
    vf acc[8][2] = {{{0}}};

    gemm_sum(acc, n_rows, n_vecs, in, 0, n_k);
#pragma GCC unroll 8
    for (size_t r = 0; r < n_rows; r++)
#pragma GCC unroll 2
        for (size_t j = 0; j < n_vecs; j++) {
            float *out = c + r * ldc + j * QW_VL;

            vf_store(out, beta == 0 ? acc[r][j] : vf_fma(vf_splat(beta), vf_load(out), acc[r][j]));
        }
}

/* All rows of n_vecs vectors of columns. */
QW_INLINE void gemm_columns(size_t m, size_t n_vecs, size_t n_k, gemm_operand in, float *c, size_t ldc, float beta) {
    for (; m >= QW_MICRO_ROWS; m -= QW_MICRO_ROWS) {
        gemm_tile(QW_MICRO_ROWS, n_vecs, n_k, &in, c, ldc, beta);
        in.a += QW_MICRO_ROWS * in.a_row;
        c += QW_MICRO_ROWS * ldc;
    }
    for (; m >= 4; m -= 4) {
        gemm_tile(4, n_vecs, n_k, &in, c, ldc, beta);
        in.a += 4 * in.a_row;
        c += 4 * ldc;
    }
    for (; m; m--) {
        gemm_tile(1, n_vecs, n_k, &in, c, ldc, beta);
        in.a += in.a_row;
        c += ldc;
    }
}

void QW_NAME(gemm_f32)(size_t m, size_t n, size_t n_k, const float *a, size_t a_row, size_t a_k, const float *b,
                       size_t ldb, float *c, size_t ldc, float beta) {
    gemm_operand in = {a, a_row, a_k, b, ldb};
    size_t j = 0;

    for (; j + 2 * QW_VL <= n; j += 2 * QW_VL, in.b = b + j)
        gemm_columns(m, 2, n_k, in, c + j, ldc, beta);
    if (j < n)
        gemm_columns(m, 1, n_k, in, c + j, ldc, beta);
}

#endif
