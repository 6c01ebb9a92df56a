/*
 * GEMV built on the unpackers: a block is unpacked once and multiplied with every row.
 * The including file provides
 *
 *     dot_sum                                            one row's running sum, as wide as it likes
 *     dot_block(sum, u, range, q, d, group_sum)          + sum over 8 groups of d * (w . q) - min * group_sum
 *     dot_total(sum)
 *
 * or takes those of dot.h, and then says QW_DEFINE_GEMV(q4_k) or QW_DEFINE_GEMV_FLOATS(f16) per type.
 * A column's sum has one order of operations, whatever n_cols and n_rows are.
 */
#ifndef QW_GEMV_H
#define QW_GEMV_H

#include "quant_table.h"
#include "unpack.h"

QW_INLINE size_t gemv_part(size_t n_k, size_t k) {
    return n_k - k < QW_BLOCK_K ? n_k - k : QW_BLOCK_K;
}

QW_INLINE void gemv_blocks(qw_unpack *unpack, qw_range range, size_t block_bytes, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const char *block = (const char *)w + c * col_bytes;
        dot_sum sum[QW_GEMV_ROWS] = {0};
        for (size_t k = 0; k < n_k; k += QW_BLOCK_K, block += block_bytes) {
            qw_unpacked u;
            size_t n = gemv_part(n_k, k), g = k / QW_ACT_GROUP;
            if (n < QW_BLOCK_K)
                memset(&u, 0, sizeof u);
            unpack(block, n, &u);
            for (size_t r = 0; r < n_rows; r++)
                sum[r] = dot_block(sum[r], &u, range, rows[r].q + k, rows[r].d + g, rows[r].sum + g);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = dot_total(sum[r]);
    }
}

/* Plain lanes: enough of them that the additions of several vectors overlap. */
enum { GEMV_LANES = 4 * QW_VL };

QW_INLINE void gemv_floats(qw_unpack_floats *unpack, size_t value_bytes, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const char *column = (const char *)w + c * col_bytes;
        float sum[QW_GEMV_ROWS][GEMV_LANES] = {0};
        for (size_t k = 0; k < n_k; k += QW_BLOCK_K) {
            float values[QW_BLOCK_K];
            size_t n = gemv_part(n_k, k), i;
            unpack(column + k * value_bytes, n, values);
            for (size_t r = 0; r < n_rows; r++) {
                const float *x = rows[r].x + k;
                float lanes[GEMV_LANES];
                memcpy(lanes, sum[r], sizeof lanes);
                for (i = 0; i + GEMV_LANES <= n; i += GEMV_LANES)
                    for (size_t lane = 0; lane < GEMV_LANES; lane++)
                        lanes[lane] += values[i + lane] * x[i + lane];
                for (; i < n; i++)
                    lanes[i % GEMV_LANES] += values[i] * x[i];
                memcpy(sum[r], lanes, sizeof lanes);
            }
        }
        for (size_t r = 0; r < n_rows; r++) {
            for (size_t width = GEMV_LANES / 2; width; width /= 2)
                for (size_t lane = 0; lane < width; lane++)
                    sum[r][lane] += sum[r][lane + width];
            y[r * ld + c] = sum[r][0];
        }
    }
}

/* Bytes of 256 values of a type. */
enum {
    bytes_q4_0 = 8 * sizeof(block_q4_0), bytes_q4_1 = 8 * sizeof(block_q4_1), bytes_q5_0 = 8 * sizeof(block_q5_0),
    bytes_q5_1 = 8 * sizeof(block_q5_1), bytes_q8_0 = 8 * sizeof(block_q8_0), bytes_iq4_nl = 8 * sizeof(block_iq4_nl),
    bytes_q3_k = sizeof(block_q3_k), bytes_q4_k = sizeof(block_q4_k), bytes_q5_k = sizeof(block_q5_k),
    bytes_q6_k = sizeof(block_q6_k), bytes_iq4_xs = sizeof(block_iq4_xs)
};

#define QW_DEFINE_GEMV(name)                                                                                       \
    void QW_NAME(gemv_##name)(QW_GEMV_ARGS) {                                                                      \
        gemv_blocks(unpack_##name, range_##name, bytes_##name, w, col_bytes, n_cols, n_k, rows, n_rows, y, ld);    \
    }

#define QW_DEFINE_GEMV_FLOATS(name, value_type)                                                                    \
    void QW_NAME(gemv_##name)(QW_GEMV_ARGS) {                                                                      \
        gemv_floats(unpack_##name, sizeof(value_type), w, col_bytes, n_cols, n_k, rows, n_rows, y, ld);            \
    }

#endif
