/*
 * Checks of the f32 kernels: products, norms, gates and halves; the rest has files of its own.
 */
#include "check_f32.h"

#include <math.h>
#include <string.h>

void f32_expect(f32_check *c, bool ok, const char *claim, size_t a, size_t b, size_t d) {
    check_that(ok, "%s: %s (%zu, %zu, %zu)", c->k->isa, claim, a, b, d);
    c->failures += !ok;
}

float *f32_uniform(f32_check *c, size_t n) {
    float *x = check_alloc((n + 1) * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = check_uniform(&c->random);
    return x;
}

bool f32_close(const float *got, const float *want, size_t n, double tolerance) {
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance * largest))
            return false;
    return true;
}

bool f32_same_bits(const float *a, const float *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) == 0;
}

static void check_gemm(f32_check *c, size_t m, size_t n, size_t n_k, size_t layout, float beta) {
    const size_t strides[][2] = {{n_k + 3, 1}, {1, m + 2}, {2, 2 * m + 1}}; /* A as rows, as columns, scattered */
    size_t a_row = strides[layout][0], a_k = strides[layout][1], ldb = n + 16, ldc = n + 5;
    float *a = f32_uniform(c, 2 * (m + 2) * (n_k + 3)), *b = f32_uniform(c, n_k * ldb);
    float *got = f32_uniform(c, m * ldc), *want = check_alloc(m * ldc * sizeof *want);
    float *alone = check_alloc(m * ldc * sizeof *alone);

    if (beta == 0)
        got[0] = NAN;
    memcpy(want, got, m * ldc * sizeof *want);
    memcpy(alone, got, m * ldc * sizeof *alone);
    c->k->gemm_f32(m, n, n_k, a, a_row, a_k, b, ldb, got, ldc, beta);
    c->reference->gemm_f32(m, n, n_k, a, a_row, a_k, b, ldb, want, ldc, beta);
    f32_expect(c, f32_close(got, want, m * ldc, 1e-6), "gemm_f32 equals the reference", m, n, n_k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j += 16)
            c->k->gemm_f32(1, 16, n_k, a + i * a_row, a_row, a_k, b + j, ldb, alone + i * ldc + j, ldc, beta);
    f32_expect(c, f32_same_bits(got, alone, m * ldc), "gemm_f32 computes an element the same in every tile", m, n, n_k);
    check_free(a);
    check_free(b);
    check_free(got);
    check_free(want);
    check_free(alone);
}

static void check_products(f32_check *c) {
    static const size_t depths[] = {1, 2, 3, 4, 7, 16, 33, 64, 128, 256};
    static const float betas[] = {0, 1, 0.37f};

    for (size_t m = 1; m <= 20; m++)
        for (size_t n = 16; n <= 80; n += 16)
            check_gemm(c, m, n, depths[(m + n / 16) % 10], (m + n / 16) % 3, betas[(m + n) % 3]);
    for (size_t i = 0; i < 10; i++)
        for (size_t layout = 0; layout < 3; layout++)
            check_gemm(c, 37, 48, depths[i], layout, betas[i % 3]);
    for (size_t n = 0; n <= 130; n++) {
        float *a = f32_uniform(c, n), *b = f32_uniform(c, n);
        double want = (double)c->reference->dot_f32(a, b, n);

        f32_expect(c, fabs((double)c->k->dot_f32(a, b, n) - want) <= 1e-6 * (1 + (double)n),
                   "dot_f32 equals the reference", n, 0, 0);
        check_free(a);
        check_free(b);
    }
}

static void check_norms(f32_check *c) {
    for (size_t n = 1; n <= 1024; n += n < 70 ? 1 : 159) {
        float *x = f32_uniform(c, n), *weight = f32_uniform(c, n);
        float *got = check_alloc(n * sizeof *got), *want = check_alloc(n * sizeof *want);

        c->k->rms_norm(x, weight, 1e-6f, n, got);
        c->reference->rms_norm(x, weight, 1e-6f, n, want);
        f32_expect(c, f32_close(got, want, n, 1e-6), "rms_norm equals the reference", n, 0, 0);
        memcpy(want, x, n * sizeof *want);
        c->k->rms_norm(want, weight, 1e-6f, n, want);
        f32_expect(c, f32_same_bits(got, want, n), "rms_norm works in place", n, 0, 0);
        memcpy(got, x, n * sizeof *got);
        memcpy(want, x, n * sizeof *want);
        c->k->l2_norm(got, n, 1e-6f, 0.125f);
        c->reference->l2_norm(want, n, 1e-6f, 0.125f);
        f32_expect(c, f32_close(got, want, n, 1e-6), "l2_norm equals the reference", n, 0, 0);
        memcpy(got, x, n * sizeof *got);
        c->k->add(weight, n, got);
        for (size_t i = 0; i < n; i++)
            want[i] = x[i] + weight[i];
        f32_expect(c, f32_same_bits(got, want, n), "add is the sum", n, 0, 0);
        check_free(x);
        check_free(weight);
        check_free(got);
        check_free(want);
    }
}

static bool relatively_close(float got, double want) {
    return fabs(got - want) <= 5e-7 * fabs(want) + 2e-36; /* near silu(-87) all is 0 */
}

static void check_gates(f32_check *c) {
    static const float extremes[] = {0, -0.0f, 87, -87, 88.8f, -88.8f, 104, -104, 1e4f, -1e4f, 3.4e38f, -3.4e38f};
    enum { N = 4001, N_EXTREMES = sizeof extremes / sizeof *extremes };
    float *gate = check_alloc(N * sizeof *gate), *up = f32_uniform(c, N);
    float *silu = check_alloc(N * sizeof *silu), *sigmoid = check_alloc(N * sizeof *sigmoid);
    float tail[2][40];

    for (size_t i = 0; i < N; i++)
        gate[i] = i < N_EXTREMES ? extremes[i] : 86 * check_uniform(&c->random);
    c->k->silu_mul(gate, up, N, silu);
    c->k->sigmoid_mul(gate, up, N, sigmoid);
    for (size_t i = 0; i < N; i++) {
        double s = 1 / (1 + exp(-(double)gate[i]));

        f32_expect(c, relatively_close(silu[i], gate[i] * s * up[i]), "silu_mul is gate sigmoid(gate) up", i, 0, 0);
        f32_expect(c, relatively_close(sigmoid[i], s * up[i]), "sigmoid_mul is sigmoid(gate) x", i, 0, 0);
    }
    for (size_t n = 1; n <= 40; n++) {
        memcpy(tail[0], gate, sizeof tail[0]);
        memcpy(tail[1], up, sizeof tail[1]);
        c->k->silu_mul(tail[0], tail[1], n, tail[0]);
        f32_expect(c, f32_same_bits(tail[0], silu, n), "silu_mul of a short row equals a long row's", n, 0, 0);
        f32_expect(c, f32_same_bits(tail[0] + n, gate + n, 40 - n), "silu_mul writes n values", n, 0, 0);
        c->k->sigmoid_mul(gate, tail[1], n, tail[1]);
        f32_expect(c, f32_same_bits(tail[1], sigmoid, n), "sigmoid_mul of a short row equals a long row's", n, 0, 0);
    }
    gate[5] = NAN;
    c->k->silu_mul(gate, up, 32, silu);
    c->k->sigmoid_mul(gate, up, 32, sigmoid);
    f32_expect(c, isnan(silu[5]) && isnan(sigmoid[5]), "a gate that is NaN gives NaN", 5, 0, 0);
    check_free(gate);
    check_free(up);
    check_free(silu);
    check_free(sigmoid);
}

static void check_convolution(f32_check *c) {
    for (size_t n = 1; n <= 70; n += n < 40 ? 3 : 10)
        for (size_t n_tokens = 1; n_tokens <= 9; n_tokens += 2) {
            size_t ld = n + 7, ld_y = n + 2;
            float *u = f32_uniform(c, (n_tokens + QW_CONV - 1) * ld), *w = f32_uniform(c, n * QW_CONV);
            float *got = check_alloc(n_tokens * ld_y * sizeof *got),
                  *want = check_alloc(n_tokens * ld_y * sizeof *want);

            c->k->conv_silu(u, ld, w, n, n_tokens, got, ld_y);
            c->reference->conv_silu(u, ld, w, n, n_tokens, want, ld_y);
            f32_expect(c, f32_close(got, want, n_tokens * ld_y, 2e-6), "conv_silu equals the reference", n, n_tokens,
                       0);
            for (size_t t = 0; t < n_tokens; t++)
                c->k->conv_silu(u + t * ld, ld, w, n, 1, want + t * ld_y, ld_y);
            f32_expect(c, f32_same_bits(got, want, n_tokens * ld_y), "conv_silu computes each token alone", n, n_tokens,
                       0);
            check_free(u);
            check_free(w);
            check_free(got);
            check_free(want);
        }
}

/* IEEE half by arithmetic: the quantum of x's binade, rounded to even. */
static double nearest_half(double x) {
    int e;
    double quantum, y;

    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &e);
    quantum = ldexp(1, (e < -13 ? -13 : e) - 11);
    y = nearbyint(x / quantum) * quantum;
    return fabs(y) > 65504 ? copysign(INFINITY, x) : y;
}

static void check_halves(f32_check *c) {
    enum { N = 65536 };
    uint16_t *half = check_alloc(N * sizeof *half);
    float *x = check_alloc(N * sizeof *x), *back = check_alloc(N * sizeof *back);

    for (size_t i = 0; i < N; i++)
        half[i] = (uint16_t)i;
    c->k->f16_to_f32(half, N, x);
    for (size_t i = 0; i < N; i++) {
        int e = i >> 10 & 31, f = i & 1023;
        double magnitude = e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
        double want = copysign(e < 31 ? magnitude : f ? (double)NAN : (double)INFINITY, i >> 15 ? -1.0 : 1.0);

        f32_expect(c, isnan(want) ? isnan(x[i]) : x[i] == want && !signbit(x[i]) == !signbit(want),
                   "f16_to_f32 is exact", i, 0, 0);
    }
    for (size_t i = 0; i < N; i++) {
        uint32_t bits = check_bits(&c->random);

        if (i % 8) /* around what a half can hold, 2^-26 to 2^17; the rest is any float */
            bits = (bits & 0x807fffff) | (uint32_t)(127 - 26 + check_below(&c->random, 44)) << 23;
        if (i % 4 == 3)
            bits &= 0xfffff000; /* halfway between two halves, often */
        memcpy(&x[i], &bits, sizeof x[i]);
    }
    c->k->f32_to_f16(x, N, half);
    c->k->f16_to_f32(half, N, back);
    for (size_t i = 0; i < N; i++)
        f32_expect(c, isnan(x[i]) ? isnan(back[i]) : back[i] == nearest_half((double)x[i]), "f32_to_f16 rounds to even",
                   i, 0, 0);
    for (size_t n = 1; n <= 40; n++) {
        uint16_t tail[41] = {0};

        c->k->f32_to_f16(x, n, tail);
        f32_expect(c, !memcmp(tail, half, n * sizeof *tail) && tail[n] == 0, "f32_to_f16 writes n values", n, 0, 0);
    }
    check_free(half);
    check_free(x);
    check_free(back);
}

int check_f32(const qw_kernels *k, const qw_kernels *reference) {
    f32_check c = {k, reference, {20}, 0};

    check_products(&c);
    check_norms(&c);
    check_gates(&c);
    check_convolution(&c);
    check_halves(&c);
    check_delta(&c);
    check_attention(&c);
    return c.failures;
}
