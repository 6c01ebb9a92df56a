/*
 * The types with one scale per 16 values.  They are loaded with q in an int8's upper bits, and the scales
 * make up for it.
 */
#ifndef QW_UNPACK_16_H
#define QW_UNPACK_16_H

#include "unpack_neon.h"

QW_INLINE void qw_split_scales(int8x16_t scales, float d, float32x4_t even[2], float32x4_t odd[2]) {
    int16x8_t pairs = vreinterpretq_s16_s8(scales);

    qw_widen_s16(vshrq_n_s16(vshlq_n_s16(pairs, 8), 8), even);
    qw_widen_s16(vshrq_n_s16(pairs, 8), odd);
    for (size_t h = 0; h < 2; h++) {
        even[h] = vmulq_n_f32(even[h], d);
        odd[h] = vmulq_n_f32(odd[h], d);
    }
}

QW_INLINE void qw_scales_q6_k(const void *block, float32x4_t even[2], float32x4_t odd[2]) {
    const block_q6_k *b = block;
    qw_split_scales(vld1q_s8(b->scales), qw_half(b->d) / 4.0f, even, odd);
}

/* 4 * (q - 32): two bits of high on top, less 128 by inverting the uppermost, then the four of low. */
QW_INLINE void qw_load_q6_k(const void *block, size_t part, int8x16_t q[4]) {
    const block_q6_k *b = block;
    const uint8x16_t mask = vdupq_n_u8(0xFC);
    uint8x16_t low = vld1q_u8(b->low + 32 * (part & 2) + 16 * (part % 2));
    uint8x16_t next = vld1q_u8(b->low + 32 * (part & 2) + 16 * (part % 2) + 32);
    uint8x16_t high = veorq_u8(vld1q_u8(b->high + 16 * part), vdupq_n_u8(0xAA));

    q[0] = vreinterpretq_s8_u8(vsliq_n_u8(vshlq_n_u8(low, 2), high, 6));
    q[1] = vreinterpretq_s8_u8(vsliq_n_u8(vshlq_n_u8(next, 2), vshrq_n_u8(high, 2), 6));
    q[2] = vreinterpretq_s8_u8(vandq_u8(vsriq_n_u8(vshlq_n_u8(high, 2), low, 2), mask));
    q[3] = vreinterpretq_s8_u8(vandq_u8(vsriq_n_u8(high, next, 2), mask));
}

/*
 * Scale j < 8 has its low bits in the low half of byte j, scale 8 + j in the high half; the high bits of
 * scale j are bits 2 (j / 4) and 2 (j / 4) + 1 of byte 8 + j % 4.
 */
QW_INLINE void qw_scales_q3_k(const void *block, float32x4_t even[2], float32x4_t odd[2]) {
    static const int8_t high_shift[16] = {0, 0, 0, 0, -2, -2, -2, -2, -4, -4, -4, -4, -6, -6, -6, -6};
    const block_q3_k *b = block;
    uint32_t word;

    memcpy(&word, b->scales + 8, sizeof word);
    uint8x8_t bytes = vld1_u8(b->scales);
    uint8x16_t low = vcombine_u8(vand_u8(bytes, vdup_n_u8(15)), vshr_n_u8(bytes, 4));
    uint8x16_t high = vshlq_u8(vreinterpretq_u8_u32(vdupq_n_u32(word)), vld1q_s8(high_shift));
    uint8x16_t all = vandq_u8(vsliq_n_u8(low, high, 4), vdupq_n_u8(63));
    qw_split_scales(vsubq_s8(vreinterpretq_s8_u8(all), vdupq_n_s8(32)), qw_half(b->d) / 32.0f, even, odd);
}

/* 32 * (q - 4): the bit of high on top, inverted, then the two of low. */
QW_INLINE void qw_load_q3_k(const void *block, size_t part, int8x16_t q[4]) {
    const block_q3_k *b = block;
    const uint8x16_t mask = vdupq_n_u8(0xE0), top = vdupq_n_u8(0x80);
    uint8x16_t low = vld1q_u8(b->low + 16 * part), high = vld1q_u8(b->high + 16 * (part % 2));

    for (int i = 0; i < 4; i++) {
        uint8x16_t two = vshlq_u8(low, vdupq_n_s8((int8_t)(5 - 2 * i)));
        uint8x16_t third = vshlq_u8(high, vdupq_n_s8((int8_t)(7 - 4 * (int)(part / 2) - i)));
        q[i] = vreinterpretq_s8_u8(veorq_u8(vandq_u8(vbslq_u8(top, third, two), mask), top));
    }
}

#endif
