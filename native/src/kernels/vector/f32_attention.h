/*
 * Attention over one tile of 64 keys, by online softmax.
 *
 * A masked key's weight is exactly 0, and a key that no row of the tile sees is left out of the sum over
 * values altogether, so what lies in those rows of the page may be anything.  Keys below the greatest limit
 * are real for every row, hence finite, and 0 times their values is 0.
 */
#ifndef QW_F32_ATTENTION_H
#define QW_F32_ATTENTION_H

#include <math.h>

#include "f32_gemm.h"
#include "f32_half.h"

/* The 64 scores of row r become weights; m and l move on and o is brought to the new maximum. */
static void soften(const qw_attention_tile *t, size_t r, float *score) {
    float *o = t->o + r * t->head_dim;
    float m, shift, correction;
    vf largest = vf_splat(t->m[r]), sum = {0};

    for (size_t key = t->limit[r]; key < QW_KEY_TILE; key++)
        score[key] = -INFINITY;
    for (size_t key = 0; key < QW_KEY_TILE; key += QW_VL)
        largest = vf_max(vf_load(score + key), largest);
    m = vf_largest(largest);
    shift = m == -INFINITY ? 0 : m; /* nothing seen: e^-inf is 0, -inf - -inf would be NaN */
    for (size_t key = 0; key < QW_KEY_TILE; key += QW_VL) {
        vf weight = vf_exp(vf_load(score + key) - shift);

        vf_store(score + key, weight);
        sum += weight;
    }
    correction = vf_exp(vf_splat(t->m[r] - shift))[0];
    t->m[r] = m;
    t->l[r] = t->l[r] * correction + vf_sum(sum);
    if (correction != 1)
        for (size_t i = 0; i < t->head_dim; i += QW_VL)
            vf_store(o + i, vf_load(o + i) * correction);
}

void QW_NAME(attention_tile)(const qw_attention_tile *t) {
    float *scores = t->scratch, *half_keys = scores + QW_KEY_TILE * t->n_rows;
    float *half_values = half_keys + QW_KEY_TILE * t->head_dim;
    const float *keys = t->keys, *values = t->values;
    size_t n_keys = 0;

    for (size_t r = 0; r < t->n_rows; r++)
        n_keys = t->limit[r] > n_keys ? t->limit[r] : n_keys;
    if (t->half) {
        QW_NAME(f16_to_f32)(t->keys, QW_KEY_TILE * t->head_dim, half_keys);
        QW_NAME(f16_to_f32)(t->values, n_keys * t->head_dim, half_values);
        keys = half_keys;
        values = half_values;
    }
    QW_NAME(gemm_f32)(t->n_rows, QW_KEY_TILE, t->head_dim, t->q, t->head_dim, 1, keys, QW_KEY_TILE, scores, QW_KEY_TILE,
                      0);
    for (size_t r = 0; r < t->n_rows; r++)
        if (t->limit[r])
            soften(t, r, scores + r * QW_KEY_TILE);
        else
            memset(scores + r * QW_KEY_TILE, 0, QW_KEY_TILE * sizeof *scores);
    QW_NAME(gemm_f32)(t->n_rows, t->head_dim, n_keys, scores, QW_KEY_TILE, 1, values, t->head_dim, t->o, t->head_dim,
                      1);
}

#endif
