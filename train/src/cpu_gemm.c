/* cpu_gemm.c: products of matrices by OpenBLAS, the only file that knows of it. The serial library
 * is meant: its threads would be others than ours and, waiting, take their cores; we cut the result
 * into tiles ourselves, by its shape alone, and each tile is one call.
 *
 * A tile copies its part of a and b into the library's layout, once for each tile, so tiles are
 * large: they are halved along the longer side until there are 16, or the next halves would be
 * smaller than a few million products or 128 rows or columns.
 */
#include <cblas.h>
#include <string.h>

#include "cpu.h"

enum { TILES_MAX = 16, SIDE_MIN = 128 };
#define PRODUCTS_MIN ((size_t)4 << 20)

typedef struct gemm_work {
    const spsh__gemm *g;
    size_t tile_m, tile_n, tiles_n;
} gemm_work;

static void tile_piece(void *work, size_t piece)
{
    const gemm_work *w = (const gemm_work *)work;
    const spsh__gemm *g = w->g;
    const size_t i = piece / w->tiles_n * w->tile_m;
    const size_t j = piece % w->tiles_n * w->tile_n;
    const float *a = spsh__f32(g->a) + (g->a_transposed ? i : i * g->a_stride);
    const float *b = spsh__f32(g->b) + (g->b_transposed ? j * g->b_stride : j);
    cblas_sgemm(CblasRowMajor, g->a_transposed ? CblasTrans : CblasNoTrans,
                g->b_transposed ? CblasTrans : CblasNoTrans, (int)spsh__least(w->tile_m, g->m - i),
                (int)spsh__least(w->tile_n, g->n - j), (int)g->k, 1, a, (int)g->a_stride, b,
                (int)g->b_stride, (float)g->keep, spsh__f32(g->c) + i * g->c_stride + j,
                (int)g->c_stride);
}

static size_t half_of(size_t side)
{
    return spsh__round_up((side + 1) / 2, 16);
}

void spsh__cpu_gemm_open(void)
{
    openblas_set_num_threads(1); /* where the library is one of threads after all */
}

static gemm_work cut(const spsh__gemm *g)
{
    gemm_work w = {g, g->m, g->n, 1};
    for (size_t tiles = 1; tiles < TILES_MAX; tiles *= 2) {
        const bool cuts_m = w.tile_m >= w.tile_n;
        const size_t side = cuts_m ? w.tile_m : w.tile_n;
        if (side < (size_t)2 * SIDE_MIN || w.tile_m * w.tile_n / 2 * g->k < PRODUCTS_MIN)
            break;
        if (cuts_m)
            w.tile_m = half_of(side);
        else
            w.tile_n = half_of(side);
    }
    w.tiles_n = (g->n + w.tile_n - 1) / w.tile_n;
    return w;
}

/* c = keep * c: what is left of a product without terms. */
static void keep_only(spsh__backend *b, const spsh__gemm *g)
{
    for (size_t i = 0; i < g->m; i++) {
        float *row = spsh__f32(g->c) + i * g->c_stride;
        if (g->keep == 0)
            memset(row, 0, g->n * sizeof(*row));
        else
            spsh__cpu_of(b)->kernels->affine_fn((float)g->keep, row, 0, row, g->n);
    }
}

void spsh__cpu_gemm(spsh__backend *b, const spsh__gemm *g)
{
    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0) {
        keep_only(b, g);
        return;
    }
    gemm_work w = cut(g);
    spsh__cpu_run(b, tile_piece, &w, (g->m + w.tile_m - 1) / w.tile_m * w.tiles_n);
}
