/*
 * P8 expanders.  Panel: [k / 4][64 columns][4], bytes w + 128, because VPDPBUSD wants one unsigned operand.
 */
#include <immintrin.h>

#include "isa.h"

#include "../vector/round.h"
#include "unpack.h"

enum { QW_STORE_COLS = 16 };

/* Four k of sixteen columns, from vectors of sixteen k of four columns each: a transposition of words. */
QW_INLINE void store_columns(int8_t *panel, size_t column, int8_t q[QW_STORE_COLS][QW_BLOCK_K]) {
    const __m512i words01 = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const __m512i words23 = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
    const __m512i flip = _mm512_set1_epi8((char)0x80);

    for (size_t k = 0; k < QW_BLOCK_K; k += 16) {
        __m512i v[4], from[4];
        for (int i = 0; i < 4; i++) {
            __m512i four = _mm512_castsi128_si512(_mm_load_si128((const __m128i *)&q[4 * i][k]));
            four = _mm512_inserti32x4(four, _mm_load_si128((const __m128i *)&q[4 * i + 1][k]), 1);
            four = _mm512_inserti32x4(four, _mm_load_si128((const __m128i *)&q[4 * i + 2][k]), 2);
            four = _mm512_inserti32x4(four, _mm_load_si128((const __m128i *)&q[4 * i + 3][k]), 3);
            v[i] = _mm512_xor_si512(four, flip);
        }
        from[0] = _mm512_permutex2var_epi32(v[0], words01, v[1]);
        from[1] = _mm512_permutex2var_epi32(v[2], words01, v[3]);
        from[2] = _mm512_permutex2var_epi32(v[0], words23, v[1]);
        from[3] = _mm512_permutex2var_epi32(v[2], words23, v[3]);
        int8_t *out = panel + k * QW_PANEL_COLS + 4 * column;
        _mm512_storeu_si512(out, _mm512_shuffle_i64x2(from[0], from[1], 0x44));
        _mm512_storeu_si512(out + 4 * QW_PANEL_COLS, _mm512_shuffle_i64x2(from[0], from[1], 0xee));
        _mm512_storeu_si512(out + 8 * QW_PANEL_COLS, _mm512_shuffle_i64x2(from[2], from[3], 0x44));
        _mm512_storeu_si512(out + 12 * QW_PANEL_COLS, _mm512_shuffle_i64x2(from[2], from[3], 0xee));
    }
}

QW_INLINE void store_scales(float *scale, size_t column, const float s[QW_STORE_COLS]) {
    memcpy(scale + column, s, QW_STORE_COLS * sizeof *s);
}

/* Sixteen words -> the 32 words of values 32g .. 32g + 31. */
QW_INLINE __m512i words_of_group(__m256i words, int g) {
    __m512i first = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1);
    return _mm512_permutexvar_epi16(_mm512_add_epi16(first, _mm512_set1_epi16((short)(2 * g))),
                                    _mm512_castsi256_si512(words));
}

QW_INLINE __m256i words_of(__m512 x) {
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)); /* NaN becomes 0 */
}

/*
 * Round in 16-bit fixed point.  max is a bound of |w|: with a min, that of the two ends of each group, else
 * scale times a power of two, 2^p >= |q|.  Then, step being max / 127,
 *
 *     without min  (q << (7 - p)) * a / 2^15, a = scale * 2^(p + 8) / step <= 127 * 2^8, by VPMULHRSW
 *     with min     (q * a - b + 64) >> 7, both scaled by 2^7 / step, each end within 127 * 2^7
 *
 * so no result leaves -127 .. 127, and the error is under 0.65 step.
 */
QW_INLINE float round_unpacked(const qw_unpacked *u, qw_range range, int8_t *q) {
    const int power = range.low >= -4 ? 2 : range.low >= -8 ? 3 : range.low >= -16 ? 4 : range.low >= -32 ? 5 : 7;
    __m512 scale = u->scale, min = _mm512_setzero_ps(), end;

    if (range.has_min) {
        min = twice_each(u->min);
        end = _mm512_fmsub_ps(scale, _mm512_set1_ps((float)range.high), min);
    } else {
        end = _mm512_mul_ps(scale, _mm512_set1_ps((float)(1 << power)));
    }
    __m512i bits = _mm512_max_epu32(_mm512_castps_si512(_mm512_abs_ps(end)), _mm512_castps_si512(_mm512_abs_ps(min)));
    uint32_t max_bits = _mm512_reduce_max_epu32(_mm512_max_epu32(bits, _mm512_set1_epi32(ROUND_FLOOR_BITS)));
    float max;
    memcpy(&max, &max_bits, sizeof max);

    __m512 inverse = _mm512_set1_ps((range.has_min ? 0x1p7f : (float)(1 << (power + 8))) * 127.0f / max);
    __m256i a = words_of(_mm512_mul_ps(scale, inverse)), b = words_of(_mm512_mul_ps(min, inverse));
    b = _mm256_sub_epi16(b, _mm256_set1_epi16(64));
    for (int g = 0; g < QW_BLOCK_K / 32; g++) {
        __m512i value = _mm512_add_epi8(u->q[g / 2], _mm512_set1_epi8((char)range.low));
        value = _mm512_cvtepi8_epi16(g % 2 ? _mm512_extracti64x4_epi64(value, 1) : _mm512_castsi512_si256(value));
        if (range.has_min) {
            value = _mm512_sub_epi16(_mm512_mullo_epi16(value, words_of_group(a, g)), words_of_group(b, g));
            value = _mm512_srai_epi16(value, 7);
        } else {
            value = _mm512_mulhrs_epi16(_mm512_slli_epi16(value, (unsigned)(7 - power)), words_of_group(a, g));
        }
        _mm256_store_si256((__m256i *)(q + 32 * g), _mm512_cvtepi16_epi8(value));
    }
    return max_bits < ROUND_INF_BITS ? max * (1.0f / 127.0f) : NAN;
}

#include "../vector/expand.h"
