/*
 * Checks of the attention tile against a softmax over all keys at once, in double.
 */
#include "check_f32.h"

#include <math.h>
#include <string.h>

enum { N_TILES = 3, N_KEYS = N_TILES * QW_KEY_TILE, MAX_ROWS = 33 };

/* n_rows queries over three tiles of keys; row r sees the first seen[r] of them. */
typedef struct scene {
    size_t n_rows, head_dim;
    bool half;
    float *q;
    float *keys[N_TILES], *values[N_TILES]; /* as the tile wants them, f32 */
    uint16_t *half_keys[N_TILES], *half_values[N_TILES];
    uint32_t seen[MAX_ROWS];
} scene;

typedef struct sums {
    float m[MAX_ROWS], l[MAX_ROWS];
    float *o;
} sums;

/* Half precision holds these values exactly, so both forms have one answer. */
static void round_to_half(const f32_check *c, float *x, uint16_t *half, size_t n) {
    c->reference->f32_to_f16(x, n, half);
    c->reference->f16_to_f32(half, n, x);
}

static scene make_scene(f32_check *c, size_t n_rows, size_t head_dim, bool half) {
    size_t n = QW_KEY_TILE * head_dim;
    scene s = {.n_rows = n_rows, .head_dim = head_dim, .half = half, .q = f32_uniform(c, n_rows * head_dim)};

    for (size_t i = 0; i < N_TILES; i++) {
        s.keys[i] = f32_uniform(c, n);
        s.values[i] = f32_uniform(c, n);
        s.half_keys[i] = check_alloc(n * sizeof(uint16_t));
        s.half_values[i] = check_alloc(n * sizeof(uint16_t));
        round_to_half(c, s.keys[i], s.half_keys[i], n);
        round_to_half(c, s.values[i], s.half_values[i], n);
    }
    for (size_t i = 0; i < n_rows * head_dim; i++)
        s.q[i] *= 3 / sqrtf((float)head_dim);
    for (size_t r = 0; r < n_rows; r++)
        s.seen[r] = (uint32_t)(1 + check_below(&c->random, N_KEYS));
    return s;
}

static void free_scene(scene *s) {
    check_free(s->q);
    for (size_t i = 0; i < N_TILES; i++) {
        check_free(s->keys[i]);
        check_free(s->values[i]);
        check_free(s->half_keys[i]);
        check_free(s->half_values[i]);
    }
}

static size_t seen_in_tile(const scene *s, size_t row, size_t tile) {
    size_t before = tile * QW_KEY_TILE, seen = s->seen[row];

    return seen <= before ? 0 : seen - before < QW_KEY_TILE ? seen - before : QW_KEY_TILE;
}

/* Rows [first, first + n) through all tiles. */
static sums attend(void (*tile)(const qw_attention_tile *), const scene *s, size_t first, size_t n) {
    sums r = {.o = check_alloc(n * s->head_dim * sizeof(float))};
    float *scratch = check_alloc(QW_ATTENTION_SCRATCH(n, s->head_dim) * sizeof(float));
    uint32_t limit[MAX_ROWS];

    for (size_t i = 0; i < n; i++)
        r.m[i] = -INFINITY;
    for (size_t i = 0; i < N_TILES; i++) {
        qw_attention_tile t = {
            .n_rows = n,
            .head_dim = s->head_dim,
            .q = s->q + first * s->head_dim,
            .keys = s->half ? (const void *)s->half_keys[i] : s->keys[i],
            .values = s->half ? (const void *)s->half_values[i] : s->values[i],
            .half = s->half,
            .limit = limit,
            .m = r.m,
            .l = r.l,
            .o = r.o,
            .scratch = scratch,
        };

        for (size_t row = 0; row < n; row++)
            limit[row] = (uint32_t)seen_in_tile(s, first + row, i);
        tile(&t);
    }
    check_free(scratch);
    return r;
}

/* The softmax of row r, all keys at once. */
static void softmax_row(const scene *s, size_t r, float *o) {
    double weight[N_KEYS], largest = -INFINITY, total = 0;

    for (size_t key = 0; key < s->seen[r]; key++) {
        weight[key] = 0;
        for (size_t i = 0; i < s->head_dim; i++)
            weight[key] += (double)s->q[r * s->head_dim + i] *
                           s->keys[key / QW_KEY_TILE][i * QW_KEY_TILE + key % QW_KEY_TILE];
        largest = fmax(largest, weight[key]);
    }
    for (size_t key = 0; key < s->seen[r]; key++) {
        weight[key] = exp(weight[key] - largest);
        total += weight[key];
    }
    for (size_t i = 0; i < s->head_dim; i++) {
        double sum = 0;

        for (size_t key = 0; key < s->seen[r]; key++)
            sum += weight[key] * s->values[key / QW_KEY_TILE][key % QW_KEY_TILE * s->head_dim + i];
        o[i] = (float)(sum / total);
    }
}

static void check_rows(f32_check *c, const scene *s, double tolerance, const char *claim) {
    sums all = attend(c->k->attention_tile, s, 0, s->n_rows);

    for (size_t r = 0; r < s->n_rows; r++) {
        float got[256], want[256];
        sums alone = attend(c->k->attention_tile, s, r, 1);

        softmax_row(s, r, want);
        for (size_t i = 0; i < s->head_dim; i++)
            got[i] = all.o[r * s->head_dim + i] / all.l[r];
        f32_expect(c, f32_close(got, want, s->head_dim, tolerance), claim, s->n_rows, s->head_dim, s->seen[r]);
        f32_expect(c,
                   all.m[r] == alone.m[0] && all.l[r] == alone.l[0] &&
                       f32_same_bits(all.o + r * s->head_dim, alone.o, s->head_dim),
                   "attention_tile computes each row alone", s->n_rows, s->head_dim, s->seen[r]);
        check_free(alone.o);
    }
    check_free(all.o);
}

/* What no row sees: NaN in the unused end of the last page. */
static void spoil_unseen_keys(scene *s, size_t used) {
    for (size_t key = used; key < N_KEYS; key++)
        for (size_t i = 0; i < s->head_dim; i++) {
            size_t in_keys = i * QW_KEY_TILE + key % QW_KEY_TILE, in_values = key % QW_KEY_TILE * s->head_dim + i;

            s->keys[key / QW_KEY_TILE][in_keys] = s->values[key / QW_KEY_TILE][in_values] = NAN;
            s->half_keys[key / QW_KEY_TILE][in_keys] = s->half_values[key / QW_KEY_TILE][in_values] = 0x7e00;
        }
}

/* Scores of -inf weigh nothing, even when a row has seen no other. */
static void check_weightless_keys(f32_check *c) {
    scene s = make_scene(c, 1, 64, false);
    sums r;

    s.seen[0] = QW_KEY_TILE;
    for (size_t i = 0; i < s.head_dim; i++)
        s.q[i] = 1;
    for (size_t i = 0; i < QW_KEY_TILE * s.head_dim; i++)
        s.keys[0][i] = -INFINITY;
    r = attend(c->k->attention_tile, &s, 0, 1);
    f32_expect(c, r.m[0] == -INFINITY && r.l[0] == 0 && r.o[0] == 0, "scores of -inf weigh nothing", 64, 0, 0);
    check_free(r.o);
    free_scene(&s);
}

void check_attention(f32_check *c) {
    static const size_t rows[] = {1, 2, 3, 7, 8, 13, MAX_ROWS}, widths[] = {16, 64, 128, 256};

    for (size_t i = 0; i < 14; i++) {
        scene s = make_scene(c, rows[i / 2], widths[i % 4], i % 2);

        check_rows(c, &s, 5e-6, "attention_tile is the softmax of the keys seen");
        for (size_t r = 0; r < s.n_rows; r++)
            s.seen[r] = (uint32_t)(1 + s.seen[r] % 100);
        spoil_unseen_keys(&s, 100);
        check_rows(c, &s, 5e-6, "what lies in keys that no row sees does not matter");
        for (size_t j = 0; j < s.n_rows * s.head_dim; j++)
            s.q[j] *= 30; /* scores far apart: maxima that move and weights that vanish */
        check_rows(c, &s, 1e-4, "attention_tile stands steep scores");
        free_scene(&s);
    }
    check_weightless_keys(c);
}
