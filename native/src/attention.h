/* What the two halves of the attention mixer share: rows come from attention.c, their softmax is in softmax.c. */
#ifndef QW_ATTENTION_H
#define QW_ATTENTION_H

#include "forward.h"

/* Work for the rows [first, n_rows) of one evaluation in one layer. */
typedef struct qw_attention_job {
    const qw_eval *e;
    const qw_layer *l;
    size_t first;
} qw_attention_job;

typedef struct qw_attention_shape {
    size_t n_heads, n_kv_heads, head_dim, group; /* group: query heads per KV head */
    size_t q_width, kv_width;                    /* floats of a row of [q|gate], and of a row of k or v */
} qw_attention_shape;

static inline qw_attention_shape qw_attention_shape_of(const qw_model *m) {
    const qw_config *c = &m->config;
    return (qw_attention_shape){c->n_heads,
                                c->n_kv_heads,
                                c->head_dim,
                                c->n_heads / c->n_kv_heads,
                                2 * (size_t)c->n_heads * c->head_dim,
                                (size_t)c->n_kv_heads * c->head_dim};
}

/*
 * work.o[row] = softmax(q k) v for each row and head: q, normed, rotated and scaled, in work.u; keys and values in the
 * session's pages.
 */
void qw_softmax_attention(qw_attention_job *job);

#endif
