/*
 * The weight types a GGUF file may use, and how their blocks lie in memory.
 *
 * Layouts are those of the GGUF format: little endian, nothing padded, scales are IEEE
 * half floats unless said.  lo and hi are a byte's low and high four bits.
 */
#ifndef QW_QUANT_H
#define QW_QUANT_H

#include <stddef.h>
#include <stdint.h>

/* ggml's numbers. */
typedef enum qw_type {
    QW_F32 = 0,
    QW_F16 = 1,
    QW_Q4_0 = 2,
    QW_Q4_1 = 3,
    QW_Q5_0 = 6,
    QW_Q5_1 = 7,
    QW_Q8_0 = 8,
    QW_Q3_K = 11,
    QW_Q4_K = 12,
    QW_Q5_K = 13,
    QW_Q6_K = 14,
    QW_IQ4_NL = 20,
    QW_IQ4_XS = 23,
    QW_BF16 = 30,
    QW_TYPE_COUNT = 31 /* tables are indexed by type; unused numbers are empty */
} qw_type;

/* 32 values: y = d * (q - 8); byte j holds values j (lo) and 16 + j (hi). */
typedef struct { uint16_t d; uint8_t q[16]; } block_q4_0;
/* y = d * q + m. */
typedef struct { uint16_t d, m; uint8_t q[16]; } block_q4_1;
/* y = d * (q - 16); bit e of high is value e's fifth bit. */
typedef struct { uint16_t d; uint8_t high[4]; uint8_t q[16]; } block_q5_0;
/* y = d * q + m. */
typedef struct { uint16_t d, m; uint8_t high[4]; uint8_t q[16]; } block_q5_1;
/* y = d * q. */
typedef struct { uint16_t d; int8_t q[32]; } block_q8_0;
/* y = d * table[q]; packed as Q4_0. */
typedef struct { uint16_t d; uint8_t q[16]; } block_iq4_nl;

/*
 * 256 values, e = 128 n + 32 k + l.  q = (bits 2k, 2k + 1 of low[32 n + l]) - (bit 4n + k of high[l] ? 0 : 4);
 * y = d * scale[e / 16] * q, scales are six bits packed in scales[], less 32.
 */
typedef struct { uint8_t high[32]; uint8_t low[64]; uint8_t scales[12]; uint16_t d; } block_q3_k;
/*
 * Eight sub-blocks of 32 with six-bit scale and min; y = d * scale * q - dmin * min.
 * Bytes 32p .. 32p + 31 hold sub-blocks 2p (lo) and 2p + 1 (hi).
 */
typedef struct { uint16_t d, dmin; uint8_t scales[12]; uint8_t q[128]; } block_q4_k;
/* As Q4_K; bit j of high[l] is the fifth bit of value l in sub-block j. */
typedef struct { uint16_t d, dmin; uint8_t scales[12]; uint8_t high[32]; uint8_t q[128]; } block_q5_k;
/*
 * e = 128 n + 32 k + l: four bits from low[64 n + 32 (k & 1) + l] (lo for k < 2, else hi), two from bits
 * 2k, 2k + 1 of high[32 n + l]; y = d * scales[e / 16] * (q - 32).
 */
typedef struct { uint8_t low[128]; uint8_t high[64]; int8_t scales[16]; uint16_t d; } block_q6_k;
/*
 * Eight sub-blocks of 32: scale j has four bits in scales_low[j / 2] and two in scales_high, less 32;
 * y = d * scale * table[q], bytes 16j .. 16j + 15 packed as Q4_0.
 */
typedef struct { uint16_t d; uint16_t scales_high; uint8_t scales_low[4]; uint8_t q[128]; } block_iq4_xs;

extern const int8_t qw_iq4_values[16];

typedef struct qw_type_info {
    const char *name;    /* NULL: not a type this engine reads */
    uint32_t block_values;
    uint32_t block_bytes;
} qw_type_info;

/* Never NULL; for an unknown type the name inside is NULL. */
const qw_type_info *qw_type_get(uint32_t type);

/* Bytes of a row of n values; n is a multiple of the type's block. */
static inline size_t qw_row_bytes(uint32_t type, size_t n) {
    const qw_type_info *info = qw_type_get(type);
    return n / info->block_values * info->block_bytes;
}

/* IEEE half <-> float, subnormals included, ties to even. */
float qw_f16_to_f32(uint16_t h);
uint16_t qw_f32_to_f16(float f);

#endif
