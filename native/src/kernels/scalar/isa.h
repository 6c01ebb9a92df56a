/* plain C, the reference. */
#ifndef QW_ISA_H
#define QW_ISA_H

#define QW_ISA scalar
#define QW_VL 1
#include "../vector/isa_common.h"

#endif
