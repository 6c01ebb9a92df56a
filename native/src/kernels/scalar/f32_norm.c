/* Dot product, RMS norm and L2 norm, summed in double. */
#include <math.h>

#include "../vector/f32_table.h"

static double dot(const float *a, const float *b, size_t n) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

float qw_scalar_dot_f32(const float *a, const float *b, size_t n) {
    return (float)dot(a, b, n);
}

void qw_scalar_rms_norm(const float *x, const float *weight, float eps, size_t n, float *y) {
    float scale = (float)(1 / sqrt(dot(x, x, n) / (double)n + (double)eps));

    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

void qw_scalar_l2_norm(float *x, size_t n, float eps, float scale) {
    float factor = (float)((double)scale / sqrt(dot(x, x, n) + (double)eps));

    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}
