/*
 * Eight rows of eight 32-bit words -> eight columns, with AVX2.  Both x86 layouts are made of such words:
 * four int8 or two int16 that one dot-product instruction adds up.
 */
#ifndef QW_X86_TRANSPOSE_H
#define QW_X86_TRANSPOSE_H

#include <immintrin.h>

#include "isa_common.h"

/* Row r of the source is at from + r * from_bytes, row c of the result at to + c * to_bytes. */
QW_INLINE void transpose_8x8(const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    __m256i row[8], pair[8], quad[8];
    for (int i = 0; i < 8; i++)
        row[i] = _mm256_loadu_si256((const __m256i *)((const char *)from + i * from_bytes));
    for (int i = 0; i < 4; i++) {
        pair[2 * i] = _mm256_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
        pair[2 * i + 1] = _mm256_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        quad[4 * i] = _mm256_unpacklo_epi64(pair[4 * i], pair[4 * i + 2]);
        quad[4 * i + 1] = _mm256_unpackhi_epi64(pair[4 * i], pair[4 * i + 2]);
        quad[4 * i + 2] = _mm256_unpacklo_epi64(pair[4 * i + 1], pair[4 * i + 3]);
        quad[4 * i + 3] = _mm256_unpackhi_epi64(pair[4 * i + 1], pair[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        char *low = (char *)to + i * to_bytes, *high = (char *)to + (i + 4) * to_bytes;
        _mm256_storeu_si256((__m256i *)low, _mm256_permute2x128_si256(quad[i], quad[i + 4], 0x20));
        _mm256_storeu_si256((__m256i *)high, _mm256_permute2x128_si256(quad[i], quad[i + 4], 0x31));
    }
}

#endif
