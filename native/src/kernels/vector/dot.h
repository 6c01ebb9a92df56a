/*
 * The plain-loop product of an unpacked block and a quantized row, for gemv.h.
 */
#ifndef QW_DOT_H
#define QW_DOT_H

#include "unpack.h"

typedef float dot_sum;

QW_INLINE dot_sum dot_block(dot_sum total, const qw_unpacked *u, qw_range range, const int8_t *q, const float *d,
                            const float *group_sum) {
    (void)range;
    for (size_t g = 0; g < QW_BLOCK_K / QW_ACT_GROUP; g++) {
        int32_t first = 0, second = 0;
        for (size_t i = 32 * g; i < 32 * g + 16; i++) {
            first += u->q[i] * q[i];
            second += u->q[i + 16] * q[i + 16];
        }
        float sum = u->scale[2 * g] * (float)first + u->scale[2 * g + 1] * (float)second;
        total += sum * d[g] - u->min[g] * group_sum[g];
    }
    return total;
}

QW_INLINE float dot_total(dot_sum sum) {
    return sum;
}

#endif
