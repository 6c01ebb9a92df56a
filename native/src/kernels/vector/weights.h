/*
 * What every set's unpackers share: the range of each type's values, half floats, and the float types.
 */
#ifndef QW_WEIGHTS_H
#define QW_WEIGHTS_H

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "isa_common.h"

/* What a type's q can be, for constant folding: w = scale[i / 16] * q[i] - min[i / 32]. */
typedef struct qw_range {
    int low, high;
    bool has_min;    /* else every min is 0 */
    bool fine_scale; /* else both halves of a group of 32 share a scale */
    size_t bytes;    /* of 256 values */
} qw_range;

static const qw_range range_q4_0 = {-8, 7, false, false, 8 * sizeof(block_q4_0)};
static const qw_range range_q4_1 = {0, 15, true, false, 8 * sizeof(block_q4_1)};
static const qw_range range_q5_0 = {-16, 15, false, false, 8 * sizeof(block_q5_0)};
static const qw_range range_q5_1 = {0, 31, true, false, 8 * sizeof(block_q5_1)};
static const qw_range range_q8_0 = {-128, 127, false, false, 8 * sizeof(block_q8_0)};
static const qw_range range_iq4_nl = {-128, 127, false, false, 8 * sizeof(block_iq4_nl)};
static const qw_range range_q3_k = {-4, 3, false, true, sizeof(block_q3_k)};
static const qw_range range_q4_k = {0, 15, true, false, sizeof(block_q4_k)};
static const qw_range range_q5_k = {0, 31, true, false, sizeof(block_q5_k)};
static const qw_range range_q6_k = {-32, 31, false, true, sizeof(block_q6_k)};
static const qw_range range_iq4_xs = {-128, 127, false, false, sizeof(block_iq4_xs)};

enum { QW_MOST_BLOCK_BYTES = 8 * sizeof(block_q8_0) };

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

/* The 256 values at block, of which only n_k exist: those, and blocks of zeros made in room. */
QW_INLINE const void *whole_block(const void *block, qw_range range, size_t n_k, uint8_t room[QW_MOST_BLOCK_BYTES]) {
    if (n_k == QW_BLOCK_K)
        return block;
    memset(room, 0, range.bytes);
    return memcpy(room, block, n_k / 32 * (range.bytes / 8));
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
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(h + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(h + i))));
#endif
    for (; i < n; i++)
        x[i] = unpack_half(h[i]);
}

#endif
