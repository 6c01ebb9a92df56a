/*
 * P8 expanders of the four-bit types without a min, Q4_0, IQ4_NL and IQ4_XS: a group's int8 values are a table of
 * its 16 possible q.
 */
#include "expand_neon.h"

/* Four-bit types as groups of 32: y = d * values[q], byte i holding values i (lo) and 16 + i (hi). */
typedef struct qw_nibble_group {
    float d;
    const uint8_t *q;
} qw_nibble_group;

/* One unit of columns of eight groups each, |values| <= 128. */
QW_INLINE void qw_expand_nibbles(qw_nibble_group group[QW_UNIT][8], int8x16_t values, size_t unit, int8_t *panel,
                                 float *scale) {
    int8x16_t table[QW_UNIT][8];
    float unit_scale[QW_UNIT];

    for (size_t c = 0; c < QW_UNIT; c++) {
        float d[8];
        int16_t ratio[16];
        for (size_t j = 0; j < 8; j++)
            d[j] = group[c][j].d;
        float32x4_t low = vld1q_f32(d), high = vld1q_f32(d + 4);
        unit_scale[c] = qw_group_ratios((const float32x4_t[4]){low, high, low, high}, ratio);
        for (size_t j = 0; j < 8; j++)
            table[c][j] = qw_rescale(values, vdupq_n_s16(ratio[j]));
    }
    qw_store_scales(scale, unit, unit_scale);

    for (size_t j = 0; j < 8; j++) {
        int8x16_t low[QW_UNIT], high[QW_UNIT];
        for (size_t c = 0; c < QW_UNIT; c++) {
            uint8x16_t q = vld1q_u8(group[c][j].q);
            low[c] = vqtbl1q_s8(table[c][j], vandq_u8(q, vdupq_n_u8(15)));
            high[c] = vqtbl1q_s8(table[c][j], vshrq_n_u8(q, 4));
        }
        qw_store_unit(panel, unit, 32 * j, low);
        qw_store_unit(panel, unit, 32 * j + 16, high);
    }
}

/* Q4_0 and IQ4_NL have the same block; y = d_unit * d * values[q]. */
QW_INLINE void qw_expand_q4_blocks(QW_EXPAND_ARGS, int8x16_t values, float d_unit) {
    size_t n_units = qw_open_panel(n_cols, panel, scale), n_blocks = n_k / 32;

    for (size_t unit = 0; unit < n_units; unit++) {
        qw_nibble_group group[QW_UNIT][8];
        for (size_t c = 0; c < QW_UNIT; c++)
            for (size_t b = 0; b < 8; b++) {
                const block_q4_0 *block =
                    qw_block(w, col_bytes, n_cols, unit * QW_UNIT + c, sizeof *block, n_blocks, b);
                group[c][b] = (qw_nibble_group){d_unit * qw_half(block->d), block->q};
            }
        qw_expand_nibbles(group, values, unit, panel, scale);
    }
}

void QW_NAME(expand_q4_0)(QW_EXPAND_ARGS) {
    static const int8_t values[16] = {-128, -112, -96, -80, -64, -48, -32, -16, 0, 16, 32, 48, 64, 80, 96, 112};
    qw_expand_q4_blocks(w, col_bytes, n_cols, n_k, panel, scale, vld1q_s8(values), 1.0f / 16.0f);
}

void QW_NAME(expand_iq4_nl)(QW_EXPAND_ARGS) {
    qw_expand_q4_blocks(w, col_bytes, n_cols, n_k, panel, scale, vld1q_s8(qw_iq4_values), 1.0f);
}

void QW_NAME(expand_iq4_xs)(QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale), n_blocks = n_k / QW_BLOCK_K;

    for (size_t unit = 0; unit < n_units; unit++) {
        qw_nibble_group group[QW_UNIT][8];
        for (size_t c = 0; c < QW_UNIT; c++) {
            const block_iq4_xs *block =
                qw_block(w, col_bytes, n_cols, unit * QW_UNIT + c, sizeof *block, n_blocks, 0);
            float d = qw_half(block->d);
            for (int j = 0; j < 8; j++) {
                int low = block->scales_low[j / 2] >> 4 * (j % 2) & 15, high = block->scales_high >> 2 * j & 3;
                group[c][j] = (qw_nibble_group){d * (float)((low | high << 4) - 32), block->q + 16 * j};
            }
        }
        qw_expand_nibbles(group, vld1q_s8(qw_iq4_values), unit, panel, scale);
    }
}
