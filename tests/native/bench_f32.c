/*
 * Speeds of the f32 kernels on one core.
 */
#include "check.h"

#include <stdio.h>

enum { BENCH_RUNS = 7 };

/* The fastest of a few timings of n calls, in seconds per call. */
static double fastest(void (*call)(const qw_kernels *, void *), const qw_kernels *k, void *arg, size_t n) {
    double best = 1e9;

    for (size_t run = 0; run < BENCH_RUNS; run++) {
        double start = check_seconds(), seconds;

        for (size_t i = 0; i < n; i++)
            call(k, arg);
        seconds = (check_seconds() - start) / (double)n;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static float *filled(size_t n, float scale) {
    check_random random = {7};
    float *x = check_alloc(n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = scale * check_uniform(&random);
    return x;
}

static void call_chunk(const qw_kernels *k, void *d) {
    k->delta_chunk(d);
}

static void call_step(const qw_kernels *k, void *d) {
    k->delta_step(d);
}

static void call_attention(const qw_kernels *k, void *t) {
    k->attention_tile(t);
}

typedef struct row_args {
    size_t n;
    float *x, *y, *z;
} row_args;

static void call_gemm(const qw_kernels *k, void *arg) {
    row_args *r = arg;

    k->gemm_f32(32, 64, 128, r->x, 128, 1, r->y, 64, r->z, 64, 0);
}

static void call_silu(const qw_kernels *k, void *arg) {
    row_args *r = arg;

    k->silu_mul(r->x, r->y, r->n, r->z);
}

static void bench_delta(const qw_kernels *k) {
    enum { D = 128, T = QW_CHUNK };
    float *q = filled(T * D, 0.01f), *keys = filled(T * D, 0.1f), *v = filled(T * D, 1), *o = filled(T * D, 0);
    float *state = filled(D * D, 1), log_decay[T], beta[T];
    qw_delta_block d = {.n_tokens = T,
                        .n_k = D,
                        .n_v = D,
                        .state = state,
                        .ld_state = D,
                        .q = q,
                        .k = keys,
                        .ld_qk = D,
                        .v = v,
                        .ld_v = D,
                        .log_decay = log_decay,
                        .beta = beta,
                        .o = o,
                        .ld_o = D};

    for (size_t t = 0; t < T; t++) {
        log_decay[t] = -0.1f;
        beta[t] = 0.5f;
    }
    printf("%s: delta_chunk %.3f us/token/head", k->isa, fastest(call_chunk, k, &d, 200) / T * 1e6);
    printf(", delta_step %.3f", fastest(call_step, k, &d, 100) / T * 1e6);
    d.n_tokens = 1;
    printf(", delta_step of one token %.3f\n", fastest(call_step, k, &d, 1000) * 1e6);
    check_free(q);
    check_free(keys);
    check_free(v);
    check_free(o);
    check_free(state);
}

static void bench_attention(const qw_kernels *k, bool half) {
    enum { ROWS = 32, D = 256 };
    uint32_t limit[ROWS];
    float m[ROWS] = {0}, l[ROWS] = {0};
    float *q = filled(ROWS * D, 0.1f), *keys = filled(QW_KEY_TILE * D, 0), *values = filled(QW_KEY_TILE * D, 0);
    float *o = filled(ROWS * D, 0), *scratch = filled(QW_ATTENTION_SCRATCH(ROWS, D), 0);
    qw_attention_tile t = {.n_rows = ROWS,
                           .head_dim = D,
                           .q = q,
                           .keys = keys,
                           .values = values,
                           .half = half,
                           .limit = limit,
                           .m = m,
                           .l = l,
                           .o = o,
                           .scratch = scratch};

    for (size_t r = 0; r < ROWS; r++)
        limit[r] = QW_KEY_TILE;
    printf("%s: attention_tile %s %.1f GFMA/s\n", k->isa, half ? "f16" : "f32",
           2.0 * ROWS * QW_KEY_TILE * D / fastest(call_attention, k, &t, 100) * 1e-9);
    check_free(q);
    check_free(keys);
    check_free(values);
    check_free(o);
    check_free(scratch);
}

void bench_f32(const qw_kernels *k) {
    row_args r = {3584, filled(4096, 3), filled(64 * 128, 1), filled(4096, 0)};

    bench_delta(k);
    printf("%s: gemm_f32 %.1f GFMA/s", k->isa, 32.0 * 64 * 128 / fastest(call_gemm, k, &r, 500) * 1e-9);
    printf(", silu_mul %.3f ns/element\n", fastest(call_silu, k, &r, 200) / (double)r.n * 1e9);
    bench_attention(k, true);
    bench_attention(k, false);
    check_free(r.x);
    check_free(r.y);
    check_free(r.z);
}
