/*
 * The types with one scale per 32 values.  Q of the IQ4 types is an index into their table.
 */
#ifndef QW_UNPACK_32_H
#define QW_UNPACK_32_H

#include "unpack_neon.h"

QW_INLINE int8x16_t qw_low_nibbles(uint8x16_t bytes) {
    return vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
}

QW_INLINE int8x16_t qw_high_nibbles(uint8x16_t bytes) {
    return vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
}

/* Five bits: the low four of nibble, whose high four do not matter, and bit 0 of fifth. */
QW_INLINE int8x16_t qw_with_fifth(uint8x16_t nibble, uint8x16_t fifth) {
    return vreinterpretq_s8_u8(vandq_u8(vsliq_n_u8(nibble, fifth, 4), vdupq_n_u8(31)));
}

/* --- eight blocks of 32 --- */

#define QW_SCALES_PLAIN(name)                                                                      \
    QW_INLINE void qw_scales_##name(const void *block, float32x4_t scale[2], float32x4_t min[2]) { \
        qw_halves(block, sizeof(block_##name), scale);                                             \
        min[0] = min[1] = vdupq_n_f32(0);                                                          \
    }
QW_SCALES_PLAIN(q8_0)
QW_SCALES_PLAIN(iq4_nl)

/* y = d * (q - middle). */
#define QW_SCALES_CENTERED(name, middle)                                                           \
    QW_INLINE void qw_scales_##name(const void *block, float32x4_t scale[2], float32x4_t min[2]) { \
        qw_halves(block, sizeof(block_##name), scale);                                             \
        min[0] = vmulq_n_f32(scale[0], middle);                                                    \
        min[1] = vmulq_n_f32(scale[1], middle);                                                    \
    }
QW_SCALES_CENTERED(q4_0, 8.0f)
QW_SCALES_CENTERED(q5_0, 16.0f)

/* y = d * q + m. */
#define QW_SCALES_OFFSET(name)                                                                     \
    QW_INLINE void qw_scales_##name(const void *block, float32x4_t scale[2], float32x4_t min[2]) { \
        qw_halves(block, sizeof(block_##name), scale);                                             \
        qw_halves(&((const block_##name *)block)->m, sizeof(block_##name), min);                   \
        min[0] = vnegq_f32(min[0]);                                                                \
        min[1] = vnegq_f32(min[1]);                                                                \
    }
QW_SCALES_OFFSET(q4_1)
QW_SCALES_OFFSET(q5_1)

#define QW_LOAD_NIBBLES(name)                                                       \
    QW_INLINE void qw_load_##name(const void *block, size_t part, int8x16_t q[4]) { \
        const block_##name *b = (const block_##name *)block + 2 * part;             \
        for (size_t i = 0; i < 2; i++) {                                            \
            uint8x16_t bytes = vld1q_u8(b[i].q);                                    \
            q[2 * i] = qw_low_nibbles(bytes);                                       \
            q[2 * i + 1] = qw_high_nibbles(bytes);                                  \
        }                                                                           \
    }
QW_LOAD_NIBBLES(q4_0)
QW_LOAD_NIBBLES(q4_1)
QW_LOAD_NIBBLES(iq4_nl)

/* Bytes first and first + 1 of high: sixteen bits, one to a vector's lane, as 0 or all ones. */
QW_INLINE uint8x16_t qw_spread_bits(uint8x16_t high, uint8_t first) {
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    uint8x16_t from = vcombine_u8(vdup_n_u8(first), vdup_n_u8(first + 1));
    return vtstq_u8(vqtbl1q_u8(high, from), bit);
}

#define QW_LOAD_FIVE_BITS(name)                                                                  \
    QW_INLINE void qw_load_##name(const void *block, size_t part, int8x16_t q[4]) {              \
        const block_##name *b = (const block_##name *)block + 2 * part;                          \
        for (size_t i = 0; i < 2; i++) {                                                         \
            uint32_t word;                                                                       \
            memcpy(&word, b[i].high, sizeof word);                                               \
            uint8x16_t bytes = vld1q_u8(b[i].q), high = vreinterpretq_u8_u32(vdupq_n_u32(word)); \
            q[2 * i] = qw_with_fifth(bytes, qw_spread_bits(high, 0));                            \
            q[2 * i + 1] = qw_with_fifth(vshrq_n_u8(bytes, 4), qw_spread_bits(high, 2));         \
        }                                                                                        \
    }
QW_LOAD_FIVE_BITS(q5_0)
QW_LOAD_FIVE_BITS(q5_1)

QW_INLINE void qw_load_q8_0(const void *block, size_t part, int8x16_t q[4]) {
    const block_q8_0 *b = (const block_q8_0 *)block + 2 * part;
    for (size_t i = 0; i < 4; i++)
        q[i] = vld1q_s8(b[i / 2].q + 16 * (i % 2));
}

/* --- blocks of 256 --- */

/*
 * Six-bit scales and mins of Q4_K and Q5_K.  The block begins with d, dmin and 12 bytes: byte 4 + j has
 * scale j < 4, byte 8 + j min j, byte 12 + j the low bits of scale and min 4 + j, whose high bits are bits 6
 * and 7 of the others.
 */
QW_INLINE void qw_scales_q4_k(const void *block, float32x4_t scale[2], float32x4_t min[2]) {
    static const uint8_t low_from[16] = {4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15};
    static const uint8_t high_from[16] = {255, 255, 255, 255, 4, 5, 6, 7, 255, 255, 255, 255, 8, 9, 10, 11};
    static const int8_t low_shift[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -4, -4, -4, -4};
    static const uint8_t low_mask[16] = {63, 63, 63, 63, 15, 15, 15, 15, 63, 63, 63, 63, 15, 15, 15, 15};
    const block_q4_k *b = block;

    uint8x16_t head = vld1q_u8(block);
    uint8x16_t low = vandq_u8(vshlq_u8(vqtbl1q_u8(head, vld1q_u8(low_from)), vld1q_s8(low_shift)), vld1q_u8(low_mask));
    uint8x16_t high = vandq_u8(vshrq_n_u8(vqtbl1q_u8(head, vld1q_u8(high_from)), 2), vdupq_n_u8(0x30));
    uint8x16_t all = vorrq_u8(low, high);

    qw_widen_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(all))), scale);
    qw_widen_s16(vreinterpretq_s16_u16(vmovl_high_u8(all)), min);
    for (size_t h = 0; h < 2; h++) {
        scale[h] = vmulq_n_f32(scale[h], qw_half(b->d));
        min[h] = vmulq_n_f32(min[h], qw_half(b->dmin));
    }
}

#define qw_scales_q5_k qw_scales_q4_k

QW_INLINE void qw_load_q4_k(const void *block, size_t part, int8x16_t q[4]) {
    const block_q4_k *b = block;
    for (size_t i = 0; i < 2; i++) {
        uint8x16_t bytes = vld1q_u8(b->q + 32 * part + 16 * i);
        q[i] = qw_low_nibbles(bytes);
        q[i + 2] = qw_high_nibbles(bytes);
    }
}

QW_INLINE void qw_load_q5_k(const void *block, size_t part, int8x16_t q[4]) {
    const block_q5_k *b = block;
    for (size_t i = 0; i < 2; i++) {
        uint8x16_t bytes = vld1q_u8(b->q + 32 * part + 16 * i);
        uint8x16_t fifth = vshlq_u8(vld1q_u8(b->high + 16 * i), vdupq_n_s8((int8_t)(-2 * (int)part)));
        q[i] = qw_with_fifth(bytes, fifth);
        q[i + 2] = qw_with_fifth(vshrq_n_u8(bytes, 4), vshrq_n_u8(fifth, 1));
    }
}

QW_INLINE void qw_scales_iq4_xs(const void *block, float32x4_t scale[2], float32x4_t min[2]) {
    const block_iq4_xs *b = block;
    int16_t s[8];

    for (int j = 0; j < 8; j++)
        s[j] = (int16_t)(((b->scales_low[j / 2] >> 4 * (j % 2) & 15) | (b->scales_high >> 2 * j & 3) << 4) - 32);
    qw_widen_s16(vld1q_s16(s), scale);
    for (size_t h = 0; h < 2; h++) {
        scale[h] = vmulq_n_f32(scale[h], qw_half(b->d));
        min[h] = vdupq_n_f32(0);
    }
}

QW_INLINE void qw_load_iq4_xs(const void *block, size_t part, int8x16_t q[4]) {
    const block_iq4_xs *b = block;
    for (size_t i = 0; i < 2; i++) {
        uint8x16_t bytes = vld1q_u8(b->q + 32 * part + 16 * i);
        q[2 * i] = qw_low_nibbles(bytes);
        q[2 * i + 1] = qw_high_nibbles(bytes);
    }
}

#endif
