/*
 * A small model of any shape, described by a few numbers: what callers, fuzz_model and refuse_memory run.
 */
#ifndef QW_ANY_MODEL_H
#define QW_ANY_MODEL_H

#include <stdbool.h>

#include "qwarm.h"

enum { ANY_TENSORS = 192, ANY_DATA = 2 << 20 };

#pragma pack(push, 1)
typedef struct any_head {
    uint16_t n_layers, n_vocab, n_hidden, n_ffn, n_heads, n_kv_heads, head_dim, rotary_dims;
    uint16_t n_key_heads, n_value_heads, delta_head_dim, conv_kernel;
    float rms_eps, rope_base;
    uint8_t n_threads, isa, exact, tied, data, n_changes;
    uint64_t recurrent;
    uint8_t types[16];
} any_head;
#pragma pack(pop)

typedef struct any_model {
    any_head head;
    qw_tensor tensors[ANY_TENSORS];
    char names[ANY_TENSORS][64];
    size_t n_tensors;
    uint8_t recurrent[65536];
} any_model;

/* Four layers, one of them attention, and a vocabulary of 512, in Q8_0 and Q4_0. */
extern const any_head any_small;

/* The tensors that follow from the head, without their data. */
void any_list(any_model *m, any_head head);

/* Give every tensor n_bytes of data, each an allocation of its own; false if together they exceed ANY_DATA. */
bool any_fill(any_model *m);
void any_free(any_model *m);

qw_config any_config(const any_model *m);

#endif
