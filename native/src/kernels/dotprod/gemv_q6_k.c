/*
 * GEMV of the types without a min and with more than four bits, Q6_K and Q8_0.
 */
#include "gemv_neon.h"

/* Scales of Q6_K's groups of 16, even and odd ones apart: each pair shares an activation scale. */
typedef struct qw_q6_k_scales {
    float32x4_t even[2], odd[2];
} qw_q6_k_scales;

QW_INLINE qw_q6_k_scales qw_unpack_q6_k_scales(const int8_t scales[16]) {
    int16x8_t all = vreinterpretq_s16_s8(vld1q_s8(scales));
    int16x8_t even = vshrq_n_s16(vshlq_n_s16(all, 8), 8), odd = vshrq_n_s16(all, 8);

    return (qw_q6_k_scales){
        {vcvtq_f32_s32(vmovl_s16(vget_low_s16(even))), vcvtq_f32_s32(vmovl_high_s16(even))},
        {vcvtq_f32_s32(vmovl_s16(vget_low_s16(odd))), vcvtq_f32_s32(vmovl_high_s16(odd))},
    };
}

/* Half h of a block: four pairs of groups. */
QW_INLINE float32x4_t qw_add_q6_k_half(const int8x16_t w[8], const qw_q6_k_scales *scales, size_t h, const int8_t *x) {
    float32x4_t even = qw_sum_lanes(qw_dot_16(w[0], x), qw_dot_16(w[2], x + 32), qw_dot_16(w[4], x + 64),
                                    qw_dot_16(w[6], x + 96));
    float32x4_t odd = qw_sum_lanes(qw_dot_16(w[1], x + 16), qw_dot_16(w[3], x + 48), qw_dot_16(w[5], x + 80),
                                   qw_dot_16(w[7], x + 112));
    return vfmaq_f32(vmulq_f32(even, scales->even[h]), odd, scales->odd[h]);
}

QW_INLINE void qw_gemv_q6_k(QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const block_q6_k *block = (const void *)((const uint8_t *)w + c * col_bytes);
        float32x4_t total[QW_GEMV_ROWS] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};

        for (size_t k = 0; k < n_k; k += QW_BLOCK_K, block++) {
            qw_q6_k_scales scales = qw_unpack_q6_k_scales(block->scales);
            float d = 0.25f * qw_half(block->d); /* values are unpacked as 4 * (q - 32) */
            float32x4_t part[QW_GEMV_ROWS];
            for (size_t h = 0; h < 2; h++) {
                int8x16_t v[8];
                for (size_t i = 0; i < 2; i++) {
                    int8x16_t q[4];
                    qw_unpack_q6_k(block->low + 64 * h + 16 * i, block->low + 64 * h + 32 + 16 * i,
                                   block->high + 32 * h + 16 * i, q);
                    for (size_t j = 0; j < 4; j++)
                        v[2 * j + i] = q[j];
                }
                for (size_t r = 0; r < n_rows; r++) {
                    float32x4_t sum = qw_add_q6_k_half(v, &scales, h, rows[r].q + k + 128 * h);
                    float32x4_t x_scale = vld1q_f32(rows[r].d + k / QW_ACT_GROUP + 4 * h);
                    part[r] = h ? vfmaq_f32(part[r], sum, x_scale) : vmulq_f32(sum, x_scale);
                }
            }
            for (size_t r = 0; r < n_rows; r++)
                total[r] = vfmaq_n_f32(total[r], part[r], d);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = vaddvq_f32(total[r]);
    }
}

/* Four blocks at a time, then one by one: a row is a multiple of 32. */
QW_INLINE void qw_gemv_q8_0(QW_GEMV_ARGS) {
    for (size_t c = 0; c < n_cols; c++) {
        const block_q8_0 *block = (const void *)((const uint8_t *)w + c * col_bytes);
        float32x4_t total[QW_GEMV_ROWS] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
        size_t k = 0;

        for (; k + 128 <= n_k; k += 128, block += 4) {
            uint16_t halves[4] = {block[0].d, block[1].d, block[2].d, block[3].d};
            float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)));
            int8x16_t v[8];
            for (size_t i = 0; i < 8; i++)
                v[i] = vld1q_s8(block[i / 2].q + 16 * (i % 2));
            for (size_t r = 0; r < n_rows; r++) {
                const int8_t *x = rows[r].q + k;
                float32x4_t sum = qw_sum_lanes(qw_dot_32(v, x), qw_dot_32(v + 2, x + 32), qw_dot_32(v + 4, x + 64),
                                               qw_dot_32(v + 6, x + 96));
                total[r] = vfmaq_f32(total[r], sum, vmulq_f32(d, vld1q_f32(rows[r].d + k / QW_ACT_GROUP)));
            }
        }
        for (; k < n_k; k += 32, block++) {
            int8x16_t v[2] = {vld1q_s8(block->q), vld1q_s8(block->q + 16)};
            for (size_t r = 0; r < n_rows; r++)
                total[r] = vfmaq_n_f32(total[r], vcvtq_f32_s32(qw_dot_32(v, rows[r].q + k)),
                                       qw_half(block->d) * rows[r].d[k / QW_ACT_GROUP]);
        }
        for (size_t r = 0; r < n_rows; r++)
            y[r * ld + c] = vaddvq_f32(total[r]);
    }
}

QW_DEFINE_NEON_GEMV(q6_k)
QW_DEFINE_NEON_GEMV(q8_0)
