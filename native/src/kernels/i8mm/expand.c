/*
 * P8's expanders in the i8mm set's layout.
 */
#include "isa.h"

#include "../dotprod/expand.h"
