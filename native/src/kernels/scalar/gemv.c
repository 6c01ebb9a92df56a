/*
 * GEMV in plain C: dequantize a column 256 values at a time, multiply by the quantized row.
 */
#include <math.h>

#include "../vector/quant_table.h"
#include "isa.h"

void qw_scalar_quantize_row(const float *x, size_t n_k, int8_t *q, float *d, float *sum) {
    size_t n_padded = (n_k + QW_BLOCK_K - 1) / QW_BLOCK_K * QW_BLOCK_K;

    for (size_t k = 0; k < n_padded; k += QW_ACT_GROUP, x += QW_ACT_GROUP, q += QW_ACT_GROUP) {
        size_t n = k >= n_k ? 0 : n_k - k < QW_ACT_GROUP ? n_k - k : QW_ACT_GROUP;
        float max = 0x1p-100f, poison = 0; /* as in p8.c: a floor for the division, NaN when x is not finite */
        for (size_t i = 0; i < n; i++) {
            poison += x[i] * 0.0f;
            max = fmaxf(max, fabsf(x[i]));
        }
        int32_t total = 0;
        for (size_t i = 0; i < QW_ACT_GROUP; i++) {
            q[i] = i < n && poison == 0.0f ? (int8_t)lrintf(x[i] * (127.0f / max)) : 0;
            total += q[i];
        }
        *d = n ? max * (1.0f / 127.0f) + poison : 0;
        *sum++ = *d++ * (float)total;
    }
}

static void gemv(uint32_t type, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const char *blocks = (const char *)w + c * col_bytes;
        float total[QW_GEMV_ROWS] = {0};
        for (size_t k = 0; k < n_k; k += QW_BLOCK_K) {
            size_t n = n_k - k < QW_BLOCK_K ? n_k - k : QW_BLOCK_K;
            float values[QW_BLOCK_K];
            qw_dequantize_row(type, blocks + qw_row_bytes(type, k), n, values);
            for (size_t r = 0; r < n_rows; r++)
                for (size_t g = 0; g < n; g += QW_ACT_GROUP) {
                    const int8_t *q = rows[r].q + k + g;
                    float sum = 0;
                    for (size_t i = 0; i < QW_ACT_GROUP; i++)
                        sum += values[g + i] * (float)q[i];
                    total[r] += sum * rows[r].d[(k + g) / QW_ACT_GROUP];
                }
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = total[r];
    }
}

static void gemv_float(uint32_t type, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const char *values = (const char *)w + c * col_bytes;
        float total[QW_GEMV_ROWS] = {0};
        for (size_t k = 0; k < n_k; k++) {
            float value;
            qw_dequantize_row(type, values + qw_row_bytes(type, k), 1, &value);
            for (size_t r = 0; r < n_rows; r++)
                total[r] += value * rows[r].x[k];
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = total[r];
    }
}

#define DEFINE_GEMV_OF(function, number, name)                            \
    void qw_scalar_gemv_##name(QW_GEMV_ARGS) {                            \
        function(number, w, col_bytes, n_cols, n_k, rows, n_rows, y, ld); \
    }
QW_FLOAT_TYPES(DEFINE_GEMV_OF, gemv_float)
QW_QUANTIZED_TYPES(DEFINE_GEMV_OF, gemv)
