/* twin_train.c: the trainer's part of the host emulation: kernels by twin_kernels.h, and products
 * and convolutions as loops, over twin_runtime.h.
 *
 * Products have the device's arithmetic: factors rounded to the precision (tf32: 10 fraction bits,
 * to nearest), exact products, sums in float, in the order of k; a 16-bit result is rounded once. A
 * real device adds in another order.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/device_train.h"
#include "cuda/kernels.h"
#include "twin_kernels.h"
#include "twin_runtime.h"

SPSH_API const spsh__device_train_entry *spsh_cuda_train_entry(void);

enum { GEMM_WORK_BYTES = 70000 }; /* work space per lane, unused */

typedef struct train_state {
    spsh__device_train_plan plan;
    void *gemm_work[SPSH__DEVICE_LANES];
} train_state;

static spsh_status launch(void *opaque, void *stream, const spsh__kernel_launch *l, spsh_error *err)
{
    (void)opaque;
    return twin_launch(stream, l, err);
}

/* ---- elements ---- */

static spsh__device_array array_of(const train_state *self, spsh__backend_buffer buffer)
{
    const spsh__device_kind half =
        self->plan.precision == SPSH__BF16 ? SPSH__DEVICE_BF16 : SPSH__DEVICE_FP16;
    return (spsh__device_array){buffer.data, buffer.is_half ? half : SPSH__DEVICE_F32};
}

static size_t bytes_of(spsh__backend_buffer buffer, size_t count)
{
    return count * (buffer.is_half ? sizeof(uint16_t) : sizeof(float));
}

/* Round a factor to the precision of products. */
static float factor_of(float value, bool is_tf32)
{
    const uint32_t bits = spsh__bits_of_f32(value);
    if (!is_tf32 || (bits & 0x7f800000U) == 0x7f800000U)
        return value;
    return spsh__f32_of_bits(spsh__round_bits(bits, 13) << 13);
}

/* Copy `count` factors to consecutive floats of the caller. */
static void load(const spsh__device_array *from, size_t first, size_t step, size_t count, float *to,
                 bool is_tf32)
{
    for (size_t i = 0; i < count; i++)
        to[i] = factor_of(spsh__device_get(from, first + i * step), is_tf32);
}

/* ---- products ---- */

typedef struct gemm_work {
    spsh__gemm g;
    spsh__device_array a, b, c;
    bool is_tf32;
} gemm_work;

/* Row m of a as k factors; column n of b. */
static void run_gemm(void *arguments)
{
    const gemm_work *w = arguments;
    const spsh__gemm *g = &w->g;
    float *a = malloc((size_t)g->k * sizeof(*a));
    float *b = malloc((size_t)g->n * g->k * sizeof(*b));
    if (a == NULL || b == NULL)
        abort();
    for (size_t n = 0; n < g->n; n++)
        load(&w->b, g->b_transposed ? n * g->b_stride : n, g->b_transposed ? 1 : g->b_stride, g->k,
             b + n * g->k, w->is_tf32);
    for (size_t m = 0; m < g->m; m++) {
        load(&w->a, g->a_transposed ? m : m * g->a_stride, g->a_transposed ? g->a_stride : 1, g->k,
             a, w->is_tf32);
        for (size_t n = 0; n < g->n; n++) {
            const size_t at = m * g->c_stride + n;
            float sum = 0;
            for (size_t k = 0; k < g->k; k++)
                sum += a[k] * b[n * g->k + k];
            if (g->keep != 0)
                sum += (float)g->keep * spsh__device_get(&w->c, at);
            spsh__device_set(&w->c, at, sum);
        }
    }
    free(a);
    free(b);
}

/* A matrix of rows with gaps: one use per row, because others may use the gaps. */
typedef struct use_list {
    spsh__device_use *uses;
    size_t count;
} use_list;

static void add_matrix(use_list *list, spsh__backend_buffer matrix, size_t rows, size_t width,
                       size_t stride, uint32_t is_write)
{
    const size_t step = bytes_of(matrix, stride);
    if (stride == width) {
        width *= rows;
        rows = 1;
    }
    for (size_t i = 0; i < rows; i++)
        list->uses[list->count++] = (spsh__device_use){(const char *)matrix.data + i * step,
                                                       bytes_of(matrix, width), is_write};
}

static spsh_status gemm(void *opaque, uint32_t lane, void *stream, const spsh__gemm *g,
                        spsh_error *err)
{
    const train_state *self = opaque;
    gemm_work w;
    if (lane >= SPSH__DEVICE_LANES || g->m == 0 || g->n == 0 || g->k == 0 ||
        g->a.is_half != g->b.is_half)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "twin: no such product");
    const size_t a_rows = g->a_transposed ? g->k : g->m, b_rows = g->b_transposed ? g->n : g->k;
    use_list list = {calloc(a_rows + b_rows + g->m, sizeof(spsh__device_use)), 0};
    if (list.uses == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "twin: no memory");
    add_matrix(&list, g->a, a_rows, g->a_transposed ? g->m : g->k, g->a_stride, 0);
    add_matrix(&list, g->b, b_rows, g->b_transposed ? g->k : g->n, g->b_stride, 0);
    add_matrix(&list, g->c, g->m, g->n, g->c_stride, 1);
    memset(&w, 0, sizeof(w));
    w.g = *g;
    w.a = array_of(self, g->a);
    w.b = array_of(self, g->b);
    w.c = array_of(self, g->c);
    w.is_tf32 = self->plan.precision == SPSH__TF32;
    const twin_work work = {
        .name = "gemm",
        .run_fn = run_gemm,
        .arguments = &w,
        .argument_bytes = sizeof(w),
        .uses = list.uses,
        .use_count = list.count,
    };
    const spsh_status rc = twin_enqueue(stream, &work, err);
    free(list.uses);
    return rc;
}

/* ---- convolutions ---- */

/* The fast and the slow algorithm are equal except for their work space. */
enum { CONV_FAST_BYTES = 300000, CONV_SLOW_BYTES = 4096 };

static size_t conv_bytes(const spsh__conv_work *c)
{
    return c->work_bytes_max < CONV_FAST_BYTES ? CONV_SLOW_BYTES : CONV_FAST_BYTES;
}

typedef struct conv_work {
    spsh__conv_shape shape;
    spsh__conv_kind kind;
    spsh__device_array x, weight, y; /* one of them is written */
    bool is_tf32;
} conv_work;

static size_t in_count(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->in_channels * s->in_bins * s->in_frames;
}

static size_t out_count(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->out_channels * s->out_bins * s->out_frames;
}

static size_t weight_count(const spsh__conv_shape *s)
{
    return (size_t)s->out_channels * s->in_channels * s->kernel_bins * s->kernel_frames;
}

/* All three are sums over the same triples: an output, a weight, the input where they meet. */
typedef struct meeting {
    size_t out, in, weight, count; /* out, in, weight: per row of the kernel; count: adjacent
                                      elements */
} meeting;

typedef struct meeting_sums {
    spsh__conv_kind kind;
    float *x, *weight, *y; /* the operation adds to one of them, chosen by its kind */
} meeting_sums;

static void meet(const meeting *m, const meeting_sums *sums)
{
    float *x = sums->x + m->in, *weight = sums->weight + m->weight, *y = sums->y + m->out;
    for (size_t i = 0; i < m->count; i++) {
        if (sums->kind == SPSH__CONV_FORWARD)
            *y += weight[i] * x[i];
        else if (sums->kind == SPSH__CONV_DATA)
            x[i] += weight[i] * *y;
        else
            weight[i] += x[i] * *y;
    }
}

/* Every row of the kernel at one output of channel o, bin f, frame t of utterance n. */
static void meet_output(const spsh__conv_shape *s, const uint32_t at[4], const meeting_sums *sums)
{
    const uint32_t n = at[0], o = at[1], f = at[2], t = at[3];
    const int64_t first = (int64_t)t * s->stride_frames - s->pad_frames;
    const int64_t end = first + s->kernel_frames;
    const int64_t from = first < 0 ? 0 : first;
    const int64_t until = end > (int64_t)s->in_frames ? (int64_t)s->in_frames : end;
    if (until <= from)
        return;
    for (uint32_t c = 0; c < s->in_channels; c++) {
        for (uint32_t kf = 0; kf < s->kernel_bins; kf++) {
            const int64_t bin = (int64_t)f * s->stride_bins + kf - s->pad_bins;
            if (bin < 0 || bin >= (int64_t)s->in_bins)
                continue;
            const size_t row =
                (((size_t)n * s->in_channels + c) * s->in_bins + (size_t)bin) * s->in_frames;
            const size_t weight_row =
                (((size_t)o * s->in_channels + c) * s->kernel_bins + kf) * s->kernel_frames;
            const meeting m = {
                .out = (((size_t)n * s->out_channels + o) * s->out_bins + f) * s->out_frames + t,
                .in = row + (size_t)from,
                .weight = weight_row + (size_t)(from - first),
                .count = (size_t)(until - from),
            };
            meet(&m, sums);
        }
    }
}

static void meet_all(const spsh__conv_shape *s, const meeting_sums *sums)
{
    const size_t count = out_count(s);
    for (size_t i = 0; i < count; i++) {
        size_t left = i;
        uint32_t at[4];
        at[3] = (uint32_t)(left % s->out_frames), left /= s->out_frames;
        at[2] = (uint32_t)(left % s->out_bins), left /= s->out_bins;
        at[1] = (uint32_t)(left % s->out_channels), left /= s->out_channels;
        at[0] = (uint32_t)left;
        meet_output(s, at, sums);
    }
}

/* A float copy: inputs converted, outputs zeroed. */
static float *begun(const conv_work *w, const spsh__device_array *values, size_t count,
                    bool is_written)
{
    float *floats = calloc(count + 1, sizeof(*floats));
    if (floats == NULL)
        abort();
    if (!is_written)
        load(values, 0, 1, count, floats, w->is_tf32);
    return floats;
}

static void store(const spsh__device_array *to, const float *values, size_t count, bool adds)
{
    for (size_t i = 0; i < count; i++)
        spsh__device_set(to, i, adds ? spsh__device_get(to, i) + values[i] : values[i]);
}

static void run_conv(void *arguments)
{
    const conv_work *w = arguments;
    const spsh__conv_shape *s = &w->shape;
    const meeting_sums sums = {
        .kind = w->kind,
        .x = begun(w, &w->x, in_count(s), w->kind == SPSH__CONV_DATA),
        .weight = begun(w, &w->weight, weight_count(s), w->kind == SPSH__CONV_FILTER),
        .y = begun(w, &w->y, out_count(s), w->kind == SPSH__CONV_FORWARD),
    };
    meet_all(s, &sums);
    if (w->kind == SPSH__CONV_DATA)
        store(&w->x, sums.x, in_count(s), false);
    else if (w->kind == SPSH__CONV_FILTER)
        store(&w->weight, sums.weight, weight_count(s), w->weight.kind == SPSH__DEVICE_F32);
    else
        store(&w->y, sums.y, out_count(s), false);
    free(sums.x);
    free(sums.weight);
    free(sums.y);
}

static spsh_status check_conv(const spsh__conv_work *c, uint32_t lane, spsh_error *err)
{
    const spsh__conv_shape *s = &c->shape;
    if (lane >= SPSH__DEVICE_LANES || in_count(s) == 0 || out_count(s) == 0 ||
        weight_count(s) == 0 || c->x.is_half != c->weight.is_half || c->x.is_half != c->y.is_half)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "twin: no such convolution");
    return SPSH_OK;
}

static spsh_status conv_space(void *opaque, uint32_t lane, const spsh__conv_work *c,
                              size_t *ret_bytes, spsh_error *err)
{
    (void)opaque;
    const spsh_status rc = check_conv(c, lane, err);
    if (rc == SPSH_OK)
        *ret_bytes = conv_bytes(c);
    return rc;
}

static spsh_status conv(void *opaque, uint32_t lane, void *stream, const spsh__conv_work *c,
                        spsh_error *err)
{
    static const char *const names[] = {"no convolution", "conv", "conv_data", "conv_filter"};
    const train_state *self = opaque;
    const spsh__conv_shape *s = &c->shape;
    conv_work w;
    const spsh_status rc = check_conv(c, lane, err);
    if (rc != SPSH_OK)
        return rc;
    if (c->work_bytes < conv_bytes(c) || (uintptr_t)c->work % 256 != 0)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "twin: no such work space");
    memset(&w, 0, sizeof(w));
    w.shape = *s;
    w.kind = c->kind;
    w.x = array_of(self, c->x);
    w.weight = array_of(self, c->weight);
    w.y = array_of(self, c->y);
    w.is_tf32 = self->plan.precision == SPSH__TF32;
    const spsh__device_use uses[] = {
        {c->x.data,                     bytes_of(c->x,  in_count(s)),      c->kind == SPSH__CONV_DATA},
        {c->weight.data,                             bytes_of(c->weight,                              weight_count(s)), c->kind == SPSH__CONV_FILTER},
        {c->y.data, bytes_of(c->y,               out_count(s)),                        c->kind == SPSH__CONV_FORWARD},
        {c->work,                c->work_bytes,1},
    };
    const twin_work work = {names[c->kind], run_conv, &w, sizeof(w), uses, 4, NULL};
    return twin_enqueue(stream, &work, err);
}

/* ---- the entry ---- */

static void close_state(void *opaque)
{
    train_state *self = opaque;
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++)
        twin_table.free_fn(self->gemm_work[i]);
    free(self);
}

static spsh_status open_state(const spsh__device_train_plan *plan, void **ret_state,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    train_state *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "twin: no memory");
    self->plan = *plan;
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES && rc == SPSH_OK; i++)
        rc = twin_table.alloc_fn(plan->device, GEMM_WORK_BYTES, &self->gemm_work[i], err);
    if (rc == SPSH_OK)
        *ret_state = self;
    else
        close_state(self);
    return rc;
}

#define SPSH_X(number_, name_, job_) TWIN_##number_,
enum { SPSH__KERNELS(SPSH_X) TWIN_KERNELS };
#undef SPSH_X

#define SPSH_X(number_, name_, job_) +sizeof(job_) // NOLINT(bugprone-macro-parentheses)
SPSH_API const spsh__device_train_entry *spsh_cuda_train_entry(void)
{
    static const spsh__device_train_entry entry = {
        .jobs_bytes = 0 SPSH__KERNELS(SPSH_X),
        .kernel_count = TWIN_KERNELS,
        .open_bytes = SPSH__DEVICE_LANES * (size_t)GEMM_WORK_BYTES,
        .open_fn = open_state,
        .close_fn = close_state,
        .launch_fn = launch,
        .gemm_fn = gemm,
        .conv_space_fn = conv_space,
        .conv_fn = conv,
    };
    return &entry;
}
#undef SPSH_X
