/*
 * The int8 GEMM of P8 with SDOT by lane, 8 rows x 8 columns x 256 k at a time, for Neoverse N1.
 *
 * Accumulators lR and hR hold row R x columns 0 - 3 and 4 - 7.  They start at the bits of 1.5 * 2^23:
 * |sum| <= 256 * 127 * 127 < 2^22, so an accumulator read as a float is exactly 1.5 * 2^23 + sum, and a
 * subtraction makes it the sum.  They run on past the first 128 k, where they are noted: the second half's sum is the
 * end less the note, and both get their activation scale.
 *
 * The loop is asm because compilers insert moves among 16 accumulators.
 */
#include "isa.h"

#define MAGIC_BITS 0x4B400000
#define MAGIC 12582912.0f

#define EIGHT_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Sixteen k: row R's in vR; of each four k, columns 0 - 3 in v8 or v10 and 4 - 7 in v9 or v11. */
#define START(r) "mov %[l" #r "].16b, %[magic].16b\n mov %[h" #r "].16b, %[magic].16b\n"
#define SDOT(r, low, high, lane)                                  \
    "sdot %[l" #r "].4s, " low ".16b, v" #r ".4b[" #lane "]\n"    \
    "sdot %[h" #r "].4s, " high ".16b, v" #r ".4b[" #lane "]\n"
#define FOUR_K(low, high, lane)                                                                             \
    SDOT(0, low, high, lane) SDOT(1, low, high, lane) SDOT(2, low, high, lane) SDOT(3, low, high, lane)     \
    SDOT(4, low, high, lane) SDOT(5, low, high, lane) SDOT(6, low, high, lane) SDOT(7, low, high, lane)

#define LOOP(label)                             \
    "mov %[steps], %[half_steps]\n"             \
    label ":\n"                                 \
    "ldp q8, q9, [%[w]], #32\n"                 \
    "ldp q0, q1, [%[a]], #32\n"                 \
    "ldp q2, q3, [%[a]], #32\n"                 \
    "ldp q4, q5, [%[a]], #32\n"                 \
    "ldp q6, q7, [%[a]], #32\n"                 \
    "ldp q10, q11, [%[w]], #32\n"               \
    FOUR_K("v8", "v9", 0)                       \
    "ldp q8, q9, [%[w]], #32\n"                 \
    FOUR_K("v10", "v11", 1)                     \
    "ldp q10, q11, [%[w]], #32\n"               \
    FOUR_K("v8", "v9", 2)                       \
    FOUR_K("v10", "v11", 3)                     \
    "subs %[steps], %[steps], #1\n"             \
    "b.ne " label "b\n"
#define NOTE(r) "stp %q[l" #r "], %q[h" #r "], [%[note], #32 * " #r "]\n"

/* 8 rows x 8 columns of a tile: tile (+)= (a . w) * as * ws. */
static inline void tile_8x8(const int8_t *a, const float *as, const int8_t *w, const float *ws, float *tile,
                            const bool first) {
    int32x4_t l0, l1, l2, l3, l4, l5, l6, l7, h0, h1, h2, h3, h4, h5, h6, h7;
    float note[64] __attribute__((aligned(16)));
    size_t steps;

    __asm__ volatile(
        EIGHT_ROWS(START)
        LOOP("1")
        EIGHT_ROWS(NOTE)
        LOOP("2")
        : [l0] "=&w"(l0), [l1] "=&w"(l1), [l2] "=&w"(l2), [l3] "=&w"(l3),
          [l4] "=&w"(l4), [l5] "=&w"(l5), [l6] "=&w"(l6), [l7] "=&w"(l7),
          [h0] "=&w"(h0), [h1] "=&w"(h1), [h2] "=&w"(h2), [h3] "=&w"(h3),
          [h4] "=&w"(h4), [h5] "=&w"(h5), [h6] "=&w"(h6), [h7] "=&w"(h7),
          [a] "+r"(a), [w] "+r"(w), [steps] "=&r"(steps)
        : [magic] "w"(vdupq_n_s32(MAGIC_BITS)), [note] "r"(note), [half_steps] "i"(QW_ACT_K / 16)
        : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "cc", "memory");

    const float32x4_t magic = vdupq_n_f32(MAGIC);
    const float32x4_t w_low = vld1q_f32(ws), w_high = vld1q_f32(ws + 4);

#define FINISH_HALF(out, t, noted, w, r)                                                           \
    {                                                                                              \
        float32x4_t half = vld1q_f32(noted);                                                       \
        float32x4_t rest = vmulq_n_f32(vsubq_f32(vreinterpretq_f32_s32(t), half), as[16 + r]);     \
        float32x4_t sum = vfmaq_n_f32(rest, vsubq_f32(half, magic), as[r]);                        \
        vst1q_f32(out, first ? vmulq_f32(sum, w) : vfmaq_f32(vld1q_f32(out), sum, w));             \
    }
#define FINISH(r)                                                                                  \
    FINISH_HALF(tile + QW_PANEL_COLS * r, l##r, note + 8 * r, w_low, r)                            \
    FINISH_HALF(tile + QW_PANEL_COLS * r + 4, h##r, note + 8 * r + 4, w_high, r)
    EIGHT_ROWS(FINISH)
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
