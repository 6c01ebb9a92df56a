/* The buffers of one evaluation, in one arena, sized once when the model is created. */
#include "forward.h"
#include "linear.h"
#include "memory.h"
#include "model.h"

/* Hands out 64-byte aligned pieces; with base NULL it only measures. */
typedef struct {
    uint8_t *base;
    size_t used;
} arena;

static void *take(arena *a, size_t bytes) {
    void *p = a->base ? a->base + a->used : NULL;
    a->used += qw_round_up(bytes, 64);
    return p;
}

static float *take_floats(arena *a, size_t n) {
    return take(a, n * sizeof(float));
}

static size_t max(size_t a, size_t b) {
    return a > b ? a : b;
}

static void lay_out(qw_model *m, arena *a) {
    const qw_config *c = &m->config;
    qw_workspace *w = &m->work;
    size_t heads = (size_t)c->n_heads * c->head_dim, kv = (size_t)c->n_kv_heads * c->head_dim;

    w->x = take_floats(a, QW_MAX_ROWS * (size_t)c->n_hidden);
    w->u = take_floats(a, (QW_MAX_ROWS + QW_CONV - 1) * max(m->n_channels, 2 * heads));
    w->z = take_floats(a, QW_MAX_ROWS * max(m->value_width, 2 * kv));
    w->o = take_floats(a, QW_MAX_ROWS * max(m->value_width, heads));
    w->ab = take_floats(a, QW_MAX_ROWS * (2 * (size_t)c->n_value_heads));
    w->h = take_floats(a, QW_MAX_ROWS * (size_t)c->n_ffn);
    w->cos = take_floats(a, QW_MAX_ROWS * (size_t)c->rotary_dims / 2);
    w->sin = take_floats(a, QW_MAX_ROWS * (size_t)c->rotary_dims / 2);

    w->attention = take(a, qw_attention_partials_bytes(m));

    size_t blocks = QW_MAX_ROWS / QW_BLOCK_ROWS * (m->max_k / QW_BLOCK_K);
    size_t float_rows = c->exact ? QW_MAX_ROWS : QW_GEMV_ROWS;
    w->input.q = take(a, max(blocks * m->kernels->act_block_bytes, QW_GEMV_ROWS * m->max_k));
    w->input.meta = take_floats(a, blocks * QW_ACT_META);
    w->input.x = take_floats(a, float_rows * m->max_k);
    w->input.d = take_floats(a, QW_GEMV_ROWS * m->max_k / QW_ACT_GROUP);
    w->input.sum = take_floats(a, QW_GEMV_ROWS * m->max_k / QW_ACT_GROUP);

    w->scratch_bytes = qw_round_up(max(qw_linear_scratch_bytes(m), qw_mixer_scratch_bytes(m)), 64);
    w->scratch = take(a, c->n_threads * w->scratch_bytes);
}

bool qw_workspace_create(qw_model *m) {
    arena measure = {0};
    lay_out(m, &measure);
    void *base = qw_big_alloc(measure.used);
    if (!base)
        return false;
    m->work.arena = base;
    m->work.arena_bytes = measure.used;
    arena real = {.base = base};
    lay_out(m, &real);
    return true;
}

void qw_workspace_free(qw_model *m) {
    qw_big_free(m->work.arena, m->work.arena_bytes);
}
