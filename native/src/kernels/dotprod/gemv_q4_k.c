/*
 * GEMV of the types with eight sub-blocks of 32 in 256 values and a min each, Q4_K and Q5_K.
 *
 * The sub-blocks' int32 sums meet four to a vector, so their scales, mins and the activations' scales are applied
 * to four at a time.
 */
#include "gemv_neon.h"

/* One row's part of a block: d * scale[j] * sum_j - dmin * min[j] * (sum of x_j), over j, unreduced. */
QW_INLINE float32x4_t qw_add_k_block(float32x4_t total, const int8x16_t w[16], const float32x4_t scale[2],
                                     const float32x4_t min[2], float d, float dmin, const qw_gemv_row *row, size_t k) {
    float32x4_t sum[2];
    const float *x_scale = row->d + k / QW_ACT_GROUP, *x_sum = row->sum + k / QW_ACT_GROUP;

    qw_dot_8x32(w, row->q + k, sum);
    float32x4_t product = vmulq_f32(vmulq_f32(sum[0], scale[0]), vld1q_f32(x_scale));
    float32x4_t offset = vmulq_f32(min[0], vld1q_f32(x_sum));
    product = vfmaq_f32(product, vmulq_f32(sum[1], scale[1]), vld1q_f32(x_scale + 4));
    offset = vfmaq_f32(offset, min[1], vld1q_f32(x_sum + 4));
    return vfmsq_n_f32(vfmaq_n_f32(total, product, d), offset, dmin);
}

QW_INLINE void qw_gemv_q4_k(QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const block_q4_k *block = (const void *)((const uint8_t *)w + c * col_bytes);
        float32x4_t total[QW_GEMV_ROWS] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};

        for (size_t k = 0; k < n_k; k += QW_BLOCK_K, block++) {
            float32x4_t scale[2], min[2];
            int8x16_t v[16];
            qw_k_scales(block, scale, min);
            for (size_t i = 0; i < 8; i++) {
                uint8x16_t q = vld1q_u8(block->q + 16 * i);
                v[i / 2 * 4 + i % 2] = vreinterpretq_s8_u8(vandq_u8(q, vdupq_n_u8(15)));
                v[i / 2 * 4 + i % 2 + 2] = vreinterpretq_s8_u8(vshrq_n_u8(q, 4));
            }
            for (size_t r = 0; r < n_rows; r++)
                total[r] = qw_add_k_block(total[r], v, scale, min, qw_half(block->d), qw_half(block->dmin), &rows[r], k);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = vaddvq_f32(total[r]);
    }
}

QW_INLINE void qw_gemv_q5_k(QW_GEMV_ARGS) {
    const uint8x16_t mask = vdupq_n_u8(31);

    for (size_t c = 0; c < n_cols; c++) {
        const block_q5_k *block = (const void *)((const uint8_t *)w + c * col_bytes);
        float32x4_t total[QW_GEMV_ROWS] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};

        for (size_t k = 0; k < n_k; k += QW_BLOCK_K, block++) {
            float32x4_t scale[2], min[2];
            int8x16_t v[16];
            qw_k_scales(block, scale, min);
            for (size_t half = 0; half < 2; half++) {
                uint8x16_t fifth = vld1q_u8(block->high + 16 * half);
                for (size_t j = 0; j < 8; j += 2, fifth = vshrq_n_u8(fifth, 2)) {
                    uint8x16_t q = vld1q_u8(block->q + 16 * (j + half)), next = vshrq_n_u8(fifth, 1);
                    v[2 * j + half] = vreinterpretq_s8_u8(vandq_u8(vsliq_n_u8(q, fifth, 4), mask));
                    v[2 * j + half + 2] = vreinterpretq_s8_u8(vandq_u8(vsliq_n_u8(vshrq_n_u8(q, 4), next, 4), mask));
                }
            }
            for (size_t r = 0; r < n_rows; r++)
                total[r] = qw_add_k_block(total[r], v, scale, min, qw_half(block->d), qw_half(block->dmin), &rows[r], k);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = vaddvq_f32(total[r]);
    }
}

QW_DEFINE_NEON_GEMV(q4_k)
QW_DEFINE_NEON_GEMV(q5_k)
