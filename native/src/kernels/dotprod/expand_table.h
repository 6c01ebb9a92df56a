/*
 * P8 expanders of the types whose q has four or five bits: a group's int8 values are a table of its 16 or 32
 * possible q, and expanding is looking them up.
 */
#include "expand_neon.h"
#include "unpack_32.h"

/* Fills a block's eight tables of n * 16 values and returns the column's scale. */
typedef float qw_fill_tables(const void *block, int8x16_t *table);

QW_INLINE void qw_expand_by_table(qw_fill_tables *fill, qw_load *load, size_t n, size_t whole_bytes, QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale);

    for (size_t unit = 0; unit < n_units; unit++) {
        uint8_t spare[QW_UNIT][QW_BYTES_MOST];
        const void *block[QW_UNIT];
        int8x16_t table[QW_UNIT][16];
        float unit_scale[QW_UNIT];

        qw_open_unit(w, col_bytes, n_cols, n_k, unit, whole_bytes, spare, block);
        for (size_t c = 0; c < QW_UNIT; c++)
            unit_scale[c] = fill(block[c], table[c]);
        qw_store_scales(scale, unit, unit_scale);

        QW_UNROLL_PARTS
        for (size_t part = 0; part < 4; part++) {
            int8x16_t q[QW_UNIT][4];
            for (size_t c = 0; c < QW_UNIT; c++) {
                load(block[c], part, q[c]);
                for (size_t i = 0; i < 4; i++) {
                    const int8x16_t *t = table[c] + n * (2 * part + i / 2);
                    uint8x16_t index = vreinterpretq_u8_s8(q[c][i]);
                    q[c][i] = n == 1 ? vqtbl1q_s8(t[0], index) : vqtbl2q_s8((int8x16x2_t){{t[0], t[1]}}, index);
                }
            }
            qw_store_part(qw_unit(panel, unit) + 8 * 64 * part, q, 16);
        }
    }
}

/* The int8 values of q = first, .., first + 15: (s * q + m) / 128, rounded. */
QW_INLINE int8x16_t qw_affine_table(int16_t first, int16x8_t s, int16x8_t m) {
    static const int16_t from_0[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int16x8_t q = vaddq_s16(vld1q_s16(from_0), vdupq_n_s16(first));
    int16x8_t low = vmlaq_s16(m, q, s), high = vmlaq_s16(m, vaddq_s16(q, vdupq_n_s16(8)), s);

    return vrshrn_high_n_s16(vrshrn_n_s16(low, 7), high, 7);
}

/*
 * Tables of scale * q - min.  In units of a 128th of the column's scale no int16 overflows: |min| and
 * |scale * q_max - min| are at most 127 * 128, so |scale * q| < 2^15.
 */
QW_INLINE float qw_affine_tables(const float32x4_t scale[2], const float32x4_t min[2], size_t n, int8x16_t *table) {
    float32x4_t most = vdupq_n_f32(0);
    float inverse;
    int16_t s[8], m[8];

    for (size_t h = 0; h < 2; h++) {
        float32x4_t top = vfmsq_n_f32(min[h], scale[h], (float)(16 * n - 1));
        most = vmaxq_f32(most, vmaxq_f32(vabsq_f32(min[h]), vabsq_f32(top)));
    }
    float column_scale = qw_column_scale(vmaxvq_f32(most), &inverse), factor = 128.0f * inverse;
    vst1q_s16(s, qw_round_s16(vmulq_n_f32(scale[0], factor), vmulq_n_f32(scale[1], factor)));
    vst1q_s16(m, qw_round_s16(vmulq_n_f32(min[0], -factor), vmulq_n_f32(min[1], -factor)));
    for (size_t g = 0; g < 8; g++)
        for (size_t i = 0; i < n; i++)
            table[n * g + i] = qw_affine_table((int16_t)(16 * i), vld1q_dup_s16(&s[g]), vld1q_dup_s16(&m[g]));
    return column_scale;
}

QW_INLINE float qw_iq4_tables(const float32x4_t scale[2], int8x16_t *table) {
    int16_t ratio[8], same[8];
    float column_scale = qw_ratios(scale, scale, ratio, same);

    for (size_t g = 0; g < 8; g++)
        table[g] = vld1q_s8(qw_iq4_values);
    qw_rescale(table, vld1_s16(ratio));
    qw_rescale(table + 4, vld1_s16(ratio + 4));
    return column_scale;
}

#define QW_EXPAND_BY_TABLE(name, n, tables)                                                                      \
    QW_INLINE float qw_fill_##name(const void *block, int8x16_t *table) {                                        \
        float32x4_t s[2], m[2];                                                                                  \
        qw_scales_##name(block, s, m);                                                                           \
        return tables;                                                                                           \
    }                                                                                                            \
    void QW_NAME(expand_##name)(QW_EXPAND_ARGS) {                                                                \
        qw_expand_by_table(qw_fill_##name, qw_load_##name, n, QW_BYTES_##name, w, col_bytes, n_cols, n_k, panel, \
                           scale);                                                                               \
    }

QW_EXPAND_BY_TABLE(q4_0, 1, qw_affine_tables(s, m, 1, table))
QW_EXPAND_BY_TABLE(q4_1, 1, qw_affine_tables(s, m, 1, table))
QW_EXPAND_BY_TABLE(q4_k, 1, qw_affine_tables(s, m, 1, table))
QW_EXPAND_BY_TABLE(q5_0, 2, qw_affine_tables(s, m, 2, table))
QW_EXPAND_BY_TABLE(q5_1, 2, qw_affine_tables(s, m, 2, table))
QW_EXPAND_BY_TABLE(q5_k, 2, qw_affine_tables(s, m, 2, table))
QW_EXPAND_BY_TABLE(iq4_nl, 1, qw_iq4_tables(s, table))
QW_EXPAND_BY_TABLE(iq4_xs, 1, qw_iq4_tables(s, table))
