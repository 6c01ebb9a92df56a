/*
 * P8's NEON expanders: the frame they share.
 *
 * Columns go in units of QW_UNIT, whose values isa.h puts into the panel sixteen k at a time.  A column that
 * is not there is a block of zeros.
 */
#ifndef QW_EXPAND_NEON_H
#define QW_EXPAND_NEON_H

#include "../vector/quant_table.h"
#include "unpack_neon.h"

/* With a constant part every address of a loop's body is an offset. */
#define QW_UNROLL_PARTS _Pragma("GCC unroll 4")

/* Units of the first n_cols columns, up to a whole group of eight; the groups after it are cleared. */
QW_INLINE size_t qw_open_panel(size_t n_cols, int8_t *panel, float *scale) {
    size_t n_units = (n_cols + 7) / 8 * (8 / QW_UNIT), used = n_units * QW_UNIT;

    memset(panel + used * QW_BLOCK_K, 0, (QW_PANEL_COLS - used) * QW_BLOCK_K);
    for (size_t unit = n_units; unit < QW_PANEL_COLS / QW_UNIT; unit++)
        qw_store_scales(scale, unit, (const float[QW_UNIT]){0});
    return n_units;
}

/* One unit's blocks of 256 values, whole_bytes each. */
QW_INLINE void qw_open_unit(const void *w, size_t col_bytes, size_t n_cols, size_t n_k, size_t unit, size_t whole_bytes,
                            uint8_t spare[QW_UNIT][QW_BYTES_MOST], const void *block[QW_UNIT]) {
    for (size_t c = 0; c < QW_UNIT; c++) {
        size_t column = unit * QW_UNIT + c;
        bool there = column < n_cols;
        block[c] = qw_whole(there ? (const uint8_t *)w + column * col_bytes : w,
                            there ? n_k * whole_bytes / QW_BLOCK_K : 0, whole_bytes, spare[c]);
    }
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

/*
 * The ratios of sixteen groups' scales to the column's, which is returned, in Q15: at most 127 / 128, so that
 * even q = -128 becomes no more than 127.
 */
QW_INLINE float qw_ratios(const float32x4_t s[2], const float32x4_t t[2], int16_t s_ratio[8], int16_t t_ratio[8]) {
    float32x4_t most = vmaxq_f32(vmaxq_f32(vabsq_f32(s[0]), vabsq_f32(s[1])),
                                 vmaxq_f32(vabsq_f32(t[0]), vabsq_f32(t[1])));
    float inverse, scale = qw_column_scale(128.0f * vmaxvq_f32(most), &inverse), factor = 0x1p+15f * inverse;

    vst1q_s16(s_ratio, qw_round_s16(vmulq_n_f32(s[0], factor), vmulq_n_f32(s[1], factor)));
    vst1q_s16(t_ratio, qw_round_s16(vmulq_n_f32(t[0], factor), vmulq_n_f32(t[1], factor)));
    return scale;
}

/* q * ratio / 2^15, rounded. */
#define QW_RESCALE(q, ratio, lane)                                           \
    qw_narrow_s16(vqrdmulhq_lane_s16(vmovl_s8(vget_low_s8(q)), ratio, lane), \
                  vqrdmulhq_lane_s16(vmovl_high_s8(q), ratio, lane))

/* Four vectors, each with its ratio. */
QW_INLINE void qw_rescale(int8x16_t q[4], int16x4_t ratio) {
    q[0] = QW_RESCALE(q[0], ratio, 0);
    q[1] = QW_RESCALE(q[1], ratio, 1);
    q[2] = QW_RESCALE(q[2], ratio, 2);
    q[3] = QW_RESCALE(q[3], ratio, 3);
}

/* Four vectors of each column of a unit, step values of k apart. */
QW_INLINE void qw_store_part(int8_t *out, int8x16_t q[QW_UNIT][4], size_t step) {
    for (size_t i = 0; i < 4; i++) {
        int8x16_t column[QW_UNIT];
        for (size_t c = 0; c < QW_UNIT; c++)
            column[c] = q[c][i];
        qw_store_unit(out + 8 * step * i, column);
    }
}

#endif
