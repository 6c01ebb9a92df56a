/*
 * Create a model: find every tensor by name, check its shape and type, and derive sizes.
 * All of a model file's claims that arithmetic relies on are checked here.
 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define TRY(call)              \
    do {                       \
        qw_status s_ = (call); \
        if (s_ != QW_OK)       \
            return s_;         \
    } while (0)

typedef struct {
    const qw_tensor *tensors;
    size_t n;
} tensor_list;

static const qw_tensor *find(tensor_list list, const char *name) {
    for (size_t i = 0; i < list.n; i++)
        if (strcmp(list.tensors[i].name, name) == 0)
            return &list.tensors[i];
    return NULL;
}

static qw_status get_matrix(tensor_list list, const char *name, size_t n_k, size_t n_cols, qw_matrix *out) {
    const qw_tensor *t = find(list, name);
    if (!t)
        return qw_fail(QW_ERR_MODEL, "tensor %s is missing", name);
    if (t->n_dims != 2 || t->dims[0] != n_k || t->dims[1] != n_cols)
        return qw_fail(QW_ERR_MODEL, "tensor %s has shape {%llu, %llu}, expected {%zu, %zu}", name,
                       (unsigned long long)t->dims[0], t->n_dims > 1 ? (unsigned long long)t->dims[1] : 1ULL, n_k,
                       n_cols);
    const qw_type_info *type = qw_type_get(t->type);
    if (!type->name)
        return qw_fail(QW_ERR_MODEL, "tensor %s has type %u, which this engine does not read", name, t->type);
    if (n_k % type->block_values)
        return qw_fail(QW_ERR_MODEL, "tensor %s has rows of %zu values, not a multiple of %s's block of %u", name, n_k,
                       type->name, type->block_values);
    if ((uintptr_t)t->data % 4)
        return qw_fail(QW_ERR_MODEL, "tensor %s is not aligned to 4 bytes", name);
    size_t col_bytes = qw_row_bytes(t->type, n_k);
    if (t->n_bytes != col_bytes * n_cols)
        return qw_fail(QW_ERR_MODEL, "tensor %s has %llu bytes, expected %zu", name, (unsigned long long)t->n_bytes,
                       col_bytes * n_cols);
    *out = (qw_matrix){.data = t->data, .type = t->type, .n_cols = n_cols, .n_k = n_k, .col_bytes = col_bytes};
    return QW_OK;
}

/* A vector, or a {first, rest} table, of f32 values; rest 0 means one dimension. */
static qw_status get_floats(tensor_list list, const char *name, size_t first, size_t rest, const float **out) {
    const qw_tensor *t = find(list, name);
    if (!t)
        return qw_fail(QW_ERR_MODEL, "tensor %s is missing", name);
    bool shaped = rest ? t->n_dims == 2 && t->dims[1] == rest : t->n_dims == 1;
    if (!shaped || t->dims[0] != first)
        return qw_fail(QW_ERR_MODEL, "tensor %s has first dimension %llu and %u dimensions, expected {%zu%s}", name,
                       (unsigned long long)t->dims[0], t->n_dims, first, rest ? ", channels" : "");
    if (t->type != QW_F32)
        return qw_fail(QW_ERR_MODEL, "tensor %s has type %u, expected F32", name, t->type);
    if ((uintptr_t)t->data % sizeof(float))
        return qw_fail(QW_ERR_MODEL, "tensor %s is not aligned to 4 bytes", name);
    if (t->n_bytes != first * (rest ? rest : 1) * sizeof(float))
        return qw_fail(QW_ERR_MODEL, "tensor %s has %llu bytes, expected %zu", name, (unsigned long long)t->n_bytes,
                       first * (rest ? rest : 1) * sizeof(float));
    *out = t->data;
    return QW_OK;
}

static qw_status load_layer(qw_model *m, tensor_list list, size_t i, qw_layer *l) {
    const qw_config *c = &m->config;
    size_t hidden = c->n_hidden, kv = (size_t)c->n_kv_heads * c->head_dim, heads = (size_t)c->n_heads * c->head_dim;
    char name[96];
#define NAME(suffix) (snprintf(name, sizeof name, "blk.%zu." suffix, i), name)
    TRY(get_floats(list, NAME("attn_norm.weight"), hidden, 0, &l->mixer_norm));
    TRY(get_floats(list, NAME("post_attention_norm.weight"), hidden, 0, &l->ffn_norm));
    TRY(get_matrix(list, NAME("ffn_gate.weight"), hidden, c->n_ffn, &l->ffn_gate));
    TRY(get_matrix(list, NAME("ffn_up.weight"), hidden, c->n_ffn, &l->ffn_up));
    TRY(get_matrix(list, NAME("ffn_down.weight"), c->n_ffn, hidden, &l->ffn_down));
    if (!l->recurrent) {
        TRY(get_matrix(list, NAME("attn_q.weight"), hidden, 2 * heads, &l->q));
        TRY(get_matrix(list, NAME("attn_k.weight"), hidden, kv, &l->k));
        TRY(get_matrix(list, NAME("attn_v.weight"), hidden, kv, &l->v));
        TRY(get_matrix(list, NAME("attn_output.weight"), heads, hidden, &l->attn_out));
        TRY(get_floats(list, NAME("attn_q_norm.weight"), c->head_dim, 0, &l->q_norm));
        TRY(get_floats(list, NAME("attn_k_norm.weight"), c->head_dim, 0, &l->k_norm));
        return QW_OK;
    }
    TRY(get_matrix(list, NAME("attn_qkv.weight"), hidden, m->n_channels, &l->qkv));
    TRY(get_matrix(list, NAME("attn_gate.weight"), hidden, m->value_width, &l->z));
    TRY(get_matrix(list, NAME("ssm_alpha.weight"), hidden, c->n_value_heads, &l->alpha));
    TRY(get_matrix(list, NAME("ssm_beta.weight"), hidden, c->n_value_heads, &l->beta));
    TRY(get_matrix(list, NAME("ssm_out.weight"), m->value_width, hidden, &l->delta_out));
    TRY(get_floats(list, NAME("ssm_conv1d.weight"), QW_CONV, m->n_channels, &l->conv));
    TRY(get_floats(list, NAME("ssm_a"), c->n_value_heads, 0, &l->decay));
    TRY(get_floats(list, NAME("ssm_dt.bias"), c->n_value_heads, 0, &l->dt_bias));
    TRY(get_floats(list, NAME("ssm_norm.weight"), c->delta_head_dim, 0, &l->delta_norm));
#undef NAME
    return QW_OK;
}

/* Bounds are far above any model of the family: they keep products of sizes inside 64 bits. */
static qw_status check_config(const qw_config *c) {
    const struct {
        const char *name;
        uint32_t value, most, multiple;
    } fields[] = {
        {"n_layers", c->n_layers, 1024, 1},
        {"n_vocab", c->n_vocab, 1 << 22, 1},
        {"n_hidden", c->n_hidden, 1 << 16, 32},
        {"n_ffn", c->n_ffn, 1 << 18, 16},
        {"n_heads", c->n_heads, 512, 1},
        {"n_kv_heads", c->n_kv_heads, 512, 1},
        {"head_dim", c->head_dim, 256, 16},
        {"rotary_dims", c->rotary_dims, 256, 2},
        {"n_key_heads", c->n_key_heads, 512, 1},
        {"n_value_heads", c->n_value_heads, 512, 1},
        {"delta_head_dim", c->delta_head_dim, 256, 16},
        {"n_threads", c->n_threads, 256, 1},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value == 0 || fields[i].value > fields[i].most || fields[i].value % fields[i].multiple)
            return qw_fail(QW_ERR_MODEL, "%s is %u, expected a multiple of %u from %u to %u", fields[i].name,
                           fields[i].value, fields[i].multiple, fields[i].multiple, fields[i].most);
    if (c->n_heads % c->n_kv_heads || c->n_heads / c->n_kv_heads > 32)
        return qw_fail(QW_ERR_MODEL, "n_heads is %u, expected 1 to 32 times n_kv_heads (%u)", c->n_heads,
                       c->n_kv_heads);
    if (c->n_value_heads % c->n_key_heads)
        return qw_fail(QW_ERR_MODEL, "n_value_heads is %u, expected a multiple of n_key_heads (%u)", c->n_value_heads,
                       c->n_key_heads);
    if (c->rotary_dims > c->head_dim)
        return qw_fail(QW_ERR_MODEL, "rotary_dims is %u, expected at most head_dim (%u)", c->rotary_dims, c->head_dim);
    if (c->conv_kernel != QW_CONV)
        return qw_fail(QW_ERR_MODEL, "conv_kernel is %u, expected %d", c->conv_kernel, QW_CONV);
    if (!(c->rms_eps > 0 && c->rms_eps < 1) || !(c->rope_base > 1 && isfinite(c->rope_base)))
        return qw_fail(QW_ERR_MODEL, "rms_eps is %g and rope_base %g, expected in (0, 1) and above 1",
                       (double)c->rms_eps, (double)c->rope_base);
    return QW_OK;
}

static qw_status load(qw_model *m, const qw_config *config, tensor_list list) {
    const qw_config *c = &m->config;
    m->key_width = (size_t)c->n_key_heads * c->delta_head_dim;
    m->value_width = (size_t)c->n_value_heads * c->delta_head_dim;
    m->n_channels = 2 * m->key_width + m->value_width;

    TRY(get_matrix(list, "token_embd.weight", c->n_hidden, c->n_vocab, &m->embedding));
    TRY(get_floats(list, "output_norm.weight", c->n_hidden, 0, &m->output_norm));
    m->head = m->embedding;
    if (find(list, "output.weight"))
        TRY(get_matrix(list, "output.weight", c->n_hidden, c->n_vocab, &m->head));

    for (size_t i = 0; i < c->n_layers; i++) {
        qw_layer *l = &m->layers[i];
        l->recurrent = config->recurrent_layers[i];
        l->index = l->recurrent ? m->n_delta++ : m->n_attention++;
        TRY(load_layer(m, list, i, l));
    }
    size_t widest = c->n_hidden;
    if (widest < c->n_ffn)
        widest = c->n_ffn;
    if (widest < m->value_width)
        widest = m->value_width;
    if (widest < (size_t)c->n_heads * c->head_dim)
        widest = (size_t)c->n_heads * c->head_dim;
    m->max_k = qw_round_up(widest, QW_BLOCK_K);
    m->state_floats = m->n_delta * (qw_layer_state_floats(m) + (QW_CONV - 1) * m->n_channels);
    m->kv_element_bytes = c->exact ? sizeof(float) : sizeof(uint16_t);
    m->page_bytes = qw_model_kv_token_bytes(m) * QW_KEY_TILE;
    return QW_OK;
}

qw_status qw_model_create(qw_model **out, const qw_config *config, const qw_tensor *tensors, size_t n_tensors) {
    TRY(check_config(config));
    const qw_kernels *kernels = qw_kernels_select(config->isa);
    if (!kernels)
        return qw_fail(QW_ERR_ISA, "kernel set %s is unknown or not on this CPU; the best one here is %s", config->isa,
                       qw_best_isa());
    qw_model *m = calloc(1, sizeof *m);
    if (!m)
        return qw_fail(QW_ERR_MEMORY, "no memory for the model");
    atomic_init(&m->n_owners, 1);
    pthread_mutex_init(&m->lock, NULL);
    m->config = *config;
    m->config.recurrent_layers = NULL;
    m->config.isa = NULL;
    m->kernels = kernels;
    m->layers = calloc(config->n_layers, sizeof *m->layers);
    qw_status status = QW_OK;
    if (!m->layers)
        status = qw_fail(QW_ERR_MEMORY, "no memory for %u layers", config->n_layers);
    if (status == QW_OK)
        status = load(m, config, (tensor_list){tensors, n_tensors});
    if (status == QW_OK && !qw_workspace_create(m))
        status = qw_fail(QW_ERR_MEMORY, "no memory for the workspace of one evaluation");
    if (status == QW_OK && !(m->pool = qw_pool_create(config->n_threads)))
        status = qw_fail(QW_ERR_MEMORY, "no memory or threads for a pool of %u", config->n_threads);
    if (status != QW_OK) {
        qw_model_free(m);
        return status;
    }
    *out = m;
    return QW_OK;
}

qw_model *qw_model_share(const qw_model *m) {
    qw_model *shared = (qw_model *)m; /* only the count changes, and the pool and workspace under the lock */
    atomic_fetch_add(&shared->n_owners, 1);
    return shared;
}

void qw_model_free(qw_model *m) {
    if (!m || atomic_fetch_sub(&m->n_owners, 1) > 1)
        return;
    qw_pool_free(m->pool);
    qw_workspace_free(m);
    free(m->layers);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

const char *qw_best_isa(void) {
    return qw_kernels_nth(0)->isa;
}

const char *qw_nth_isa(size_t n) {
    const qw_kernels *k = qw_kernels_nth(n);
    return k ? k->isa : NULL;
}

const char *qw_model_isa(const qw_model *m) {
    return m->kernels->isa;
}

const char *qw_model_gemm(const qw_model *m) {
    return m->config.exact ? "exact" : "gemm_i8";
}

size_t qw_model_state_bytes(const qw_model *m) {
    return m->state_floats * sizeof(float);
}

size_t qw_model_kv_token_bytes(const qw_model *m) {
    return m->n_attention * m->config.n_kv_heads * 2 * m->config.head_dim * m->kv_element_bytes;
}

size_t qw_model_workspace_bytes(const qw_model *m) {
    return m->work.arena_bytes;
}

qw_status qw_dequantize(uint32_t type, const void *blocks, size_t n, float *out) {
    const qw_type_info *info = qw_type_get(type);
    if (!info->name)
        return qw_fail(QW_ERR_ARGUMENT, "type %u is not one this engine reads", type);
    if (n % info->block_values)
        return qw_fail(QW_ERR_ARGUMENT, "%zu values are not a multiple of %s's block of %u", n, info->name,
                       info->block_values);
    qw_dequantize_row(type, blocks, n, out);
    return QW_OK;
}
