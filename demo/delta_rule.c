/*
 * The gated delta rule and its gradient for training on a CPU: one sequence of one key head and of the value heads
 * it serves.
 *
 * With S a DIM x DIM matrix per value head, zero before the first token:
 *     P = exp(g) S,  u = beta (v - P'k),  S = P + k u',  o = S'q / sqrt(DIM)
 * The gradient runs backwards and needs every S.  States are kept at the start of each block of tokens and computed
 * again within a block, so that they stay in the second-level cache.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 64, BLOCK = 16 };
typedef float row[DIM];

/* q, k and their gradients: a token's row is key_stride floats after the one before; v, o: value_stride; g, beta: n. */
typedef struct {
    long n_tokens, n_values, key_stride, value_stride, gate_stride;
    const float *q, *k, *v, *g, *beta, *d_o;
    float *o, *d_q, *d_k, *d_v, *d_g, *d_beta;
} sequence;

static float dot(const float *a, const float *b) {
    float sum = 0;
    for (int j = 0; j < DIM; j++)
        sum += a[j] * b[j];
    return sum;
}

/* S of the token before becomes S of this one; u and P'k are left for the gradient. */
static void step(row *restrict s, const float *restrict k, const float *restrict v, float decay, float beta,
                 float *restrict u, float *restrict recalled) {
    memset(recalled, 0, sizeof(row));
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) {
            s[i][j] *= decay;
            recalled[j] += k[i] * s[i][j];
        }
    for (int j = 0; j < DIM; j++)
        u[j] = beta * (v[j] - recalled[j]);
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++)
            s[i][j] += k[i] * u[j];
}

void delta_forward(const sequence *x) {
    const float scale = 1 / sqrtf(DIM);
    row s[DIM], u, recalled;

    for (long h = 0; h < x->n_values; h++) {
        memset(s, 0, sizeof(s));
        for (long t = 0; t < x->n_tokens; t++) {
            const float *q = x->q + t * x->key_stride;
            float *o = x->o + t * x->value_stride + h * DIM;
            step(s, x->k + t * x->key_stride, x->v + t * x->value_stride + h * DIM, expf(x->g[t * x->gate_stride + h]),
                 x->beta[t * x->gate_stride + h], u, recalled);
            memset(recalled, 0, sizeof(recalled));
            for (int i = 0; i < DIM; i++)
                for (int j = 0; j < DIM; j++)
                    recalled[j] += q[i] * s[i][j];
            for (int j = 0; j < DIM; j++)
                o[j] = scale * recalled[j];
        }
    }
}

/* One token's gradients.  ds: of S after this token, becomes that of S before it.  before, after: S there. */
static void step_back(const sequence *x, long t, long h, row *restrict ds, row *restrict before, row *restrict after,
                      const float *u, const float *recalled) {
    const float scale = 1 / sqrtf(DIM);
    const float *q = x->q + t * x->key_stride, *k = x->k + t * x->key_stride;
    const float *v = x->v + t * x->value_stride + h * DIM, *d_o = x->d_o + t * x->value_stride + h * DIM;
    float *d_q = x->d_q + t * x->key_stride, *d_k = x->d_k + t * x->key_stride;
    float *d_v = x->d_v + t * x->value_stride + h * DIM;
    const float beta = x->beta[t * x->gate_stride + h], decay = expf(x->g[t * x->gate_stride + h]);
    row du = {0}, dm, dout;
    float d_beta = 0, d_decay = 0;

    for (int j = 0; j < DIM; j++)
        dout[j] = scale * d_o[j];
    for (int i = 0; i < DIM; i++) {
        d_q[i] += dot(after[i], dout);
        for (int j = 0; j < DIM; j++) {
            ds[i][j] += q[i] * dout[j];
            du[j] += k[i] * ds[i][j];
        }
    }
    for (int j = 0; j < DIM; j++) {
        d_beta += du[j] * (v[j] - recalled[j]);
        d_v[j] = beta * du[j];
        dm[j] = -beta * du[j];
    }
    for (int i = 0; i < DIM; i++) {
        float from_sum = 0, from_recall = 0, from_decay = 0;
        for (int j = 0; j < DIM; j++) {
            from_sum += ds[i][j] * u[j];
            from_recall += before[i][j] * dm[j];
            ds[i][j] += k[i] * dm[j];
            from_decay += ds[i][j] * before[i][j];
            ds[i][j] *= decay;
        }
        d_k[i] += from_sum + decay * from_recall;
        d_decay += from_decay;
    }
    x->d_beta[t * x->gate_stride + h] = d_beta;
    x->d_g[t * x->gate_stride + h] = decay * d_decay;
}

/* d_q and d_k must be zero before.  Returns 0, or -1 without memory. */
int delta_backward(const sequence *x) {
    const long n_blocks = (x->n_tokens + BLOCK - 1) / BLOCK;
    row(*starts)[DIM] = malloc((size_t)n_blocks * sizeof(*starts));
    row(*states)[DIM] = malloc((BLOCK + 1) * sizeof(*states));
    row u[BLOCK], recalled[BLOCK], ds[DIM];

    if (!starts || !states) {
        free(starts);
        free(states);
        return -1;
    }
    for (long h = 0; h < x->n_values; h++) {
        const float *v = x->v + h * DIM;
        row s[DIM] = {{0}};
        for (long t = 0; t < x->n_tokens; t++) {
            if (t % BLOCK == 0)
                memcpy(starts[t / BLOCK], s, sizeof(s));
            step(s, x->k + t * x->key_stride, v + t * x->value_stride, expf(x->g[t * x->gate_stride + h]),
                 x->beta[t * x->gate_stride + h], u[0], recalled[0]);
        }
        memset(ds, 0, sizeof(ds));
        for (long b = n_blocks - 1; b >= 0; b--) {
            const long first = b * BLOCK, n = x->n_tokens - first < BLOCK ? x->n_tokens - first : BLOCK;
            memcpy(states[0], starts[b], sizeof(s));
            for (long i = 0; i < n; i++) {
                const long t = first + i;
                memcpy(states[i + 1], states[i], sizeof(s));
                step(states[i + 1], x->k + t * x->key_stride, v + t * x->value_stride,
                     expf(x->g[t * x->gate_stride + h]), x->beta[t * x->gate_stride + h], u[i], recalled[i]);
            }
            for (long i = n - 1; i >= 0; i--)
                step_back(x, first + i, h, ds, states[i], states[i + 1], u[i], recalled[i]);
        }
    }
    free(starts);
    free(states);
    return 0;
}
