/*
 * Runs the whole engine over a made-up model, for counting its instructions:
 *
 *     forward_driver ISA PHASE TOKENS LAYERS PASSES
 *
 * The model has Qwen3.5-0.8B's sizes and a Q4_K_M file's types, but the LAYERS that a word lists (r is a recurrent
 * one, a is attention) and next to no vocabulary.  A pass evaluates TOKENS tokens in PHASE, prefill or decode, on
 * an empty session, with the logits of all, so that no layer may skip rows.  It prints TOKENS.  What
 * precedes the passes does not depend on PASSES.
 */
#include <qwarm.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant.h"

enum {
    HIDDEN = 1024,
    FFN = 3584,
    HEADS = 8,
    KV_HEADS = 2,
    HEAD_DIM = 256,
    KEY_HEADS = 16,
    VALUE_HEADS = 16,
    DELTA_DIM = 128,
    CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * DELTA_DIM,
    VOCAB = 64,
    MOST_LAYERS = 4,
    MOST_TOKENS = 512,
    MOST_TENSORS = 2 + 16 * MOST_LAYERS
};

static qw_tensor tensors[MOST_TENSORS];
static size_t n_tensors;
static char names[MOST_TENSORS][40];

/* Small half-float scales, random bytes elsewhere; floats are 0.01. */
static void *make_data(uint32_t type, size_t n_bytes) {
    const qw_type_info *info = qw_type_get(type);
    uint8_t *data = malloc(n_bytes);
    uint32_t random = 1;
    const float small_float = 0.01f;
    const uint16_t small_half = 0x0400;

    if (!data)
        abort();
    for (size_t i = 0; i < n_bytes; i++)
        data[i] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < n_bytes; i += info->block_bytes)
        if (type == QW_F32)
            memcpy(data + i, &small_float, sizeof small_float);
        else if (type == QW_Q6_K)
            memcpy(data + i + info->block_bytes - sizeof small_half, &small_half, sizeof small_half);
        else
            for (size_t half = 0; half < 2; half++)
                memcpy(data + i + half * sizeof small_half, &small_half, sizeof small_half);
    return data;
}

/* A matrix of n_cols rows of n_k values, or a vector when n_cols is 0. */
static void add(const char *prefix, const char *name, uint32_t type, size_t n_k, size_t n_cols) {
    size_t n_bytes = qw_row_bytes(type, n_k) * (n_cols ? n_cols : 1);

    snprintf(names[n_tensors], sizeof *names, "%s%s", prefix, name);
    tensors[n_tensors] = (qw_tensor){.name = names[n_tensors],
                                     .type = type,
                                     .n_dims = n_cols ? 2 : 1,
                                     .dims = {n_k, n_cols ? n_cols : 1, 1, 1},
                                     .data = make_data(type, n_bytes),
                                     .n_bytes = n_bytes};
    n_tensors++;
}

static void add_layer(size_t i, bool recurrent) {
    char b[16];

    snprintf(b, sizeof b, "blk.%zu.", i);
    add(b, "attn_norm.weight", QW_F32, HIDDEN, 0);
    add(b, "post_attention_norm.weight", QW_F32, HIDDEN, 0);
    add(b, "ffn_gate.weight", QW_Q4_K, HIDDEN, FFN);
    add(b, "ffn_up.weight", QW_Q4_K, HIDDEN, FFN);
    add(b, "ffn_down.weight", i % 2 ? QW_Q6_K : QW_Q4_K, FFN, HIDDEN);
    if (recurrent) {
        add(b, "attn_qkv.weight", QW_Q5_K, HIDDEN, CHANNELS);
        add(b, "attn_gate.weight", QW_Q4_K, HIDDEN, VALUE_HEADS * DELTA_DIM);
        add(b, "ssm_alpha.weight", QW_F32, HIDDEN, VALUE_HEADS);
        add(b, "ssm_beta.weight", QW_F32, HIDDEN, VALUE_HEADS);
        add(b, "ssm_out.weight", QW_Q4_K, VALUE_HEADS * DELTA_DIM, HIDDEN);
        add(b, "ssm_conv1d.weight", QW_F32, 4, CHANNELS);
        add(b, "ssm_a", QW_F32, VALUE_HEADS, 0);
        add(b, "ssm_dt.bias", QW_F32, VALUE_HEADS, 0);
        add(b, "ssm_norm.weight", QW_F32, DELTA_DIM, 0);
    } else {
        add(b, "attn_q.weight", QW_Q4_K, HIDDEN, 2 * HEADS * HEAD_DIM);
        add(b, "attn_k.weight", QW_Q4_K, HIDDEN, KV_HEADS * HEAD_DIM);
        add(b, "attn_v.weight", QW_Q6_K, HIDDEN, KV_HEADS * HEAD_DIM);
        add(b, "attn_output.weight", QW_Q4_K, HEADS * HEAD_DIM, HIDDEN);
        add(b, "attn_q_norm.weight", QW_F32, HEAD_DIM, 0);
        add(b, "attn_k_norm.weight", QW_F32, HEAD_DIM, 0);
    }
}

static void must(qw_status status) {
    if (status == QW_OK)
        return;
    fprintf(stderr, "%s\n", qw_last_error());
    exit(1);
}

int main(int argc, char **argv) {
    static uint8_t recurrent[MOST_LAYERS];
    static float logits[MOST_TOKENS][VOCAB];
    int32_t tokens[MOST_TOKENS];

    size_t n_tokens = argc == 6 ? strtoul(argv[3], NULL, 10) : 0, n_layers = argc == 6 ? strlen(argv[4]) : 0;
    if (n_tokens == 0 || n_tokens > MOST_TOKENS || n_layers == 0 || n_layers > MOST_LAYERS) {
        fprintf(stderr,
                "usage: %s ISA prefill|decode TOKENS LAYERS PASSES, with 1 to %d tokens and 1 to %d letters r or a\n",
                argv[0], MOST_TOKENS, MOST_LAYERS);
        return 2;
    }
    qw_phase phase = strcmp(argv[2], "decode") ? QW_PREFILL : QW_DECODE;
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (int32_t)(i * 7 % VOCAB);
    add("", "token_embd.weight", QW_Q6_K, HIDDEN, VOCAB);
    add("", "output_norm.weight", QW_F32, HIDDEN, 0);
    for (size_t i = 0; i < n_layers; i++) {
        recurrent[i] = argv[4][i] == 'r';
        add_layer(i, recurrent[i]);
    }

    qw_config config = {.n_layers = (uint32_t)n_layers,
                        .n_vocab = VOCAB,
                        .n_hidden = HIDDEN,
                        .n_ffn = FFN,
                        .n_heads = HEADS,
                        .n_kv_heads = KV_HEADS,
                        .head_dim = HEAD_DIM,
                        .rotary_dims = 64,
                        .n_key_heads = KEY_HEADS,
                        .n_value_heads = VALUE_HEADS,
                        .delta_head_dim = DELTA_DIM,
                        .conv_kernel = 4,
                        .rms_eps = 1e-6f,
                        .rope_base = 1e7f,
                        .recurrent_layers = recurrent,
                        .n_threads = 1,
                        .isa = argv[1]};
    qw_batch batch = {
        .tokens = tokens, .n_tokens = n_tokens, .phase = phase, .logits = logits[0], .n_logits = n_tokens};
    qw_model *model;
    qw_session *session;
    must(qw_model_create(&model, &config, tensors, n_tensors));
    must(qw_session_create(&session, model, n_tokens));
    for (size_t pass = strtoul(argv[5], NULL, 10); pass > 0; pass--) {
        qw_session_reset(session);
        must(qw_session_eval(session, &batch));
    }
    printf("%zu\n", n_tokens);
    return 0;
}
