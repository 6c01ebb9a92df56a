/*
 * GEMV of the float types: f32 rows times f32, f16 or bf16 weights.
 */
#include "floats_neon.h"
#include "gemv_neon.h"

QW_DECLARE_QUANT_KERNELS(dotprod)

/* Four sums per row, so that additions overlap; values after the last sixteen are multiplied with zeros. */
QW_INLINE void qw_gemv_floats(qw_load_floats *load, size_t value_bytes, QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const uint8_t *column = (const uint8_t *)w + c * col_bytes;
        float32x4_t total[QW_GEMV_ROWS][4], v[4];
        size_t k = 0, n_left = n_k % 16;

        for (size_t r = 0; r < n_rows; r++)
            for (size_t i = 0; i < 4; i++)
                total[r][i] = vdupq_n_f32(0);
        for (; k + 16 <= n_k; k += 16) {
            load(column + k * value_bytes, v);
            for (size_t r = 0; r < n_rows; r++)
                for (size_t i = 0; i < 4; i++)
                    total[r][i] = vfmaq_f32(total[r][i], v[i], vld1q_f32(rows[r].x + k + 4 * i));
        }
        if (n_left) {
            uint8_t last[16 * sizeof(float)] = {0};
            memcpy(last, column + k * value_bytes, n_left * value_bytes);
            load(last, v);
            for (size_t r = 0; r < n_rows; r++) {
                float x[16] = {0};
                memcpy(x, rows[r].x + k, n_left * sizeof *x);
                for (size_t i = 0; i < 4; i++)
                    total[r][i] = vfmaq_f32(total[r][i], v[i], vld1q_f32(x + 4 * i));
            }
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = vaddvq_f32(
                vaddq_f32(vaddq_f32(total[r][0], total[r][1]), vaddq_f32(total[r][2], total[r][3])));
    }
}

void QW_NAME(gemv_f32)(QW_GEMV_ARGS) {
    QW_FOR_ROWS(qw_gemv_floats, qw_load_f32, sizeof(float))
}

void QW_NAME(gemv_f16)(QW_GEMV_ARGS) {
    QW_FOR_ROWS(qw_gemv_floats, qw_load_f16, sizeof(uint16_t))
}

void QW_NAME(gemv_bf16)(QW_GEMV_ARGS) {
    QW_FOR_ROWS(qw_gemv_floats, qw_load_bf16, sizeof(uint16_t))
}
