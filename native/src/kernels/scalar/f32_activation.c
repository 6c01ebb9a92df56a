/* SiLU and sigmoid gates and the causal convolution, with libm's exp. */
#include <math.h>

#include "../vector/f32_table.h"

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

void qw_scalar_silu_mul(const float *gate, const float *up, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(gate[i] * sigmoid((double)gate[i]) * up[i]);
}

void qw_scalar_sigmoid_mul(const float *gate, const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = (float)(sigmoid((double)gate[i]) * x[i]);
}

void qw_scalar_add(const float *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void qw_scalar_conv_silu(const float *u, size_t ld, const float *w, size_t n_channels, size_t n_tokens, float *y,
                         size_t ld_y) {
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t ch = 0; ch < n_channels; ch++) {
            double sum = 0;

            for (size_t j = 0; j < QW_CONV; j++)
                sum += (double)w[ch * QW_CONV + j] * u[(t + j) * ld + ch];
            y[t * ld_y + ch] = (float)(sum * sigmoid(sum));
        }
}
