/*
 * The gated delta rule, token by token as it is defined:
 *
 *     S *= decay;  u = beta (v - S' k);  S += k u';  o = S' q
 *
 * The chunk form is the same function of the same inputs, so here it is the same code.
 */
#include <math.h>

#include "../vector/f32_table.h"

static void step(const qw_delta_block *d, size_t t) {
    const float *k = d->k + t * d->ld_qk, *q = d->q + t * d->ld_qk;
    double decay = exp((double)d->log_decay[t]);

    for (size_t col = 0; col < d->n_v; col++) {
        float *s = d->state + col;
        double held = 0, out = 0, u;

        for (size_t i = 0; i < d->n_k; i++)
            held += decay * s[i * d->ld_state] * k[i];
        u = d->beta[t] * (d->v[t * d->ld_v + col] - held);
        for (size_t i = 0; i < d->n_k; i++) {
            double updated = decay * s[i * d->ld_state] + k[i] * u;

            out += updated * q[i];
            s[i * d->ld_state] = (float)updated;
        }
        d->o[t * d->ld_o + col] = (float)out;
    }
}

void qw_scalar_delta_step(const qw_delta_block *d) {
    for (size_t t = 0; t < d->n_tokens; t++)
        step(d, t);
}

void qw_scalar_delta_chunk(const qw_delta_block *d) {
    qw_scalar_delta_step(d);
}
