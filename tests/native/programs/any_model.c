/* The tensors of a model of any shape: see any_model.h. */
#include "any_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const any_head any_small = {.n_layers = 4,
                            .n_vocab = 512,
                            .n_hidden = 64,
                            .n_ffn = 128,
                            .n_heads = 4,
                            .n_kv_heads = 2,
                            .head_dim = 32,
                            .rotary_dims = 8,
                            .n_key_heads = 2,
                            .n_value_heads = 4,
                            .delta_head_dim = 64,
                            .conv_kernel = 4,
                            .rms_eps = 1e-6f,
                            .rope_base = 1e7f,
                            .n_threads = 3,
                            .tied = 1,
                            .recurrent = 0x7,
                            .types = {8, 2, 8, 2, 8, 2, 8, 2, 8, 2, 8, 2, 8, 2, 8, 2}};

static void add(any_model *m, const char *name, uint32_t type, uint64_t first, uint64_t second) {
    if (m->n_tensors == ANY_TENSORS)
        return;
    qw_tensor *t = &m->tensors[m->n_tensors];
    snprintf(m->names[m->n_tensors], sizeof m->names[0], "%s", name);
    *t = (qw_tensor){.name = m->names[m->n_tensors], .type = type, .n_dims = second ? 2 : 1, .dims = {first, second}};
    m->n_tensors++;
}

/* Bytes of n values: found by asking the library how it reads one block. */
static uint64_t data_bytes(uint32_t type, uint64_t n) {
    static const struct {
        uint32_t type, values, bytes;
    } blocks[] = {{0, 1, 4},    {1, 1, 2},      {30, 1, 2},     {2, 32, 18},    {8, 32, 34},
                  {6, 32, 22},  {11, 256, 110}, {12, 256, 144}, {13, 256, 176}, {14, 256, 210},
                  {20, 32, 18}, {23, 256, 136}, {3, 32, 20},    {7, 32, 24}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i].type == type)
            return n / blocks[i].values * blocks[i].bytes;
    return n;
}

static uint32_t matrix_type(const any_model *m) {
    return m->head.types[m->n_tensors % sizeof m->head.types];
}

static void add_layer(any_model *m, size_t i) {
    const any_head *h = &m->head;
    uint64_t hidden = h->n_hidden, heads = (uint64_t)h->n_heads * h->head_dim;
    uint64_t kv = (uint64_t)h->n_kv_heads * h->head_dim, value = (uint64_t)h->n_value_heads * h->delta_head_dim;
    uint64_t channels = 2 * (uint64_t)h->n_key_heads * h->delta_head_dim + value;
    char name[64];
#define MATRIX(suffix, k, n) (snprintf(name, sizeof name, "blk.%zu." suffix, i), add(m, name, matrix_type(m), k, n))
#define FLOATS(suffix, k, n) (snprintf(name, sizeof name, "blk.%zu." suffix, i), add(m, name, 0, k, n))
    FLOATS("attn_norm.weight", hidden, 0);
    FLOATS("post_attention_norm.weight", hidden, 0);
    MATRIX("ffn_gate.weight", hidden, h->n_ffn);
    MATRIX("ffn_up.weight", hidden, h->n_ffn);
    MATRIX("ffn_down.weight", h->n_ffn, hidden);
    if (!(h->recurrent >> (i % 64) & 1)) {
        MATRIX("attn_q.weight", hidden, 2 * heads);
        MATRIX("attn_k.weight", hidden, kv);
        MATRIX("attn_v.weight", hidden, kv);
        MATRIX("attn_output.weight", heads, hidden);
        FLOATS("attn_q_norm.weight", h->head_dim, 0);
        FLOATS("attn_k_norm.weight", h->head_dim, 0);
        return;
    }
    MATRIX("attn_qkv.weight", hidden, channels);
    MATRIX("attn_gate.weight", hidden, value);
    MATRIX("ssm_alpha.weight", hidden, h->n_value_heads);
    MATRIX("ssm_beta.weight", hidden, h->n_value_heads);
    MATRIX("ssm_out.weight", value, hidden);
    FLOATS("ssm_conv1d.weight", h->conv_kernel, channels);
    FLOATS("ssm_a", h->n_value_heads, 0);
    FLOATS("ssm_dt.bias", h->n_value_heads, 0);
    FLOATS("ssm_norm.weight", h->delta_head_dim, 0);
#undef MATRIX
#undef FLOATS
}

void any_list(any_model *m, any_head head) {
    m->head = head;
    m->n_tensors = 0;
    add(m, "token_embd.weight", matrix_type(m), head.n_hidden, head.n_vocab);
    add(m, "output_norm.weight", 0, head.n_hidden, 0);
    if (!head.tied)
        add(m, "output.weight", matrix_type(m), head.n_hidden, head.n_vocab);
    for (size_t i = 0; i < head.n_layers && m->n_tensors < ANY_TENSORS; i++)
        add_layer(m, i);
    for (size_t i = 0; i < m->n_tensors; i++) {
        qw_tensor *t = &m->tensors[i];
        t->n_bytes = data_bytes(t->type, t->dims[0] * (t->n_dims == 2 ? t->dims[1] : 1));
    }
    for (size_t i = 0; i < sizeof m->recurrent; i++)
        m->recurrent[i] = head.recurrent >> (i % 64) & 1;
}

bool any_fill(any_model *m) {
    uint64_t total = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        total += m->tensors[i].n_bytes;
        if (m->tensors[i].n_bytes > ANY_DATA || total > ANY_DATA)
            return false;
    }
    uint32_t random = 0x9e3779b9u * (m->head.data + 1u);
    uint8_t mask = m->head.data < 128 ? 0x1f
                                      : 0xff; /* with small bytes half floats are small too, and results finite */
    for (size_t i = 0; i < m->n_tensors; i++) {
        qw_tensor *t = &m->tensors[i];
        uint8_t *data = malloc(t->n_bytes + !t->n_bytes);
        if (!data)
            abort();
        for (uint64_t b = 0; b < t->n_bytes; b++) {
            random = random * 1664525u + 1013904223u;
            data[b] = (uint8_t)(random >> 24) & mask;
        }
        float unit = strstr(t->name, "ssm_a") ? -1.0f / 64.0f
                                              : 1.0f / 64.0f; /* a state that decays, not one that grows */
        if (t->type == 0 && m->head.data < 128)
            for (uint64_t b = 0; b + 4 <= t->n_bytes; b += 4)
                memcpy(data + b, &(float){(float)data[b] * unit}, 4);
        t->data = data;
    }
    return true;
}

void any_free(any_model *m) {
    for (size_t i = 0; i < m->n_tensors; i++)
        free((void *)m->tensors[i].data);
}

qw_config any_config(const any_model *m) {
    const any_head *h = &m->head;
    size_t n_isas = 0;
    while (qw_nth_isa(n_isas))
        n_isas++;
    return (qw_config){.n_layers = h->n_layers,
                       .n_vocab = h->n_vocab,
                       .n_hidden = h->n_hidden,
                       .n_ffn = h->n_ffn,
                       .n_heads = h->n_heads,
                       .n_kv_heads = h->n_kv_heads,
                       .head_dim = h->head_dim,
                       .rotary_dims = h->rotary_dims,
                       .n_key_heads = h->n_key_heads,
                       .n_value_heads = h->n_value_heads,
                       .delta_head_dim = h->delta_head_dim,
                       .conv_kernel = h->conv_kernel,
                       .rms_eps = h->rms_eps,
                       .rope_base = h->rope_base,
                       .recurrent_layers = m->recurrent,
                       .n_threads = h->n_threads % 4,
                       .isa = qw_nth_isa(h->isa % n_isas),
                       .exact = h->exact & 1};
}
