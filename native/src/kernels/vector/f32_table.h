/*
 * The f32 half of a kernel table, as one list of names.
 *
 * QW_DECLARE_F32_KERNELS(isa) declares them, here, for every set; QW_F32_KERNELS(isa) is the designated
 * initializers.
 */
#ifndef QW_F32_TABLE_H
#define QW_F32_TABLE_H

#include "../kernels.h"

#define QW_DECLARE_F32_KERNELS(isa)                                                                          \
    void qw_##isa##_gemm_f32(size_t m, size_t n, size_t n_k, const float *a, size_t a_row, size_t a_k,       \
                             const float *b, size_t ldb, float *c, size_t ldc, float beta);                  \
    float qw_##isa##_dot_f32(const float *a, const float *b, size_t n);                                      \
    void qw_##isa##_rms_norm(const float *x, const float *weight, float eps, size_t n, float *y);            \
    void qw_##isa##_l2_norm(float *x, size_t n, float eps, float scale);                                     \
    void qw_##isa##_silu_mul(const float *gate, const float *up, size_t n, float *y);                        \
    void qw_##isa##_sigmoid_mul(const float *gate, const float *x, size_t n, float *y);                      \
    void qw_##isa##_add(const float *x, size_t n, float *y);                                                 \
    void qw_##isa##_conv_silu(const float *u, size_t ld, const float *w, size_t n_channels, size_t n_tokens, \
                              float *y, size_t ld_y);                                                        \
    void qw_##isa##_delta_chunk(const qw_delta_block *d);                                                    \
    void qw_##isa##_delta_step(const qw_delta_block *d);                                                     \
    void qw_##isa##_attention_tile(const qw_attention_tile *t);                                              \
    void qw_##isa##_f32_to_f16(const float *x, size_t n, uint16_t *y);                                       \
    void qw_##isa##_f16_to_f32(const uint16_t *x, size_t n, float *y);

QW_DECLARE_F32_KERNELS(scalar)
QW_DECLARE_F32_KERNELS(avx2)
QW_DECLARE_F32_KERNELS(avx512vnni)
QW_DECLARE_F32_KERNELS(dotprod)
QW_DECLARE_F32_KERNELS(i8mm)

#define QW_F32_KERNELS(isa)                                                                                  \
    .gemm_f32 = qw_##isa##_gemm_f32, .dot_f32 = qw_##isa##_dot_f32, .rms_norm = qw_##isa##_rms_norm,         \
    .l2_norm = qw_##isa##_l2_norm, .silu_mul = qw_##isa##_silu_mul, .sigmoid_mul = qw_##isa##_sigmoid_mul,   \
    .add = qw_##isa##_add, .conv_silu = qw_##isa##_conv_silu, .delta_chunk = qw_##isa##_delta_chunk,         \
    .delta_step = qw_##isa##_delta_step, .attention_tile = qw_##isa##_attention_tile,                        \
    .f32_to_f16 = qw_##isa##_f32_to_f16, .f16_to_f32 = qw_##isa##_f16_to_f32

#endif
