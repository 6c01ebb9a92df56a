/*
 * The gated delta rule for a chunk of up to 16 tokens at once, as matrix products.
 *
 * With L_ij the sum of log decays of tokens j + 1 .. i, g_i that of tokens 0 .. i, and S the incoming state:
 *
 *     u_i = beta_i (v_i - e^g_i S' k_i - sum over j < i of e^L_ij (k_i . k_j) u_j)      forward substitution
 *     o_i = e^g_i S' q_i + sum over j <= i of e^L_ij (q_i . k_j) u_j
 *     S   = e^g_last S + sum over j of k_j (e^L_last,j u_j)'
 *
 * L is summed directly, never as g_i - g_j, so a strong decay early in the chunk costs later tokens no
 * precision, and no exponent is positive.  Columns of S, v and o are independent and go by panels that stay
 * in the L1 cache; tokens past n_tokens are zeros, which changes no result.
 */
#ifndef QW_F32_DELTA_CHUNK_H
#define QW_F32_DELTA_CHUNK_H

#include <math.h>

#include "f32_gemm.h"

enum { DELTA_PANEL = 32, DELTA_MAX_K = 256 };

typedef struct chunk_factors {
    float decay[QW_CHUNK];            /* e^g_i */
    float remaining[QW_CHUNK];        /* e^L_last,j */
    float kk[QW_CHUNK][QW_CHUNK];     /* [j][i]: -beta_i e^L_ij (k_i . k_j) for j < i, else 0 */
    float qk[QW_CHUNK][QW_CHUNK];     /* [i][j]: e^L_ij (q_i . k_j) for j <= i, else 0 */
} chunk_factors __attribute__((aligned(64)));

/* a[i] = e^a[i] for a chunk's 16 values. */
QW_INLINE void chunk_exp(float *a) {
    for (size_t i = 0; i < QW_CHUNK; i += QW_VL)
        vf_store(a + i, vf_exp(vf_load(a + i)));
}

static void chunk_prepare(const qw_delta_block *d, chunk_factors *f) {
    float kt[DELTA_MAX_K * QW_CHUNK] __attribute__((aligned(64)));
    float gram[QW_CHUNK * QW_CHUNK] __attribute__((aligned(64))) = {0};
    float sums[QW_CHUNK], weight[QW_CHUNK] __attribute__((aligned(64)));
    float total = 0;

    memset(f, 0, sizeof *f);
    for (size_t k = 0; k < d->n_k; k++)
        for (size_t j = 0; j < QW_CHUNK; j++)
            kt[k * QW_CHUNK + j] = j < d->n_tokens ? d->k[j * d->ld_qk + k] : 0;
    QW_NAME(gemm_f32)(d->n_tokens, QW_CHUNK, d->n_k, d->k, d->ld_qk, 1, kt, QW_CHUNK, gram, QW_CHUNK, 0);
    QW_NAME(gemm_f32)(d->n_tokens, QW_CHUNK, d->n_k, d->q, d->ld_qk, 1, kt, QW_CHUNK, f->qk[0], QW_CHUNK, 0);

    for (size_t j = 0; j < QW_CHUNK; j++)
        sums[j] = -INFINITY; /* tokens that have not come weigh e^-inf = 0 */
    for (size_t i = 0; i < d->n_tokens; i++) {
        total += d->log_decay[i];
        f->decay[i] = total;
        for (size_t j = 0; j < QW_CHUNK; j++)
            sums[j] += d->log_decay[i];
        sums[i] = 0;
        memcpy(weight, sums, sizeof weight);
        chunk_exp(weight);
        for (size_t j = 0; j < QW_CHUNK; j++)
            f->qk[i][j] *= weight[j];
        for (size_t j = 0; j < i; j++)
            f->kk[j][i] = -d->beta[i] * (weight[j] * gram[i * QW_CHUNK + j]);
    }
    memcpy(f->remaining, weight, sizeof weight);
    chunk_exp(f->decay);
}

/* One vector of columns: held[i] = S' k_i on entry, u_i on return; o[i] = S' q_i is decayed. */
QW_INLINE void chunk_solve(const qw_delta_block *d, const chunk_factors *f, size_t col, float *held) {
    vf u[QW_CHUNK] = {{0}};

    for (size_t i = 0; i < d->n_tokens; i++) {
        float *o = d->o + i * d->ld_o + col;

        vf_store(o, vf_load(o) * f->decay[i]);
        vf_store(held + i * DELTA_PANEL, d->beta[i] * vf_fma(vf_splat(-f->decay[i]), vf_load(held + i * DELTA_PANEL),
                                                             vf_load(d->v + i * d->ld_v + col)));
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < QW_CHUNK; i++)
        u[i] = vf_load(held + i * DELTA_PANEL);
#pragma GCC unroll 16
    for (size_t j = 0; j < QW_CHUNK; j++) {
#pragma GCC unroll 16
        for (size_t i = 0; i < QW_CHUNK; i++)
            if (i > j)
                u[i] = vf_fma(vf_splat(f->kk[j][i]), u[j], u[i]);
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < QW_CHUNK; i++)
        vf_store(held + i * DELTA_PANEL, u[i]);
}

void QW_NAME(delta_chunk)(const qw_delta_block *d) {
    float u[QW_CHUNK * DELTA_PANEL] __attribute__((aligned(64))) = {0};
    chunk_factors f;
    size_t n = d->n_tokens;

    chunk_prepare(d, &f);
    for (size_t col = 0; col < d->n_v; col += DELTA_PANEL) {
        size_t width = d->n_v - col < DELTA_PANEL ? d->n_v - col : DELTA_PANEL;
        float *s = d->state + col, *o = d->o + col;

        QW_NAME(gemm_f32)(n, width, d->n_k, d->k, d->ld_qk, 1, s, d->ld_state, u, DELTA_PANEL, 0);
        QW_NAME(gemm_f32)(n, width, d->n_k, d->q, d->ld_qk, 1, s, d->ld_state, o, d->ld_o, 0);
        for (size_t x = 0; x < width; x += QW_VL)
            chunk_solve(d, &f, col + x, u + x);
        QW_NAME(gemm_f32)(n, width, n, f.qk[0], QW_CHUNK, 1, u, DELTA_PANEL, o, d->ld_o, 1);
        for (size_t j = 0; j < n; j++)
            for (size_t x = 0; x < width; x += QW_VL) {
                float *p = u + j * DELTA_PANEL + x;

                vf_store(p, vf_load(p) * f.remaining[j]);
            }
        QW_NAME(gemm_f32)(d->n_k, width, n, d->k, 1, d->ld_qk, u, DELTA_PANEL, s, d->ld_state, f.decay[n - 1]);
    }
}

#endif
