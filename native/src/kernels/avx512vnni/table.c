/*
 * The avx512vnni set.
 */
#include "../vector/f32_table.h"
#include "../vector/quant_table.h"
#include "isa.h"

QW_DECLARE_QUANT_KERNELS(avx512vnni)

const qw_kernels qw_kernels_avx512vnni = {
    .isa = QW_ISA_STRING,
    .act_block_bytes = QW_BLOCK_ROWS * QW_BLOCK_K,
    QW_QUANT_KERNELS(avx512vnni),
    QW_F32_KERNELS(avx512vnni),
};
