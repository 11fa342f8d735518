/* cpu_spectral.c: convolutions along the frames in the frequency domain, for kernels of many taps
 * with stride 1 in frames. Along the bins the taps are applied directly.
 *
 * Frames are cut into blocks of OWN = LENGTH - taps + 1 outputs, which depend on LENGTH inputs. The
 * inputs of a block are transformed by a discrete Fourier transform. Then taps * OWN real products
 * become LENGTH / 2 complex products: with 11 taps a fifth of the work. Blocks of all utterances
 * are the lanes of vectors. A transform is thus a product with a matrix of cosines and sines, and
 * each frequency is a convolution along the bins. Both use the tiles of cpu_kernels.h.
 *
 *     spectra = [slot][channel][line][real lanes, imaginary lanes]
 *
 * Slot f holds frequency f of the spectrum. Slot 0 holds the two real frequencies: 0 as the real
 * part, and LENGTH / 2 as the imaginary part.
 *
 *     y  = inverse transform of conj(W) X       the first OWN of a block
 *     dx = inverse transform of W DY            blocks of dy, padded with zeros, overlap and add up
 *     dw = inverse transform of conj(DY) X      summed over lanes, lines and utterances
 *
 * NaN spreads within its block, never to another utterance. Only the shape determines the cut into
 * blocks, and of lanes into groups whose spectra fit into the caches.
 */
#include <string.h>

#include "cpu.h"

enum {
    LENGTH = 64,
    SLOTS = LENGTH / 2,
    TAPS_MIN = 5,
    TAPS_MAX = 22,
    CHANNELS_MIN = 4,
    REMAINDERS_MAX = 8, /* maximum stride of bins */
    COLUMNS = SPSH__TILE_COLUMNS_MAX,
    PLANES_MAX = LENGTH + SPSH__TILE_ROWS_MAX, /* rounded up to rows of a tile */
};

/* cos(2 pi i / 64) */
static const double cosines[LENGTH / 4 + 1] = {
    1,
    0.99518472667219688624,
    0.98078528040323044913,
    0.95694033573220886494,
    0.92387953251128675613,
    0.88192126434835502971,
    0.83146961230254523708,
    0.77301045336273696081,
    0.70710678118654752440,
    0.63439328416364549822,
    0.55557023301960222474,
    0.47139673682599764856,
    0.38268343236508977173,
    0.29028467725446236764,
    0.19509032201612826785,
    0.09801714032956060199,
    0,
};

static double cosine(size_t i)
{
    i %= LENGTH;
    if (i > LENGTH / 2)
        i = LENGTH - i;
    return i > LENGTH / 4 ? -cosines[LENGTH / 2 - i] : cosines[i];
}

/* Factor of frame t in plane p: 2 * slot, plus 1 for the imaginary part. */
static double wave(size_t p, size_t t)
{
    if (p < 2)
        return cosine(p * LENGTH / 2 * t);
    return p % 2 == 0 ? cosine(p / 2 * t) : cosine(p / 2 * t + LENGTH / 4); /* -sin */
}

/* Spectra of channels and lines. Results of a product have one part per channel: first the real
 * parts of all channels, and then all imaginary parts. */
typedef struct field {
    float *data;
    size_t slot_step, channel_step, line_step;
    size_t lines_before; /* padding lines before the first; never read */
} field;

typedef struct spectral {
    const spsh__conv_shape *s;
    const spsh__cpu_kernels *kernels;
    size_t own, blocks;       /* outputs per block, blocks per utterance */
    size_t all_lanes, groups; /* utterance * blocks + block */
    size_t lanes;             /* lanes of a group, rounded up */
    size_t first;             /* first lane of the current group */
    float *forth, *back;      /* matrices of the transform, in rows of tiles */
    field x, dy, out;         /* out: y, or dx */
    float *table;             /* weights: [slot][group of rows][depth][tile_rows] */
    uint32_t *offsets;        /* offsets for the table's depth; slot 0; all other slots */
    uint32_t *planes;         /* offsets of planes in out */
    float *sums;              /* sums for dw: [kernel bin][in channel][plane][out channel] */
    size_t sum_stride;        /* out channels, rounded up */
    float *to;                /* output of the current operator */
    const float *bias;
} spectral;

bool spsh__cpu_spectral_suits(const spsh__conv_shape *s)
{
    return s->stride_frames == 1 && s->kernel_frames >= TAPS_MIN && s->kernel_frames <= TAPS_MAX &&
           s->in_channels >= CHANNELS_MIN && s->out_channels >= CHANNELS_MIN &&
           s->stride_bins <= REMAINDERS_MAX;
}

/* --- transforms --- */

static size_t matrix_floats(const spsh__cpu_kernels *kernels)
{
    return spsh__round_up(LENGTH, kernels->tile_rows) * LENGTH;
}

static void make_matrices(const spectral *w)
{
    const size_t rows = w->kernels->tile_rows;
    memset(w->forth, 0, matrix_floats(w->kernels) * sizeof(float));
    memset(w->back, 0, matrix_floats(w->kernels) * sizeof(float));
    for (size_t p = 0; p < LENGTH; p++) {
        for (size_t t = 0; t < LENGTH; t++) {
            const double value = wave(p, t);
            w->forth[p / rows * rows * LENGTH + t * rows + p % rows] = (float)value;
            w->back[t / rows * rows * LENGTH + p * rows + t % rows] =
                (float)(value * (p < 2 ? 1.0 : 2.0) / LENGTH);
        }
    }
}

/* out[row][columns] = the first `count` rows of a matrix, times the columns. */
static void transform(const spectral *w, spsh__cpu_tile t, const float *matrix, size_t count)
{
    for (size_t row = 0; row < count; row += w->kernels->tile_rows) {
        t.rows = matrix + row * LENGTH;
        w->kernels->tile_fn(&t);
        t.out += w->kernels->tile_rows * t.out_stride;
    }
}

static size_t columns_from(const spectral *w, size_t lane)
{
    return spsh__least(w->lanes - lane, (size_t)SPSH__TILE_VECTORS * w->kernels->lanes);
}

/* Channels and bins whose blocks become spectra. */
typedef struct analysis {
    const spectral *w;
    const field *to;
    const float *from;
    size_t channels, bins, frames;
    size_t taken, before; /* frames per block; frames of the first block that precede the line */
    bool is_gradient;     /* input is dy: also fill the second half of channels, for dw */
} analysis;

/* Range of `count` frames from `start` on that exist. */
static void bounds(int64_t start, size_t count, size_t frames, size_t *ret_first, size_t *ret_end)
{
    const int64_t first = start < 0 ? -start : 0, end = (int64_t)frames - start;
    *ret_end = end < 0 ? 0 : spsh__least((size_t)end, count);
    *ret_first = spsh__least((size_t)first, *ret_end);
}

static void take_block(const analysis *a, size_t lane, size_t piece, float *to, size_t step)
{
    const size_t n = lane / a->w->blocks;
    const int64_t start = (int64_t)(lane % a->w->blocks * a->w->own) - (int64_t)a->before;
    const float *line = a->from + (n * a->channels * a->bins + piece) * a->frames;
    size_t first = 0, end = 0;
    bounds(start, a->taken, a->frames, &first, &end);
    for (size_t i = 0; i < first; i++)
        to[i * step] = 0;
    for (size_t i = first; i < end; i++)
        to[i * step] = line[start + (int64_t)i];
    for (size_t i = end; i < a->taken; i++)
        to[i * step] = 0;
}

static void negate(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = -from[i];
}

/* conj(DY) X is a sum over the real and imaginary parts of X. They are multiplied by (re, im) for
 * its real part, and by (-im, re) for its imaginary part. In slot 0, the factors are (re, 0) and
 * (0, im). */
static void put_gradient(const analysis *a, float *to, const float *planes, size_t slot,
                         size_t columns)
{
    const size_t bytes = columns * sizeof(float), lanes = a->w->lanes;
    float *second = to + a->channels * a->to->channel_step;
    const float *re = planes, *im = planes + columns;
    memcpy(to, re, bytes);
    memcpy(second + lanes, slot == 0 ? im : re, bytes);
    if (slot == 0) {
        memset(to + lanes, 0, bytes);
        memset(second, 0, bytes);
    } else {
        memcpy(to + lanes, im, bytes);
        negate(second, im, columns);
    }
}

static void analyse_piece(void *work, size_t piece)
{
    const analysis *a = (const analysis *)work;
    const spectral *w = a->w;
    const size_t channel = piece / a->bins, bin = piece % a->bins;
    float frames[LENGTH * COLUMNS], planes[PLANES_MAX * COLUMNS];
    float *to = a->to->data + channel * a->to->channel_step +
                (bin + a->to->lines_before) * a->to->line_step;
    for (size_t lane = 0, columns; lane < w->lanes; lane += columns) {
        columns = columns_from(w, lane);
        const size_t there =
            spsh__least(columns, w->all_lanes - spsh__least(w->all_lanes, w->first + lane));
        if (there < columns)
            memset(frames, 0, a->taken * columns * sizeof(float));
        for (size_t i = 0; i < there; i++)
            take_block(a, w->first + lane + i, piece, frames + i, columns);
        const spsh__cpu_tile t = {.columns = frames,
                                  .step = columns,
                                  .depth = a->taken,
                                  .vectors = (uint32_t)(columns / w->kernels->lanes),
                                  .out = planes,
                                  .out_stride = columns};
        transform(w, t, w->forth, LENGTH);
        for (size_t slot = 0; slot < SLOTS; slot++) {
            float *here = to + slot * a->to->slot_step + lane;
            const float *of = planes + 2 * slot * columns;
            if (a->is_gradient) {
                put_gradient(a, here, of, slot, columns);
                continue;
            }
            memcpy(here, of, columns * sizeof(float));
            memcpy(here + w->lanes, of + columns, columns * sizeof(float));
        }
    }
}

/* Channels and bins to transform back from `out`. */
typedef struct synthesis {
    const spectral *w;
    size_t channels, bins, frames;
    size_t given, before;
    bool adds; /* blocks overlap */
} synthesis;

static void give_block(const synthesis *s, size_t lane, size_t piece, const float *from,
                       size_t step)
{
    const size_t n = lane / s->w->blocks;
    const int64_t start = (int64_t)(lane % s->w->blocks * s->w->own) - (int64_t)s->before;
    float *line = s->w->to + (n * s->channels * s->bins + piece) * s->frames;
    const float bias = s->w->bias == NULL ? 0 : s->w->bias[piece / s->bins];
    size_t first = 0, end = 0;
    bounds(start, s->given, s->frames, &first, &end);
    for (size_t i = first; i < end; i++) {
        float *to = &line[start + (int64_t)i];
        *to = s->adds ? *to + from[i * step] : from[i * step] + bias;
    }
}

static void synthesise_piece(void *work, size_t piece)
{
    const synthesis *s = (const synthesis *)work;
    const spectral *w = s->w;
    const size_t channel = piece / s->bins, bin = piece % s->bins;
    float frames[PLANES_MAX * COLUMNS];
    for (size_t lane = 0, columns; lane < w->lanes; lane += columns) {
        columns = columns_from(w, lane);
        const spsh__cpu_tile t = {.columns = w->out.data + channel * w->out.channel_step +
                                             bin * w->out.line_step + lane,
                                  .offsets = w->planes,
                                  .depth = LENGTH,
                                  .vectors = (uint32_t)(columns / w->kernels->lanes),
                                  .out = frames,
                                  .out_stride = columns};
        transform(w, t, w->back, s->given);
        for (size_t i = 0; i < columns && w->first + lane + i < w->all_lanes; i++)
            give_block(s, w->first + lane + i, piece, frames + i, columns);
    }
}

/* --- weights --- */

/* A table for lines whose taps are the kernel bins first, first + stride, ... */
typedef struct bank {
    const spectral *w;
    size_t rows, terms;         /* output channels, summed channels */
    size_t row_step, term_step; /* steps in the weights */
    size_t first, stride, count;
    const float *weight;
    float *table;
    size_t table_step, depth;
    float sign; /* 1: multiply by conj(W), -1: by W */
} bank;

/* Spectra of a term's weights for rows first ... first + count. */
typedef struct bank_rows {
    const float *planes;
    size_t step, first, count;
} bank_rows;

/* Row r: (wr, sign * wi); row rows + r: (-sign * wi, wr). In slot 0: (w, 0) and (0, w). */
static void put_weights(const bank *k, size_t slot, size_t place, const bank_rows *of)
{
    const size_t tile = k->w->kernels->tile_rows;
    const float *re = of->planes + 2 * slot * of->step, *im = re + of->step;
    float *table = k->table + slot * k->table_step + 2 * place * tile;
    for (size_t i = 0; i < of->count; i++) {
        const size_t row = of->first + i, second = k->rows + row;
        float *to = table + row / tile * tile * k->depth + row % tile;
        float *to_second = table + second / tile * tile * k->depth + second % tile;
        const float cross = slot == 0 ? 0 : k->sign * im[i];
        to[0] = re[i];
        to[tile] = cross;
        to_second[0] = -cross;
        to_second[tile] = slot == 0 ? im[i] : re[i];
    }
}

/* All rows of a term at a kernel bin. */
static void bank_piece(void *work, size_t piece)
{
    const bank *k = (const bank *)work;
    const spectral *w = k->w;
    const size_t taps = w->s->kernel_frames, most = (size_t)SPSH__TILE_VECTORS * w->kernels->lanes;
    const size_t bin = k->first + k->stride * (piece / k->terms);
    const float *from = k->weight + piece % k->terms * k->term_step + bin * taps;
    float frames[TAPS_MAX * COLUMNS], planes[PLANES_MAX * COLUMNS];
    for (size_t row = 0; row < k->rows; row += most) {
        const size_t count = spsh__least(most, k->rows - row);
        const size_t columns = spsh__round_up(count, w->kernels->lanes);
        memset(frames, 0, taps * columns * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            for (size_t t = 0; t < taps; t++)
                frames[t * columns + i] = from[(row + i) * k->row_step + t];
        }
        const spsh__cpu_tile t = {.columns = frames,
                                  .step = columns,
                                  .depth = taps,
                                  .vectors = (uint32_t)(columns / w->kernels->lanes),
                                  .out = planes,
                                  .out_stride = columns};
        transform(w, t, w->forth, LENGTH);
        const bank_rows of = {planes, columns, row, count};
        for (size_t slot = 0; slot < SLOTS; slot++)
            put_weights(k, slot, piece, &of);
    }
}

static void make_bank(spsh__backend *b, bank *k)
{
    const size_t tile = k->w->kernels->tile_rows, rows = spsh__round_up(2 * k->rows, tile);
    k->depth = 2 * k->count * k->terms;
    k->table_step = rows * k->depth;
    if (rows > 2 * k->rows) {
        for (size_t slot = 0; slot < SLOTS; slot++)
            memset(k->table + slot * k->table_step + (rows - tile) * k->depth, 0,
                   tile * k->depth * sizeof(float));
    }
    spsh__cpu_run(b, bank_piece, k, k->count * k->terms);
}

/* --- products --- */

/* Lines of out. Kernel bin i of line `line` reads line `line * stride + origin + step * i` of the
 * input. */
typedef struct product {
    const spectral *w;
    const bank *bank;
    const field *from;
    const uint32_t *offsets[2]; /* for slot 0; for other slots */
    size_t lines, first, each;  /* line i is line first + each * i of out */
    int64_t stride, origin, step, bins;
} product;

static bool meets(const product *p, size_t line, size_t i)
{
    const int64_t bin = (int64_t)line * p->stride + p->origin + p->step * (int64_t)i;
    return bin >= 0 && bin < p->bins;
}

static void product_piece(void *work, size_t piece)
{
    const product *p = (const product *)work;
    const spectral *w = p->w;
    const size_t slot = piece / p->lines, line = piece % p->lines;
    const size_t per_bin = 2 * p->bank->terms, tile = w->kernels->tile_rows;
    size_t first = 0, end = p->bank->count;
    while (first < end && !meets(p, line, first))
        first++;
    while (end > first && !meets(p, line, end - 1))
        end--;
    const float *table = p->bank->table + slot * p->bank->table_step + first * per_bin * tile;
    const float *from =
        p->from->data + slot * p->from->slot_step + line * (size_t)p->stride * p->from->line_step;
    float *to =
        w->out.data + slot * w->out.slot_step + (p->first + p->each * line) * w->out.line_step;
    for (size_t lane = 0, columns; lane < w->lanes; lane += columns) {
        columns = columns_from(w, lane);
        for (size_t row = 0; row < 2 * p->bank->rows; row += tile) {
            const spsh__cpu_tile t = {.rows = table + row * p->bank->depth,
                                      .columns = from + lane,
                                      .offsets = p->offsets[slot > 0] + first * per_bin,
                                      .depth = (end - first) * per_bin,
                                      .vectors = (uint32_t)(columns / w->kernels->lanes),
                                      .out = to + row * w->out.channel_step + lane,
                                      .out_stride = w->out.channel_step};
            w->kernels->tile_fn(&t);
        }
    }
}

/* --- opening --- */

static field field_of(const spectral *w, size_t channels, size_t lines, size_t before, size_t parts)
{
    field f = {.line_step = parts * w->lanes, .lines_before = before};
    f.channel_step = (before + lines) * f.line_step;
    f.slot_step = channels * f.channel_step;
    return f;
}

static size_t field_floats(const field *f)
{
    return SLOTS * f->slot_step;
}

static spectral spectral_of(spsh__backend *b, const spsh__conv_shape *s)
{
    spectral w = {.s = s, .kernels = spsh__cpu_of(b)->kernels};
    w.own = LENGTH - s->kernel_frames + 1;
    w.blocks = (s->out_frames + w.own - 1) / w.own;
    w.all_lanes = w.blocks * s->batch;
    w.groups = (w.all_lanes + COLUMNS - 1) / COLUMNS;
    w.lanes = spsh__round_up((w.all_lanes + w.groups - 1) / w.groups, SPSH__LANES_MAX);
    return w;
}

/* Memory is laid out twice: first to count it, then to assign it. */
typedef struct arena {
    float *data;
    size_t used;
} arena;

static float *take(arena *r, size_t floats)
{
    float *here = r->data == NULL ? NULL : r->data + r->used;
    r->used += spsh__round_up(floats, 64);
    return here;
}

static void take_common(spectral *w, arena *r, size_t rows, size_t depth)
{
    const size_t tile = w->kernels->tile_rows;
    w->forth = take(r, matrix_floats(w->kernels));
    w->back = take(r, matrix_floats(w->kernels));
    w->table = take(r, SLOTS * spsh__round_up(2 * rows, tile) * depth);
    w->offsets = (uint32_t *)(void *)take(r, 2 * depth);
    w->planes = (uint32_t *)(void *)take(r, LENGTH);
    w->out.data = take(r, field_floats(&w->out));
    w->x.data = take(r, field_floats(&w->x));
}

/* channels: count of one part (real or imaginary). */
static void make_planes(const spectral *w, size_t channels)
{
    for (size_t p = 0; p < LENGTH; p++)
        w->planes[p] =
            (uint32_t)(p / 2 * w->out.slot_step + p % 2 * channels * w->out.channel_step);
}

static bool is_addressable(const field *f)
{
    return field_floats(f) <= UINT32_MAX;
}

/* Allocate scratch for the buffers that lay_out places. Return false if it is not available, or too
 * large for the offsets. */
static bool spectral_open(spsh__backend *b, spectral *w, void (*lay_out)(spectral *w, arena *r))
{
    arena r = {NULL, 0};
    lay_out(w, &r);
    const bool fits = is_addressable(&w->x) && is_addressable(&w->out) && is_addressable(&w->dy);
    r.data = spsh__cpu_scratch(b, fits ? r.used : SIZE_MAX / sizeof(float));
    if (r.data == NULL)
        return false;
    r.used = 0;
    lay_out(w, &r);
    make_matrices(w);
    return true;
}

static void analyse(spsh__backend *b, const spectral *w, const field *to, const float *from)
{
    const spsh__conv_shape *s = w->s;
    const bool is_x = to == &w->x;
    analysis a = {w, to, from, s->out_channels, s->out_bins, s->out_frames, w->own, 0, true};
    if (is_x)
        a = (analysis){
            w, to, from, s->in_channels, s->in_bins, s->in_frames, LENGTH, s->pad_frames, false};
    spsh__cpu_run(b, analyse_piece, &a, a.channels * a.bins);
}

/* --- forward --- */

static void lay_out_forward(spectral *w, arena *r)
{
    const spsh__conv_shape *s = w->s;
    const size_t tile = w->kernels->tile_rows;
    w->x = field_of(w, s->in_channels, s->in_bins + s->pad_bins, s->pad_bins, 2);
    w->out = field_of(w, spsh__round_up(2 * (size_t)s->out_channels, tile), s->out_bins, 0, 1);
    take_common(w, r, s->out_channels, 2 * (size_t)s->in_channels * s->kernel_bins);
}

static void forward_offsets(const spectral *w)
{
    const spsh__conv_shape *s = w->s;
    const size_t depth = 2 * (size_t)s->in_channels * s->kernel_bins;
    for (size_t k = 0; k < depth; k++) {
        const size_t bin = k / 2 / s->in_channels, channel = k / 2 % s->in_channels;
        w->offsets[k] =
            (uint32_t)(channel * w->x.channel_step + bin * w->x.line_step + k % 2 * w->lanes);
    }
}

void spsh__cpu_spectral_forward(spsh__backend *b, const spsh__conv_shape *s,
                                const spsh__conv_io *io)
{
    spectral w = spectral_of(b, s);
    if (!spectral_open(b, &w, lay_out_forward))
        return;
    w.bias = spsh__f32(io->bias);
    w.to = spsh__f32(io->y);
    const size_t kernel = (size_t)s->kernel_bins * s->kernel_frames;
    bank k = {.w = &w,
              .rows = s->out_channels,
              .terms = s->in_channels,
              .row_step = s->in_channels * kernel,
              .term_step = kernel,
              .stride = 1,
              .count = s->kernel_bins,
              .weight = spsh__f32(io->weight),
              .table = w.table,
              .sign = 1};
    make_bank(b, &k);
    forward_offsets(&w);
    make_planes(&w, s->out_channels);
    product p = {
        .w = &w,
        .bank = &k,
        .from = &w.x,
        .offsets = {w.offsets, w.offsets},
        .lines = s->out_bins,
        .each = 1,
        .stride = s->stride_bins,
        .origin = -(int64_t)s->pad_bins,
        .step = 1,
        .bins = s->in_bins
    };
    synthesis out = {&w, s->out_channels, s->out_bins, s->out_frames, w.own, 0, false};
    for (; w.first < w.all_lanes; w.first += w.lanes) {
        analyse(b, &w, &w.x, spsh__f32(io->x));
        spsh__cpu_run(b, product_piece, &p, SLOTS * p.lines);
        spsh__cpu_run(b, synthesise_piece, &out, out.channels * out.bins);
    }
}

/* --- backward --- */

/* Number of lines before the first of dy that taps of any remainder read. */
static size_t dy_lines_before(const spsh__conv_shape *s)
{
    return (s->kernel_bins - 1) / s->stride_bins;
}

static void lay_out_backward(spectral *w, arena *r)
{
    const spsh__conv_shape *s = w->s;
    const size_t tile = w->kernels->tile_rows;
    const size_t channels = spsh__round_up(2 * (size_t)s->out_channels, SPSH__GRAD_CHANNELS);
    w->sum_stride = spsh__round_up(s->out_channels, SPSH__LANES_MAX);
    w->x = field_of(w, s->in_channels, s->in_bins + s->pad_bins, s->pad_bins, 2);
    w->dy = field_of(w, channels, s->out_bins, dy_lines_before(s), 2);
    w->out = field_of(w, spsh__round_up(2 * (size_t)s->in_channels, tile), s->in_bins, 0, 1);
    take_common(w, r, s->in_channels, 2 * (size_t)s->out_channels * s->kernel_bins);
    w->dy.data = take(r, field_floats(&w->dy));
    w->sums = take(r, (size_t)s->kernel_bins * s->in_channels * LENGTH * w->sum_stride);
}

/* Find the lines of dy that use this kernel bin inside the input. */
static void lines_of(const spsh__conv_shape *s, size_t bin, size_t *ret_first, size_t *ret_end)
{
    size_t first = 0, end = s->out_bins;
    if (bin < s->pad_bins)
        first = (s->pad_bins - bin + s->stride_bins - 1) / s->stride_bins;
    while (end > first && (end - 1) * s->stride_bins + bin >= (size_t)s->in_bins + s->pad_bins)
        end--;
    *ret_first = first;
    *ret_end = end;
}

/* A piece is a slot and a kernel bin. */
static void weight_piece(void *work, size_t piece)
{
    const spectral *w = (const spectral *)work;
    const spsh__conv_shape *s = w->s;
    const size_t slot = piece / s->kernel_bins, bin = piece % s->kernel_bins;
    const size_t groups = (s->in_channels + w->kernels->grad_taps - 1) / w->kernels->grad_taps;
    const size_t group = (s->in_channels + groups - 1) / groups; /* as even as possible */
    float out[SPSH__GRAD_CHANNELS * SPSH__GRAD_TAPS_MAX];
    uint32_t channels[SPSH__GRAD_TAPS_MAX];
    size_t first = 0, end = 0;
    lines_of(s, bin, &first, &end);
    if (first >= end)
        return;
    spsh__cpu_taps_grad one = {.dy_channel = w->dy.channel_step,
                               .dy_line = w->dy.line_step,
                               .x_line = s->stride_bins * w->x.line_step,
                               .taps = channels,
                               .lines = end - first,
                               .vectors = 2 * w->lanes / w->kernels->lanes,
                               .out = out};
    one.x = w->x.data + slot * w->x.slot_step + (first * s->stride_bins + bin) * w->x.line_step;
    for (size_t c = 0; c < s->in_channels; c += group) {
        for (size_t k = 0; k < w->kernels->grad_taps; k++)
            channels[k] = (uint32_t)(spsh__least(k, s->in_channels - 1 - c) * w->x.channel_step);
        one.tap_count = spsh__least(group, s->in_channels - c);
        for (size_t o = 0; o < 2 * (size_t)s->out_channels; o += SPSH__GRAD_CHANNELS) {
            one.dy = w->dy.data + slot * w->dy.slot_step + o * w->dy.channel_step +
                     (w->dy.lines_before + first) * w->dy.line_step;
            memset(out, 0, sizeof(out));
            w->kernels->taps_grad_fn(&one);
            for (size_t i = 0; i < SPSH__GRAD_CHANNELS && o + i < 2 * (size_t)s->out_channels;
                 i++) {
                const size_t part = (o + i) / s->out_channels, of = (o + i) % s->out_channels;
                float *to =
                    w->sums +
                    (((bin * s->in_channels + c) * LENGTH) + 2 * slot + part) * w->sum_stride + of;
                for (size_t k = 0; k < one.tap_count; k++)
                    to[k * LENGTH * w->sum_stride] += out[i * SPSH__GRAD_TAPS_MAX + k];
            }
        }
        one.x += group * w->x.channel_step;
    }
}

/* A piece is a kernel bin and an input channel: transform the sums back to taps. */
static void give_weights_piece(void *work, size_t piece)
{
    const spectral *w = (const spectral *)work;
    const spsh__conv_shape *s = w->s;
    const size_t bin = piece / s->in_channels, channel = piece % s->in_channels;
    const size_t most = (size_t)SPSH__TILE_VECTORS * w->kernels->lanes;
    float taps[(TAPS_MAX + SPSH__TILE_ROWS_MAX) * COLUMNS];
    for (size_t o = 0; o < s->out_channels; o += most) {
        const size_t count = spsh__least(most, s->out_channels - o);
        const size_t columns = spsh__round_up(count, w->kernels->lanes);
        const spsh__cpu_tile t = {.columns = w->sums + piece * LENGTH * w->sum_stride + o,
                                  .step = w->sum_stride,
                                  .depth = LENGTH,
                                  .vectors = (uint32_t)(columns / w->kernels->lanes),
                                  .out = taps,
                                  .out_stride = columns};
        transform(w, t, w->back, s->kernel_frames);
        for (size_t i = 0; i < count; i++) {
            float *to = w->to + (((o + i) * s->in_channels + channel) * s->kernel_bins + bin) *
                                    s->kernel_frames;
            for (size_t k = 0; k < s->kernel_frames; k++)
                to[k] += taps[k * columns + i];
        }
    }
}

/* Table and offsets of the kernel bins for input lines with this remainder by the stride. */
static bank remainder_bank(const spectral *w, size_t remainder, const float *weight)
{
    const spsh__conv_shape *s = w->s;
    const size_t kernel = (size_t)s->kernel_bins * s->kernel_frames;
    const size_t first = (remainder + s->pad_bins) % s->stride_bins;
    return (bank){.w = w,
                  .rows = s->in_channels,
                  .terms = s->out_channels,
                  .row_step = kernel,
                  .term_step = s->in_channels * kernel,
                  .first = first,
                  .stride = s->stride_bins,
                  .count = first < s->kernel_bins
                               ? (s->kernel_bins - first + s->stride_bins - 1) / s->stride_bins
                               : 0,
                  .weight = weight,
                  .sign = -1};
}

/* The imaginary part of dy follows its real part. In slot 0 it is in the second half of channels.
 */
static void backward_offsets(const spectral *w, const bank *k, size_t shift, uint32_t *to)
{
    const size_t depth = 2 * k->count * k->terms;
    for (size_t i = 0; i < depth; i++) {
        const size_t line = w->dy.lines_before + shift - i / 2 / k->terms;
        const size_t channel = i / 2 % k->terms, part = i % 2;
        const size_t here = line * w->dy.line_step + part * w->lanes;
        to[depth + i] = (uint32_t)(here + channel * w->dy.channel_step);
        to[i] = (uint32_t)(here + (channel + part * k->terms) * w->dy.channel_step);
    }
}

/* The tables are adjacent, one per remainder, because each remainder has its own number of taps. */
static void open_remainders(spsh__backend *b, const spectral *w, const float *weight, bank *banks,
                            product *products)
{
    const spsh__conv_shape *s = w->s;
    float *table = w->table;
    uint32_t *offsets = w->offsets;
    for (size_t i = 0; i < s->stride_bins; i++) {
        const size_t shift = (i + s->pad_bins) / s->stride_bins;
        banks[i] = remainder_bank(w, i, weight);
        banks[i].table = table;
        make_bank(b, &banks[i]);
        backward_offsets(w, &banks[i], shift, offsets);
        products[i] = (product){
            .w = w,
            .bank = &banks[i],
            .from = &w->dy,
            .offsets = {offsets, offsets + banks[i].depth},
            .lines = i < s->in_bins ? (s->in_bins - i + s->stride_bins - 1) / s->stride_bins : 0,
            .first = i,
            .each = s->stride_bins,
            .stride = 1,
            .origin = (int64_t)shift,
            .step = -1,
            .bins = s->out_bins
        };
        table += SLOTS * banks[i].table_step;
        offsets += 2 * banks[i].depth;
    }
}

static void input_gradient(spsh__backend *b, spectral *w, const product *products)
{
    const spsh__conv_shape *s = w->s;
    for (size_t i = 0; i < s->stride_bins; i++) {
        product p = products[i];
        spsh__cpu_run(b, product_piece, &p, SLOTS * p.lines);
    }
    synthesis in = {w, s->in_channels, s->in_bins, s->in_frames, LENGTH, s->pad_frames, true};
    spsh__cpu_run(b, synthesise_piece, &in, in.channels * in.bins);
}

void spsh__cpu_spectral_backward(spsh__backend *b, const spsh__conv_shape *s,
                                 const spsh__conv_grad *g)
{
    spectral w = spectral_of(b, s);
    bank banks[REMAINDERS_MAX];
    product products[REMAINDERS_MAX];
    if (!spectral_open(b, &w, lay_out_backward))
        return;
    memset(w.sums, 0,
           (size_t)s->kernel_bins * s->in_channels * LENGTH * w.sum_stride * sizeof(float));
    if (2 * s->out_channels % SPSH__GRAD_CHANNELS != 0) /* padding channels for the kernel */
        memset(w.dy.data, 0, field_floats(&w.dy) * sizeof(float));
    make_planes(&w, s->in_channels);
    w.to = spsh__f32(g->dx);
    if (w.to != NULL) {
        memset(w.to, 0,
               (size_t)s->batch * s->in_channels * s->in_bins * s->in_frames * sizeof(float));
        open_remainders(b, &w, spsh__f32(g->weight), banks, products);
    }
    for (; w.first < w.all_lanes; w.first += w.lanes) {
        analyse(b, &w, &w.x, spsh__f32(g->x));
        analyse(b, &w, &w.dy, spsh__f32(g->dy));
        spsh__cpu_run(b, weight_piece, &w, SLOTS * (size_t)s->kernel_bins);
        if (w.to != NULL)
            input_gradient(b, &w, products);
    }
    w.to = spsh__f32(g->dweight);
    spsh__cpu_run(b, give_weights_piece, &w, (size_t)s->kernel_bins * s->in_channels);
}
