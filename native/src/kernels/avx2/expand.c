/*
 * P8 expanders.  Panel: [k / 2][64 columns][2] int16, for VPMADDWD.
 */
#include "isa.h"

#include "../vector/round.h"
#include "../vector/x86_transpose.h"
#include "unpack.h"

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

QW_INLINE float round_unpacked(const qw_unpacked *u, qw_range range, int8_t *q) {
    float x[QW_BLOCK_K];
    (void)range;
    for (int g = 0; g < QW_BLOCK_K / 16; g++)
        for (int i = 0; i < 16; i++)
            x[16 * g + i] = u->scale[g] * (float)u->q[16 * g + i] - u->min[g / 2];
    return round_floats(x, QW_BLOCK_K, q);
}

#include "../vector/expand.h"
