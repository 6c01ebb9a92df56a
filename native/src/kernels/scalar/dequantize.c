/*
 * Blocks to floats, bit for bit: (d * scale) * q - (dmin * min), each product rounded once.
 *
 * Compiled with -ffp-contract=off, because a fused multiply-subtract gives other bits.
 */
#include <string.h>

#include "../kernels.h"

static void dequantize_f32(const void *w, size_t n, float *y) {
    memcpy(y, w, n * sizeof *y);
}

static void dequantize_f16(const void *w, size_t n, float *y) {
    const uint16_t *h = w;
    for (size_t i = 0; i < n; i++)
        y[i] = qw_f16_to_f32(h[i]);
}

static void dequantize_bf16(const void *w, size_t n, float *y) {
    const uint16_t *h = w;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)h[i] << 16;
        memcpy(&y[i], &bits, sizeof bits);
    }
}

static void dequantize_q4_0(const void *w, size_t n, float *y) {
    for (const block_q4_0 *b = w, *end = b + n / 32; b < end; b++, y += 32) {
        float d = qw_f16_to_f32(b->d);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)((b->q[i] & 15) - 8);
            y[i + 16] = d * (float)((b->q[i] >> 4) - 8);
        }
    }
}

static void dequantize_q4_1(const void *w, size_t n, float *y) {
    for (const block_q4_1 *b = w, *end = b + n / 32; b < end; b++, y += 32) {
        float d = qw_f16_to_f32(b->d), m = qw_f16_to_f32(b->m);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)(b->q[i] & 15) + m;
            y[i + 16] = d * (float)(b->q[i] >> 4) + m;
        }
    }
}

/* The fifth bit of value i, in place. */
static int fifth(const uint8_t high[4], int i) {
    return (high[i / 8] >> i % 8 & 1) << 4;
}

static void dequantize_q5_0(const void *w, size_t n, float *y) {
    for (const block_q5_0 *b = w, *end = b + n / 32; b < end; b++, y += 32) {
        float d = qw_f16_to_f32(b->d);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)(((b->q[i] & 15) | fifth(b->high, i)) - 16);
            y[i + 16] = d * (float)((b->q[i] >> 4 | fifth(b->high, i + 16)) - 16);
        }
    }
}

static void dequantize_q5_1(const void *w, size_t n, float *y) {
    for (const block_q5_1 *b = w, *end = b + n / 32; b < end; b++, y += 32) {
        float d = qw_f16_to_f32(b->d), m = qw_f16_to_f32(b->m);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)((b->q[i] & 15) | fifth(b->high, i)) + m;
            y[i + 16] = d * (float)(b->q[i] >> 4 | fifth(b->high, i + 16)) + m;
        }
    }
}

static void dequantize_q8_0(const void *w, size_t n, float *y) {
    for (const block_q8_0 *b = w, *end = b + n / 32; b < end; b++, y += 32) {
        float d = qw_f16_to_f32(b->d);
        for (int i = 0; i < 32; i++)
            y[i] = d * (float)b->q[i];
    }
}

static void dequantize_iq4_nl(const void *w, size_t n, float *y) {
    for (const block_iq4_nl *b = w, *end = b + n / 32; b < end; b++, y += 32) {
        float d = qw_f16_to_f32(b->d);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)qw_iq4_values[b->q[i] & 15];
            y[i + 16] = d * (float)qw_iq4_values[b->q[i] >> 4];
        }
    }
}

/* Six bits each: four of scale j in byte j % 8 (lo below 8, then hi), two in byte 8 + j % 4 at 2 (j / 4). */
static int q3_k_scale(const uint8_t *s, int j) {
    int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
    return (low | (s[8 + j % 4] >> 2 * (j / 4) & 3) << 4) - 32;
}

static void dequantize_q3_k(const void *w, size_t n, float *y) {
    for (const block_q3_k *b = w, *end = b + n / 256; b < end; b++, y += 256) {
        float d = qw_f16_to_f32(b->d);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, k = e / 32 % 4, l = e % 32;
            int q = (b->low[32 * half + l] >> 2 * k & 3) - (b->high[l] >> (4 * half + k) & 1 ? 0 : 4);
            y[e] = d * (float)q3_k_scale(b->scales, e / 16) * (float)q;
        }
    }
}

/* Q4_K and Q5_K: six-bit scale and min of sub-block j. */
static void k_scale_min(const uint8_t *s, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

static void dequantize_q4_k(const void *w, size_t n, float *y) {
    for (const block_q4_k *b = w, *end = b + n / 256; b < end; b++) {
        float d = qw_f16_to_f32(b->d), dmin = qw_f16_to_f32(b->dmin);
        for (int j = 0; j < 8; j++, y += 32) {
            int scale, min;
            k_scale_min(b->scales, j, &scale, &min);
            float ds = d * (float)scale, dm = dmin * (float)min;
            for (int l = 0; l < 32; l++)
                y[l] = ds * (float)(b->q[32 * (j / 2) + l] >> 4 * (j % 2) & 15) - dm;
        }
    }
}

static void dequantize_q5_k(const void *w, size_t n, float *y) {
    for (const block_q5_k *b = w, *end = b + n / 256; b < end; b++) {
        float d = qw_f16_to_f32(b->d), dmin = qw_f16_to_f32(b->dmin);
        for (int j = 0; j < 8; j++, y += 32) {
            int scale, min;
            k_scale_min(b->scales, j, &scale, &min);
            float ds = d * (float)scale, dm = dmin * (float)min;
            for (int l = 0; l < 32; l++) {
                int low = b->q[32 * (j / 2) + l] >> 4 * (j % 2) & 15;
                int q = low | (b->high[l] >> j & 1) << 4;
                y[l] = ds * (float)q - dm;
            }
        }
    }
}

static void dequantize_q6_k(const void *w, size_t n, float *y) {
    for (const block_q6_k *b = w, *end = b + n / 256; b < end; b++, y += 256) {
        float d = qw_f16_to_f32(b->d);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, k = e / 32 % 4, l = e % 32;
            int low = b->low[64 * half + 32 * (k & 1) + l] >> 4 * (k / 2) & 15;
            int q = (low | (b->high[32 * half + l] >> 2 * k & 3) << 4) - 32;
            y[e] = d * (float)b->scales[e / 16] * (float)q;
        }
    }
}

static void dequantize_iq4_xs(const void *w, size_t n, float *y) {
    for (const block_iq4_xs *b = w, *end = b + n / 256; b < end; b++) {
        float d = qw_f16_to_f32(b->d);
        for (int j = 0; j < 8; j++, y += 32) {
            int low = b->scales_low[j / 2] >> 4 * (j % 2) & 15;
            float ds = d * (float)((low | (b->scales_high >> 2 * j & 3) << 4) - 32);
            for (int i = 0; i < 16; i++) {
                y[i] = ds * (float)qw_iq4_values[b->q[16 * j + i] & 15];
                y[i + 16] = ds * (float)qw_iq4_values[b->q[16 * j + i] >> 4];
            }
        }
    }
}

void qw_dequantize_row(uint32_t type, const void *blocks, size_t n, float *y) {
    static void (*const by_type[QW_TYPE_COUNT])(const void *, size_t, float *) = {
        [QW_F32] = dequantize_f32,       [QW_F16] = dequantize_f16,       [QW_BF16] = dequantize_bf16,
        [QW_Q4_0] = dequantize_q4_0,     [QW_Q4_1] = dequantize_q4_1,     [QW_Q5_0] = dequantize_q5_0,
        [QW_Q5_1] = dequantize_q5_1,     [QW_Q8_0] = dequantize_q8_0,     [QW_Q3_K] = dequantize_q3_k,
        [QW_Q4_K] = dequantize_q4_k,     [QW_Q5_K] = dequantize_q5_k,     [QW_Q6_K] = dequantize_q6_k,
        [QW_IQ4_NL] = dequantize_iq4_nl, [QW_IQ4_XS] = dequantize_iq4_xs,
    };
    by_type[type](blocks, n, y);
}
