/*
 * Weight types by number, and half floats one at a time.
 */
#include "quant.h"

#include <string.h>

const int8_t qw_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static const qw_type_info types[QW_TYPE_COUNT] = {
    [QW_F32] = {"F32", 1, 4},
    [QW_F16] = {"F16", 1, 2},
    [QW_BF16] = {"BF16", 1, 2},
    [QW_Q4_0] = {"Q4_0", 32, sizeof(block_q4_0)},
    [QW_Q4_1] = {"Q4_1", 32, sizeof(block_q4_1)},
    [QW_Q5_0] = {"Q5_0", 32, sizeof(block_q5_0)},
    [QW_Q5_1] = {"Q5_1", 32, sizeof(block_q5_1)},
    [QW_Q8_0] = {"Q8_0", 32, sizeof(block_q8_0)},
    [QW_IQ4_NL] = {"IQ4_NL", 32, sizeof(block_iq4_nl)},
    [QW_Q3_K] = {"Q3_K", 256, sizeof(block_q3_k)},
    [QW_Q4_K] = {"Q4_K", 256, sizeof(block_q4_k)},
    [QW_Q5_K] = {"Q5_K", 256, sizeof(block_q5_k)},
    [QW_Q6_K] = {"Q6_K", 256, sizeof(block_q6_k)},
    [QW_IQ4_XS] = {"IQ4_XS", 256, sizeof(block_iq4_xs)},
};

/* The blocks are read straight from the file, so nothing may be padded. */
_Static_assert(sizeof(block_q4_0) == 18 && sizeof(block_q4_1) == 20, "Q4_0 or Q4_1 is padded");
_Static_assert(sizeof(block_q5_0) == 22 && sizeof(block_q5_1) == 24, "Q5_0 or Q5_1 is padded");
_Static_assert(sizeof(block_q8_0) == 34 && sizeof(block_iq4_nl) == 18, "Q8_0 or IQ4_NL is padded");
_Static_assert(sizeof(block_q3_k) == 110 && sizeof(block_q4_k) == 144, "Q3_K or Q4_K is padded");
_Static_assert(sizeof(block_q5_k) == 176 && sizeof(block_q6_k) == 210, "Q5_K or Q6_K is padded");
_Static_assert(sizeof(block_iq4_xs) == 136, "IQ4_XS is padded");

const qw_type_info *qw_type_get(uint32_t type) {
    static const qw_type_info unknown = {0};
    return type < QW_TYPE_COUNT ? &types[type] : &unknown;
}

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float qw_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;

    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24 is exact */
        float f = (float)fraction * 0x1p-24f;
        return sign ? -f : f;
    }
    if (exponent == 31)
        return from_bits(sign | 0x7f800000 | fraction << 13);
    return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t qw_f32_to_f16(float f) {
    uint32_t bits = to_bits(f), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (magnitude > 0x7f800000) /* NaN stays NaN and becomes quiet */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x477ff000) /* 65520 and up round to infinity */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 leaves multiples of 2^-24, rounded to even, at the end */
        float shifted = from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (to_bits(shifted) - 0x3f000000));
    }
    uint32_t odd = magnitude >> 13 & 1;
    return (uint16_t)(sign | ((magnitude - (112u << 23) + 0xfff + odd) >> 13));
}
