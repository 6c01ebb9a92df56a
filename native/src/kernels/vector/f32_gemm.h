/*
 * C = beta * C + A . B in f32: QW_MICRO_ROWS rows x two vectors of C stay in registers over all of k.
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

/* acc[r] += value_of_row, an expression in r, times a row of B; n_rows and n_vecs are constants. */
#define GEMM_ROW(acc, n_rows, n_vecs, value_of_row, row_of_b)                            \
    do {                                                                                 \
        vf b0 = vf_load(row_of_b), b1 = (n_vecs) > 1 ? vf_load((row_of_b) + QW_VL) : b0; \
                                                                                         \
        _Pragma("GCC unroll 8") for (size_t r = 0; r < (n_rows); r++) {                  \
            vf weight = vf_splat(value_of_row);                                          \
                                                                                         \
            (acc)[r][0] = vf_fma(weight, b0, (acc)[r][0]);                               \
            if ((n_vecs) > 1)                                                            \
                (acc)[r][1] = vf_fma(weight, b1, (acc)[r][1]);                           \
        }                                                                                \
    } while (0)

/* acc += A . B.  Where a multiplication can take one lane, four values of A come in one load. */
QW_INLINE void gemm_sum(vf acc[8][2], size_t n_rows, size_t n_vecs, size_t n_k, const gemm_operand *in) {
    const float *a = in->a, *b = in->b;
    size_t k = 0;

#if QW_VL == 4
    if (in->a_k == 1)
        for (; k + 4 <= n_k; k += 4, a += 4) {
            vf four[8];

#pragma GCC unroll 8
            for (size_t r = 0; r < n_rows; r++)
                four[r] = vf_load(a + r * in->a_row);
#pragma GCC unroll 4
            for (size_t lane = 0; lane < 4; lane++, b += in->ldb)
                GEMM_ROW(acc, n_rows, n_vecs, four[r][lane], b);
        }
    else if (in->a_row == 1 && n_rows % 4 == 0)
        for (; k < n_k; k++, a += in->a_k, b += in->ldb) {
            vf four[2] = {vf_load(a), n_rows > 4 ? vf_load(a + 4) : vf_load(a)};

            GEMM_ROW(acc, n_rows, n_vecs, four[r / 4][r % 4], b);
        }
#endif
    for (; k < n_k; k++, a += in->a_k, b += in->ldb)
        GEMM_ROW(acc, n_rows, n_vecs, a[r * in->a_row], b);
}

QW_INLINE void gemm_tile(size_t n_rows, size_t n_vecs, size_t n_k, const gemm_operand *in, float *c, size_t ldc,
                         float beta) {
    vf acc[8][2] = {{{0}}};

    gemm_sum(acc, n_rows, n_vecs, n_k, in);
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
    if (QW_VL == 16 && j < n)
        gemm_columns(m, 1, n_k, in, c + j, ldc, beta);
}

#endif
