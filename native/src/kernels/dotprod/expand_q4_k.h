/*
 * P8 expanders of Q4_K and Q5_K: a value is d * scale * q - dmin * min, so a sub-block's int8 values are a table of
 * its 16 or 32 possible q, and expanding is looking them up.
 */
#include "expand_neon.h"

/* The int8 values of q = first, .., first + 15: (s * q - m) / 128, rounded. */
QW_INLINE int8x16_t qw_k_table(int16_t first, int16x8_t s, int16x8_t m) {
    static const int16_t from_0[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int16x8_t q = vaddq_s16(vld1q_s16(from_0), vdupq_n_s16(first));
    int16x8_t low = vsubq_s16(vmulq_s16(q, s), m);
    int16x8_t high = vsubq_s16(vmulq_s16(vaddq_s16(q, vdupq_n_s16(8)), s), m);

    return vrshrn_high_n_s16(vrshrn_n_s16(low, 7), high, 7);
}

/*
 * A block's eight tables of n * 16 values; returns the column's scale.
 * No product overflows: |m| and |s * q_max - m| are at most 127 * 128, so |s * q| < 2^15.
 */
QW_INLINE float qw_k_tables(const void *block, size_t n, int8x16_t *table) {
    float32x4_t scale[2], min[2], most = vdupq_n_f32(0);
    int16_t s[8], m[8];
    uint16_t d[2];

    memcpy(d, block, sizeof d);
    qw_k_scales(block, scale, min);
    for (size_t i = 0; i < 2; i++) {
        scale[i] = vmulq_n_f32(scale[i], qw_half(d[0]));
        min[i] = vmulq_n_f32(min[i], qw_half(d[1]));
        float32x4_t top = vfmsq_n_f32(min[i], scale[i], (float)(16 * n - 1));
        most = vmaxq_f32(most, vmaxq_f32(vabsq_f32(min[i]), vabsq_f32(top)));
    }
    float inverse, unit = qw_column_scale(vmaxvq_f32(most), &inverse), factor = 128.0f * inverse;
    vst1q_s16(s, qw_round_s16(vmulq_n_f32(scale[0], factor), vmulq_n_f32(scale[1], factor)));
    vst1q_s16(m, qw_round_s16(vmulq_n_f32(min[0], factor), vmulq_n_f32(min[1], factor)));
    for (size_t j = 0; j < 8; j++)
        for (size_t i = 0; i < n; i++)
            table[n * j + i] = qw_k_table((int16_t)(16 * i), vdupq_n_s16(s[j]), vdupq_n_s16(m[j]));
    return unit;
}

void QW_NAME(expand_q4_k)(QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale), n_blocks = n_k / QW_BLOCK_K;

    for (size_t unit = 0; unit < n_units; unit++) {
        const block_q4_k *block[QW_UNIT];
        int8x16_t table[QW_UNIT][8];
        float unit_scale[QW_UNIT];

        for (size_t c = 0; c < QW_UNIT; c++) {
            block[c] = qw_block(w, col_bytes, n_cols, unit * QW_UNIT + c, sizeof *block[c], n_blocks, 0);
            unit_scale[c] = qw_k_tables(block[c], 1, table[c]);
        }
        qw_store_scales(scale, unit, unit_scale);

        for (size_t j = 0; j < 8; j += 2)
            for (size_t half = 0; half < 2; half++) {
                int8x16_t low[QW_UNIT], high[QW_UNIT];
                for (size_t c = 0; c < QW_UNIT; c++) {
                    uint8x16_t q = vld1q_u8(block[c]->q + 16 * (j + half));
                    low[c] = vqtbl1q_s8(table[c][j], vandq_u8(q, vdupq_n_u8(15)));
                    high[c] = vqtbl1q_s8(table[c][j + 1], vshrq_n_u8(q, 4));
                }
                qw_store_unit(panel, unit, 32 * j + 16 * half, low);
                qw_store_unit(panel, unit, 32 * j + 16 * half + 32, high);
            }
    }
}

void QW_NAME(expand_q5_k)(QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale), n_blocks = n_k / QW_BLOCK_K;

    for (size_t unit = 0; unit < n_units; unit++) {
        const block_q5_k *block[QW_UNIT];
        int8x16x2_t table[QW_UNIT][8];
        float unit_scale[QW_UNIT];

        for (size_t c = 0; c < QW_UNIT; c++) {
            block[c] = qw_block(w, col_bytes, n_cols, unit * QW_UNIT + c, sizeof *block[c], n_blocks, 0);
            unit_scale[c] = qw_k_tables(block[c], 2, table[c][0].val);
        }
        qw_store_scales(scale, unit, unit_scale);

        for (size_t j = 0; j < 8; j += 2)
            for (size_t half = 0; half < 2; half++) {
                const uint8x16_t mask = vdupq_n_u8(31);
                int8x16_t low[QW_UNIT], high[QW_UNIT];
                for (size_t c = 0; c < QW_UNIT; c++) {
                    uint8x16_t q = vld1q_u8(block[c]->q + 16 * (j + half));
                    uint8x16_t fifth = vshlq_u8(vld1q_u8(block[c]->high + 16 * half), vdupq_n_s8(-(int8_t)j));
                    uint8x16_t next = vshrq_n_u8(fifth, 1);
                    low[c] = vqtbl2q_s8(table[c][j], vandq_u8(vsliq_n_u8(q, fifth, 4), mask));
                    high[c] = vqtbl2q_s8(table[c][j + 1], vandq_u8(vsliq_n_u8(vshrq_n_u8(q, 4), next, 4), mask));
                }
                qw_store_unit(panel, unit, 32 * j + 16 * half, low);
                qw_store_unit(panel, unit, 32 * j + 16 * half + 32, high);
            }
    }
}
