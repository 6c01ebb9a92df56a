/*
 * The quantized types for NEON, 256 values at a time, as w[i] = scale * q[i] - min.
 *
 * Of a type X, qw_scales_X gives the scales and mins, and qw_load_X gives q in four parts of four vectors.
 *
 *   unpack_32.h   groups of 32: lane i of scale[h] and of min[h] is group 4 h + i's; part p holds values
 *                 64 p .. 64 p + 63
 *   unpack_16.h   groups of 16: lane i of even[h] is group 8 h + 2 i's and of odd[h] the next one's; vector i
 *                 of part p is group 8 (p / 2) + 2 i + p % 2
 */
#ifndef QW_UNPACK_NEON_H
#define QW_UNPACK_NEON_H

#include "neon.h"

typedef void qw_scales_32(const void *block, float32x4_t scale[2], float32x4_t min[2]);
typedef void qw_scales_16(const void *block, float32x4_t even[2], float32x4_t odd[2]);
typedef void qw_load(const void *block, size_t part, int8x16_t q[4]);

/* Bytes of 256 values. */
enum {
    QW_BYTES_q4_0 = 8 * sizeof(block_q4_0),
    QW_BYTES_q4_1 = 8 * sizeof(block_q4_1),
    QW_BYTES_q5_0 = 8 * sizeof(block_q5_0),
    QW_BYTES_q5_1 = 8 * sizeof(block_q5_1),
    QW_BYTES_q8_0 = 8 * sizeof(block_q8_0),
    QW_BYTES_iq4_nl = 8 * sizeof(block_iq4_nl),
    QW_BYTES_iq4_xs = sizeof(block_iq4_xs),
    QW_BYTES_q3_k = sizeof(block_q3_k),
    QW_BYTES_q4_k = sizeof(block_q4_k),
    QW_BYTES_q5_k = sizeof(block_q5_k),
    QW_BYTES_q6_k = sizeof(block_q6_k),
    QW_BYTES_MOST = QW_BYTES_q8_0
};

#endif
