/*
 * GEMV: a block's 256 products are four VPDPBUSD, whose sixteen sums of four are scaled as floats.
 */
#include <immintrin.h>

#include "isa.h"

#include "../vector/quantize.h"

typedef __m512 dot_sum;

/*
 * q - low is unsigned.  Where a group has one scale, what that adds is scale * -low * group_sum, one more min; with
 * two scales it is taken off as an integer.
 */
QW_INLINE dot_sum dot_block(dot_sum total, const qw_unpacked *u, qw_range range, const int8_t *q, const float *d,
                            const float *group_sum) {
    const __m512i pairs = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i fours = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i offset = _mm512_set1_epi8((char)-range.low);
    __m512 scale = _mm512_loadu_ps(u->scale);
    __m512 product = _mm512_mul_ps(scale, _mm512_permutexvar_ps(pairs, _mm512_castps256_ps512(_mm256_loadu_ps(d))));

    for (int i = 0; i < QW_BLOCK_K / 64; i++) {
        __m512i x = _mm512_loadu_si512(q + 64 * i), w = _mm512_load_si512(u->q + 64 * i);
        __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), range.low ? _mm512_add_epi8(w, offset) : w, x);
        if (range.low && range.fine_scale)
            sum = _mm512_sub_epi32(sum, _mm512_dpbusd_epi32(_mm512_setzero_si512(), offset, x));
        __m512 factor = _mm512_permutexvar_ps(_mm512_add_epi32(fours, _mm512_set1_epi32(4 * i)), product);
        total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, total);
    }
    if (range.has_min || (range.low && !range.fine_scale)) {
        __m256 min = _mm256_loadu_ps(u->min);
        if (range.low) {
            __m512 evens = _mm512_permutexvar_ps(_mm512_castsi256_si512(even), scale);
            min = _mm256_mul_ps(_mm512_castps512_ps256(evens), _mm256_set1_ps((float)-range.low));
        }
        total = _mm512_fnmadd_ps(_mm512_zextps256_ps512(min), _mm512_zextps256_ps512(_mm256_loadu_ps(group_sum)), total);
    }
    return total;
}

QW_INLINE float dot_total(dot_sum sum) {
    return _mm512_reduce_add_ps(sum);
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
