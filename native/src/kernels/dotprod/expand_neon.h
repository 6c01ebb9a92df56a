/*
 * P8's NEON expanders: the frame they share.
 *
 * Columns go in units of QW_UNIT, whose values isa.h puts into the panel sixteen k at a time.  A column or a
 * block that is not there is read from zeros.
 */
#ifndef QW_EXPAND_NEON_H
#define QW_EXPAND_NEON_H

#include "../vector/quant_table.h"
#include "neon.h"

static const uint8_t qw_zero_block[QW_BLOCK_K]; /* longer than any block */

/* Units of the first n_cols columns, up to a whole group of eight; the groups after it are cleared. */
QW_INLINE size_t qw_open_panel(size_t n_cols, int8_t *panel, float *scale) {
    size_t n_units = (n_cols + 7) / 8 * (8 / QW_UNIT), used = n_units * QW_UNIT;

    memset(panel + used * QW_BLOCK_K, 0, (QW_PANEL_COLS - used) * QW_BLOCK_K);
    for (size_t unit = n_units; unit < QW_PANEL_COLS / QW_UNIT; unit++)
        qw_store_scales(scale, unit, (const float[QW_UNIT]){0});
    return n_units;
}

/* Block b of a column, of block_bytes each. */
QW_INLINE const void *qw_block(const void *w, size_t col_bytes, size_t n_cols, size_t col, size_t block_bytes,
                               size_t n_blocks, size_t b) {
    return col < n_cols && b < n_blocks ? (const uint8_t *)w + col * col_bytes + b * block_bytes : qw_zero_block;
}

/*
 * A column's scale, max / 127, and what its weights are multiplied by: NaN and 0 when max is not finite.
 * The floor keeps 127 / max finite.
 */
QW_INLINE float qw_column_scale(float max, float *inverse) {
    if (!(max < INFINITY)) {
        *inverse = 0;
        return NAN;
    }
    max = max > 0x1p-100f ? max : 0x1p-100f;
    *inverse = 127.0f / max;
    return max * (1.0f / 127.0f);
}

/* v * ratio / 2^15, rounded; |ratio| <= 127 / 128 * 2^15, so that even v = -128 gives no more than 127. */
QW_INLINE int8x16_t qw_rescale(int8x16_t v, int16x8_t ratio) {
    return qw_narrow_s16(vqrdmulhq_s16(vmovl_s8(vget_low_s8(v)), ratio), vqrdmulhq_s16(vmovl_high_s8(v), ratio));
}

/* The ratios, for qw_rescale, of sixteen groups' scales to the column's scale, which is returned. */
QW_INLINE float qw_group_ratios(const float32x4_t group[4], int16_t ratio[16]) {
    float32x4_t most = vmaxq_f32(vmaxq_f32(vabsq_f32(group[0]), vabsq_f32(group[1])),
                                 vmaxq_f32(vabsq_f32(group[2]), vabsq_f32(group[3])));
    float inverse, scale = qw_column_scale(128.0f * vmaxvq_f32(most), &inverse);
    float factor = 0x1p+15f * inverse;

    vst1q_s16(ratio, qw_round_s16(vmulq_n_f32(group[0], factor), vmulq_n_f32(group[1], factor)));
    vst1q_s16(ratio + 8, qw_round_s16(vmulq_n_f32(group[2], factor), vmulq_n_f32(group[3], factor)));
    return scale;
}

#endif
