/* Rows of halves to and from floats, by the processor's own conversions. */
#ifndef QW_F32_HALF_H
#define QW_F32_HALF_H

#include "f32_vec.h"

typedef uint16_t vh __attribute__((vector_size(2 * QW_VL)));

#if defined(__aarch64__)

QW_INLINE vf vf_from_half(vh h) {
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

QW_INLINE vh vf_to_half(vf x) {
    return vreinterpret_u16_f16(vcvt_f16_f32(x));
}

#elif QW_VL == 16

QW_INLINE vf vf_from_half(vh h) {
    return _mm512_cvtph_ps((__m256i)h);
}

QW_INLINE vh vf_to_half(vf x) {
    return (vh)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

#else

QW_INLINE vf vf_from_half(vh h) {
    return _mm256_cvtph_ps((__m128i)h);
}

QW_INLINE vh vf_to_half(vf x) {
    return (vh)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
}

#endif

QW_INLINE void half_to_float(const uint16_t *x, float *y, size_t n) {
    vh h = {0};

    memcpy(&h, x, 2 * n);
    vf_store_n(y, vf_from_half(h), n);
}

QW_INLINE void float_to_half(const float *x, uint16_t *y, size_t n) {
    vh h = vf_to_half(vf_load_n(x, n));

    memcpy(y, &h, 2 * n);
}

void QW_NAME(f16_to_f32)(const uint16_t *x, size_t n, float *y) {
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        half_to_float(x + i, y + i, QW_VL);
    if (i < n)
        half_to_float(x + i, y + i, n - i);
}

void QW_NAME(f32_to_f16)(const float *x, size_t n, uint16_t *y) {
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        float_to_half(x + i, y + i, QW_VL);
    if (i < n)
        float_to_half(x + i, y + i, n - i);
}

#endif
