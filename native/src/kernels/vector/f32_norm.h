/* Dot product, RMS norm and L2 norm.  Four sums, so that the additions need not wait for each other. */
#ifndef QW_F32_NORM_H
#define QW_F32_NORM_H

#include <math.h>

#include "f32_vec.h"

QW_INLINE float dot(const float *a, const float *b, size_t n) {
    vf sum[4] = {{0}};
    size_t i = 0;

    for (; i + 4 * QW_VL <= n; i += 4 * QW_VL)
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
            sum[j] = vf_fma(vf_load(a + i + j * QW_VL), vf_load(b + i + j * QW_VL), sum[j]);
    for (; i + QW_VL <= n; i += QW_VL)
        sum[0] = vf_fma(vf_load(a + i), vf_load(b + i), sum[0]);
    sum[1] = vf_fma(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i), sum[1]);
    return vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

float QW_NAME(dot_f32)(const float *a, const float *b, size_t n) {
    return dot(a, b, n);
}

void QW_NAME(rms_norm)(const float *x, const float *weight, float eps, size_t n, float *y) {
    float scale = 1 / sqrtf(dot(x, x, n) / (float)n + eps);
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        vf_store(y + i, vf_load(x + i) * scale * vf_load(weight + i));
    vf_store_n(y + i, vf_load_n(x + i, n - i) * scale * vf_load_n(weight + i, n - i), n - i);
}

void QW_NAME(l2_norm)(float *x, size_t n, float eps, float scale) {
    float factor = scale / sqrtf(dot(x, x, n) + eps);
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        vf_store(x + i, vf_load(x + i) * factor);
    vf_store_n(x + i, vf_load_n(x + i, n - i) * factor, n - i);
}

#endif
