/*
 * Random weight blocks of every type, with ordinary and hostile scales.
 */
#include "check_blocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where a block keeps its half-float scales; the rest of it may be any bytes. */
typedef struct {
    size_t n_halves;
    size_t offset[2];
    size_t packed, packed_bytes; /* the values, low bits */
    size_t high, high_bytes;     /* and their high bits, if apart */
} layout;

#define AT(type, field) offsetof(type, field), sizeof(((type *)0)->field)

static const layout layouts[QW_TYPE_COUNT] = {
    [QW_Q4_0] = {1, {offsetof(block_q4_0, d), 0}, AT(block_q4_0, q), 0, 0},
    [QW_Q4_1] = {2, {offsetof(block_q4_1, d), offsetof(block_q4_1, m)}, AT(block_q4_1, q), 0, 0},
    [QW_Q5_0] = {1, {offsetof(block_q5_0, d), 0}, AT(block_q5_0, q), AT(block_q5_0, high)},
    [QW_Q5_1] = {2, {offsetof(block_q5_1, d), offsetof(block_q5_1, m)}, AT(block_q5_1, q), AT(block_q5_1, high)},
    [QW_Q8_0] = {1, {offsetof(block_q8_0, d), 0}, AT(block_q8_0, q), 0, 0},
    [QW_IQ4_NL] = {1, {offsetof(block_iq4_nl, d), 0}, AT(block_iq4_nl, q), 0, 0},
    [QW_Q3_K] = {1, {offsetof(block_q3_k, d), 0}, AT(block_q3_k, low), AT(block_q3_k, high)},
    [QW_Q4_K] = {2, {offsetof(block_q4_k, d), offsetof(block_q4_k, dmin)}, AT(block_q4_k, q), 0, 0},
    [QW_Q5_K] = {2, {offsetof(block_q5_k, d), offsetof(block_q5_k, dmin)}, AT(block_q5_k, q), AT(block_q5_k, high)},
    [QW_Q6_K] = {1, {offsetof(block_q6_k, d), 0}, AT(block_q6_k, low), AT(block_q6_k, high)},
    [QW_IQ4_XS] = {1, {offsetof(block_iq4_xs, d), 0}, AT(block_iq4_xs, q), 0, 0},
};

static float any_value(check_random *r, check_style style, bool half) {
    float sign = check_bits(r) & 1 ? -1.0f : 1.0f;
    switch (style) {
    case STYLE_ZERO:
        return 0;
    case STYLE_TINY:
        return sign * (float)(1 + check_below(r, 3)) * (half ? 0x1p-24f : 0x1p-149f);
    case STYLE_LARGE:
        return sign * (half ? 65504.0f : 1e30f);
    default:
        return check_normal(r) * 0.02f;
    }
}

/* An ordinary value, or now and then the one the style asks for. */
static float hostile(check_style style) {
    return style == STYLE_NAN ? NAN : -INFINITY;
}

static void store_float(uint32_t type, void *to, size_t i, float x) {
    uint16_t half = type == QW_F16 ? qw_f32_to_f16(x) : 0;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == QW_F32)
        memcpy((float *)to + i, &x, sizeof x);
    else
        ((uint16_t *)to)[i] = type == QW_F16 ? half : (uint16_t)(bits >> 16);
}

static void fill_floats(check_random *r, uint32_t type, check_style style, void *column, size_t n_k) {
    for (size_t i = 0; i < n_k; i++)
        store_float(type, column, i, any_value(r, style, type == QW_F16));
    if (style == STYLE_TINY && type == QW_BF16) /* a subnormal that keeps its bits */
        for (size_t i = 0; i < n_k; i++)
            ((uint16_t *)column)[i] = (uint16_t)(check_bits(r) & 0x8003);
    if (style >= STYLE_NAN)
        store_float(type, column, check_below(r, n_k), hostile(style));
}

void check_fill_column(check_random *r, uint32_t type, check_style style, void *column, size_t n_k) {
    const qw_type_info *info = qw_type_get(type);
    const layout *l = &layouts[type];
    if (!l->n_halves) {
        fill_floats(r, type, style, column, n_k);
        return;
    }
    size_t n_blocks = n_k / info->block_values, odd_block = check_below(r, n_blocks);
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *block = (uint8_t *)column + b * info->block_bytes;
        for (size_t i = 0; i < info->block_bytes; i++)
            block[i] = (uint8_t)(check_bits(r) >> 8);
        for (size_t i = 0; style == STYLE_EXTREMES && i < l->packed_bytes; i++)
            block[l->packed + i] = check_bits(r) & 1 ? 0xff : 0;
        if (style == STYLE_EXTREMES && type == QW_Q8_0)
            for (size_t i = 0; i < l->packed_bytes; i++)
                block[l->packed + i] = check_bits(r) & 1 ? 0x80 : 0x7f;
        for (size_t h = 0; h < l->n_halves; h++) {
            float x = any_value(r, style, true);
            if (style >= STYLE_NAN && b == odd_block && h + 1 == l->n_halves)
                x = hostile(style);
            uint16_t half = qw_f32_to_f16(x);
            memcpy(block + l->offset[h], &half, sizeof half);
        }
    }
}

static float max_magnitude(const float *x, size_t n) {
    float max = 0;
    for (size_t i = 0; i < n; i++)
        max = fmaxf(max, fabsf(x[i]));
    return max;
}

float check_column_bound(uint32_t type, const void *column, size_t n_k) {
    const qw_type_info *info = qw_type_get(type);
    const layout *l = &layouts[type];
    float *values = check_alloc(n_k * sizeof *values), bound = 0;
    size_t n_bytes = qw_row_bytes(type, n_k);
    uint8_t *copy = check_alloc(n_bytes);

    for (int end = 0; end < 2; end++) { /* all packed values at one end of their range */
        memcpy(copy, column, n_bytes);
        for (size_t b = 0; l->n_halves && b < n_k / info->block_values; b++) {
            uint8_t *block = copy + b * info->block_bytes;
            memset(block + l->packed, type == QW_Q8_0 ? (end ? 0x7f : 0x80) : (end ? 0xff : 0), l->packed_bytes);
            memset(block + l->high, end ? 0xff : 0, l->high_bytes);
        }
        qw_dequantize_row(type, copy, n_k, values);
        bound = fmaxf(bound, max_magnitude(values, n_k));
    }
    check_free(copy);
    check_free(values);
    return bound;
}

uint32_t check_next_type(uint32_t type) {
    do
        type++;
    while (type < QW_TYPE_COUNT && !qw_type_get(type)->name);
    return type;
}
