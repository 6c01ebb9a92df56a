/*
 * GEMV of every type, built on the unpackers: a block is unpacked once and multiplied with every row.
 * The including file provides, before it includes this,
 *
 *     unpack_q4_k(w, u) ..., qw_unpacked                 256 values of a type
 *     dot_sum                                            one row's running sum, as wide as it likes
 *     dot_block(sum, u, range, q, d, group_sum)          + sum over 8 groups of d * (w . q) - min * group_sum
 *     dot_total(sum)
 *
 * A column's sum has one order of operations, whatever n_cols and n_rows are.
 */
#ifndef QW_GEMV_H
#define QW_GEMV_H

#include "quant_table.h"
#include "weights.h"

QW_INLINE size_t gemv_part(size_t n_k, size_t k) {
    return n_k - k < QW_BLOCK_K ? n_k - k : QW_BLOCK_K;
}

/* n_rows is a constant here, so that the sums stay in registers. */
QW_INLINE void gemv_blocks_of(qw_unpack *unpack, qw_range range, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const char *block = (const char *)w + c * col_bytes;
        uint8_t room[QW_MOST_BLOCK_BYTES];
        dot_sum sum[QW_GEMV_ROWS] = {0};
        for (size_t k = 0; k < n_k; k += QW_BLOCK_K, block += range.bytes) {
            qw_unpacked u;
            size_t g = k / QW_ACT_GROUP;
            unpack(whole_block(block, range, gemv_part(n_k, k), room), &u);
            for (size_t r = 0; r < n_rows; r++)
                sum[r] = dot_block(sum[r], &u, range, rows[r].q + k, rows[r].d + g, rows[r].sum + g);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = dot_total(sum[r]);
    }
}

typedef float lanes __attribute__((vector_size(QW_VL * sizeof(float)), aligned(4), may_alias));

/* Four vectors per row, so that their additions overlap. */
enum { GEMV_VECTORS = 4, GEMV_LANES = GEMV_VECTORS * QW_VL };

QW_INLINE void gemv_floats_of(qw_unpack_floats *unpack, size_t value_bytes, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const char *column = (const char *)w + c * col_bytes;
        lanes sum[QW_GEMV_ROWS][GEMV_VECTORS] = {0};
        for (size_t k = 0; k < n_k; k += QW_BLOCK_K) {
            float values[QW_BLOCK_K], room[QW_GEMV_ROWS][QW_BLOCK_K];
            const float *x[QW_GEMV_ROWS];
            size_t n = gemv_part(n_k, k), n_whole = (n + GEMV_LANES - 1) / GEMV_LANES * GEMV_LANES;
            unpack(column + k * value_bytes, n, values);
            for (size_t r = 0; r < n_rows; r++)
                x[r] = rows[r].x + k;
            if (n < n_whole) { /* what is missing counts as zeros */
                memset(values + n, 0, (n_whole - n) * sizeof *values);
                for (size_t r = 0; r < n_rows; r++) {
                    memcpy(room[r], x[r], n * sizeof(float));
                    memset(room[r] + n, 0, (n_whole - n) * sizeof(float));
                    x[r] = room[r];
                }
            }
            for (size_t i = 0; i < n_whole; i += GEMV_LANES)
                for (size_t r = 0; r < n_rows; r++)
                    for (size_t v = 0; v < GEMV_VECTORS; v++)
                        sum[r][v] += *(const lanes *)(values + i + v * QW_VL) * *(const lanes *)(x[r] + i + v * QW_VL);
        }
        for (size_t r = 0; r < n_rows; r++) {
            lanes total = (sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]);
            float lane[QW_VL];
            memcpy(lane, &total, sizeof lane);
            for (size_t width = QW_VL / 2; width; width /= 2)
                for (size_t i = 0; i < width; i++)
                    lane[i] += lane[i + width];
            y[r * ld + c] = lane[0];
        }
    }
}

/* One copy of a function per row count: 1 .. QW_GEMV_ROWS. */
#define GEMV_PER_ROWS(function, ...)                                      \
    switch (n_rows) {                                                     \
    case 1:                                                               \
        function(__VA_ARGS__, w, col_bytes, n_cols, n_k, rows, 1, y, ld); \
        break;                                                            \
    case 2:                                                               \
        function(__VA_ARGS__, w, col_bytes, n_cols, n_k, rows, 2, y, ld); \
        break;                                                            \
    case 3:                                                               \
        function(__VA_ARGS__, w, col_bytes, n_cols, n_k, rows, 3, y, ld); \
        break;                                                            \
    case 4:                                                               \
        function(__VA_ARGS__, w, col_bytes, n_cols, n_k, rows, 4, y, ld); \
    }

#define GEMV_FLOATS(isa, number, name)                                         \
    void QW_NAME(gemv_##name)(QW_GEMV_ARGS) {                                  \
        GEMV_PER_ROWS(gemv_floats_of, unpack_##name, qw_row_bytes(number, 1)); \
    }
QW_FLOAT_TYPES(GEMV_FLOATS, )

#define GEMV_BLOCKS(isa, number, name)                              \
    void QW_NAME(gemv_##name)(QW_GEMV_ARGS) {                       \
        GEMV_PER_ROWS(gemv_blocks_of, unpack_##name, range_##name); \
    }
QW_QUANTIZED_TYPES(GEMV_BLOCKS, )

#endif
