/* The causal depthwise convolution and its SiLU, a vector of channels at a time over all tokens. */
#ifndef QW_F32_CONV_H
#define QW_F32_CONV_H

#include "f32_vec.h"

/* The four rows a token needs stay in registers: each is loaded once. */
QW_INLINE void conv_channels(const float *u, size_t ld, const float *w, size_t n, size_t n_tokens, float *y,
                             size_t ld_y) {
    float taps[QW_CONV][QW_VL] = {{0}};
    vf tap[QW_CONV];
    vf oldest = vf_load_n(u, n), older = vf_load_n(u + ld, n), last = vf_load_n(u + 2 * ld, n);

    for (size_t ch = 0; ch < n; ch++)
        for (size_t j = 0; j < QW_CONV; j++)
            taps[j][ch] = w[ch * QW_CONV + j];
    for (size_t j = 0; j < QW_CONV; j++)
        tap[j] = vf_load(taps[j]);
    for (size_t t = 0; t < n_tokens; t++) {
        vf current = vf_load_n(u + (t + 3) * ld, n);
        vf sum = vf_fma(tap[3], current, vf_fma(tap[2], last, vf_fma(tap[1], older, tap[0] * oldest)));

        vf_store_n(y + t * ld_y, vf_silu(sum), n);
        oldest = older;
        older = last;
        last = current;
    }
}

void QW_NAME(conv_silu)(const float *u, size_t ld, const float *w, size_t n_channels, size_t n_tokens, float *y,
                        size_t ld_y) {
    size_t ch = 0;

    for (; ch + QW_VL <= n_channels; ch += QW_VL)
        conv_channels(u + ch, ld, w + ch * QW_CONV, QW_VL, n_tokens, y + ch, ld_y);
    if (ch < n_channels)
        conv_channels(u + ch, ld, w + ch * QW_CONV, n_channels - ch, n_tokens, y + ch, ld_y);
}

#endif
