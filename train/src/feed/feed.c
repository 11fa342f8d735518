/* feed.c: see feed.h.
 *
 * The loader computes and pads features. This file turns transcripts into labels and adds the other
 * facts that the model needs about a batch. Memory grows to the largest batch and is then reused.
 */
#include "feed.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <xxhash.h>

#include "config/dataset_list.h"
#include "speechshard/inside.h"

#define LONG_S 1e9 /* longer than any utterance */

enum { LABELS_AT_FIRST = 4096 };

struct spsh__feed {
    spsh__dataset_list sources, noises, rooms;
    const spsh__vocabulary *vocabulary;
    const spsh__alignments *alignments;
    spsh_featgen *featgen; /* counts frames without the change of speed; else NULL */
    spsh_loader *loader;
    const spsh_batch *lent;
    const spsh_cuda *cuda; /* NULL: batches are in host memory */
    void *done;            /* CUDA event, recorded after the last use of the borrowed batch */
    uint32_t leaves;
    spsh__model_limits limits;
    uint32_t dim;
    char **domain_names; /* without duplicates */
    uint32_t domain_count;
    uint32_t *domain_of; /* index of each domain of the plan */
    uint32_t *labels;
    size_t label_capacity;
    uint32_t lengths[SPSH__FEED_BATCH_MAX], domains[SPSH__FEED_BATCH_MAX];
    uint32_t label_offsets[SPSH__FEED_BATCH_MAX + 1];
    double weights[SPSH__FEED_BATCH_MAX];
    spsh__feed_batch batch;
};

/* Storage that loader_options points to while a loader is opened. */
typedef struct setup {
    spsh_loader_options loader;
    spsh_plan_options plan;
    spsh_feature_options features;
    spsh_augment_options augment;
    spsh_weight *weights;
} setup;

static const spsh_dataset *const *borrowed(const spsh__dataset_list *list)
{
    return (const spsh_dataset *const *)list->datasets;
}

/* ---- options of the loader ---- */

static void set_plan(spsh_plan_options *plan, const spsh__feed_options *o,
                     const spsh__dataset_list *sources, uint32_t sample_rate_hz)
{
    const spsh__config *c = o->config;
    uint32_t world = c->virtual_world != 0 ? c->virtual_world : o->world_size;
    if (o->is_asked)
        world = 1;
    plan->seed = c->seed;
    plan->splits = (const char *const *)sources->splits;
    plan->split_count = sources->split_count;
    plan->batch_utterances_max = SPSH__FEED_BATCH_MAX;
    plan->batch_seconds_max = c->max_seconds;
    plan->batch_padded_seconds_max = spsh__config_batch_seconds(c);
    plan->long_utterances = SPSH_LONG_DROP;
    plan->virtual_world_size = world;
    plan->sample_rate_hz = sample_rate_hz;
    if (o->is_training) {
        plan->alpha = c->alpha;
        plan->utterance_seconds_min = c->utterance_seconds_min;
        plan->utterance_seconds_max = c->utterance_seconds_max;
    }
}

static spsh_status set_loader(setup *s, const spsh__feed *feed, const spsh__feed_options *o,
                              spsh_error *err)
{
    spsh_status rc = spsh_feature_options_parse(o->config->features, &s->features, err);
    if (rc == SPSH_OK)
        rc = spsh_augment_options_parse(o->config->augment, &s->augment, err);
    if (rc != SPSH_OK)
        return rc;
    s->loader.log_fn = o->log_fn;
    s->loader.log_user = o->log_user;
    s->loader.io = o->io;
    s->loader.is_asked = o->is_asked;
    s->loader.rank = o->is_asked ? 0 : o->rank;
    s->loader.world_size = o->is_asked ? 1 : o->world_size;
    s->loader.output = SPSH_OUTPUT_FEATURES;
    s->loader.on_error = o->config->damaged;
    s->loader.undecodable = o->config->undecodable;
    s->loader.decode_threads = o->config->threads;
    s->loader.features = &s->features;
    s->loader.cuda = o->cuda;
    s->loader.device = o->device;
    s->loader.decode = o->cuda != NULL ? o->config->decode : SPSH_DECODE_HOST;
    if (o->is_training) {
        s->loader.augment = &s->augment;
        s->loader.noises = borrowed(&feed->noises);
        s->loader.noise_count = feed->noises.count;
        s->loader.rooms = borrowed(&feed->rooms);
        s->loader.room_count = feed->rooms.count;
    } else {
        s->augment = (spsh_augment_options)SPSH_AUGMENT_OPTIONS_INIT;
    }
    set_plan(&s->plan, o, &feed->sources, s->features.sample_rate_hz);
    return SPSH_OK;
}

/* An evaluation covers every utterance. If the longest one exceeds the limit of a training batch,
 * raise the limit of a batch to its length. */
static spsh_status widen_for_longest(setup *s, const spsh__feed *feed, spsh_error *err)
{
    spsh_plan_options *options = &s->plan;
    const double padded_s = options->batch_padded_seconds_max;
    spsh_plan *plan = NULL;
    options->batch_seconds_max = 0;
    options->batch_padded_seconds_max = LONG_S;
    const spsh_status rc =
        spsh_plan_open(borrowed(&feed->sources), feed->sources.count, options, &plan, err);
    if (rc != SPSH_OK)
        return rc;
    const double longest_s = (double)spsh_plan_info_get(plan)->longest_microseconds * 1e-6 + 1e-3;
    options->batch_padded_seconds_max = longest_s > padded_s ? longest_s : padded_s;
    spsh_plan_close(plan);
    return SPSH_OK;
}

/* Set one weight per dataset. The domains of a dataset share its weight. */
static spsh_status weigh(setup *s, const spsh__feed *feed, const spsh__feed_options *o,
                         spsh_error *err)
{
    if (o->weights == NULL)
        return SPSH_OK;
    s->weights = calloc(feed->sources.count, sizeof(*s->weights));
    if (s->weights == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t d = 0; d < feed->sources.count; d++)
        s->weights[d] = (spsh_weight){.dataset = d, .weight = o->weights[d]};
    s->plan.weights = s->weights;
    s->plan.weight_count = feed->sources.count;
    return SPSH_OK;
}

/* ---- limits that follow from plan and features ---- */

static uint32_t cap_u32(double value)
{
    return value >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* Limits at the slowest speed. The longest utterance bounds frames. Padded seconds, and the edges
 * of each utterance, bound rows. */
static void set_limits(spsh__feed *feed, const setup *s, const spsh_featgen *featgen)
{
    const spsh_plan_info *info = spsh_plan_info_get(spsh_loader_plan(feed->loader));
    spsh_augment_draw slowest = {.speed_percent = 100};
    for (uint32_t i = 0; i < s->augment.speed_count; i++) {
        if (s->augment.speeds[i] < slowest.speed_percent)
            slowest.speed_percent = s->augment.speeds[i];
    }
    const double rate = s->features.sample_rate_hz;
    const uint64_t samples = (uint64_t)ceil((double)info->longest_microseconds * 1e-6 * rate) + 1;
    const uint64_t frames =
        spsh_featgen_frame_count(featgen, spsh_augment_sample_count(&slowest, samples));
    const double padded_s = s->plan.batch_padded_seconds_max * 100 / slowest.speed_percent;
    const double by_seconds = padded_s * 1e6 / s->features.hop_us;
    feed->dim = spsh_featgen_dim(featgen);
    feed->limits.batch_max = info->utterance_count < SPSH__FEED_BATCH_MAX
                                 ? (uint32_t)info->utterance_count
                                 : SPSH__FEED_BATCH_MAX;
    feed->limits.frames_max = frames > 0 ? cap_u32((double)frames) : 1;
    feed->limits.rows_max = (uint64_t)feed->limits.batch_max * feed->limits.frames_max;
    const uint64_t bound = (uint64_t)by_seconds + 3 * (uint64_t)feed->limits.batch_max;
    if (s->features.pad_us == 0 && bound < feed->limits.rows_max)
        feed->limits.rows_max = bound;
}

static spsh_status find_limits(spsh__feed *feed, const setup *s, spsh_error *err)
{
    spsh_featgen *featgen = NULL;
    const spsh_status rc = spsh_featgen_open(&s->features, NULL, &featgen, err);
    if (rc != SPSH_OK)
        return rc;
    set_limits(feed, s, featgen);
    if (feed->alignments != NULL && s->augment.speed_count > 0)
        feed->featgen = featgen;
    else
        spsh_featgen_close(featgen);
    return SPSH_OK;
}

static bool is_name(const char *known, spsh_bytes name)
{
    assert(known != NULL);
    return strlen(known) == name.size_bytes && memcmp(known, name.data, name.size_bytes) == 0;
}

static spsh_status add_domain(spsh__feed *feed, uint32_t of_plan, spsh_bytes name, spsh_error *err)
{
    uint32_t d = 0;
    while (d < feed->domain_count && !is_name(feed->domain_names[d], name))
        d++;
    feed->domain_of[of_plan] = d;
    if (d < feed->domain_count)
        return SPSH_OK;
    char *copy = calloc(name.size_bytes + 1, 1);
    if (copy == NULL)
        return SPSH_NO_MEMORY(err);
    if (name.size_bytes > 0)
        memcpy(copy, name.data, name.size_bytes);
    feed->domain_names[feed->domain_count++] = copy;
    return SPSH_OK;
}

static spsh_status find_domains(spsh__feed *feed, spsh_error *err)
{
    const spsh_plan *plan = spsh_loader_plan(feed->loader);
    const uint32_t count = spsh_plan_info_get(plan)->domain_count;
    feed->domain_of = calloc(count, sizeof(*feed->domain_of));
    feed->domain_names = calloc(count, sizeof(*feed->domain_names));
    spsh_status rc =
        feed->domain_of == NULL || feed->domain_names == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (uint32_t d = 0; d < count && rc == SPSH_OK; d++) {
        spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
        rc = spsh_plan_domain_get(plan, d, &domain, err);
        if (rc == SPSH_OK)
            rc = add_domain(feed, d, domain.name, err);
    }
    return rc;
}

/* ---- batches ---- */

static spsh_status grow_labels(spsh__feed *feed, spsh_error *err)
{
    const size_t capacity = feed->label_capacity == 0 ? LABELS_AT_FIRST : 2 * feed->label_capacity;
    uint32_t *labels = realloc(feed->labels, capacity * sizeof(*labels));
    if (labels == NULL)
        return SPSH_NO_MEMORY(err);
    feed->labels = labels;
    feed->label_capacity = capacity;
    return SPSH_OK;
}

/* Append the labels of one transcript. */
static spsh_status encode(spsh__feed *feed, uint32_t at, spsh_bytes text, uint32_t *ret_count,
                          spsh_error *err)
{
    for (;;) {
        uint32_t dropped = 0;
        spsh_status rc = spsh__vocabulary_encode(feed->vocabulary, text, feed->labels + at,
                                                 (uint32_t)(feed->label_capacity - at), ret_count,
                                                 &dropped, err);
        if (rc == SPSH_E_LIMIT && feed->label_capacity <= UINT32_MAX / 2)
            rc = grow_labels(feed, err);
        else
            return rc;
        if (rc != SPSH_OK)
            return rc;
    }
}

/* Frames that an utterance has without a change of speed. */
static uint32_t plain_frames(const spsh__feed *feed, const spsh_batch *source,
                             const spsh_batch_utterance *u)
{
    const uint64_t from_hz = u->item.sample_rate_hz;
    if (feed->featgen == NULL || from_hz == 0)
        return (uint32_t)u->frames;
    const uint64_t samples = (u->item.samples * source->sample_rate_hz + from_hz - 1) / from_hz;
    return (uint32_t)spsh_featgen_frame_count(feed->featgen, samples);
}

/* Append the states of the frames of one utterance. 0 states: the utterance has no alignment, or
 * its alignment has another length. */
static spsh_status align(spsh__feed *feed, const spsh_batch *source, uint32_t n,
                         uint32_t *ret_count, spsh_error *err)
{
    const spsh_batch_utterance *u = &source->utterances[n];
    const uint32_t at = feed->label_offsets[n], frames = (uint32_t)u->frames;
    uint32_t number = 0;
    *ret_count = 0;
    if (!spsh__alignments_find(feed->alignments, u->id, &number)) {
        feed->batch.without_alignment += frames > 0;
        return SPSH_OK;
    }
    while (feed->label_capacity < (size_t)at + frames) {
        const spsh_status rc = grow_labels(feed, err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (spsh__alignments_states(feed->alignments, number, plain_frames(feed, source, u), frames,
                                feed->labels + at))
        *ret_count = frames;
    else
        feed->batch.other_length += frames > 0;
    return SPSH_OK;
}

static spsh_status take_utterance(spsh__feed *feed, const spsh_batch *source, uint32_t u,
                                  spsh_error *err)
{
    const spsh_batch_utterance *utterance = &source->utterances[u];
    spsh__feed_batch *batch = &feed->batch;
    uint32_t count = 0;
    const spsh_status rc = feed->alignments != NULL
                               ? align(feed, source, u, &count, err)
                               : encode(feed, feed->label_offsets[u], utterance->text, &count, err);
    if (rc != SPSH_OK)
        return rc;
    feed->label_offsets[u + 1] = feed->label_offsets[u] + count;
    feed->lengths[u] = (uint32_t)utterance->frames;
    feed->domains[u] = feed->domain_of[utterance->item.domain];
    feed->weights[u] = utterance->frames > 0 && count > 0 ? 1 : 0;
    if (utterance->frames == 0)
        batch->without_frames++;
    else if (count > 0)
        batch->samples++;
    else if (feed->alignments == NULL)
        batch->without_text++;
    batch->seconds += (double)utterance->samples / source->sample_rate_hz;
    return SPSH_OK;
}

/* The loader, not this function, waits for work in flight on a device's batch. */
static void release(spsh__feed *feed)
{
    if (feed->lent != NULL)
        spsh_loader_release_after(feed->loader, feed->lent, feed->done);
    feed->lent = NULL;
}

spsh__model_batch spsh__feed_for_model(const spsh__feed_batch *b)
{
    return (spsh__model_batch){.features = b->features,
                               .lengths = b->lengths,
                               .batch = b->batch,
                               .frames = b->frames,
                               .device_features = b->device_features,
                               .ready = b->ready,
                               .done = b->done};
}

spsh_status spsh__feed_next(spsh__feed *feed, const spsh__feed_batch **ret, spsh_error *err)
{
    const spsh_batch *source = NULL;
    release(feed);
    spsh_status rc = spsh_loader_next(feed->loader, &source, err);
    if (rc != SPSH_OK)
        return rc;
    feed->lent = source;
    if (source->utterance_count > SPSH__FEED_BATCH_MAX || source->padded_frames > UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a batch of %u utterances", source->utterance_count);
    feed->batch = (spsh__feed_batch){
        .batch = source->padded_frames > 0 ? source->utterance_count : 0,
        .frames = (uint32_t)source->padded_frames,
        .features = source->stream == NULL ? (const float *)source->features : NULL,
        .device_features = source->stream != NULL ? source->features : NULL,
        .ready = source->ready,
        .done = source->stream != NULL ? feed->done : NULL,
        .lengths = feed->lengths,
        .label_offsets = feed->label_offsets,
        .weights = feed->weights,
        .domains = feed->domains,
        .source = source,
        .is_step_end = (source->flags & SPSH_BATCH_STEP_END) != 0,
    };
    feed->label_offsets[0] = 0;
    for (uint32_t u = 0; u < source->utterance_count && rc == SPSH_OK; u++)
        rc = take_utterance(feed, source, u, err);
    for (uint32_t u = source->utterance_count; u < SPSH__FEED_BATCH_MAX; u++) {
        feed->label_offsets[u + 1] = feed->label_offsets[u];
        feed->lengths[u] = 0;
        feed->weights[u] = 0;
    }
    feed->batch.labels = feed->labels; /* the array may have moved */
    if (rc == SPSH_OK)
        *ret = &feed->batch;
    return rc;
}

spsh_status spsh__feed_save(const spsh__feed *feed, uint8_t *bytes, size_t capacity,
                            size_t *ret_size, spsh_error *err)
{
    return spsh_loader_cursor_save(feed->loader, bytes, capacity, ret_size, err);
}

spsh_status spsh__feed_restore(spsh__feed *feed, const uint8_t *bytes, size_t size, spsh_error *err)
{
    release(feed);
    return spsh_loader_cursor_restore(feed->loader, bytes, size, err);
}

spsh_status spsh__feed_ask(spsh__feed *feed, uint64_t epoch, uint64_t step, spsh_error *err)
{
    return spsh_loader_ask(feed->loader, epoch, step, err);
}

spsh_status spsh__feed_steps(const spsh__feed *feed, uint64_t epoch, uint64_t *ret_steps,
                             spsh_error *err)
{
    return spsh_plan_batch_count(spsh_loader_plan(feed->loader), epoch, ret_steps, err);
}

spsh_status spsh__feed_save_at(const spsh__feed *feed, uint64_t epoch, uint64_t step,
                               uint8_t *bytes, size_t capacity, size_t *ret_size, spsh_error *err)
{
    const spsh_plan *plan = spsh_loader_plan(feed->loader);
    spsh_position position;
    *ret_size = SPSH_CURSOR_BYTES;
    if (bytes == NULL)
        return SPSH_OK;
    if (capacity < SPSH_CURSOR_BYTES)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "cursor: %u bytes, but the buffer has %zu",
                         SPSH_CURSOR_BYTES, capacity);
    const spsh_status rc = spsh_plan_find(plan, epoch, step, &position, err);
    if (rc == SPSH_OK)
        spsh_cursor_encode(plan, &position, 0, bytes);
    return rc;
}

spsh_status spsh__feed_find(const spsh__feed *feed, const uint8_t *bytes, size_t size,
                            uint64_t *ret_epoch, uint64_t *ret_step, spsh_error *err)
{
    spsh_position position;
    uint32_t extra_bytes = 0;
    const spsh_status rc = spsh_cursor_decode(spsh_loader_plan(feed->loader), bytes, size,
                                              &position, &extra_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_epoch = position.epoch;
    *ret_step = position.batches;
    return SPSH_OK;
}

/* Update hash with the XXH3-64, seed 0, of u64 hash, position, start_sample, dataset, for each item
 * in turn. */
static uint64_t hash_items(const spsh_planned_batch *batch)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < batch->item_count; i++) {
        const spsh_item *item = &batch->items[i];
        const uint64_t values[4] = {hash, item->position, item->start_sample, item->dataset};
        uint8_t bytes[sizeof(values)];
        for (size_t v = 0; v < 4; v++)
            spsh__store_u64le(bytes + 8 * v, values[v]);
        hash = XXH3_64bits(bytes, sizeof(bytes));
    }
    return hash;
}

spsh_status spsh__feed_next_hash(const spsh__feed *feed, const uint8_t *bytes, size_t size,
                                 uint64_t *ret_hash, spsh_error *err)
{
    const spsh_plan *plan = spsh_loader_plan(feed->loader);
    spsh_sampler *sampler = NULL;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    spsh_position position;
    uint32_t extra_bytes = 0;
    spsh_error failed = SPSH_ERROR_INIT; /* also set at the end of an epoch */
    spsh_status rc = spsh_cursor_decode(plan, bytes, size, &position, &extra_bytes, &failed);
    if (rc == SPSH_OK)
        rc = spsh_sampler_open(plan, 0, 1, &sampler, &failed);
    if (rc == SPSH_OK)
        rc = spsh_sampler_seek(sampler, &position, &failed);
    if (rc == SPSH_OK)
        rc = spsh_sampler_next(sampler, &batch, &failed);
    if (rc == SPSH_E_END)
        rc = spsh_sampler_next(sampler, &batch, &failed);
    if (rc == SPSH_OK)
        *ret_hash = hash_items(&batch);
    spsh_sampler_close(sampler);
    return spsh__fail_again(rc, &failed, err);
}

uint64_t spsh__feed_wait_ns(const spsh__feed *feed)
{
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    spsh_loader_stats_get(feed->loader, &stats);
    return stats.wait_ns;
}

const spsh_plan *spsh__feed_plan(const spsh__feed *feed)
{
    return spsh_loader_plan(feed->loader);
}

const spsh_dataset *spsh__feed_dataset(const spsh__feed *feed, uint32_t number)
{
    return feed->sources.datasets[number];
}

uint64_t spsh__feed_memory_bytes(const spsh__feed *feed)
{
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    spsh_loader_stats_get(feed->loader, &stats);
    return stats.memory_bytes;
}

uint64_t spsh__feed_device_bytes(const spsh__feed *feed)
{
    spsh_loader_stats stats = SPSH_LOADER_STATS_INIT;
    spsh_loader_stats_get(feed->loader, &stats);
    return stats.device_bytes;
}

spsh__model_limits spsh__feed_limits(const spsh__feed *feed)
{
    return feed->limits;
}

uint32_t spsh__feed_dim(const spsh__feed *feed)
{
    return feed->dim;
}

uint32_t spsh__feed_leaves(const spsh__feed *feed)
{
    return feed->leaves;
}

spsh_status spsh__feed_mark_aligned(const spsh__feed *feed, uint8_t *marks, spsh_error *err)
{
    for (uint32_t d = 0; d < feed->sources.count; d++) {
        const spsh_dataset *dataset = feed->sources.datasets[d];
        const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
        spsh_bytes hashes = {NULL, 0};
        const spsh_status rc =
            spsh_dataset_column(dataset, SPSH_COLUMN_ID_HASH, 0, count, &hashes, err);
        if (rc != SPSH_OK)
            return rc;
        for (uint64_t i = 0; i < count; i++) {
            uint32_t number = 0;
            if (spsh__alignments_find_hash(feed->alignments, spsh__load_u64le(hashes.data + 8 * i),
                                           &number))
                marks[number] = 1;
        }
    }
    return SPSH_OK;
}

uint64_t spsh__feed_epoch_utterances(const spsh__feed *feed)
{
    return spsh_plan_info_get(spsh_loader_plan(feed->loader))->utterance_count;
}

uint32_t spsh__feed_domain_count(const spsh__feed *feed)
{
    return feed->domain_count;
}

const char *spsh__feed_domain_name(const spsh__feed *feed, uint32_t domain)
{
    return feed->domain_names[domain];
}

/* ---- open and close ---- */

static spsh_status open_datasets(spsh__feed *feed, const spsh__feed_options *o, spsh_error *err)
{
    spsh_status rc = spsh__dataset_list_open(o->names, o->io, &feed->sources, err);
    if (rc == SPSH_OK && o->is_training)
        rc = spsh__dataset_list_open((const char *const *)o->config->noises, o->io, &feed->noises,
                                     err);
    if (rc == SPSH_OK && o->is_training)
        rc = spsh__dataset_list_open((const char *const *)o->config->rooms, o->io, &feed->rooms,
                                     err);
    return rc;
}

spsh_status spsh__feed_open(const spsh__feed_options *options, spsh__feed **ret, spsh_error *err)
{
    setup s = {.loader = SPSH_LOADER_OPTIONS_INIT,
               .plan = SPSH_PLAN_OPTIONS_INIT,
               .features = SPSH_FEATURE_OPTIONS_INIT,
               .augment = SPSH_AUGMENT_OPTIONS_INIT};
    s.loader.plan = &s.plan;
    spsh__feed *feed = calloc(1, sizeof(*feed));
    if (feed == NULL)
        return SPSH_NO_MEMORY(err);
    feed->vocabulary = options->vocabulary;
    feed->alignments = options->alignments;
    feed->cuda = options->cuda;
    spsh_status rc = open_datasets(feed, options, err);
    if (rc == SPSH_OK && feed->cuda != NULL)
        rc = spsh_cuda_event_open(feed->cuda, options->device, 0, &feed->done, err);
    if (rc == SPSH_OK)
        rc = set_loader(&s, feed, options, err);
    if (rc == SPSH_OK && !options->is_training)
        rc = widen_for_longest(&s, feed, err);
    if (rc == SPSH_OK)
        rc = weigh(&s, feed, options, err);
    if (rc == SPSH_OK)
        rc = spsh_loader_open(borrowed(&feed->sources), feed->sources.count, &s.loader,
                              &feed->loader, err);
    if (rc == SPSH_OK && !options->is_training && feed->vocabulary != NULL)
        rc = spsh__dataset_list_require_text(&feed->sources, err);
    feed->leaves = s.plan.virtual_world_size;
    if (rc == SPSH_OK)
        rc = find_limits(feed, &s, err);
    if (rc == SPSH_OK)
        rc = find_domains(feed, err);
    if (rc == SPSH_OK)
        rc = grow_labels(feed, err);
    free(s.weights);
    if (rc == SPSH_OK) {
        *ret = feed;
        feed = NULL;
    }
    spsh__feed_close(feed);
    return rc;
}

void spsh__feed_close(spsh__feed *feed)
{
    if (feed == NULL)
        return;
    if (feed->loader != NULL)
        release(feed);
    spsh_loader_close(feed->loader);
    spsh_cuda_event_close(feed->cuda, feed->done);
    spsh_featgen_close(feed->featgen);
    spsh__dataset_list_close(&feed->sources);
    spsh__dataset_list_close(&feed->noises);
    spsh__dataset_list_close(&feed->rooms);
    for (uint32_t i = 0; i < feed->domain_count; i++)
        free(feed->domain_names[i]);
    free(feed->domain_names);
    free(feed->domain_of);
    free(feed->labels);
    free(feed);
}
