/*
 * GEMV of the types that have no NEON source of their own: the shared one, which compilers turn into SDOT.
 */
#include "isa.h"

#include "../vector/dot.h"

#include "../vector/gemv.h"

QW_DEFINE_GEMV(q4_0)
QW_DEFINE_GEMV(q4_1)
QW_DEFINE_GEMV(q5_0)
QW_DEFINE_GEMV(q5_1)
QW_DEFINE_GEMV(q3_k)
QW_DEFINE_GEMV(iq4_nl)
QW_DEFINE_GEMV(iq4_xs)
QW_DEFINE_GEMV_FLOATS(f32, float)
QW_DEFINE_GEMV_FLOATS(f16, uint16_t)
QW_DEFINE_GEMV_FLOATS(bf16, uint16_t)
