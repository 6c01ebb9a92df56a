/*
 * What the benches compare with: the machine's own limits, timed beside each kernel.
 *
 * Twelve independent accumulators cover the latency of every such instruction.
 */
#include "bench_peak.h"

#include <stdint.h>
#include <string.h>

#include "check.h"

enum { UNROLL = 12, ROUNDS = 20000, TRIES = 9 };

#define TWELVE(X) X("0") X("1") X("2") X("3") X("4") X("5") X("6") X("7") X("8") X("9") X("10") X("11")

#if defined(__x86_64__)

#define VECTORS                                                                                                \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14"
#define VPDPBUSD(n) "vpdpbusd %%zmm13, %%zmm12, %%zmm" n "\n"
#define VPMADDWD(n) "vpmaddwd %%ymm13, %%ymm12, %%ymm14\n vpaddd %%ymm14, %%ymm" n ", %%ymm" n "\n"

static void run_vpdpbusd(void) {
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile(TWELVE(VPDPBUSD)::: VECTORS);
}

static void run_vpmaddwd(void) {
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile(TWELVE(VPMADDWD)::: VECTORS);
}

static const struct {
    const char *isa;
    void (*run)(void);
    int macs;
} peaks[] = {{"avx512vnni", run_vpdpbusd, 64}, {"avx2", run_vpmaddwd, 16}};

#elif defined(__aarch64__)

#define VECTORS "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13"
#define SDOT(n) "sdot v" n ".4s, v12.16b, v13.16b\n"
#define SMMLA(n) "smmla v" n ".4s, v12.16b, v13.16b\n"

__attribute__((target("arch=armv8.2-a+dotprod"))) static void run_sdot(void) {
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile(TWELVE(SDOT)::: VECTORS);
}

__attribute__((target("arch=armv8.2-a+i8mm"))) static void run_smmla(void) {
    for (int i = 0; i < ROUNDS; i++)
        __asm__ volatile(TWELVE(SMMLA)::: VECTORS);
}

static const struct {
    const char *isa;
    void (*run)(void);
    int macs;
} peaks[] = {{"i8mm", run_smmla, 32}, {"dotprod", run_sdot, 16}};

#endif

double bench_peak_gmacs(const char *isa) {
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        if (strcmp(peaks[i].isa, isa))
            continue;
        double best = 1e9;
        for (int try = 0; try < TRIES; try++) {
            double start = check_seconds();
            peaks[i].run();
            double seconds = check_seconds() - start;
            best = seconds < best ? seconds : best;
        }
        return 1e-9 * ROUNDS * UNROLL * peaks[i].macs / best;
    }
    return 0;
}

double bench_read_gbs(const void *p, size_t n_bytes) {
    const uint64_t *word = p;
    double best = 1e9;
    for (int try = 0; try < 3; try++) {
        uint64_t sum[16] = {0};
        double start = check_seconds();
        for (size_t i = 0; i + 16 <= n_bytes / sizeof *word; i += 16)
            for (int j = 0; j < 16; j++)
                sum[j] += word[i + j];
        for (int j = 1; j < 16; j++)
            sum[0] += sum[j];
        __asm__ volatile("" ::"r"(sum[0]));
        double seconds = check_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return 1e-9 * (double)n_bytes / best;
}
