/*
 * P8 expanders of the types without a min and with more than four bits, Q6_K and Q8_0: multiply each group's values
 * by the ratio of its scale to the column's.
 */
#include "expand_neon.h"

/* Q6_K's values are unpacked as 4 * (q - 32), which fills an int8. */
QW_INLINE float qw_q6_k_ratios(const block_q6_k *block, int16_t ratio[16]) {
    float d = 0.25f * qw_half(block->d);
    int8x16_t scales = vld1q_s8(block->scales);
    int16x8_t low = vmovl_s8(vget_low_s8(scales)), high = vmovl_high_s8(scales);
    float32x4_t group[4] = {
        vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), d), vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(low)), d),
        vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), d), vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(high)), d),
    };
    return qw_group_ratios(group, ratio);
}

void QW_NAME(expand_q6_k)(QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale), n_blocks = n_k / QW_BLOCK_K;

    for (size_t unit = 0; unit < n_units; unit++) {
        const block_q6_k *block[QW_UNIT];
        int16_t ratio[QW_UNIT][16];
        float unit_scale[QW_UNIT];

        for (size_t c = 0; c < QW_UNIT; c++) {
            block[c] = qw_block(w, col_bytes, n_cols, unit * QW_UNIT + c, sizeof *block[c], n_blocks, 0);
            unit_scale[c] = qw_q6_k_ratios(block[c], ratio[c]);
        }
        qw_store_scales(scale, unit, unit_scale);

        for (size_t i = 0; i < 4; i++) { /* sixteen values of each of a half block's four groups of 32 */
            size_t n = i / 2, l = i % 2 * 16;
            int8x16_t v[4][QW_UNIT];
            for (size_t c = 0; c < QW_UNIT; c++) {
                int8x16_t q[4];
                qw_unpack_q6_k(block[c]->low + 64 * n + l, block[c]->low + 64 * n + 32 + l, block[c]->high + 32 * n + l, q);
                for (size_t k = 0; k < 4; k++)
                    v[k][c] = qw_rescale(q[k], vdupq_n_s16(ratio[c][8 * n + 2 * k + l / 16]));
            }
            for (size_t k = 0; k < 4; k++)
                qw_store_unit(panel, unit, 128 * n + 32 * k + l, v[k]);
        }
    }
}

void QW_NAME(expand_q8_0)(QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale), n_blocks = n_k / 32;

    for (size_t unit = 0; unit < n_units; unit++) {
        const block_q8_0 *block[QW_UNIT][8];
        int16_t ratio[QW_UNIT][16];
        float unit_scale[QW_UNIT];

        for (size_t c = 0; c < QW_UNIT; c++) {
            float d[8];
            for (size_t b = 0; b < 8; b++) {
                block[c][b] = qw_block(w, col_bytes, n_cols, unit * QW_UNIT + c, sizeof **block[c], n_blocks, b);
                d[b] = qw_half(block[c][b]->d);
            }
            float32x4_t low = vld1q_f32(d), high = vld1q_f32(d + 4);
            unit_scale[c] = qw_group_ratios((const float32x4_t[4]){low, high, low, high}, ratio[c]);
        }
        qw_store_scales(scale, unit, unit_scale);

        for (size_t k = 0; k < QW_BLOCK_K; k += 16) {
            int8x16_t v[QW_UNIT];
            for (size_t c = 0; c < QW_UNIT; c++)
                v[c] = qw_rescale(vld1q_s8(block[c][k / 32]->q + k % 32), vdupq_n_s16(ratio[c][k / 32]));
            qw_store_unit(panel, unit, k, v);
        }
    }
}
