/*
 * P8 against double arithmetic on dequantized weights.
 *
 * Layouts of panels, activation blocks and tiles are each set's own, so values inside them are read the
 * neutral way: multiplied by an identity matrix.
 */
#include "check_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { K = QW_BLOCK_K, ROWS = QW_BLOCK_ROWS, COLS = QW_PANEL_COLS, MAX_BLOCKS = K / ROWS, MAX_COL_BYTES = 4 * K };

/* A block row of activations, a panel, and their product. */
typedef struct {
    int8_t *q;
    float *meta;
    int8_t *panel;
    float *scale;
    float *tiles;
    float *rows; /* [n_blocks * 8][64] */
} buffers;

static buffers new_buffers(void) {
    buffers b;
    b.q = check_alloc(MAX_BLOCKS * ROWS * K * 2);
    b.meta = check_alloc(MAX_BLOCKS * QW_ACT_META * sizeof(float));
    b.panel = check_alloc(QW_PANEL_BYTES);
    b.scale = check_alloc(QW_PANEL_SCALES * sizeof(float));
    b.tiles = check_alloc(MAX_BLOCKS * QW_TILE * sizeof(float));
    b.rows = check_alloc(MAX_BLOCKS * QW_TILE * sizeof(float));
    return b;
}

static void free_buffers(buffers *b) {
    check_free(b->q);
    check_free(b->meta);
    check_free(b->panel);
    check_free(b->scale);
    check_free(b->tiles);
    check_free(b->rows);
}

static void quantize(const qw_kernels *k, buffers *b, const float *x, size_t ld, size_t n_rows, size_t n_k) {
    for (size_t row = 0; row < n_rows; row += ROWS)
        k->quantize_block(x + row * ld, ld, n_rows - row < ROWS ? n_rows - row : ROWS, n_k,
                          b->q + row / ROWS * k->act_block_bytes, b->meta + row / ROWS * QW_ACT_META);
}

static void multiply(const qw_kernels *k, buffers *b, size_t n_blocks, bool first) {
    k->gemm_i8(b->q, b->meta, n_blocks, b->panel, b->scale, b->tiles, first);
    memcpy(b->rows, b->tiles, n_blocks * QW_TILE * sizeof *b->rows);
}

static bool same_bits(const float *a, const float *b, size_t n) {
    return !memcmp(a, b, n * sizeof *a);
}

/* --- what is inside: panel values as [256][64], activations as [n_rows][256] --- */

static void read_panel(const qw_kernels *k, buffers *b, float *w) {
    float *identity = check_alloc((size_t)K * K * sizeof(float));
    for (size_t i = 0; i < K; i++)
        identity[i * K + i] = 127.0f; /* quantizes to 127 under scale 1 */
    quantize(k, b, identity, K, K, K);
    multiply(k, b, MAX_BLOCKS, true);
    for (size_t i = 0; i < (size_t)K * COLS; i++)
        w[i] = b->rows[i] / 127.0f;
    check_free(identity);
}

static void read_activations(const qw_kernels *k, buffers *b, size_t n_rows, float *x) {
    float *identity = check_alloc((size_t)COLS * K * sizeof(float));
    size_t n_blocks = (n_rows + ROWS - 1) / ROWS;
    for (size_t first = 0; first < K; first += COLS) {
        memset(identity, 0, (size_t)COLS * K * sizeof(float));
        for (size_t i = 0; i < COLS; i++)
            identity[i * K + first + i] = 127.0f;
        k->expand[QW_F32](identity, K * sizeof(float), COLS, K, b->panel, b->scale);
        multiply(k, b, n_blocks, true);
        for (size_t row = 0; row < n_blocks * ROWS; row++)
            for (size_t i = 0; i < COLS; i++)
                x[row * K + first + i] = b->rows[row * COLS + i] / 127.0f;
    }
    check_free(identity);
}

/* --- expand --- */

static void check_expand(const qw_kernels *k, buffers *b, check_random *r, uint32_t type, check_style style, size_t n_k,
                         size_t n_cols) {
    const char *name = qw_type_get(type)->name;
    uint8_t *columns = check_alloc(COLS * MAX_COL_BYTES);
    float *w = check_alloc((size_t)K * COLS * sizeof(float)), values[K];
    size_t col_bytes = qw_row_bytes(type, n_k), odd_column = check_below(r, n_cols);

    for (size_t c = 0; c < n_cols; c++) {
        bool hostile = style >= STYLE_NAN;
        check_fill_column(r, type, hostile && c != odd_column ? STYLE_ORDINARY : style, columns + c * col_bytes, n_k);
    }
    memset(b->panel, 0x55, QW_PANEL_BYTES); /* an expander leaves nothing of what was there */
    memset(b->scale, 0x55, QW_PANEL_SCALES * sizeof(float));
    k->expand[type](columns, col_bytes, n_cols, n_k, b->panel, b->scale);
    read_panel(k, b, w);

    for (size_t c = 0; c < COLS; c++) {
        bool not_finite = style >= STYLE_NAN && c == odd_column;
        float bound = 0;
        memset(values, 0, sizeof values);
        if (c < n_cols && !not_finite) {
            qw_dequantize_row(type, columns + c * col_bytes, n_k, values);
            bound = check_column_bound(type, columns + c * col_bytes, n_k);
        }
        float error = 0, max = 0;
        bool all_nan = true;
        for (size_t i = 0; i < K; i++) {
            float got = w[i * COLS + c];
            all_nan &= isnan(got);
            error = fmaxf(error, isnan(got) ? INFINITY : fabsf(got - values[i]));
            max = fmaxf(max, fabsf(got));
        }
        if (not_finite) {
            check_that(all_nan, "expand %s: column %zu has a scale that is not finite but a finite product", name, c);
            continue;
        }
        /* 0x1p-99: sets may treat values far below any real weight as zeros */
        check_that(error <= bound * (0.75f / 127.0f) * 1.001f + 0x1p-99f,
                   "expand %s style %d: n_k %zu column %zu of %zu is off by %g, %g steps", name, (int)style, n_k, c,
                   n_cols, (double)error, (double)(error / bound * 127.0f));
        check_that(max <= bound * 1.004f + 0x1p-99f, "expand %s style %d: column %zu holds %g, beyond its scales' %g",
                   name, (int)style, c, (double)max, (double)bound);
    }
    check_free(columns);
    check_free(w);
}

/* --- activations and the product --- */

static void fill_rows(check_random *r, float *x, size_t n_rows, size_t n_k) {
    static const float magnitude[] = {1.0f, 1e-3f, 1e20f, 1e-36f, 0.0f, 1e-44f};
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < n_k; i++)
            x[row * n_k + i] = check_normal(r) * (row < 8 ? 1.0f : magnitude[row % 6]);
}

static void check_quantize_block(const qw_kernels *k, buffers *b, check_random *r, size_t n_rows, size_t n_k) {
    float *x = check_alloc(n_rows * n_k * sizeof(float)), *got = check_alloc((size_t)K * K * sizeof(float));
    fill_rows(r, x, n_rows, n_k);
    memset(b->q, 0x55, MAX_BLOCKS * k->act_block_bytes);
    quantize(k, b, x, n_k, n_rows, n_k);
    read_activations(k, b, n_rows, got);
    for (size_t row = 0; row < (n_rows + ROWS - 1) / ROWS * ROWS; row++) {
        float max = 0, error = 0;
        for (size_t i = 0; row < n_rows && i < n_k; i++)
            max = fmaxf(max, fabsf(x[row * n_k + i]));
        for (size_t i = 0; i < K; i++)
            error = fmaxf(error, fabsf(got[row * K + i] - (row < n_rows && i < n_k ? x[row * n_k + i] : 0)));
        check_that(error <= max / 127.0f * 0.502f + 0x1p-99f,
                   "quantize_block: %zu x %zu, row %zu of max %g is off by %g", n_rows, n_k, row, (double)max,
                   (double)error);
    }
    check_free(x);
    check_free(got);
}

static void check_gemm(const qw_kernels *k, buffers *b, check_random *r, size_t n_rows, size_t n_cols) {
    size_t n_k = K, n_blocks = (n_rows + ROWS - 1) / ROWS, n = n_blocks * ROWS * COLS;
    float *x = check_alloc(n_rows * n_k * sizeof(float)), *x8 = check_alloc((size_t)K * K * sizeof(float));
    float *w8 = check_alloc((size_t)K * COLS * sizeof(float)), *together = check_alloc(n * sizeof(float));
    float *slack = check_alloc(n * sizeof(float)); /* what rounding may change in a result */
    uint8_t *columns = check_alloc(COLS * MAX_COL_BYTES);

    fill_rows(r, x, n_rows, n_k);
    for (size_t i = 0; i < n_k; i++) /* signs that add up to the largest sums int32 has to hold */
        x[i] = x[i] < 0 ? -1.0f : 1.0f;
    for (size_t c = 0; c < n_cols; c++)
        check_fill_column(r, QW_F32, STYLE_ORDINARY, columns + c * n_k * sizeof(float), n_k);
    memcpy(columns, x, n_k * sizeof(float));

    k->expand[QW_F32](columns, n_k * sizeof(float), n_cols, n_k, b->panel, b->scale);
    read_panel(k, b, w8);
    quantize(k, b, x, n_k, n_rows, n_k);
    read_activations(k, b, n_rows, x8);

    k->expand[QW_F32](columns, n_k * sizeof(float), n_cols, n_k, b->panel, b->scale);
    multiply(k, b, n_blocks, true);
    memcpy(together, b->rows, n * sizeof(float));
    for (size_t row = 0; row < n_rows; row++)
        for (size_t c = 0; c < COLS; c++) {
            double sum = 0, magnitude = 0;
            for (size_t i = 0; i < n_k; i++) {
                double product = (double)x8[row * K + i] * (double)w8[i * COLS + c];
                sum += product;
                magnitude += fabs(product);
            }
            float got = together[row * COLS + c];
            slack[row * COLS + c] = (float)(2e-6 * magnitude + 1e-44);
            check_that(fabs(got - sum) <= 2e-6 * magnitude + 1e-44 && (c < n_cols || got == 0),
                       "gemm_i8: row %zu column %zu of %zu is %g, not %g", row, c, n_cols, (double)got, sum);
        }

    multiply(k, b, n_blocks, false);
    bool doubled = true;
    for (size_t i = 0; i < n_rows * COLS; i++)
        doubled &= fabsf(b->rows[i] - 2 * together[i]) <= slack[i];
    check_that(doubled, "gemm_i8: the second of two equal products does not double %zu rows", n_rows);

    for (size_t row = 0; row < n_rows; row++) { /* the same row alone, at the same place of a block of its own */
        float alone[ROWS * K] = {0};
        memcpy(alone + row % ROWS * K, x + row * n_k, n_k * sizeof(float));
        quantize(k, b, alone, K, row % ROWS + 1, n_k);
        multiply(k, b, 1, true);
        check_that(same_bits(b->rows + row % ROWS * COLS, together + row * COLS, COLS),
                   "gemm_i8: row %zu of %zu depends on its neighbors", row, n_rows);
    }

    size_t odd_row = check_below(r, n_rows);
    x[odd_row * n_k + check_below(r, n_k)] = check_bits(r) & 1 ? NAN : INFINITY;
    quantize(k, b, x, n_k, n_rows, n_k);
    multiply(k, b, n_blocks, true);
    for (size_t row = 0; row < n_rows; row++) {
        bool nan = true;
        for (size_t c = 0; c < n_cols; c++)
            nan &= isnan(b->rows[row * COLS + c]);
        check_that(row == odd_row ? nan : same_bits(b->rows + row * COLS, together + row * COLS, COLS),
                   "gemm_i8: a value of row %zu that is not finite shows wrongly in row %zu of %zu", odd_row, row,
                   n_rows);
    }
    check_free(x);
    check_free(x8);
    check_free(w8);
    check_free(slack);
    check_free(together);
    check_free(columns);
}

static void check_p8(const qw_kernels *k) {
    static const size_t float_n_k[] = {1, 5, 16, 31, 37, 200, 255, 256, 0};
    static const size_t n_cols[] = {64, 1, 63, 17, 8, 33, 2, 48, 15, 40, 7};
    buffers b = new_buffers();
    check_random r = {1};
    size_t n = 0;

    for (uint32_t type = QW_F32; type < QW_TYPE_COUNT; type = check_next_type(type)) {
        size_t step = qw_type_get(type)->block_values;
        for (size_t i = 0, n_k; (n_k = step == 1 ? float_n_k[i] : (i + 1) * step) && n_k <= K; i++)
            check_expand(k, &b, &r, type, STYLE_ORDINARY, n_k, n_cols[n++ % 11]);
        for (check_style style = STYLE_ZERO; style < STYLE_COUNT; style++)
            check_expand(k, &b, &r, type, style, K, n_cols[n++ % 11]);
    }
    for (size_t n_rows = 1; n_rows <= ROWS; n_rows++)
        check_quantize_block(k, &b, &r, n_rows, 256 - 37 * (n_rows - 1) / 2);
    check_quantize_block(k, &b, &r, 61, K);
    for (size_t n_rows = 1; n_rows <= ROWS; n_rows++)
        check_gemm(k, &b, &r, n_rows, n_cols[n_rows]);
    check_gemm(k, &b, &r, 59, 64);
    free_buffers(&b);
}

int check_quant(const qw_kernels *k, const qw_kernels *reference) {
    size_t before = check_failures();
    check_p8(k);
    check_gemv(k, reference);
    return (int)(check_failures() - before);
}
