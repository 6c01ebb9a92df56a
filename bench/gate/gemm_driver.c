/*
 * Runs the real kernels over one 64-column matrix, for counting their instructions:
 *
 *     gemm_driver ISA TYPE ROWS PASSES
 *
 * With ROWS > 0 a pass is the P8 product of that many rows (expand and gemm_i8, as linear.c calls them),
 * with ROWS = 0 the GEMV of one row.  It prints the multiply-accumulates of one pass.  What precedes the
 * passes does not depend on PASSES, so runs with one pass and with none differ by exactly its instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { N_K = 1024, N_COLS = QW_PANEL_COLS, N_PARTS = N_K / QW_BLOCK_K };

static void *zeroed(size_t n_bytes) {
    void *p = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    if (!p)
        abort();
    return memset(p, 0, n_bytes);
}

int main(int argc, char **argv) {
    const qw_kernels *k = argc == 5 ? qw_kernels_select(argv[1]) : NULL;
    uint32_t type = QW_F32;
    while (k && type < QW_TYPE_COUNT && (!k->expand[type] || strcmp(qw_type_get(type)->name, argv[2])))
        type++;
    if (!k || type == QW_TYPE_COUNT) {
        fprintf(stderr, "usage: %s ISA TYPE ROWS PASSES, with a set this CPU runs and a GGUF type name\n", argv[0]);
        return 2;
    }
    size_t n_rows = strtoul(argv[3], NULL, 10), n_passes = strtoul(argv[4], NULL, 10);
    size_t n_blocks = (n_rows + QW_BLOCK_ROWS - 1) / QW_BLOCK_ROWS;
    size_t col_bytes = qw_row_bytes(type, N_K), part_bytes = qw_row_bytes(type, QW_BLOCK_K);
    /* Bytes 0x11 make small half-float scales and legal values; no kernel branches on a value. */
    uint8_t *w = memset(zeroed(N_COLS * col_bytes), 0x11, N_COLS * col_bytes);
    int8_t *q = zeroed((n_blocks + 1) * N_PARTS * k->act_block_bytes), *panel = zeroed(QW_PANEL_BYTES);
    float *meta = zeroed((n_blocks + 1) * N_PARTS * QW_ACT_META * sizeof *meta),
          *c = zeroed((n_blocks + 1) * QW_TILE * sizeof *c);
    float *scale = zeroed(QW_PANEL_SCALES * sizeof *scale), *x = zeroed(N_K * sizeof *x), *d = zeroed(N_K),
          *sum = zeroed(N_K);
    qw_gemv_row row = {x, q, d, sum};

    for (size_t pass = 0; pass < n_passes; pass++) {
        if (n_rows == 0)
            k->gemv[type](w, col_bytes, N_COLS, N_K, &row, 1, c, N_COLS);
        else
            for (size_t part = 0; part < N_PARTS; part++) {
                k->expand[type](w + part * part_bytes, col_bytes, N_COLS, QW_BLOCK_K, panel, scale);
                k->gemm_i8(q + part * n_blocks * k->act_block_bytes, meta + part * n_blocks * QW_ACT_META, n_blocks,
                           panel, scale, c, part == 0);
            }
    }
    printf("%zu\n", (n_rows ? n_rows : 1) * N_COLS * N_K);
    return 0;
}
