/* backend_cuda_rows.c: the operators whose kernels are in kernels_rows.h. */
#include "backend_cuda.h"

enum {
    PARTS_MAX = 128,   /* maximum number of parts of a sum of columns */
    PART_ROWS = 128,   /* minimum number of rows per part */
    PART_FRAMES = 64,  /* frames of a part of look-ahead's gradients */
    GRID_Y_MAX = 65535 /* maximum grid size along y on any device */
};

static spsh__device_use lengths_use(const uint32_t *lengths, uint32_t batch)
{
    return (spsh__device_use){lengths, batch * sizeof(*lengths), 0};
}

static bool is_wide(const spsh__device_array *x)
{
    return spsh__is_aligned(x, 0);
}

/* ---- elements */

static void put_elements(spsh__backend *b, uint32_t kernel, spsh__elements_job *job,
                         const spsh__device_use *uses, uint32_t use_count)
{
    if (job->count == 0)
        return;
    job->is_wide = is_wide(&job->x) && is_wide(&job->dy) && is_wide(&job->to);
    spsh__cuda_launch(
        b, &(spsh__kernel_launch){.kernel = kernel,
                                  .blocks_x = spsh__cuda_blocks(b, spsh__divide_up(job->count, 4)),
                                  .blocks_y = 1,
                                  SPSH__CUDA_JOB(job, uses, use_count)});
}

void spsh__cuda_clip_forward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer x,
                             spsh__backend_buffer y)
{
    spsh__elements_job job = {.x = spsh__cuda_array(b, x),
                              .to = spsh__cuda_array(b, y),
                              .count = count,
                              .factor = (float)limit};
    const spsh__device_use uses[] = {spsh__cuda_reads(x, count), spsh__cuda_writes(y, count)};
    put_elements(b, SPSH__KERNEL_CLIP_FORWARD, &job, uses, 2);
}

void spsh__cuda_clip_backward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer y,
                              spsh__backend_buffer dy, spsh__backend_buffer dx)
{
    spsh__elements_job job = {.x = spsh__cuda_array(b, y),
                              .dy = spsh__cuda_array(b, dy),
                              .to = spsh__cuda_array(b, dx),
                              .count = count};
    job.factor = spsh__rounded(job.x.kind, (float)limit); /* value of y where it was clipped */
    const spsh__device_use uses[] = {spsh__cuda_reads(y, count), spsh__cuda_reads(dy, count),
                                     spsh__cuda_writes(dx, count)};
    put_elements(b, SPSH__KERNEL_CLIP_BACKWARD, &job, uses, 3);
}

void spsh__cuda_scale(spsh__backend *b, double factor, spsh__backend_buffer x, size_t count)
{
    spsh__elements_job job = {
        .to = spsh__cuda_array(b, x), .count = count, .factor = (float)factor};
    const spsh__device_use use = spsh__cuda_writes(x, count);
    put_elements(b, SPSH__KERNEL_SCALE, &job, &use, 1);
}

void spsh__cuda_axpy(spsh__backend *b, double factor, spsh__backend_buffer x,
                     spsh__backend_buffer y, size_t count)
{
    spsh__elements_job job = {.x = spsh__cuda_array(b, x),
                              .to = spsh__cuda_array(b, y),
                              .count = count,
                              .factor = (float)factor};
    const spsh__device_use uses[] = {spsh__cuda_reads(x, count), spsh__cuda_writes(y, count)};
    put_elements(b, SPSH__KERNEL_AXPY, &job, uses, 2);
}

void spsh__cuda_mix(spsh__backend *b, double factor, spsh__backend_buffer theirs,
                    spsh__backend_buffer mine, spsh__backend_buffer y, size_t count)
{
    spsh__elements_job job = {.x = spsh__cuda_array(b, theirs),
                              .dy = spsh__cuda_array(b, mine),
                              .to = spsh__cuda_array(b, y),
                              .count = count,
                              .factor = (float)factor};
    const spsh__device_use uses[] = {spsh__cuda_reads(theirs, count), spsh__cuda_reads(mine, count),
                                     spsh__cuda_writes(y, count)};
    put_elements(b, SPSH__KERNEL_MIX, &job, uses, 3);
}

void spsh__cuda_convert(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                        size_t count)
{
    spsh__elements_job job = {
        .x = spsh__cuda_array(b, from), .to = spsh__cuda_array(b, to), .count = count};
    const spsh__device_use uses[] = {spsh__cuda_reads(from, count), spsh__cuda_writes(to, count)};
    put_elements(b, SPSH__KERNEL_CONVERT, &job, uses, 2);
}

spsh_status spsh__cuda_add_rows(spsh__backend *b, const spsh__add_rows *a, spsh_error *err)
{
    const spsh__device_kind half = a->half == SPSH__BF16 ? SPSH__DEVICE_BF16 : SPSH__DEVICE_FP16;
    spsh__add_rows_job job = {
        .from = {a->from.data, a->from.is_half ? half : SPSH__DEVICE_F32},
        .to = {a->to.data,   a->to.is_half ? half : SPSH__DEVICE_F32  },
        .count = a->count,
        .rows = a->rows
    };
    const spsh__device_use uses[] = {spsh__cuda_reads(a->from, a->rows * a->count),
                                     spsh__cuda_writes(a->to, a->count)};
    job.is_wide = is_wide(&job.from) && is_wide(&job.to) && (a->rows == 1 || a->count % 4 == 0);
    const spsh__kernel_launch l = {.kernel = SPSH__KERNEL_ADD_ROWS,
                                   .blocks_x = spsh__cuda_blocks(b, spsh__divide_up(a->count, 4)),
                                   .blocks_y = 1,
                                   SPSH__CUDA_JOB(&job, uses, 2)};
    return spsh__cuda_launch_on(b, a->stream, &l, err);
}

/* ---- lines */

static void put_lines(spsh__backend *b, uint32_t kernel, spsh__lines_job *job,
                      const spsh__device_use *uses, uint32_t use_count)
{
    if (job->lines == 0 || job->width == 0)
        return;
    spsh__cuda_launch(
        b, &(spsh__kernel_launch){.kernel = kernel,
                                  .blocks_x = spsh__cuda_blocks(b, job->lines * DEVICE_LANES),
                                  .blocks_y = 1,
                                  SPSH__CUDA_JOB(job, uses, use_count)});
}

static bool are_lines_wide(const spsh__lines_job *job)
{
    return is_wide(&job->from) && is_wide(&job->to) && job->from_stride % 4 == 0 &&
           job->to_stride % 4 == 0;
}

void spsh__cuda_bias_forward(spsh__backend *b, size_t rows, uint32_t width,
                             spsh__backend_buffer bias, spsh__backend_buffer x)
{
    spsh__lines_job job = {.from = spsh__cuda_array(b, bias),
                           .to = spsh__cuda_array(b, x),
                           .lines = rows,
                           .width = width,
                           .to_stride = width};
    const spsh__device_use uses[] = {spsh__cuda_reads(bias, width),
                                     spsh__cuda_writes(x, rows * width)};
    job.is_wide = are_lines_wide(&job);
    put_lines(b, SPSH__KERNEL_BIAS_FORWARD, &job, uses, 2);
}

void spsh__cuda_copy_columns(spsh__backend *b, const spsh__columns *c)
{
    spsh__lines_job job = {.from = spsh__cuda_array(b, c->from),
                           .to = spsh__cuda_array(b, c->to),
                           .lines = c->rows,
                           .width = c->width,
                           .from_stride = c->from_stride,
                           .to_stride = c->to_stride};
    if (c->rows == 0)
        return;
    const spsh__device_use uses[] = {
        spsh__cuda_reads(c->from, (c->rows - 1) * c->from_stride + c->width),
        spsh__cuda_writes(c->to, (c->rows - 1) * c->to_stride + c->width)};
    job.is_wide = are_lines_wide(&job);
    put_lines(b, SPSH__KERNEL_COPY_LINES, &job, uses, 2);
}

void spsh__cuda_mask_rows(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                          spsh__backend_buffer x)
{
    spsh__lines_job job = {.to = spsh__cuda_array(b, x),
                           .lines = (uint64_t)s->frames * s->batch,
                           .width = s->width,
                           .batch = s->batch,
                           .to_stride = s->width,
                           .lengths = spsh__cuda_lengths(b, lengths)};
    const spsh__device_use uses[] = {spsh__cuda_writes(x, job.lines * s->width),
                                     lengths_use(job.lengths, s->batch)};
    job.is_wide = are_lines_wide(&job);
    if (job.lengths != NULL)
        put_lines(b, SPSH__KERNEL_MASK_ROWS, &job, uses, 2);
}

void spsh__cuda_reverse(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                        spsh__backend_buffer from, spsh__backend_buffer to)
{
    spsh__lines_job job = {.from = spsh__cuda_array(b, from),
                           .to = spsh__cuda_array(b, to),
                           .lines = (uint64_t)s->frames * s->batch,
                           .width = s->width,
                           .batch = s->batch,
                           .from_stride = s->width,
                           .to_stride = s->width,
                           .lengths = spsh__cuda_lengths(b, lengths)};
    const spsh__device_use uses[] = {spsh__cuda_reads(from, job.lines * s->width),
                                     spsh__cuda_writes(to, job.lines * s->width),
                                     lengths_use(job.lengths, s->batch)};
    job.is_wide = are_lines_wide(&job);
    if (job.lengths != NULL)
        put_lines(b, SPSH__KERNEL_REVERSE, &job, uses, 3);
}

/* ---- transposes */

static void put_turn(spsh__backend *b, const spsh__turn_job *job, const spsh__device_use *uses,
                     uint32_t use_count)
{
    if (job->lines == 0 || job->columns == 0 || job->matrices == 0)
        return;
    const uint64_t tiles = spsh__divide_up(job->lines, SPSH__TURN_TILE) *
                           spsh__divide_up(job->columns, SPSH__TURN_TILE);
    spsh__cuda_launch(
        b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_TURN,
                                  .blocks_x = (uint32_t)tiles,
                                  .blocks_y = (uint32_t)spsh__least(job->matrices, GRID_Y_MAX),
                                  .shared_bytes = SPSH__TURN_SHARED,
                                  SPSH__CUDA_JOB(job, uses, use_count)});
}

void spsh__cuda_rows_from_conv(spsh__backend *b, const spsh__conv_shape *s,
                               spsh__backend_buffer conv, spsh__backend_buffer rows)
{
    const uint32_t planes = s->out_channels * s->out_bins;
    const uint64_t matrix = (uint64_t)planes * s->out_frames;
    const spsh__turn_job job = {.from = spsh__cuda_array(b, conv),
                                .to = spsh__cuda_array(b, rows),
                                .lines = planes,
                                .columns = s->out_frames,
                                .matrices = s->batch,
                                .from_matrix = matrix,
                                .from_line = s->out_frames,
                                .to_matrix = planes,
                                .to_line = (uint64_t)s->batch * planes};
    const spsh__device_use uses[] = {spsh__cuda_reads(conv, matrix * s->batch),
                                     spsh__cuda_writes(rows, matrix * s->batch)};
    put_turn(b, &job, uses, 2);
}

void spsh__cuda_conv_from_rows(spsh__backend *b, const spsh__conv_shape *s,
                               spsh__backend_buffer rows, spsh__backend_buffer conv)
{
    const uint32_t planes = s->out_channels * s->out_bins;
    const uint64_t matrix = (uint64_t)planes * s->out_frames;
    const spsh__turn_job job = {.from = spsh__cuda_array(b, rows),
                                .to = spsh__cuda_array(b, conv),
                                .lines = s->out_frames,
                                .columns = planes,
                                .matrices = s->batch,
                                .from_matrix = planes,
                                .from_line = (uint64_t)s->batch * planes,
                                .to_matrix = matrix,
                                .to_line = s->out_frames};
    const spsh__device_use uses[] = {spsh__cuda_reads(rows, matrix * s->batch),
                                     spsh__cuda_writes(conv, matrix * s->batch)};
    put_turn(b, &job, uses, 2);
}

/* ---- features */

/* Features are only read, so dropping const is safe. */
static spsh__device_array features_of(const spsh__arrange *a)
{
    union {
        const void *given;
        void *data;
    } features = {a->features};
    return (spsh__device_array){features.data, SPSH__DEVICE_F32};
}

static void arrange_conv(spsh__backend *b, const spsh__arrange *a, const uint32_t *lengths,
                         const spsh__device_use *uses, uint32_t use_count)
{
    const spsh__turn_job job = {.from = features_of(a),
                                .to = spsh__cuda_array(b, a->to),
                                .lines = a->frames,
                                .columns = a->width,
                                .matrices = a->batch,
                                .from_matrix = (uint64_t)a->feature_frames * a->width,
                                .from_line = a->width,
                                .to_matrix = (uint64_t)a->frames * a->width,
                                .to_line = a->frames,
                                .lengths = lengths};
    put_turn(b, &job, uses, use_count);
}

static void arrange_rows(spsh__backend *b, const spsh__arrange *a, const uint32_t *lengths,
                         const spsh__device_use *uses, uint32_t use_count)
{
    spsh__lines_job job = {.from = features_of(a),
                           .to = spsh__cuda_array(b, a->to),
                           .lines = (uint64_t)a->frames * a->batch,
                           .width = a->width,
                           .batch = a->batch,
                           .frames = a->feature_frames,
                           .from_stride = a->width,
                           .to_stride = a->width,
                           .lengths = lengths};
    job.is_wide = are_lines_wide(&job);
    put_lines(b, SPSH__KERNEL_ARRANGE_ROWS, &job, uses, use_count);
}

/* Events order the loader's stream and the lane. A captured segment would keep the events of only
 * one batch, so this call is never part of a segment. */
void spsh__cuda_arrange(spsh__backend *b, const spsh__arrange *a)
{
    const spsh__cuda_plugin *plugin = spsh_cuda_plugin_of(b->cuda);
    const uint32_t *lengths = spsh__cuda_lengths(b, a->lengths);
    const size_t features = (size_t)a->feature_batch * a->feature_frames * a->width;
    const size_t count = (size_t)a->batch * a->frames * a->width;
    const spsh__device_use uses[] = {
        {a->features, features * sizeof(float), 0},
        spsh__cuda_writes(a->to, count),
        lengths_use(lengths, a->batch)
    };
    void *stream = spsh__cuda_stream(b);
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_has_failed(b) || lengths == NULL)
        return;
    if (a->ready != NULL)
        spsh__cuda_failed(b, plugin->event_wait_fn(a->ready, stream, &err), &err);
    if (a->is_conv)
        arrange_conv(b, a, lengths, uses, 3);
    else
        arrange_rows(b, a, lengths, uses, 3);
    if (a->done != NULL && !spsh__cuda_has_failed(b))
        spsh__cuda_failed(b, plugin->event_record_fn(a->done, stream, &err), &err);
}

/* ---- sums of columns */

/* Group rows as if the batch was padded (SPSH__CUDA_BATCH_MULTIPLE). */
static void group_rows(spsh__columns_job *job, size_t rows, uint32_t batch)
{
    job->batch = batch == 0 || rows % batch != 0 ? SPSH__CUDA_BATCH_MULTIPLE : batch;
    job->padded = (uint32_t)spsh__round_up(job->batch, SPSH__CUDA_BATCH_MULTIPLE);
    job->rows = job->batch == job->padded ? rows : rows / job->batch * job->padded;
    job->part_rows = spsh__divide_up(job->rows, PARTS_MAX);
    job->part_rows = job->part_rows < PART_ROWS ? PART_ROWS : job->part_rows;
    job->parts = (uint32_t)spsh__divide_up(job->rows, job->part_rows);
}

void spsh__cuda_add_sums(spsh__backend *b, const spsh__cuda_sums *s)
{
    spsh__columns_job job = {.x = spsh__cuda_array(b, s->x),
                             .to = spsh__cuda_array(b, s->to),
                             .also = spsh__cuda_array(b, s->also),
                             .width = s->width,
                             .also_width = s->also_width};
    if (s->rows == 0 || s->width == 0)
        return;
    group_rows(&job, s->rows, spsh__cuda_batch_size(b));
    const size_t size_bytes = (size_t)job.parts * s->width * sizeof(double);
    job.partial = spsh__cuda_scratch(b, 0, size_bytes);
    if (job.partial == NULL)
        return;
    const spsh__device_use sums[] = {
        spsh__cuda_reads(s->x, s->rows * s->width), {job.partial, size_bytes, 1}
    };
    const spsh__device_use adds[] = {
        {job.partial, size_bytes, 0},
        spsh__cuda_writes(s->to, s->width),
        spsh__cuda_writes(s->also, s->also_width)
    };
    spsh__kernel_launch l = {.kernel = SPSH__KERNEL_COLUMN_SUMS,
                             .blocks_x = (uint32_t)spsh__divide_up(s->width, DEVICE_LANES),
                             .blocks_y = job.parts,
                             .shared_bytes = SPSH__COLUMNS_SHARED,
                             SPSH__CUDA_JOB(&job, sums, 2)};
    spsh__cuda_launch(b, &l);
    l.kernel = SPSH__KERNEL_ADD_COLUMNS;
    l.blocks_y = 1;
    l.uses = adds;
    l.use_count = s->also.data == NULL ? 2 : 3;
    spsh__cuda_launch(b, &l);
}

void spsh__cuda_bias_backward(spsh__backend *b, size_t rows, uint32_t width,
                              spsh__backend_buffer dy, spsh__backend_buffer dbias)
{
    const spsh__cuda_sums s = {.rows = rows, .width = width, .x = dy, .to = dbias};
    spsh__cuda_add_sums(b, &s);
}

/* ---- look-ahead */

/* Transposes [width][context] to [context][width], so that adjacent threads read adjacent elements.
 * Returns NULL on failure. */
static float *turned_weights(spsh__backend *b, const spsh__lookahead *l)
{
    const size_t count = (size_t)l->width * l->context;
    float *weights = spsh__cuda_scratch(b, 1, count * sizeof(*weights));
    const spsh__turn_job job = {
        .from = spsh__cuda_array(b, l->weight),
        .to = {weights, SPSH__DEVICE_F32},
        .lines = l->width,
        .columns = l->context,
        .matrices = 1,
        .from_line = l->context,
        .to_line = l->width
    };
    const spsh__device_use uses[] = {
        spsh__cuda_reads(l->weight, count), {weights, count * sizeof(*weights), 1}
    };
    if (weights != NULL)
        put_turn(b, &job, uses, 2);
    return weights;
}

static void put_lookahead(spsh__backend *b, const spsh__lookahead *l, spsh__backend_buffer from,
                          spsh__backend_buffer to, bool is_backward)
{
    const size_t row = (size_t)l->batch * l->width;
    const spsh__lookahead_job job = {.from = spsh__cuda_array(b, from),
                                     .to = spsh__cuda_array(b, to),
                                     .weights = turned_weights(b, l),
                                     .frames = l->frames,
                                     .batch = l->batch,
                                     .width = l->width,
                                     .context = l->context,
                                     .is_backward = is_backward};
    const spsh__device_use uses[] = {
        spsh__cuda_reads(from, row * l->frames),
        spsh__cuda_writes(to, row * l->frames),
        {job.weights, (size_t)l->width * l->context * sizeof(float), 0}
    };
    if (job.weights == NULL)
        return;
    spsh__cuda_launch(
        b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_LOOKAHEAD,
                                  .blocks_x = spsh__cuda_blocks(b, row),
                                  .blocks_y = (uint32_t)spsh__least(
                                      spsh__divide_up(l->frames, SPSH__LOOKAHEAD_TILE), GRID_Y_MAX),
                                  SPSH__CUDA_JOB(&job, uses, 3)});
}

static bool is_empty(const spsh__lookahead *l)
{
    return l->frames == 0 || l->batch == 0 || l->width == 0 || l->context == 0;
}

void spsh__cuda_lookahead_forward(spsh__backend *b, const spsh__lookahead *l,
                                  spsh__backend_buffer x, spsh__backend_buffer y)
{
    if (!is_empty(l))
        put_lookahead(b, l, x, y, false);
}

static void add_weights(spsh__backend *b, const spsh__lookahead *l, const spsh__lookahead_grad *g)
{
    const size_t count = (size_t)l->width * l->context;
    const size_t elements = (size_t)l->frames * l->batch * l->width;
    spsh__lookahead_job job = {.from = spsh__cuda_array(b, g->x),
                               .to = spsh__cuda_array(b, g->dy),
                               .frames = l->frames,
                               .batch = l->batch,
                               .width = l->width,
                               .context = l->context,
                               .part_frames = (uint32_t)spsh__divide_up(l->frames, PARTS_MAX)};
    job.part_frames = job.part_frames < PART_FRAMES ? PART_FRAMES : job.part_frames;
    job.parts = (uint32_t)spsh__divide_up(l->frames, job.part_frames);
    const size_t size_bytes = job.parts * count * sizeof(double);
    job.partial = spsh__cuda_scratch(b, 0, size_bytes);
    if (job.partial == NULL)
        return;
    const spsh__device_use sums[] = {
        spsh__cuda_reads(g->x, elements),
        spsh__cuda_reads(g->dy, elements),
        {job.partial, size_bytes, 1}
    };
    const spsh__device_use adds[] = {
        {job.partial, size_bytes, 0},
        spsh__cuda_writes(g->dweight, count)
    };
    spsh__kernel_launch launch = {.kernel = SPSH__KERNEL_LOOKAHEAD_WEIGHTS,
                                  .blocks_x =
                                      (uint32_t)(spsh__divide_up(l->width, DEVICE_LANES) *
                                                 spsh__divide_up(l->context, SPSH__LOOKAHEAD_TILE)),
                                  .blocks_y = job.parts,
                                  .shared_bytes = SPSH__LOOKAHEAD_SHARED,
                                  SPSH__CUDA_JOB(&job, sums, 3)};
    spsh__cuda_launch(b, &launch);
    job.to = spsh__cuda_array(b, g->dweight);
    launch.kernel = SPSH__KERNEL_ADD_LOOKAHEAD;
    launch.blocks_x = spsh__cuda_blocks(b, count);
    launch.blocks_y = 1;
    launch.shared_bytes = 0;
    launch.uses = adds;
    launch.use_count = 2;
    spsh__cuda_launch(b, &launch);
}

void spsh__cuda_lookahead_backward(spsh__backend *b, const spsh__lookahead *l,
                                   const spsh__lookahead_grad *g)
{
    if (is_empty(l))
        return;
    if (g->dx.data != NULL)
        put_lookahead(b, l, g->dy, g->dx, true);
    add_weights(b, l, g);
}
