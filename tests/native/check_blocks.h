/*
 * Random weight blocks of every type, with ordinary and hostile scales.
 */
#ifndef QW_CHECK_BLOCKS_H
#define QW_CHECK_BLOCKS_H

#include "check.h"

typedef enum check_style {
    STYLE_ORDINARY,
    STYLE_ZERO,     /* scales are 0, or float values are */
    STYLE_TINY,     /* the smallest subnormals */
    STYLE_LARGE,    /* the largest finite halves; 1e30 for F32 and BF16 */
    STYLE_EXTREMES, /* every packed value at an end of its range */
    STYLE_NAN,      /* one block's scale, or one value, is NaN */
    STYLE_INF,
    STYLE_COUNT
} check_style;

/* Fill one column of n_k values. */
void check_fill_column(check_random *r, uint32_t type, check_style style, void *column, size_t n_k);

/*
 * A bound of |w| that the scales and mins of the column imply, whatever its packed values are: what an
 * expander may divide by 127.
 */
float check_column_bound(uint32_t type, const void *column, size_t n_k);

/* The types, smallest number first, then QW_TYPE_COUNT. */
uint32_t check_next_type(uint32_t type);

#endif
