/*
 * The gated delta rule, token by token.  With S the state before the token and e its decay,
 *
 *     u = beta (v - e S' k)        o = e S' q + (k . q) u        S = e S + k u'
 *
 * so both products read the same S, and one sweep over the state can write a token's update and form the
 * next one's products.
 */
#ifndef QW_F32_DELTA_STEP_H
#define QW_F32_DELTA_STEP_H

#include "f32_norm.h"

enum { STEP_VECS = QW_VL == 4 ? 8 : 4 }; /* vectors of columns a sweep holds in registers */

typedef struct step_update {
    float decay;
    const float *k;
    vf u[STEP_VECS];
} step_update;

typedef struct step_products {
    vf k[STEP_VECS], q[STEP_VECS];
} step_products;

/* Over n_vecs vectors of columns: the update, if there is one; then the products, if there is a k. */
QW_INLINE void sweep(float *state, const qw_delta_block *d, size_t n_vecs, const step_update *update, const float *k,
                     const float *q, step_products *out) {
    step_products sum = {{{0}}, {{0}}};
    step_update last = update ? *update : (step_update){0};

    for (size_t i = 0; i < d->n_k; i++, state += d->ld_state) {
        vf k_last = vf_splat(update ? last.k[i] : 0), k_i = vf_splat(k ? k[i] : 0), q_i = vf_splat(k ? q[i] : 0);

#pragma GCC unroll 8
        for (size_t x = 0; x < n_vecs; x++) {
            vf s = vf_load(state + x * QW_VL);

            if (update) {
                s = vf_fma(k_last, last.u[x], s * last.decay);
                vf_store(state + x * QW_VL, s);
            }
            if (k) {
                sum.k[x] = vf_fma(k_i, s, sum.k[x]);
                sum.q[x] = vf_fma(q_i, s, sum.q[x]);
            }
        }
    }
    *out = sum;
}

QW_INLINE void step_columns(const qw_delta_block *d, size_t col, size_t n_vecs, const float *decay, const float *kq) {
    float *state = d->state + col;
    step_update update;
    step_products products;

    sweep(state, d, n_vecs, NULL, d->k, d->q, &products);
    for (size_t t = 0; t < d->n_tokens; t++) {
        const float *v = d->v + t * d->ld_v + col;
        const float *k = d->k + t * d->ld_qk, *q = d->q + t * d->ld_qk;
        float *o = d->o + t * d->ld_o + col;

        update.decay = decay[t];
        update.k = k;
        for (size_t x = 0; x < n_vecs; x++) {
            update.u[x] = d->beta[t] * vf_fma(vf_splat(-decay[t]), products.k[x], vf_load(v + x * QW_VL));
            vf_store(o + x * QW_VL, vf_fma(vf_splat(kq[t]), update.u[x], decay[t] * products.q[x]));
        }
        if (t + 1 < d->n_tokens)
            sweep(state, d, n_vecs, &update, k + d->ld_qk, q + d->ld_qk, &products);
        else
            sweep(state, d, n_vecs, &update, NULL, NULL, &products);
    }
}

void QW_NAME(delta_step)(const qw_delta_block *d) {
    float decay[QW_CHUNK], kq[QW_CHUNK];
    size_t col = 0;

    for (size_t t = 0; t < d->n_tokens; t++) {
        decay[t] = vf_exp(vf_splat(d->log_decay[t]))[0];
        kq[t] = dot(d->k + t * d->ld_qk, d->q + t * d->ld_qk, d->n_k);
    }
    for (; col + STEP_VECS * QW_VL <= d->n_v; col += STEP_VECS * QW_VL)
        step_columns(d, col, STEP_VECS, decay, kq);
    for (; col < d->n_v; col += QW_VL)
        step_columns(d, col, 1, decay, kq);
}

#endif
