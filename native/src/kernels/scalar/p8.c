/*
 * P8 in plain C.  Activations lie as [8 rows][256], panels as [64 columns][256], tiles as rows [8][64].
 */
#include <math.h>
#include <string.h>

#include "../vector/quant_table.h"
#include "isa.h"

/*
 * Quantize n values under one scale, max |x| / 127, and return it: NaN when a value is not finite.
 * The floor keeps 127 / max finite; values far below it become zeros.
 */
static float quantize(const float *x, size_t n, int8_t *q) {
    float max = 0x1p-100f, poison = 0;
    for (size_t i = 0; i < n; i++) {
        poison += x[i] * 0.0f;
        max = fmaxf(max, fabsf(x[i]));
    }
    if (poison != 0.0f) { /* NaN: zeros, so that no NaN is converted to an integer */
        memset(q, 0, n);
        return NAN;
    }
    float inverse = 127.0f / max;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)lrintf(x[i] * inverse);
    return max * (1.0f / 127.0f);
}

void qw_scalar_quantize_block(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q, float *meta) {
    memset(q, 0, QW_BLOCK_ROWS * QW_BLOCK_K);
    memset(meta, 0, QW_ACT_META * sizeof *meta);
    for (size_t r = 0; r < n_rows; r++)
        for (size_t k = 0; k < n_k; k += QW_ACT_K)
            meta[k / QW_ACT_K * 16 + r] = quantize(x + r * ld + k, n_k - k < QW_ACT_K ? n_k - k : QW_ACT_K,
                                                   q + r * QW_BLOCK_K + k);
}

static void expand(uint32_t type, QW_EXPAND_ARGS) {
    memset(panel, 0, QW_PANEL_COLS * QW_BLOCK_K);
    memset(scale, 0, QW_PANEL_SCALES * sizeof *scale);
    for (size_t c = 0; c < n_cols; c++) {
        float values[QW_BLOCK_K];
        qw_dequantize_row(type, (const char *)w + c * col_bytes, n_k, values);
        scale[c] = quantize(values, n_k, panel + c * QW_BLOCK_K);
    }
}

#define DEFINE_EXPAND(isa, number, name)                         \
    void qw_scalar_expand_##name(QW_EXPAND_ARGS) {               \
        expand(number, w, col_bytes, n_cols, n_k, panel, scale); \
    }
QW_WEIGHT_TYPES(DEFINE_EXPAND, scalar)

void qw_scalar_gemm_i8(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel, const float *scale,
                       float *c, bool first) {
    for (size_t b = 0; b < n_blocks; b++, q += QW_BLOCK_ROWS * QW_BLOCK_K, meta += QW_ACT_META)
        for (size_t r = 0; r < QW_BLOCK_ROWS; r++)
            for (size_t col = 0; col < QW_PANEL_COLS; col++, c++) {
                const int8_t *x = q + r * QW_BLOCK_K, *w = panel + col * QW_BLOCK_K;
                float total = first ? 0 : *c;
                for (size_t part = 0; part < QW_BLOCK_K / QW_ACT_K; part++) {
                    int32_t sum = 0;
                    for (size_t k = part * QW_ACT_K; k < (part + 1) * QW_ACT_K; k++)
                        sum += x[k] * w[k];
                    total += (float)sum * (meta[part * 16 + r] * scale[col]);
                }
                *c = total;
            }
}
