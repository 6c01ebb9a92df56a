/*
 * The i8mm set: Neoverse V1 and V2.  Its GEMV is dotprod's, which memory bounds and which reads no layout
 * but the file's.
 */
#include "../vector/f32_table.h"
#include "../vector/quant_table.h"
#include "isa.h"

QW_DECLARE_QUANT_KERNELS(dotprod)
QW_DECLARE_QUANT_KERNELS(i8mm)

const qw_kernels qw_kernels_i8mm = {
    .isa = QW_ISA_STRING,
    .act_block_bytes = QW_BLOCK_ROWS * QW_BLOCK_K,
    QW_P8_KERNELS(i8mm),
    QW_GEMV_KERNELS(dotprod),
    QW_F32_KERNELS(i8mm),
};
