/* qw_session_eval: tokens in, logits out, a block of rows at a time. */
#include "forward.h"

#include <math.h>
#include <string.h>

#include "error.h"

static void embed(const qw_model *m, const int32_t *tokens, size_t n) {
    const qw_matrix *e = &m->embedding;
    for (size_t i = 0; i < n; i++)
        qw_dequantize_row(e->type, e->data + (size_t)tokens[i] * e->col_bytes, e->n_k, m->work.x + i * e->n_k);
}

/* cos and sin of position * base^(-2i / rotary_dims), for each row. */
static void rotary_angles(const qw_model *m, size_t position, size_t n) {
    size_t half = m->config.rotary_dims / 2;
    for (size_t i = 0; i < half; i++) {
        double frequency = pow(m->config.rope_base, -2.0 * (double)i / m->config.rotary_dims);
        for (size_t row = 0; row < n; row++) {
            double angle = (double)(position + row) * frequency;
            m->work.cos[row * half + i] = (float)cos(angle);
            m->work.sin[row * half + i] = (float)sin(angle);
        }
    }
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* logits of rows [row, row + n) of the residual stream. */
static qw_status head(const qw_eval *e, size_t row, size_t n, float *logits) {
    qw_model *m = e->model;
    size_t n_hidden = m->config.n_hidden, n_vocab = m->config.n_vocab;
    qw_math math = m->config.exact ? QW_MATH_EXACT : QW_MATH_GEMV;
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < QW_GEMV_ROWS ? n - done : QW_GEMV_ROWS;
        const float *x = m->work.x + (row + done) * n_hidden;
        if (!all_finite(x, part * n_hidden))
            return qw_fail(QW_ERR_NUMERIC, "the hidden state of token %zu is not a finite number",
                           e->position + row + done);
        qw_norm_source norm = {m, x, m->output_norm};
        qw_linear_input(m, math, 0, part, n_hidden, qw_norm_row, &norm);
        qw_product product = {.weight = &m->head, .y = logits + done * n_vocab, .ld = n_vocab};
        qw_linear_multiply(m, math, part, &product, 1);
    }
    return QW_OK;
}

static void keep_hidden(const qw_eval *e, const qw_batch *out, size_t layer, size_t done) {
    size_t n_hidden = e->model->config.n_hidden;
    memcpy(out->hidden + (layer * out->n_tokens + done) * n_hidden, e->model->work.x,
           e->n_rows * n_hidden * sizeof(float));
}

/* Evaluate one block; `done` tokens of the call came before it. */
static qw_status forward(const qw_eval *e, const qw_batch *out, size_t done) {
    qw_model *m = e->model;
    size_t n_layers = m->config.n_layers, end = done + e->n_rows;
    size_t wanted_from = out->n_tokens - out->n_logits;
    size_t first = wanted_from > done ? wanted_from - done : 0; /* first row whose logits are wanted */
    if (first > e->n_rows)
        first = e->n_rows;

    embed(m, out->tokens + done, e->n_rows);
    rotary_angles(m, e->position, e->n_rows);
    for (size_t i = 0; i < n_layers; i++) {
        const qw_layer *l = &m->layers[i];
        size_t out_from = 0;
        if (i + 1 == n_layers && !out->hidden)
            out_from = first == e->n_rows ? first : first / QW_BLOCK_ROWS * QW_BLOCK_ROWS;
        if (out->hidden)
            keep_hidden(e, out, i, done);
        if (l->recurrent)
            qw_delta_layer(e, l, out_from);
        else
            qw_attention_layer(e, l, out_from);
        if (out_from < e->n_rows)
            qw_ffn_layer(e, l, out_from);
    }
    if (out->hidden) {
        float *final = out->hidden + (n_layers * out->n_tokens + done) * m->config.n_hidden;
        qw_norm_source norm = {m, m->work.x, m->output_norm};
        for (size_t row = 0; row < e->n_rows; row++)
            qw_norm_row(&norm, row, final + row * m->config.n_hidden);
    }
    if (first == e->n_rows)
        return QW_OK;
    return head(e, first, e->n_rows - first,
                out->logits + (end - (e->n_rows - first) - wanted_from) * m->config.n_vocab);
}

/* Rows of the next block: equal parts, cut at multiples of the delta rule's chunk. */
static size_t block_rows(qw_phase phase, size_t position, size_t left) {
    if (phase == QW_DECODE)
        return left < QW_GEMV_ROWS ? left : QW_GEMV_ROWS;
    size_t n_blocks = (left + QW_MAX_ROWS - QW_CHUNK - 1) / (QW_MAX_ROWS - QW_CHUNK);
    if (left <= QW_MAX_ROWS)
        return left;
    size_t rows = qw_round_up((left + n_blocks - 1) / n_blocks, QW_CHUNK);
    return (position + rows) / QW_CHUNK * QW_CHUNK - position;
}

static qw_status check(const qw_session *s, const qw_batch *b) {
    if (b->n_tokens == 0)
        return qw_fail(QW_ERR_ARGUMENT, "no tokens to evaluate");
    if (b->n_logits > b->n_tokens || (b->n_logits > 0 && !b->logits))
        return qw_fail(QW_ERR_ARGUMENT, "logits of %zu tokens asked for, %zu are evaluated", b->n_logits, b->n_tokens);
    if (b->n_tokens > s->n_context - s->position)
        return qw_fail(QW_ERR_CONTEXT, "%zu tokens after %zu do not fit a context of %zu", b->n_tokens, s->position,
                       s->n_context);
    for (size_t i = 0; i < b->n_tokens; i++)
        if (b->tokens[i] < 0 || (uint32_t)b->tokens[i] >= s->model->config.n_vocab)
            return qw_fail(QW_ERR_ARGUMENT, "token %d is outside the vocabulary of %u", b->tokens[i],
                           s->model->config.n_vocab);
    if (b->n_marks && b->phase != QW_PREFILL)
        return qw_fail(QW_ERR_ARGUMENT, "marks are for prefill");
    for (size_t i = 0, last = s->position; i < b->n_marks; last = b->marks[i++])
        if (b->marks[i] <= last || b->marks[i] > s->position + b->n_tokens)
            return qw_fail(QW_ERR_ARGUMENT, "mark %zu is not after %zu and up to %zu", b->marks[i], last,
                           s->position + b->n_tokens);
    return QW_OK;
}

/* The snapshots of all marks, to be filled on the way; all or none. */
static qw_status create_snapshots(const qw_session *s, const qw_batch *b) {
    for (size_t i = 0; i < b->n_marks; i++)
        if (!(b->snapshots[i] = qw_snapshot_create(s->model, b->marks[i]))) {
            while (i-- > 0)
                qw_snapshot_free(b->snapshots[i]);
            return QW_ERR_MEMORY;
        }
    return QW_OK;
}

static qw_status run_blocks(qw_session *s, const qw_batch *b) {
    qw_model *m = s->model;
    qw_math math = m->config.exact ? QW_MATH_EXACT : b->phase == QW_PREFILL ? QW_MATH_P8 : QW_MATH_GEMV;
    size_t mark = 0;
    for (size_t done = 0, n; done < b->n_tokens; done += n) {
        n = block_rows(b->phase, s->position, b->n_tokens - done);
        qw_eval e = {.model = m,
                     .session = s,
                     .phase = b->phase,
                     .math = math,
                     .position = s->position,
                     .n_rows = n,
                     .marks = b->n_marks ? b->snapshots + mark : NULL};
        while (mark + e.n_marks < b->n_marks && b->marks[mark + e.n_marks] <= s->position + n)
            e.n_marks++;
        qw_status status = forward(&e, b, done);
        if (status != QW_OK)
            return status;
        mark += e.n_marks;
        s->position += n;
    }
    return QW_OK;
}

qw_status qw_session_eval(qw_session *s, const qw_batch *b) {
    qw_model *m = s->model;
    qw_status status = check(s, b);
    if (status == QW_OK)
        status = qw_session_own_pages(s, b->n_tokens);
    if (status == QW_OK)
        status = create_snapshots(s, b);
    if (status != QW_OK)
        return status;

    pthread_mutex_lock(&m->lock);
    m->work.gemm_rows = m->work.gemv_rows = 0;
    status = run_blocks(s, b);
    s->counters.gemm_rows += m->work.gemm_rows;
    s->counters.gemv_rows += m->work.gemv_rows;
    pthread_mutex_unlock(&m->lock);
    *(b->phase == QW_PREFILL ? &s->counters.prefill_tokens : &s->counters.decode_tokens) += b->n_tokens;

    for (size_t i = 0; i < b->n_marks; i++) {
        if (status == QW_OK)
            qw_snapshot_share_pages(b->snapshots[i], s);
        else
            qw_snapshot_free(b->snapshots[i]);
    }
    return status;
}

size_t qw_mixer_scratch_bytes(const qw_model *m) {
    size_t attention = qw_attention_scratch_bytes(m), delta = qw_delta_scratch_bytes(m);
    return attention > delta ? attention : delta;
}
