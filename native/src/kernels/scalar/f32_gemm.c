/* C = beta * C + A . B in f32, plainly: every element is summed in double. */
#include "../vector/f32_table.h"

void qw_scalar_gemm_f32(size_t m, size_t n, size_t n_k, const float *a, size_t a_row, size_t a_k, const float *b,
                        size_t ldb, float *c, size_t ldc, float beta) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;

            for (size_t k = 0; k < n_k; k++)
                sum += (double)a[i * a_row + k * a_k] * b[k * ldb + j];
            c[i * ldc + j] = (float)(beta == 0 ? sum : (double)beta * c[i * ldc + j] + sum);
        }
}
