/*
 * One f32 vector of QW_VL lanes and what the kernels do with it.
 *
 * vf_fma() names the fused instruction where the compiler could choose which of two products to
 * fuse: a sum must round alike wherever it is written.
 */
#ifndef QW_F32_VEC_H
#define QW_F32_VEC_H

#include <string.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "f32_table.h"

typedef float vf __attribute__((vector_size(4 * QW_VL)));
typedef int32_t vi __attribute__((vector_size(4 * QW_VL)));
typedef float vf_unaligned __attribute__((vector_size(4 * QW_VL), aligned(4), may_alias));

QW_INLINE vf vf_load(const float *p) {
    return *(const vf_unaligned *)p;
}

QW_INLINE void vf_store(float *p, vf x) {
    *(vf_unaligned *)p = x;
}

/* The first n <= QW_VL lanes; the others are zeros.  With a constant n these are vf_load and vf_store. */
QW_INLINE vf vf_load_n(const float *p, size_t n) {
    vf x = {0};

    memcpy(&x, p, 4 * n);
    return x;
}

QW_INLINE void vf_store_n(float *p, vf x, size_t n) {
    memcpy(p, &x, 4 * n);
}

#if defined(__aarch64__)

QW_INLINE vf vf_splat(float x) {
    return vdupq_n_f32(x);
}

/* a * b + c, rounded once. */
QW_INLINE vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}

/* A NaN in x comes through these two. */
QW_INLINE vf vf_max(vf x, vf least) {
    return vmaxq_f32(x, least);
}

QW_INLINE vf vf_min(vf x, vf most) {
    return vminq_f32(x, most);
}

/* 1 / x for 2^-126 < x < 2^126: an estimate and two Newton steps, cheaper than a division here. */
QW_INLINE vf vf_reciprocal(vf x) {
    vf y = vrecpeq_f32(x);

    y *= vrecpsq_f32(x, y);
    return y * vrecpsq_f32(x, y);
}

#else

#if QW_VL == 16
#define QW_X86(name) _mm512_##name
#else
#define QW_X86(name) _mm256_##name
#endif

QW_INLINE vf vf_splat(float x) {
    return QW_X86(set1_ps)(x);
}

QW_INLINE vf vf_fma(vf a, vf b, vf c) {
    return QW_X86(fmadd_ps)(a, b, c);
}

QW_INLINE vf vf_max(vf x, vf least) {
    return QW_X86(max_ps)(least, x);
}

QW_INLINE vf vf_min(vf x, vf most) {
    return QW_X86(min_ps)(most, x);
}

QW_INLINE vf vf_reciprocal(vf x) {
    return 1 / x;
}

#endif

/* Four lanes, whatever the set: a transposition of 4 x 4 is the same everywhere. */
typedef float vf4 __attribute__((vector_size(16)));

QW_INLINE vf4 vf4_zip_low(vf4 a, vf4 b) { /* a0 b0 a1 b1 */
#if defined(__aarch64__)
    return vzip1q_f32(a, b);
#else
    return _mm_unpacklo_ps(a, b);
#endif
}

QW_INLINE vf4 vf4_zip_high(vf4 a, vf4 b) { /* a2 b2 a3 b3 */
#if defined(__aarch64__)
    return vzip2q_f32(a, b);
#else
    return _mm_unpackhi_ps(a, b);
#endif
}

QW_INLINE float vf_sum(vf x) {
    for (size_t half = QW_VL / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
}

QW_INLINE float vf_largest(vf x) {
    for (size_t half = QW_VL / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
}

/*
 * e^x: 2^n * p(r), n = round(x / ln 2), |r| <= ln 2 / 2, within 3e-7.  Never inf, 0 below the smallest
 * normal number, 1 at 0, NaN at NaN.  The magic constant rounds, and leaves n + 127 in the low bits.
 */
QW_INLINE vf vf_exp_within(vf x) { /* -87 <= x <= 88 */
    const vf magic = vf_splat(12582912.0f + 127);
    vf t = vf_fma(x, vf_splat(1.44269504f), magic);
    vf r = vf_fma(t - magic, vf_splat(-0.693147182f), x);
    vf p01 = vf_fma(r, vf_splat(9.99999702e-1f), vf_splat(1));
    vf p23 = vf_fma(r, vf_splat(1.66676447e-1f), vf_splat(4.99991417e-1f));
    vf p45 = vf_fma(r, vf_splat(8.29014461e-3f), vf_splat(4.18988504e-2f));
    vf r2 = r * r;

    return vf_fma(vf_fma(p45, r2, p23), r2, p01) * (vf)((vi)t << 23);
}

QW_INLINE vf vf_exp(vf x) {
    const vf least = vf_splat(-87.3f);

    return (vf)((vi)vf_exp_within(vf_min(x, vf_splat(88))) & ~(x < least));
}

/* 1 / (1 + e^-x), within 5e-7; never 0 or inf. */
QW_INLINE vf vf_sigmoid(vf x) {
    return vf_reciprocal(1 + vf_exp_within(-vf_min(vf_max(x, vf_splat(-87)), vf_splat(87))));
}

/* x sigmoid(x); x clamped at -87, where the result has long been 0 to f32's precision. */
QW_INLINE vf vf_silu(vf x) {
    x = vf_max(x, vf_splat(-87));
    return x * vf_reciprocal(1 + vf_exp_within(-vf_min(x, vf_splat(87))));
}

#endif
