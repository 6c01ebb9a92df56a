/*
 * GEMV of the types with one scale per 32 values.
 */
#include "gemv_neon.h"
#include "unpack_32.h"

QW_DECLARE_QUANT_KERNELS(dotprod)

/* The IQ4 types' values for their indices. */
#define QW_LOAD_IQ4(name)                                                                  \
    QW_INLINE void qw_load_values_##name(const void *block, size_t part, int8x16_t q[4]) { \
        const int8x16_t values = vld1q_s8(qw_iq4_values);                                  \
        qw_load_##name(block, part, q);                                                    \
        for (size_t i = 0; i < 4; i++)                                                     \
            q[i] = vqtbl1q_s8(values, vreinterpretq_u8_s8(q[i]));                          \
    }
QW_LOAD_IQ4(iq4_nl)
QW_LOAD_IQ4(iq4_xs)

QW_DEFINE_GEMV_32(q4_0, qw_load_q4_0, true)
QW_DEFINE_GEMV_32(q4_1, qw_load_q4_1, true)
QW_DEFINE_GEMV_32(q5_0, qw_load_q5_0, true)
QW_DEFINE_GEMV_32(q5_1, qw_load_q5_1, true)
QW_DEFINE_GEMV_32(q8_0, qw_load_q8_0, false)
QW_DEFINE_GEMV_32(q4_k, qw_load_q4_k, true)
QW_DEFINE_GEMV_32(q5_k, qw_load_q5_k, true)
QW_DEFINE_GEMV_32(iq4_nl, qw_load_values_iq4_nl, false)
QW_DEFINE_GEMV_32(iq4_xs, qw_load_values_iq4_xs, false)
