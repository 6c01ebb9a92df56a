/*
 * The plain-loop rounding of an unpacked block to int8 under one scale, for expand.h.
 */
#ifndef QW_ROUND_BLOCKS_H
#define QW_ROUND_BLOCKS_H

#include "round.h"
#include "unpack.h"

QW_INLINE float round_unpacked(const qw_unpacked *u, qw_range range, int8_t *q) {
    float x[QW_BLOCK_K];
    (void)range;
    for (int g = 0; g < QW_BLOCK_K / 16; g++)
        for (int i = 0; i < 16; i++)
            x[16 * g + i] = u->scale[g] * (float)u->q[16 * g + i] - u->min[g / 2];
    return round_floats(x, QW_BLOCK_K, q);
}

#endif
