/*
 * The avx2 set.
 */
#include "../vector/f32_table.h"
#include "../vector/quant_table.h"
#include "isa.h"

QW_DECLARE_QUANT_KERNELS(avx2)

const qw_kernels qw_kernels_avx2 = {
    .isa = QW_ISA_STRING,
    .act_block_bytes = QW_BLOCK_ROWS * QW_BLOCK_K * sizeof(int16_t),
    QW_QUANT_KERNELS(avx2),
    QW_F32_KERNELS(avx2),
};
