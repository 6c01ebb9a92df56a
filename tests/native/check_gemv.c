/*
 * GEMV against double arithmetic on dequantized weights and the same quantized rows.
 */
#include "check_blocks.h"

#include <math.h>
#include <string.h>

static bool same_bits(float a, float b) {
    return !memcmp(&a, &b, sizeof a);
}

enum { K = QW_BLOCK_K, MAX_N_K = 1024, GEMV_COLS = 70 };

typedef struct {
    float *x, *d, *sum;
    int8_t *q;
} gemv_input; /* QW_GEMV_ROWS rows of MAX_N_K */

static void check_quantize_row(const qw_kernels *k, check_random *r, gemv_input *in, size_t n_k) {
    size_t n_padded = (n_k + K - 1) / K * K;
    float *x = in->x;
    for (size_t i = 0; i < n_k; i++)
        x[i] = check_normal(r) * (i / 32 % 3 == 1 ? 1e-38f : i / 32 % 5 == 4 ? 0 : 3.0f);
    if (n_k > 40)
        x[40] = NAN;
    memset(in->q, 0x55, n_padded);
    k->quantize_row(x, n_k, in->q, in->d, in->sum);
    for (size_t g = 0; g < n_padded / 32; g++) {
        float max = 0, error = 0;
        int total = 0, smallest = 0;
        for (size_t i = 32 * g; i < 32 * g + 32; i++) {
            float value = i < n_k ? x[i] : 0;
            max = fmaxf(max, fabsf(value));
            error = fmaxf(error, fabsf(in->d[g] * (float)in->q[i] - value));
            total += in->q[i];
            smallest = in->q[i] < smallest ? in->q[i] : smallest;
        }
        if (g == 1 && n_k > 40) {
            check_that(isnan(in->d[g]) && isnan(in->sum[g]), "quantize_row: a NaN in %zu values is lost", n_k);
            continue;
        }
        check_that(error <= max / 127.0f * 0.502f + 0x1p-99f && smallest >= -127,
                   "quantize_row: group %zu of %zu values is off by %g", g, n_k, (double)error);
        check_that(fabsf(in->sum[g] - in->d[g] * (float)total) <= 1e-6f * fabsf(in->sum[g]),
                   "quantize_row: group %zu of %zu values has sum %g", g, n_k, (double)in->sum[g]);
    }
}

static void fill_gemv_rows(const qw_kernels *k, check_random *r, gemv_input *in, size_t n_k, qw_gemv_row *rows) {
    for (size_t row = 0; row < QW_GEMV_ROWS; row++) {
        size_t at = row * MAX_N_K, group = at / QW_ACT_GROUP;
        for (size_t i = 0; i < n_k; i++)
            in->x[at + i] = check_normal(r);
        k->quantize_row(in->x + at, n_k, in->q + at, in->d + group, in->sum + group);
        rows[row] = (qw_gemv_row){in->x + at, in->q + at, in->d + group, in->sum + group};
    }
}

/* What the contract says the kernel computes, and the sum of magnitudes that its rounding is relative to. */
static double exact_dot(uint32_t type, const void *column, const qw_gemv_row *row, size_t n_k, double *magnitude) {
    float values[MAX_N_K];
    double sum = 0;
    qw_dequantize_row(type, column, n_k, values);
    *magnitude = 0;
    for (size_t i = 0; i < n_k; i++) {
        bool is_float = qw_type_get(type)->block_values == 1;
        double x = is_float ? (double)row->x[i] : (double)row->d[i / QW_ACT_GROUP] * row->q[i];
        sum += values[i] * x;
        *magnitude += fabs(values[i] * x);
    }
    return sum;
}

static void check_type(const qw_kernels *k, const qw_kernels *reference, check_random *r, gemv_input *in, uint32_t type,
                       check_style style, size_t n_k, size_t n_cols) {
    const char *name = qw_type_get(type)->name;
    size_t col_bytes = qw_row_bytes(type, n_k), odd_column = check_below(r, n_cols);
    uint8_t *columns = check_alloc(n_cols * col_bytes);
    float y[QW_GEMV_ROWS * GEMV_COLS], plain[QW_GEMV_ROWS * GEMV_COLS], one[GEMV_COLS];
    qw_gemv_row rows[QW_GEMV_ROWS];

    for (size_t c = 0; c < n_cols; c++)
        check_fill_column(r, type, style >= STYLE_NAN && c != odd_column ? STYLE_ORDINARY : style,
                          columns + c * col_bytes, n_k);
    fill_gemv_rows(k, r, in, n_k, rows);
    k->gemv[type](columns, col_bytes, n_cols, n_k, rows, QW_GEMV_ROWS, y, GEMV_COLS);
    reference->gemv[type](columns, col_bytes, n_cols, n_k, rows, QW_GEMV_ROWS, plain, GEMV_COLS);

    for (size_t row = 0; row < QW_GEMV_ROWS; row++)
        for (size_t c = 0; c < n_cols; c++) {
            float got = y[row * GEMV_COLS + c];
            if (style >= STYLE_NAN && c == odd_column) {
                check_that(!isfinite(got), "gemv %s: column %zu is not finite but gives %g", name, c, (double)got);
                continue;
            }
            double magnitude, sum = exact_dot(type, columns + c * col_bytes, &rows[row], n_k, &magnitude);
            magnitude += check_column_bound(type, columns + c * col_bytes, n_k) * 30.0f; /* mins and offsets cancel */
            check_that(fabs(got - sum) <= 2e-6 * magnitude + 1e-42,
                       "gemv %s style %d: %zu x %zu, row %zu column %zu is %g, not %g", name, (int)style, n_k, n_cols,
                       row, c, (double)got, sum);
            check_that(fabsf(got - plain[row * GEMV_COLS + c]) <= 4e-6 * magnitude + 1e-42,
                       "gemv %s: row %zu column %zu is %g, in plain C %g", name, row, c, (double)got,
                       (double)plain[row * GEMV_COLS + c]);
        }

    for (size_t row = 0; row < QW_GEMV_ROWS; row++) { /* alone, and its columns in two calls */
        size_t left = n_cols / 2;
        k->gemv[type](columns, col_bytes, left, n_k, rows + row, 1, one, GEMV_COLS);
        k->gemv[type](columns + left * col_bytes, col_bytes, n_cols - left, n_k, rows + row, 1, one + left, GEMV_COLS);
        for (size_t c = 0; c < n_cols; c++)
            check_that(same_bits(one[c], y[row * GEMV_COLS + c]) || (style >= STYLE_NAN && c == odd_column),
                       "gemv %s: row %zu column %zu depends on how many there are", name, row, c);
    }
    check_free(columns);
}

void check_gemv(const qw_kernels *k, const qw_kernels *reference) {
    size_t n = QW_GEMV_ROWS * MAX_N_K;
    gemv_input in = {check_alloc(n * sizeof(float)), check_alloc(n / 32 * sizeof(float)),
                     check_alloc(n / 32 * sizeof(float)), check_alloc(n)};
    check_random r = {2};
    static const size_t float_n_k[] = {1, 7, 33, 96, 255, 300, 1000, 0},
                        block_n_k[] = {32, 96, 256, 288, 512, 992, 1024, 0};

    for (const size_t *n_k = float_n_k; *n_k; n_k++)
        check_quantize_row(k, &r, &in, *n_k);
    for (uint32_t type = QW_F32; type < QW_TYPE_COUNT; type = check_next_type(type)) {
        size_t step = qw_type_get(type)->block_values;
        for (const size_t *n_k = step == 1 ? float_n_k : block_n_k; *n_k; n_k++)
            if (*n_k % step == 0)
                check_type(k, reference, &r, &in, type, STYLE_ORDINARY, *n_k, 1 + check_below(&r, GEMV_COLS));
        for (check_style style = STYLE_ZERO; style < STYLE_COUNT; style++)
            check_type(k, reference, &r, &in, type, style, 512, 9);
    }
    check_free(in.x);
    check_free(in.d);
    check_free(in.sum);
    check_free(in.q);
}
