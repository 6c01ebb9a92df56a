/*
 * The GEMM of P8 with VPMADDWD on int16, 4 rows x 16 columns x 128 k at a time.
 *
 * Activation block: [k / 2][8 rows][2] int16; meta holds the rows' scales, 16 words for each 128 k.
 */
#include <immintrin.h>
#include <string.h>

#include "../vector/quant_table.h"
#include "../vector/round.h"
#include "../vector/x86_transpose.h"
#include "isa.h"

QW_DECLARE_QUANT_KERNELS(avx2)

enum { ROWS = 4, COLS = 16 };

void qw_avx2_quantize_block(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q, float *meta) {
    int16_t rows[QW_BLOCK_ROWS][QW_BLOCK_K] __attribute__((aligned(64))) = {0};

    memset(meta, 0, QW_ACT_META * sizeof *meta);
    for (size_t r = 0; r < n_rows; r++) {
        int8_t row[QW_BLOCK_K];
        for (size_t k = 0; k < n_k; k += QW_ACT_K)
            meta[k / QW_ACT_K * 16 + r] =
                round_floats(x + r * ld + k, n_k - k < QW_ACT_K ? n_k - k : QW_ACT_K, row + k);
        for (size_t k = 0; k < n_k; k++)
            rows[r][k] = row[k];
    }
    for (size_t k = 0; k < QW_BLOCK_K; k += 16)
        transpose_8x8(rows[0] + k, sizeof rows[0], q + 2 * k * QW_BLOCK_ROWS, 4 * QW_BLOCK_ROWS);
}

/* Two k: weights of the left and right eight columns, then row by row one broadcast and two products. */
#define START(r) "vpxor %[l" #r "], %[l" #r "], %[l" #r "]\n vpxor %[r" #r "], %[r" #r "], %[r" #r "]\n"
#define WEIGHTS(k) "vmovdqu " #k "*256(%[w]), %[wl]\n vmovdqu " #k "*256+32(%[w]), %[wr]\n"
#define ROW(k, r)                                                                                           \
    "vpbroadcastd " #k "*32+" #r "*4(%[q]), %[x]\n"                                                         \
    "vpmaddwd %[x], %[wl], %[y]\n vpaddd %[y], %[l" #r "], %[l" #r "]\n"                                    \
    "vpmaddwd %[x], %[wr], %[x]\n vpaddd %[x], %[r" #r "], %[r" #r "]\n"
#define TWO_K(k) WEIGHTS(k) ROW(k, 0) ROW(k, 1) ROW(k, 2) ROW(k, 3)
#define SUMS(n) [l##n] "=&x"(left[n]), [r##n] "=&x"(right[n])

QW_INLINE void tile_4x16(const int8_t *q, const float *row_scale, const int8_t *w, const float *scale,
                         float *c, bool first) {
    __m256i left[ROWS], right[ROWS], wl, wr, x, y;
    size_t steps = QW_ACT_K / 4;
    __asm__ volatile(/* asm, because compilers copy accumulators back and forth */
                     START(0) START(1) START(2) START(3)
                     "1:\n" TWO_K(0) TWO_K(1)
                     "add $512, %[w]\n"
                     "add $64, %[q]\n"
                     "dec %[steps]\n"
                     "jnz 1b\n"
                     : SUMS(0), SUMS(1), SUMS(2), SUMS(3), [w] "+r"(w), [q] "+r"(q), [steps] "+r"(steps),
                       [wl] "=&x"(wl), [wr] "=&x"(wr), [x] "=&x"(x), [y] "=&x"(y)
                     :
                     : "memory", "cc");
    __m256 scale_left = _mm256_loadu_ps(scale), scale_right = _mm256_loadu_ps(scale + 8);
    for (int r = 0; r < ROWS; r++, c += QW_PANEL_COLS) {
        __m256 x_scale = _mm256_set1_ps(row_scale[r]);
        __m256 c_left = first ? _mm256_setzero_ps() : _mm256_loadu_ps(c);
        __m256 c_right = first ? _mm256_setzero_ps() : _mm256_loadu_ps(c + 8);
        c_left = _mm256_fmadd_ps(_mm256_cvtepi32_ps(left[r]), _mm256_mul_ps(x_scale, scale_left), c_left);
        c_right = _mm256_fmadd_ps(_mm256_cvtepi32_ps(right[r]), _mm256_mul_ps(x_scale, scale_right), c_right);
        _mm256_storeu_ps(c, c_left);
        _mm256_storeu_ps(c + 8, c_right);
    }
}

void qw_avx2_gemm_i8(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel,
                     const float *scale, float *c, bool first) {
    size_t block_bytes = QW_BLOCK_ROWS * QW_BLOCK_K * sizeof(int16_t);
    for (size_t b = 0; b < n_blocks; b++, q += block_bytes, meta += QW_ACT_META, c += QW_TILE)
        for (size_t column = 0; column < QW_PANEL_COLS; column += COLS)
            for (size_t r = 0; r < QW_BLOCK_ROWS; r += ROWS)
                for (size_t k = 0; k < QW_BLOCK_K; k += QW_ACT_K)
                    tile_4x16(q + 2 * k * QW_BLOCK_ROWS + 4 * r, meta + k / QW_ACT_K * 16 + r,
                              panel + 2 * k * QW_PANEL_COLS + 4 * column, scale + column,
                              c + r * QW_PANEL_COLS + column, first && k == 0);
}
