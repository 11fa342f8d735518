/* operator_cases.c: the table of cases, and below it the code that all rows share. */
#include "operator_cases.h"

#include <math.h>

#include "cuda/device_half.h"
#include "doubles.h"
#include "spsh_test.h"

#define TAIL_COUNT 4u
#define TAIL_VALUE 12288.0 /* exact in every type */

/* Buffers with 16 bits if the backend supports them: operator_run's halves. */
enum {
    IN_0 = 1U << 0,
    IN_1 = 1U << 1,
    IN_2 = 1U << 2,
    OUT = 1U << OPERATOR_INPUTS_MAX,
};

spsh__precision operator_rounding = SPSH__FP32;

static spsh__backend_buffer take_kind(operator_run *r, size_t count, bool is_half)
{
    const double tail[TAIL_COUNT] = {TAIL_VALUE, TAIL_VALUE, TAIL_VALUE, TAIL_VALUE};
    spsh__backend_buffer buffer = {NULL, false};
    is_half = is_half && r->b->has_half;
    REQUIRE(r->buffer_count < OPERATOR_BUFFERS_MAX);
    REQUIRE((is_half ? r->ops->alloc_half_fn : r->ops->alloc_fn)(r->b, count + TAIL_COUNT, &buffer,
                                                                 NULL) == SPSH_OK);
    REQUIRE((uintptr_t)buffer.data % 256 == 0);
    put_doubles(r->b, spsh__at(r->ops, buffer, count), tail, TAIL_COUNT);
    r->buffers[r->buffer_count] = buffer;
    r->buffer_counts[r->buffer_count++] = count;
    return buffer;
}

static spsh__backend_buffer take(operator_run *r, size_t count)
{
    return take_kind(r, count, false);
}

static double rounded(float value)
{
    switch (operator_rounding) {
    case SPSH__TF32:
        return (double)spsh__f32_of_bits(spsh__round_bits(spsh__bits_of_f32(value), 13) << 13);
    case SPSH__BF16: return (double)spsh__f32_of_bf16(spsh__bf16_of_f32(value));
    case SPSH__FP16: return (double)spsh__f32_of_fp16(spsh__fp16_of_f32(value));
    default: return (double)value;
    }
}

/* Fill the buffer with NaNs. */
static void spoil(operator_run *r, spsh__backend_buffer buffer, size_t count)
{
    double *values = malloc((count + 1) * sizeof(double));
    REQUIRE(values != NULL);
    for (size_t i = 0; i < count; i++)
        values[i] = (double)NAN;
    put_doubles(r->b, buffer, values, count);
    free(values);
}

static double *random_values(operator_run *r, size_t count)
{
    double *values = malloc((count + 1) * sizeof(double));
    REQUIRE(values != NULL);
    for (size_t i = 0; i < count; i++)
        values[i] = rounded((float)(test_random(&r->random) >> 41) / 4194304.0f - 1.0f);
    return values;
}

static void add_input(operator_run *r, size_t count, bool adds)
{
    REQUIRE(r->input_count < OPERATOR_INPUTS_MAX);
    const bool is_half = (r->halves >> r->input_count & 1U) != 0;
    operator_input *input = &r->inputs[r->input_count++];
    double *values = random_values(r, count);
    *input = (operator_input){.count = count, .adds = adds, .before = random_values(r, count)};
    input->data = take_kind(r, count, is_half);
    input->gradient = take_kind(r, count, is_half && !adds);
    put_doubles(r->b, input->data, values, count);
    free(values);
}

static void add_work(operator_run *r, unsigned number, size_t count)
{
    r->work[number] = take(r, count);
    r->work_counts[number] = count;
}

static void set_y(operator_run *r, size_t count)
{
    r->y_count = count;
    r->y = take_kind(r, count, (r->halves & OUT) != 0);
    r->dy = take_kind(r, count, (r->halves & OUT) != 0);
    r->dy_values = random_values(r, count);
    spoil(r, r->y, count);
}

static spsh__backend_buffer dx(const operator_run *r)
{
    return r->is_without_dx ? (spsh__backend_buffer){NULL, false} : r->inputs[0].gradient;
}

/* A device has a copy of a batch's lengths. */
static void upload_lengths(const operator_run *r, const uint32_t *lengths, uint32_t batch)
{
    const spsh__batch_lengths l = {lengths, lengths, batch};
    if (r->ops->batch_fn != NULL)
        r->ops->batch_fn(r->b, &l);
}

/* Frames of utterance n, at most `frames`: all, none, half, all except one, ... */
static const uint32_t *some_lengths(const operator_run *r, uint32_t batch, uint32_t frames)
{
    static uint32_t lengths[64];
    REQUIRE(batch <= 64);
    for (uint32_t n = 0; n < batch; n++) {
        const uint32_t choice[5] = {frames, 0, frames / 2, frames > 0 ? frames - 1 : 0, frames};
        lengths[n] = choice[n % 5];
    }
    upload_lengths(r, lengths, batch);
    return lengths;
}

/* ------------------------------------------------------------------------------------ products */

static void gemm_open(operator_run *r)
{
    const spsh__gemm *g = r->c->shape;
    r->halves = g->keep == 0 ? IN_0 | IN_1 | OUT : IN_0 | IN_1; /* sums are floats */
    add_input(r, (g->a_transposed ? g->k : g->m) * g->a_stride, false);
    add_input(r, (g->b_transposed ? g->n : g->k) * g->b_stride, false);
    add_work(r, 0, g->m * g->c_stride);
    double *values = random_values(r, g->m * g->c_stride);
    put_doubles(r->b, r->work[0], values, g->m * g->c_stride);
    free(values);
    set_y(r, g->m * g->c_stride);
}

static void gemm_forward(operator_run *r)
{
    spsh__gemm g = *(const spsh__gemm *)r->c->shape;
    g.a = r->inputs[0].data;
    g.b = r->inputs[1].data;
    g.c = r->y;
    r->ops->copy_fn(r->b, r->y, r->work[0], r->y_count);
    r->ops->gemm_fn(r->b, &g);
}

/* Columns must be correct if the stride leaves a gap; the gap of c must keep its contents. */
static const spsh__gemm gemms[] = {
    {.m = 3,    .n = 4,      .k = 5,               .a_stride = 5,   .b_stride = 4,   .c_stride = 4      },
    {      .m = 3,   .n = 4,      .k = 5, .a_transposed = true,   .a_stride = 7,   .b_stride = 6,       .c_stride = 9},
    {      .m = 1,   .n = 7,      .k = 2, .b_transposed = true,   .a_stride = 2,   .b_stride = 3,       .c_stride = 7},
    {      .m = 5,   .n = 1,      .k = 3,        .a_stride = 4,   .b_stride = 1,   .c_stride = 2,           .keep = 1},
    {      .m = 4,   .n = 3,      .k = 0,        .a_stride = 1,   .b_stride = 3,   .c_stride = 3,         .keep = 0.5},
    {      .m = 2,   .n = 2,      .k = 0,        .a_stride = 1,   .b_stride = 2,   .c_stride = 2                   },
    { .m = 0,   .n = 3, .k = 2,        .a_stride = 2,   .b_stride = 3,                .c_stride = 3},
    {                                                                                       .a_transposed = true,
     .b_transposed = true,
     .m = 6,
     .n = 5,
     .k = 4,
     .a_stride = 6,
     .b_stride = 5,
     .c_stride = 5,
     .keep = -1},
    {                                                                                               .m = 150, .n = 131,     .k = 97,      .a_stride = 100, .b_stride = 140, .c_stride = 133,           .keep = 1},
    {      .a_transposed = true,
     .m = 260,
     .n = 70,
     .k = 333,
     .a_stride = 261,
     .b_stride = 70,
     .c_stride = 70},
    {                                                                                           .b_transposed = true,
     .m = 33,
     .n = 300,
     .k = 129,
     .a_stride = 129,
     .b_stride = 130,
     .c_stride = 300},
};

static void bias_open(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    const size_t rows = (size_t)s->frames * s->batch;
    r->halves = IN_0 | OUT;
    add_input(r, rows * s->width, false);
    add_input(r, s->width, true);
    set_y(r, rows * s->width);
}

static void bias_forward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->copy_fn(r->b, r->y, r->inputs[0].data, r->y_count);
    r->ops->bias_forward_fn(r->b, (size_t)s->frames * s->batch, s->width, r->inputs[1].data, r->y);
}

static void bias_backward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->bias_backward_fn(r->b, (size_t)s->frames * s->batch, s->width, r->dy,
                             r->inputs[1].gradient);
    if (!r->is_without_dx)
        r->ops->copy_fn(r->b, r->inputs[0].gradient, r->dy, r->y_count);
}

/* ----------------------------------------------------------------------------------- rows */

/* Two columns are left free in front, three at the end. */
static void columns_open(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    const size_t rows = (size_t)s->frames * s->batch;
    r->halves = IN_0 | OUT;
    add_input(r, rows * s->width, false);
    set_y(r, rows * (s->width + 5));
}

static void columns_forward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    const spsh__columns c = {(size_t)s->frames * s->batch, s->width, r->inputs[0].data,
                             spsh__at(r->ops, r->y, 2),    s->width, s->width + 5};
    r->ops->zero_fn(r->b, r->y, r->y_count);
    r->ops->copy_columns_fn(r->b, &c);
}

static void columns_backward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    const spsh__columns c = {(size_t)s->frames * s->batch, s->width,     spsh__at(r->ops, r->dy, 2),
                             r->inputs[0].gradient,        s->width + 5, s->width};
    r->ops->copy_columns_fn(r->b, &c);
}

static void rows_open(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    const size_t count = (size_t)s->frames * s->batch * s->width;
    r->halves = IN_0 | OUT;
    add_input(r, count, false);
    set_y(r, count);
}

static void mask_rows_forward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->copy_fn(r->b, r->y, r->inputs[0].data, r->y_count);
    r->ops->mask_rows_fn(r->b, s, some_lengths(r, s->batch, s->frames), r->y);
}

static void mask_rows_backward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->copy_fn(r->b, r->inputs[0].gradient, r->dy, r->y_count);
    r->ops->mask_rows_fn(r->b, s, some_lengths(r, s->batch, s->frames), r->inputs[0].gradient);
}

static void reverse_forward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->reverse_fn(r->b, s, some_lengths(r, s->batch, s->frames), r->inputs[0].data, r->y);
}

static void reverse_backward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->reverse_fn(r->b, s, some_lengths(r, s->batch, s->frames), r->dy, r->inputs[0].gradient);
}

static void clip_forward(operator_run *r)
{
    r->ops->clip_forward_fn(r->b, 0.5, r->y_count, r->inputs[0].data, r->y);
}

static void clip_backward(operator_run *r)
{
    r->ops->clip_backward_fn(r->b, 0.5, r->y_count, r->y, r->dy, r->inputs[0].gradient);
}

static void log_softmax_forward(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->ops->log_softmax_fn(r->b, (size_t)s->frames * s->batch, s->width, r->inputs[0].data, r->y);
}

/* Only in float: 16 bits cannot hold a sum. */
static void sums_open(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    const size_t count = (size_t)s->frames * s->batch * s->width;
    add_input(r, count, false);
    set_y(r, count);
}

static void mix_forward(operator_run *r)
{
    if (r->y_count == 0)
        return;
    r->ops->copy_fn(r->b, r->y, r->inputs[0].data, r->y_count);
    r->ops->scale_fn(r->b, -1.5, r->y, r->y_count);
    r->ops->axpy_fn(r->b, 0.25, r->inputs[0].data, r->y, r->y_count);
}

/* scale, axpy, and mix, then the sum of squares in the first element. */
static void sums_forward(operator_run *r)
{
    if (r->y_count == 0)
        return;
    r->ops->copy_fn(r->b, r->y, r->inputs[0].data, r->y_count);
    r->ops->scale_fn(r->b, -1.5, r->y, r->y_count);
    r->ops->axpy_fn(r->b, 0.25, r->inputs[0].data, r->y, r->y_count);
    r->ops->mix_fn(r->b, 0.5, r->inputs[0].data, r->y, r->y, r->y_count);
    const double sum = r->ops->square_sum_fn(r->b, r->y, r->y_count);
    put_doubles(r->b, r->y, &sum, 1);
}

static const spsh__rows rows[] = {
    {4, 3, 5},
    {1, 1, 1},
    {7, 5, 2},
    {0, 3, 4},
    {3, 0, 4}
};
static const spsh__rows large_rows = {61, 9, 173};

static void lookahead_open(operator_run *r)
{
    const spsh__lookahead *l = r->c->shape;
    const size_t count = (size_t)l->frames * l->batch * l->width;
    r->halves = IN_0 | OUT;
    add_input(r, count, false);
    add_input(r, (size_t)l->width * l->context, true);
    set_y(r, count);
}

static void lookahead_forward(operator_run *r)
{
    spsh__lookahead l = *(const spsh__lookahead *)r->c->shape;
    l.weight = r->inputs[1].data;
    r->ops->lookahead_forward_fn(r->b, &l, r->inputs[0].data, r->y);
}

static void lookahead_backward(operator_run *r)
{
    spsh__lookahead l = *(const spsh__lookahead *)r->c->shape;
    l.weight = r->inputs[1].data;
    const spsh__lookahead_grad g = {r->inputs[0].data, r->dy, dx(r), r->inputs[1].gradient};
    r->ops->lookahead_backward_fn(r->b, &l, &g);
}

static const spsh__lookahead lookaheads[] = {
    {.frames = 6,  .batch = 2, .width = 3,   .context = 4 },
    {.frames = 2,  .batch = 1, .width = 1,   .context = 5 },
    {.frames = 0,  .batch = 2, .width = 3,   .context = 2 },
    {.frames = 70, .batch = 5, .width = 130, .context = 20},
};

/* ----------------------------------------------------------------------------------- convolutions
 */

static size_t conv_in(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->in_channels * s->in_bins * s->in_frames;
}

static size_t conv_out(const spsh__conv_shape *s)
{
    return (size_t)s->batch * s->out_channels * s->out_bins * s->out_frames;
}

static void conv_open(operator_run *r)
{
    const spsh__conv_shape *s = r->c->shape;
    REQUIRE(s->out_bins == spsh__conv_out(s->in_bins, s->kernel_bins, s->stride_bins, s->pad_bins));
    REQUIRE(s->out_frames ==
            spsh__conv_out(s->in_frames, s->kernel_frames, s->stride_frames, s->pad_frames));
    r->halves = IN_0 | IN_1 | OUT;
    add_input(r, conv_in(s), false);
    add_input(r, (size_t)s->out_channels * s->in_channels * s->kernel_bins * s->kernel_frames,
              true);
    set_y(r, conv_out(s));
}

/* Without a bias, which some backends add later: conv_norm. */
static void conv_forward(operator_run *r)
{
    r->ops->conv_forward_fn(r->b, r->c->shape, r->inputs[0].data, r->inputs[1].data,
                            (spsh__backend_buffer){NULL, false}, r->y);
}

static void conv_backward(operator_run *r)
{
    const spsh__conv_grad g = {.x = r->inputs[0].data,
                               .weight = r->inputs[1].data,
                               .dy = r->dy,
                               .dx = dx(r),
                               .dweight = r->inputs[1].gradient};
    r->ops->conv_backward_fn(r->b, r->c->shape, &g);
}

static void conv_rows_open(operator_run *r)
{
    r->halves = IN_0 | OUT;
    add_input(r, conv_out(r->c->shape), false);
    set_y(r, conv_out(r->c->shape));
}

static void conv_rows_forward(operator_run *r)
{
    r->ops->rows_from_conv_fn(r->b, r->c->shape, r->inputs[0].data, r->y);
}

static void conv_rows_backward(operator_run *r)
{
    r->ops->conv_from_rows_fn(r->b, r->c->shape, r->dy, r->inputs[0].gradient);
}

/* batch, channels in and out; bins, frames in and out; kernel, stride, pad, bins first */
static const spsh__conv_shape convs[] = {
    {2, 2, 3,  7,  9,   4,  9,   3,  5,  2, 1, 1,  2},
    {1, 1, 1,  1,  1,   1,  1,   1,  1,  1, 1, 0,  0},
    {3, 1, 2,  5,  4,   3,  2,   11, 7,  2, 2, 5,  3},
    {1, 3, 2,  6,  8,   2,  3,   2,  3,  3, 2, 0,  0},
    {0, 2, 3,  7,  9,   4,  9,   3,  5,  2, 1, 1,  2},
    {2, 1, 2,  4,  0,   2,  0,   3,  3,  2, 1, 1,  1},
    {1, 1, 2,  2,  2,   0,  0,   3,  3,  1, 1, 0,  0},
    {3, 8, 16, 21, 50,  11, 50,  11, 7,  2, 1, 5,  3},
    {2, 1, 32, 81, 61,  41, 31,  41, 11, 2, 2, 20, 5},
    {5, 4, 5,  3,  600, 2,  600, 3,  11, 2, 1, 1,  5}, /* many blocks of frames */
};

/* ----------------------------------------------------------------------------------- normalisation
 */

typedef struct norm_case {
    spsh__norm_shape shape;
    bool has_lengths, is_training;
} norm_case;

static const uint32_t *norm_lengths(const operator_run *r)
{
    const norm_case *c = r->c->shape;
    return c->has_lengths ? some_lengths(r, c->shape.batch, c->shape.frames) : NULL;
}

/* weight: index of the input; the bias is the next one. */
static spsh__norm_state norm_state(const operator_run *r, unsigned weight)
{
    return (spsh__norm_state){.weight = r->inputs[weight].data,
                              .bias = r->inputs[weight + 1].data,
                              .running_mean = r->work[0],
                              .running_variance = r->work[1],
                              .batch_mean = r->work[2],
                              .batch_scale = r->work[3]};
}

static void norm_statistics(operator_run *r, size_t channels)
{
    for (unsigned i = 0; i < 4; i++)
        add_work(r, i, channels);
    double *values = random_values(r, channels);
    put_doubles(r->b, r->work[0], values, channels);
    for (size_t i = 0; i < channels; i++)
        values[i] = fabs(values[i]) + 0.125;
    put_doubles(r->b, r->work[1], values, channels);
    free(values);
}

static void norm_open(operator_run *r)
{
    const norm_case *c = r->c->shape;
    const size_t channels = c->shape.channels;
    const size_t count = (size_t)c->shape.batch * channels * c->shape.frames *
                         (c->shape.is_conv ? c->shape.bins : 1);
    r->halves = IN_0 | OUT;
    add_input(r, count, false);
    add_input(r, channels, true);
    add_input(r, channels, true);
    norm_statistics(r, channels);
    set_y(r, count);
}

static void norm_forward(operator_run *r)
{
    const norm_case *c = r->c->shape;
    const spsh__norm_state state = norm_state(r, 1);
    const spsh__norm_io io = {r->inputs[0].data, r->y};
    r->ops->norm_forward_fn(r->b, &c->shape, norm_lengths(r), c->is_training, &state, &io);
}

static void norm_backward(operator_run *r)
{
    const norm_case *c = r->c->shape;
    const spsh__norm_state state = norm_state(r, 1);
    const spsh__norm_grad g = {.x = r->inputs[0].data,
                               .dy = r->dy,
                               .dx = dx(r),
                               .dweight = r->inputs[1].gradient,
                               .dbias = r->inputs[2].gradient};
    r->ops->norm_backward_fn(r->b, &c->shape, norm_lengths(r), &state, &g);
}

/* is_conv, batch, channels, bins, frames, counts_padding; has lengths, is training */
static const norm_case norms[] = {
    {{true, 3, 2, 4, 5, false, 0},     true,  true},
    {{true, 3, 2, 4, 5, true, 0},      true,  true},
    {{true, 2, 3, 2, 3, false, 0},     false, true},
    {{false, 5, 3, 0, 4, false, 0},    true,  true},
    {{false, 5, 3, 0, 4, true, 0},     true,  true},
    {{false, 2, 2, 0, 3, false, 0},    false, true},
    {{true, 2, 2, 3, 0, false, 0},     true,  true},
    {{false, 0, 2, 0, 3, false, 0},    true,  true},
    {{false, 9, 150, 0, 77, false, 0}, true,  true},
    {{true, 7, 32, 41, 33, false, 0},  true,  true},
    {{true, 7, 32, 41, 33, true, 0},   true,  true},
};
static const norm_case norms_used[] = {
    {{true, 3, 2, 4, 5, false, 0}, true,  false},
    {{false, 5, 3, 0, 4, true, 0}, false, false}
};

/* A convolution, its bias, norm, masks, and clip, as in a model. The backend decides whether the
 * convolution or the norm adds the bias. */
typedef struct conv_norm_case {
    const spsh__conv_shape *conv;
    bool counts_padding, is_training;
} conv_norm_case;

enum { CONV_BIAS = 2, CONV_NORM = 3 }; /* inputs */

static void conv_norm_open(operator_run *r)
{
    const conv_norm_case *c = r->c->shape;
    const spsh__conv_shape *s = c->conv;
    r->halves = IN_0 | IN_1 | OUT;
    add_input(r, conv_in(s), false);
    add_input(r, (size_t)s->out_channels * s->in_channels * s->kernel_bins * s->kernel_frames,
              true);
    for (unsigned i = CONV_BIAS; i < CONV_NORM + 2; i++)
        add_input(r, s->out_channels, true);
    norm_statistics(r, s->out_channels);
    r->work_counts[2] = 0; /* a backend's means may be without the bias */
    set_y(r, conv_out(s));
    r->work[4] = take_kind(r, conv_out(s), true); /* the convolution, and its gradient */
    r->work[5] = take_kind(r, conv_out(s), true);
}

/* Only with floats: rounding to 16 bits moves values past the clip's limits. */
static spsh__norm_shape conv_norm_shape(const conv_norm_case *c)
{
    return (spsh__norm_shape){.is_conv = true,
                              .batch = c->conv->batch,
                              .channels = c->conv->out_channels,
                              .bins = c->conv->out_bins,
                              .frames = c->conv->out_frames,
                              .counts_padding = c->counts_padding,
                              .clip = operator_rounding == SPSH__FP32 ? 0.75 : 0};
}

static void conv_norm_forward(operator_run *r)
{
    const conv_norm_case *c = r->c->shape;
    const spsh__norm_shape shape = conv_norm_shape(c);
    spsh__norm_state state = norm_state(r, CONV_NORM);
    const spsh__norm_io io = {r->work[4], r->y};
    spsh__backend_buffer bias = {NULL, false};
    *(r->ops->norm_adds_bias ? &state.conv_bias : &bias) = r->inputs[CONV_BIAS].data;
    r->ops->conv_forward_fn(r->b, c->conv, r->inputs[0].data, r->inputs[1].data, bias, io.x);
    r->ops->norm_forward_fn(r->b, &shape, some_lengths(r, shape.batch, shape.frames),
                            c->is_training, &state, &io);
}

static void conv_norm_backward(operator_run *r)
{
    const conv_norm_case *c = r->c->shape;
    const spsh__norm_shape shape = conv_norm_shape(c);
    spsh__norm_state state = norm_state(r, CONV_NORM);
    spsh__norm_grad g = {.x = r->work[4],
                         .dy = r->dy,
                         .dx = r->work[5],
                         .dweight = r->inputs[CONV_NORM].gradient,
                         .dbias = r->inputs[CONV_NORM + 1].gradient,
                         .y = r->y};
    spsh__conv_grad conv = {.x = r->inputs[0].data,
                            .weight = r->inputs[1].data,
                            .dy = g.dx,
                            .dx = dx(r),
                            .dweight = r->inputs[1].gradient};
    if (r->ops->norm_adds_bias) {
        state.conv_bias = r->inputs[CONV_BIAS].data;
        g.dconv_bias = r->inputs[CONV_BIAS].gradient;
    } else {
        conv.dbias = r->inputs[CONV_BIAS].gradient;
    }
    r->ops->norm_backward_fn(r->b, &shape, some_lengths(r, shape.batch, shape.frames), &state, &g);
    r->ops->conv_backward_fn(r->b, c->conv, &conv);
}

static const conv_norm_case conv_norms[] = {
    {&convs[0], false, true },
    {&convs[0], true,  true },
    {&convs[2], true,  true },
    {&convs[3], false, true },
    {&convs[5], true,  true },
    {&convs[7], false, true },
    {&convs[7], true,  true },
    {&convs[0], true,  false},
    {&convs[7], false, false},
};

/* ----------------------------------------------------------------------------------- recurrence */

typedef struct rnn_case {
    spsh__rnn_shape shape;
    bool has_one_bias;
} rnn_case;

static spsh__rnn_weights rnn_weights(const operator_run *r)
{
    const rnn_case *c = r->c->shape;
    spsh__rnn_weights w = {
        r->inputs[1].data, r->inputs[2].data, r->inputs[3].data, {NULL, false}
    };
    if (!c->has_one_bias)
        w.recurrent_bias = r->inputs[4].data;
    return w;
}

static void rnn_open(operator_run *r)
{
    const rnn_case *c = r->c->shape;
    const spsh__rnn_shape *s = &c->shape;
    const size_t gates = (s->cell == SPSH__CELL_LSTM ? 4 : 3) * (size_t)s->hidden;
    const size_t count = (size_t)s->frames * s->batch;
    r->halves = IN_0 | IN_1 | IN_2 | OUT;
    add_input(r, count * s->inputs, false);
    add_input(r, gates * s->inputs, true);
    add_input(r, gates * s->hidden, true);
    add_input(r, gates, true);
    if (!c->has_one_bias)
        add_input(r, gates, true);
    /* Large weights would make a long recurrence chaotic: roundings grow. */
    for (size_t i = 1; s->hidden > 8 && i < 3; i++)
        r->ops->scale_fn(r->b, 0.125, r->inputs[i].data, r->inputs[i].count);
    r->work[0] = take_kind(r, r->ops->rnn_reserve_fn(s), true); /* not compared */
    set_y(r, count * s->hidden);
}

static void rnn_forward(operator_run *r)
{
    const rnn_case *c = r->c->shape;
    const spsh__rnn_weights w = rnn_weights(r);
    r->ops->rnn_forward_fn(r->b, &c->shape, &w, r->inputs[0].data, r->y, r->work[0]);
}

static void rnn_backward(operator_run *r)
{
    const rnn_case *c = r->c->shape;
    const spsh__rnn_weights w = rnn_weights(r);
    spsh__rnn_weights sums = {
        r->inputs[1].gradient, r->inputs[2].gradient, r->inputs[3].gradient, {NULL, false}
    };
    if (!c->has_one_bias)
        sums.recurrent_bias = r->inputs[4].gradient;
    const spsh__rnn_grad g = {.weights = &w,
                              .gradients = &sums,
                              .x = r->inputs[0].data,
                              .y = r->y,
                              .reserve = r->work[0],
                              .dy = r->dy,
                              .dx = dx(r)};
    r->ops->rnn_backward_fn(r->b, &c->shape, &g);
}

/* cell, frames, batch, inputs, hidden */
static const rnn_case rnns[] = {
    {{SPSH__CELL_LSTM, 5, 3, 4, 2},     false},
    {{SPSH__CELL_LSTM, 1, 1, 1, 1},     false},
    {{SPSH__CELL_LSTM, 4, 2, 3, 5},     true },
    {{SPSH__CELL_LSTM, 0, 2, 3, 2},     false},
    {{SPSH__CELL_GRU, 5, 3, 4, 2},      false},
    {{SPSH__CELL_GRU, 1, 1, 1, 1},      false},
    {{SPSH__CELL_GRU, 4, 2, 3, 5},      true },
    {{SPSH__CELL_GRU, 3, 0, 3, 2},      false},
    {{SPSH__CELL_LSTM, 20, 9, 70, 65},  false},
    {{SPSH__CELL_GRU, 20, 9, 70, 65},   false},
    {{SPSH__CELL_LSTM, 12, 4, 33, 128}, true },
};

/* ----------------------------------------------------------------------------------- losses */

/* States of rows. Every fourth row has none, so it is not trained on. */
static const uint32_t *some_states(size_t count, uint32_t width)
{
    static uint32_t states[1024];
    REQUIRE(count <= 1024);
    for (size_t i = 0; i < count; i++)
        states[i] = i % 4 == 2 ? UINT32_MAX : (uint32_t)(i * 5 % width);
    return states;
}

static void loss_open(operator_run *r)
{
    const spsh__rows *s = r->c->shape;
    r->halves = IN_0;
    add_input(r, (size_t)s->frames * s->batch * s->width, false);
    set_y(r, 1);
}

static void cross_entropy(operator_run *r, double scale, spsh__backend_buffer dlogits)
{
    const spsh__rows *s = r->c->shape;
    const size_t count = (size_t)s->frames * s->batch;
    spsh__cross_entropy c = {.rows = count,
                             .width = s->width,
                             .states = some_states(count, s->width),
                             .scale = scale,
                             .logits = r->inputs[0].data,
                             .dlogits = dlogits};
    r->ops->cross_entropy_fn(r->b, &c);
    spsh__backend_finish(r->b);
    if (dlogits.data == NULL)
        put_doubles(r->b, r->y, &c.loss, 1);
}

static void cross_entropy_forward(operator_run *r)
{
    cross_entropy(r, 1, (spsh__backend_buffer){NULL, false});
}

static void cross_entropy_backward(operator_run *r)
{
    cross_entropy(r, r->dy_values[0], r->inputs[0].gradient);
}

/* Utterances: labels with a repeat, no labels, one symbol, and weight 0. */
static const uint32_t ctc_labels[] = {1, 2, 2, 4, 3, 1, 2}, ctc_offsets[] = {0, 4, 4, 5, 7};
static const double ctc_weights[] = {1, 2, 0.5, 0};

static void ctc(operator_run *r, double scale, spsh__backend_buffer dlogits)
{
    const spsh__rows *s = r->c->shape;
    const uint32_t lengths[] = {s->frames, s->frames - 2, 1, s->frames};
    const spsh__ctc_shape shape = {s->frames, s->batch, s->width, 0, scale};
    const spsh__label_batch labels = {ctc_labels, ctc_offsets};
    spsh__ctc_result results[4];
    const spsh__ctc_io io = {r->inputs[0].data, dlogits, ctc_weights, results};
    REQUIRE(s->batch == 4);
    upload_lengths(r, lengths, s->batch);
    r->ops->ctc_fn(r->b, &shape, lengths, &labels, &io);
    spsh__backend_finish(r->b);
    double loss = 0;
    for (uint32_t n = 0; n < 4; n++)
        loss += ctc_weights[n] * results[n].loss;
    if (dlogits.data == NULL)
        put_doubles(r->b, r->y, &loss, 1);
}

static void ctc_forward(operator_run *r)
{
    ctc(r, 1, (spsh__backend_buffer){NULL, false});
}

static void ctc_backward(operator_run *r)
{
    ctc(r, r->dy_values[0], r->inputs[0].gradient);
}

static const spsh__rows loss_rows[] = {
    {7,  4, 5 },
    {1,  1, 1 },
    {50, 4, 29}
};

/* ----------------------------------------------------------------------------------- optimisers */

typedef struct update_case {
    spsh__sgd sgd;
    spsh__adamw adamw; /* used if its step is not 0 */
    bool decays;
} update_case;

#define UPDATE_COUNT 1003u

static void update_open(operator_run *r)
{
    add_input(r, UPDATE_COUNT, false);
    add_input(r, UPDATE_COUNT, false);
    add_work(r, 0, UPDATE_COUNT);
    add_work(r, 1, UPDATE_COUNT);
    set_y(r, UPDATE_COUNT);
}

/* Three steps on the same gradient: y becomes the weights. */
static void update_forward(operator_run *r)
{
    const update_case *c = r->c->shape;
    spsh__adamw adamw = c->adamw;
    const spsh__update u = {
        .weights = r->y,
        .gradients = r->inputs[1].data,
        .moments = {r->work[0], r->work[1]},
        .count = UPDATE_COUNT,
        .decays = c->decays,
        .gradient_scale = 0.5
    };
    r->ops->copy_fn(r->b, r->y, r->inputs[0].data, UPDATE_COUNT);
    for (int i = 0; i < 3; i++) {
        if (adamw.step == 0)
            r->ops->sgd_fn(r->b, &c->sgd, &u);
        else
            r->ops->adamw_fn(r->b, &adamw, &u);
        adamw.step += adamw.step > 0;
    }
}

static const update_case updates[] = {
    {.sgd = {0.125, 0, 0.5, false},                  .decays = true },
    {.sgd = {0.125, 0.875, 0.25, false},             .decays = true },
    {.sgd = {0.125, 0.875, 0.25, true},              .decays = false},
    {.adamw = {0.0625, 0.875, 0.75, 1e-6, 0.25, 1},  .decays = true },
    {.adamw = {0.0625, 0.875, 0.75, 1e-6, 0.25, 40}, .decays = false},
};

/* ----------------------------------------------------------------------------------- the table */

#define CASE(name_, shape_)                                                                        \
    {                                                                                              \
#name_, &(shape_), name_##_open, name_##_forward, name_##_backward, false                  \
    }
#define LARGE(name_, shape_)                                                                       \
    {                                                                                              \
#name_, &(shape_), name_##_open, name_##_forward, name_##_backward, true                   \
    }
#define ROWS(name_, shape_)                                                                        \
    {                                                                                              \
#name_, &(shape_), rows_open, name_##_forward, name_##_backward, false                     \
    }
#define LARGE_ROWS(name_)                                                                          \
    {                                                                                              \
#name_, &large_rows, rows_open, name_##_forward, name_##_backward, true                    \
    }
#define CONV_ROWS(name_, shape_)                                                                   \
    {                                                                                              \
#name_, &(shape_), conv_rows_open, name_##_forward, name_##_backward, false                \
    }
#define FORWARD(name_, shape_)                                                                     \
    {                                                                                              \
#name_, &(shape_), name_##_open, name_##_forward, NULL, false                              \
    }
#define FORWARD_ROWS(name_, shape_)                                                                \
    {                                                                                              \
#name_, &(shape_), rows_open, name_##_forward, NULL, false                                 \
    }
#define LOSS(name_, shape_)                                                                        \
    {                                                                                              \
#name_, &(shape_), loss_open, name_##_forward, name_##_backward, false                     \
    }

/* clang-format off */
const operator_case operator_cases[] = {
    FORWARD(gemm, gemms[0]), FORWARD(gemm, gemms[1]), FORWARD(gemm, gemms[2]),
    FORWARD(gemm, gemms[3]), FORWARD(gemm, gemms[4]), FORWARD(gemm, gemms[5]),
    FORWARD(gemm, gemms[6]), FORWARD(gemm, gemms[7]), FORWARD(gemm, gemms[8]),
    FORWARD(gemm, gemms[9]), FORWARD(gemm, gemms[10]),
    CASE(bias, rows[0]), CASE(bias, rows[1]), CASE(bias, rows[3]), LARGE(bias, large_rows),
    CASE(columns, rows[0]), CASE(columns, rows[3]), LARGE(columns, large_rows),
    ROWS(mask_rows, rows[0]), ROWS(mask_rows, rows[1]), ROWS(mask_rows, rows[2]),
    ROWS(mask_rows, rows[3]), ROWS(mask_rows, rows[4]), LARGE_ROWS(mask_rows),
    ROWS(reverse, rows[0]), ROWS(reverse, rows[1]), ROWS(reverse, rows[2]),
    ROWS(reverse, rows[3]), ROWS(reverse, rows[4]), LARGE_ROWS(reverse),
    ROWS(clip, rows[0]), ROWS(clip, rows[3]), LARGE_ROWS(clip),
    FORWARD_ROWS(log_softmax, rows[0]), FORWARD_ROWS(log_softmax, rows[1]),
    FORWARD_ROWS(log_softmax, rows[3]), FORWARD_ROWS(log_softmax, large_rows),
    FORWARD(sums, rows[0]), FORWARD(sums, rows[3]), FORWARD(sums, large_rows),
    FORWARD_ROWS(mix, rows[0]), FORWARD_ROWS(mix, large_rows),
    CASE(lookahead, lookaheads[0]), CASE(lookahead, lookaheads[1]), CASE(lookahead, lookaheads[2]),
    LARGE(lookahead, lookaheads[3]),
    CASE(conv, convs[0]), CASE(conv, convs[1]), CASE(conv, convs[2]), CASE(conv, convs[3]),
    CASE(conv, convs[4]), CASE(conv, convs[5]), CASE(conv, convs[6]), LARGE(conv, convs[7]),
    LARGE(conv, convs[8]), LARGE(conv, convs[9]),
    CONV_ROWS(conv_rows, convs[0]), CONV_ROWS(conv_rows, convs[4]), CONV_ROWS(conv_rows, convs[5]),
    CONV_ROWS(conv_rows, convs[7]),
    CASE(norm, norms[0]), CASE(norm, norms[1]), CASE(norm, norms[2]), CASE(norm, norms[3]),
    CASE(norm, norms[4]), CASE(norm, norms[5]), CASE(norm, norms[6]), CASE(norm, norms[7]),
    LARGE(norm, norms[8]), LARGE(norm, norms[9]), LARGE(norm, norms[10]),
    FORWARD(norm, norms_used[0]), FORWARD(norm, norms_used[1]),
    CASE(conv_norm, conv_norms[0]), CASE(conv_norm, conv_norms[1]), CASE(conv_norm, conv_norms[2]),
    CASE(conv_norm, conv_norms[3]), CASE(conv_norm, conv_norms[4]), LARGE(conv_norm, conv_norms[5]),
    LARGE(conv_norm, conv_norms[6]), FORWARD(conv_norm, conv_norms[7]),
    FORWARD(conv_norm, conv_norms[8]),
    CASE(rnn, rnns[0]), CASE(rnn, rnns[1]), CASE(rnn, rnns[2]), CASE(rnn, rnns[3]),
    CASE(rnn, rnns[4]), CASE(rnn, rnns[5]), CASE(rnn, rnns[6]), CASE(rnn, rnns[7]),
    LARGE(rnn, rnns[8]), LARGE(rnn, rnns[9]), LARGE(rnn, rnns[10]),
    LOSS(cross_entropy, loss_rows[0]), LOSS(cross_entropy, loss_rows[1]),
    LOSS(cross_entropy, loss_rows[2]),
    LOSS(ctc, loss_rows[0]), LOSS(ctc, loss_rows[2]),
    FORWARD(update, updates[0]), FORWARD(update, updates[1]), FORWARD(update, updates[2]),
    FORWARD(update, updates[3]), FORWARD(update, updates[4]),
};
/* clang-format on */
const size_t operator_case_count = sizeof(operator_cases) / sizeof(operator_cases[0]);

/* ----------------------------------------------------------------------------------- running one
 */

void operator_run_open(operator_run *r, spsh__backend *b, const operator_case *c, uint64_t seed)
{
    *r = (operator_run){.b = b, .ops = b->ops, .c = c, .random = seed};
    c->open_fn(r);
}

/* dy and the gradients have the values from before any backward pass. */
void operator_run_backward(operator_run *r)
{
    put_doubles(r->b, r->dy, r->dy_values, r->y_count);
    for (size_t i = 0; i < r->input_count; i++) {
        const operator_input *input = &r->inputs[i];
        double *values = malloc((input->count + 1) * sizeof(double));
        REQUIRE(values != NULL);
        for (size_t j = 0; j < input->count; j++)
            values[j] = input->adds ? input->before[j] : (double)NAN;
        put_doubles(r->b, input->gradient, values, input->count);
        free(values);
    }
    r->c->backward_fn(r);
}

void operator_run_close(operator_run *r)
{
    CHECK(r->ops->status_fn(r->b, NULL) == SPSH_OK);
    for (size_t i = 0; i < r->buffer_count; i++) {
        double tail[TAIL_COUNT] = {0};
        take_doubles(r->b, tail, spsh__at(r->ops, r->buffers[i], r->buffer_counts[i]), TAIL_COUNT);
        for (unsigned j = 0; j < TAIL_COUNT; j++)
            CHECK(tail[j] == TAIL_VALUE);
        r->ops->free_fn(r->b, r->buffers[i]);
    }
    for (size_t i = 0; i < r->input_count; i++)
        free(r->inputs[i].before);
    free(r->dy_values);
}

static void add_results(operator_results *all, const operator_run *r, spsh__backend_buffer from,
                        size_t count)
{
    all->values = realloc(all->values, (all->count + count + 1) * sizeof(double));
    REQUIRE(all->values != NULL && all->end_count < 16);
    take_doubles(r->b, all->values + all->count, from, count);
    all->count += count;
    all->ends[all->end_count++] = all->count;
}

operator_results operator_case_run(spsh__backend *b, const operator_case *c, uint64_t case_seed)
{
    operator_run r;
    operator_results all = {0};
    operator_run_open(&r, b, c, case_seed);
    c->forward_fn(&r);
    add_results(&all, &r, r.y, r.y_count);
    if (c->backward_fn != NULL)
        operator_run_backward(&r);
    for (size_t i = 0; i < 6; i++)
        add_results(&all, &r, r.work[i], r.work_counts[i]);
    for (size_t i = 0; c->backward_fn != NULL && i < r.input_count; i++)
        add_results(&all, &r, r.inputs[i].gradient, r.inputs[i].count);
    operator_run_close(&r);
    return all;
}
