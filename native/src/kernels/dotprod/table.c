/*
 * The dotprod set: Neoverse N1 and every later Arm core.
 */
#include "../vector/f32_table.h"
#include "../vector/quant_table.h"
#include "isa.h"

QW_DECLARE_QUANT_KERNELS(dotprod)

const qw_kernels qw_kernels_dotprod = {
    .isa = QW_ISA_STRING,
    .act_block_bytes = QW_BLOCK_ROWS * QW_BLOCK_K,
    QW_QUANT_KERNELS(dotprod),
    QW_F32_KERNELS(dotprod),
};
