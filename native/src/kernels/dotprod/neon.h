/*
 * What the NEON sources of both Arm sets share.  Like every header of this folder it is compiled once per
 * set, after that set's isa.h, which says where values go.
 */
#ifndef QW_NEON_H
#define QW_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "isa.h"

/* A half float's value. */
QW_INLINE float qw_half(uint16_t bits) {
    __fp16 h;
    memcpy(&h, &bits, sizeof h);
    return h;
}

/* Eight half floats, stride bytes apart. */
QW_INLINE void qw_halves(const void *first, size_t stride, float32x4_t out[2]) {
    const uint8_t *p = first;
    uint16_t h[8];

    for (size_t i = 0; i < 8; i++)
        memcpy(&h[i], p + i * stride, sizeof *h);
    float16x8_t all = vreinterpretq_f16_u16(vld1q_u16(h));
    out[0] = vcvt_f32_f16(vget_low_f16(all));
    out[1] = vcvt_high_f32_f16(all);
}

/* Eight floats rounded to int16, saturating. */
QW_INLINE int16x8_t qw_round_s16(float32x4_t x0, float32x4_t x1) {
    return vqmovn_high_s32(vqmovn_s32(vcvtnq_s32_f32(x0)), vcvtnq_s32_f32(x1));
}

/* The low bytes of sixteen int16. */
QW_INLINE int8x16_t qw_narrow_s16(int16x8_t x0, int16x8_t x1) {
    return vuzp1q_s8(vreinterpretq_s8_s16(x0), vreinterpretq_s8_s16(x1));
}

/* x[0, 16) * factor, rounded; the products fit an int8. */
QW_INLINE int8x16_t qw_quantize_16(const float *x, float factor) {
    int16x8_t q[2];

    for (size_t i = 0; i < 2; i++)
        q[i] = vuzp1q_s16(vreinterpretq_s16_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i), factor))),
                          vreinterpretq_s16_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i + 4), factor))));
    return qw_narrow_s16(q[0], q[1]);
}

QW_INLINE void qw_widen_s16(int16x8_t x, float32x4_t out[2]) {
    out[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(x)));
    out[1] = vcvtq_f32_s32(vmovl_high_s16(x));
}

/*
 * The block at p, which covers 256 values in whole_bytes, or, when only n_bytes of it exist, a copy of those
 * in spare and zeros after them.
 */
QW_INLINE const void *qw_whole(const void *p, size_t n_bytes, size_t whole_bytes, uint8_t *spare) {
    if (n_bytes >= whole_bytes)
        return p;
    memcpy(spare, p, n_bytes);
    memset(spare + n_bytes, 0, whole_bytes - n_bytes);
    return spare;
}

#endif
