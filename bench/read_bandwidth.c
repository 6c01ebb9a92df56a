/*
 * The rate at which threads read a file's mapping, which is what decode does with the weights:
 *
 *     read_bandwidth FILE THREADS
 *
 * Each thread sums a slice of its own, several times over.  It prints the median pass in GB/s; a first pass only
 * brings the file into memory.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_THREADS = 64, PASSES = 9 };

typedef uint64_t lanes __attribute__((vector_size(64)));

static const lanes *words;
static size_t n_words, n_threads;
static pthread_barrier_t barrier;
static volatile uint64_t sink[MOST_THREADS]; /* keeps the sums from being left out */
static double pass_s[PASSES];

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *read_slice(void *argument) {
    size_t thread = (size_t)(uintptr_t)argument;
    size_t first = n_words * thread / n_threads, end = n_words * (thread + 1) / n_threads;

    for (int pass = -1; pass < PASSES; pass++) {
        lanes sum[4] = {0};
        pthread_barrier_wait(&barrier);
        double start_s = seconds();
        for (size_t i = first; i + 4 <= end; i += 4)
            for (size_t j = 0; j < 4; j++)
                sum[j] += words[i + j];
        sink[thread] = (sum[0] + sum[1] + sum[2] + sum[3])[0];
        pthread_barrier_wait(&barrier);
        if (thread == 0 && pass >= 0)
            pass_s[pass] = seconds() - start_s;
    }
    return NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    pthread_t threads[MOST_THREADS];
    struct stat info;

    n_threads = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (n_threads == 0 || n_threads > MOST_THREADS) {
        fprintf(stderr, "usage: %s FILE THREADS, with 1 to %d threads\n", argv[0], MOST_THREADS);
        return 2;
    }
    int file = open(argv[1], O_RDONLY);
    if (file < 0 || fstat(file, &info) != 0) {
        perror(argv[1]);
        return 1;
    }
    words = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
    n_words = (size_t)info.st_size / sizeof *words;
    if (words == MAP_FAILED || pthread_barrier_init(&barrier, NULL, (unsigned)n_threads) != 0) {
        perror(argv[1]);
        return 1;
    }
    for (size_t i = 1; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, read_slice, (void *)(uintptr_t)i) != 0) {
            fprintf(stderr, "thread %zu of %zu could not start\n", i + 1, n_threads);
            exit(1);
        }
    read_slice(NULL);
    for (size_t i = 1; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    qsort(pass_s, PASSES, sizeof *pass_s, ascending);
    printf("%.3f\n", 1e-9 * (double)(n_words * sizeof *words) / pass_s[PASSES / 2]);
    return 0;
}
