/*
 * What the f32 checks share.  A claim that fails is printed with the sizes it failed at.
 */
#ifndef QW_CHECK_F32_H
#define QW_CHECK_F32_H

#include "check.h"

typedef struct f32_check {
    const qw_kernels *k, *reference;
    check_random random;
    int failures;
} f32_check;

/* claim: a sentence that is false if ok is. */
void f32_expect(f32_check *c, bool ok, const char *claim, size_t a, size_t b, size_t d);

float *f32_uniform(f32_check *c, size_t n); /* check_free() it */

/* Every |got - want| within tolerance * (the largest |want|); NaN and inf are never close. */
bool f32_close(const float *got, const float *want, size_t n, double tolerance);
bool f32_same_bits(const float *a, const float *b, size_t n);

void check_delta(f32_check *c);
void check_attention(f32_check *c);

#endif
