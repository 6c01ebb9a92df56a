/*
 * Every allocation and every thread of the engine is refused once: an error in words, nothing leaked, and the next
 * try works as if nothing had happened.
 *
 * Linked with -Wl,--wrap for what takes and returns memory.  Each step is repeated with its first, second, ...
 * allocation refused, until it passes with none refused.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "any_model.h"

static atomic_long allowed = -1; /* allocations until one is refused; below 0: none is */
static atomic_long n_blocks, n_mapped_bytes;

static bool refused(void) {
    return atomic_load(&allowed) >= 0 && atomic_fetch_sub(&allowed, 1) == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__real_mmap(void *at, size_t n, int access, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t n);
void __real_free(void *p);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument);

static void *counted(void *p) {
    atomic_fetch_add(&n_blocks, p != NULL);
    return p;
}

void *__wrap_malloc(size_t n) {
    return refused() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return refused() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t n) {
    return refused() ? NULL : counted(__real_aligned_alloc(alignment, n));
}

void __wrap_free(void *p) {
    atomic_fetch_sub(&n_blocks, p != NULL);
    __real_free(p);
}

void *__wrap_mmap(void *at, size_t n, int access, int flags, int fd, off_t offset) {
    if (refused()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    atomic_fetch_add(&n_mapped_bytes, (long)n);
    return __real_mmap(at, n, access, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t n) {
    atomic_fetch_sub(&n_mapped_bytes, (long)n);
    return __real_munmap(at, n);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    return refused() ? EAGAIN : __real_pthread_create(thread, how, run, argument);
}

static void require(bool holds, const char *step, long nth, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "refuse_memory: %s, allocation %ld: %s (%s)\n", step, nth, what, qw_last_error());
    exit(1);
}

/* What the steps work on. */
typedef struct {
    qw_config config;
    const any_model *tensors;
    qw_model *model;
    qw_session *session;
    qw_snapshot *saved, *imported, *marked[2];
    uint8_t *bytes;
    float *logits;
} state;

static qw_status create_model(state *s) {
    return qw_model_create(&s->model, &s->config, s->tensors->tensors, s->tensors->n_tensors);
}

static qw_status create_session(state *s) {
    return qw_session_create(&s->session, s->model, 400);
}

static qw_status eval(state *s, qw_phase phase, size_t n_tokens, size_t n_marks) {
    int32_t tokens[300];
    size_t marks[2] = {70, 150};
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (int32_t)(i * 7 % s->config.n_vocab);
    qw_batch batch = {.tokens = tokens,
                      .n_tokens = n_tokens,
                      .phase = phase,
                      .logits = s->logits,
                      .n_logits = 1,
                      .marks = marks,
                      .n_marks = n_marks,
                      .snapshots = s->marked};
    size_t before = qw_session_position(s->session);
    qw_status status = qw_session_eval(s->session, &batch);
    require(status == QW_OK || qw_session_position(s->session) == before, "eval", 0, "the position has moved");
    return status;
}

static qw_status prefill(state *s) {
    return eval(s, QW_PREFILL, 200, 2);
}

static qw_status decode(state *s) {
    return eval(s, QW_DECODE, 70, 0);
}

static qw_status save(state *s) {
    return qw_session_save(s->session, &s->saved);
}

static qw_status load(state *s) {
    return qw_session_load(s->session, s->marked[1]);
}

static qw_status import(state *s) {
    return qw_snapshot_import(&s->imported, s->model, qw_snapshot_position(s->saved), s->bytes,
                              qw_snapshot_export_bytes(s->saved));
}

/* Counting shared pages needs memory too; without it the count is too high, never too low. */
static void count(const state *s, bool refuse) {
    const qw_snapshot *both[] = {s->marked[0], s->marked[1]};
    atomic_store(&allowed, refuse ? 0 : -1);
    size_t n_bytes = qw_snapshots_bytes(both, 2);
    atomic_store(&allowed, -1);
    require(n_bytes >= qw_snapshots_bytes(both, 2), "count", 0, "too little was counted");
}

/* How many allocations were refused before the step passed.  keeps: a failed try may keep pages for the next. */
static long refuse_each(const char *name, qw_status (*step)(state *), state *s, bool keeps) {
    for (long nth = 0;; nth++) {
        long blocks = atomic_load(&n_blocks), bytes = atomic_load(&n_mapped_bytes);
        atomic_store(&allowed, nth);
        qw_status status = step(s);
        if (atomic_exchange(&allowed, -1) >= 0) {
            require(status == QW_OK, name, nth, "failed without a reason");
            return nth;
        }
        require(status == QW_ERR_MEMORY, name, nth, "a refusal went unnoticed");
        require(*qw_last_error() != 0, name, nth, "there are no words");
        if (!keeps)
            require(atomic_load(&n_blocks) == blocks && atomic_load(&n_mapped_bytes) == bytes, name, nth, "leaked");
    }
}

/* One life of a model; with `each` every allocation is refused once.  The logits at the end go to `last`. */
static long live(const any_model *tensors, bool each, float *last) {
    static const struct {
        const char *name;
        qw_status (*step)(state *);
        bool keeps;
    } steps[] = {
        {"create model", create_model, false},
        {"create session", create_session, false},
        {"prefill", prefill, true},
        {"save", save, false},
        {"decode", decode, true},
        {"load", load, false},
    };
    state s = {.config = any_config(tensors), .tensors = tensors, .logits = last};
    long n_refused = 0, blocks = atomic_load(&n_blocks), bytes = atomic_load(&n_mapped_bytes);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (each)
            n_refused += refuse_each(steps[i].name, steps[i].step, &s, steps[i].keeps);
        else
            require(steps[i].step(&s) == QW_OK, steps[i].name, 0, "failed");
    }
    count(&s, each);
    s.bytes = malloc(qw_snapshot_export_bytes(s.saved));
    require(s.bytes != NULL, "export", 0, "no memory");
    qw_snapshot_export(s.saved, s.bytes);
    if (each)
        n_refused += refuse_each("import", import, &s, false);
    else
        require(import(&s) == QW_OK, "import", 0, "failed");
    require(qw_session_load(s.session, s.imported) == QW_OK, "load", 0, "failed");
    require(decode(&s) == QW_OK, "decode at the end", 0, "failed");

    free(s.bytes);
    qw_snapshot *snapshots[] = {s.saved, s.imported, s.marked[0], s.marked[1]};
    for (size_t i = 0; i < 4; i++)
        qw_snapshot_free(snapshots[i]);
    qw_session_free(s.session);
    qw_model_free(s.model);
    require(atomic_load(&n_blocks) == blocks && atomic_load(&n_mapped_bytes) == bytes, "the end", 0, "leaked");
    return n_refused;
}

int main(void) {
    static any_model m;
    static float calm[512], shaken[512];
    /* State and workspace are above 2 MiB, so that mapped memory is refused too. */
    any_head head = any_small;
    head.n_value_heads = 8;
    head.delta_head_dim = 256;
    any_list(&m, head);
    if (!any_fill(&m)) {
        fputs("refuse_memory: the model is too large\n", stderr);
        return 1;
    }
    live(&m, false, calm);
    long n_refused = live(&m, true, shaken);
    require(memcmp(calm, shaken, sizeof calm) == 0, "the end", 0, "the answer is another one");
    any_free(&m);
    printf("refused memory: each of %ld allocations and threads once, an error each time, nothing leaked\n", n_refused);
    return 0;
}
