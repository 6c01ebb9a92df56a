/* The dotprod set (Neoverse N1): where its layouts put values, as SDOT by lane wants them. */
#ifndef QW_ISA_H
#define QW_ISA_H

#include <arm_neon.h>

#define QW_ISA dotprod
#define QW_VL 4
#include "../vector/isa_common.h"

enum { QW_UNIT = 4 }; /* columns that an expander stores together */

/* Panel: [column group of 8][k / 4][column][4].  A unit's values begin here; k's are 8 k bytes on. */
QW_INLINE int8_t *qw_unit(int8_t *panel, size_t unit) {
    return panel + unit / 2 * 8 * QW_BLOCK_K + unit % 2 * 16;
}

/* Sixteen k values, from out's k on, of the four columns of a unit: a transposition of 4 x 4 words. */
QW_INLINE void qw_store_unit(int8_t *out, const int8x16_t column[QW_UNIT]) {
    int32x4_t c0 = vreinterpretq_s32_s8(column[0]), c1 = vreinterpretq_s32_s8(column[1]);
    int32x4_t c2 = vreinterpretq_s32_s8(column[2]), c3 = vreinterpretq_s32_s8(column[3]);
    int64x2_t low01 = vreinterpretq_s64_s32(vzip1q_s32(c0, c1)), high01 = vreinterpretq_s64_s32(vzip2q_s32(c0, c1));
    int64x2_t low23 = vreinterpretq_s64_s32(vzip1q_s32(c2, c3)), high23 = vreinterpretq_s64_s32(vzip2q_s32(c2, c3));

    vst1q_s8(out, vreinterpretq_s8_s64(vzip1q_s64(low01, low23)));
    vst1q_s8(out + 32, vreinterpretq_s8_s64(vzip2q_s64(low01, low23)));
    vst1q_s8(out + 64, vreinterpretq_s8_s64(vzip1q_s64(high01, high23)));
    vst1q_s8(out + 96, vreinterpretq_s8_s64(vzip2q_s64(high01, high23)));
}

/* Panel scales: [column]. */
QW_INLINE void qw_store_scales(float *scale, size_t unit, const float column[QW_UNIT]) {
    vst1q_f32(scale + 4 * unit, vld1q_f32(column));
}

/* Activation block: [k / 16][row][16].  Sixteen k values of one row. */
QW_INLINE void qw_store_activations(int8_t *q, size_t row, size_t k, int8x16_t values) {
    vst1q_s8(q + k * 8 + row * 16, values);
}

/* Activation scales: [k / 128][row]. */
QW_INLINE void qw_store_row_scale(float *meta, size_t row, size_t k, float scale) {
    meta[k / QW_ACT_K * 16 + row] = scale;
}

#endif
