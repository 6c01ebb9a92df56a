/*
 * One unpacker per weight type: 256 values in the file's blocks -> int8 values, a scale per 16, a min per 32,
 *
 *     w[i] = scale[i / 16] * q[i] - min[i / 32]
 *
 * in GNU C's vectors of 16 bytes: the blocks of 32 have no more.
 */
#ifndef QW_AVX2_UNPACK_H
#define QW_AVX2_UNPACK_H

#include <immintrin.h>

#include "../vector/weights.h"

typedef struct qw_unpacked {
    int8_t q[QW_BLOCK_K] __attribute__((aligned(64)));
    float scale[QW_BLOCK_K / 16];
    float min[QW_BLOCK_K / 32];
} qw_unpacked;

typedef void qw_unpack(const void *w, qw_unpacked *u);

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

QW_INLINE bytes16 load16(const void *from) {
    bytes16 x;
    memcpy(&x, from, sizeof x);
    return x;
}

QW_INLINE void store16(int8_t *to, bytes16 x) {
    memcpy(to, &x, sizeof x);
}

QW_INLINE bytes16 every(uint8_t x) {
    return (bytes16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

QW_INLINE bytes16 low_nibbles(bytes16 x) {
    return x & every(15);
}

QW_INLINE bytes16 high_nibbles(bytes16 x) {
    return x >> every(4);
}

/* byte i is 16 if bit i of high is set */
QW_INLINE bytes16 fifth_bits(const uint8_t high[2]) {
    const bytes16 bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    words2 spread = {high[0] * 0x0101010101010101u, high[1] * 0x0101010101010101u};
    return (bytes16)(((bytes16)spread & bit) == bit) & every(16);
}

/* The values that sixteen indices of the IQ4 types stand for. */
QW_INLINE bytes16 iq4_values(bytes16 index) {
    return (bytes16)_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)qw_iq4_values), (__m128i)index);
}

QW_INLINE void unpack_group(qw_unpacked *u, size_t group, float scale, float min) {
    u->scale[2 * group] = u->scale[2 * group + 1] = scale;
    u->min[group] = min;
}

/* --- blocks of 32: low nibbles are values 0 .. 15, high ones 16 .. 31 --- */

QW_INLINE void unpack_q4_0(const void *w, qw_unpacked *u) {
    const block_q4_0 *b = w;
    for (size_t g = 0; g < 8; g++, b++) {
        bytes16 x = load16(b->q);
        store16(u->q + 32 * g, low_nibbles(x) - every(8));
        store16(u->q + 32 * g + 16, high_nibbles(x) - every(8));
        unpack_group(u, g, unpack_half(b->d), 0);
    }
}

QW_INLINE void unpack_q4_1(const void *w, qw_unpacked *u) {
    const block_q4_1 *b = w;
    for (size_t g = 0; g < 8; g++, b++) {
        bytes16 x = load16(b->q);
        store16(u->q + 32 * g, low_nibbles(x));
        store16(u->q + 32 * g + 16, high_nibbles(x));
        unpack_group(u, g, unpack_half(b->d), -unpack_half(b->m));
    }
}

QW_INLINE void unpack_q5_0(const void *w, qw_unpacked *u) {
    const block_q5_0 *b = w;
    for (size_t g = 0; g < 8; g++, b++) {
        bytes16 x = load16(b->q);
        store16(u->q + 32 * g, (low_nibbles(x) | fifth_bits(b->high)) - every(16));
        store16(u->q + 32 * g + 16, (high_nibbles(x) | fifth_bits(b->high + 2)) - every(16));
        unpack_group(u, g, unpack_half(b->d), 0);
    }
}

QW_INLINE void unpack_q5_1(const void *w, qw_unpacked *u) {
    const block_q5_1 *b = w;
    for (size_t g = 0; g < 8; g++, b++) {
        bytes16 x = load16(b->q);
        store16(u->q + 32 * g, low_nibbles(x) | fifth_bits(b->high));
        store16(u->q + 32 * g + 16, high_nibbles(x) | fifth_bits(b->high + 2));
        unpack_group(u, g, unpack_half(b->d), -unpack_half(b->m));
    }
}

QW_INLINE void unpack_q8_0(const void *w, qw_unpacked *u) {
    const block_q8_0 *b = w;
    for (size_t g = 0; g < 8; g++, b++) {
        memcpy(u->q + 32 * g, b->q, 32);
        unpack_group(u, g, unpack_half(b->d), 0);
    }
}

QW_INLINE void unpack_iq4_nl(const void *w, qw_unpacked *u) {
    const block_iq4_nl *b = w;
    for (size_t g = 0; g < 8; g++, b++) {
        bytes16 x = load16(b->q);
        store16(u->q + 32 * g, iq4_values(low_nibbles(x)));
        store16(u->q + 32 * g + 16, iq4_values(high_nibbles(x)));
        unpack_group(u, g, unpack_half(b->d), 0);
    }
}

/* --- blocks of 256 --- */

/* The six-bit scales and mins of Q4_K and Q5_K, eight at a time as bytes of two words. */
QW_INLINE void unpack_k_scales(const uint8_t packed[12], float d, float dmin, qw_unpacked *u) {
    uint32_t word[3];
    memcpy(word, packed, sizeof word);
    uint32_t scales[2] = {word[0] & 0x3f3f3f3f, (word[2] & 0x0f0f0f0f) | (word[0] >> 2 & 0x30303030)};
    uint32_t mins[2] = {word[1] & 0x3f3f3f3f, (word[2] >> 4 & 0x0f0f0f0f) | (word[1] >> 2 & 0x30303030)};
    uint8_t scale[8], min[8];
    memcpy(scale, scales, sizeof scale);
    memcpy(min, mins, sizeof min);
    for (size_t g = 0; g < 8; g++)
        unpack_group(u, g, d * (float)scale[g], dmin * (float)min[g]);
}

QW_INLINE void unpack_q4_k(const void *w, qw_unpacked *u) {
    const block_q4_k *b = w;
    for (size_t pair = 0; pair < 4; pair++)
        for (size_t l = 0; l < 32; l += 16) {
            bytes16 x = load16(b->q + 32 * pair + l);
            store16(u->q + 64 * pair + l, low_nibbles(x));
            store16(u->q + 64 * pair + 32 + l, high_nibbles(x));
        }
    unpack_k_scales(b->scales, unpack_half(b->d), unpack_half(b->dmin), u);
}

QW_INLINE void unpack_q5_k(const void *w, qw_unpacked *u) {
    const block_q5_k *b = w;
    for (size_t l = 0; l < 32; l += 16) {
        bytes16 high = load16(b->high + l);
        for (size_t pair = 0; pair < 4; pair++, high >>= every(2)) {
            bytes16 x = load16(b->q + 32 * pair + l);
            store16(u->q + 64 * pair + l, low_nibbles(x) | (high & every(1)) << every(4));
            store16(u->q + 64 * pair + 32 + l, high_nibbles(x) | (high & every(2)) << every(3));
        }
    }
    unpack_k_scales(b->scales, unpack_half(b->d), unpack_half(b->dmin), u);
}

QW_INLINE void unpack_q6_k(const void *w, qw_unpacked *u) {
    const block_q6_k *b = w;
    for (size_t half = 0; half < 2; half++)
        for (size_t l = 0; l < 32; l += 16) {
            bytes16 first = load16(b->low + 64 * half + l), second = load16(b->low + 64 * half + 32 + l);
            bytes16 high = load16(b->high + 32 * half + l), bits = every(48);
            int8_t *q = u->q + 128 * half + l;
            store16(q, (low_nibbles(first) | (high << every(4) & bits)) - every(32));
            store16(q + 32, (low_nibbles(second) | (high << every(2) & bits)) - every(32));
            store16(q + 64, (high_nibbles(first) | (high & bits)) - every(32));
            store16(q + 96, (high_nibbles(second) | (high >> every(2) & bits)) - every(32));
        }
    float d = unpack_half(b->d);
    for (int i = 0; i < 16; i++)
        u->scale[i] = d * (float)b->scales[i];
    memset(u->min, 0, sizeof u->min);
}

QW_INLINE void unpack_q3_k(const void *w, qw_unpacked *u) {
    const block_q3_k *b = w;
    for (size_t l = 0; l < 32; l += 16) {
        bytes16 high = load16(b->high + l);
        for (size_t half = 0; half < 2; half++) {
            bytes16 low = load16(b->low + 32 * half + l);
            for (size_t k = 0; k < 4; k++, low >>= every(2), high >>= every(1))
                store16(u->q + 128 * half + 32 * k + l, (low & every(3)) + (high & every(1)) * every(4) - every(4));
        }
    }
    uint32_t word[3];
    memcpy(word, b->scales, sizeof word);
    uint32_t scales[4] = {
        (word[0] & 0x0f0f0f0f) | (word[2] << 4 & 0x30303030),
        (word[1] & 0x0f0f0f0f) | (word[2] << 2 & 0x30303030),
        (word[0] >> 4 & 0x0f0f0f0f) | (word[2] & 0x30303030),
        (word[1] >> 4 & 0x0f0f0f0f) | (word[2] >> 2 & 0x30303030),
    };
    uint8_t scale[16];
    memcpy(scale, scales, sizeof scale);
    float d = unpack_half(b->d);
    for (int i = 0; i < 16; i++)
        u->scale[i] = d * (float)(scale[i] - 32);
    memset(u->min, 0, sizeof u->min);
}

QW_INLINE void unpack_iq4_xs(const void *w, qw_unpacked *u) {
    const block_iq4_xs *b = w;
    float d = unpack_half(b->d);
    for (size_t g = 0; g < 8; g++) {
        int low = b->scales_low[g / 2] >> 4 * (g % 2) & 15, high = b->scales_high >> 2 * g & 3;
        bytes16 x = load16(b->q + 16 * g);
        store16(u->q + 32 * g, iq4_values(low_nibbles(x)));
        store16(u->q + 32 * g + 16, iq4_values(high_nibbles(x)));
        unpack_group(u, g, d * (float)((low | high << 4) - 32), 0);
    }
}

#endif
