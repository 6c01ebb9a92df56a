/*
 * What the benches compare with: the machine's own limits, timed beside each kernel.
 */
#ifndef QW_BENCH_PEAK_H
#define QW_BENCH_PEAK_H

#include <stddef.h>

/* GMAC/s of the instruction a set's gemm_i8 is made of, from registers; 0 for a set without one. */
double bench_peak_gmacs(const char *isa);

/* GB/s of one thread reading n_bytes in order. */
double bench_read_gbs(const void *p, size_t n_bytes);

#endif
