/* cpu_conv.c: convolutions without a matrix of patches, which would be 11 times 21 times as large
 * as the input.
 *
 * The input of an utterance is copied with zeros around it, as [channel][bin][phase][frame]. Phase
 * p of stride s holds frames p, p + s, ..., so the tap of kernel frame k reads phase k % s from k /
 * s on, and lanes of adjacent outputs are adjacent there. A tap (channel, kernel bin, kernel frame)
 * is then one offset from the first input of an output, the same for all outputs. The convolution
 * is the matrix product of cpu_kernels.h with those offsets in a table.
 *
 * The gradient of the input is also a convolution: of dy, with the kernel reversed. Bins and frames
 * with the same remainder by the strides use the same taps, so there is one table per remainder.
 *
 * The gradient of the weight sums products of dy and x over frames, in lanes, for 4 channels and
 * some taps at once. A piece is an input channel and some kernel bins. It processes the bins of dy
 * in stretches that stay in the cache, and adds utterance after utterance.
 */
#include <string.h>

#include "cpu.h"

enum { STRETCH_BINS = 8, GRAD_PIECES_MIN = 32 };

/* A copy with zeros: [channel][line][phase][width]. */
typedef struct padded {
    float *data;
    size_t channels, lines, phases, width;
    size_t line_step, channel_step;
} padded;

static padded padded_shape(size_t channels, size_t lines, size_t phases, size_t width)
{
    padded p = {NULL, channels, lines, phases, spsh__round_up(width, SPSH__LANES_MAX), 0, 0};
    p.line_step = p.phases * p.width;
    p.channel_step = p.lines * p.line_step;
    return p;
}

static size_t padded_floats(const padded *p)
{
    return p->channels * p->channel_step;
}

static padded x_shape(const spsh__conv_shape *s)
{
    const size_t reach = (s->kernel_frames - 1) / s->stride_frames;
    return padded_shape(s->in_channels, s->in_bins + 2 * (size_t)s->pad_bins, s->stride_frames,
                        spsh__round_up(s->out_frames, SPSH__LANES_MAX) + reach);
}

/* Bins and frames of zeros before the first of dy. */
static size_t dy_bins_before(const spsh__conv_shape *s)
{
    return (s->kernel_bins - 1) / s->stride_bins;
}

static size_t dy_frames_before(const spsh__conv_shape *s)
{
    return (s->kernel_frames - 1) / s->stride_frames;
}

static padded dy_shape(const spsh__conv_shape *s)
{
    const size_t sf = s->stride_bins, st = s->stride_frames;
    const size_t meets = (s->in_bins + sf - 1) / sf + (s->pad_bins + sf - 1) / sf;
    const size_t bins = meets > s->out_bins ? meets : s->out_bins;
    const size_t columns = spsh__round_up((s->in_frames + st - 1) / st, SPSH__LANES_MAX) +
                           (s->pad_frames + st - 1) / st;
    const size_t own = spsh__round_up(s->out_frames, SPSH__LANES_MAX);
    return padded_shape(spsh__round_up(s->out_channels, SPSH__GRAD_CHANNELS),
                        dy_bins_before(s) + bins + 1, 1,
                        dy_frames_before(s) + (columns > own ? columns : own) + 1);
}

/* --- copies --- */

typedef struct copy_work {
    padded to;
    const float *from;
    size_t channels, bins, frames; /* sizes of the tensor at `from` */
    size_t bins_before, frames_before;
} copy_work;

/* Phase of a line: element q is frame q * phases + phase - frames_before. */
static void copy_phase(const copy_work *w, const float *from, size_t phase, float *to)
{
    const size_t phases = w->to.phases;
    size_t first = 0; /* the first q whose frame exists */
    if (phase < w->frames_before)
        first = (w->frames_before - phase + phases - 1) / phases;
    size_t q = spsh__least(first, w->to.width);
    memset(to, 0, q * sizeof(*to));
    size_t frame = first * phases + phase - w->frames_before;
    if (phases == 1 && frame < w->frames) {
        const size_t count = spsh__least(w->frames - frame, w->to.width - q);
        memcpy(to + q, from + frame, count * sizeof(*to));
        q += count;
        frame = w->frames;
    }
    for (; q < w->to.width && frame < w->frames; q++, frame += phases)
        to[q] = from[frame];
    memset(to + q, 0, (w->to.width - q) * sizeof(*to));
}

static void copy_piece(void *work, size_t channel)
{
    const copy_work *w = (const copy_work *)work;
    for (size_t line = 0; line < w->to.lines; line++) {
        float *to = w->to.data + channel * w->to.channel_step + line * w->to.line_step;
        const size_t bin = line - w->bins_before;
        if (channel >= w->channels || line < w->bins_before || bin >= w->bins) {
            memset(to, 0, w->to.line_step * sizeof(*to));
            continue;
        }
        const float *from = w->from + (channel * w->bins + bin) * w->frames;
        for (size_t phase = 0; phase < w->to.phases; phase++)
            copy_phase(w, from, phase, to + phase * w->to.width);
    }
}

static void copy_x(spsh__backend *b, const spsh__conv_shape *s, const padded *to, const float *x)
{
    copy_work w = {*to, x, s->in_channels, s->in_bins, s->in_frames, s->pad_bins, s->pad_frames};
    spsh__cpu_run(b, copy_piece, &w, to->channels);
}

static void copy_dy(spsh__backend *b, const spsh__conv_shape *s, const padded *to, const float *dy)
{
    copy_work w = {*to,
                   dy,
                   s->out_channels,
                   s->out_bins,
                   s->out_frames,
                   dy_bins_before(s),
                   dy_frames_before(s)};
    spsh__cpu_run(b, copy_piece, &w, to->channels);
}

/* --- taps --- */

/* Bin of `from` that tap bin i of a line reads: line * stride + first + sign * i. Bins outside 0
 * ... bins - 1 are zeros, and are skipped. */
typedef struct reach {
    size_t count; /* tap bins */
    int64_t stride, first, sign, bins;
} reach;

/* out[channel][line][frame] = bias + sum over taps. Starts of lines in `from` are line_step
 * apart. */
typedef struct taps {
    const spsh__cpu_kernels *kernels;
    float *rows; /* [group of channels][depth][tile_rows]; taps of a tap bin are adjacent */
    uint32_t *offsets;
    size_t depth, channels;
    reach reach;
    const float *from;
    size_t line_step, lines, frames;
    const float *bias; /* NULL: none */
    float *out;
    size_t channel_stride, line_stride, frame_stride;
} taps;

static void put_tile(const taps *t, const float *tile, size_t channel, size_t line, size_t frame)
{
    const size_t channels = spsh__least(t->kernels->tile_rows, t->channels - channel);
    const size_t frames =
        spsh__least((size_t)SPSH__TILE_VECTORS * t->kernels->lanes, t->frames - frame);
    for (size_t r = 0; r < channels; r++) {
        const float bias = t->bias == NULL ? 0 : t->bias[channel + r];
        const float *from = tile + r * SPSH__TILE_COLUMNS_MAX;
        float *to = t->out + (channel + r) * t->channel_stride + line * t->line_stride +
                    frame * t->frame_stride;
        for (size_t i = 0; i < frames; i++)
            to[i * t->frame_stride] = from[i] + bias;
    }
}

static bool reaches(const reach *r, size_t line, size_t i)
{
    const int64_t bin = (int64_t)line * r->stride + r->first + r->sign * (int64_t)i;
    return bin >= 0 && bin < r->bins;
}

static void taps_piece(void *work, size_t line)
{
    const taps *t = (const taps *)work;
    const size_t lanes = t->kernels->lanes;
    size_t first = 0, end = t->reach.count;
    while (first < end && !reaches(&t->reach, line, first))
        first++;
    while (end > first && !reaches(&t->reach, line, end - 1))
        end--;
    const size_t per_bin = t->reach.count == 0 ? 0 : t->depth / t->reach.count;
    float tile[SPSH__TILE_ROWS_MAX * SPSH__TILE_COLUMNS_MAX];
    for (size_t channel = 0; channel < t->channels; channel += t->kernels->tile_rows) {
        for (size_t frame = 0; frame < t->frames; frame += SPSH__TILE_VECTORS * lanes) {
            const size_t vectors = (t->frames - frame + lanes - 1) / lanes;
            const spsh__cpu_tile one = {
                .rows = t->rows + channel * t->depth + first * per_bin * t->kernels->tile_rows,
                .columns = t->from + line * t->line_step + frame,
                .offsets = t->offsets + first * per_bin,
                .depth = (end - first) * per_bin,
                .vectors = (uint32_t)spsh__least(vectors, SPSH__TILE_VECTORS),
                .out = tile,
                .out_stride = SPSH__TILE_COLUMNS_MAX,
            };
            t->kernels->tile_fn(&one);
            put_tile(t, tile, channel, line, frame);
        }
    }
}

static void run_taps(spsh__backend *b, taps *t)
{
    spsh__cpu_run(b, taps_piece, t, t->lines);
}

/* Floats of a table with channels * depth taps; its offsets follow the weights. */
static size_t table_floats(const spsh__cpu_kernels *kernels, size_t channels, size_t depth)
{
    return spsh__round_up((spsh__round_up(channels, kernels->tile_rows) + 1) * depth, 64);
}

static void take_table(taps *t, const spsh__cpu_kernels *kernels, size_t channels, size_t depth,
                       float *scratch)
{
    const size_t padded_channels = spsh__round_up(channels, kernels->tile_rows);
    t->kernels = kernels;
    t->channels = channels;
    t->depth = depth;
    t->rows = scratch;
    t->offsets = (uint32_t *)(void *)(scratch + padded_channels * depth);
    memset(scratch, 0, padded_channels * depth * sizeof(*scratch));
}

static size_t kernel_size(const spsh__conv_shape *s)
{
    return (size_t)s->kernel_bins * s->kernel_frames;
}

/* Copy the weights of `count` taps of one kernel row, from tap k on; they are `stride` apart in
 * `from`. */
static void put_weights(const taps *t, size_t channel, size_t k, size_t count, const float *from,
                        size_t stride)
{
    const size_t rows = t->kernels->tile_rows;
    float *to = t->rows + channel / rows * rows * t->depth + k * rows + channel % rows;
    for (size_t i = 0; i < count; i++)
        to[i * rows] = from[i * stride];
}

static const float *kernel_row(const spsh__conv_shape *s, const float *weight, size_t o, size_t c,
                               size_t bin)
{
    return weight + ((o * s->in_channels + c) * s->kernel_bins + bin) * s->kernel_frames;
}

static void forward_table(const spsh__conv_shape *s, const padded *x, const float *weight, taps *t)
{
    for (size_t k = 0; k < t->depth; k += s->kernel_frames) {
        const size_t bin = k / s->kernel_frames / s->in_channels;
        const size_t channel = k / s->kernel_frames % s->in_channels;
        const size_t line = channel * x->channel_step + bin * x->line_step;
        for (size_t frame = 0; frame < s->kernel_frames; frame++)
            t->offsets[k + frame] =
                (uint32_t)(line + frame % s->stride_frames * x->width + frame / s->stride_frames);
        for (size_t o = 0; o < s->out_channels; o++)
            put_weights(t, o, k, s->kernel_frames, kernel_row(s, weight, o, channel, bin), 1);
    }
}

/* The offsets of the table have 32 bits. A larger input does not fit into memory in practice. */
static bool is_addressable(const padded *p)
{
    return padded_floats(p) <= UINT32_MAX;
}

static bool is_nothing(const spsh__conv_shape *s)
{
    return s->batch == 0 || s->in_channels == 0 || s->out_channels == 0 || s->out_bins == 0 ||
           s->out_frames == 0;
}

static void too_large(spsh__backend *b)
{
    (void)spsh__cpu_scratch(b, SIZE_MAX / sizeof(float));
}

void spsh__cpu_conv_forward(spsh__backend *b, const spsh__conv_shape *s, spsh__backend_buffer x,
                            spsh__backend_buffer weight, spsh__backend_buffer bias,
                            spsh__backend_buffer y)
{
    if (is_nothing(s))
        return;
    if (spsh__cpu_spectral_suits(s)) {
        const spsh__conv_io io = {x, weight, bias, y};
        spsh__cpu_spectral_forward(b, s, &io);
        return;
    }
    const spsh__cpu_kernels *kernels = spsh__cpu_of(b)->kernels;
    const size_t depth = s->in_channels * kernel_size(s);
    padded in = x_shape(s);
    if (!is_addressable(&in)) {
        too_large(b);
        return;
    }
    const size_t table = table_floats(kernels, s->out_channels, depth);
    float *scratch = spsh__cpu_scratch(b, table + padded_floats(&in));
    if (scratch == NULL)
        return;
    in.data = scratch + table;
    const size_t in_size = (size_t)s->in_channels * s->in_bins * s->in_frames;
    const size_t plane = (size_t)s->out_bins * s->out_frames;
    taps t = {
        .from = in.data,
        .reach = {s->kernel_bins, s->stride_bins, -(int64_t)s->pad_bins, 1, s->in_bins},
        .line_step = s->stride_bins * in.line_step,
        .lines = s->out_bins,
        .frames = s->out_frames,
        .bias = spsh__f32(bias),
        .channel_stride = plane,
        .line_stride = s->out_frames,
        .frame_stride = 1
    };
    take_table(&t, kernels, s->out_channels, depth, scratch);
    forward_table(s, &in, spsh__f32(weight), &t);
    for (size_t n = 0; n < s->batch; n++) {
        copy_x(b, s, &in, spsh__f32(x) + n * in_size);
        t.out = spsh__f32(y) + n * s->out_channels * plane;
        run_taps(b, &t);
    }
}

/* --- backward --- */

/* Taps of one axis that read inputs with a given remainder by the stride: kernel positions first,
 * first + stride, ... Tap i reads output j + shift - i for input remainder + stride * j. */
typedef struct axis {
    size_t first, stride, count, shift, inputs;
} axis;

static axis axis_of(size_t remainder, size_t stride, size_t pad, size_t kernel, size_t in)
{
    axis a = {(remainder + pad) % stride, stride, 0, (remainder + pad) / stride, 0};
    a.count = a.first < kernel ? (kernel - a.first + stride - 1) / stride : 0;
    a.inputs = remainder < in ? (in - remainder + stride - 1) / stride : 0;
    return a;
}

static void backward_table(const spsh__conv_shape *s, const padded *dy, const float *weight,
                           const axis axes[2], taps *t)
{
    const axis *f = &axes[0], *at = &axes[1];
    for (size_t k = 0; k < t->depth; k += at->count) {
        const size_t i = k / at->count / s->out_channels;
        const size_t o = k / at->count % s->out_channels;
        const size_t line =
            o * dy->channel_step + (dy_bins_before(s) + f->shift - i) * dy->line_step;
        for (size_t j = 0; j < at->count; j++)
            t->offsets[k + j] = (uint32_t)(line + dy_frames_before(s) + at->shift - j);
        for (size_t c = 0; c < s->in_channels; c++)
            put_weights(t, c, k, at->count,
                        kernel_row(s, weight, o, c, f->first + f->stride * i) + at->first,
                        at->stride);
    }
}

/* Everything that backward needs for the current utterance. */
typedef struct backward {
    const spsh__conv_shape *s;
    const spsh__conv_grad *g;
    const spsh__cpu_kernels *kernels;
    padded x, dy;
    float *tables;         /* tables of all remainders, adjacent */
    size_t bins_per_piece; /* kernel bins */
} backward;

/* Add one kernel bin and one stretch of lines, for all channels of dy and all kernel frames. */
static void add_bin(const backward *w, size_t c, size_t bin, size_t line, size_t lines)
{
    const spsh__conv_shape *s = w->s;
    const size_t groups = (s->kernel_frames + w->kernels->grad_taps - 1) / w->kernels->grad_taps;
    const size_t group = (s->kernel_frames + groups - 1) / groups; /* as even as possible */
    float out[SPSH__GRAD_CHANNELS * SPSH__GRAD_TAPS_MAX];
    uint32_t offsets[SPSH__GRAD_TAPS_MAX];
    spsh__cpu_taps_grad one = {
        .x = w->x.data + c * w->x.channel_step + (line * s->stride_bins + bin) * w->x.line_step,
        .dy_channel = w->dy.channel_step,
        .dy_line = w->dy.line_step,
        .x_line = s->stride_bins * w->x.line_step,
        .taps = offsets,
        .lines = lines,
        .vectors = (s->out_frames + w->kernels->lanes - 1) / w->kernels->lanes,
        .out = out,
    };
    for (size_t o = 0; o < s->out_channels; o += SPSH__GRAD_CHANNELS) {
        one.dy = w->dy.data + o * w->dy.channel_step +
                 (dy_bins_before(s) + line) * w->dy.line_step + dy_frames_before(s);
        for (size_t tap = 0; tap < s->kernel_frames; tap += group) {
            for (size_t k = 0; k < w->kernels->grad_taps; k++) {
                const size_t kt = spsh__least(tap + k, s->kernel_frames - 1);
                offsets[k] = (uint32_t)(kt % s->stride_frames * w->x.width + kt / s->stride_frames);
            }
            one.tap_count = spsh__least(group, s->kernel_frames - tap);
            memset(out, 0, sizeof(out));
            w->kernels->taps_grad_fn(&one);
            for (size_t i = 0; i < spsh__least(SPSH__GRAD_CHANNELS, s->out_channels - o); i++) {
                float *to =
                    spsh__f32(w->g->dweight) + tap +
                    (((o + i) * s->in_channels + c) * s->kernel_bins + bin) * s->kernel_frames;
                for (size_t k = 0; k < one.tap_count; k++)
                    to[k] += out[i * SPSH__GRAD_TAPS_MAX + k];
            }
        }
    }
}

/* Add the lines of a stretch that overlap the input, not only its padding, at this kernel bin. */
static void add_stretch(const backward *w, size_t c, size_t bin, size_t line)
{
    const spsh__conv_shape *s = w->s;
    const reach r = {1, s->stride_bins, (int64_t)bin - (int64_t)s->pad_bins, 1, s->in_bins};
    size_t end = spsh__least(line + STRETCH_BINS, s->out_bins);
    while (line < end && !reaches(&r, line, 0))
        line++;
    while (end > line && !reaches(&r, end - 1, 0))
        end--;
    if (end > line)
        add_bin(w, c, bin, line, end - line);
}

static void weight_piece(void *work, size_t piece)
{
    const backward *w = (const backward *)work;
    const size_t per_channel = (w->s->kernel_bins + w->bins_per_piece - 1) / w->bins_per_piece;
    const size_t first = piece % per_channel * w->bins_per_piece;
    const size_t end = spsh__least(first + w->bins_per_piece, w->s->kernel_bins);
    for (size_t line = 0; line < w->s->out_bins; line += STRETCH_BINS) {
        for (size_t bin = first; bin < end; bin++)
            add_stretch(w, piece / per_channel, bin, line);
    }
}

static void bias_piece(void *work, size_t channel)
{
    const backward *w = (const backward *)work;
    const size_t plane = (size_t)w->s->out_bins * w->s->out_frames;
    const float *dy = spsh__f32(w->g->dy) + channel * plane;
    double sum = 0;
    for (size_t n = 0; n < w->s->batch; n++)
        sum += w->kernels->sum_fn(dy + n * w->s->out_channels * plane, plane);
    spsh__f32(w->g->dbias)[channel] += (float)sum;
}

static void sum_bias(spsh__backend *b, backward *w)
{
    if (w->g->dbias.data != NULL)
        spsh__cpu_run(b, bias_piece, w, w->s->out_channels);
}

typedef void (*remainder_fn)(backward *w, const axis axes[2], float *table, float *dx,
                             spsh__backend *b);

/* For each remainder of bins and frames: its axes and its table. */
static void each_remainder(backward *w, remainder_fn fn, float *dx, spsh__backend *b)
{
    const spsh__conv_shape *s = w->s;
    float *table = w->tables;
    for (size_t f = 0; f < s->stride_bins; f++) {
        for (size_t t = 0; t < s->stride_frames; t++) {
            const axis axes[2] = {
                axis_of(f, s->stride_bins, s->pad_bins, s->kernel_bins, s->in_bins),
                axis_of(t, s->stride_frames, s->pad_frames, s->kernel_frames, s->in_frames)};
            float *to = dx == NULL ? NULL : dx + f * s->in_frames + t;
            fn(w, axes, table, to, b);
            table += table_floats(w->kernels, s->in_channels,
                                  s->out_channels * axes[0].count * axes[1].count);
        }
    }
}

static taps table_of(const backward *w, const axis axes[2], float *table)
{
    taps t = {.from = w->dy.data, .line_step = w->dy.line_step};
    const size_t depth = w->s->out_channels * axes[0].count * axes[1].count;
    t.kernels = w->kernels;
    t.channels = w->s->in_channels;
    t.depth = depth;
    t.reach = (reach){axes[0].count, 1, (int64_t)axes[0].shift, -1, w->s->out_bins};
    t.rows = table;
    t.offsets =
        (uint32_t *)(void *)(table + spsh__round_up(t.channels, w->kernels->tile_rows) * depth);
    return t;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): same type as run_remainder, which writes dx */
static void make_remainder(backward *w, const axis axes[2], float *table, float *dx,
                           spsh__backend *b)
{
    (void)dx, (void)b;
    taps t = table_of(w, axes, table);
    take_table(&t, w->kernels, t.channels, t.depth, table);
    backward_table(w->s, &w->dy, spsh__f32(w->g->weight), axes, &t);
}

static void run_remainder(backward *w, const axis axes[2], float *table, float *dx,
                          spsh__backend *b)
{
    taps t = table_of(w, axes, table);
    t.lines = axes[0].inputs;
    t.frames = axes[1].inputs;
    t.out = dx;
    t.channel_stride = (size_t)w->s->in_bins * w->s->in_frames;
    t.line_stride = (size_t)w->s->stride_bins * w->s->in_frames;
    t.frame_stride = w->s->stride_frames;
    run_taps(b, &t);
}

static size_t tables_floats(const spsh__conv_shape *s, const spsh__cpu_kernels *kernels)
{
    /* each tap is in one table; each table is rounded up */
    return table_floats(kernels, s->in_channels, s->out_channels * kernel_size(s)) +
           (size_t)s->stride_bins * s->stride_frames * 64;
}

static bool backward_open(spsh__backend *b, backward *w)
{
    const spsh__conv_shape *s = w->s;
    w->x = x_shape(s);
    w->dy = dy_shape(s);
    if (!is_addressable(&w->x) || !is_addressable(&w->dy)) {
        too_large(b);
        return false;
    }
    const size_t x_floats = padded_floats(&w->x), dy_floats = padded_floats(&w->dy);
    const size_t tables = w->g->dx.data == NULL ? 0 : tables_floats(s, w->kernels);
    float *scratch = spsh__cpu_scratch(b, x_floats + dy_floats + tables);
    if (scratch == NULL)
        return false;
    w->x.data = scratch;
    w->dy.data = scratch + x_floats;
    w->tables = scratch + x_floats + dy_floats;
    const size_t pieces_per_channel = (GRAD_PIECES_MIN + s->in_channels - 1) / s->in_channels;
    w->bins_per_piece = (s->kernel_bins + pieces_per_channel - 1) / pieces_per_channel;
    return true;
}

void spsh__cpu_conv_backward(spsh__backend *b, const spsh__conv_shape *s, const spsh__conv_grad *g)
{
    const size_t in_size = (size_t)s->in_channels * s->in_bins * s->in_frames;
    if (is_nothing(s)) {
        if (g->dx.data != NULL)
            memset(g->dx.data, 0, s->batch * in_size * sizeof(float));
        return;
    }
    const size_t out_size = (size_t)s->out_channels * s->out_bins * s->out_frames;
    backward w = {.s = s, .g = g, .kernels = spsh__cpu_of(b)->kernels};
    if (spsh__cpu_spectral_suits(s)) {
        spsh__cpu_spectral_backward(b, s, g);
        sum_bias(b, &w);
        return;
    }
    if (!backward_open(b, &w))
        return;
    if (g->dx.data != NULL)
        each_remainder(&w, make_remainder, NULL, b);
    const size_t per_channel = (s->kernel_bins + w.bins_per_piece - 1) / w.bins_per_piece;
    for (size_t n = 0; n < s->batch; n++) {
        copy_x(b, s, &w.x, spsh__f32(g->x) + n * in_size);
        copy_dy(b, s, &w.dy, spsh__f32(g->dy) + n * out_size);
        spsh__cpu_run(b, weight_piece, &w, s->in_channels * per_channel);
        if (g->dx.data != NULL)
            each_remainder(&w, run_remainder, spsh__f32(g->dx) + n * in_size, b);
    }
    sum_bias(b, &w);
}
