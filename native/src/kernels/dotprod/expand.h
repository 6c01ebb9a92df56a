/*
 * Every expander of an Arm set, in the layout of the isa.h included before.
 */
#include "expand_float.h"
#include "expand_ratio.h"
#include "expand_table.h"
