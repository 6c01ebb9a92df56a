/*
 * A libFuzzer harness: a model of any shape, with any of its tensors wrong, is created and, if accepted, evaluated.
 *
 * The input is an any_head, changes to the tensor list that follows from it (struct change), and steps, one byte
 * each.  tests/fuzz/model_seeds.py writes such inputs from model files.  As with a real file, n_bytes of data can
 * always be read; each tensor's data is an allocation of its own, so that one byte more is found.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any_model.h"

enum { CONTEXT = 96, PIECE = 24, MAX_STEPS = 12 };

#pragma pack(push, 1)
typedef struct {
    uint8_t field, tensor;
    uint64_t value;
} change;
#pragma pack(pop)

static void apply(any_model *m, change c) {
    qw_tensor *t = &m->tensors[c.tensor % m->n_tensors];
    switch (c.field % 8) {
    case 4:
        t->n_dims = (uint32_t)c.value;
        break;
    case 5:
        t->type = (uint32_t)c.value;
        break;
    case 6:
        t->n_bytes = c.value;
        break;
    case 7:
        memcpy((char *)t->name, &c.value, sizeof c.value); /* a name of another tensor, or of none */
        break;
    default:
        t->dims[c.field % 4] = c.value;
    }
}

static void require(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "fuzz_model: %s; last error: %s\n", what, qw_last_error());
    abort();
}

static qw_status eval(qw_session *s, uint8_t step, uint32_t n_vocab, float *logits) {
    int32_t tokens[PIECE];
    size_t n = step & 64 ? 1 : 1 + step % PIECE, before = qw_session_position(s);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((before + i) * 7 + step) % (int32_t)(n_vocab + (step == 255));
    qw_phase phase = step & 64 ? QW_DECODE : QW_PREFILL;
    qw_batch batch = {.tokens = tokens, .n_tokens = n, .phase = phase, .logits = logits, .n_logits = 1};
    size_t mark = before + 1 + step % n;
    qw_snapshot *snapshot = NULL;
    if (step & 128 && phase == QW_PREFILL) {
        batch.marks = &mark;
        batch.n_marks = 1;
        batch.snapshots = &snapshot;
    }
    qw_status status = qw_session_eval(s, &batch);
    size_t moved = qw_session_position(s) - before;
    require(status == QW_OK ? moved == n : status == QW_ERR_NUMERIC || moved == 0, "the position is wrong");
    if (status == QW_OK && batch.n_marks) {
        require(qw_snapshot_position(snapshot) == mark, "the mark is elsewhere");
        qw_snapshot_free(snapshot);
    }
    return status;
}

/* Through bytes and back, a state goes on as the original does. */
static void check_round_trip(const qw_model *model, qw_session *s, uint32_t n_vocab, float *logits) {
    qw_snapshot *saved, *copied;
    if (qw_session_position(s) == CONTEXT || qw_session_save(s, &saved) != QW_OK)
        return;
    size_t n_bytes = qw_snapshot_export_bytes(saved), position = qw_snapshot_position(saved);
    uint8_t *bytes = malloc(n_bytes + !n_bytes);
    require(bytes != NULL, "no memory for a snapshot's bytes");
    qw_snapshot_export(saved, bytes);
    require(n_bytes == 0 || qw_snapshot_import(&copied, model, position, bytes, n_bytes - 1) == QW_ERR_ARGUMENT,
            "a short snapshot was taken");
    require(qw_snapshot_import(&copied, model, position, bytes, n_bytes) == QW_OK, "its own snapshot was refused");
    qw_status first = eval(s, 64, n_vocab, logits);
    require(qw_session_load(s, copied) == QW_OK, "a snapshot does not load");
    qw_status second = eval(s, 64, n_vocab, logits + n_vocab);
    require(first == second, "the copy fails differently");
    if (first == QW_OK)
        require(memcmp(logits, logits + n_vocab, n_vocab * sizeof *logits) == 0, "the copy says something else");
    free(bytes);
    qw_snapshot_free(saved);
    qw_snapshot_free(copied);
}

static void run(const qw_model *model, uint32_t n_vocab, const uint8_t *steps, size_t n_steps) {
    qw_session *s;
    float *logits = malloc(2 * (size_t)n_vocab * sizeof *logits);
    require(logits != NULL, "no memory for logits");
    require(qw_session_create(&s, model, CONTEXT) == QW_OK, "no session");
    for (size_t i = 0; i < n_steps && i < MAX_STEPS; i++) {
        if (steps[i] % 16 == 15)
            check_round_trip(model, s, n_vocab, logits);
        else if (eval(s, steps[i], n_vocab, logits) == QW_ERR_NUMERIC)
            qw_session_reset(s);
    }
    qw_session_free(s);
    free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t n_input) {
    static any_model m;
    any_head head;
    if (n_input < sizeof head)
        return -1;
    memcpy(&head, input, sizeof head);
    input += sizeof head, n_input -= sizeof head;
    any_list(&m, head);
    for (size_t i = 0; i < head.n_changes && n_input >= sizeof(change); i++) {
        change c;
        memcpy(&c, input, sizeof c);
        apply(&m, c);
        input += sizeof c, n_input -= sizeof c;
    }
    if (!any_fill(&m))
        return -1;

    qw_config config = any_config(&m);
    qw_model *model = NULL;
    qw_status status = qw_model_create(&model, &config, m.tensors, m.n_tensors);
    require(status == QW_OK ? model != NULL : model == NULL && *qw_last_error(), "create left something behind");
    if (status == QW_OK) {
        run(model, head.n_vocab, input, n_input);
        qw_model_free(model);
    }
    any_free(&m);
    return 0;
}
