/*
 * P8's expanders in the dotprod set's layout.
 */
#include "expand.h"
