/*
 * What the kernel checks share: a deterministic random source, counted assertions and a clock.
 */
#ifndef QW_CHECK_H
#define QW_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../native/src/kernels/kernels.h"

/* Count one assertion; when it fails, count that too and print the words (the first few per set). */
void check_that(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));

size_t check_failures(void); /* so far, of this set */

/* The same sequence on every machine. */
typedef struct check_random {
    uint64_t state;
} check_random;

uint32_t check_bits(check_random *r);
float check_uniform(check_random *r); /* in [-1, 1) */
float check_normal(check_random *r);  /* mean 0, variance 1 */
size_t check_below(check_random *r, size_t n);

/* 64-byte aligned zeroed memory; exits when there is none.  check_free() it. */
void *check_alloc(size_t n_bytes);
void check_free(void *p);

double check_seconds(void); /* this thread's CPU time: other work on the machine does not lengthen it */

/* Compare every kernel of k with reference; returns the number of failed assertions. */
int check_quant(const qw_kernels *k, const qw_kernels *reference);
void check_gemv(const qw_kernels *k, const qw_kernels *reference); /* part of check_quant */
int check_f32(const qw_kernels *k, const qw_kernels *reference);

/* Print this set's speeds on stdout. */
void bench_quant(const qw_kernels *k);
void bench_f32(const qw_kernels *k);

#endif
