/*
 * Which kernel sets this CPU runs: the only place that knows their order.
 */
#include <string.h>

#include "kernels.h"

extern const qw_kernels qw_kernels_scalar;

static bool always(void) {
    return true;
}

#if defined(__x86_64__)

extern const qw_kernels qw_kernels_avx2, qw_kernels_avx512vnni;

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
           __builtin_cpu_supports("bmi2");
}

static bool has_avx512vnni(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

extern const qw_kernels qw_kernels_dotprod, qw_kernels_i8mm;

/* Bits of AT_HWCAP and AT_HWCAP2, as the arm64 Linux ABI numbers them. */
static bool has_dotprod(void) {
    unsigned long half_arithmetic = 1UL << 10, dotprod = 1UL << 20;
    return (getauxval(AT_HWCAP) & half_arithmetic) && (getauxval(AT_HWCAP) & dotprod);
}

static bool has_i8mm(void) {
    unsigned long i8mm = 1UL << 13;
    return has_dotprod() && (getauxval(AT_HWCAP2) & i8mm);
}

#endif

static const struct {
    const qw_kernels *kernels;
    bool (*runs)(void);
} sets[] = {
#if defined(__x86_64__)
    {&qw_kernels_avx512vnni, has_avx512vnni},
    {&qw_kernels_avx2, has_avx2},
#elif defined(__aarch64__)
    {&qw_kernels_i8mm, has_i8mm},
    {&qw_kernels_dotprod, has_dotprod},
#endif
    {&qw_kernels_scalar, always},
};

const qw_kernels *qw_kernels_nth(size_t n) {
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (sets[i].runs() && n-- == 0)
            return sets[i].kernels;
    return NULL;
}

const qw_kernels *qw_kernels_select(const char *isa) {
    if (!isa)
        return qw_kernels_nth(0);
    for (size_t n = 0; qw_kernels_nth(n); n++)
        if (!strcmp(qw_kernels_nth(n)->isa, isa))
            return qw_kernels_nth(n);
    return NULL;
}
