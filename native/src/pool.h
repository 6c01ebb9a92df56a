/* Worker threads that share the units of one job at a time with the caller. */
#ifndef QW_POOL_H
#define QW_POOL_H

#include <stddef.h>

typedef struct qw_pool qw_pool;

/* Do unit `unit` of a job.  thread is below the pool's thread count; two units never run on one thread at once. */
typedef void (*qw_task)(void *job, size_t unit, size_t thread);

/* n_threads counts the caller; 1 makes a pool without workers.  NULL when the system has no memory or threads. */
qw_pool *qw_pool_create(size_t n_threads);
void qw_pool_free(qw_pool *pool);
size_t qw_pool_threads(const qw_pool *pool);

/*
 * Run task for every unit in [0, n_units) and return when all are done.  One caller at a time.  Units are handed
 * out one by one, so a thread that loses its core delays one unit only.
 */
void qw_pool_run(qw_pool *pool, qw_task task, void *job, size_t n_units);

#endif
