/*
 * P8's activation blocks in the i8mm set's layout.
 */
#include "isa.h"

#include "../dotprod/quantize_block.h"
