/* backend_cuda_norm.c: batch normalization on a device: partial sums, statistics of each channel
 * from them, and then y or dx (kernels_norm.h). The shape determines the number of parts. */
#include "backend_cuda.h"

enum {
    PART_ELEMENTS = 16384, /* approximate elements of a convolution's channel per part */
    PART_ROWS = 64,        /* minimum rows per part */
    PARTS_MAX = 128,       /* maximum number of parts, for rows */
    GRID_Y_MAX = 65535,    /* maximum grid size along y on any device */
    USES = 16
};

/* Shared arguments of a norm's launches. */
typedef struct norm_call {
    spsh__backend *b;
    spsh__norm_job job;
    uint64_t elements; /* elements of x */
    spsh__device_use uses[USES];
    uint32_t use_count;
} norm_call;

static void add_use(norm_call *c, const void *begin, uint64_t size_bytes, bool is_write)
{
    if (begin != NULL)
        c->uses[c->use_count++] = (spsh__device_use){begin, size_bytes, is_write};
}

/* begin: a value of each channel. */
static void add_floats(norm_call *c, const float *begin, bool is_write)
{
    add_use(c, begin, c->job.channels * sizeof(*begin), is_write);
}

static void add_array(norm_call *c, const spsh__device_array *x, bool is_write)
{
    const size_t element_bytes = x->kind == SPSH__DEVICE_F32 ? sizeof(float) : sizeof(uint16_t);
    add_use(c, x->data, c->elements * element_bytes, is_write);
}

static uint64_t partial_bytes(const spsh__norm_job *job)
{
    return 2 * (uint64_t)job->parts * job->channels * sizeof(double);
}

static uint64_t lines_bytes(const spsh__norm_job *job)
{
    return 4 * (uint64_t)job->channels * sizeof(float);
}

/* Launch a kernel. The list of uses is empty afterward. */
static void put(norm_call *c, uint32_t kernel, uint32_t blocks_x, uint32_t blocks_y,
                uint32_t shared_bytes)
{
    if (c->job.lengths != NULL)
        add_use(c, c->job.lengths, c->job.batch * sizeof(uint32_t), false);
    spsh__cuda_launch(c->b, &(spsh__kernel_launch){.kernel = kernel,
                                                   .blocks_x = blocks_x,
                                                   .blocks_y = blocks_y,
                                                   .shared_bytes = shared_bytes,
                                                   SPSH__CUDA_JOB(&c->job, c->uses, c->use_count)});
    c->use_count = 0;
}

/* ---- the job */

static void cut_parts(spsh__norm_job *job)
{
    const uint64_t rows = (uint64_t)job->frames * job->padded;
    uint64_t part_size = spsh__divide_up(rows, PARTS_MAX);
    uint64_t parts = 0;
    if (job->is_conv != 0) {
        part_size = job->frames == 0 ? 1 : spsh__divide_up(PART_ELEMENTS, job->frames);
        if (job->batch * spsh__divide_up(job->bins, part_size) > GRID_Y_MAX)
            part_size = job->bins;
        parts = job->batch * spsh__divide_up(job->bins, part_size);
    } else {
        part_size = part_size < PART_ROWS ? PART_ROWS : part_size;
        parts = spsh__divide_up(rows, part_size);
    }
    job->part_size = (uint32_t)part_size;
    job->parts = (uint32_t)parts;
}

/* Return false on failure. */
static bool norm_open(norm_call *c, const spsh__norm_shape *s, const uint32_t *lengths,
                      const spsh__norm_state *state)
{
    spsh__norm_job *job = &c->job;
    job->is_conv = s->is_conv;
    job->batch = s->batch;
    job->padded = (uint32_t)spsh__round_up(s->batch, SPSH__CUDA_BATCH_MULTIPLE);
    job->channels = s->channels;
    job->bins = s->is_conv ? s->bins : 1;
    job->frames = s->frames;
    job->counts_padding = s->is_conv && s->counts_padding;
    job->clip = (float)s->clip;
    job->conv_bias = state->conv_bias.data;
    job->weight = state->weight.data;
    job->bias = state->bias.data;
    job->running_mean = state->running_mean.data;
    job->running_variance = state->running_variance.data;
    job->batch_mean = state->batch_mean.data;
    job->batch_scale = state->batch_scale.data;
    c->elements = (uint64_t)s->batch * s->channels * job->bins * s->frames;
    if (c->elements > 0)
        cut_parts(job);
    if (lengths != NULL && (s->is_conv || !s->counts_padding)) {
        job->lengths = spsh__cuda_lengths(c->b, lengths);
        if (job->lengths == NULL)
            return false;
    }
    /* With either kind, each line then begins at a multiple of four elements. */
    job->is_wide = (s->is_conv ? s->frames : s->channels) % 4 == 0 &&
                   spsh__is_aligned(&job->x, 0) && spsh__is_aligned(&job->dy, 0) &&
                   spsh__is_aligned(&job->to, 0);
    job->partial = spsh__cuda_scratch(c->b, 0, partial_bytes(job) + sizeof(double));
    job->lines = spsh__cuda_scratch(c->b, 1, lines_bytes(job));
    return job->partial != NULL && job->lines != NULL;
}

/* ---- launches */

static void put_sums(norm_call *c)
{
    const spsh__norm_job *job = &c->job;
    add_array(c, &job->x, false);
    add_array(c, &job->dy, false);
    if (job->dy.data != NULL)
        add_floats(c, job->batch_mean, false);
    if (job->dy.data != NULL && job->clip > 0) {
        add_floats(c, job->weight, false);
        add_floats(c, job->bias, false);
        add_floats(c, job->batch_scale, false);
    }
    add_use(c, job->partial, partial_bytes(job), true);
    if (job->is_conv != 0)
        put(c, SPSH__KERNEL_NORM_CONV_SUMS, job->channels, job->parts, SPSH__NORM_SHARED);
    else
        put(c, SPSH__KERNEL_NORM_ROWS_SUMS, (uint32_t)spsh__divide_up(job->channels, DEVICE_LANES),
            job->parts, SPSH__NORM_SHARED);
}

static void put_learn(norm_call *c)
{
    const spsh__norm_job *job = &c->job;
    const bool is_backward = job->dy.data != NULL;
    if (job->parts > 0)
        add_use(c, job->partial, partial_bytes(job), false);
    add_use(c, job->lines, lines_bytes(job), true);
    add_floats(c, job->weight, false);
    add_floats(c, job->conv_bias, false);
    if (is_backward) {
        add_floats(c, job->batch_mean, false);
        add_floats(c, job->batch_scale, false);
        add_floats(c, job->dweight, true);
        add_floats(c, job->dbias, true);
        add_floats(c, job->dconv_bias, true);
    } else {
        add_floats(c, job->bias, false);
        add_floats(c, job->running_mean, job->is_training != 0);
        add_floats(c, job->running_variance, job->is_training != 0);
    }
    if (!is_backward && job->is_training != 0) {
        add_array(c, &job->x, false); /* the first element that counts */
        add_floats(c, job->batch_mean, true);
        add_floats(c, job->batch_scale, true);
    }
    put(c, is_backward ? SPSH__KERNEL_NORM_LEARN_BACK : SPSH__KERNEL_NORM_LEARN,
        (uint32_t)spsh__divide_up(job->channels, DEVICE_LANES), 1, SPSH__NORM_SHARED);
}

static void put_apply(norm_call *c)
{
    const spsh__norm_job *job = &c->job;
    const uint64_t rows = (uint64_t)job->batch * job->frames;
    const uint64_t lines = (uint64_t)job->batch * job->channels * job->bins;
    add_array(c, &job->x, false);
    add_array(c, &job->dy, false);
    add_array(c, &job->to, true);
    add_use(c, job->lines, lines_bytes(job), false);
    if (job->dy.data != NULL && job->clip > 0)
        add_floats(c, job->bias, false);
    if (job->is_conv != 0) {
        put(c, SPSH__KERNEL_NORM_CONV_APPLY, spsh__cuda_blocks(c->b, lines * DEVICE_LANES), 1, 0);
        return;
    }
    const uint64_t across = spsh__divide_up(job->channels, DEVICE_LINE_STEP);
    uint64_t down = spsh__cuda_blocks(c->b, rows * across * DEVICE_LANES) / across;
    down = spsh__least(spsh__least(down + 1, spsh__divide_up(rows, DEVICE_WARPS)), GRID_Y_MAX);
    put(c, SPSH__KERNEL_NORM_ROWS_APPLY, (uint32_t)across, (uint32_t)down, 0);
}

void spsh__cuda_norm_forward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                             bool is_training, const spsh__norm_state *state,
                             const spsh__norm_io *io)
{
    norm_call c = {.b = b};
    c.job.x = spsh__cuda_array(b, io->x);
    c.job.to = spsh__cuda_array(b, io->y);
    c.job.is_training = is_training;
    if (s->channels == 0 || !norm_open(&c, s, lengths, state))
        return;
    if (c.elements > 0 && is_training)
        put_sums(&c);
    put_learn(&c);
    if (c.elements > 0)
        put_apply(&c);
}

void spsh__cuda_norm_backward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                              const spsh__norm_state *state, const spsh__norm_grad *g)
{
    norm_call c = {.b = b};
    c.job.x = spsh__cuda_array(b, g->x);
    c.job.dy = spsh__cuda_array(b, g->dy);
    c.job.to = spsh__cuda_array(b, g->dx);
    c.job.dweight = g->dweight.data;
    c.job.dbias = g->dbias.data;
    c.job.dconv_bias = g->dconv_bias.data;
    if (s->channels == 0 || !norm_open(&c, s, lengths, state) || c.elements == 0)
        return;
    put_sums(&c);
    put_learn(&c);
    if (g->dx.data != NULL)
        put_apply(&c);
}
