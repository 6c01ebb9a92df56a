/*
 * GEMV: a group's 32 products are one VPMADDUBSW, whose eight sums of four are scaled as floats.
 */
#include <immintrin.h>

#include "isa.h"

#include "../vector/quantize.h"
#include "../vector/unpack.h"

typedef __m256 dot_sum;

/* |w| * (x with w's sign): the unsigned operand VPMADDUBSW wants; its sums of two stay within 2 * 128 * 127. */
QW_INLINE dot_sum dot_block(dot_sum total, const qw_unpacked *u, qw_range range, const int8_t *q, const float *d,
                            const float *group_sum) {
    const __m256i ones = _mm256_set1_epi16(1);

    for (int g = 0; g < QW_BLOCK_K / QW_ACT_GROUP; g++) {
        __m256i w = _mm256_load_si256((const __m256i *)(u->q + 32 * g));
        __m256i x = _mm256_loadu_si256((const __m256i *)(q + 32 * g));
        __m256i pairs = range.low ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                  : _mm256_maddubs_epi16(w, x);
        __m256 scale = _mm256_set1_ps(u->scale[2 * g]);
        if (range.fine_scale)
            scale = _mm256_blend_ps(scale, _mm256_set1_ps(u->scale[2 * g + 1]), 0xf0);
        __m256 factor = _mm256_mul_ps(scale, _mm256_set1_ps(d[g]));
        total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones)), factor, total);
    }
    if (range.has_min)
        total = _mm256_fnmadd_ps(_mm256_loadu_ps(u->min), _mm256_loadu_ps(group_sum), total);
    return total;
}

QW_INLINE float dot_total(dot_sum sum) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

#include "../vector/gemv.h"

QW_DEFINE_GEMV_FLOATS(f32, float)
QW_DEFINE_GEMV_FLOATS(f16, uint16_t)
QW_DEFINE_GEMV_FLOATS(bf16, uint16_t)
QW_DEFINE_GEMV(q4_0)
QW_DEFINE_GEMV(q4_1)
QW_DEFINE_GEMV(q5_0)
QW_DEFINE_GEMV(q5_1)
QW_DEFINE_GEMV(q8_0)
QW_DEFINE_GEMV(q3_k)
QW_DEFINE_GEMV(q4_k)
QW_DEFINE_GEMV(q5_k)
QW_DEFINE_GEMV(q6_k)
QW_DEFINE_GEMV(iq4_nl)
QW_DEFINE_GEMV(iq4_xs)
