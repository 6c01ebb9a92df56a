/*
 * The NEON GEMV: 256 values of a column are unpacked once and multiplied with every row.
 *
 * Sums of four groups meet in one vector, so that scales are applied to four at a time.  A row's operations
 * are the same whatever n_rows is; each count has its own copy of the code, which keeps the totals in
 * registers.
 */
#ifndef QW_GEMV_NEON_H
#define QW_GEMV_NEON_H

#include "../vector/quant_table.h"
#include "unpack_neon.h"

QW_INLINE int32x4_t qw_dot_16(int8x16_t w, const int8_t *x) {
    return vdotq_s32(vdupq_n_s32(0), w, vld1q_s8(x));
}

QW_INLINE int32x4_t qw_dot_32(const int8x16_t w[2], const int8_t *x) {
    return vdotq_s32(qw_dot_16(w[0], x), w[1], vld1q_s8(x + 16));
}

/* Lane i is the sum of p[i]'s lanes. */
QW_INLINE float32x4_t qw_sum_lanes(const int32x4_t p[4]) {
    return vcvtq_f32_s32(vpaddq_s32(vpaddq_s32(p[0], p[1]), vpaddq_s32(p[2], p[3])));
}

/* Adds to each row's total the products of 256 values from k on. */
typedef void qw_add_block(const void *block, const qw_gemv_row *rows, size_t n_rows, size_t k, float32x4_t *total);

/* Groups of 32; min is read only where has_min. */
QW_INLINE void qw_add_32(qw_scales_32 *scales, qw_load *load, bool has_min, const void *block, const qw_gemv_row *rows,
                         size_t n_rows, size_t k, float32x4_t *total) {
    float32x4_t scale[2], min[2];

    scales(block, scale, min);
    for (size_t h = 0; h < 2; h++) {
        int8x16_t q[8];
        load(block, 2 * h, q);
        load(block, 2 * h + 1, q + 4);
        for (size_t r = 0; r < n_rows; r++) {
            const int8_t *x = rows[r].q + k + 128 * h;
            int32x4_t p[4];
            for (size_t i = 0; i < 4; i++)
                p[i] = qw_dot_32(q + 2 * i, x + 32 * i);
            size_t group = k / QW_ACT_GROUP + 4 * h;
            total[r] = vfmaq_f32(total[r], vmulq_f32(qw_sum_lanes(p), scale[h]), vld1q_f32(rows[r].d + group));
            if (has_min)
                total[r] = vfmsq_f32(total[r], min[h], vld1q_f32(rows[r].sum + group));
        }
    }
}

/* Groups of 16: an even and an odd one share an activation scale. */
QW_INLINE void qw_add_16(qw_scales_16 *scales, qw_load *load, const void *block, const qw_gemv_row *rows, size_t n_rows,
                         size_t k, float32x4_t *total) {
    float32x4_t even[2], odd[2];

    scales(block, even, odd);
    for (size_t h = 0; h < 2; h++) {
        int8x16_t q[2][4];
        load(block, 2 * h, q[0]);
        load(block, 2 * h + 1, q[1]);
        for (size_t r = 0; r < n_rows; r++) {
            const int8_t *x = rows[r].q + k + 128 * h;
            int32x4_t p[2][4];
            for (size_t i = 0; i < 4; i++) {
                p[0][i] = qw_dot_16(q[0][i], x + 32 * i);
                p[1][i] = qw_dot_16(q[1][i], x + 32 * i + 16);
            }
            float32x4_t sum = vfmaq_f32(vmulq_f32(qw_sum_lanes(p[0]), even[h]), qw_sum_lanes(p[1]), odd[h]);
            total[r] = vfmaq_f32(total[r], sum, vld1q_f32(rows[r].d + k / QW_ACT_GROUP + 4 * h));
        }
    }
}

/* The last block of a column may be a part, of the types whose own blocks are shorter than 256. */
QW_INLINE void qw_gemv(qw_add_block *add, size_t whole_bytes, QW_GEMV_ARGS) {
    qw_gemv_row row[QW_GEMV_ROWS];

    memcpy(row, rows, n_rows * sizeof *row); /* no store can change these */
    for (size_t c = 0; c < n_cols; c++) {
        const uint8_t *block = (const uint8_t *)w + c * col_bytes;
        float32x4_t total[QW_GEMV_ROWS] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
        size_t k = 0;

        for (; k + QW_BLOCK_K <= n_k; k += QW_BLOCK_K, block += whole_bytes)
            add(block, row, n_rows, k, total);
        if (k < n_k) {
            uint8_t spare[QW_BYTES_MOST];
            add(qw_whole(block, (n_k - k) * whole_bytes / QW_BLOCK_K, whole_bytes, spare), row, n_rows, k, total);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = vaddvq_f32(total[r]);
    }
}

/* A kernel of the table from what adds one block. */
#define QW_DEFINE_NEON_GEMV(name, add)                                                                \
    QW_INLINE void qw_add_##name(const void *block, const qw_gemv_row *rows, size_t n_rows, size_t k, \
                                 float32x4_t *total) {                                                \
        add;                                                                                          \
    }                                                                                                 \
    void QW_NAME(gemv_##name)(QW_GEMV_ARGS) {                                                         \
        QW_FOR_ROWS(qw_gemv, qw_add_##name, QW_BYTES_##name)                                          \
    }
#define QW_DEFINE_GEMV_32(name, load, has_min) \
    QW_DEFINE_NEON_GEMV(name, qw_add_32(qw_scales_##name, load, has_min, block, rows, n_rows, k, total))
#define QW_DEFINE_GEMV_16(name) \
    QW_DEFINE_NEON_GEMV(name, qw_add_16(qw_scales_##name, qw_load_##name, block, rows, n_rows, k, total))

/* function with its first two arguments and the row count as constants. */
#define QW_FOR_ROWS(function, first, second)                 \
    switch (n_rows) {                                        \
        QW_FOR_N_ROWS(function, first, second, 1)            \
        QW_FOR_N_ROWS(function, first, second, 2)            \
        QW_FOR_N_ROWS(function, first, second, 3)            \
        QW_FOR_N_ROWS(function, first, second, QW_GEMV_ROWS) \
    }
#define QW_FOR_N_ROWS(function, first, second, n)                           \
    case n:                                                                 \
        function(first, second, w, col_bytes, n_cols, n_k, rows, n, y, ld); \
        break;

#endif
