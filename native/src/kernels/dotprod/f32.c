/* The f32 kernels of this set: the shared vector sources at its width. */
#include "isa.h"

#include "../vector/f32_activation.h"
#include "../vector/f32_attention.h"
#include "../vector/f32_conv.h"
#include "../vector/f32_delta_chunk.h"
#include "../vector/f32_delta_step.h"
#include "../vector/f32_gemm.h"
#include "../vector/f32_half.h"
#include "../vector/f32_norm.h"
