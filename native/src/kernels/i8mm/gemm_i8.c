/*
 * The int8 GEMM of P8 with SMMLA, 8 rows x 8 columns x 256 k at a time, for Neoverse V1 and V2.
 *
 * SMMLA multiplies two rows by two columns over eight k, so accumulator tRC holds row pair R x column
 * pair C as [r0 c0, r0 c1, r1 c0, r1 c1].  Scales and tiles lie in that order too.
 *
 * Accumulators start at the bits of 1.5 * 2^23: |sum| <= 256 * 127 * 127 < 2^22, so an accumulator read as a float
 * is exactly 1.5 * 2^23 + sum, and a subtraction makes it the sum.  They run on past the first 128 k, where they are
 * noted: the second half's sum is the end less the note, and both get their activation scale.
 *
 * The loop is asm because compilers insert moves among 16 accumulators.
 */
#include <arm_neon.h>

#include "isa.h"

#define MAGIC_BITS 0x4B400000
#define MAGIC 12582912.0f

#define FOUR(X, c) X(0, c) X(1, c) X(2, c) X(3, c)
#define SIXTEEN(X) FOUR(X, 0) FOUR(X, 1) FOUR(X, 2) FOUR(X, 3)

#define START(r, c) "mov %[t" #r #c "].16b, %[magic].16b\n"
#define SMMLA(r, c, w) "smmla %[t" #r #c "].4s, v" #r ".16b, " w ".16b\n"
#define COLUMNS(c, w) SMMLA(0, c, w) SMMLA(1, c, w) SMMLA(2, c, w) SMMLA(3, c, w)
#define EIGHT_K                 \
    "ldp q4, q5, [%[w]], #32\n" \
    "ldp q0, q1, [%[a]], #32\n" \
    "ldp q2, q3, [%[a]], #32\n" \
    "ldp q6, q7, [%[w]], #32\n" \
    COLUMNS(0, "v4") COLUMNS(1, "v5") COLUMNS(2, "v6") COLUMNS(3, "v7")

#define LOOP(label)                             \
    "mov %[steps], %[half_steps]\n"             \
    label ":\n"                                 \
    EIGHT_K EIGHT_K                             \
    "subs %[steps], %[steps], #1\n"             \
    "b.ne " label "b\n"
#define NOTE(r, offset)                                                      \
    "stp %q[t" #r "0], %q[t" #r "1], [%[note], #" #offset "]\n"              \
    "stp %q[t" #r "2], %q[t" #r "3], [%[note], #" #offset " + 32]\n"

/* 8 rows x 8 columns of a tile: tile (+)= (a . w) * as * ws. */
static inline void tile_8x8(const int8_t *a, const float *as, const int8_t *w, const float *ws, float *tile,
                            const bool first) {
    int32x4_t t00, t01, t02, t03, t10, t11, t12, t13, t20, t21, t22, t23, t30, t31, t32, t33;
    float note[64] __attribute__((aligned(16)));
    size_t steps;

    __asm__ volatile(
        SIXTEEN(START)
        LOOP("1")
        NOTE(0, 0) NOTE(1, 64) NOTE(2, 128) NOTE(3, 192)
        LOOP("2")
        : [t00] "=&w"(t00), [t01] "=&w"(t01), [t02] "=&w"(t02), [t03] "=&w"(t03),
          [t10] "=&w"(t10), [t11] "=&w"(t11), [t12] "=&w"(t12), [t13] "=&w"(t13),
          [t20] "=&w"(t20), [t21] "=&w"(t21), [t22] "=&w"(t22), [t23] "=&w"(t23),
          [t30] "=&w"(t30), [t31] "=&w"(t31), [t32] "=&w"(t32), [t33] "=&w"(t33),
          [a] "+r"(a), [w] "+r"(w), [steps] "=&r"(steps)
        : [magic] "w"(vdupq_n_s32(MAGIC_BITS)), [note] "r"(note), [half_steps] "i"(QW_ACT_K / 16)
        : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "cc", "memory");

    const float32x4_t magic = vdupq_n_f32(MAGIC), w_low = vld1q_f32(ws), w_high = vld1q_f32(ws + 4);

/* The sums of row pair r x column pair c, scaled for their rows. */
#define SUM(r, c)                                                                                                    \
    vfmaq_f32(vmulq_f32(vsubq_f32(vreinterpretq_f32_s32(t##r##c), vld1q_f32(note + 16 * r + 4 * c)), late),           \
              vsubq_f32(vld1q_f32(note + 16 * r + 4 * c), magic), early)
#define STORE(out, sum, w) vst1q_f32(out, first ? vmulq_f32(sum, w) : vfmaq_f32(vld1q_f32(out), sum, w))
/* Two column pairs of a row pair are four columns of each of its rows. */
#define FINISH_HALF(r, c0, c1, out, w)                                                                               \
    {                                                                                                                \
        const float64x2_t left = vreinterpretq_f64_f32(SUM(r, c0)), right = vreinterpretq_f64_f32(SUM(r, c1));       \
        STORE(out, vreinterpretq_f32_f64(vzip1q_f64(left, right)), w);                                               \
        STORE(out + QW_PANEL_COLS, vreinterpretq_f32_f64(vzip2q_f64(left, right)), w);                               \
    }
#define FINISH(r)                                                                                                    \
    {                                                                                                                \
        const float32x4_t early = vld1q_f32(as + 4 * r), late = vld1q_f32(as + 16 + 4 * r);                          \
        float *out = tile + 2 * r * QW_PANEL_COLS;                                                                   \
        FINISH_HALF(r, 0, 1, out, w_low)                                                                             \
        FINISH_HALF(r, 2, 3, out + 4, w_high)                                                                        \
    }
    FINISH(0) FINISH(1) FINISH(2) FINISH(3)
}

static inline void gemm(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel,
                        const float *scale, float *c, const bool first) {
    for (size_t b = 0; b < n_blocks; b++, q += QW_BLOCK_ROWS * QW_BLOCK_K, meta += QW_ACT_META, c += QW_TILE)
        for (size_t g = 0; g < QW_PANEL_COLS / 8; g++) /* the panel stays in L1 */
            tile_8x8(q, meta, panel + g * 8 * QW_BLOCK_K, scale + 8 * g, c + 8 * g, first);
}

void QW_NAME(gemm_i8)(const int8_t *q, const float *meta, size_t n_blocks, const int8_t *panel,
                      const float *scale, float *c, bool first) {
    if (first)
        gemm(q, meta, n_blocks, panel, scale, c, true);
    else
        gemm(q, meta, n_blocks, panel, scale, c, false);
}
