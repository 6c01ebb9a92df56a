/*
 * What the NEON sources of both Arm sets share.  Like every header of this folder it is compiled once per
 * set, after that set's isa.h, which says where values go.
 */
#ifndef QW_NEON_H
#define QW_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "isa.h"

/* A half float's value. */
QW_INLINE float qw_half(uint16_t bits) {
    __fp16 h;
    memcpy(&h, &bits, sizeof h);
    return h;
}

/* Round eight floats to int16, saturating. */
QW_INLINE int16x8_t qw_round_s16(float32x4_t x0, float32x4_t x1) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(x0)), vcvtnq_s32_f32(x1));
}

/* The low bytes of sixteen int16 whose values fit them. */
QW_INLINE int8x16_t qw_narrow_s16(int16x8_t x0, int16x8_t x1) {
    return vuzp1q_s8(vreinterpretq_s8_s16(x0), vreinterpretq_s8_s16(x1));
}

/* The six-bit scales and mins of a Q4_K or Q5_K block, which begins with d, dmin and 12 bytes of them. */
QW_INLINE void qw_k_scales(const void *block, float32x4_t scale[2], float32x4_t min[2]) {
    /* Byte 4 + j has scale j < 4, byte 8 + j min j, byte 12 + j the low bits of both of 4 + j; bits 6, 7 of the
       first two have their high bits. */
    static const uint8_t low_from[16] = {4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15};
    static const uint8_t high_from[16] = {255, 255, 255, 255, 4, 5, 6, 7, 255, 255, 255, 255, 8, 9, 10, 11};
    static const int8_t low_shift[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -4, -4, -4, -4};
    static const uint8_t low_mask[16] = {63, 63, 63, 63, 15, 15, 15, 15, 63, 63, 63, 63, 15, 15, 15, 15};

    uint8x16_t head = vld1q_u8(block);
    uint8x16_t low = vandq_u8(vshlq_u8(vqtbl1q_u8(head, vld1q_u8(low_from)), vld1q_s8(low_shift)), vld1q_u8(low_mask));
    uint8x16_t high = vandq_u8(vshrq_n_u8(vqtbl1q_u8(head, vld1q_u8(high_from)), 2), vdupq_n_u8(0x30));
    uint8x16_t all = vorrq_u8(low, high);
    uint16x8_t scales = vmovl_u8(vget_low_u8(all)), mins = vmovl_high_u8(all);

    scale[0] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(scales)));
    scale[1] = vcvtq_f32_u32(vmovl_high_u16(scales));
    min[0] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(mins)));
    min[1] = vcvtq_f32_u32(vmovl_high_u16(mins));
}

/*
 * Q6_K: sixteen values of each of a half block's four groups k, as 4 * (q - 32), from 16 bytes of low for groups
 * 0 and 2, 16 for 1 and 3, and 16 of high.
 */
QW_INLINE void qw_unpack_q6_k(const uint8_t *low_even, const uint8_t *low_odd, const uint8_t *high, int8x16_t out[4]) {
    const uint8x16_t mask = vdupq_n_u8(0xFC);
    uint8x16_t even = vld1q_u8(low_even), odd = vld1q_u8(low_odd);
    uint8x16_t h = veorq_u8(vld1q_u8(high), vdupq_n_u8(0xAA)); /* each pair's upper bit: less 32 */

    out[0] = vreinterpretq_s8_u8(vsliq_n_u8(vshlq_n_u8(even, 2), h, 6));
    out[1] = vreinterpretq_s8_u8(vsliq_n_u8(vshlq_n_u8(odd, 2), vshrq_n_u8(h, 2), 6));
    out[2] = vreinterpretq_s8_u8(vandq_u8(vsriq_n_u8(vshlq_n_u8(h, 2), even, 2), mask));
    out[3] = vreinterpretq_s8_u8(vandq_u8(vsriq_n_u8(h, odd, 2), mask));
}

#endif
