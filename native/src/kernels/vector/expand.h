/*
 * P8 expanders of every type, built on the unpackers.  The including file provides, before it includes this,
 *
 *     unpack_q4_k(w, u) ..., qw_unpacked                 256 values of a type
 *     QW_STORE_COLS                                      columns stored together, a divisor of 64
 *     store_columns(panel, column, q)                    int8 q[QW_STORE_COLS][256] from that column on
 *     store_scales(scale, column, s)                     their scales
 *     round_unpacked(u, range, q)                        those as int8 under one scale, which it returns
 */
#ifndef QW_EXPAND_H
#define QW_EXPAND_H

#include "quant_table.h"
#include "round.h"

QW_INLINE void expand_blocks(qw_unpack *unpack, qw_range range, QW_EXPAND_ARGS) {
    uint8_t room[QW_MOST_BLOCK_BYTES];
    for (size_t column = 0; column < QW_PANEL_COLS; column += QW_STORE_COLS) {
        int8_t q[QW_STORE_COLS][QW_BLOCK_K] __attribute__((aligned(64)));
        float s[QW_STORE_COLS];
        for (size_t i = 0; i < QW_STORE_COLS; i++)
            if (column + i < n_cols) {
                const char *block = (const char *)w + (column + i) * col_bytes;
                qw_unpacked u;
                unpack(whole_block(block, range, n_k, room), &u);
                s[i] = round_unpacked(&u, range, q[i]);
            } else {
                memset(q[i], 0, QW_BLOCK_K);
                s[i] = 0;
            }
        store_columns(panel, column, q);
        store_scales(scale, column, s);
    }
}

QW_INLINE void expand_floats(qw_unpack_floats *unpack, QW_EXPAND_ARGS) {
    for (size_t column = 0; column < QW_PANEL_COLS; column += QW_STORE_COLS) {
        int8_t q[QW_STORE_COLS][QW_BLOCK_K] __attribute__((aligned(64)));
        float s[QW_STORE_COLS];
        for (size_t i = 0; i < QW_STORE_COLS; i++) {
            float x[QW_BLOCK_K] = {0};
            if (column + i < n_cols)
                unpack((const char *)w + (column + i) * col_bytes, n_k, x);
            s[i] = round_floats(x, QW_BLOCK_K, q[i]);
        }
        store_columns(panel, column, q);
        store_scales(scale, column, s);
    }
}

#define EXPAND_FLOATS(isa, number, name)                                       \
    void QW_NAME(expand_##name)(QW_EXPAND_ARGS) {                              \
        expand_floats(unpack_##name, w, col_bytes, n_cols, n_k, panel, scale); \
    }
QW_FLOAT_TYPES(EXPAND_FLOATS, )

#define EXPAND_BLOCKS(isa, number, name)                                                     \
    void QW_NAME(expand_##name)(QW_EXPAND_ARGS) {                                            \
        expand_blocks(unpack_##name, range_##name, w, col_bytes, n_cols, n_k, panel, scale); \
    }
QW_QUANTIZED_TYPES(EXPAND_BLOCKS, )

#endif
