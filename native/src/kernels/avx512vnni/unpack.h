/*
 * One unpacker per weight type: 256 values in the file's blocks -> vectors of unsigned bytes, scales, mins,
 *
 *     w[i] = scale[i / 16] * (q[i] + low) - min[i / 32]
 *
 * low being the type's smallest value.  All of it stays in registers: through memory, 64-byte loads would
 * wait for the smaller stores before them.
 */
#ifndef QW_AVX512VNNI_UNPACK_H
#define QW_AVX512VNNI_UNPACK_H

#include <immintrin.h>

#include "../vector/weights.h"

typedef struct qw_unpacked {
    __m512i q[QW_BLOCK_K / 64];
    __m512 scale;
    __m256 min;
} qw_unpacked;

typedef void qw_unpack(const void *w, qw_unpacked *u);

/* Eight values, one per group of 32 -> sixteen, one per 16. */
QW_INLINE __m512 twice_each(__m256 x) {
    const __m512i pairs = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(pairs, _mm512_castps256_ps512(x));
}

QW_INLINE __m256 floats_of_bytes(uint64_t eight) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)eight)));
}

/* Each 16-bit word shifted right, in the upper half of the vector further than in the lower. */
QW_INLINE __m512i shift_right_halves(__m512i x, int lower, int upper) {
    __m512i counts = _mm512_inserti64x4(_mm512_set1_epi16((short)lower), _mm256_set1_epi16((short)upper), 1);
    return _mm512_srlv_epi16(x, counts);
}

QW_INLINE __m512i byte_halves(int lower, int upper) {
    return _mm512_inserti64x4(_mm512_set1_epi8((char)lower), _mm256_set1_epi8((char)upper), 1);
}

QW_INLINE __m512i load_twice(const void *p) { /* 32 bytes */
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}

/* --- blocks of 32 --- */

/* Eight halves, stride bytes apart. */
QW_INLINE __m256 halves(const void *first, size_t stride) {
    uint16_t h[8];
    for (int g = 0; g < 8; g++)
        memcpy(&h[g], (const char *)first + g * stride, sizeof *h);
    return _mm256_cvtph_ps(_mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], (short)h[4], (short)h[5],
                                          (short)h[6], (short)h[7]));
}

/* Two groups of 32 from sixteen bytes each: per group the low nibbles, then the high ones. */
QW_INLINE __m512i nibbles(const void *first, const void *second) {
    const __m512i counts = _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004,
                                             0x0004000400040004);
    __m512i x = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)first));
    x = _mm512_mask_broadcast_i32x4(x, 0xff00, _mm_loadu_si128((const __m128i *)second));
    return _mm512_and_si512(_mm512_srlv_epi16(x, counts), _mm512_set1_epi8(15));
}

/* The nibbles of all eight blocks, whose packed values are at q and every stride bytes from there. */
QW_INLINE void unpack_nibbles(qw_unpacked *u, const uint8_t *q, size_t stride) {
    for (int i = 0; i < 4; i++)
        u->q[i] = nibbles(q + 2 * i * stride, q + (2 * i + 1) * stride);
}

QW_INLINE void add_fifth_bits(qw_unpacked *u, const uint8_t *high, size_t stride) {
    for (int i = 0; i < 4; i++) {
        uint32_t bits[2];
        memcpy(&bits[0], high + 2 * i * stride, sizeof *bits);
        memcpy(&bits[1], high + (2 * i + 1) * stride, sizeof *bits);
        u->q[i] = _mm512_mask_add_epi8(u->q[i], bits[0] | (uint64_t)bits[1] << 32, u->q[i], _mm512_set1_epi8(16));
    }
}

/* Indices -> the values of the IQ4 types, plus 128. */
QW_INLINE void look_up_iq4(qw_unpacked *u) {
    __m128i table = _mm_xor_si128(_mm_loadu_si128((const __m128i *)qw_iq4_values), _mm_set1_epi8((char)0x80));
    for (int i = 0; i < 4; i++)
        u->q[i] = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), u->q[i]);
}

QW_INLINE __m256 negated(__m256 x) {
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

QW_INLINE void unpack_q4_0(const void *w, qw_unpacked *u) {
    const block_q4_0 *b = w;
    unpack_nibbles(u, b->q, sizeof *b);
    u->scale = twice_each(halves(&b->d, sizeof *b));
}

QW_INLINE void unpack_q4_1(const void *w, qw_unpacked *u) {
    const block_q4_1 *b = w;
    unpack_nibbles(u, b->q, sizeof *b);
    u->scale = twice_each(halves(&b->d, sizeof *b));
    u->min = negated(halves(&b->m, sizeof *b));
}

QW_INLINE void unpack_q5_0(const void *w, qw_unpacked *u) {
    const block_q5_0 *b = w;
    unpack_nibbles(u, b->q, sizeof *b);
    add_fifth_bits(u, b->high, sizeof *b);
    u->scale = twice_each(halves(&b->d, sizeof *b));
}

QW_INLINE void unpack_q5_1(const void *w, qw_unpacked *u) {
    const block_q5_1 *b = w;
    unpack_nibbles(u, b->q, sizeof *b);
    add_fifth_bits(u, b->high, sizeof *b);
    u->scale = twice_each(halves(&b->d, sizeof *b));
    u->min = negated(halves(&b->m, sizeof *b));
}

QW_INLINE void unpack_q8_0(const void *w, qw_unpacked *u) {
    const block_q8_0 *b = w;
    for (int i = 0; i < 4; i++) {
        __m512i x = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)b[2 * i].q));
        x = _mm512_inserti64x4(x, _mm256_loadu_si256((const __m256i *)b[2 * i + 1].q), 1);
        u->q[i] = _mm512_xor_si512(x, _mm512_set1_epi8((char)0x80));
    }
    u->scale = twice_each(halves(&b->d, sizeof *b));
}

QW_INLINE void unpack_iq4_nl(const void *w, qw_unpacked *u) {
    const block_iq4_nl *b = w;
    unpack_nibbles(u, b->q, sizeof *b);
    look_up_iq4(u);
    u->scale = twice_each(halves(&b->d, sizeof *b));
}

/* --- blocks of 256 --- */

/* The six-bit scales and mins of Q4_K and Q5_K, eight at a time as the bytes of one word. */
QW_INLINE void unpack_k_scales(const uint8_t packed[12], uint16_t d, uint16_t dmin, qw_unpacked *u) {
    uint32_t word[3];
    memcpy(word, packed, sizeof word);
    uint64_t scales = (word[2] & 0x0f0f0f0f) | (word[0] >> 2 & 0x30303030);
    uint64_t mins = (word[2] >> 4 & 0x0f0f0f0f) | (word[1] >> 2 & 0x30303030);
    scales = scales << 32 | (word[0] & 0x3f3f3f3f);
    mins = mins << 32 | (word[1] & 0x3f3f3f3f);
    u->scale = twice_each(_mm256_mul_ps(floats_of_bytes(scales), _mm256_set1_ps(unpack_half(d))));
    u->min = _mm256_mul_ps(floats_of_bytes(mins), _mm256_set1_ps(unpack_half(dmin)));
}

QW_INLINE void unpack_q4_k(const void *w, qw_unpacked *u) {
    const block_q4_k *b = w;
    for (int i = 0; i < 4; i++)
        u->q[i] = _mm512_and_si512(shift_right_halves(load_twice(b->q + 32 * i), 0, 4), _mm512_set1_epi8(15));
    unpack_k_scales(b->scales, b->d, b->dmin, u);
}

QW_INLINE void unpack_q5_k(const void *w, qw_unpacked *u) {
    const block_q5_k *b = w;
    __m512i high = load_twice(b->high);
    for (int i = 0; i < 4; i++) {
        __m512i low = _mm512_and_si512(shift_right_halves(load_twice(b->q + 32 * i), 0, 4), _mm512_set1_epi8(15));
        __mmask64 set = _mm512_test_epi8_mask(high, byte_halves(1 << 2 * i, 2 << 2 * i));
        u->q[i] = _mm512_mask_add_epi8(low, set, low, _mm512_set1_epi8(16));
    }
    unpack_k_scales(b->scales, b->d, b->dmin, u);
}

/* Sixteen signed scales times d. */
QW_INLINE __m512 scales_of_bytes(__m128i bytes, uint16_t d) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), _mm512_set1_ps(unpack_half(d)));
}

QW_INLINE void unpack_q6_k(const void *w, qw_unpacked *u) {
    const block_q6_k *b = w;
    const __m512i nibble = _mm512_set1_epi8(15), bits = _mm512_set1_epi8(48);
    for (int half = 0; half < 2; half++) {
        __m512i low = _mm512_loadu_si512(b->low + 64 * half), high = load_twice(b->high + 32 * half);
        __m512i counts = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
        __m512i first = _mm512_and_si512(_mm512_sllv_epi16(high, counts), bits);
        __m512i second = _mm512_and_si512(shift_right_halves(high, 0, 2), bits);
        u->q[2 * half] = _mm512_or_si512(_mm512_and_si512(low, nibble), first);
        u->q[2 * half + 1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(low, 4), nibble), second);
    }
    u->scale = scales_of_bytes(_mm_loadu_si128((const __m128i *)b->scales), b->d);
}

QW_INLINE void unpack_q3_k(const void *w, qw_unpacked *u) {
    const block_q3_k *b = w;
    __m512i high = load_twice(b->high);
    for (int i = 0; i < 4; i++) {
        __m512i low = shift_right_halves(load_twice(b->low + 32 * (i / 2)), 4 * (i % 2), 4 * (i % 2) + 2);
        __mmask64 set = _mm512_test_epi8_mask(high, byte_halves(1 << 2 * i, 2 << 2 * i));
        low = _mm512_and_si512(low, _mm512_set1_epi8(3));
        u->q[i] = _mm512_mask_add_epi8(low, set, low, _mm512_set1_epi8(4));
    }
    uint32_t word[3];
    memcpy(word, b->scales, sizeof word);
    __m128i scales = _mm_setr_epi32((int)((word[0] & 0x0f0f0f0f) | (word[2] << 4 & 0x30303030)),
                                    (int)((word[1] & 0x0f0f0f0f) | (word[2] << 2 & 0x30303030)),
                                    (int)((word[0] >> 4 & 0x0f0f0f0f) | (word[2] & 0x30303030)),
                                    (int)((word[1] >> 4 & 0x0f0f0f0f) | (word[2] >> 2 & 0x30303030)));
    u->scale = scales_of_bytes(_mm_sub_epi8(scales, _mm_set1_epi8(32)), b->d);
}

QW_INLINE void unpack_iq4_xs(const void *w, qw_unpacked *u) {
    const block_iq4_xs *b = w;
    unpack_nibbles(u, b->q, 16);
    look_up_iq4(u);
    uint32_t low;
    memcpy(&low, b->scales_low, sizeof low);
    __m256i fours = _mm256_srlv_epi32(_mm256_set1_epi32((int)low), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256i twos = _mm256_srlv_epi32(_mm256_set1_epi32(b->scales_high), _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    fours = _mm256_and_si256(fours, _mm256_set1_epi32(15));
    twos = _mm256_slli_epi32(_mm256_and_si256(twos, _mm256_set1_epi32(3)), 4);
    __m256i scales = _mm256_sub_epi32(_mm256_or_si256(fours, twos), _mm256_set1_epi32(32));
    u->scale = twice_each(_mm256_mul_ps(_mm256_cvtepi32_ps(scales), _mm256_set1_ps(unpack_half(b->d))));
}

#endif
