/* Sessions and snapshots: who owns which state and which attention pages. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "memory.h"

/* --- pages --- */

static size_t pages_for(size_t n_tokens) {
    return (n_tokens + QW_KEY_TILE - 1) / QW_KEY_TILE;
}

static qw_page *page_create(const qw_model *m) {
    qw_page *page = qw_big_alloc(sizeof(qw_page) + m->page_bytes);
    if (!page)
        return NULL;
    page->n_bytes = sizeof(qw_page) + m->page_bytes;
    atomic_init(&page->n_owners, 1);
    return page;
}

static qw_page *page_share(qw_page *page) {
    atomic_fetch_add(&page->n_owners, 1);
    return page;
}

static void page_release(qw_page *page) {
    if (atomic_fetch_sub(&page->n_owners, 1) == 1)
        qw_big_free(page, page->n_bytes);
}

static void release_all(qw_page **pages, size_t n) {
    for (size_t i = 0; i < n; i++)
        page_release(pages[i]);
}

qw_status qw_session_own_pages(qw_session *s, size_t n_tokens) {
    size_t first = s->position / QW_KEY_TILE, end = pages_for(s->position + n_tokens);
    for (size_t i = first; i < end; i++) {
        bool exists = i < s->n_pages;
        if (exists && atomic_load(&s->pages[i]->n_owners) == 1)
            continue;
        qw_page *page = page_create(s->model);
        if (!page)
            return qw_fail(QW_ERR_MEMORY, "no memory for the attention rows of tokens %zu to %zu", i * QW_KEY_TILE,
                           (i + 1) * QW_KEY_TILE - 1);
        if (exists) {
            memcpy(page->rows, s->pages[i]->rows, s->model->page_bytes);
            page_release(s->pages[i]);
        } else {
            s->n_pages = i + 1;
        }
        s->pages[i] = page;
    }
    return QW_OK;
}

/* --- sessions --- */

qw_status qw_session_create(qw_session **out, const qw_model *m, size_t n_context) {
    if (n_context == 0)
        return qw_fail(QW_ERR_ARGUMENT, "n_context is 0, expected at least 1");
    qw_session *s = calloc(1, sizeof *s);
    float *state = qw_big_alloc(qw_model_state_bytes(m));
    qw_page **pages = calloc(pages_for(n_context), sizeof *pages);
    if (!s || !state || !pages) {
        free(s);
        qw_big_free(state, qw_model_state_bytes(m));
        free(pages);
        return qw_fail(QW_ERR_MEMORY, "no memory for a session of %zu tokens", n_context);
    }
    *s = (qw_session){.model = qw_model_share(m), .n_context = n_context, .pages = pages, .state = state};
    *out = s;
    return QW_OK;
}

void qw_session_free(qw_session *s) {
    if (!s)
        return;
    release_all(s->pages, s->n_pages);
    free(s->pages);
    qw_big_free(s->state, qw_model_state_bytes(s->model));
    qw_model_free(s->model);
    free(s);
}

size_t qw_session_position(const qw_session *s) {
    return s->position;
}

void qw_session_reset(qw_session *s) {
    release_all(s->pages, s->n_pages);
    s->n_pages = 0;
    s->position = 0;
    memset(s->state, 0, s->model->state_floats * sizeof *s->state);
}

void qw_session_counters(const qw_session *s, qw_counters *out) {
    *out = s->counters;
}

/* --- snapshots --- */

qw_snapshot *qw_snapshot_create(const qw_model *m, size_t position) {
    qw_snapshot *snap = calloc(1, sizeof *snap);
    float *state = qw_big_alloc(qw_model_state_bytes(m));
    qw_page **pages = calloc(pages_for(position) + 1, sizeof *pages);
    if (!snap || !state || !pages) {
        free(snap);
        qw_big_free(state, qw_model_state_bytes(m));
        free(pages);
        qw_fail(QW_ERR_MEMORY, "no memory for a snapshot at token %zu", position);
        return NULL;
    }
    *snap = (qw_snapshot){.model = qw_model_share(m), .position = position, .pages = pages, .state = state};
    return snap;
}

void qw_snapshot_share_pages(qw_snapshot *snap, const qw_session *s) {
    snap->n_pages = pages_for(snap->position);
    for (size_t i = 0; i < snap->n_pages; i++)
        snap->pages[i] = page_share(s->pages[i]);
}

void qw_snapshot_free(qw_snapshot *snap) {
    if (!snap)
        return;
    release_all(snap->pages, snap->n_pages);
    free(snap->pages);
    qw_big_free(snap->state, qw_model_state_bytes(snap->model));
    qw_model_free(snap->model);
    free(snap);
}

qw_status qw_session_save(const qw_session *s, qw_snapshot **out) {
    qw_snapshot *snap = qw_snapshot_create(s->model, s->position);
    if (!snap)
        return QW_ERR_MEMORY;
    memcpy(snap->state, s->state, s->model->state_floats * sizeof *s->state);
    qw_snapshot_share_pages(snap, s);
    *out = snap;
    return QW_OK;
}

qw_status qw_session_load(qw_session *s, const qw_snapshot *snap) {
    if (snap->model != s->model)
        return qw_fail(QW_ERR_ARGUMENT, "the snapshot belongs to another model");
    if (snap->position > s->n_context)
        return qw_fail(QW_ERR_CONTEXT, "the snapshot is at token %zu, the context holds %zu", snap->position,
                       s->n_context);
    for (size_t i = 0; i < snap->n_pages; i++)
        page_share(snap->pages[i]);
    release_all(s->pages, s->n_pages);
    memcpy(s->pages, snap->pages, snap->n_pages * sizeof *s->pages);
    s->n_pages = snap->n_pages;
    memcpy(s->state, snap->state, s->model->state_floats * sizeof *s->state);
    s->position = snap->position;
    return QW_OK;
}

size_t qw_snapshot_position(const qw_snapshot *snap) {
    return snap->position;
}

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)*(qw_page *const *)a, y = (uintptr_t)*(qw_page *const *)b;
    return (x > y) - (x < y);
}

size_t qw_snapshots_bytes(const qw_snapshot *const *snapshots, size_t n) {
    size_t bytes = 0, n_pages = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += sizeof(qw_snapshot) + snapshots[i]->model->state_floats * sizeof(float);
        n_pages += snapshots[i]->n_pages;
    }
    if (n_pages == 0)
        return bytes;
    size_t page_bytes = sizeof(qw_page) + snapshots[0]->model->page_bytes;
    qw_page **all = malloc(n_pages * sizeof *all);
    if (!all) /* count every page as if none were shared: never too little */
        return bytes + n_pages * page_bytes;
    n_pages = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(all + n_pages, snapshots[i]->pages, snapshots[i]->n_pages * sizeof *all);
        n_pages += snapshots[i]->n_pages;
    }
    qsort(all, n_pages, sizeof *all, by_address);
    for (size_t i = 0; i < n_pages; i++)
        if (i == 0 || all[i] != all[i - 1])
            bytes += page_bytes;
    free(all);
    return bytes;
}

/* --- snapshots as bytes: state, then the rows of each token, [layer][kv head][key, value] --- */

size_t qw_snapshot_export_bytes(const qw_snapshot *snap) {
    return qw_model_state_bytes(snap->model) + snap->position * qw_model_kv_token_bytes(snap->model);
}

/* Copy the rows of one token between its page and the flat buffer. */
static uint8_t *copy_token(const qw_model *m, qw_page *page, size_t slot, uint8_t *flat, bool to_page) {
    size_t e = m->kv_element_bytes, d = m->config.head_dim;
    for (size_t i = 0; i < m->n_attention * m->config.n_kv_heads; i++) {
        uint8_t *keys = qw_page_keys(m, page, 0, i);
        for (size_t j = 0; j < d; j++, flat += e) {
            uint8_t *key = keys + (j * QW_KEY_TILE + slot) * e;
            memcpy(to_page ? key : flat, to_page ? flat : key, e);
        }
        uint8_t *value = keys + (d * QW_KEY_TILE + slot * d) * e;
        memcpy(to_page ? value : flat, to_page ? flat : value, d * e);
        flat += d * e;
    }
    return flat;
}

void qw_snapshot_export(const qw_snapshot *snap, void *buffer) {
    uint8_t *flat = buffer;
    memcpy(flat, snap->state, qw_model_state_bytes(snap->model));
    flat += qw_model_state_bytes(snap->model);
    for (size_t t = 0; t < snap->position; t++)
        flat = copy_token(snap->model, snap->pages[t / QW_KEY_TILE], t % QW_KEY_TILE, flat, false);
}

qw_status qw_snapshot_import(qw_snapshot **out, const qw_model *m, size_t position, const void *buffer,
                             size_t n_bytes) {
    size_t token_bytes = qw_model_kv_token_bytes(m), state_bytes = qw_model_state_bytes(m);
    if (n_bytes < state_bytes || (token_bytes && (n_bytes - state_bytes) / token_bytes != position) ||
        n_bytes != state_bytes + position * token_bytes)
        return qw_fail(QW_ERR_ARGUMENT, "a snapshot at token %zu has %zu bytes, expected %zu", position, n_bytes,
                       state_bytes + position * token_bytes);
    qw_snapshot *snap = qw_snapshot_create(m, position);
    if (!snap)
        return QW_ERR_MEMORY;
    memcpy(snap->state, buffer, state_bytes);
    for (size_t i = 0; i < pages_for(position); i++) {
        if (!(snap->pages[i] = page_create(m))) {
            qw_snapshot_free(snap);
            return qw_fail(QW_ERR_MEMORY, "no memory for a snapshot at token %zu", position);
        }
        snap->n_pages = i + 1;
    }
    uint8_t *flat = (uint8_t *)buffer + state_bytes; /* read only: to_page copies out of it */
    for (size_t t = 0; t < position; t++)
        flat = copy_token(m, snap->pages[t / QW_KEY_TILE], t % QW_KEY_TILE, flat, true);
    *out = snap;
    return QW_OK;
}
