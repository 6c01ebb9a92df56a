/*
 * GEMV of the types with one scale per 32 values.
 */
#include "gemv_neon.h"

QW_DECLARE_QUANT_KERNELS(dotprod)

/* The IQ4 types' values for their indices. */
#define QW_LOAD_IQ4(name)                                                                   \
    QW_INLINE void qw_load_values_##name(const void *block, size_t part, int8x16_t q[4]) {  \
        const int8x16_t values = vld1q_s8(qw_iq4_values);                                   \
        qw_load_##name(block, part, q);                                                     \
        for (size_t i = 0; i < 4; i++)                                                      \
            q[i] = vqtbl1q_s8(values, vreinterpretq_u8_s8(q[i]));                           \
    }
QW_LOAD_IQ4(iq4_nl)
QW_LOAD_IQ4(iq4_xs)

QW_DEFINE_NEON_GEMV(q4_0, qw_gemv_32, qw_scales_q4_0, qw_load_q4_0, true, QW_BYTES_q4_0)
QW_DEFINE_NEON_GEMV(q4_1, qw_gemv_32, qw_scales_q4_1, qw_load_q4_1, true, QW_BYTES_q4_1)
QW_DEFINE_NEON_GEMV(q5_0, qw_gemv_32, qw_scales_q5_0, qw_load_q5_0, true, QW_BYTES_q5_0)
QW_DEFINE_NEON_GEMV(q5_1, qw_gemv_32, qw_scales_q5_1, qw_load_q5_1, true, QW_BYTES_q5_1)
QW_DEFINE_NEON_GEMV(q8_0, qw_gemv_32, qw_scales_q8_0, qw_load_q8_0, false, QW_BYTES_q8_0)
QW_DEFINE_NEON_GEMV(q4_k, qw_gemv_32, qw_scales_q4_k, qw_load_q4_k, true, QW_BYTES_q4_k)
QW_DEFINE_NEON_GEMV(q5_k, qw_gemv_32, qw_scales_q5_k, qw_load_q5_k, true, QW_BYTES_q5_k)
QW_DEFINE_NEON_GEMV(iq4_nl, qw_gemv_32, qw_scales_iq4_nl, qw_load_values_iq4_nl, false, QW_BYTES_iq4_nl)
QW_DEFINE_NEON_GEMV(iq4_xs, qw_gemv_32, qw_scales_iq4_xs, qw_load_values_iq4_xs, false, QW_BYTES_iq4_xs)
