/*
 * Worker threads that share the units of one job at a time with the caller.
 *
 * The ticket holds the job's number and the next free unit in one word, so a worker that wakes up late can never
 * take a unit of a job whose fields it did not read.  Two job slots alternate: the slot a late worker still reads
 * is not the one being filled.  Threads spin briefly and then sleep in the kernel; nothing measures time, so a
 * frozen and thawed process goes on as if nothing had happened.
 */
#include "pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 4000 }; /* about 50 us: the gap between two layers, not the gap between two requests */

typedef struct {
    _Atomic(qw_task) task;
    _Atomic(void *) job;
    atomic_size_t n_units;
} job_slot;

typedef struct {
    qw_pool *pool;
    pthread_t thread;
    size_t index;
} worker;

struct qw_pool {
    _Alignas(64) _Atomic uint64_t ticket;  /* job number << 32 | next unit */
    _Alignas(64) _Atomic uint32_t started; /* low half of the job number; workers sleep on it */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t done; /* units of this job that are finished; the caller sleeps on it */
    _Atomic uint32_t caller_sleeps;
    atomic_bool stop;
    job_slot slots[2];
    size_t n_workers;
    worker workers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Take and do units of the job in `ticket` until none is left. */
static void work(qw_pool *pool, size_t thread) {
    uint64_t ticket = atomic_load(&pool->ticket);
    for (;;) {
        job_slot *slot = &pool->slots[(ticket >> 32) & 1];
        size_t n_units = atomic_load(&slot->n_units);
        qw_task task = atomic_load(&slot->task);
        void *job = atomic_load(&slot->job);
        size_t unit = (uint32_t)ticket;
        if (unit >= n_units)
            return;
        if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1))
            continue;
        task(job, unit, thread);
        if (atomic_fetch_add(&pool->done, 1) + 1 == n_units && atomic_load(&pool->caller_sleeps))
            futex_wake(&pool->done, 1);
        ticket = atomic_load(&pool->ticket);
    }
}

static void *worker_main(void *argument) {
    worker *self = argument;
    qw_pool *pool = self->pool;
    uint32_t seen = 0;

    while (!atomic_load(&pool->stop)) {
        for (int spin = 0; spin < SPINS && atomic_load(&pool->started) == seen; spin++)
            relax();
        atomic_fetch_add(&pool->sleepers, 1);
        while (atomic_load(&pool->started) == seen)
            futex_wait(&pool->started, seen);
        atomic_fetch_sub(&pool->sleepers, 1);
        seen = atomic_load(&pool->started);
        work(pool, self->index);
    }
    return NULL;
}

static void start(qw_pool *pool) {
    atomic_fetch_add(&pool->started, 1);
    if (atomic_load(&pool->sleepers))
        futex_wake(&pool->started, INT32_MAX);
}

void qw_pool_run(qw_pool *pool, qw_task task, void *job, size_t n_units) {
    if (pool->n_workers == 0 || n_units <= 1) {
        for (size_t unit = 0; unit < n_units; unit++)
            task(job, unit, 0);
        return;
    }
    uint64_t number = (atomic_load(&pool->ticket) >> 32) + 1;
    job_slot *slot = &pool->slots[number & 1];
    atomic_store(&slot->n_units, n_units);
    atomic_store(&slot->task, task);
    atomic_store(&slot->job, job);
    atomic_store(&pool->done, 0);
    atomic_store(&pool->ticket, number << 32);
    start(pool);
    work(pool, 0);

    for (int spin = 0; spin < SPINS && atomic_load(&pool->done) < n_units; spin++)
        relax();
    atomic_store(&pool->caller_sleeps, 1);
    for (uint32_t done; (done = atomic_load(&pool->done)) < n_units;)
        futex_wait(&pool->done, done);
    atomic_store(&pool->caller_sleeps, 0);
}

qw_pool *qw_pool_create(size_t n_threads) {
    size_t n_workers = n_threads - 1;
    size_t bytes = (sizeof(qw_pool) + n_workers * sizeof(worker) + 63) / 64 * 64;
    qw_pool *pool = aligned_alloc(64, bytes);
    if (!pool)
        return NULL;
    atomic_init(&pool->ticket, 0);
    atomic_init(&pool->started, 0);
    atomic_init(&pool->sleepers, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->caller_sleeps, 0);
    atomic_init(&pool->stop, false);
    for (int i = 0; i < 2; i++)
        atomic_init(&pool->slots[i].n_units, 0);
    pool->n_workers = 0;
    for (size_t i = 0; i < n_workers; i++) {
        worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i + 1;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) {
            qw_pool_free(pool);
            return NULL;
        }
        pool->n_workers++;
    }
    return pool;
}

void qw_pool_free(qw_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    start(pool);
    for (size_t i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool);
}

size_t qw_pool_threads(const qw_pool *pool) {
    return pool->n_workers + 1;
}
