/* One evaluation, and the layers it goes through. */
#ifndef QW_FORWARD_H
#define QW_FORWARD_H

#include "linear.h"
#include "session.h"

/* Rows are tokens [position, position + n_rows) of the session; the residual stream is model->work.x. */
typedef struct qw_eval {
    qw_model *model;
    qw_session *session;
    qw_phase phase;
    qw_math math;
    size_t position;
    size_t n_rows;
    qw_snapshot *const
        *marks; /* snapshots to fill on the way, their positions increasing, in (position, position + n_rows] */
    size_t n_marks;
} qw_eval;

/*
 * x += mixer(rms(x)) for rows [first, n_rows).  State and KV rows are written for every row.
 * first is a multiple of QW_BLOCK_ROWS, or n_rows when no row's output is wanted.
 */
void qw_attention_layer(const qw_eval *e, const qw_layer *l, size_t first);
void qw_delta_layer(const qw_eval *e, const qw_layer *l, size_t first);

/* x += ffn(rms(x)) for rows [first, n_rows), at least one. */
void qw_ffn_layer(const qw_eval *e, const qw_layer *l, size_t first);

/* rms(x[row]) * weight: what every layer's matrices read. */
typedef struct qw_norm_source {
    const qw_model *model;
    const float *x; /* [rows][n_hidden] */
    const float *weight;
} qw_norm_source;
void qw_norm_row(const void *source, size_t row, float *out);

/* Bytes of workspace that decode attention needs, and of per-thread scratch that the two mixers need. */
size_t qw_attention_partials_bytes(const qw_model *m);
size_t qw_mixer_scratch_bytes(const qw_model *m);
size_t qw_attention_scratch_bytes(const qw_model *m);
size_t qw_delta_scratch_bytes(const qw_model *m);

#endif
