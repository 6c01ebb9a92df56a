/*
 * The quantizer of GEMV rows, for every set: int8 with one scale per 32.
 */
#ifndef QW_QUANTIZE_H
#define QW_QUANTIZE_H

#include "round.h"

void QW_NAME(quantize_row)(const float *x, size_t n_k, int8_t *q, float *d, float *sum);

void QW_NAME(quantize_row)(const float *x, size_t n_k, int8_t *q, float *d, float *sum) {
    size_t n_padded = (n_k + QW_BLOCK_K - 1) / QW_BLOCK_K * QW_BLOCK_K;

    for (size_t k = 0, g = 0; k < n_padded; k += QW_ACT_GROUP, g++) {
        float padded[QW_ACT_GROUP] = {0};
        const float *group = x + k;
        if (k + QW_ACT_GROUP > n_k) {
            if (k < n_k)
                memcpy(padded, x + k, (n_k - k) * sizeof *x);
            group = padded;
        }
        d[g] = round_floats(group, QW_ACT_GROUP, q + k);
        int32_t total = 0;
        for (size_t i = 0; i < QW_ACT_GROUP; i++)
            total += q[k + i];
        sum[g] = d[g] * (float)total;
    }
}

#endif
