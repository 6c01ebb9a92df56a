/*
 * The gated attention mixer: projections, norm and rotary positions, keys and values into the session's pages,
 * softmax attention tile by tile, output gate and projection.
 *
 * The unit of work is one KV head and a block of tokens; the query heads that share the KV head go together.
 * Keys are tiled at absolute positions, so a row's result does not depend on the rows beside it.
 */
#include <math.h>
#include <string.h>

#include "forward.h"

enum { QUERY_ROWS = 32 }; /* query rows of one unit: enough to pay for reading a tile */

typedef struct {
    const qw_eval *e;
    const qw_layer *l;
    size_t first;
} attention_job;

typedef struct {
    size_t n_heads, n_kv_heads, head_dim, group; /* group: query heads per KV head */
    size_t q_width, kv_width;                    /* floats of a row of [q|gate], and of a row of k or v */
} shape;

static shape shape_of(const qw_model *m) {
    const qw_config *c = &m->config;
    return (shape){c->n_heads,
                   c->n_kv_heads,
                   c->head_dim,
                   c->n_heads / c->n_kv_heads,
                   2 * (size_t)c->n_heads * c->head_dim,
                   (size_t)c->n_kv_heads * c->head_dim};
}

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
    const attention_job *job = argument;
    qw_model *m = job->e->model;
    shape s = shape_of(m);
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

/* --- softmax attention --- */

static size_t tokens_per_unit(shape s) {
    return QUERY_ROWS / s.group;
}

typedef struct {
    float q[QUERY_ROWS * 256], o[QUERY_ROWS * 256];
    float m[QUERY_ROWS], l[QUERY_ROWS];
    uint32_t limit[QUERY_ROWS];
    _Alignas(64) float tile[];
} query_scratch;

static void query_unit(void *argument, size_t unit, size_t thread) {
    const attention_job *job = argument;
    qw_model *m = job->e->model;
    shape s = shape_of(m);
    size_t per_unit = tokens_per_unit(s), n_blocks = (job->e->n_rows - job->first + per_unit - 1) / per_unit;
    size_t block = n_blocks - 1 - unit / s.n_kv_heads; /* the longest first */
    size_t kv_head = unit % s.n_kv_heads;
    size_t row = job->first + block * per_unit;
    size_t n_tokens = job->e->n_rows - row < per_unit ? job->e->n_rows - row : per_unit;
    size_t n = n_tokens * s.group, position = job->e->position + row;

    query_scratch *scratch = qw_thread_scratch(m, thread);
    for (size_t i = 0; i < n; i++) {
        size_t head = kv_head * s.group + i % s.group;
        memcpy(scratch->q + i * s.head_dim, m->work.u + (row + i / s.group) * s.q_width + head * 2 * s.head_dim,
               s.head_dim * sizeof(float));
        scratch->m[i] = -INFINITY;
        scratch->l[i] = 0;
    }
    memset(scratch->o, 0, n * s.head_dim * sizeof(float));

    qw_attention_tile tile = {.n_rows = n,
                              .head_dim = s.head_dim,
                              .q = scratch->q,
                              .half = !m->config.exact,
                              .limit = scratch->limit,
                              .m = scratch->m,
                              .l = scratch->l,
                              .o = scratch->o,
                              .scratch = scratch->tile};
    for (size_t key = 0; key < position + n_tokens; key += QW_KEY_TILE) {
        qw_page *page = job->e->session->pages[key / QW_KEY_TILE];
        uint8_t *keys = qw_page_keys(m, page, job->l->index, kv_head);
        tile.keys = keys;
        tile.values = keys + s.head_dim * QW_KEY_TILE * m->kv_element_bytes;
        for (size_t i = 0; i < n; i++) {
            size_t end = position + i / s.group + 1;
            size_t seen = end > key ? end - key : 0;
            scratch->limit[i] = (uint32_t)(seen < QW_KEY_TILE ? seen : QW_KEY_TILE);
        }
        m->kernels->attention_tile(&tile);
    }
    for (size_t i = 0; i < n; i++) {
        size_t head = kv_head * s.group + i % s.group;
        float *o = m->work.o + (row + i / s.group) * (s.q_width / 2) + head * s.head_dim;
        for (size_t j = 0; j < s.head_dim; j++)
            o[j] = scratch->o[i * s.head_dim + j] / scratch->l[i];
    }
}

static void gated_row(const void *source, size_t row, float *out) {
    const qw_model *m = source;
    shape s = shape_of(m);
    for (size_t h = 0; h < s.n_heads; h++) {
        const float *gate = m->work.u + row * s.q_width + (2 * h + 1) * s.head_dim;
        m->kernels->sigmoid_mul(gate, m->work.o + row * (s.q_width / 2) + h * s.head_dim, s.head_dim,
                                out + h * s.head_dim);
    }
}

size_t qw_attention_scratch_bytes(const qw_model *m) {
    return sizeof(query_scratch) + QW_ATTENTION_SCRATCH(QUERY_ROWS, (size_t)m->config.head_dim) * sizeof(float);
}

void qw_attention_layer(const qw_eval *e, const qw_layer *l, size_t first) {
    qw_model *m = e->model;
    qw_workspace *w = &m->work;
    shape s = shape_of(m);

    qw_norm_source norm = {m, w->x, l->mixer_norm};
    qw_linear_input(m, e->math, 0, e->n_rows, m->config.n_hidden, qw_norm_row, &norm);
    qw_product inputs[] = {
        {.weight = &l->k, .y = w->z, .ld = 2 * s.kv_width},
        {.weight = &l->v, .y = w->z + s.kv_width, .ld = 2 * s.kv_width},
        {.weight = &l->q, .y = w->u, .ld = s.q_width, .first = first},
    };
    qw_linear_multiply(m, e->math, e->n_rows, inputs, first < e->n_rows ? 3 : 2);

    attention_job job = {e, l, first};
    qw_pool_run(m->pool, token_unit, &job, e->n_rows);
    if (first == e->n_rows)
        return;
    size_t per_unit = tokens_per_unit(s);
    qw_pool_run(m->pool, query_unit, &job, (e->n_rows - first + per_unit - 1) / per_unit * s.n_kv_heads);

    qw_linear_input(m, e->math, first, e->n_rows, s.q_width / 2, gated_row, m);
    qw_product out = {.weight = &l->attn_out, .y = w->x, .ld = m->config.n_hidden, .add = true, .first = first};
    qw_linear_multiply(m, e->math, e->n_rows, &out, 1);
}
