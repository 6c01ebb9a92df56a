/*
 * GEMV of the types with one scale per 16 values.
 */
#include "gemv_neon.h"
#include "unpack_16.h"

QW_DECLARE_QUANT_KERNELS(dotprod)

QW_DEFINE_GEMV_16(q6_k)
QW_DEFINE_GEMV_16(q3_k)
