/*
 * Checks of the gated delta rule: the chunk form, the recurrent form, and that the two are one function.
 */
#include "check_f32.h"

#include <math.h>
#include <string.h>

enum { MAX_TOKENS = 64 };

/* A sequence of one head and what running it gives. */
typedef struct head {
    size_t n_tokens, n_k, n_v;
    float *q, *k, *v, *state;
    float log_decay[MAX_TOKENS], beta[MAX_TOKENS];
} head;

typedef struct outcome {
    float *o, *state;
} outcome;

static void unit(float *x, size_t n, double length) {
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(x[i] * length / sqrt(sum));
}

/* Keys lean toward one another, as a model's do. */
static head make_head(f32_check *c, size_t n_tokens, size_t n_k, size_t n_v, float decay) {
    head h = {n_tokens,
              n_k,
              n_v,
              f32_uniform(c, n_tokens * n_k),
              f32_uniform(c, n_tokens * n_k),
              f32_uniform(c, n_tokens * n_v),
              f32_uniform(c, n_k * n_v),
              {0},
              {0}};

    for (size_t t = 0; t < n_tokens; t++) {
        for (size_t i = 0; i < n_k; i++)
            h.k[t * n_k + i] += 0.5f;
        unit(h.q + t * n_k, n_k, 1 / sqrt((double)n_k));
        unit(h.k + t * n_k, n_k, 1);
        h.log_decay[t] = decay * (0.5f + 0.5f * fabsf(check_uniform(&c->random)));
        h.beta[t] = 0.5f + 0.49f * check_uniform(&c->random);
    }
    return h;
}

static void free_head(head *h) {
    check_free(h->q);
    check_free(h->k);
    check_free(h->v);
    check_free(h->state);
}

static void free_outcome(outcome *r) {
    check_free(r->o);
    check_free(r->state);
}

/* Run h in slices of n_cols columns, and calls of at most n_call tokens. */
static outcome run(void (*rule)(const qw_delta_block *), const head *h, size_t n_cols, size_t n_call) {
    outcome r = {check_alloc(h->n_tokens * h->n_v * sizeof(float)), check_alloc(h->n_k * h->n_v * sizeof(float))};

    memcpy(r.state, h->state, h->n_k * h->n_v * sizeof(float));
    for (size_t col = 0; col < h->n_v; col += n_cols)
        for (size_t t = 0; t < h->n_tokens; t += n_call) {
            qw_delta_block d = {
                .n_tokens = h->n_tokens - t < n_call ? h->n_tokens - t : n_call,
                .n_k = h->n_k,
                .n_v = h->n_v - col < n_cols ? h->n_v - col : n_cols,
                .state = r.state + col,
                .ld_state = h->n_v,
                .q = h->q + t * h->n_k,
                .k = h->k + t * h->n_k,
                .ld_qk = h->n_k,
                .v = h->v + t * h->n_v + col,
                .ld_v = h->n_v,
                .log_decay = h->log_decay + t,
                .beta = h->beta + t,
                .o = r.o + t * h->n_v + col,
                .ld_o = h->n_v,
            };
            rule(&d);
        }
    return r;
}

/* Against the largest output of all: a query may be all but orthogonal to the keys. */
static bool outcomes_close(const head *h, const outcome *a, const outcome *b, double tolerance) {
    return f32_close(a->o, b->o, h->n_tokens * h->n_v, tolerance) &&
           f32_close(a->state, b->state, h->n_k * h->n_v, tolerance);
}

static bool outcomes_equal(const head *h, const outcome *a, const outcome *b) {
    return f32_same_bits(a->o, b->o, h->n_tokens * h->n_v) && f32_same_bits(a->state, b->state, h->n_k * h->n_v);
}

static void check_forms(f32_check *c, const head *h, double tolerance) {
    outcome want = run(c->reference->delta_step, h, h->n_v, QW_CHUNK);
    outcome chunk = run(c->k->delta_chunk, h, h->n_v, QW_CHUNK);
    outcome step = run(c->k->delta_step, h, h->n_v, QW_CHUNK);

    f32_expect(c, outcomes_close(h, &chunk, &want, tolerance), "delta_chunk equals the reference", h->n_tokens, h->n_k,
               h->n_v);
    f32_expect(c, outcomes_close(h, &step, &want, tolerance), "delta_step equals the reference", h->n_tokens, h->n_k,
               h->n_v);
    for (size_t n_cols = 16; n_cols < h->n_v; n_cols += 16) {
        outcome chunk_slices = run(c->k->delta_chunk, h, n_cols, QW_CHUNK);
        outcome step_slices = run(c->k->delta_step, h, n_cols, 1);

        f32_expect(c, outcomes_equal(h, &chunk, &chunk_slices), "delta_chunk computes each column alone", h->n_tokens,
                   h->n_k, n_cols);
        f32_expect(c, outcomes_equal(h, &step, &step_slices), "delta_step computes each column and token alone",
                   h->n_tokens, h->n_k, n_cols);
        free_outcome(&chunk_slices);
        free_outcome(&step_slices);
    }
    free_outcome(&want);
    free_outcome(&chunk);
    free_outcome(&step);
}

/* Cutting a prompt elsewhere changes rounding only. */
static void check_cuts(f32_check *c) {
    head h = make_head(c, 61, 128, 32, -0.2f);
    outcome whole = run(c->k->delta_chunk, &h, h.n_v, QW_CHUNK);

    for (size_t n_call = 1; n_call < QW_CHUNK; n_call++) {
        outcome cut = run(c->k->delta_chunk, &h, h.n_v, n_call);

        f32_expect(c, outcomes_close(&h, &whole, &cut, 1e-5), "delta_chunk may be cut anywhere", n_call, 0, 0);
        free_outcome(&cut);
    }
    free_outcome(&whole);
    free_head(&h);
}

static void check_strong_decay(f32_check *c) {
    static const float decays[] = {0, -1e-6f, -25.3f, -90, -1e4f};
    head h;

    for (size_t i = 0; i < sizeof decays / sizeof *decays; i++) {
        h = make_head(c, MAX_TOKENS, 64, 32, decays[i]);
        for (size_t t = 0; t < h.n_tokens; t++)
            h.log_decay[t] = decays[i];
        check_forms(c, &h, 1e-4);
        for (size_t t = 0; t < h.n_tokens; t++)
            h.log_decay[t] = t % 5 == 2 ? decays[i] : -0.01f; /* one strong step must not blur the next ones */
        check_forms(c, &h, 2e-5);
        free_head(&h);
    }
    h = make_head(c, QW_CHUNK, 64, 16, 0);
    h.log_decay[0] = -90;
    check_forms(c, &h, 2e-5);
    free_head(&h);
}

void check_delta(f32_check *c) {
    static const size_t widths[] = {16, 64, 128, 256};

    for (size_t n_tokens = 1; n_tokens <= QW_CHUNK; n_tokens++) {
        head h = make_head(c, n_tokens, widths[n_tokens % 4], 16 + n_tokens % 5 * 32, -0.1f * (float)n_tokens);

        check_forms(c, &h, 2e-5);
        free_head(&h);
    }
    check_cuts(c);
    check_strong_decay(c);
}
