/* model.c: arenas, slices, buckets, initial values, and the steps around a batch. The layers are in
 * model_ds2.c, model_hybrid.c and model_layers.c.
 *
 *     arena   | output | rnn5.backward | rnn5.forward, rnn5.norm | ... | conv2 | conv1    |
 *     units     0        1               2                                     | the last
 *     buckets | 0 ...  | 1             | 2 ...                                 | the last
 *
 * The exchange of a bucket overlaps the backward pass of the later buckets. The exchange of the
 * last bucket overlaps nothing, so it holds only the last unit, which is small: the first
 * convolution.
 *
 * Slices begin at multiples of 64 elements. Gaps are zero and stay zero under every optimizer. An
 * arena is therefore the same for all backends, regardless of their element type.
 */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/whole_numbers.h"
#include "model_internal.h"

/* Minimum length of a bucket, except for the last two: a MiB of floats. */
#define BUCKET_ELEMENTS_MIN (UINT64_C(1) << 18)

/* These limits keep all products of sizes below 64 bits. */
enum {
    INPUTS_MAX = 1 << 16,
    CHANNELS_MAX = 1 << 10,
    HIDDEN_MAX = 1 << 14,
    LOOKAHEAD_MAX = 1 << 10,
    OUTPUTS_MAX = 1 << 22,
    FRAMES_MAX = 1 << 20,
    BATCH_MAX = 1 << 20,
};
#define ROWS_MAX (UINT64_C(1) << 31)

/* ---- presets */

spsh_status spsh__model_preset(const char *name, spsh__model_shape *shape, spsh_error *err)
{
    static const struct {
        const char *name;
        spsh__model_shape shape;
    } presets[] = {
        {"ds2",         {.conv_channels = 32, .layers = 5, .hidden = 1024}},
        {"ds2-small",   {.conv_channels = 32, .layers = 3, .hidden = 256} },
        {"ds2-tiny",    {.conv_channels = 16, .layers = 2, .hidden = 128} },
        {"lstm-hybrid",
         {.kind = SPSH__MODEL_LSTM_HYBRID,
          .layers = 6,
          .hidden = 512,
          .bottleneck = 256,
          .chunk_frames = 21}                                             },
    };

    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
        if (strcmp(name, presets[i].name) != 0)
            continue;
        const uint32_t inputs = shape->inputs, outputs = shape->outputs;
        *shape = presets[i].shape;
        shape->cell = SPSH__CELL_LSTM;
        shape->is_bidirectional = true;
        shape->inputs = inputs;
        shape->outputs = outputs;
        return SPSH_OK;
    }
    return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                     "unknown model '%s'; expected ds2, ds2-small, ds2-tiny, or lstm-hybrid", name);
}

static spsh_status check_range(const char *name, uint64_t value, uint64_t min, uint64_t max,
                               spsh_error *err)
{
    if (value >= min && value <= max)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "model: %s is %llu; expected %llu to %llu", name,
                     (unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
}

static spsh_status check_shape(const spsh__model_shape *s, const spsh__model_limits *l,
                               spsh_error *err)
{
    bool is_ds2 = s->kind == SPSH__MODEL_DS2;
    const struct {
        const char *name;
        uint64_t value, min, max;
    } rules[] = {
        {"kind",          (uint64_t)s->kind, SPSH__MODEL_DS2, SPSH__MODEL_LSTM_HYBRID                           },
        {"cell",          (uint64_t)s->cell, SPSH__CELL_LSTM, SPSH__CELL_GRU                                    },
        {"inputs",        s->inputs,         1,               INPUTS_MAX                                        },
        {"conv_channels", s->conv_channels,  is_ds2 ? 1 : 0,  is_ds2 ? CHANNELS_MAX : 0                         },
        {"layers",        s->layers,         1,               SPSH__MODEL_LAYERS_MAX                            },
        {"hidden",        s->hidden,         1,               HIDDEN_MAX                                        },
        {"lookahead",     s->lookahead,      0,               is_ds2 && !s->is_bidirectional ? LOOKAHEAD_MAX : 0},
        {"bottleneck",    s->bottleneck,     is_ds2 ? 0 : 1,  is_ds2 ? 0 : HIDDEN_MAX                           },
        {"outputs",       s->outputs,        2,               OUTPUTS_MAX                                       },
        {"batch_max",     l->batch_max,      1,               BATCH_MAX                                         },
        {"frames_max",    l->frames_max,     1,               FRAMES_MAX                                        },
        {"rows_max",      l->rows_max,       1,               ROWS_MAX                                          },
    };
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; rc == SPSH_OK && i < sizeof(rules) / sizeof(rules[0]); i++)
        rc = check_range(rules[i].name, rules[i].value, rules[i].min, rules[i].max, err);
    return rc;
}

/* ---- declarations ---- */

uint32_t spsh__model_slice(spsh__model *m, const uint32_t shape[4], bool decays,
                           spsh__slice_start start, const char *name, ...)
{
    uint32_t number = m->slice_count++;
    spsh__parameter *slice = &m->slices[number];
    va_list arguments;

    va_start(arguments, name);
    (void)vsnprintf(slice->name, sizeof(slice->name), name, arguments);
    va_end(arguments);
    slice->offset = m->arena_elements;
    slice->count = 1;
    for (slice->rank = 0; slice->rank < 4 && shape[slice->rank] > 0; slice->rank++) {
        slice->shape[slice->rank] = shape[slice->rank];
        slice->count *= shape[slice->rank];
    }
    slice->decays = decays;
    slice->bucket = m->unit_count; /* until units are joined */
    m->starts[number] = start;
    m->weight_count += slice->count;
    m->arena_elements += spsh__round_up(slice->count, SPSH__MODEL_ALIGNMENT);
    return number;
}

void spsh__model_unit_end(spsh__model *m)
{
    m->unit_ends[m->unit_count++] = m->arena_elements;
}

spsh__norm_layer *spsh__model_norm(spsh__model *m, const char *name, uint32_t channels,
                                   uint32_t bins)
{
    const uint32_t shape[4] = {channels};
    spsh__norm_layer *layer = &m->norms[m->norm_count++];
    layer->channels = channels;
    layer->bins = bins;
    layer->slice =
        spsh__model_slice(m, shape, false, (spsh__slice_start){0, 1}, "%s.norm.weight", name);
    (void)spsh__model_slice(m, shape, false, (spsh__slice_start){0, 0}, "%s.norm.bias", name);
    layer->running_mean = m->statistics_elements;
    layer->running_variance = layer->running_mean + spsh__round_up(channels, SPSH__MODEL_ALIGNMENT);
    m->statistics_elements =
        layer->running_variance + spsh__round_up(channels, SPSH__MODEL_ALIGNMENT);
    return layer;
}

/* Assign units to buckets, and buckets to slices. */
static void join_units(spsh__model *m)
{
    uint32_t bucket_of_unit[SPSH__MODEL_UNITS_MAX];
    uint64_t begin = 0;
    for (uint32_t unit = 0; unit < m->unit_count; unit++) {
        bucket_of_unit[unit] = m->bucket_count;
        bool is_late = unit + 2 >= m->unit_count; /* the last unit has a separate bucket */
        if (m->unit_ends[unit] - begin < BUCKET_ELEMENTS_MIN && !is_late)
            continue;
        begin = m->unit_ends[unit];
        m->bucket_ends[m->bucket_count++] = begin;
    }
    for (uint32_t i = 0; i < m->slice_count; i++)
        m->slices[i].bucket = bucket_of_unit[m->slices[i].bucket];
}

/* ---- memory */

static spsh__backend_buffer take(spsh__model *m, bool is_half, uint64_t elements)
{
    const size_t count = elements == 0 ? 1 : (size_t)elements;
    spsh__backend_buffer buffer = {NULL, false};
    if (m->take_status == SPSH_OK)
        m->take_status = is_half ? m->b->alloc_half_fn(m->backend, count, &buffer, &m->take_error)
                                 : m->b->alloc_fn(m->backend, count, &buffer, &m->take_error);
    if (m->take_status != SPSH_OK)
        return (spsh__backend_buffer){NULL, false};
    m->buffers[m->buffer_count++] = buffer;
    return buffer;
}

static spsh__backend_buffer take_floats(spsh__model *m, uint64_t elements)
{
    return take(m, false, elements);
}

spsh__backend_buffer spsh__model_take_values(spsh__model *m, uint64_t elements)
{
    return take(m, m->backend->has_half, elements);
}

uint32_t spsh__model_batch_max(const spsh__model *m, uint32_t frames)
{
    const uint64_t batch = m->limits.rows_max / frames;
    return spsh__model_segment_batch(m, batch < m->limits.batch_max ? (uint32_t)batch
                                                                    : m->limits.batch_max);
}

/* Find the maximum row counts of a batch, at the input and at the output of the model. */
static void find_rows(spsh__model *m)
{
    for (uint32_t frames = 1; frames <= m->limits.frames_max; frames++) {
        const uint64_t batch = spsh__model_batch_max(m, frames);
        const uint64_t in = batch * spsh__model_segment_frames(m, frames);
        const uint64_t out = batch * spsh__model_out_frames(m, frames);
        m->in_rows_max = in > m->in_rows_max ? in : m->in_rows_max;
        m->out_rows_max = out > m->out_rows_max ? out : m->out_rows_max;
    }
}

static void take_arenas(spsh__model *m)
{
    if (m->lender != NULL) {
        m->weights = m->lender->weights;
        m->half_weights = m->lender->half_weights;
        m->statistics = m->lender->statistics;
        m->gradients = m->is_forward_only ? m->gradients : m->lender->gradients;
        return;
    }
    m->weights = take_floats(m, m->arena_elements);
    m->statistics = take_floats(m, m->statistics_elements);
    if (m->backend->has_half)
        m->half_weights = spsh__model_take_values(m, m->arena_elements);
    if (!m->is_forward_only)
        m->gradients = take_floats(m, m->arena_elements);
}

/* A loss of frames can overwrite the logits: each row's gradients depend only on that row. */
static void take_logits(spsh__model *m)
{
    const uint64_t elements = m->out_rows_max * m->shape.outputs;
    m->logits = m->logit_gradients = take_floats(m, elements);
    if (m->backend->has_half && !m->is_forward_only)
        m->half_gradients = spsh__model_take_values(m, elements);
    if (!m->is_forward_only && m->shape.kind != SPSH__MODEL_LSTM_HYBRID)
        m->logit_gradients = take_floats(m, elements);
}

static spsh_status take_memory(spsh__model *m, spsh_error *err)
{
    const spsh_allocator *allocator = &m->backend->allocator;
    const bool has_features = m->stage.first == 0;
    const uint32_t first_rnn = m->shape.kind == SPSH__MODEL_DS2 ? 1 : 0; /* block of rnn1 */
    take_arenas(m);
    for (uint32_t i = 0; i < m->norm_count; i++) {
        m->norms[i].batch_mean = take_floats(m, m->norms[i].channels);
        m->norms[i].batch_scale = take_floats(m, m->norms[i].channels);
    }
    if (has_features)
        m->input = spsh__model_take_values(m, m->in_rows_max * m->shape.inputs);
    if (spsh__model_has_output(m))
        take_logits(m);
    for (uint32_t i = 0; i < m->shape.layers; i++) {
        if (spsh__model_has(m, i + first_rnn))
            spsh__rnn_take(m, &m->rnn[i]);
    }
    m->ops->activations_fn(m);
    spsh__model_take_borders(m);
    if (m->take_status != SPSH_OK)
        return spsh__fail_again(m->take_status, &m->take_error, err);

    const bool is_on_host = m->b->arrange_fn == NULL && has_features;
    if (is_on_host)
        m->staging = (float *)spsh__new(allocator, m->in_rows_max * m->shape.inputs, sizeof(float));
    const uint32_t batch_max = spsh__model_segment_batch(m, m->limits.batch_max);
    m->in_lengths = (uint32_t *)spsh__new(allocator, batch_max, sizeof(uint32_t));
    m->lengths = (uint32_t *)spsh__new(allocator, batch_max, sizeof(uint32_t));
    if ((is_on_host && m->staging == NULL) || m->in_lengths == NULL || m->lengths == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "model: buffers for %llu rows of %u features",
                         (unsigned long long)m->in_rows_max, m->shape.inputs);
    return SPSH_OK;
}

/* ---- initial values ---- */

/* FNV-1a. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* Draw element i from the key, as a function of i only: 24 bits, the middle of one of 2^24
 * intervals. */
static float draw(uint64_t key, uint64_t i, double bound)
{
    uint64_t bits = spsh__mix64(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15)) >> 40;
    double uniform = (2 * (double)bits + 1) / (double)(UINT64_C(1) << 24) - 1;
    return (float)(bound * uniform);
}

enum { CHUNK = 1024 };

static void start_slice(spsh__model *m, uint32_t number, uint64_t seed)
{
    const spsh__parameter *slice = &m->slices[number];
    const spsh__slice_start *start = &m->starts[number];
    uint64_t key = spsh__mix64(seed + spsh__mix64(hash_name(slice->name)));
    float chunk[CHUNK];
    for (uint64_t i = 0; i < slice->count; i += CHUNK) {
        uint64_t count = slice->count - i < CHUNK ? slice->count - i : CHUNK;
        for (uint64_t j = 0; j < count; j++)
            chunk[j] = start->bound > 0 ? draw(key, i + j, start->bound) : (float)start->value;
        m->b->write_f32_fn(m->backend, spsh__at(m->b, m->weights, slice->offset + i), chunk,
                           (size_t)count);
    }
}

static void start_statistics(spsh__model *m)
{
    float ones[CHUNK];
    for (int i = 0; i < CHUNK; i++)
        ones[i] = 1;
    m->b->zero_fn(m->backend, m->statistics, (size_t)m->statistics_elements);
    for (uint32_t n = 0; n < m->norm_count; n++) {
        const spsh__norm_layer *layer = &m->norms[n];
        for (uint32_t i = 0; i < layer->channels; i += CHUNK) {
            uint32_t count = layer->channels - i < CHUNK ? layer->channels - i : CHUNK;
            m->b->write_f32_fn(m->backend,
                               spsh__at(m->b, m->statistics, layer->running_variance + i), ones,
                               count);
        }
    }
}

void spsh__model_init(spsh__model *m, uint64_t seed)
{
    m->b->zero_fn(m->backend, m->weights, (size_t)m->arena_elements);
    for (uint32_t i = 0; i < m->slice_count; i++)
        start_slice(m, i, seed);
    start_statistics(m);
    spsh__model_weights_changed(m);
}

/* ---- open and close ---- */

static spsh_status open_model(const spsh__model *wanted, spsh__model **ret_model, spsh_error *err)
{
    spsh__backend *backend = wanted->backend;
    spsh_status rc = check_shape(&wanted->shape, &wanted->limits, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__model *m = (spsh__model *)spsh__new(&backend->allocator, 1, sizeof(*m));
    if (m == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "model: %zu bytes", sizeof(*m));
    *m = *wanted;
    m->take_error = (spsh_error)SPSH_ERROR_INIT;
    m->b = backend->ops;
    rc = spsh__model_check_stage(m, err);
    if (rc != SPSH_OK)
        goto out;
    m->has_lanes = m->b->rnn_both_forward_fn != NULL;
    spsh__model_segments_open(m);
    m->ops = m->shape.kind == SPSH__MODEL_DS2 ? &spsh__model_ds2 : &spsh__model_hybrid;
    m->ops->declare_fn(m);
    join_units(m);
    find_rows(m);
    spsh__model_find_borders(m);
    if (!m->is_layout)
        rc = take_memory(m, err);
    if (rc != SPSH_OK)
        goto out;
    if (m->lender == NULL && !m->is_layout)
        start_statistics(m);
    *ret_model = m;
    m = NULL;
out:
    spsh__model_close(m);
    return rc;
}

spsh_status spsh__model_open(spsh__backend *backend, const spsh__model_shape *shape,
                             const spsh__model_limits *limits, spsh__model **ret_model,
                             spsh_error *err)
{
    const spsh__model wanted = {.backend = backend, .shape = *shape, .limits = *limits};
    return open_model(&wanted, ret_model, err);
}

spsh_status spsh__model_open_forward(spsh__backend *backend, const spsh__model_shape *shape,
                                     const spsh__model_limits *limits, const spsh__model *lender,
                                     spsh__model **ret_model, spsh_error *err)
{
    const spsh__model wanted = {.backend = backend,
                                .shape = *shape,
                                .limits = *limits,
                                .is_forward_only = true,
                                .lender = lender};
    return open_model(&wanted, ret_model, err);
}

spsh_status spsh__model_open_stage(spsh__backend *backend, const spsh__model_shape *shape,
                                   const spsh__model_limits *limits, const spsh__model_stage *stage,
                                   const spsh__model *lender, spsh__model **ret_model,
                                   spsh_error *err)
{
    const spsh__model wanted = {
        .backend = backend, .shape = *shape, .limits = *limits, .stage = *stage, .lender = lender};
    return open_model(&wanted, ret_model, err);
}

spsh_status spsh__model_open_layout(spsh__backend *backend, const spsh__model_shape *shape,
                                    const spsh__model_stage *stage, spsh__model **ret_model,
                                    spsh_error *err)
{
    const spsh__model wanted = {
        .backend = backend,
        .shape = *shape,
        .limits = {1, 1, 1},
        .stage = *stage,
        .is_layout = true
    };
    return open_model(&wanted, ret_model, err);
}

void spsh__model_close(spsh__model *m)
{
    if (m == NULL)
        return;
    spsh_allocator allocator = m->backend->allocator;
    for (uint32_t i = 0; i < m->buffer_count; i++)
        m->b->free_fn(m->backend, m->buffers[i]);
    spsh__free(&allocator, m->staging);
    spsh__free(&allocator, m->in_lengths);
    spsh__free(&allocator, m->lengths);
    spsh__free(&allocator, m);
}

uint32_t spsh__model_parameter_count(const spsh__model *m)
{
    return m->slice_count;
}

const spsh__parameter *spsh__model_parameter(const spsh__model *m, uint32_t number)
{
    return &m->slices[number];
}

uint64_t spsh__model_arena_elements(const spsh__model *m)
{
    return m->arena_elements;
}

uint64_t spsh__model_out_rows_max(const spsh__model *m)
{
    return m->out_rows_max;
}

uint64_t spsh__model_weight_count(const spsh__model *m)
{
    return m->weight_count;
}

spsh__backend_buffer spsh__model_weights(const spsh__model *m)
{
    return m->weights;
}

void spsh__model_weights_changed(spsh__model *m)
{
    if (m->half_weights.data != NULL)
        m->b->convert_fn(m->backend, m->half_weights, m->weights, (size_t)m->arena_elements);
}

spsh__backend_buffer spsh__model_gradients(const spsh__model *m)
{
    return m->gradients;
}

spsh__backend_buffer spsh__model_statistics(const spsh__model *m, uint64_t *ret_elements)
{
    *ret_elements = m->statistics_elements;
    return m->statistics;
}

uint32_t spsh__model_bucket_count(const spsh__model *m)
{
    return m->bucket_count;
}

void spsh__model_bucket(const spsh__model *m, uint32_t bucket, uint64_t *ret_offset,
                        uint64_t *ret_count)
{
    *ret_offset = bucket == 0 ? 0 : m->bucket_ends[bucket - 1];
    *ret_count = m->bucket_ends[bucket] - *ret_offset;
}

/* ---- a batch */

uint32_t spsh__model_padded_frames(const spsh__model *m, uint32_t frames)
{
    return spsh__model_segment_frames(m, frames);
}

uint32_t spsh__model_padded_batch(const spsh__model *m, uint32_t batch)
{
    return spsh__model_segment_batch(m, batch);
}

uint32_t spsh__model_out_frames(const spsh__model *m, uint32_t frames)
{
    return m->ops->out_frames_fn(spsh__model_segment_frames(m, frames));
}

const uint32_t *spsh__model_out_lengths(const spsh__model *m)
{
    return m->lengths;
}

static spsh_status check_batch(const spsh__model *m, const spsh__model_batch *b, spsh_error *err)
{
    if (b->batch == 0 || b->frames == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "model: an empty batch: %u utterances and %u frames", b->batch, b->frames);
    if (b->batch > m->limits.batch_max || b->frames > m->limits.frames_max ||
        (uint64_t)b->batch * b->frames > m->limits.rows_max)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "model: a batch of %u utterances and %u frames exceeds the capacity: %u "
                         "utterances, %u frames, and %llu frames in all",
                         b->batch, b->frames, m->limits.batch_max, m->limits.frames_max,
                         (unsigned long long)m->limits.rows_max);
    for (uint32_t n = 0; n < b->batch; n++) {
        if (b->lengths[n] > b->frames)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "model: utterance %u has %u frames, but the batch has %u", n,
                             b->lengths[n], b->frames);
    }
    return SPSH_OK;
}

/* Arrange features from the host on the host, in the order that the model needs. */
static void put_input(spsh__model *m, const spsh__model_batch *batch)
{
    m->ops->arrange_fn(m, batch->features, m->in_lengths);
    m->b->write_f32_fn(m->backend, m->input, m->staging,
                       (size_t)batch->batch * batch->frames * m->shape.inputs);
}

/* The operators of a device read lengths from its memory. */
static void pass_lengths(const spsh__model *m)
{
    const spsh__batch_lengths lengths = {m->in_lengths, m->lengths, m->batch};
    if (m->b->batch_fn != NULL)
        m->b->batch_fn(m->backend, &lengths);
}

/* On a device, an operator arranges the features, whether they come from the host or the device. */
static spsh_status put_device_input(spsh__model *m, const spsh__model_batch *batch, spsh_error *err)
{
    spsh__arrange a = {.batch = m->batch,
                       .frames = m->frames,
                       .width = m->shape.inputs,
                       .is_conv = m->shape.kind == SPSH__MODEL_DS2,
                       .features = batch->device_features,
                       .feature_batch = batch->batch,
                       .feature_frames = batch->frames,
                       .lengths = m->in_lengths,
                       .to = m->input,
                       .ready = batch->ready,
                       .done = batch->done};
    if (a.features == NULL) {
        if (m->upload.data == NULL)
            m->upload = take_floats(m, m->in_rows_max * m->shape.inputs);
        if (m->upload.data == NULL)
            return spsh__fail_again(m->take_status, &m->take_error, err);
        m->b->write_f32_fn(m->backend, m->upload, batch->features,
                           (size_t)batch->batch * batch->frames * m->shape.inputs);
        a.features = m->upload.data;
    }
    m->b->arrange_fn(m->backend, &a);
    return SPSH_OK;
}

spsh_status spsh__model_forward(spsh__model *m, const spsh__model_batch *batch, bool is_training,
                                spsh__backend_buffer *ret_logits, uint32_t *out_lengths,
                                spsh_error *err)
{
    spsh_status rc = check_batch(m, batch, err);
    if (rc != SPSH_OK)
        return rc;
    m->batch = spsh__model_segment_batch(m, batch->batch);
    m->frames = spsh__model_segment_frames(m, batch->frames);
    m->is_training = is_training;
    m->out_frames = m->ops->out_frames_fn(m->frames);
    for (uint32_t n = 0; n < m->batch; n++) {
        m->in_lengths[n] = n < batch->batch ? batch->lengths[n] : 0;
        m->lengths[n] = m->ops->out_frames_fn(m->in_lengths[n]);
    }
    memcpy(out_lengths, m->lengths, batch->batch * sizeof(*out_lengths));
    pass_lengths(m);
    if (m->staging != NULL)
        put_input(m, batch);
    else if (m->stage.first == 0)
        rc = put_device_input(m, batch, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__model_segment_begin(m, 0);
    m->ops->forward_fn(m, is_training);
    spsh__model_segment_end(m);
    *ret_logits = spsh__model_stage_out(m);
    return SPSH_OK;
}

void spsh__model_resume(spsh__model *m)
{
    pass_lengths(m);
}

void spsh__model_unit_done(spsh__model *m)
{
    if (m->unit_ends[m->unit++] < m->bucket_ends[m->bucket])
        return;
    spsh__model_segment_end(m);
    if (m->bucket_fn != NULL)
        m->bucket_fn(m->bucket_user, m->bucket);
    m->bucket++;
    if (m->bucket < m->bucket_count)
        spsh__model_segment_begin(m, m->bucket + 1);
}

void spsh__model_backward(spsh__model *m, spsh__backend_buffer logit_gradients,
                          void (*bucket_fn)(void *user, uint32_t bucket), void *user)
{
    m->unit = 0;
    m->bucket = 0;
    m->bucket_fn = bucket_fn;
    m->bucket_user = user;
    spsh__model_segment_begin(m, 1);
    if (spsh__model_has_output(m) && m->half_gradients.data != NULL) {
        m->b->convert_fn(m->backend, m->half_gradients, logit_gradients,
                         spsh__model_out_rows(m) * m->shape.outputs);
        logit_gradients = m->half_gradients;
    }
    m->ops->backward_fn(m, logit_gradients);
}

spsh__backend_buffer spsh__model_logit_gradients(const spsh__model *m)
{
    return m->logit_gradients;
}
