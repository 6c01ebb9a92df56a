/*
 * One model, several threads with a session each, started from one snapshot: the contract of qwarm.h, for TSan.
 *
 * Every caller must get the logits that the same work gives alone, and whoever frees the model first takes nothing
 * away from the others.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any_model.h"

enum { N_CALLERS = 4, N_ROUNDS = 6, N_VOCAB = 512, CONTEXT = 300, BASE = 70 };

typedef struct {
    const qw_model *model;
    const qw_snapshot *base; /* shared: its pages are copied by the first who writes behind them */
    size_t number;
    float logits[N_ROUNDS][N_VOCAB];
} caller;

static void must(qw_status status, const char *what) {
    if (status == QW_OK)
        return;
    fprintf(stderr, "callers: %s: %s\n", what, qw_last_error());
    exit(1);
}

static void eval(qw_session *session, qw_phase phase, size_t n_tokens, size_t first, float *logits,
                 qw_snapshot **kept) {
    int32_t tokens[CONTEXT];
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (int32_t)((first + i * 7) % N_VOCAB);
    size_t mark = qw_session_position(session) + n_tokens;
    qw_batch batch = {.tokens = tokens,
                      .n_tokens = n_tokens,
                      .phase = phase,
                      .logits = logits,
                      .n_logits = 1,
                      .marks = &mark,
                      .n_marks = kept ? 1 : 0,
                      .snapshots = kept};
    must(qw_session_eval(session, &batch), "eval");
}

/* Prefill on the base, decode, go back to the base, and the same again with other tokens. */
static void *answer(void *argument) {
    caller *c = argument;
    qw_session *session;
    must(qw_session_create(&session, c->model, CONTEXT), "session");
    for (size_t round = 0; round < N_ROUNDS; round++) {
        qw_snapshot *prompt, *tip;
        size_t first = 31 * c->number + round;
        must(qw_session_load(session, c->base), "load the base");
        eval(session, QW_PREFILL, 90 + c->number, first, c->logits[round], &prompt);
        for (size_t i = 0; i < 5; i++)
            eval(session, QW_DECODE, 1, first + i, c->logits[round], NULL);
        must(qw_session_save(session, &tip), "save");
        const qw_snapshot *held[] = {c->base, prompt, tip};
        qw_snapshots_bytes(held, 3);
        qw_snapshot_free(prompt);
        must(qw_session_load(session, tip), "load the tip");
        qw_snapshot_free(tip);
        eval(session, QW_DECODE, 2, first, c->logits[round], NULL);
    }
    if (qw_session_eval(session, &(qw_batch){.tokens = &(int32_t){N_VOCAB}, .n_tokens = 1}) == QW_OK ||
        !strstr(qw_last_error(), "512")) {
        fprintf(stderr, "callers: the last error is another thread's: %s\n", qw_last_error());
        exit(1);
    }
    qw_session_free(session);
    return NULL;
}

int main(void) {
    static any_model tensors;
    static caller alone[N_CALLERS], together[N_CALLERS];
    any_list(&tensors, any_small);
    if (!any_fill(&tensors)) {
        fputs("callers: the model is too large\n", stderr);
        return 1;
    }
    qw_config config = any_config(&tensors);
    qw_model *model;
    qw_session *session;
    qw_snapshot *base;
    float logits[N_VOCAB];
    must(qw_model_create(&model, &config, tensors.tensors, tensors.n_tensors), "model");
    must(qw_session_create(&session, model, CONTEXT), "session");
    eval(session, QW_PREFILL, BASE, 0, logits, &base);
    qw_session_free(session);

    pthread_t threads[N_CALLERS];
    for (size_t i = 0; i < N_CALLERS; i++) {
        alone[i] = together[i] = (caller){.model = model, .base = base, .number = i};
        answer(&alone[i]);
    }
    for (size_t i = 0; i < N_CALLERS; i++)
        if (pthread_create(&threads[i], NULL, answer, &together[i]) != 0)
            return 1;
    for (size_t i = 0; i < N_CALLERS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < N_CALLERS; i++)
        if (memcmp(alone[i].logits, together[i].logits, sizeof alone[i].logits) != 0) {
            fprintf(stderr, "callers: caller %zu got other logits than alone\n", i);
            return 1;
        }
    qw_model_free(model); /* the snapshot keeps the memory */
    qw_snapshot_free(base);
    any_free(&tensors);
    printf("callers: %d threads, %d answers each from one snapshot, the same logits as alone\n", N_CALLERS, N_ROUNDS);
    return 0;
}
