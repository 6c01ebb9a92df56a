/*
 * GEMV: a block's 256 products are four VPDPBUSD, whose sixteen sums of four are scaled as floats.
 */
#include <immintrin.h>

#include "isa.h"

#include "../vector/quantize.h"
#include "unpack.h"

/* Three chains of additions, so that blocks do not wait for each other. */
typedef struct {
    __m512 even, odd;
    __m256 min;
} dot_sum;

/*
 * The unpacked q are too large by -low.  Where a group has one scale, that adds scale * -low * group_sum, a
 * min; with two scales it is taken off as an integer.
 */
QW_INLINE dot_sum dot_block(dot_sum total, const qw_unpacked *u, qw_range range, const int8_t *q, const float *d,
                            const float *group_sum) {
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i fours = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i offset = _mm512_set1_epi8((char)-range.low);
    __m512 product = _mm512_mul_ps(u->scale, twice_each(_mm256_loadu_ps(d)));

    for (int i = 0; i < QW_BLOCK_K / 64; i++) {
        __m512i x = _mm512_loadu_si512(q + 64 * i);
        __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), u->q[i], x);
        if (range.low && range.fine_scale)
            sum = _mm512_sub_epi32(sum, _mm512_dpbusd_epi32(_mm512_setzero_si512(), offset, x));
        __m512 factor = _mm512_permutexvar_ps(_mm512_add_epi32(fours, _mm512_set1_epi32(4 * i)), product);
        __m512 *part = i % 2 ? &total.odd : &total.even;
        *part = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), factor, *part);
    }
    if (range.has_min || (range.low && !range.fine_scale)) {
        __m256 min;
        if (range.has_min) {
            min = u->min;
        } else {
            __m512 evens = _mm512_permutexvar_ps(_mm512_castsi256_si512(even), u->scale);
            min = _mm256_mul_ps(_mm512_castps512_ps256(evens), _mm256_set1_ps((float)-range.low));
        }
        total.min = _mm256_fnmadd_ps(min, _mm256_loadu_ps(group_sum), total.min);
    }
    return total;
}

QW_INLINE float dot_total(dot_sum sum) {
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sum.even, sum.odd), _mm512_zextps256_ps512(sum.min)));
}

#include "../vector/gemv.h"
