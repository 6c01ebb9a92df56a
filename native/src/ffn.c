/* The feed-forward part of a layer: x += (silu(h gate) * (h up)) down, h = rms(x). */
#include <string.h>

#include "forward.h"

void qw_norm_row(const void *source, size_t row, float *out) {
    const qw_norm_source *s = source;
    size_t n = s->model->config.n_hidden;
    s->model->kernels->rms_norm(s->x + row * n, s->weight, s->model->config.rms_eps, n, out);
}

static void gated_row(const void *source, size_t row, float *out) {
    const qw_model *m = source;
    memcpy(out, m->work.h + row * m->config.n_ffn, m->config.n_ffn * sizeof *out);
}

void qw_ffn_layer(const qw_eval *e, const qw_layer *l, size_t first) {
    qw_model *m = e->model;
    size_t n_hidden = m->config.n_hidden, n_ffn = m->config.n_ffn;

    qw_norm_source norm = {m, m->work.x, l->ffn_norm};
    qw_linear_input(m, e->math, first, e->n_rows, n_hidden, qw_norm_row, &norm);
    qw_product gate_up = {.weight = &l->ffn_gate, .up = &l->ffn_up, .y = m->work.h, .ld = n_ffn, .first = first};
    qw_linear_multiply(m, e->math, e->n_rows, &gate_up, 1);

    qw_linear_input(m, e->math, first, e->n_rows, n_ffn, gated_row, m);
    qw_product down = {.weight = &l->ffn_down, .y = m->work.x, .ld = n_hidden, .add = true, .first = first};
    qw_linear_multiply(m, e->math, e->n_rows, &down, 1);
}
