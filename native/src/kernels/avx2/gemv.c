/*
 * GEMV: a group's 32 products are one VPMADDUBSW, whose eight sums of four are scaled as floats.
 */
#include <immintrin.h>

#include "isa.h"

#include "../vector/quantize.h"
#include "unpack.h"

/* Two chains of additions, so that groups wait less for each other. */
typedef struct {
    __m256 even, odd;
} dot_sum;

/* In halves, as the unpackers store them: a wider load would wait for both stores to reach the cache. */
QW_INLINE __m256i load_group(const int8_t *q) {
    __m256i low = _mm256_castsi128_si256(_mm_load_si128((const __m128i *)q));
    return _mm256_inserti128_si256(low, _mm_load_si128((const __m128i *)(q + 16)), 1);
}

/* |w| * (x with w's sign): VPMADDUBSW wants one unsigned operand.  Sums of two are within 2 * 128 * 127. */
QW_INLINE dot_sum dot_block(dot_sum total, const qw_unpacked *u, qw_range range, const int8_t *q, const float *d,
                            const float *group_sum) {
    const __m256i ones = _mm256_set1_epi16(1);

    for (int g = 0; g < QW_BLOCK_K / QW_ACT_GROUP; g++) {
        __m256i w = load_group(u->q + 32 * g);
        __m256i x = _mm256_loadu_si256((const __m256i *)(q + 32 * g));
        __m256i pairs = range.low ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                  : _mm256_maddubs_epi16(w, x);
        __m256 scale = _mm256_set1_ps(u->scale[2 * g]);
        if (range.fine_scale)
            scale = _mm256_blend_ps(scale, _mm256_set1_ps(u->scale[2 * g + 1]), 0xf0);
        __m256 factor = _mm256_mul_ps(scale, _mm256_set1_ps(d[g]));
        __m256 *part = g % 2 ? &total.odd : &total.even;
        *part = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones)), factor, *part);
    }
    if (range.has_min)
        total.even = _mm256_fnmadd_ps(_mm256_loadu_ps(u->min), _mm256_loadu_ps(group_sum), total.even);
    return total;
}

QW_INLINE float dot_total(dot_sum sum) {
    __m256 eight = _mm256_add_ps(sum.even, sum.odd);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#include "../vector/gemv.h"
