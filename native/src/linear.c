/*
 * Products of activation rows with weight matrices.
 *
 * The unit of work is one panel: QW_PANEL_COLS columns of one matrix, all rows.  A panel's expanded weights stay
 * in the first-level cache while every row block passes over them, and its results in the second-level cache.
 */
#include "linear.h"

#include <string.h>

typedef struct {
    qw_model *m;
    qw_math math;
    size_t first, n_rows, n_k;
    qw_row_source fill;
    const void *source;
} input_job;

static size_t padded_k(size_t n_k) {
    return qw_round_up(n_k, QW_BLOCK_K);
}

/* --- activation rows --- */

static void quantize_rows(const input_job *job, size_t block, const float *rows, size_t n_rows) {
    const qw_kernels *k = job->m->kernels;
    qw_input *in = &job->m->work.input;
    for (size_t kb = 0; kb * QW_BLOCK_K < job->n_k; kb++) {
        size_t number = kb * in->n_row_blocks + block;
        size_t n_k = qw_smaller(QW_BLOCK_K, job->n_k - kb * QW_BLOCK_K);
        k->quantize_block(rows + kb * QW_BLOCK_K, job->n_k, n_rows, n_k, in->q + number * k->act_block_bytes,
                          in->meta + number * QW_ACT_META);
    }
}

static void quantize_row(const input_job *job, size_t row) {
    qw_input *in = &job->m->work.input;
    size_t n = padded_k(job->n_k), groups = n / QW_ACT_GROUP;
    job->m->kernels->quantize_row(in->x + row * job->n_k, job->n_k, in->q + row * n, in->d + row * groups,
                                  in->sum + row * groups);
}

static void input_block(void *argument, size_t unit, size_t thread) {
    const input_job *job = argument;
    size_t first = job->first + unit * QW_BLOCK_ROWS;
    size_t n_rows = qw_smaller(QW_BLOCK_ROWS, job->n_rows - first);
    float *rows = job->math == QW_MATH_P8 ? qw_thread_scratch(job->m, thread) : job->m->work.input.x + first * job->n_k;

    for (size_t r = 0; r < n_rows; r++) {
        job->fill(job->source, first + r, rows + r * job->n_k);
        if (job->math == QW_MATH_GEMV)
            quantize_row(job, first + r);
    }
    if (job->math == QW_MATH_P8)
        quantize_rows(job, first / QW_BLOCK_ROWS, rows, n_rows);
}

void qw_linear_input(qw_model *m, qw_math math, size_t first, size_t n_rows, size_t n_k, qw_row_source fill,
                     const void *source) {
    m->work.input.n_k = n_k;
    m->work.input.n_row_blocks = (n_rows + QW_BLOCK_ROWS - 1) / QW_BLOCK_ROWS;
    input_job job = {m, math, first, n_rows, n_k, fill, source};
    qw_pool_run(m->pool, input_block, &job, (n_rows - first + QW_BLOCK_ROWS - 1) / QW_BLOCK_ROWS);
}

/* --- one panel of one matrix: results [n_rows - first][QW_PANEL_COLS] in `tiles` --- */

static const size_t TILE = (size_t)QW_MAX_ROWS * QW_PANEL_COLS; /* floats of a panel's results */

typedef struct {
    const qw_matrix *weight;
    size_t column, n_cols;
    size_t first, n_rows;
} panel;

typedef struct {
    int8_t weights[QW_PANEL_BYTES];
    float scale[QW_PANEL_SCALES];
    float tiles[]; /* 2 x [QW_MAX_ROWS][QW_PANEL_COLS], or one dequantized column */
} panel_scratch;

/*
 * Ask for a share of the panel this thread is likely to take next: its columns are far apart, so the CPU does not
 * see them coming.
 */
static void prefetch_ahead(const qw_model *m, const panel *p, size_t part, size_t n_parts) {
    const qw_matrix *w = p->weight;
    size_t panel_bytes = QW_PANEL_COLS * w->col_bytes, ahead = qw_pool_threads(m->pool) * panel_bytes;
    size_t start = p->column * w->col_bytes + ahead, end = w->n_cols * w->col_bytes;
    size_t from = start + panel_bytes * part / n_parts, to = start + panel_bytes * (part + 1) / n_parts;
    for (size_t at = from; at < to && at < end; at += 64)
        __builtin_prefetch(w->data + at, 0, 2);
}

static void multiply_p8(qw_model *m, const panel *p, panel_scratch *s, float *tiles) {
    const qw_kernels *k = m->kernels;
    const qw_matrix *w = p->weight;
    const qw_input *in = &m->work.input;
    const qw_type_info *type = qw_type_get(w->type);
    size_t first_block = p->first / QW_BLOCK_ROWS, n_blocks = in->n_row_blocks - first_block;
    size_t block_bytes = (size_t)QW_BLOCK_K / type->block_values * type->block_bytes;
    const uint8_t *data = w->data + p->column * w->col_bytes;

    size_t n_blocks_k = (w->n_k + QW_BLOCK_K - 1) / QW_BLOCK_K;
    for (size_t kb = 0; kb < n_blocks_k; kb++) {
        size_t number = kb * in->n_row_blocks + first_block;
        prefetch_ahead(m, p, kb, n_blocks_k);
        k->expand[w->type](data + kb * block_bytes, w->col_bytes, p->n_cols,
                           qw_smaller(QW_BLOCK_K, w->n_k - kb * QW_BLOCK_K), s->weights, s->scale);
        k->gemm_i8(in->q + number * k->act_block_bytes, in->meta + number * QW_ACT_META, n_blocks, s->weights, s->scale,
                   tiles, kb == 0);
    }
}

static void multiply_gemv(qw_model *m, const panel *p, float *tiles) {
    const qw_input *in = &m->work.input;
    size_t n = padded_k(in->n_k), groups = n / QW_ACT_GROUP;
    qw_gemv_row rows[QW_GEMV_ROWS];
    for (size_t r = 0; r < p->n_rows; r++)
        rows[r] = (qw_gemv_row){in->x + r * in->n_k, in->q + r * n, in->d + r * groups, in->sum + r * groups};
    m->kernels->gemv[p->weight->type](p->weight->data + p->column * p->weight->col_bytes, p->weight->col_bytes,
                                      p->n_cols, p->weight->n_k, rows, p->n_rows, tiles, QW_PANEL_COLS);
}

static void multiply_exact(qw_model *m, const panel *p, float *column, float *tiles) {
    const qw_matrix *w = p->weight;
    for (size_t c = 0; c < p->n_cols; c++) {
        qw_dequantize_row(w->type, w->data + (p->column + c) * w->col_bytes, w->n_k, column);
        for (size_t row = p->first; row < p->n_rows; row++)
            tiles[(row - p->first) * QW_PANEL_COLS + c] = m->kernels->dot_f32(m->work.input.x + row * w->n_k, column,
                                                                              w->n_k);
    }
}

/* --- the job: panels of all products, in order --- */

typedef struct {
    qw_model *m;
    qw_math math;
    size_t n_rows;
    const qw_product *products;
    size_t n_products;
} multiply_job;

/* A panel's results, and those of `up` if the product has it, to their place. */
static void store_panel(const multiply_job *job, const qw_product *p, size_t column, size_t n_cols, const float *rows,
                        const float *up) {
    const qw_kernels *k = job->m->kernels;
    for (size_t row = p->first; row < job->n_rows; row++, rows += QW_PANEL_COLS, up += QW_PANEL_COLS) {
        float *y = p->y + row * p->ld + column;
        if (p->up)
            k->silu_mul(rows, up, n_cols, y);
        else if (p->add)
            k->add(rows, n_cols, y);
        else
            memcpy(y, rows, n_cols * sizeof *y);
    }
}

static void multiply_panel(void *argument, size_t unit, size_t thread) {
    const multiply_job *job = argument;
    const qw_product *p = job->products;
    for (size_t panels; unit >= (panels = (p->weight->n_cols + QW_PANEL_COLS - 1) / QW_PANEL_COLS); p++)
        unit -= panels;
    size_t column = unit * QW_PANEL_COLS;
    size_t n_cols = qw_smaller(QW_PANEL_COLS, p->weight->n_cols - column);

    panel_scratch *s = qw_thread_scratch(job->m, thread);
    const qw_matrix *weights[] = {p->weight, p->up};
    float *tiles[] = {s->tiles, s->tiles + TILE};
    size_t n_weights = p->up ? 2 : 1;
    for (size_t i = 0; i < n_weights; i++) {
        panel one = {weights[i], column, n_cols, p->first, job->n_rows};
        if (job->math == QW_MATH_P8)
            multiply_p8(job->m, &one, s, tiles[i]);
        else if (job->math == QW_MATH_GEMV)
            multiply_gemv(job->m, &one, tiles[i]);
        else
            multiply_exact(job->m, &one, s->tiles + 2 * TILE, tiles[i]);
    }
    store_panel(job, p, column, n_cols, tiles[0], tiles[1]);
}

void qw_linear_multiply(qw_model *m, qw_math math, size_t n_rows, const qw_product *products, size_t n_products) {
    multiply_job job = {m, math, n_rows, products, n_products};
    size_t n_units = 0;
    uint64_t *counter = math == QW_MATH_GEMV ? &m->work.gemv_rows : &m->work.gemm_rows;
    for (size_t i = 0; i < n_products; i++) {
        n_units += (products[i].weight->n_cols + QW_PANEL_COLS - 1) / QW_PANEL_COLS;
        *counter += (n_rows - products[i].first) * (products[i].up ? 2 : 1);
    }
    qw_pool_run(m->pool, multiply_panel, &job, n_units);
}

size_t qw_linear_scratch_bytes(const qw_model *m) {
    size_t multiply = sizeof(panel_scratch) + (2 * TILE + m->max_k) * sizeof(float);
    size_t input = QW_BLOCK_ROWS * m->max_k * sizeof(float);
    return multiply > input ? multiply : input;
}
