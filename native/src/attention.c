/*
 * The gated attention mixer: projections, norm and rotary positions, keys and values into the session's pages,
 * softmax attention (softmax.c), output gate and projection.
 */
#include <math.h>
#include <string.h>

#include "attention.h"

/* Half-split pairing: dimension i turns with i + rotary_dims / 2; dimensions past rotary_dims pass through. */
static void rotate(const qw_model *m, size_t row, float *x) {
    size_t half = m->config.rotary_dims / 2;
    const float *c = m->work.cos + row * half, *s = m->work.sin + row * half;
    for (size_t i = 0; i < half; i++) {
        float a = x[i], b = x[i + half];
        x[i] = a * c[i] - b * s[i];
        x[i + half] = b * c[i] + a * s[i];
    }
}

static void write_key(const qw_model *m, uint8_t *keys, size_t slot, const float *key, uint16_t *half) {
    size_t n = m->config.head_dim;
    if (m->config.exact) {
        for (size_t i = 0; i < n; i++)
            ((float *)keys)[i * QW_KEY_TILE + slot] = key[i];
        return;
    }
    m->kernels->f32_to_f16(key, n, half);
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)keys)[i * QW_KEY_TILE + slot] = half[i];
}

static void write_value(const qw_model *m, uint8_t *values, size_t slot, const float *value) {
    size_t n = m->config.head_dim;
    if (m->config.exact)
        memcpy((float *)values + slot * n, value, n * sizeof(float));
    else
        m->kernels->f32_to_f16(value, n, (uint16_t *)values + slot * n);
}

/* Norm and rotate one token's keys and queries; its keys and values go to the page of its position. */
static void token_unit(void *argument, size_t row, size_t thread) {
    const qw_attention_job *job = argument;
    qw_model *m = job->e->model;
    qw_attention_shape s = qw_attention_shape_of(m);
    size_t position = job->e->position + row, slot = position % QW_KEY_TILE;
    qw_page *page = job->e->session->pages[position / QW_KEY_TILE];
    float *k = m->work.z + row * 2 * s.kv_width, *v = k + s.kv_width;
    size_t tile_bytes = s.head_dim * QW_KEY_TILE * m->kv_element_bytes;

    for (size_t h = 0; h < s.n_kv_heads; h++) {
        float *key = k + h * s.head_dim;
        m->kernels->rms_norm(key, job->l->k_norm, m->config.rms_eps, s.head_dim, key);
        rotate(m, row, key);
        uint8_t *keys = qw_page_keys(m, page, job->l->index, h);
        write_key(m, keys, slot, key, qw_thread_scratch(m, thread));
        write_value(m, keys + tile_bytes, slot, v + h * s.head_dim);
    }
    if (row < job->first)
        return;
    float scale = 1.0f / sqrtf((float)s.head_dim);
    for (size_t h = 0; h < s.n_heads; h++) {
        float *q = m->work.u + row * s.q_width + h * 2 * s.head_dim;
        m->kernels->rms_norm(q, job->l->q_norm, m->config.rms_eps, s.head_dim, q);
        rotate(m, row, q);
        for (size_t i = 0; i < s.head_dim; i++)
            q[i] *= scale;
    }
}

static void gated_row(const void *source, size_t row, float *out) {
    const qw_model *m = source;
    qw_attention_shape s = qw_attention_shape_of(m);
    for (size_t h = 0; h < s.n_heads; h++) {
        const float *gate = m->work.u + row * s.q_width + (2 * h + 1) * s.head_dim;
        m->kernels->sigmoid_mul(gate, m->work.o + row * (s.q_width / 2) + h * s.head_dim, s.head_dim,
                                out + h * s.head_dim);
    }
}

void qw_attention_layer(const qw_eval *e, const qw_layer *l, size_t first) {
    qw_model *m = e->model;
    qw_workspace *w = &m->work;
    qw_attention_shape s = qw_attention_shape_of(m);

    qw_norm_source norm = {m, w->x, l->mixer_norm};
    qw_linear_input(m, e->math, 0, e->n_rows, m->config.n_hidden, qw_norm_row, &norm);
    qw_product inputs[] = {
        {.weight = &l->k, .y = w->z, .ld = 2 * s.kv_width},
        {.weight = &l->v, .y = w->z + s.kv_width, .ld = 2 * s.kv_width},
        {.weight = &l->q, .y = w->u, .ld = s.q_width, .first = first},
    };
    qw_linear_multiply(m, e->math, e->n_rows, inputs, first < e->n_rows ? 3 : 2);

    qw_attention_job job = {e, l, first};
    qw_pool_run(m->pool, token_unit, &job, e->n_rows);
    if (first == e->n_rows)
        return;
    qw_softmax_attention(&job);

    qw_linear_input(m, e->math, first, e->n_rows, s.q_width / 2, gated_row, m);
    qw_product out = {.weight = &l->attn_out, .y = w->x, .ld = m->config.n_hidden, .add = true, .first = first};
    qw_linear_multiply(m, e->math, e->n_rows, &out, 1);
}
