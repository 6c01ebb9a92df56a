/*
 * One unpacker per weight type: the file's blocks -> int8 values, a scale per 16 and a min per 32,
 *
 *     w[i] = scale[i / 16] * q[i] - min[i / 32]
 *
 * in plain loops that a compiler turns into vectors of whatever set the including file is for.
 * An unpacker covers n_k <= 256 values, a multiple of the type's block, and leaves the rest of the arrays alone.
 */
#ifndef QW_UNPACK_H
#define QW_UNPACK_H

#include <string.h>

#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "isa_common.h"

typedef struct qw_unpacked {
    int8_t q[QW_BLOCK_K] __attribute__((aligned(64)));
    float scale[QW_BLOCK_K / 16];
    float min[QW_BLOCK_K / 32];
} qw_unpacked;

typedef void qw_unpack(const void *w, size_t n_k, qw_unpacked *u);

/* What a type's q can be; for constant folding in what is built on the unpackers. */
typedef struct qw_range {
    int low, high;
    bool has_min;    /* else every min is 0 */
    bool fine_scale; /* else both halves of a group of 32 share a scale */
} qw_range;

static const qw_range range_q4_0 = {-8, 7, false, false}, range_q4_1 = {0, 15, true, false};
static const qw_range range_q5_0 = {-16, 15, false, false}, range_q5_1 = {0, 31, true, false};
static const qw_range range_q8_0 = {-128, 127, false, false}, range_q3_k = {-4, 3, false, true};
static const qw_range range_q4_k = {0, 15, true, false}, range_q5_k = {0, 31, true, false};
static const qw_range range_q6_k = {-32, 31, false, true}, range_iq4_nl = {-127, 113, false, false};
static const qw_range range_iq4_xs = {-127, 113, false, false};

QW_INLINE float unpack_half(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#elif defined(__aarch64__)
    __fp16 f;
    memcpy(&f, &h, sizeof f);
    return f;
#else
    return qw_f16_to_f32(h);
#endif
}

QW_INLINE void unpack_group(qw_unpacked *u, size_t group, float scale, float min) {
    u->scale[2 * group] = u->scale[2 * group + 1] = scale;
    u->min[group] = min;
}

/* Sixteen bytes: values 0 .. 15 in the low halves, 16 .. 31 in the high ones. */
QW_INLINE void unpack_nibbles(const uint8_t *packed, int offset, int8_t *q) {
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((packed[i] & 15) - offset);
        q[i + 16] = (int8_t)((packed[i] >> 4) - offset);
    }
}

/* Value i gets 16 * (bit i of high); bytes of the mask are spread so that the loop has no variable shifts. */
QW_INLINE void unpack_fifth_bits(const uint8_t *high, int8_t *q) {
    static const uint8_t bit[32] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
                                    1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8_t spread[32];
    for (int i = 0; i < 4; i++)
        memset(spread + 8 * i, high[i], 8);
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + ((spread[i] & bit[i]) == bit[i] ? 16 : 0));
}

/* unpack_nibbles through the table of the IQ4 types. */
QW_INLINE void unpack_iq4(const uint8_t *packed, int8_t *q) {
#if defined(__SSSE3__)
    __m128i table = _mm_loadu_si128((const __m128i *)qw_iq4_values), low = _mm_set1_epi8(15);
    __m128i bytes = _mm_loadu_si128((const __m128i *)packed);
    __m128i first = _mm_shuffle_epi8(table, _mm_and_si128(bytes, low));
    __m128i second = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(bytes, 4), low));
    _mm_storeu_si128((__m128i *)q, first);
    _mm_storeu_si128((__m128i *)(q + 16), second);
#elif defined(__aarch64__)
    int8x16_t table = vld1q_s8(qw_iq4_values);
    uint8x16_t bytes = vld1q_u8(packed);
    vst1q_s8(q, vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15))));
    vst1q_s8(q + 16, vqtbl1q_s8(table, vshrq_n_u8(bytes, 4)));
#else
    for (int i = 0; i < 16; i++) {
        q[i] = qw_iq4_values[packed[i] & 15];
        q[i + 16] = qw_iq4_values[packed[i] >> 4];
    }
#endif
}

/* --- blocks of 32 --- */

QW_INLINE void unpack_q4_0(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q4_0 *b = w;
    for (size_t g = 0; g < n_k / 32; g++) {
        unpack_nibbles(b[g].q, 8, u->q + 32 * g);
        unpack_group(u, g, unpack_half(b[g].d), 0);
    }
}

QW_INLINE void unpack_q4_1(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q4_1 *b = w;
    for (size_t g = 0; g < n_k / 32; g++) {
        unpack_nibbles(b[g].q, 0, u->q + 32 * g);
        unpack_group(u, g, unpack_half(b[g].d), -unpack_half(b[g].m));
    }
}

QW_INLINE void unpack_q5_0(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q5_0 *b = w;
    for (size_t g = 0; g < n_k / 32; g++) {
        unpack_nibbles(b[g].q, 16, u->q + 32 * g);
        unpack_fifth_bits(b[g].high, u->q + 32 * g);
        unpack_group(u, g, unpack_half(b[g].d), 0);
    }
}

QW_INLINE void unpack_q5_1(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q5_1 *b = w;
    for (size_t g = 0; g < n_k / 32; g++) {
        unpack_nibbles(b[g].q, 0, u->q + 32 * g);
        unpack_fifth_bits(b[g].high, u->q + 32 * g);
        unpack_group(u, g, unpack_half(b[g].d), -unpack_half(b[g].m));
    }
}

QW_INLINE void unpack_q8_0(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q8_0 *b = w;
    for (size_t g = 0; g < n_k / 32; g++) {
        memcpy(u->q + 32 * g, b[g].q, 32);
        unpack_group(u, g, unpack_half(b[g].d), 0);
    }
}

QW_INLINE void unpack_iq4_nl(const void *w, size_t n_k, qw_unpacked *u) {
    const block_iq4_nl *b = w;
    for (size_t g = 0; g < n_k / 32; g++) {
        unpack_iq4(b[g].q, u->q + 32 * g);
        unpack_group(u, g, unpack_half(b[g].d), 0);
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

QW_INLINE void unpack_q4_k(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q4_k *b = w;
    (void)n_k;
    for (int pair = 0; pair < 4; pair++)
        for (int l = 0; l < 32; l++) {
            u->q[64 * pair + l] = (int8_t)(b->q[32 * pair + l] & 15);
            u->q[64 * pair + 32 + l] = (int8_t)(b->q[32 * pair + l] >> 4);
        }
    unpack_k_scales(b->scales, unpack_half(b->d), unpack_half(b->dmin), u);
}

QW_INLINE void unpack_q5_k(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q5_k *b = w;
    (void)n_k;
    for (int pair = 0; pair < 4; pair++)
        for (int l = 0; l < 32; l++) {
            int low = b->q[32 * pair + l], high = b->high[l] >> 2 * pair;
            u->q[64 * pair + l] = (int8_t)((low & 15) | (high & 1) << 4);
            u->q[64 * pair + 32 + l] = (int8_t)(low >> 4 | (high & 2) << 3);
        }
    unpack_k_scales(b->scales, unpack_half(b->d), unpack_half(b->dmin), u);
}

QW_INLINE void unpack_q6_k(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q6_k *b = w;
    (void)n_k;
    for (int half = 0; half < 2; half++)
        for (int l = 0; l < 32; l++) {
            int first = b->low[64 * half + l], second = b->low[64 * half + 32 + l], high = b->high[32 * half + l];
            int8_t *q = u->q + 128 * half + l;
            q[0] = (int8_t)(((first & 15) | (high & 3) << 4) - 32);
            q[32] = (int8_t)(((second & 15) | (high & 12) << 2) - 32);
            q[64] = (int8_t)((first >> 4 | (high & 48)) - 32);
            q[96] = (int8_t)((second >> 4 | (high & 192) >> 2) - 32);
        }
    float d = unpack_half(b->d);
    for (int i = 0; i < 16; i++)
        u->scale[i] = d * (float)b->scales[i];
    memset(u->min, 0, sizeof u->min);
}

QW_INLINE void unpack_q3_k(const void *w, size_t n_k, qw_unpacked *u) {
    const block_q3_k *b = w;
    (void)n_k;
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < 4; k++)
            for (int l = 0; l < 32; l++) {
                int low = b->low[32 * half + l] >> 2 * k & 3, high = b->high[l] >> (4 * half + k) & 1;
                u->q[128 * half + 32 * k + l] = (int8_t)(low + 4 * high - 4);
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

QW_INLINE void unpack_iq4_xs(const void *w, size_t n_k, qw_unpacked *u) {
    const block_iq4_xs *b = w;
    (void)n_k;
    float d = unpack_half(b->d);
    for (size_t g = 0; g < 8; g++) {
        int low = b->scales_low[g / 2] >> 4 * (g % 2) & 15, high = b->scales_high >> 2 * g & 3;
        unpack_iq4(b->q + 16 * g, u->q + 32 * g);
        unpack_group(u, g, d * (float)((low | high << 4) - 32), 0);
    }
}

/* --- floats: n values, any number of them --- */

typedef void qw_unpack_floats(const void *w, size_t n, float *x);

QW_INLINE void unpack_f32(const void *w, size_t n, float *x) {
    memcpy(x, w, n * sizeof *x);
}

QW_INLINE void unpack_bf16(const void *w, size_t n, float *x) {
    const uint16_t *h = w;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)h[i] << 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

QW_INLINE void unpack_f16(const void *w, size_t n, float *x) {
    const uint16_t *h = w;
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(h + i))));
#endif
    for (; i < n; i++)
        x[i] = unpack_half(h[i]);
}

#endif
