/*
 * The Gated DeltaNet mixer: projections, causal convolution, delta rule, gated norm, output projection.
 *
 * The unit of work is one value head, or a slice of its columns: columns of the state never meet.  Chunks are
 * aligned to absolute positions, so that a result does not depend on how many tokens are evaluated together.
 */
#include <math.h>
#include <string.h>

#include "forward.h"

typedef struct {
    const qw_eval *e;
    const qw_layer *l;
    size_t n_slices;
} delta_job;

/* Room for one chunk of one head, with the widest slice. */
static size_t chunk_floats(const qw_model *m) {
    return QW_CHUNK * (3 * (size_t)m->config.delta_head_dim + 2);
}

size_t qw_delta_scratch_bytes(const qw_model *m) {
    return chunk_floats(m) * sizeof(float);
}

/* log decay = a softplus(alpha + dt_bias), beta = sigmoid(b), for n tokens of one value head. */
static void gates(const qw_model *m, const qw_layer *l, size_t row, size_t n, size_t head, float *log_decay,
                  float *beta) {
    size_t n_heads = m->config.n_value_heads;
    for (size_t t = 0; t < n; t++) {
        const float *ab = m->work.ab + (row + t) * 2 * n_heads;
        float a = ab[head] + l->dt_bias[head];
        float softplus = a > 20.0f ? a : log1pf(expf(a));
        log_decay[t] = l->decay[head] * softplus;
        beta[t] = 1.0f / (1.0f + expf(-ab[n_heads + head]));
    }
}

/* This unit's columns of the state, as they are now, into a snapshot. */
static void copy_columns(const qw_model *m, const delta_job *job, const float *s, qw_snapshot *snap, size_t head,
                         size_t slice, size_t n_v) {
    size_t dim = m->config.delta_head_dim;
    float *copy = qw_state_s(m, snap->state, job->l->index) + head * dim * dim + slice;
    for (size_t i = 0; i < dim; i++)
        memcpy(copy + i * dim, s + i * dim, n_v * sizeof *copy);
}

static void delta_unit(void *argument, size_t unit, size_t thread) {
    const delta_job *job = argument;
    const qw_eval *e = job->e;
    qw_model *m = e->model;
    const qw_kernels *k = m->kernels;
    size_t dim = m->config.delta_head_dim, n_v = dim / job->n_slices;
    size_t head = unit / job->n_slices, slice = unit % job->n_slices * n_v;
    size_t q_channel = head % m->config.n_key_heads * dim, k_channel = m->key_width + q_channel;
    size_t v_channel = 2 * m->key_width + head * dim + slice;

    float *scratch = qw_thread_scratch(m, thread);
    float *q = scratch, *key = q + QW_CHUNK * dim, *v = key + QW_CHUNK * dim;
    float *log_decay = v + QW_CHUNK * n_v, *beta = log_decay + QW_CHUNK;
    float *s = qw_state_s(m, e->session->state, job->l->index) + head * dim * dim + slice;

    size_t mark = 0;
    for (size_t row = 0, n; row < e->n_rows; row += n) {
        size_t end = mark < e->n_marks ? e->marks[mark]->position - e->position : e->n_rows;
        n = QW_CHUNK - (e->position + row) % QW_CHUNK;
        if (n > end - row)
            n = end - row;
        const float *u = m->work.u + row * m->n_channels;
        k->conv_silu(u + q_channel, m->n_channels, job->l->conv + q_channel * QW_CONV, dim, n, q, dim);
        k->conv_silu(u + k_channel, m->n_channels, job->l->conv + k_channel * QW_CONV, dim, n, key, dim);
        k->conv_silu(u + v_channel, m->n_channels, job->l->conv + v_channel * QW_CONV, n_v, n, v, n_v);
        for (size_t t = 0; t < n; t++) {
            k->l2_norm(q + t * dim, dim, 1e-6f, 1.0f / sqrtf((float)dim));
            k->l2_norm(key + t * dim, dim, 1e-6f, 1.0f);
        }
        gates(m, job->l, row, n, head, log_decay, beta);
        qw_delta_block block = {.n_tokens = n,
                                .n_k = dim,
                                .n_v = n_v,
                                .state = s,
                                .ld_state = dim,
                                .q = q,
                                .k = key,
                                .ld_qk = dim,
                                .v = v,
                                .ld_v = n_v,
                                .log_decay = log_decay,
                                .beta = beta,
                                .o = m->work.o + row * m->value_width + head * dim + slice,
                                .ld_o = m->value_width};
        if (e->phase == QW_PREFILL)
            k->delta_chunk(&block);
        else
            k->delta_step(&block);
        if (mark < e->n_marks && row + n == end)
            copy_columns(m, job, s, e->marks[mark++], head, slice, n_v);
    }
}

/* rms(o) * silu(z), the norm per head. */
static void gated_norm_row(const void *source, size_t row, float *out) {
    const delta_job *job = source;
    const qw_model *m = job->e->model;
    size_t dim = m->config.delta_head_dim, width = m->value_width;
    for (size_t h = 0; h < m->config.n_value_heads; h++)
        m->kernels->rms_norm(m->work.o + row * width + h * dim, job->l->delta_norm, m->config.rms_eps, dim,
                             out + h * dim);
    m->kernels->silu_mul(m->work.z + row * width, out, width, out);
}

/* More slices than heads need only when there are many threads: each slice repeats the keys' part. */
static size_t slices(const qw_model *m) {
    size_t n = 1, dim = m->config.delta_head_dim;
    while (n < 4 && m->config.n_value_heads * n < 3 * qw_pool_threads(m->pool) && dim / (2 * n) % 16 == 0)
        n *= 2;
    return n;
}

void qw_delta_layer(const qw_eval *e, const qw_layer *l, size_t first) {
    qw_model *m = e->model;
    qw_workspace *w = &m->work;
    size_t n_heads = m->config.n_value_heads, history = (QW_CONV - 1) * m->n_channels;
    float *conv_state = qw_state_conv(m, e->session->state, l->index);

    qw_norm_source norm = {m, w->x, l->mixer_norm};
    qw_linear_input(m, e->math, 0, e->n_rows, m->config.n_hidden, qw_norm_row, &norm);
    qw_product inputs[] = {
        {.weight = &l->qkv, .y = w->u + history, .ld = m->n_channels},
        {.weight = &l->alpha, .y = w->ab, .ld = 2 * n_heads},
        {.weight = &l->beta, .y = w->ab + n_heads, .ld = 2 * n_heads},
        {.weight = &l->z, .y = w->z, .ld = m->value_width, .first = first},
    };
    qw_linear_multiply(m, e->math, e->n_rows, inputs, first < e->n_rows ? 4 : 3);

    memcpy(w->u, conv_state, history * sizeof(float));
    delta_job job = {e, l, slices(m)};
    qw_pool_run(m->pool, delta_unit, &job, n_heads * job.n_slices);
    memcpy(conv_state, w->u + e->n_rows * m->n_channels, history * sizeof(float));
    for (size_t i = 0; i < e->n_marks; i++) {
        size_t row = e->marks[i]->position - e->position;
        memcpy(qw_state_conv(m, e->marks[i]->state, l->index), w->u + row * m->n_channels, history * sizeof(float));
    }
    if (first == e->n_rows)
        return;

    qw_linear_input(m, e->math, first, e->n_rows, m->value_width, gated_norm_row, &job);
    qw_product out = {.weight = &l->delta_out, .y = w->x, .ld = m->config.n_hidden, .add = true, .first = first};
    qw_linear_multiply(m, e->math, e->n_rows, &out, 1);
}
