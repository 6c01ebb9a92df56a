/*
 * GEMV of the types with one scale per 16 values.
 */
#include "gemv_neon.h"

QW_DECLARE_QUANT_KERNELS(dotprod)

QW_DEFINE_NEON_GEMV(q6_k, qw_gemv_16, qw_scales_q6_k, qw_load_q6_k, QW_BYTES_q6_k)
QW_DEFINE_NEON_GEMV(q3_k, qw_gemv_16, qw_scales_q3_k, qw_load_q3_k, QW_BYTES_q3_k)
