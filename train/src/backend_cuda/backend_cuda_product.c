/* backend_cuda_product.c: products and convolutions. The libraries do the main part through the
 * plug-in's entry. The kernels of kernels_product.h do the rest (sums, products without terms).
 * Biases of convolutions are added by norms: spsh__backend_ops.norm_adds_bias.
 *
 * Gradients of filters: the library adds floats to the arena itself. With 16 bits, it writes 16
 * bits into scratch, and a kernel adds them. Sums are floats, so a gradient is rounded once, to
 * nearest: 2^-9 of each element for bf16. cuDNN has no float filters for 16-bit tensors. As a
 * matrix product, the input would be copied for every element of the kernel: 231 times for DS2's
 * second convolution.
 */
#include <assert.h>

#include "backend_cuda_state.h"

enum { SCRATCH_HALVES, SCRATCH_WORK };

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

void spsh__cuda_conv_forward(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer x,
                             spsh__backend_buffer weight, spsh__backend_buffer bias,
                             spsh__backend_buffer y)
{
    assert(bias.data == NULL); /* norm_adds_bias */
    (void)bias;
    const spsh__conv_work work = {
        .shape = *s, .kind = SPSH__CONV_FORWARD, .x = x, .weight = weight, .y = y};
    if (out_count(s) == 0)
        return;
    convolve(b, &work);
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
}
