/* model_segment.c: captured work that a device replays (segments of backend.h).
 *
 *     forward      | 0                         |
 *     backward     | 1          | 2        | ...     one segment per bucket: the exchange of a
 *                    bucket 0     bucket 1           complete bucket runs between two segments
 *
 * A replayed segment needs no operators. The layers are walked all the same, with operators that do
 * nothing: their bookkeeping stays the same, and a step may mix captured and other segments.
 *
 * A captured segment belongs to one shape. To keep shapes few, frames are padded to a multiple of
 * FRAMES. With norms that exclude padding, this does not change the results. With BN `compat` it
 * would, and in models of chunks the number of chunks differs per batch: neither is padded.
 */
#include "model_internal.h"

enum { FRAMES = 32 };

/* ---- operators that do nothing ---- */

static void idle_gemm(spsh__backend *b, const spsh__gemm *g)
{
    (void)b, (void)g;
}

static void idle_bias(spsh__backend *b, size_t rows, uint32_t width, spsh__backend_buffer x,
                      spsh__backend_buffer y)
{
    (void)b, (void)rows, (void)width, (void)x, (void)y;
}

static void idle_copy_columns(spsh__backend *b, const spsh__columns *c)
{
    (void)b, (void)c;
}

static void idle_conv_forward(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer x,
                              spsh__backend_buffer weight, spsh__backend_buffer bias,
                              spsh__backend_buffer y)
{
    (void)b, (void)s, (void)x, (void)weight, (void)bias, (void)y;
}

static void idle_conv_backward(spsh__backend *b, const spsh__conv_shape *s,
                               const spsh__conv_grad *g)
{
    (void)b, (void)s, (void)g;
}

static void idle_norm_forward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                              bool is_training, const spsh__norm_state *state,
                              const spsh__norm_io *io)
{
    (void)b, (void)s, (void)lengths, (void)is_training, (void)state, (void)io;
}

static void idle_norm_backward(spsh__backend *b, const spsh__norm_shape *s, const uint32_t *lengths,
                               const spsh__norm_state *state, const spsh__norm_grad *g)
{
    (void)b, (void)s, (void)lengths, (void)state, (void)g;
}

static void idle_clip_forward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer x,
                              spsh__backend_buffer y)
{
    (void)b, (void)limit, (void)count, (void)x, (void)y;
}

static void idle_clip_backward(spsh__backend *b, double limit, size_t count, spsh__backend_buffer y,
                               spsh__backend_buffer dy, spsh__backend_buffer dx)
{
    (void)b, (void)limit, (void)count, (void)y, (void)dy, (void)dx;
}

static void idle_mask_conv(spsh__backend *b, const spsh__conv_shape *s, const uint32_t *lengths,
                           spsh__backend_buffer y)
{
    (void)b, (void)s, (void)lengths, (void)y;
}

static void idle_mask_rows(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                           spsh__backend_buffer x)
{
    (void)b, (void)s, (void)lengths, (void)x;
}

static void idle_rows(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer from,
                      spsh__backend_buffer to)
{
    (void)b, (void)s, (void)from, (void)to;
}

static void idle_reverse(spsh__backend *b, const spsh__rows *s, const uint32_t *lengths,
                         spsh__backend_buffer from, spsh__backend_buffer to)
{
    (void)b, (void)s, (void)lengths, (void)from, (void)to;
}

static void idle_rnn_forward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_weights *w,
                             spsh__backend_buffer x, spsh__backend_buffer y,
                             spsh__backend_buffer reserve)
{
    (void)b, (void)s, (void)w, (void)x, (void)y, (void)reserve;
}

static void idle_rnn_backward(spsh__backend *b, const spsh__rnn_shape *s, const spsh__rnn_grad *g)
{
    (void)b, (void)s, (void)g;
}

static void idle_lookahead_forward(spsh__backend *b, const spsh__lookahead *l,
                                   spsh__backend_buffer x, spsh__backend_buffer y)
{
    (void)b, (void)l, (void)x, (void)y;
}

static void idle_lookahead_backward(spsh__backend *b, const spsh__lookahead *l,
                                    const spsh__lookahead_grad *g)
{
    (void)b, (void)l, (void)g;
}

static void idle_axpy(spsh__backend *b, double factor, spsh__backend_buffer x,
                      spsh__backend_buffer y, size_t count)
{
    (void)b, (void)factor, (void)x, (void)y, (void)count;
}

static void idle_convert(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                         size_t count)
{
    (void)b, (void)to, (void)from, (void)count;
}

static void idle_lanes(spsh__backend *b)
{
    (void)b;
}

static void idle_lane(spsh__backend *b, uint32_t lane)
{
    (void)b, (void)lane;
}

/* All operators that layers call. */
static const spsh__backend_ops idle_ops = {
    .name = "idle",
    .gemm_fn = idle_gemm,
    .bias_forward_fn = idle_bias,
    .bias_backward_fn = idle_bias,
    .copy_columns_fn = idle_copy_columns,
    .conv_forward_fn = idle_conv_forward,
    .conv_backward_fn = idle_conv_backward,
    .norm_forward_fn = idle_norm_forward,
    .norm_backward_fn = idle_norm_backward,
    .clip_forward_fn = idle_clip_forward,
    .clip_backward_fn = idle_clip_backward,
    .mask_conv_fn = idle_mask_conv,
    .mask_rows_fn = idle_mask_rows,
    .rows_from_conv_fn = idle_rows,
    .conv_from_rows_fn = idle_rows,
    .reverse_fn = idle_reverse,
    .rnn_forward_fn = idle_rnn_forward,
    .rnn_backward_fn = idle_rnn_backward,
    .lookahead_forward_fn = idle_lookahead_forward,
    .lookahead_backward_fn = idle_lookahead_backward,
    .axpy_fn = idle_axpy,
    .convert_fn = idle_convert,
    .fork_fn = idle_lanes,
    .lane_fn = idle_lane,
    .join_fn = idle_lanes,
};

/* ---- segments ---- */

/* A model that only goes forward lives for an evaluation, or hears one batch at a time. */
void spsh__model_segments_open(spsh__model *m)
{
    m->number = ++m->backend->model_count;
    m->has_segments = m->real->segment_begin_fn != NULL && !m->is_forward_only &&
                      m->shape.kind == SPSH__MODEL_DS2;
    m->idle = idle_ops;
    m->idle.element_bytes = m->real->element_bytes;
}

uint32_t spsh__model_segment_frames(const spsh__model *m, uint32_t frames)
{
    if (!m->has_segments || m->shape.counts_padding)
        return frames;
    return (frames + FRAMES - 1) / FRAMES * FRAMES;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* Hash everything that differs between batches. */
static uint64_t key_of(const spsh__model *m)
{
    const uint64_t key =
        mix(mix(mix(mix(1, m->number), m->batch), m->frames), m->is_training ? 1 : 0);
    return key == 0 ? 1 : key;
}

void spsh__model_segment_begin(spsh__model *m, uint32_t number)
{
    if (!m->has_segments)
        return;
    const spsh__graph_segment segment = {key_of(m), number};
    m->b = m->real->segment_begin_fn(m->backend, &segment) ? &m->idle : m->real;
}

void spsh__model_segment_end(spsh__model *m)
{
    if (!m->has_segments)
        return;
    m->b = m->real;
    m->real->segment_end_fn(m->backend);
}
