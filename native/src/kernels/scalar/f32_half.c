/* Rows of halves to and from floats. */
#include "../vector/f32_table.h"

void qw_scalar_f32_to_f16(const float *x, size_t n, uint16_t *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = qw_f32_to_f16(x[i]);
}

void qw_scalar_f16_to_f32(const uint16_t *x, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = qw_f16_to_f32(x[i]);
}
