/* backend_cuda_product.c: products and convolutions. The libraries do the main part through the
 * plug-in's entry. The kernels of kernels_product.h do the rest (biases, sums, products without
 * terms).
 *
 * Gradients of filters: the library adds floats to the arena itself. With 16 bits, it writes 16
 * bits into scratch, and a kernel adds them. Sums are floats, so a gradient is rounded once, to
 * nearest: 2^-9 of each element for bf16. cuDNN has no float filters for 16-bit tensors. As a
 * matrix product, the input would be copied for every element of the kernel: 231 times for DS2's
 * second convolution.
 */
#include "backend_cuda_state.h"

enum { PARTS_MAX = 32, PLANES_MAX = 32768 };
enum { SCRATCH_SUMS, SCRATCH_HALVES, SCRATCH_WORK };

#define ONE_OF(count_, most_) ((uint32_t)((count_) < (most_) ? (count_) : (most_)))

static spsh__backend_buffer floats(void *data)
{
    return (spsh__backend_buffer){data, false};
}

/* -------------------------------------------------------------------------------------- products
 */

static void keep_alone(spsh__backend *b, const spsh__gemm *g)
{
    if (g->keep == 1)
        return;
    const spsh__gemm_keep_job job = {spsh__cuda_array(b, g->c), g->m, g->c_stride, g->n,
                                     (float)g->keep};
    const spsh__device_use use = spsh__cuda_writes(g->c, (size_t)(g->m - 1) * g->c_stride + g->n);
    const spsh__kernel_launch l = {
        .kernel = SPSH__KERNEL_GEMM_KEEP,
        .blocks_x = spsh__cuda_blocks(b, (uint64_t)g->m * g->n),
        .blocks_y = 1,
        SPSH__CUDA_JOB(&job, &use, 1),
    };
    spsh__cuda_launch(b, &l);
}

typedef struct gemm_work {
    uint32_t lane;
    spsh__gemm g;
} gemm_work;

static spsh_status put_gemm(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const gemm_work *w = arguments;
    return self->entry->gemm_fn(self->train, w->lane, stream, &w->g, err);
}

void spsh__cuda_gemm(spsh__backend *b, const spsh__gemm *g)
{
    const gemm_work w = {spsh__cuda_lane(b), *g};
    if (g->m == 0 || g->n == 0)
        return;
    if (g->k == 0)
        keep_alone(b, g);
    else
        spsh__cuda_put(b, put_gemm, &w, sizeof(w));
}

/* --------------------------------------------------------------------------------- convolutions */

static size_t in_count(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->in_channels * s->in_bins * s->in_frames;
}

static size_t out_plane(const spsh__conv_shape *s)
{
    return (size_t)s->out_bins * s->out_frames;
}

static size_t out_count(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->out_channels * out_plane(s);
}

static size_t weight_count(const spsh__conv_shape *s)
{
    return (size_t)s->out_channels * s->in_channels * s->kernel_bins * s->kernel_frames;
}

typedef struct conv_work {
    uint32_t lane;
    spsh__conv_work work;
} conv_work;

static spsh_status put_conv(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const conv_work *w = arguments;
    return self->entry->conv_fn(self->train, w->lane, stream, &w->work, err);
}

static spsh_status ask_space(const spsh__cuda_state *self, conv_work *w, spsh_error *err)
{
    w->work.work_bytes_max = self->conv_bytes_max;
    return self->entry->conv_space_fn(self->train, w->lane, &w->work, &w->work.work_bytes, err);
}

/* If the work space of the fastest algorithm does not fit, allow less, for this convolution and all
 * later ones. Half of the free memory is left to other operators. With is_deterministic, the free
 * memory of the moment must not choose an algorithm, so this does nothing. */
static void make_do(spsh__backend *b, conv_work *w)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    conv_work less = *w;
    uint64_t free_bytes = 0, all_bytes = 0;
    if (b->is_deterministic || spsh__cuda_scratch_try(b, SCRATCH_WORK, w->work.work_bytes) ||
        self->plugin->memory_fn(b->device, &free_bytes, &all_bytes, NULL) != SPSH_OK)
        return;
    const size_t before = self->conv_bytes_max;
    self->conv_bytes_max = (size_t)(free_bytes / 2);
    if (self->conv_bytes_max < before && ask_space(self, &less, NULL) == SPSH_OK)
        *w = less;
    else
        self->conv_bytes_max = before;
}

/* Run the convolution with the work space that it needs, taken from scratch. */
static void convolve(spsh__backend *b, const spsh__conv_work *work)
{
    conv_work w = {spsh__cuda_lane(b), *work};
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_has_failed(b))
        return;
    const spsh_status rc = ask_space(spsh__cuda_of(b), &w, &err);
    spsh__cuda_failed(b, rc, &err);
    if (rc == SPSH_OK)
        make_do(b, &w);
    w.work.work = spsh__cuda_scratch(b, SCRATCH_WORK, w.work.work_bytes);
    if (w.work.work != NULL)
        spsh__cuda_put(b, put_conv, &w, sizeof(w));
}

static bool are_planes_wide(const spsh__conv_shape *s, const spsh__device_array *y)
{
    return out_plane(s) % 4 == 0 && spsh__is_aligned(y, 0);
}

static void add_bias(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer bias,
                     spsh__backend_buffer y)
{
    const uint64_t planes = (uint64_t)s->batch * s->out_channels;
    spsh__conv_bias_job job = {spsh__cuda_array(b, y), bias.data,       planes,
                               out_plane(s),           s->out_channels, 0};
    const spsh__device_use uses[] = {spsh__cuda_reads(bias, s->out_channels),
                                     spsh__cuda_writes(y, out_count(s))};
    job.is_wide = are_planes_wide(s, &job.y);
    const spsh__kernel_launch l = {
        .kernel = SPSH__KERNEL_CONV_BIAS,
        .blocks_x = ONE_OF(out_plane(s) / DEVICE_BLOCK_STEP + 1, PARTS_MAX),
        .blocks_y = ONE_OF(planes, PLANES_MAX),
        SPSH__CUDA_JOB(&job, uses, 2),
    };
    spsh__cuda_launch(b, &l);
}

void spsh__cuda_conv_forward(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer x,
                             spsh__backend_buffer weight, spsh__backend_buffer bias,
                             spsh__backend_buffer y)
{
    const spsh__conv_work work = {
        .shape = *s, .kind = SPSH__CONV_FORWARD, .x = x, .weight = weight, .y = y};
    if (out_count(s) == 0)
        return;
    convolve(b, &work);
    add_bias(b, s, bias, y);
}

static void sum_bias(spsh__backend *b, const spsh__conv_shape *s, const spsh__conv_grad *g)
{
    const uint32_t parts = ONE_OF(out_plane(s) / DEVICE_BLOCK_STEP + 1, PARTS_MAX);
    const size_t part_count = (size_t)s->out_channels * parts;
    float *sums = spsh__cuda_scratch(b, SCRATCH_SUMS, part_count * sizeof(float));
    if (sums == NULL)
        return;
    spsh__conv_bias_parts_job first = {
        spsh__cuda_array(b, g->dy), sums, out_plane(s), s->batch, s->out_channels, 0};
    first.is_wide = are_planes_wide(s, &first.dy);
    const spsh__device_use first_uses[] = {spsh__cuda_reads(g->dy, out_count(s)),
                                           spsh__cuda_writes(floats(sums), part_count)};
    const spsh__kernel_launch first_launch = {
        .kernel = SPSH__KERNEL_CONV_BIAS_PARTS,
        .blocks_x = parts,
        .blocks_y = s->out_channels,
        .shared_bytes = SPSH__DEVICE_THREADS * sizeof(float),
        SPSH__CUDA_JOB(&first, first_uses, 2),
    };
    spsh__cuda_launch(b, &first_launch);
    const spsh__conv_bias_sums_job then = {sums, g->dbias.data, parts, s->out_channels};
    const spsh__device_use then_uses[] = {spsh__cuda_reads(floats(sums), part_count),
                                          spsh__cuda_writes(g->dbias, s->out_channels)};
    const spsh__kernel_launch then_launch = {
        .kernel = SPSH__KERNEL_CONV_BIAS_SUMS,
        .blocks_x = spsh__cuda_blocks(b, s->out_channels),
        .blocks_y = 1,
        SPSH__CUDA_JOB(&then, then_uses, 2),
    };
    spsh__cuda_launch(b, &then_launch);
}

static void add_halves(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                       size_t count)
{
    const spsh__add_halves_job job = {to.data, spsh__cuda_array(b, from), count};
    const spsh__device_use uses[] = {spsh__cuda_reads(from, count), spsh__cuda_writes(to, count)};
    const spsh__kernel_launch l = {
        .kernel = SPSH__KERNEL_ADD_HALVES,
        .blocks_x = spsh__cuda_blocks(b, count),
        .blocks_y = 1,
        SPSH__CUDA_JOB(&job, uses, 2),
    };
    spsh__cuda_launch(b, &l);
}

static void sum_filters(spsh__backend *b, const spsh__conv_shape *s, const spsh__conv_grad *g)
{
    spsh__conv_work work = {
        .shape = *s, .kind = SPSH__CONV_FILTER, .x = g->x, .weight = g->dweight, .y = g->dy};
    if (g->x.is_half) {
        void *halves = spsh__cuda_scratch(b, SCRATCH_HALVES, weight_count(s) * sizeof(uint16_t));
        if (halves == NULL)
            return;
        work.weight = (spsh__backend_buffer){halves, true};
    }
    convolve(b, &work);
    if (g->x.is_half)
        add_halves(b, g->dweight, work.weight, weight_count(s));
}

void spsh__cuda_conv_backward(spsh__backend *b, const spsh__conv_shape *s, const spsh__conv_grad *g)
{
    const spsh__conv_work data = {
        .shape = *s, .kind = SPSH__CONV_DATA, .x = g->dx, .weight = g->weight, .y = g->dy};
    if (out_count(s) == 0) {
        if (g->dx.data != NULL)
            spsh__cuda_zero(b, g->dx, in_count(s));
        return;
    }
    if (g->dx.data != NULL)
        convolve(b, &data);
    sum_filters(b, s, g);
    sum_bias(b, s, g);
}
