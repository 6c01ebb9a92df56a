/*
 * Floats to int8 under one scale, max |x| / 127, in plain loops that a compiler vectorizes.
 */
#ifndef QW_ROUND_H
#define QW_ROUND_H

#include <math.h>

#include "weights.h"

#define ROUND_FLOOR_BITS 0x0d800000u /* 2^-100: keeps 127 / max finite; values far below it become zeros */
#define ROUND_INF_BITS 0x7f800000u
#define ROUND_MAGIC 0x1.8p23f /* x + magic has the nearest integer to x in its low bits */

QW_INLINE uint32_t round_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The bits of max |x| order as the numbers do, and are ROUND_INF_BITS or more when an x is not finite. */
QW_INLINE uint32_t round_max_bits(const float *x, size_t n) {
    uint32_t max = ROUND_FLOOR_BITS;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = round_bits(x[i]) & 0x7fffffff;
        max = bits > max ? bits : max;
    }
    return max;
}

/* Returns the scale, NaN when an x is not finite; then every q is 0. */
QW_INLINE float round_floats(const float *x, size_t n, int8_t *q) {
    uint32_t max_bits = round_max_bits(x, n);
    if (max_bits >= ROUND_INF_BITS) {
        memset(q, 0, n);
        return NAN;
    }
    float max;
    memcpy(&max, &max_bits, sizeof max);
    float inverse = 127.0f / max;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)(round_bits(x[i] * inverse + ROUND_MAGIC) & 0xff);
    return max * (1.0f / 127.0f);
}

#endif
