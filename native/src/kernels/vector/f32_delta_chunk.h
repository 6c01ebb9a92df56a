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
    float kk[QW_CHUNK][QW_CHUNK]; /* [i][j]: -beta_i e^L_ij (k_i . k_j); only j < i counts */
    float qk[QW_CHUNK][QW_CHUNK]; /* [i][j]: e^L_ij (q_i . k_j), 0 for j > i */
    float decay[QW_CHUNK];        /* e^g_i */
    float remaining[QW_CHUNK];    /* e^L_last,j */
} chunk_factors __attribute__((aligned(64)));

/* kt [n_k][16] = the keys, a column per token. */
static void chunk_transpose_keys(const qw_delta_block *d, float *kt) {
    static const float missing[DELTA_MAX_K];

    for (size_t t = 0; t < QW_CHUNK; t += 4) {
        const float *row[4];

        for (size_t r = 0; r < 4; r++)
            row[r] = t + r < d->n_tokens ? d->k + (t + r) * d->ld_qk : missing;
        for (size_t k = 0; k < d->n_k; k += 4) {
            vf4 in[4], low[2], high[2], out[4];

            for (size_t r = 0; r < 4; r++)
                memcpy(&in[r], row[r] + k, sizeof in[r]);
            for (size_t r = 0; r < 2; r++) {
                low[r] = vf4_zip_low(in[r], in[r + 2]);
                high[r] = vf4_zip_high(in[r], in[r + 2]);
            }
            out[0] = vf4_zip_low(low[0], low[1]);
            out[1] = vf4_zip_high(low[0], low[1]);
            out[2] = vf4_zip_low(high[0], high[1]);
            out[3] = vf4_zip_high(high[0], high[1]);
            for (size_t r = 0; r < 4; r++)
                memcpy(kt + (k + r) * QW_CHUNK + t, &out[r], sizeof out[r]);
        }
    }
}

/* One vector of columns j of both factors, from the bare products k_i . k_j and q_i . k_j. */
QW_INLINE void chunk_weigh(const qw_delta_block *d, size_t j, chunk_factors *f) {
    static const int32_t tokens[QW_CHUNK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vf sum = vf_splat(-INFINITY), weight = {0}; /* a token that has not come weighs e^-inf = 0 */
    vi token;

    memcpy(&token, tokens + j, sizeof token);
    for (size_t i = 0; i < d->n_tokens; i++) {
        sum = (vf)((vi)(sum + d->log_decay[i]) & (token != (int32_t)i));
        weight = vf_exp(sum);
        vf_store(f->qk[i] + j, weight * vf_load(f->qk[i] + j));
        vf_store(f->kk[i] + j, weight * vf_load(f->kk[i] + j) * -d->beta[i]);
    }
    vf_store(f->remaining + j, weight);
}

static void chunk_prepare(const qw_delta_block *d, chunk_factors *f) {
    float kt[DELTA_MAX_K * QW_CHUNK] __attribute__((aligned(64)));
    float total = 0;

    memset(f, 0, sizeof *f);
    chunk_transpose_keys(d, kt);
    QW_NAME(gemm_f32)(d->n_tokens, QW_CHUNK, d->n_k, d->k, d->ld_qk, 1, kt, QW_CHUNK, f->kk[0], QW_CHUNK, 0);
    QW_NAME(gemm_f32)(d->n_tokens, QW_CHUNK, d->n_k, d->q, d->ld_qk, 1, kt, QW_CHUNK, f->qk[0], QW_CHUNK, 0);
    for (size_t i = 0; i < d->n_tokens; i++)
        f->decay[i] = total += d->log_decay[i];
    for (size_t j = 0; j < QW_CHUNK; j += QW_VL) {
        chunk_weigh(d, j, f);
        vf_store(f->decay + j, vf_exp(vf_load(f->decay + j)));
    }
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
                u[i] = vf_fma(vf_splat(f->kk[i][j]), u[j], u[i]);
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
