/*
 * P8 expanders.  Panel: [k / 2][64 columns][2] int16, for VPMADDWD.
 */
#include "isa.h"

#include "../vector/round_blocks.h"
#include "../vector/x86_transpose.h"

enum { QW_STORE_COLS = 8 };

QW_INLINE void store_columns(int8_t *panel, size_t column, int8_t q[QW_STORE_COLS][QW_BLOCK_K]) {
    int16_t wide[QW_STORE_COLS][QW_BLOCK_K] __attribute__((aligned(64)));
    for (size_t i = 0; i < QW_STORE_COLS; i++)
        for (size_t k = 0; k < QW_BLOCK_K; k++)
            wide[i][k] = q[i][k];
    for (size_t k = 0; k < QW_BLOCK_K; k += 16)
        transpose_8x8(wide[0] + k, sizeof wide[0], panel + 2 * k * QW_PANEL_COLS + 4 * column, 4 * QW_PANEL_COLS);
}

QW_INLINE void store_scales(float *scale, size_t column, const float s[QW_STORE_COLS]) {
    memcpy(scale + column, s, QW_STORE_COLS * sizeof *s);
}

#include "../vector/expand.h"

QW_DEFINE_EXPAND_FLOATS(f32)
QW_DEFINE_EXPAND_FLOATS(f16)
QW_DEFINE_EXPAND_FLOATS(bf16)
QW_DEFINE_EXPAND(q4_0)
QW_DEFINE_EXPAND(q4_1)
QW_DEFINE_EXPAND(q5_0)
QW_DEFINE_EXPAND(q5_1)
QW_DEFINE_EXPAND(q8_0)
QW_DEFINE_EXPAND(q3_k)
QW_DEFINE_EXPAND(q4_k)
QW_DEFINE_EXPAND(q5_k)
QW_DEFINE_EXPAND(q6_k)
QW_DEFINE_EXPAND(iq4_nl)
QW_DEFINE_EXPAND(iq4_xs)
