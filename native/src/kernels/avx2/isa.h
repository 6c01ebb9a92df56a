/* AVX2, FMA, F16C and BMI2: x86-64 machines since 2013. */
#ifndef QW_ISA_H
#define QW_ISA_H

#define QW_ISA avx2
#define QW_VL 8
#include "../vector/isa_common.h"

#endif
