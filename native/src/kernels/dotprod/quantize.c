/*
 * Activations to int8: P8 blocks in the dotprod set's layout, and the GEMV's rows.
 */
#include "quantize_block.h"

#include "../vector/quantize.h"
