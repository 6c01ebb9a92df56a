/* The n largest logits of a row, without sorting it. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "qwarm.h"

/* Best first: the larger value, then the lower id. */
static int better(float a, int32_t a_id, float b, int32_t b_id) {
    return a > b || (a == b && a_id < b_id);
}

/* Entry 0 of the heap is its worst. */
static void sift_down(int32_t *ids, float *values, size_t n, size_t i) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(values[child], ids[child], values[child + 1], ids[child + 1]))
            child++;
        if (!better(values[i], ids[i], values[child], ids[child]))
            return;
        float value = values[i];
        int32_t id = ids[i];
        values[i] = values[child];
        ids[i] = ids[child];
        values[child] = value;
        ids[child] = id;
    }
}

size_t qw_top_logits(const float *logits, size_t n_vocab, size_t n, int32_t *ids, float *values) {
    if (n > n_vocab)
        n = n_vocab;
    for (size_t i = 0; i < n_vocab; i++)
        if (!(logits[i] < INFINITY))
            return 0;
    for (size_t i = 0; i < n; i++) {
        ids[i] = (int32_t)i;
        values[i] = logits[i];
    }
    for (size_t i = n / 2; i-- > 0;)
        sift_down(ids, values, n, i);
    for (size_t i = n; n > 0 && i < n_vocab; i++)
        if (logits[i] > values[0]) {
            values[0] = logits[i];
            ids[0] = (int32_t)i;
            sift_down(ids, values, n, 0);
        }
    for (size_t left = n; left > 1;) { /* the worst goes to the end */
        left--;
        float value = values[0];
        int32_t id = ids[0];
        values[0] = values[left];
        ids[0] = ids[left];
        values[left] = value;
        ids[left] = id;
        sift_down(ids, values, left, 0);
    }
    return n > 0 && values[0] == -INFINITY ? 0 : n;
}
