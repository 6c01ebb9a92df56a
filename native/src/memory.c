/* Big buffers, in huge pages where the system gives them. */
#define _GNU_SOURCE
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/*
 * Below OWN_MAPPING the C library's heap does.  From there on a buffer has a mapping of its own: snapshots come and go
 * in every order, and between longer-lived objects in the heap they would leave holes that never fill.
 */
enum { OWN_MAPPING = 64 << 10, HUGE_PAGE = 2 << 20 };

static size_t rounded(size_t n_bytes, size_t multiple) {
    return (n_bytes + multiple - 1) / multiple * multiple;
}

static void *map(size_t n_bytes) {
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *qw_big_alloc(size_t n_bytes) {
    if (n_bytes < OWN_MAPPING) {
        size_t bytes = rounded(n_bytes ? n_bytes : 1, 64);
        void *p = aligned_alloc(64, bytes);
        return p ? memset(p, 0, bytes) : NULL;
    }
    if (n_bytes < HUGE_PAGE)
        return map(n_bytes);
    /* Map one huge page more than needed and give back what lies outside the aligned part. */
    size_t bytes = rounded(n_bytes, HUGE_PAGE);
    uint8_t *p = map(bytes + HUGE_PAGE);
    if (!p)
        return NULL;
    uint8_t *aligned = p + (rounded((uintptr_t)p, HUGE_PAGE) - (uintptr_t)p);
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
    if (n_bytes < OWN_MAPPING)
        free(p);
    else
        munmap(p, n_bytes < HUGE_PAGE ? n_bytes : rounded(n_bytes, HUGE_PAGE));
}
