/*
 * The GEMM of P8 with VPMADDWD on int16, 4 rows x 16 columns x 256 k at a time.
 *
 * Activation block: [k / 2][8 rows][2] int16; meta holds the rows' scales.  Tiles are rows [8][64].
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
        meta[r] = round_floats(x + r * ld, n_k, row);
        for (size_t k = 0; k < n_k; k++)
            rows[r][k] = row[k];
    }
    for (size_t k = 0; k < QW_BLOCK_K; k += 16)
        transpose_8x8(rows[0] + k, sizeof rows[0], q + 2 * k * QW_BLOCK_ROWS, 4 * QW_BLOCK_ROWS);
}

QW_INLINE void tile_4x16(const int8_t *q, const float *row_scale, const int8_t *w, const float *scale, float *c,
                         bool first) {
    __m256i left[ROWS], right[ROWS];
    for (int r = 0; r < ROWS; r++)
        left[r] = right[r] = _mm256_setzero_si256();
    for (size_t k = 0; k < QW_BLOCK_K; k += 2, q += 4 * QW_BLOCK_ROWS, w += 4 * QW_PANEL_COLS) {
        __m256i w_left = _mm256_loadu_si256((const __m256i *)w);
        __m256i w_right = _mm256_loadu_si256((const __m256i *)(w + 32));
        for (int r = 0; r < ROWS; r++) {
            int32_t two;
            memcpy(&two, q + 4 * r, sizeof two);
            __m256i x = _mm256_set1_epi32(two);
            left[r] = _mm256_add_epi32(left[r], _mm256_madd_epi16(w_left, x));
            right[r] = _mm256_add_epi32(right[r], _mm256_madd_epi16(w_right, x));
        }
    }
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

void qw_avx2_gemm_i8(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel, const float *scale,
                     float *c, bool first) {
    size_t block_bytes = QW_BLOCK_ROWS * QW_BLOCK_K * sizeof(int16_t);
    for (size_t b = 0; b < n_blocks; b++, q += block_bytes, meta += QW_ACT_META, c += QW_TILE)
        for (size_t column = 0; column < QW_PANEL_COLS; column += COLS)
            for (size_t r = 0; r < QW_BLOCK_ROWS; r += ROWS)
                tile_4x16(q + 4 * r, meta + r, panel + 4 * column, scale + column, c + r * QW_PANEL_COLS + column,
                          first);
}

void qw_avx2_untile(const float *tile, float *rows) {
    memcpy(rows, tile, QW_TILE * sizeof *rows);
}
