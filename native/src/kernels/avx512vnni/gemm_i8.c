/*
 * The int8 GEMM of P8 with VPDPBUSD, 8 rows x 32 columns x 128 k at a time.
 *
 * Activation block: [k / 4][8 rows][4] int8; meta holds, for each 128 k, the rows' scales and then -128 times the
 * sums of their values as int32: weights are w + 128, so accumulators start there.
 */
#include <immintrin.h>
#include <string.h>

#include "../vector/quant_table.h"
#include "../vector/round.h"
#include "../vector/x86_transpose.h"
#include "isa.h"

QW_DECLARE_QUANT_KERNELS(avx512vnni)

enum { ROWS = QW_BLOCK_ROWS, HALF = 32 };

void qw_avx512vnni_quantize_block(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q,
                                  float *meta) {
    int8_t rows[ROWS][QW_BLOCK_K] __attribute__((aligned(64))) = {0};

    memset(meta, 0, QW_ACT_META * sizeof *meta);
    for (size_t k = 0; k < n_k; k += QW_ACT_K, meta += 2 * ROWS) {
        int32_t sums[ROWS] = {0};
        for (size_t r = 0; r < n_rows; r++) {
            meta[r] = round_floats(x + r * ld + k, n_k - k < QW_ACT_K ? n_k - k : QW_ACT_K, rows[r] + k);
            for (size_t i = 0; i < QW_ACT_K; i++)
                sums[r] += rows[r][k + i];
            sums[r] *= -128;
        }
        memcpy(meta + ROWS, sums, sizeof sums);
    }
    for (size_t k = 0; k < QW_BLOCK_K; k += 32)
        transpose_8x8(rows[0] + k, QW_BLOCK_K, q + k * ROWS, 4 * ROWS);
}

/* Four k: weights of the left and right sixteen columns, then row by row one broadcast and two products. */
#define WEIGHTS(k) "vmovdqu64 " #k "*256(%[w]), %[wl]\n vmovdqu64 " #k "*256+64(%[w]), %[wr]\n"
#define ROW(k, r, x)                                                                                        \
    "vpbroadcastd " #k "*32+" #r "*4(%[q]), %[" #x "]\n"                                                    \
    "vpdpbusd %[" #x "], %[wl], %[l" #r "]\n"                                                               \
    "vpdpbusd %[" #x "], %[wr], %[r" #r "]\n"
#define FOUR_K(k)                                                                                           \
    WEIGHTS(k)                                                                                              \
    ROW(k, 0, x0) ROW(k, 1, x1) ROW(k, 2, x2) ROW(k, 3, x3)                                                 \
    ROW(k, 4, x0) ROW(k, 5, x1) ROW(k, 6, x2) ROW(k, 7, x3)
#define START(r) "vpbroadcastd 32+" #r "*4(%[meta]), %[l" #r "]\n vmovdqa64 %[l" #r "], %[r" #r "]\n"
#define SUMS(n) [l##n] "=&v"(left[n]), [r##n] "=&v"(right[n])

QW_INLINE void tile_8x32(const int8_t *q, const float *meta, const int8_t *w, const float *scale, float *c,
                         bool first) {
    __m512i left[ROWS], right[ROWS], wl, wr, x0, x1, x2, x3;
    size_t steps = QW_ACT_K / 8;
    __asm__ volatile(/* asm, because compilers copy accumulators back and forth */
                     START(0) START(1) START(2) START(3) START(4) START(5) START(6) START(7)
                     "1:\n" FOUR_K(0) FOUR_K(1)
                     "add $512, %[w]\n"
                     "add $64, %[q]\n"
                     "dec %[steps]\n"
                     "jnz 1b\n"
                     : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), SUMS(6), SUMS(7), [w] "+r"(w),
                       [q] "+r"(q), [steps] "+r"(steps), [wl] "=&v"(wl), [wr] "=&v"(wr), [x0] "=&v"(x0),
                       [x1] "=&v"(x1), [x2] "=&v"(x2), [x3] "=&v"(x3)
                     : [meta] "r"(meta)
                     : "memory", "cc");
    __m512 scale_left = _mm512_loadu_ps(scale), scale_right = _mm512_loadu_ps(scale + 16);
    for (int r = 0; r < ROWS; r++, c += QW_PANEL_COLS) {
        __m512 row_scale = _mm512_set1_ps(meta[r]);
        __m512 c_left = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c);
        __m512 c_right = first ? _mm512_setzero_ps() : _mm512_loadu_ps(c + 16);
        __m512 factor_left = _mm512_mul_ps(row_scale, scale_left);
        __m512 factor_right = _mm512_mul_ps(row_scale, scale_right);
        c_left = _mm512_fmadd_ps(_mm512_cvtepi32_ps(left[r]), factor_left, c_left);
        c_right = _mm512_fmadd_ps(_mm512_cvtepi32_ps(right[r]), factor_right, c_right);
        _mm512_storeu_ps(c, c_left);
        _mm512_storeu_ps(c + 16, c_right);
    }
}

void qw_avx512vnni_gemm_i8(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel,
                           const float *scale, float *c, bool first) {
    for (size_t b = 0; b < n_blocks; b++, q += ROWS * QW_BLOCK_K, meta += QW_ACT_META, c += QW_TILE)
        for (size_t column = 0; column < QW_PANEL_COLS; column += HALF)
            for (size_t k = 0; k < QW_BLOCK_K; k += QW_ACT_K)
                tile_8x32(q + k * ROWS, meta + k / QW_ACT_K * 2 * ROWS, panel + 4 * column + k * QW_PANEL_COLS,
                          scale + column, c + column, first && k == 0);
}
