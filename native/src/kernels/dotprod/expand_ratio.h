/*
 * P8 expanders of the types whose scales are per 16 or whose q has eight bits: each q is multiplied by the
 * ratio of its group's scale to the column's.
 */
#include "expand_neon.h"
#include "unpack_16.h"
#include "unpack_32.h"

QW_INLINE void qw_expand_16(qw_scales_16 *scales, qw_load *load, size_t whole_bytes, QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale);

    for (size_t unit = 0; unit < n_units; unit++) {
        uint8_t spare[QW_UNIT][QW_BYTES_MOST];
        const void *block[QW_UNIT];
        int16_t ratio[2][QW_UNIT][8]; /* of even groups, of odd ones */
        float unit_scale[QW_UNIT];

        qw_open_unit(w, col_bytes, n_cols, n_k, unit, whole_bytes, spare, block);
        for (size_t c = 0; c < QW_UNIT; c++) {
            float32x4_t even[2], odd[2];
            scales(block[c], even, odd);
            unit_scale[c] = qw_ratios(even, odd, ratio[0][c], ratio[1][c]);
        }
        qw_store_scales(scale, unit, unit_scale);

        QW_UNROLL_PARTS
        for (size_t part = 0; part < 4; part++) {
            int8x16_t q[QW_UNIT][4];
            for (size_t c = 0; c < QW_UNIT; c++) {
                load(block[c], part, q[c]);
                qw_rescale(q[c], vld1_s16(ratio[part % 2][c] + part / 2 * 4));
            }
            qw_store_part(qw_unit(panel, unit) + 8 * (part / 2 * 128 + part % 2 * 16), q, 32);
        }
    }
}

void QW_NAME(expand_q6_k)(QW_EXPAND_ARGS) {
    qw_expand_16(qw_scales_q6_k, qw_load_q6_k, QW_BYTES_q6_k, w, col_bytes, n_cols, n_k, panel, scale);
}

void QW_NAME(expand_q3_k)(QW_EXPAND_ARGS) {
    qw_expand_16(qw_scales_q3_k, qw_load_q3_k, QW_BYTES_q3_k, w, col_bytes, n_cols, n_k, panel, scale);
}

void QW_NAME(expand_q8_0)(QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale);

    for (size_t unit = 0; unit < n_units; unit++) {
        uint8_t spare[QW_UNIT][QW_BYTES_MOST];
        const void *block[QW_UNIT];
        int16_t ratio[QW_UNIT][16]; /* twice each: of both vectors of a group */
        float unit_scale[QW_UNIT];

        qw_open_unit(w, col_bytes, n_cols, n_k, unit, QW_BYTES_q8_0, spare, block);
        for (size_t c = 0; c < QW_UNIT; c++) {
            float32x4_t s[2], none[2];
            int16_t once[8], same[8];
            qw_scales_q8_0(block[c], s, none);
            unit_scale[c] = qw_ratios(s, s, once, same);
            int16x8x2_t twice = {{vld1q_s16(once), vld1q_s16(same)}};
            vst2q_s16(ratio[c], twice);
        }
        qw_store_scales(scale, unit, unit_scale);

        QW_UNROLL_PARTS
        for (size_t part = 0; part < 4; part++) {
            int8x16_t q[QW_UNIT][4];
            for (size_t c = 0; c < QW_UNIT; c++) {
                qw_load_q8_0(block[c], part, q[c]);
                qw_rescale(q[c], vld1_s16(ratio[c] + 4 * part));
            }
            qw_store_part(qw_unit(panel, unit) + 8 * 64 * part, q, 16);
        }
    }
}
