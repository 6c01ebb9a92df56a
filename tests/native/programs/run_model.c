/*
 * Run a model without Python: for other architectures under an emulator, and for counting instructions.
 *
 *   run_model MODEL.gguf PLAN OUT [ISA]
 *
 * PLAN is text, written by tests/engine/emulated.py: the configuration, where each tensor lies in the file, and the
 * tokens, each line a word and its values.  OUT receives logits, float32: those of every token, or of the last alone.
 * With - for OUT the tokens come from standard input and the logits go to standard output; see serve().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qwarm.h"

enum { MAX_TENSORS = 1024, MAX_LAYERS = 256, MAX_TOKENS = 4096 };

typedef struct {
    qw_config config;
    uint8_t recurrent[MAX_LAYERS];
    qw_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][96];
    size_t n_tensors;
    int32_t tokens[MAX_TOKENS];
    size_t n_tokens, split;
    unsigned phase, every_logit;
} plan;

static void die(const char *what) {
    fprintf(stderr, "run_model: %s\n", what);
    exit(1);
}

static uint8_t *read_file(const char *path, size_t *n_bytes) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        die("the file cannot be opened");
    *n_bytes = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = aligned_alloc(64, (*n_bytes + 63) / 64 * 64);
    if (!data || fread(data, 1, *n_bytes, f) != *n_bytes)
        die("the file cannot be read");
    fclose(f);
    return data;
}

static void read_tensor(plan *p, FILE *f, const uint8_t *data, size_t n_bytes) {
    unsigned long long offset;
    qw_tensor *t = &p->tensors[p->n_tensors];
    if (p->n_tensors == MAX_TENSORS ||
        fscanf(f, "%95s %u %u %lu %lu %llu %lu", p->names[p->n_tensors], &t->type, &t->n_dims, &t->dims[0], &t->dims[1],
               &offset, &t->n_bytes) != 7 ||
        offset + t->n_bytes > n_bytes)
        die("bad tensor line");
    t->name = p->names[p->n_tensors++];
    t->data = data + offset;
}

static void read_plan(plan *p, const char *path, const uint8_t *data, size_t n_bytes) {
    qw_config *c = &p->config;
    char word[16];
    FILE *f = fopen(path, "r");
    if (!f)
        die("the plan cannot be opened");
    while (fscanf(f, "%15s", word) == 1) {
        if (strcmp(word, "config") == 0) {
            if (fscanf(f, "%u %u %u %u %u %u %u %u %u %u %u %u %f %f", &c->n_layers, &c->n_vocab, &c->n_hidden,
                       &c->n_ffn, &c->n_heads, &c->n_kv_heads, &c->head_dim, &c->rotary_dims, &c->n_key_heads,
                       &c->n_value_heads, &c->delta_head_dim, &c->conv_kernel, &c->rms_eps, &c->rope_base) != 14)
                die("bad config line");
        } else if (strcmp(word, "recurrent") == 0) {
            for (uint32_t i = 0; i < c->n_layers && i < MAX_LAYERS; i++)
                if (fscanf(f, "%hhu", &p->recurrent[i]) != 1)
                    die("bad recurrent line");
        } else if (strcmp(word, "run") == 0) {
            if (fscanf(f, "%u %u %u %lu %u", &c->n_threads, &c->exact, &p->phase, &p->split, &p->every_logit) != 5)
                die("bad run line");
        } else if (strcmp(word, "tensor") == 0) {
            read_tensor(p, f, data, n_bytes);
        } else if (strcmp(word, "token") == 0) {
            if (p->n_tokens == MAX_TOKENS || fscanf(f, "%d", &p->tokens[p->n_tokens++]) != 1)
                die("bad token line");
        } else {
            die("unknown word in the plan");
        }
    }
    fclose(f);
    c->recurrent_layers = p->recurrent;
}

static void check(qw_status status) {
    if (status != QW_OK)
        die(qw_last_error());
}

/*
 * Answer until standard input ends.  A request is three int32: phase, number of tokens, number of logit rows wanted;
 * then the tokens.  None: the session starts over, and there is no answer.
 */
static void serve(qw_session *session, uint32_t n_vocab) {
    static int32_t tokens[MAX_TOKENS];
    int32_t asked[3];
    while (fread(asked, sizeof asked, 1, stdin) == 1) {
        if (asked[1] == 0) {
            qw_session_reset(session);
            continue;
        }
        size_t n = (size_t)asked[1], n_rows = (size_t)asked[2];
        if (n > MAX_TOKENS || n_rows > n || fread(tokens, sizeof *tokens, n, stdin) != n)
            die("bad request");
        float *logits = malloc(n_rows * n_vocab * sizeof *logits + 1);
        if (!logits)
            die("no memory for the logits");
        qw_batch batch = {
            .tokens = tokens, .n_tokens = n, .phase = (qw_phase)asked[0], .logits = logits, .n_logits = n_rows};
        check(qw_session_eval(session, &batch));
        if (fwrite(logits, n_vocab * sizeof *logits, n_rows, stdout) != n_rows || fflush(stdout) != 0)
            die("the logits cannot be written");
        free(logits);
    }
}

/* Evaluate the plan's tokens and write their logits, or the last one's. */
static void run(qw_session *session, const plan *p, const char *path) {
    size_t n_rows = p->every_logit ? p->n_tokens : 1;
    float *logits = malloc(n_rows * p->config.n_vocab * sizeof *logits);
    if (!logits)
        die("no memory for the logits");
    for (size_t done = 0, n; done < p->n_tokens; done += n) {
        n = p->n_tokens - done < p->split ? p->n_tokens - done : p->split;
        qw_batch batch = {.tokens = p->tokens + done,
                          .n_tokens = n,
                          .phase = (qw_phase)p->phase,
                          .logits = logits + (p->every_logit ? done * p->config.n_vocab : 0),
                          .n_logits = p->every_logit ? n : done + n == p->n_tokens};
        check(qw_session_eval(session, &batch));
    }
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(logits, p->config.n_vocab * sizeof *logits, n_rows, out) != n_rows || fclose(out) != 0)
        die("the logits cannot be written");
    free(logits);
}

int main(int argc, char **argv) {
    static plan p;
    if (argc < 4)
        die("usage: run_model MODEL PLAN OUT [ISA]");
    size_t n_bytes;
    uint8_t *data = read_file(argv[1], &n_bytes);
    read_plan(&p, argv[2], data, n_bytes);
    p.config.isa = argc > 4 ? argv[4] : NULL;
    int serves = strcmp(argv[3], "-") == 0;

    qw_model *model;
    qw_session *session;
    check(qw_model_create(&model, &p.config, p.tensors, p.n_tensors));
    check(qw_session_create(&session, model, serves ? MAX_TOKENS : p.n_tokens));
    if (serves)
        serve(session, p.config.n_vocab);
    else
        run(session, &p, argv[3]);
    qw_session_free(session);
    qw_model_free(model);
    free(data);
    return 0;
}
