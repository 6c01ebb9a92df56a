/*
 * Names that depend on the instruction set a file is compiled for.
 *
 * A folder's isa.h defines QW_ISA (the folder's name) and QW_VL (f32 lanes of its vectors), then
 * includes this.  QW_NAME(gemm_i8) is then qw_avx2_gemm_i8 in avx2/.
 */
#ifndef QW_ISA_COMMON_H
#define QW_ISA_COMMON_H

#include "../kernels.h"

#define QW_NAME_OF(isa, fn) qw_##isa##_##fn
#define QW_NAME_IN(isa, fn) QW_NAME_OF(isa, fn)
#define QW_NAME(fn) QW_NAME_IN(QW_ISA, fn)

#define QW_STRING_OF(isa) #isa
#define QW_STRING_IN(isa) QW_STRING_OF(isa)
#define QW_ISA_STRING QW_STRING_IN(QW_ISA)

#define QW_INLINE static inline __attribute__((always_inline))

#endif
