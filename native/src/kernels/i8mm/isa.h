/* The i8mm set (Neoverse V1 and V2): where its layouts put values, as SMMLA wants them. */
#ifndef QW_ISA_H
#define QW_ISA_H

#include <arm_neon.h>

#define QW_ISA i8mm
#define QW_VL 4
#include "../vector/isa_common.h"

enum { QW_UNIT = 2 }; /* columns that an expander stores together */

/* Panel: [column group of 8][k / 8][column pair][2][8].  A unit's values begin here; k's are 8 k bytes on. */
QW_INLINE int8_t *qw_unit(int8_t *panel, size_t unit) {
    return panel + unit / 4 * 8 * QW_BLOCK_K + unit % 4 * 16;
}

/* Sixteen k values, from out's k on, of the two columns of a unit. */
QW_INLINE void qw_store_unit(int8_t *out, const int8x16_t column[QW_UNIT]) {
    int64x2_t c0 = vreinterpretq_s64_s8(column[0]), c1 = vreinterpretq_s64_s8(column[1]);

    vst1q_s8(out, vreinterpretq_s8_s64(vzip1q_s64(c0, c1)));
    vst1q_s8(out + 64, vreinterpretq_s8_s64(vzip2q_s64(c0, c1)));
}

/* Panel scales: [column]. */
QW_INLINE void qw_store_scales(float *scale, size_t unit, const float column[QW_UNIT]) {
    vst1_f32(scale + 2 * unit, vld1_f32(column));
}

/* Activation block: [k / 8][row pair][2][8].  Sixteen k values of one row. */
QW_INLINE void qw_store_activations(int8_t *q, size_t row, size_t k, int8x16_t values) {
    vst1_s8(q + k * 8 + row * 8, vget_low_s8(values));
    vst1_s8(q + k * 8 + row * 8 + 64, vget_high_s8(values));
}

/* Activation scales: [k / 128][row pair][r0, r0, r1, r1]. */
QW_INLINE void qw_store_row_scale(float *meta, size_t row, size_t k, float scale) {
    meta += k / QW_ACT_K * 16;
    meta[2 * row] = meta[2 * row + 1] = scale;
}

#endif
