/* SiLU and sigmoid gates, and the residual's addition.  A short last vector takes the same arithmetic. */
#ifndef QW_F32_ACTIVATION_H
#define QW_F32_ACTIVATION_H

#include "f32_vec.h"

QW_INLINE void silu_mul(const float *gate, const float *up, float *y, size_t n) {
    vf_store_n(y, vf_silu(vf_load_n(gate, n)) * vf_load_n(up, n), n);
}

void QW_NAME(silu_mul)(const float *gate, const float *up, size_t n, float *y) {
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        silu_mul(gate + i, up + i, y + i, QW_VL);
    if (i < n)
        silu_mul(gate + i, up + i, y + i, n - i);
}

QW_INLINE void sigmoid_mul(const float *gate, const float *x, float *y, size_t n) {
    vf_store_n(y, vf_sigmoid(vf_load_n(gate, n)) * vf_load_n(x, n), n);
}

void QW_NAME(sigmoid_mul)(const float *gate, const float *x, size_t n, float *y) {
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        sigmoid_mul(gate + i, x + i, y + i, QW_VL);
    if (i < n)
        sigmoid_mul(gate + i, x + i, y + i, n - i);
}

void QW_NAME(add)(const float *x, size_t n, float *y) {
    size_t i = 0;

    for (; i + QW_VL <= n; i += QW_VL)
        vf_store(y + i, vf_load(y + i) + vf_load(x + i));
    vf_store_n(y + i, vf_load_n(y + i, n - i) + vf_load_n(x + i, n - i), n - i);
}

#endif
