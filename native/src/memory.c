/* Big buffers, in huge pages where the system gives them. */
#define _GNU_SOURCE
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

static size_t rounded(size_t n_bytes, size_t multiple) {
    return (n_bytes + multiple - 1) / multiple * multiple;
}

void *qw_big_alloc(size_t n_bytes) {
    if (n_bytes < HUGE_PAGE) {
        size_t bytes = rounded(n_bytes ? n_bytes : 1, 64);
        void *p = aligned_alloc(64, bytes);
        return p ? memset(p, 0, bytes) : NULL;
    }
    /* Map one huge page more than needed and give back what lies outside the aligned part. */
    size_t bytes = rounded(n_bytes, HUGE_PAGE);
    uint8_t *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    uint8_t *aligned = (uint8_t *)rounded((uintptr_t)p, HUGE_PAGE);
    if (aligned > p)
        munmap(p, (size_t)(aligned - p));
    if (p + HUGE_PAGE > aligned)
        munmap(aligned + bytes, (size_t)(p + HUGE_PAGE - aligned));
    madvise(aligned, bytes, MADV_HUGEPAGE); /* refused where huge pages are off: small ones do */
    return aligned;
}

void qw_big_free(void *p, size_t n_bytes) {
    if (!p)
        return;
    if (n_bytes < HUGE_PAGE)
        free(p);
    else
        munmap(p, rounded(n_bytes, HUGE_PAGE));
}
