/* cpu_gemm.c: products of matrices by the tiles of cpu_kernels.h.
 *
 * Both matrices are first copied, each element once: a into groups of tile_rows rows, b into panels
 * of columns.
 *
 *     a: [group][k][tile_rows]     b: [panel][k][columns of the panel]
 *
 * Every tile therefore reads two streams, whether or not a and b are transposed. Pieces are blocks
 * of c. A block processes k in stretches, during which its groups stay in the cache, and adds the
 * results to c. Only the shape determines pieces and stretches.
 *
 * No library is used. OpenBLAS without threads, called by two of our threads, sometimes gives both
 * the same work memory, and wrong sums. With threads, it competes with ours for the cores.
 */
#include <string.h>

#include "cpu.h"

enum { BLOCK_ROWS = 192, BLOCK_PANELS = 4, STRETCH = 256 };

typedef struct gemm_work {
    const spsh__gemm *g;
    const spsh__cpu_kernels *kernels;
    size_t tile_rows, panel_columns;
    size_t groups, panels;
    float *a, *b;
    size_t blocks_n;
} gemm_work;

static size_t panel_width(const gemm_work *w, size_t panel)
{
    const size_t left = w->g->n - panel * w->panel_columns;
    return spsh__round_up(spsh__least(left, w->panel_columns), w->kernels->lanes);
}

/* to[k][width] = from[row < count][k], transposed, and zeros. */
static void turn(const float *from, size_t row_step, size_t depth, float *to, size_t width,
                 size_t count)
{
    for (size_t start = 0; start < depth; start += STRETCH) {
        const size_t end = spsh__least(start + STRETCH, depth);
        for (size_t row = 0; row < count; row++) {
            for (size_t k = start; k < end; k++)
                to[k * width + row] = from[row * row_step + k];
        }
    }
    for (size_t k = 0; count < width && k < depth; k++)
        memset(to + k * width + count, 0, (width - count) * sizeof(*to));
}

static void copy(const float *from, size_t k_step, size_t depth, float *to, size_t width,
                 size_t count)
{
    for (size_t k = 0; k < depth; k++) {
        memcpy(to + k * width, from + k * k_step, count * sizeof(*to));
        memset(to + k * width + count, 0, (width - count) * sizeof(*to));
    }
}

static void group_piece(void *work, size_t group)
{
    const gemm_work *w = (const gemm_work *)work;
    const spsh__gemm *g = w->g;
    const size_t first = group * w->tile_rows, count = spsh__least(w->tile_rows, g->m - first);
    float *to = w->a + first * g->k;
    if (g->a_transposed)
        copy(spsh__f32(g->a) + first, g->a_stride, g->k, to, w->tile_rows, count);
    else
        turn(spsh__f32(g->a) + first * g->a_stride, g->a_stride, g->k, to, w->tile_rows, count);
}

static void panel_piece(void *work, size_t panel)
{
    const gemm_work *w = (const gemm_work *)work;
    const spsh__gemm *g = w->g;
    const size_t first = panel * w->panel_columns, width = panel_width(w, panel);
    const size_t count = spsh__least(width, g->n - first);
    float *to = w->b + first * g->k;
    if (g->b_transposed)
        turn(spsh__f32(g->b) + first * g->b_stride, g->b_stride, g->k, to, width, count);
    else
        copy(spsh__f32(g->b) + first, g->b_stride, g->k, to, width, count);
}

/* Write a tile: c = sums if keep is 0, else c = keep * c + sums. */
static void put_tile(const gemm_work *w, size_t row, size_t column, const float *sums, float keep)
{
    const spsh__gemm *g = w->g;
    const size_t rows = spsh__least(w->tile_rows, g->m - row);
    const size_t columns = spsh__least(w->panel_columns, g->n - column);
    for (size_t r = 0; r < rows; r++, sums += SPSH__TILE_COLUMNS_MAX) {
        float *c = spsh__f32(g->c) + (row + r) * g->c_stride + column;
        if (keep == 0)
            memcpy(c, sums, columns * sizeof(*c));
        else
            w->kernels->blend_fn((const float[3]){keep, 1, 0}, c, sums, c, columns);
    }
}

static void block_piece(void *work, size_t piece)
{
    const gemm_work *w = (const gemm_work *)work;
    const spsh__gemm *g = w->g;
    const size_t row_first = piece / w->blocks_n * BLOCK_ROWS;
    const size_t row_end = spsh__least(row_first + BLOCK_ROWS, g->m);
    const size_t panel_first = piece % w->blocks_n * BLOCK_PANELS;
    const size_t panel_end = spsh__least(panel_first + BLOCK_PANELS, w->panels);
    float sums[SPSH__TILE_ROWS_MAX * SPSH__TILE_COLUMNS_MAX];
    for (size_t k = 0; k < g->k; k += STRETCH) {
        const float keep = k == 0 ? (float)g->keep : 1;
        for (size_t panel = panel_first; panel < panel_end; panel++) {
            const size_t width = panel_width(w, panel), column = panel * w->panel_columns;
            for (size_t row = row_first; row < row_end; row += w->tile_rows) {
                const spsh__cpu_tile tile = {.rows = w->a + row * g->k + k * w->tile_rows,
                                             .columns = w->b + column * g->k + k * width,
                                             .step = width,
                                             .depth = spsh__least(STRETCH, g->k - k),
                                             .vectors = (uint32_t)(width / w->kernels->lanes),
                                             .out = sums,
                                             .out_stride = SPSH__TILE_COLUMNS_MAX};
                w->kernels->tile_fn(&tile);
                put_tile(w, row, column, sums, keep);
            }
        }
    }
}

/* c = keep * c, for a product without terms. */
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
    gemm_work w = {.g = g, .kernels = spsh__cpu_of(b)->kernels};
    w.tile_rows = w.kernels->tile_rows;
    w.panel_columns = (size_t)SPSH__TILE_VECTORS * w.kernels->lanes;
    w.groups = (g->m + w.tile_rows - 1) / w.tile_rows;
    w.panels = (g->n + w.panel_columns - 1) / w.panel_columns;
    w.blocks_n = (w.panels + BLOCK_PANELS - 1) / BLOCK_PANELS;
    const size_t a_floats = spsh__round_up(w.groups * w.tile_rows * g->k, SPSH__LANES_MAX);
    w.a = spsh__cpu_gemm_scratch(b, a_floats + spsh__round_up(g->n, w.kernels->lanes) * g->k);
    if (w.a == NULL)
        return;
    w.b = w.a + a_floats;
    spsh__cpu_run(b, group_piece, &w, w.groups);
    spsh__cpu_run(b, panel_piece, &w, w.panels);
    spsh__cpu_run(b, block_piece, &w, (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS * w.blocks_n);
}
