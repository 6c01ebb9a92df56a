/* Big buffers, in huge pages where the system gives them. */
#ifndef QW_MEMORY_H
#define QW_MEMORY_H

#include <stddef.h>

/*
 * n_bytes of zeroed memory, aligned to 64; NULL when the system has none.  From 2 MiB on it is aligned to that and
 * huge pages are asked for: rows of a big buffer lie on different small pages, and every first touch is a fault.
 */
void *qw_big_alloc(size_t n_bytes);
void qw_big_free(void *p, size_t n_bytes);

#endif
