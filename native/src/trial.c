/* A fixed piece of prefill's work, for whoever has a clock and wants to know which kernel set is faster here. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kernels/kernels.h"
#include "memory.h"
#include "qwarm.h"

enum { ROW_BLOCKS = 4, PASSES = 4 };

typedef struct {
    int8_t panel[QW_PANEL_BYTES];
    int8_t q[2 * ROW_BLOCKS * QW_BLOCK_ROWS * QW_BLOCK_K]; /* room for sets that keep int16 */
    float scale[QW_PANEL_SCALES], meta[ROW_BLOCKS * QW_ACT_META], tiles[ROW_BLOCKS * QW_TILE];
} trial;

qw_status qw_isa_trial(const char *isa) {
    const qw_kernels *k = qw_kernels_select(isa);
    if (!k)
        return qw_fail(QW_ERR_ISA, "kernel set %s is unknown or not on this CPU", isa);
    trial *t = qw_big_alloc(sizeof *t);
    if (!t)
        return qw_fail(QW_ERR_MEMORY, "no memory for a trial of %s", isa);
    for (int pass = 0; pass < PASSES; pass++) /* zeros take as long as other numbers */
        k->gemm_i8(t->q, t->meta, ROW_BLOCKS, t->panel, t->scale, t->tiles, true);
    qw_big_free(t, sizeof *t);
    return QW_OK;
}
