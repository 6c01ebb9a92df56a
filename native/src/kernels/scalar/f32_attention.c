/* Online softmax over one key tile, row by row; keys past a row's limit are never read. */
#include <math.h>

#include "../vector/f32_table.h"

static float element(const void *x, bool half, size_t i) {
    return half ? qw_f16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

static float score(const qw_attention_tile *t, const float *q, size_t key) {
    double sum = 0;

    for (size_t i = 0; i < t->head_dim; i++)
        sum += (double)q[i] * element(t->keys, t->half, i * QW_KEY_TILE + key);
    return (float)sum;
}

static void attend(const qw_attention_tile *t, size_t row) {
    float weight[QW_KEY_TILE];
    float *o = t->o + row * t->head_dim;
    float m = t->m[row];
    double shift, correction, sum = 0;

    for (size_t key = 0; key < t->limit[row]; key++) {
        weight[key] = score(t, t->q + row * t->head_dim, key);
        m = weight[key] > m || isnan(weight[key]) ? weight[key] : m;
    }
    shift = m == -INFINITY ? 0 : (double)m;
    for (size_t key = 0; key < t->limit[row]; key++) {
        weight[key] = (float)exp((double)weight[key] - shift);
        sum += weight[key];
    }
    correction = exp((double)t->m[row] - shift);
    t->m[row] = m;
    t->l[row] = (float)(t->l[row] * correction + sum);
    for (size_t i = 0; i < t->head_dim; i++) {
        double out = o[i] * correction;

        for (size_t key = 0; key < t->limit[row]; key++)
            out += (double)weight[key] * element(t->values, t->half, key * t->head_dim + i);
        o[i] = (float)out;
    }
}

void qw_scalar_attention_tile(const qw_attention_tile *t) {
    for (size_t row = 0; row < t->n_rows; row++)
        if (t->limit[row])
            attend(t, row);
}
