/*
 * The NEON GEMV: dot products of unpacked int8 values with quantized rows, and one function per row count.
 */
#ifndef QW_GEMV_NEON_H
#define QW_GEMV_NEON_H

#include "../vector/quant_table.h"
#include "neon.h"

QW_INLINE int32x4_t qw_dot_16(int8x16_t w, const int8_t *x) {
    return vdotq_s32(vdupq_n_s32(0), w, vld1q_s8(x));
}

QW_INLINE int32x4_t qw_dot_32(const int8x16_t w[2], const int8_t *x) {
    return vdotq_s32(qw_dot_16(w[0], x), w[1], vld1q_s8(x + 16));
}

/* Lane i is the sum of p[i]. */
QW_INLINE float32x4_t qw_sum_lanes(int32x4_t p0, int32x4_t p1, int32x4_t p2, int32x4_t p3) {
    return vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(p0, p1), vpaddq_s32(p2, p3)));
}

/* Lane i of sum[h] is the dot product of the 4h + i th 32 values. */
QW_INLINE void qw_dot_8x32(const int8x16_t w[16], const int8_t *x, float32x4_t sum[2]) {
    for (size_t h = 0; h < 2; h++, w += 8, x += 128)
        sum[h] = qw_sum_lanes(qw_dot_32(w, x), qw_dot_32(w + 2, x + 32), qw_dot_32(w + 4, x + 64), qw_dot_32(w + 6, x + 96));
}

/* A kernel of the table from an inline one: a constant n_rows keeps the rows' totals in registers. */
#define QW_DEFINE_NEON_GEMV(name)                                                           \
    void QW_NAME(gemv_##name)(QW_GEMV_ARGS) {                                          \
        if (n_rows == 1)                                                               \
            qw_gemv_##name(w, col_bytes, n_cols, n_k, rows, 1, y, ld);                 \
        else if (n_rows == 2)                                                          \
            qw_gemv_##name(w, col_bytes, n_cols, n_k, rows, 2, y, ld);                 \
        else if (n_rows == 3)                                                          \
            qw_gemv_##name(w, col_bytes, n_cols, n_k, rows, 3, y, ld);                 \
        else                                                                           \
            qw_gemv_##name(w, col_bytes, n_cols, n_k, rows, QW_GEMV_ROWS, y, ld);      \
    }

#endif
