/* A timeline of tokens: its recurrent state, and its attention rows in shared pages. */
#ifndef QW_SESSION_H
#define QW_SESSION_H

#include <stdatomic.h>

#include "model.h"

/*
 * Attention rows of QW_KEY_TILE tokens, all layers: per attention layer and KV head the keys transposed
 * [head_dim][64] and then the values [64][head_dim].  Zero where nothing was written.  A page with more than one
 * owner is never written.
 */
typedef struct qw_page {
    _Alignas(64) atomic_size_t n_owners;
    size_t n_bytes;
    _Alignas(64) uint8_t rows[];
} qw_page;

struct qw_session {
    qw_model *model;
    size_t n_context;
    size_t position;
    size_t n_pages; /* pages held; those past the position hold nothing that is read */
    qw_page **pages;
    float *state;
    qw_counters counters;
};

struct qw_snapshot {
    qw_model *model;
    size_t position;
    size_t n_pages;
    qw_page **pages;
    float *state;
};

/* A snapshot of position, its state still to be written and its pages to be shared.  NULL: the error is set. */
qw_snapshot *qw_snapshot_create(const qw_model *m, size_t position);
void qw_snapshot_share_pages(qw_snapshot *snap, const qw_session *s);

/* Make every page that tokens [position, position + n) write to exist and have this session as its only owner. */
qw_status qw_session_own_pages(qw_session *s, size_t n_tokens);

/* Keys of one KV head in a page; its values follow after head_dim * QW_KEY_TILE elements. */
static inline uint8_t *qw_page_keys(const qw_model *m, qw_page *page, size_t attention_index, size_t kv_head) {
    size_t head_bytes = 2 * m->config.head_dim * QW_KEY_TILE * m->kv_element_bytes;
    return page->rows + (attention_index * m->config.n_kv_heads + kv_head) * head_bytes;
}

#endif
