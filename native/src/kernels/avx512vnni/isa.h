/* AVX-512 F, BW, VL, DQ and VNNI: x86-64 servers since 2019. */
#ifndef QW_ISA_H
#define QW_ISA_H

#define QW_ISA avx512vnni
#define QW_VL 16
#include "../vector/isa_common.h"

#endif
