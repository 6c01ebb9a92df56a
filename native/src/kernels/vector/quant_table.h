/*
 * The quantized half of a kernel table, as one list of names.
 *
 * QW_DECLARE_QUANT_KERNELS(isa) declares them; QW_P8_KERNELS(isa) and QW_GEMV_KERNELS(isa) are the
 * designated initializers, QW_QUANT_KERNELS(isa) both.  A set may take one half from another set:
 * the GEMV half reads no layout but the file's.  act_block_bytes is the folder's own to state.
 */
#ifndef QW_QUANT_TABLE_H
#define QW_QUANT_TABLE_H

#include "../kernels.h"

/* X(isa, NUMBER, name) for every type of weight the engine reads. */
#define QW_FLOAT_TYPES(X, isa) X(isa, QW_F32, f32) X(isa, QW_F16, f16) X(isa, QW_BF16, bf16)
#define QW_QUANTIZED_TYPES(X, isa)                                                                          \
    X(isa, QW_Q4_0, q4_0) X(isa, QW_Q4_1, q4_1) X(isa, QW_Q5_0, q5_0) X(isa, QW_Q5_1, q5_1)                 \
    X(isa, QW_Q8_0, q8_0) X(isa, QW_IQ4_NL, iq4_nl)                                                         \
    X(isa, QW_Q3_K, q3_k) X(isa, QW_Q4_K, q4_k) X(isa, QW_Q5_K, q5_k) X(isa, QW_Q6_K, q6_k)                 \
    X(isa, QW_IQ4_XS, iq4_xs)
#define QW_WEIGHT_TYPES(X, isa) QW_FLOAT_TYPES(X, isa) QW_QUANTIZED_TYPES(X, isa)

#define QW_EXPAND_ARGS const void *w, size_t col_bytes, size_t n_cols, size_t n_k, int8_t *panel, float *scale
#define QW_GEMV_ARGS                                                                                        \
    const void *w, size_t col_bytes, size_t n_cols, size_t n_k, const qw_gemv_row *rows, size_t n_rows,     \
        float *y, size_t ld

#define QW_DECLARE_TYPE(isa, number, name)                                                                  \
    void qw_##isa##_expand_##name(QW_EXPAND_ARGS);                                                          \
    void qw_##isa##_gemv_##name(QW_GEMV_ARGS);

#define QW_DECLARE_QUANT_KERNELS(isa)                                                                       \
    QW_WEIGHT_TYPES(QW_DECLARE_TYPE, isa)                                                                   \
    void qw_##isa##_quantize_block(const float *x, size_t ld, size_t n_rows, size_t n_k, int8_t *q,         \
                                   float *meta);                                                            \
    void qw_##isa##_gemm_i8(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel,       \
                            const float *scale, float *c, bool first);                                      \
    void qw_##isa##_quantize_row(const float *x, size_t n_k, int8_t *q, float *d, float *sum);

#define QW_EXPAND_ENTRY(isa, number, name) [number] = qw_##isa##_expand_##name,
#define QW_GEMV_ENTRY(isa, number, name) [number] = qw_##isa##_gemv_##name,

#define QW_P8_KERNELS(isa)                                                                                  \
    .quantize_block = qw_##isa##_quantize_block, .expand = {QW_WEIGHT_TYPES(QW_EXPAND_ENTRY, isa)},         \
    .gemm_i8 = qw_##isa##_gemm_i8

#define QW_GEMV_KERNELS(isa)                                                                                \
    .quantize_row = qw_##isa##_quantize_row, .gemv = {QW_WEIGHT_TYPES(QW_GEMV_ENTRY, isa)}

#define QW_QUANT_KERNELS(isa) QW_P8_KERNELS(isa), QW_GEMV_KERNELS(isa)

#endif
