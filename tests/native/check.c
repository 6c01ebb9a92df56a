/*
 * check: compare every kernel of every set this CPU runs with the plain C ones.
 *
 *   check            all sets; exit 1 when an assertion fails
 *   check --isa X    one set
 *   check --list     the sets this CPU runs, best first
 *   check --bench    speeds instead, each beside the limit it can be measured against
 */
#include "check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_PRINTED = 12 };

static size_t n_assertions, n_failures;

void check_that(bool ok, const char *format, ...) {
    n_assertions++;
    if (ok || n_failures++ >= MOST_PRINTED)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("  failed: ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

size_t check_failures(void) {
    return n_failures;
}

/* A 64-bit linear congruence; the high half is random enough for test data. */
uint32_t check_bits(check_random *r) {
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    uint32_t word = (uint32_t)(r->state >> 32);
    return word ^ word >> 15;
}

float check_uniform(check_random *r) {
    return (float)(check_bits(r) >> 8) * 0x1p-23f - 1.0f;
}

float check_normal(check_random *r) { /* the sum of twelve, each of variance 1 / 3 */
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += check_uniform(r);
    return sum * 0.5f;
}

size_t check_below(check_random *r, size_t n) {
    return check_bits(r) % n;
}

void *check_alloc(size_t n_bytes) {
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "check: no memory for %zu bytes\n", n_bytes);
        exit(1);
    }
    return memset(p, 0, n_bytes);
}

void check_free(void *p) {
    free(p);
}

double check_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool run(const qw_kernels *k, bool bench) {
    if (bench) {
        printf("%s\n", k->isa);
        bench_quant(k);
        bench_f32(k);
        return true;
    }
    n_assertions = n_failures = 0;
    check_quant(k, qw_kernels_select("scalar"));
    check_f32(k, qw_kernels_select("scalar"));
    printf("%-12s %zu assertions, %zu failed\n", k->isa, n_assertions, n_failures);
    return n_failures == 0;
}

int main(int argc, char **argv) {
    const char *isa = NULL;
    bool bench = false, list = false, ok = true;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench"))
            bench = true;
        else if (!strcmp(argv[i], "--list"))
            list = true;
        else if (!strcmp(argv[i], "--isa") && i + 1 < argc)
            isa = argv[++i];
        else {
            fprintf(stderr, "check: unknown argument %s; expected --list, --bench or --isa NAME\n", argv[i]);
            return 2;
        }
    }
    if (isa && !qw_kernels_select(isa)) {
        fprintf(stderr, "check: this CPU does not run a kernel set named %s\n", isa);
        return 2;
    }
    for (size_t n = 0; qw_kernels_nth(n); n++) {
        const qw_kernels *k = qw_kernels_nth(n);
        if (isa && strcmp(isa, k->isa))
            continue;
        if (list)
            printf("%s\n", k->isa);
        else
            ok &= run(k, bench);
    }
    return ok ? 0 : 1;
}
