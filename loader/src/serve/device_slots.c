/* device_slots.c: the functions are in the order in which a batch passes them. */
#include "device_slots.h"

#include <stdlib.h>

#include "speechshard/featgen_cuda.h"
#include "speechshard/pcm_cuda.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

#define BLOCKS_MAX (UINT64_C(1) << 24) /* limit of pcm_cuda.h */

struct spsh__device {
    const spsh_cuda *cuda;
    uint32_t number;
    uint32_t utterances_max, blocks_max;
    spsh_cuda_features *features; /* NULL: the host computes features */
    spsh_cuda_pcm *pcm;           /* NULL: the host decodes everything */
    void *made;                   /* event recorded after the features of the previous batch */
    uint8_t *memory;              /* device memory of all slots */
    size_t memory_bytes;
    uint8_t *pinned; /* memory to unregister at close */
    bool is_pinned;
    _Atomic uint64_t copied_bytes;

    pthread_mutex_t lock; /* guards features, pcm, and the tables during send */
    uint64_t *offsets, *sample_counts;
    spsh_cuda_mask *masks; /* masks of each utterance; NULL: no masks */
    spsh_cuda_pcm_utterance *packed;

    pthread_t thread;
    bool is_started;
    pthread_cond_t wake;  /* this and all below: guarded by the loader's lock */
    spsh__slot **leaving; /* a ring, in the order of release */
    uint32_t leaving_first, leaving_count;
    bool stop;
};

/* ---- opening ---- */

static bool wants_features(const spsh_loader *loader)
{
    const spsh__recipe *recipe = &loader->recipe;
    return recipe->featgen != NULL && !recipe->has_stored;
}

static spsh_status open_features(spsh_loader *loader, spsh__device *d, spsh_error *err)
{
    spsh__recipe *recipe = &loader->recipe;
    spsh_cuda_features_options opt = SPSH_CUDA_FEATURES_OPTIONS_INIT;
    spsh_error why = SPSH_ERROR_INIT;
    opt.device = d->number;
    opt.utterance_count_max = d->utterances_max;
    opt.frame_count_max =
        spsh__recipe_frames_max(recipe, &loader->opt, spsh_plan_info_get(loader->plan));
    opt.dtype = recipe->dtype;
    opt.time_masks = recipe->augment.time_masks;
    opt.frequency_masks = recipe->augment.frequency_masks;
    if (recipe->has_masks) {
        const size_t count = (size_t)d->utterances_max * (opt.time_masks + opt.frequency_masks);
        d->masks = (spsh_cuda_mask *)spsh__new(&loader->allocator, count, sizeof(*d->masks));
        if (d->masks == NULL)
            return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %zu masks", count);
    }
    spsh_status rc = spsh_cuda_features_open(d->cuda, recipe->featgen, &opt, &d->features, &why);
    if (rc == SPSH_E_UNSUPPORTED) {
        spsh__log(loader, SPSH_LOG_WARNING, "the host computes the features, not the device: %s",
                  why.message);
        return SPSH_OK;
    }
    if (rc != SPSH_OK)
        return SPSH_FAIL_AT(err, rc, NONE, "features on device %u: %.400s", d->number, why.message);
    recipe->hands_samples = true;
    recipe->value_bytes = sizeof(int16_t);
    return SPSH_OK;
}

/* Should payloads be copied compressed? Only if the device does all further steps. */
static bool wants_pcm(const spsh_loader *loader)
{
    const spsh__recipe *recipe = &loader->recipe;
    const char *why = recipe->has_sound                       ? "the host augments the audio"
                      : recipe->output == SPSH_OUTPUT_FLOAT32 ? "the host converts to float32"
                      : recipe->output != SPSH_OUTPUT_INT16 && !recipe->hands_samples
                          ? "the host computes the features"
                          : NULL;
    if (loader->opt.decode != SPSH_DECODE_DEVICE)
        return false;
    if (why != NULL)
        spsh__log(loader, SPSH_LOG_INFO, "the host decodes, not the device, because %s", why);
    return why == NULL;
}

static spsh_status open_pcm(spsh_loader *loader, spsh__device *d, spsh_error *err)
{
    spsh_cuda_pcm_options opt = SPSH_CUDA_PCM_OPTIONS_INIT;
    spsh_error why = SPSH_ERROR_INIT;
    spsh__slot_layout layout;
    spsh__recipe_slot_layout(&loader->recipe, &loader->opt, spsh_plan_info_get(loader->plan),
                             &layout);
    /* A part of a recording may need one more frame at each end. */
    const uint64_t blocks =
        layout.audio_bytes / 2 / SPSH_PCM_FRAME_SAMPLES + 2 * (uint64_t)d->utterances_max;
    d->blocks_max = (uint32_t)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
    opt.device = d->number;
    opt.utterance_count_max = d->utterances_max;
    opt.block_count_max = d->blocks_max;
    spsh_status rc = spsh_cuda_pcm_open(d->cuda, &opt, &d->pcm, &why);
    if (rc != SPSH_OK)
        return SPSH_FAIL_AT(err, rc, NONE, "decoding on device %u: %.400s", d->number, why.message);
    loader->recipe.packs = true;
    return SPSH_OK;
}

static spsh_status open_tables(spsh_loader *loader, spsh__device *d, spsh_error *err)
{
    const spsh_allocator *allocator = &loader->allocator;
    const size_t count = d->utterances_max;
    d->offsets = (uint64_t *)spsh__new(allocator, count, sizeof(*d->offsets));
    d->sample_counts = (uint64_t *)spsh__new(allocator, count, sizeof(*d->sample_counts));
    d->packed = (spsh_cuda_pcm_utterance *)spsh__new(allocator, count, sizeof(*d->packed));
    if (d->offsets == NULL || d->sample_counts == NULL || d->packed == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: tables of %zu utterances", count);
    return spsh_cuda_event_open(d->cuda, d->number, 0, &d->made, err);
}

spsh_status spsh__device_open(spsh_loader *loader, spsh_error *err)
{
    const spsh_loader_options *opt = &loader->opt;
    if (opt->cuda == NULL)
        return SPSH_OK;
    if (opt->device >= spsh_cuda_device_count(opt->cuda))
        return SPSH_FAIL_AT(
            err, SPSH_E_INVALID_ARG, NONE,
            "loader options: device %u does not exist: devices are numbered 0 to %u", opt->device,
            spsh_cuda_device_count(opt->cuda) - 1);
    spsh__device *d = (spsh__device *)spsh__new(&loader->allocator, 1, sizeof(*d));
    if (d == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: %zu bytes", sizeof(*d));
    if (pthread_mutex_init(&d->lock, NULL) != 0) {
        spsh__free(&loader->allocator, d);
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: mutex");
    }
    (void)pthread_cond_init(&d->wake, NULL);
    loader->device = d;
    d->cuda = opt->cuda;
    d->number = opt->device;
    const uint64_t most = spsh__recipe_utterances_max(opt);
    d->utterances_max =
        most < SPSH__DEVICE_UTTERANCES_MAX ? (uint32_t)most : SPSH__DEVICE_UTTERANCES_MAX;
    spsh_status rc = open_tables(loader, d, err);
    if (rc == SPSH_OK && wants_features(loader))
        rc = open_features(loader, d, err);
    if (rc == SPSH_OK && wants_pcm(loader))
        rc = open_pcm(loader, d, err);
    return rc;
}

/* A caller's arena may be pinned already. An unpinned copy costs CPU time on the thread that issues
 * it. Nothing else changes. A child that is forked would get copies of all pinned pages at once,
 * and has no use for them. */
static void pin(spsh_loader *loader, spsh__device *d, uint8_t *data, size_t size_bytes)
{
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh_cuda_host_register(d->cuda, data, size_bytes, &why);
    if (rc == SPSH_OK)
        d->pinned = data;
    if (rc == SPSH_OK)
        spsh__memory_keep(&loader->memory, loader->memory.size_bytes);
    d->is_pinned =
        rc == SPSH_OK || (rc == SPSH_E_INVALID_ARG && loader->memory.hook.alloc_fn != NULL);
    if (!d->is_pinned)
        spsh__log(loader, SPSH_LOG_WARNING,
                  "%zu bytes of slots cannot be pinned, so copies to the device are slower, and "
                  "decode threads wait for them: %s; try a smaller memory_bytes or fewer slots",
                  size_bytes, why.message);
}

static spsh_status take_memory(spsh_loader *loader, spsh__device *d, uint64_t slot_bytes,
                               spsh_error *err)
{
    uint64_t free_bytes = 0;
    uint64_t all_bytes = 0;
    spsh_error why = SPSH_ERROR_INIT;
    d->memory_bytes = (size_t)slot_bytes * loader->slot_count;
    void *memory = NULL;
    spsh_status rc = spsh_cuda_alloc(d->cuda, d->number, d->memory_bytes, &memory, &why);
    d->memory = (uint8_t *)memory;
    if (rc == SPSH_OK)
        return rc;
    if (rc != SPSH_E_NO_MEMORY ||
        spsh_cuda_memory(d->cuda, d->number, &free_bytes, &all_bytes, NULL) != SPSH_OK)
        return SPSH_FAIL_AT(err, rc, NONE, "%u slots on device %u: %.400s", loader->slot_count,
                            d->number, why.message);
    return SPSH_FAIL_AT(
        err, rc, NONE,
        "device %u has no memory for %u slots of %.1f MB: of its %.0f MB, %.0f MB are "
        "free; use fewer slots or smaller batches",
        d->number, loader->slot_count, (double)slot_bytes / 1e6, (double)all_bytes / 1e6,
        (double)free_bytes / 1e6);
}

static void *wait_main(void *opaque);

spsh_status spsh__device_start(spsh_loader *loader, spsh_error *err)
{
    spsh__device *d = loader->device;
    if (d == NULL)
        return SPSH_OK;
    const spsh__slot_layout *layout = &loader->slots[0].layout;
    const size_t slot_bytes = layout->host_bytes + layout->rows_bytes;
    d->leaving =
        (spsh__slot **)spsh__new(&loader->allocator, loader->slot_count, sizeof(spsh__slot *));
    if (d->leaving == NULL)
        return SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: slots");
    spsh_status rc = take_memory(loader, d, slot_bytes, err);
    for (uint32_t n = 0; n < loader->slot_count && rc == SPSH_OK; n++) {
        spsh__slot *slot = &loader->slots[n];
        slot->on_device = d->memory + n * slot_bytes;
        rc = spsh_cuda_stream_open(d->cuda, d->number, 0, &slot->stream, err);
        if (rc == SPSH_OK)
            rc = spsh_cuda_event_open(d->cuda, d->number, 0, &slot->ready, err);
        if (rc == SPSH_OK)
            rc = spsh_cuda_event_open(d->cuda, d->number, 0, &slot->freed, err);
    }
    if (rc != SPSH_OK)
        return rc;
    pin(loader, d, loader->slots[0].audio, layout->host_bytes * loader->slot_count);
    d->is_started = pthread_create(&d->thread, NULL, wait_main, loader) == 0;
    return d->is_started
               ? SPSH_OK
               : SPSH_FAIL_AT(err, SPSH_E_NO_MEMORY, NONE, "loader: cannot start a thread");
}

void spsh__device_close(spsh_loader *loader)
{
    spsh__device *d = loader->device;
    if (d == NULL)
        return;
    if (d->is_started) {
        (void)pthread_mutex_lock(&loader->lock);
        d->stop = true;
        (void)pthread_cond_signal(&d->wake);
        (void)pthread_mutex_unlock(&loader->lock);
        (void)pthread_join(d->thread, NULL);
    }
    for (uint32_t n = 0; loader->slots != NULL && n < loader->slot_count; n++) {
        spsh__slot *slot = &loader->slots[n];
        spsh_cuda_stream_close(d->cuda, slot->stream);
        spsh_cuda_event_close(d->cuda, slot->ready);
        spsh_cuda_event_close(d->cuda, slot->freed);
    }
    spsh_cuda_features_close(d->features);
    spsh_cuda_pcm_close(d->pcm);
    spsh_cuda_event_close(d->cuda, d->made);
    spsh_cuda_free(d->cuda, d->memory);
    spsh_cuda_host_unregister(d->cuda, d->pinned);
    spsh__free(&loader->allocator, d->offsets);
    spsh__free(&loader->allocator, d->sample_counts);
    spsh__free(&loader->allocator, d->masks);
    spsh__free(&loader->allocator, d->packed);
    spsh__free(&loader->allocator, (void *)d->leaving);
    (void)pthread_cond_destroy(&d->wake);
    (void)pthread_mutex_destroy(&d->lock);
    spsh__free(&loader->allocator, d);
    loader->device = NULL;
}

uint32_t spsh__device_utterances_max(const spsh__device *device)
{
    return device->utterances_max;
}

uint32_t spsh__device_blocks_max(const spsh__device *device)
{
    return device->blocks_max;
}

spsh__device_counts spsh__device_count(const spsh__device *device)
{
    if (device == NULL)
        return (spsh__device_counts){.is_pinned = false};
    return (spsh__device_counts){device->memory_bytes, atomic_load(&device->copied_bytes),
                                 device->is_pinned};
}

/* ---- sending a batch ---- */

/* Copy a range of the slot to the same offset on the device. */
static spsh_status copy_part(spsh__device *d, const spsh__slot *slot, size_t begin, size_t end,
                             spsh_error *err)
{
    if (end <= begin)
        return SPSH_OK;
    atomic_fetch_add_explicit(&d->copied_bytes, end - begin, memory_order_relaxed);
    return spsh_cuda_copy(d->cuda, slot->on_device + begin, slot->audio + begin, end - begin,
                          slot->stream, err);
}

/* Copy the values that the host has prepared: one copy, or one per run between packed
 * utterances. */
static spsh_status copy_values(spsh__device *d, const spsh__slot *slot, spsh_error *err)
{
    const size_t value_bytes = slot->value_bytes;
    size_t begin = 0;
    size_t end = 0;
    spsh_status rc = SPSH_OK;
    if (!slot->hands_samples && d->pcm == NULL)
        return copy_part(d, slot, 0, (size_t)slot->batch.value_count * value_bytes, err);
    for (uint32_t n = 0; n < slot->job_count && rc == SPSH_OK; n++) {
        const spsh__job *job = &slot->jobs[n];
        if (job->left_out)
            continue;
        if (job->is_packed) {
            rc = copy_part(d, slot, begin, end, err);
            begin = end = 0;
            continue;
        }
        if (end == 0)
            begin = (size_t)job->place * value_bytes;
        end = (size_t)(job->place + job->out_samples * slot->batch.channels) * value_bytes;
    }
    return rc == SPSH_OK ? copy_part(d, slot, begin, end, err) : rc;
}

static spsh_status decode_packed(spsh__device *d, const spsh__slot *slot, spsh_error *err)
{
    const spsh__slot_layout *layout = &slot->layout;
    const uint8_t *host = slot->audio + layout->packed_at;
    size_t count = 0;
    size_t end = 0;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        const spsh__job *job = &slot->jobs[n];
        if (job->left_out || !job->is_packed)
            continue;
        const size_t at = (size_t)(job->packed.piece.data - host);
        d->packed[count++] = (spsh_cuda_pcm_utterance){.part = &job->packed,
                                                       .piece_offset = at,
                                                       .first_sample = job->packed_first,
                                                       .sample_count = job->item.samples,
                                                       .first_value = job->place};
        if (at + job->packed.piece.size_bytes > end)
            end = at + job->packed.piece.size_bytes;
    }
    if (count == 0)
        return SPSH_OK;
    const spsh_cuda_pcm_batch batch = {
        .utterances = d->packed,
        .count = count,
        .payloads = slot->on_device + layout->packed_at,
        .payload_bytes = end,
        .samples = (int16_t *)(void *)slot->on_device,
        .capacity = layout->audio_bytes / sizeof(int16_t),
    };
    spsh_status rc = copy_part(d, slot, layout->packed_at, layout->packed_at + end, err);
    return rc == SPSH_OK ? spsh_cuda_pcm_decode(d->pcm, slot->stream, &batch, err) : rc;
}

/* Move the norms together over those of skipped utterances. Returns their size in bytes. */
static size_t close_norms(const spsh__slot *slot)
{
    const size_t norm_bytes = 2 * sizeof(float) * slot->batch.feature_dim;
    uint8_t *norms = slot->audio + slot->layout.norms_at;
    size_t count = 0;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        if (slot->jobs[n].left_out)
            continue;
        if (count != n)
            memcpy(norms + count * norm_bytes, norms + n * norm_bytes, norm_bytes);
        count++;
    }
    return count * norm_bytes;
}

/* Compute the masks that the host would apply to the job's features. */
static void draw_masks(const spsh__recipe *recipe, const spsh__job *job, spsh_cuda_mask *masks)
{
    spsh_augment_draw draw;
    spsh__recipe_draw(recipe, job, &draw);
    for (uint32_t i = 0; i < draw.time_masks; i++) {
        uint64_t first = 0;
        uint64_t count = 0;
        spsh_augment_time_mask(&draw, i, job->frames, &first, &count);
        *masks++ = (spsh_cuda_mask){(uint32_t)first, (uint32_t)count};
    }
    for (uint32_t i = 0; i < draw.frequency_masks; i++, masks++)
        spsh_augment_frequency_mask(&draw, i, recipe->dim, &masks->first, &masks->count);
}

static spsh_status make_features(spsh__device *d, const spsh__recipe *recipe,
                                 const spsh__slot *slot, spsh_error *err)
{
    const spsh__slot_layout *layout = &slot->layout;
    const uint32_t mask_count = recipe->augment.time_masks + recipe->augment.frequency_masks;
    size_t count = 0;
    spsh_status rc = SPSH_OK;
    if (slot->batch.padded_frames == 0)
        return SPSH_OK;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        if (slot->jobs[n].left_out)
            continue;
        if (recipe->has_masks)
            draw_masks(recipe, &slot->jobs[n], d->masks + count * mask_count);
        d->offsets[count] = slot->jobs[n].place;
        d->sample_counts[count++] = slot->jobs[n].out_samples;
    }
    spsh_cuda_feature_batch batch = {
        .samples = (const int16_t *)(const void *)slot->on_device,
        .offsets = d->offsets,
        .sample_counts = d->sample_counts,
        .count = count,
        .values = slot->on_device + layout->host_bytes,
        .capacity = layout->rows_bytes / (recipe->dtype == SPSH_FLOAT16 ? 2 : 4),
        .padded_frames = slot->batch.padded_frames,
        .padding_value = recipe->padding,
        .masks = d->masks,
    };
    if (recipe->statistics != NULL) {
        batch.mean = (const float *)(const void *)(slot->on_device + layout->norms_at);
        batch.scale = batch.mean + recipe->dim;
        batch.stats_stride = 2 * recipe->dim;
        rc = copy_part(d, slot, layout->norms_at, layout->norms_at + close_norms(slot), err);
    }
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_wait(d->cuda, d->made, slot->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_features_compute(d->features, slot->stream, &batch, NULL, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(d->cuda, d->made, slot->stream, err);
    return rc;
}

/* Replace the host pointers in the batch by device pointers. */
static void point_there(spsh__slot *slot)
{
    spsh_batch *batch = &slot->batch;
    const uint8_t *values = slot->on_device + (slot->hands_samples ? slot->layout.host_bytes : 0);
    switch (batch->output) {
    case SPSH_OUTPUT_INT16: batch->i16 = (const int16_t *)(const void *)values; break;
    case SPSH_OUTPUT_FLOAT32: batch->f32 = (const float *)(const void *)values; break;
    case SPSH_OUTPUT_FEATURES: batch->features = values; break;
    }
    batch->stream = slot->stream;
    batch->ready = slot->ready;
}

void spsh__device_send(spsh_loader *loader, spsh__slot *slot)
{
    spsh__device *d = loader->device;
    spsh_error err = SPSH_ERROR_INIT;
    if (slot->status != SPSH_OK)
        return;
    (void)pthread_mutex_lock(&d->lock);
    spsh_status rc = copy_values(d, slot, &err);
    if (rc == SPSH_OK && d->pcm != NULL)
        rc = decode_packed(d, slot, &err);
    if (rc == SPSH_OK && slot->hands_samples)
        rc = make_features(d, &loader->recipe, slot, &err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(d->cuda, slot->ready, slot->stream, &err);
    (void)pthread_mutex_unlock(&d->lock);
    if (rc != SPSH_OK) {
        spsh_error why = SPSH_ERROR_INIT;
        spsh_error_set(&why, rc, 0, NONE, "sending a batch to device %u: %.400s", d->number,
                       err.message);
        spsh__slot_fail(slot, SPSH_NONE_U32, rc, &why);
        return;
    }
    point_there(slot);
}

/* ---- released slots ---- */

/* Fail the loader after an error of the device, which does not belong to one batch. Call with the
 * lock held. */
static void fail_all(spsh_loader *loader, spsh_status rc, const spsh_error *why)
{
    spsh_error error = SPSH_ERROR_INIT;
    spsh_error_set(&error, rc, 0, NONE, "waiting for device %u to be done with a batch: %.400s",
                   loader->device->number, why->message);
    spsh__fail(loader, rc, &error);
}

static void *wait_main(void *opaque)
{
    spsh_loader *loader = (spsh_loader *)opaque;
    spsh__device *d = loader->device;
    (void)pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (d->leaving_count == 0 && !d->stop)
            (void)pthread_cond_wait(&d->wake, &loader->lock);
        if (d->stop)
            break;
        spsh__slot *slot = d->leaving[d->leaving_first];
        spsh_error why = SPSH_ERROR_INIT;
        (void)pthread_mutex_unlock(&loader->lock);
        spsh_status rc = spsh_cuda_event_synchronize(d->cuda, slot->freed, &why);
        (void)pthread_mutex_lock(&loader->lock);
        d->leaving_first = (d->leaving_first + 1) % loader->slot_count;
        d->leaving_count--;
        if (rc != SPSH_OK)
            fail_all(loader, rc, &why);
        slot->state = SPSH__SLOT_FREE;
        spsh__fetch_poke(loader);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    return NULL;
}

void spsh__device_release(spsh_loader *loader, spsh__slot *slot, void *event)
{
    spsh__device *d = loader->device;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    if (event != NULL)
        rc = spsh_cuda_event_wait(d->cuda, event, slot->stream, &why);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_record(d->cuda, slot->freed, slot->stream, &why);
    (void)pthread_mutex_lock(&loader->lock);
    if (rc == SPSH_OK) {
        d->leaving[(d->leaving_first + d->leaving_count) % loader->slot_count] = slot;
        d->leaving_count++;
        (void)pthread_cond_signal(&d->wake);
    } else { /* the slot cannot be waited for, so the loader fails */
        fail_all(loader, rc, &why);
        slot->state = SPSH__SLOT_FREE;
    }
    (void)pthread_mutex_unlock(&loader->lock);
}

void spsh__device_settle(spsh_loader *loader)
{
    const spsh__device *d = loader->device;
    for (uint32_t n = 0; d != NULL && n < loader->slot_count; n++) {
        const spsh__slot *slot = &loader->slots[n];
        (void)pthread_mutex_lock(&loader->lock);
        const spsh__slot_state state = slot->state;
        (void)pthread_mutex_unlock(&loader->lock);
        spsh_error why = SPSH_ERROR_INIT;
        if ((state == SPSH__SLOT_FILLING || state == SPSH__SLOT_READY) &&
            spsh_cuda_synchronize(d->cuda, slot->stream, &why) != SPSH_OK)
            spsh__log(loader, SPSH_LOG_WARNING, "%s", why.message); /* the next batch will fail */
    }
}
