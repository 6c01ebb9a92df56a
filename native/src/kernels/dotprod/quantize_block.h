/*
 * P8's activation blocks, 8 rows x 256 k, in an Arm set's layout.
 */
#include "../vector/round.h"
#include "neon.h"

void QW_NAME(quantize_block)(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q, float *meta);

void QW_NAME(quantize_block)(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q, float *meta) {
    for (size_t r = 0; r < QW_BLOCK_ROWS; r++) {
        int8_t row[QW_BLOCK_K] = {0};

        for (size_t k = 0; k < QW_BLOCK_K; k += QW_ACT_K) {
            size_t n = n_k < k ? 0 : n_k - k < QW_ACT_K ? n_k - k : QW_ACT_K;
            float scale = r < n_rows && n ? round_floats(x + r * ld + k, n, row + k) : 0;
            qw_store_row_scale(meta, r, k, scale);
        }
        for (size_t k = 0; k < QW_BLOCK_K; k += 16)
            qw_store_activations(q, r, k, vld1q_s8(row + k));
    }
}
