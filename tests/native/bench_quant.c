/*
 * Speed of the quantized kernels: GMAC/s of P8 with its expansion, GB/s of GEMV.
 */
#include <stdio.h>
#include <string.h>

#include "bench_peak.h"
#include "check_blocks.h"

enum { N_ROWS = 424, N_COLS = 3584, N_K = 1024, K_BLOCKS = N_K / QW_BLOCK_K, ROW_BLOCKS = N_ROWS / QW_BLOCK_ROWS };
enum { GEMV_BYTES = 96 << 20 }; /* more than a last-level cache keeps */

static uint8_t *random_columns(uint32_t type, size_t n_cols, size_t n_k) {
    enum { DIFFERENT = 64 };
    check_random r = {3};
    size_t col_bytes = qw_row_bytes(type, n_k);
    uint8_t *columns = check_alloc(n_cols * col_bytes);
    for (size_t c = 0; c < n_cols; c++)
        if (c < DIFFERENT)
            check_fill_column(&r, type, STYLE_ORDINARY, columns + c * col_bytes, n_k);
        else
            memcpy(columns + c * col_bytes, columns + c % DIFFERENT * col_bytes, col_bytes);
    return columns;
}

/* The loop of a prefill: per panel and 256 k, expand and multiply all rows. */
typedef struct {
    const qw_kernels *k;
    uint32_t type;
    const uint8_t *columns;
    int8_t *q, *panel;
    float *meta, *scale, *tiles;
} p8_job;

static void run_p8(const p8_job *j, size_t n_expansions) {
    size_t col_bytes = qw_row_bytes(j->type, N_K), block_bytes = qw_row_bytes(j->type, QW_BLOCK_K);
    for (size_t column = 0; column < N_COLS; column += QW_PANEL_COLS)
        for (size_t kb = 0; kb < K_BLOCKS; kb++) {
            for (size_t i = 0; i < n_expansions; i++)
                j->k->expand[j->type](j->columns + column * col_bytes + kb * block_bytes, col_bytes, QW_PANEL_COLS,
                                      QW_BLOCK_K, j->panel, j->scale);
            j->k->gemm_i8(j->q + kb * ROW_BLOCKS * j->k->act_block_bytes, j->meta + kb * ROW_BLOCKS * QW_ACT_META,
                          ROW_BLOCKS, j->panel, j->scale, j->tiles, kb == 0);
        }
}

static double fastest(const p8_job *j, size_t n_expansions, int tries) {
    double best = 1e9;
    for (int try = 0; try < tries; try++) {
        double start = check_seconds();
        run_p8(j, n_expansions);
        double seconds = check_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void bench_p8(const qw_kernels *k, uint32_t type) {
    p8_job j = {.k = k, .type = type, .columns = random_columns(type, N_COLS, N_K)};
    float *x = check_alloc(N_ROWS * QW_BLOCK_K * sizeof(float));
    check_random r = {4};
    bool slow = !bench_peak_gmacs(k->isa);

    j.q = check_alloc(K_BLOCKS * ROW_BLOCKS * k->act_block_bytes);
    j.meta = check_alloc(K_BLOCKS * ROW_BLOCKS * QW_ACT_META * sizeof(float));
    j.panel = check_alloc(QW_PANEL_BYTES);
    j.scale = check_alloc(QW_PANEL_SCALES * sizeof(float));
    j.tiles = check_alloc(ROW_BLOCKS * QW_TILE * sizeof(float));
    for (size_t i = 0; i < N_ROWS * QW_BLOCK_K; i++)
        x[i] = check_normal(&r);
    for (size_t block = 0; block < K_BLOCKS * ROW_BLOCKS; block++)
        k->quantize_block(x + block % ROW_BLOCKS * QW_BLOCK_ROWS * QW_BLOCK_K, QW_BLOCK_K, QW_BLOCK_ROWS, QW_BLOCK_K,
                          j.q + block * k->act_block_bytes, j.meta + block * QW_ACT_META);

    double peak = bench_peak_gmacs(k->isa), seconds = fastest(&j, 1, slow ? 1 : 9),
           twice = fastest(&j, 2, slow ? 1 : 9);
    double gmacs = 1e-9 * N_ROWS * N_COLS * N_K / seconds;
    printf("  gemm %-7s %8.1f GMAC/s with expansion", qw_type_get(type)->name, gmacs);
    if (peak > 0)
        printf(", %3.0f%% of %.0f", 100 * gmacs / peak, peak);
    printf("; expansion %.3f ns per weight\n", 1e9 * (twice - seconds) / N_COLS / N_K);

    check_free((void *)j.columns);
    check_free(j.q);
    check_free(j.meta);
    check_free(j.panel);
    check_free(j.scale);
    check_free(j.tiles);
    check_free(x);
}

static void bench_gemv(const qw_kernels *k, uint32_t type) {
    size_t col_bytes = qw_row_bytes(type, N_K), n_cols = GEMV_BYTES / col_bytes / QW_PANEL_COLS * QW_PANEL_COLS;
    uint8_t *columns = random_columns(type, n_cols, N_K);
    float x[N_K], d[N_K / QW_ACT_GROUP], sum[N_K / QW_ACT_GROUP], y[QW_PANEL_COLS * QW_GEMV_ROWS];
    int8_t q[N_K];
    check_random r = {5};
    for (size_t i = 0; i < N_K; i++)
        x[i] = check_normal(&r);
    k->quantize_row(x, N_K, q, d, sum);
    qw_gemv_row row = {x, q, d, sum}, rows[QW_GEMV_ROWS] = {row, row, row, row};

    double n_bytes = (double)n_cols * (double)col_bytes;
    printf("  gemv %-7s", qw_type_get(type)->name);
    for (size_t n_rows = 1; n_rows <= QW_GEMV_ROWS; n_rows += 3) {
        double best = 1e9;
        for (int try = 0; try < 4; try++) {
            double start = check_seconds();
            for (size_t c = 0; c < n_cols; c += QW_PANEL_COLS)
                k->gemv[type](columns + c * col_bytes, col_bytes, QW_PANEL_COLS, N_K, rows, n_rows, y, QW_PANEL_COLS);
            double seconds = check_seconds() - start;
            best = seconds < best ? seconds : best;
        }
        printf(" %6.1f GB/s for %zu row%s,", 1e-9 * n_bytes / best, n_rows, n_rows == 1 ? "" : "s");
    }
    double start = check_seconds();
    for (int i = 0; i < 64 * 64; i++) /* one panel, from the cache */
        k->gemv[type](columns, col_bytes, QW_PANEL_COLS, N_K, &row, 1, y, QW_PANEL_COLS);
    double cached = check_seconds() - start;
    printf(" %6.1f from the cache; reading %.1f\n", 1e-9 * 64 * 64 * QW_PANEL_COLS * (double)col_bytes / cached,
           bench_read_gbs(columns, GEMV_BYTES / 64 * 64 / QW_PANEL_COLS * 60));
    check_free(columns);
}

void bench_quant(const qw_kernels *k) {
    for (uint32_t type = QW_F32; type < QW_TYPE_COUNT; type = check_next_type(type))
        bench_p8(k, type);
    for (uint32_t type = QW_F32; type < QW_TYPE_COUNT; type = check_next_type(type))
        bench_gemv(k, type);
}
