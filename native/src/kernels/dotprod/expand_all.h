/*
 * Every expander of an Arm set: the types worth it have NEON expanders, the others take the shared ones.
 */
#include "expand_q4_0.h"
#include "expand_q4_k.h"
#include "expand_q6_k.h"

#define QW_STORE_COLS QW_UNIT

QW_INLINE void store_columns(int8_t *panel, size_t column, int8_t q[QW_UNIT][QW_BLOCK_K]) {
    for (size_t k = 0; k < QW_BLOCK_K; k += 16) {
        int8x16_t v[QW_UNIT];
        for (size_t c = 0; c < QW_UNIT; c++)
            v[c] = vld1q_s8(q[c] + k);
        qw_store_unit(panel, column / QW_UNIT, k, v);
    }
}

QW_INLINE void store_scales(float *scale, size_t column, const float s[QW_UNIT]) {
    qw_store_scales(scale, column / QW_UNIT, s);
}

#include "../vector/round_blocks.h"

#include "../vector/expand.h"

QW_DEFINE_EXPAND(q4_1)
QW_DEFINE_EXPAND(q5_0)
QW_DEFINE_EXPAND(q5_1)
QW_DEFINE_EXPAND(q3_k)
QW_DEFINE_EXPAND_FLOATS(f32)
QW_DEFINE_EXPAND_FLOATS(f16)
QW_DEFINE_EXPAND_FLOATS(bf16)
