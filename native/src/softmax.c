/*
 * Softmax attention, tile by tile with a running maximum.
 *
 * The unit of work is one KV head and, in prefill, a block of tokens; in decode, where one token has to keep every
 * thread busy, a span of keys.  The query heads that share a KV head go together.  Tiles and spans of keys begin at
 * absolute positions, so a row's result does not depend on the rows beside it or on the number of threads.
 */
#include <math.h>
#include <string.h>

#include "attention.h"

enum {
    QUERY_ROWS = 32, /* query rows of one unit: enough to pay for reading a tile */
    SPAN = 512,      /* keys of one unit in decode, twice as many whenever there would be more than MAX_SPANS */
    MAX_SPANS = 64
};

static size_t tokens_per_unit(qw_attention_shape s) {
    return QUERY_ROWS / s.group;
}

/* Query rows' softmax over some of the keys, as qw_attention_tile has it. */
typedef struct {
    float o[QUERY_ROWS * 256];
    float m[QUERY_ROWS], l[QUERY_ROWS];
} partial;

typedef struct {
    float q[QUERY_ROWS * 256];
    uint32_t limit[QUERY_ROWS];
    partial all;
    _Alignas(64) float tile[];
} query_scratch;

/* Rows of one KV head: the query heads that share it, of consecutive tokens. */
typedef struct {
    size_t row, n_tokens, kv_head;
} query_block;

/* Keys [first, end), first a multiple of QW_KEY_TILE. */
static void attend(const qw_attention_job *job, query_block b, size_t first, size_t end, partial *p, size_t thread) {
    qw_model *m = job->e->model;
    qw_attention_shape s = qw_attention_shape_of(m);
    size_t n = b.n_tokens * s.group, position = job->e->position + b.row;

    query_scratch *scratch = qw_thread_scratch(m, thread);
    for (size_t i = 0; i < n; i++) {
        size_t head = b.kv_head * s.group + i % s.group;
        memcpy(scratch->q + i * s.head_dim, m->work.u + (b.row + i / s.group) * s.q_width + head * 2 * s.head_dim,
               s.head_dim * sizeof(float));
        p->m[i] = -INFINITY;
        p->l[i] = 0;
    }
    memset(p->o, 0, n * s.head_dim * sizeof(float));

    qw_attention_tile tile = {.n_rows = n,
                              .head_dim = s.head_dim,
                              .q = scratch->q,
                              .half = !m->config.exact,
                              .limit = scratch->limit,
                              .m = p->m,
                              .l = p->l,
                              .o = p->o,
                              .scratch = scratch->tile};
    for (size_t key = first; key < end; key += QW_KEY_TILE) {
        qw_page *page = job->e->session->pages[key / QW_KEY_TILE];
        uint8_t *keys = qw_page_keys(m, page, job->l->index, b.kv_head);
        tile.keys = keys;
        tile.values = keys + s.head_dim * QW_KEY_TILE * m->kv_element_bytes;
        for (size_t i = 0; i < n; i++) {
            size_t last = position + i / s.group;
            size_t seen = last >= key ? last - key + 1 : 0;
            scratch->limit[i] = (uint32_t)(seen < QW_KEY_TILE ? seen : QW_KEY_TILE);
        }
        m->kernels->attention_tile(&tile);
    }
}

static void store(const qw_attention_job *job, query_block b, const partial *p) {
    const qw_model *m = job->e->model;
    qw_attention_shape s = qw_attention_shape_of(m);
    for (size_t i = 0; i < b.n_tokens * s.group; i++) {
        size_t head = b.kv_head * s.group + i % s.group;
        float *o = m->work.o + (b.row + i / s.group) * (s.q_width / 2) + head * s.head_dim;
        for (size_t j = 0; j < s.head_dim; j++)
            o[j] = p->o[i * s.head_dim + j] / p->l[i];
    }
}

static void prefill_unit(void *argument, size_t unit, size_t thread) {
    const qw_attention_job *job = argument;
    qw_model *m = job->e->model;
    qw_attention_shape s = qw_attention_shape_of(m);
    size_t per_unit = tokens_per_unit(s), n_blocks = (job->e->n_rows - job->first + per_unit - 1) / per_unit;
    size_t row = job->first + (n_blocks - 1 - unit / s.n_kv_heads) * per_unit; /* the longest first */
    query_block b = {row, qw_smaller(job->e->n_rows - row, per_unit), unit % s.n_kv_heads};
    partial *all = &((query_scratch *)qw_thread_scratch(m, thread))->all;
    attend(job, b, 0, job->e->position + row + b.n_tokens, all, thread);
    store(job, b, all);
}

/* --- decode: a block of tokens at a time, spans of keys apart and then put together in their order --- */

typedef struct {
    const qw_attention_job *job;
    size_t row, n_tokens;
    size_t span, n_spans; /* keys of one, all but the last */
    partial *partials;    /* [n_spans][n_kv_heads] */
} decode_job;

static void span_unit(void *argument, size_t unit, size_t thread) {
    const decode_job *d = argument;
    size_t n_kv_heads = d->job->e->model->config.n_kv_heads, first = unit / n_kv_heads * d->span;
    size_t end = qw_smaller(first + d->span, d->job->e->position + d->row + d->n_tokens);
    attend(d->job, (query_block){d->row, d->n_tokens, unit % n_kv_heads}, first, end, d->partials + unit, thread);
}

static void merge_unit(void *argument, size_t kv_head, size_t thread) {
    (void)thread;
    const decode_job *d = argument;
    qw_attention_shape s = qw_attention_shape_of(d->job->e->model);
    partial *sum = d->partials + kv_head;
    for (size_t span = 1; span < d->n_spans; span++) {
        const partial *p = sum + span * s.n_kv_heads;
        for (size_t i = 0; i < d->n_tokens * s.group; i++) {
            float m = fmaxf(sum->m[i], p->m[i]), old = expf(sum->m[i] - m), new = expf(p->m[i] - m);
            float *o = sum->o + i * s.head_dim;
            for (size_t j = 0; j < s.head_dim; j++)
                o[j] = o[j] * old + p->o[i * s.head_dim + j] * new;
            sum->l[i] = sum->l[i] * old + p->l[i] * new;
            sum->m[i] = m;
        }
    }
    store(d->job, (query_block){d->row, d->n_tokens, kv_head}, sum);
}

static void decode_rows(const qw_attention_job *job) {
    qw_model *m = job->e->model;
    qw_attention_shape s = qw_attention_shape_of(m);
    decode_job d = {.job = job, .row = job->first, .partials = m->work.attention};
    for (; d.row < job->e->n_rows; d.row += d.n_tokens) {
        /* No block crosses a position where spans get longer. */
        size_t position = job->e->position + d.row, even = (size_t)SPAN * MAX_SPANS;
        d.n_tokens = qw_smaller(qw_smaller(tokens_per_unit(s), job->e->n_rows - d.row), even - position % even);
        for (d.span = SPAN; position / d.span >= MAX_SPANS;)
            d.span *= 2;
        d.n_spans = (position + d.n_tokens + d.span - 1) / d.span;
        qw_pool_run(m->pool, span_unit, &d, d.n_spans * s.n_kv_heads);
        qw_pool_run(m->pool, merge_unit, &d, s.n_kv_heads);
    }
}

void qw_softmax_attention(qw_attention_job *job) {
    qw_model *m = job->e->model;
    qw_attention_shape s = qw_attention_shape_of(m);
    size_t per_unit = tokens_per_unit(s), n_blocks = (job->e->n_rows - job->first + per_unit - 1) / per_unit;
    if (job->e->math == QW_MATH_GEMV)
        decode_rows(job);
    else
        qw_pool_run(m->pool, prefill_unit, job, n_blocks * s.n_kv_heads);
}

size_t qw_attention_partials_bytes(const qw_model *m) {
    return (size_t)MAX_SPANS * m->config.n_kv_heads * sizeof(partial);
}

size_t qw_attention_scratch_bytes(const qw_model *m) {
    return sizeof(query_scratch) + QW_ATTENTION_SCRATCH(QUERY_ROWS, (size_t)m->config.head_dim) * sizeof(float);
}
