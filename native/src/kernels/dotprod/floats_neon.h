/*
 * The float types for NEON: sixteen values to f32.
 */
#ifndef QW_FLOATS_NEON_H
#define QW_FLOATS_NEON_H

#include "neon.h"

typedef void qw_load_floats(const void *w, float32x4_t x[4]);

QW_INLINE void qw_load_f32(const void *w, float32x4_t x[4]) {
    const float *p = w;
    for (size_t i = 0; i < 4; i++)
        x[i] = vld1q_f32(p + 4 * i);
}

QW_INLINE void qw_load_f16(const void *w, float32x4_t x[4]) {
    const uint16_t *p = w;
    for (size_t i = 0; i < 2; i++) {
        float16x8_t h = vreinterpretq_f16_u16(vld1q_u16(p + 8 * i));
        x[2 * i] = vcvt_f32_f16(vget_low_f16(h));
        x[2 * i + 1] = vcvt_high_f32_f16(h);
    }
}

QW_INLINE void qw_load_bf16(const void *w, float32x4_t x[4]) {
    const uint16_t *p = w;
    for (size_t i = 0; i < 2; i++) {
        uint16x8_t h = vld1q_u16(p + 8 * i);
        x[2 * i] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
        x[2 * i + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(h, 16));
    }
}

#endif
