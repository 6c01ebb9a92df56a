/*
 * P8 expanders of the float types: two passes over a column, one to find its maximum and one to round.
 */
#include "expand_neon.h"
#include "floats_neon.h"

/* x[0, 256) = the n_k values at w and zeros; returns max |x|, which is not finite when a value is not. */
QW_INLINE float qw_widen_column(qw_load_floats *load, size_t value_bytes, const void *w, size_t n_k, float *x) {
    uint8_t spare[QW_BLOCK_K * sizeof(float)];
    const uint8_t *p = qw_whole(w, n_k * value_bytes, QW_BLOCK_K * value_bytes, spare);
    float32x4_t max[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};

    for (size_t k = 0; k < QW_BLOCK_K; k += 16) {
        float32x4_t v[4];
        load(p + k * value_bytes, v);
        for (size_t i = 0; i < 4; i++) {
            vst1q_f32(x + k + 4 * i, v[i]);
            max[i] = vmaxq_f32(max[i], vabsq_f32(v[i]));
        }
    }
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(max[0], max[1]), vmaxq_f32(max[2], max[3])));
}

QW_INLINE void qw_expand_floats(qw_load_floats *load, size_t value_bytes, QW_EXPAND_ARGS) {
    size_t n_units = qw_open_panel(n_cols, panel, scale);

    for (size_t unit = 0; unit < n_units; unit++) {
        float x[QW_UNIT][QW_BLOCK_K], unit_scale[QW_UNIT], inverse[QW_UNIT];

        for (size_t c = 0; c < QW_UNIT; c++) {
            size_t column = unit * QW_UNIT + c;
            bool there = column < n_cols;
            float max = qw_widen_column(load, value_bytes, (const uint8_t *)w + (there ? column * col_bytes : 0),
                                        there ? n_k : 0, x[c]);
            unit_scale[c] = qw_column_scale(max, &inverse[c]);
        }
        qw_store_scales(scale, unit, unit_scale);

        for (size_t k = 0; k < QW_BLOCK_K; k += 16) {
            int8x16_t v[QW_UNIT];
            for (size_t c = 0; c < QW_UNIT; c++)
                v[c] = qw_quantize_16(x[c] + k, inverse[c]);
            qw_store_unit(qw_unit(panel, unit) + 8 * k, v);
        }
    }
}

void QW_NAME(expand_f32)(QW_EXPAND_ARGS) {
    qw_expand_floats(qw_load_f32, sizeof(float), w, col_bytes, n_cols, n_k, panel, scale);
}

void QW_NAME(expand_f16)(QW_EXPAND_ARGS) {
    qw_expand_floats(qw_load_f16, sizeof(uint16_t), w, col_bytes, n_cols, n_k, panel, scale);
}

void QW_NAME(expand_bf16)(QW_EXPAND_ARGS) {
    qw_expand_floats(qw_load_bf16, sizeof(uint16_t), w, col_bytes, n_cols, n_k, panel, scale);
}
