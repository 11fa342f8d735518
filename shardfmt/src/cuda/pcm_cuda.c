/* pcm_cuda.c: batches of payloads for the plug-in. Each block that a range touches becomes an entry
 * of a table (device_pcm.h). The table goes to the device through one of SLOTS pinned slots, used
 * in turn. The event recorded after the batch tells when a slot is free.
 *
 * The device reads and writes only at the addresses in the table's entries. These are computed from
 * the host's copy of the head and checked against the sizes that the caller passed.
 */
#include "speechshard/pcm_cuda.h"

#include "base/base_internal.h"
#include "codec/pcm_internal.h"
#include "device_pcm.h"
#include "speechshard/limits.h"
#include "speechshard/options.h"

#define UTTERANCE_COUNT_DEFAULT UINT32_C(1024)
#define BLOCK_COUNT_DEFAULT     UINT32_C(16384)
#define BLOCK_COUNT_MAX         (UINT32_C(1) << 24)

enum { SLOTS = 4, ALIGNMENT_BYTES = 16 };

typedef struct pcm_slot {
    spsh__pcm_entry *pinned, *device;
    void *done;
} pcm_slot;

struct spsh_cuda_pcm {
    spsh_allocator allocator;
    const spsh_cuda *cuda;
    const spsh__device_pcm_entry *entry;
    spsh_cuda_pcm_options options; /* with defaults instead of zeros */
    pcm_slot slots[SLOTS];
    uint32_t next;
};

uint64_t spsh_cuda_pcm_block_count(uint64_t first_sample, uint64_t sample_count, uint32_t channels)
{
    const uint64_t samples_max = SPSH_PCM_BYTES_MAX / sizeof(int16_t);
    if (sample_count == 0)
        return 0;
    if (first_sample > samples_max || sample_count > samples_max - first_sample ||
        channels > SPSH_CHANNELS_MAX)
        return UINT64_MAX; /* more than any payload has */
    const uint64_t first = first_sample / SPSH_PCM_FRAME_SAMPLES;
    const uint64_t last = (first_sample + sample_count - 1) / SPSH_PCM_FRAME_SAMPLES;
    return (last - first + 1) * channels;
}

/* ---- opening ---- */

static spsh_status take_options(const spsh_cuda *cuda, const spsh_cuda_pcm_options *options,
                                spsh_cuda_pcm_options *taken, spsh_error *err)
{
    spsh_status rc = spsh_options_take(options, taken, sizeof(*taken), err);
    if (rc != SPSH_OK)
        return rc;
    if (taken->utterance_count_max == 0)
        taken->utterance_count_max = UTTERANCE_COUNT_DEFAULT;
    if (taken->block_count_max == 0)
        taken->block_count_max = BLOCK_COUNT_DEFAULT;
    if (taken->block_count_max > BLOCK_COUNT_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "options: the limit is %u blocks, not %u",
                         BLOCK_COUNT_MAX, taken->block_count_max);
    if (taken->device >= spsh_cuda_device_count(cuda))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "device %u does not exist", taken->device);
    return SPSH_OK;
}

static spsh_status take_entry(const spsh_cuda *cuda, const spsh__device_pcm_entry **ret_entry,
                              spsh_error *err)
{
    spsh__device_pcm_entry_fn *entry_fn = NULL;
    void *symbol = spsh_cuda_symbol(cuda, SPSH__DEVICE_PCM_SYMBOL);
    if (symbol == NULL)
        return SPSH_FAIL(err, SPSH_E_VERSION, "the CUDA plug-in was built without pcm decoding");
    memcpy(&entry_fn, &symbol, sizeof(entry_fn));
    const spsh__device_pcm_entry *entry = entry_fn();
    if (entry->job_bytes != sizeof(spsh__pcm_job) || entry->entry_bytes != sizeof(spsh__pcm_entry))
        return SPSH_FAIL(err, SPSH_E_VERSION,
                         "the CUDA plug-in and this library are from different builds; install "
                         "both from the same build");
    *ret_entry = entry;
    return SPSH_OK;
}

static spsh_status make_slots(spsh_cuda_pcm *pcm, spsh_error *err)
{
    const spsh_cuda *cuda = pcm->cuda;
    const uint32_t device = pcm->options.device;
    const size_t bytes = pcm->options.block_count_max * sizeof(spsh__pcm_entry);
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < SLOTS; i++) {
        void *pinned = NULL;
        void *memory = NULL;
        rc = spsh_cuda_host_alloc(cuda, bytes, &pinned, err);
        pcm->slots[i].pinned = pinned;
        if (rc == SPSH_OK)
            rc = spsh_cuda_alloc(cuda, device, bytes, &memory, err);
        pcm->slots[i].device = memory;
        if (rc == SPSH_OK)
            rc = spsh_cuda_event_open(cuda, device, 0, &pcm->slots[i].done, err);
    }
    return rc;
}

spsh_status spsh_cuda_pcm_open(const spsh_cuda *cuda, const spsh_cuda_pcm_options *options,
                               spsh_cuda_pcm **ret_pcm, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    spsh_cuda_pcm_options taken = SPSH_CUDA_PCM_OPTIONS_INIT;
    const spsh__device_pcm_entry *entry = NULL;
    spsh_cuda_pcm *pcm = NULL;

    if (cuda == NULL || ret_pcm == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "cuda or ret_pcm is NULL");
    spsh_status rc = take_options(cuda, options, &taken, err);
    if (rc == SPSH_OK)
        rc = take_entry(cuda, &entry, err);
    if (rc != SPSH_OK)
        return rc;
    pcm = spsh__new(allocator, 1, sizeof(*pcm));
    if (pcm == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "pcm: %zu bytes", sizeof(*pcm));
    pcm->allocator = *allocator;
    pcm->cuda = cuda;
    pcm->entry = entry;
    pcm->options = taken;
    rc = make_slots(pcm, err);
    if (rc == SPSH_OK) {
        *ret_pcm = pcm;
        pcm = NULL;
    }
    spsh_cuda_pcm_close(pcm);
    return rc;
}

void spsh_cuda_pcm_close(spsh_cuda_pcm *pcm)
{
    if (pcm == NULL)
        return;
    for (uint32_t i = 0; i < SLOTS; i++) {
        pcm_slot *slot = &pcm->slots[i];
        spsh_status rc = SPSH_OK; /* a device that was lost has no work left to wait for */
        if (slot->done != NULL)
            rc = spsh_cuda_event_synchronize(pcm->cuda, slot->done, NULL);
        (void)rc;
        spsh_cuda_event_close(pcm->cuda, slot->done);
        spsh_cuda_free(pcm->cuda, slot->device);
        spsh_cuda_host_free(pcm->cuda, slot->pinned);
    }
    const spsh_allocator allocator = pcm->allocator;
    spsh__free(&allocator, pcm);
}

/* ---- a batch ---- */

typedef struct pcm_table {
    const spsh_cuda_pcm_batch *batch;
    spsh__pcm_entry *entries;
    uint64_t count, count_max;
    uint64_t first_value, end_value; /* range of written output values */
} pcm_table;

static spsh_status check_batch(const spsh_cuda_pcm *pcm, const spsh_cuda_pcm_batch *batch,
                               spsh_error *err)
{
    if (batch->count > pcm->options.utterance_count_max)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a batch of %zu utterances exceeds the limit, %u",
                         batch->count, pcm->options.utterance_count_max);
    if (batch->utterances == NULL || batch->payloads == NULL || batch->samples == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "utterances, payloads, or samples is NULL");
    if ((uintptr_t)batch->payloads % ALIGNMENT_BYTES != 0 ||
        (uintptr_t)batch->samples % ALIGNMENT_BYTES != 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "payloads and samples must be aligned to %d bytes", ALIGNMENT_BYTES);
    return SPSH_OK;
}

/* Check that the batch holds the utterance's payload and has capacity for its values and blocks. */
static spsh_status check_bounds(const pcm_table *table, const spsh_cuda_pcm_utterance *u,
                                const pcm_range *range, spsh_error *err)
{
    const spsh_cuda_pcm_batch *batch = table->batch;
    const uint64_t values = u->sample_count * range->info.channels;
    const uint64_t blocks = (range->end_frame - range->first_frame) * range->info.channels;
    if (u->first_value > batch->capacity || values > batch->capacity - u->first_value)
        return SPSH_FAIL(
            err, SPSH_E_LIMIT, "values from %llu, %llu of them, do not fit into the buffer of %zu",
            (unsigned long long)u->first_value, (unsigned long long)values, batch->capacity);
    if (u->piece_offset > batch->payload_bytes ||
        u->part->piece.size_bytes > batch->payload_bytes - u->piece_offset)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "bytes from %llu, %zu of them, are outside the payloads, which have %zu",
                         (unsigned long long)u->piece_offset, u->part->piece.size_bytes,
                         batch->payload_bytes);
    if (blocks > table->count_max - table->count)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the batch exceeds the limit of %llu pcm blocks",
                         (unsigned long long)table->count_max);
    return SPSH_OK;
}

static uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

/* A frame's blocks. An empty one has the samples, and gets the bytes, of the channel before. */
static spsh_status add_frame(pcm_table *table, const spsh_cuda_pcm_utterance *u,
                             const pcm_range *range, uint64_t frame, spsh_error *err)
{
    const uint32_t channels = range->info.channels;
    const uint64_t begin = frame * SPSH_PCM_FRAME_SAMPLES;
    const uint32_t length = spsh__pcm_frame_length(range->info.samples, frame);
    const uint64_t first = begin < range->first_sample ? range->first_sample : begin;
    spsh_bytes block = {NULL, 0};
    for (uint32_t c = 0; c < channels; c++) {
        spsh_bytes own = {NULL, 0};
        spsh_status rc =
            spsh__pcm_find_block(u->part, &range->info, frame * channels + c, &own, err);
        if (rc != SPSH_OK)
            return rc;
        if (own.size_bytes > 0 || c == 0)
            block = own;
        table->entries[table->count++] = (spsh__pcm_entry){
            .payload_at = u->piece_offset + (uint64_t)(block.data - u->part->piece.data),
            .value_at = u->first_value + (first - range->first_sample) * channels + c,
            .block_bytes = (uint32_t)block.size_bytes,
            .count = length,
            .from = (uint32_t)(first - begin),
            .to = least(range->end_sample - begin, length),
            .stride = channels,
        };
    }
    return SPSH_OK;
}

static spsh_status add_utterance(pcm_table *table, const spsh_cuda_pcm_utterance *u,
                                 spsh_error *err)
{
    pcm_range range = {.first_frame = 0};
    if (u->part == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a pointer of the batch is NULL");
    spsh_status rc = spsh__pcm_range_of(u->part, u->first_sample, u->sample_count, &range, err);
    if (rc != SPSH_OK || u->sample_count == 0)
        return rc;
    rc = check_bounds(table, u, &range, err);
    for (uint64_t f = range.first_frame; rc == SPSH_OK && f < range.end_frame; f++)
        rc = add_frame(table, u, &range, f, err);
    const uint64_t end = u->first_value + u->sample_count * range.info.channels;
    if (u->first_value < table->first_value)
        table->first_value = u->first_value;
    if (end > table->end_value)
        table->end_value = end;
    return rc;
}

static spsh_status put_table(spsh_cuda_pcm *pcm, void *stream, const pcm_table *table,
                             spsh_error *err)
{
    pcm_slot *slot = &pcm->slots[pcm->next];
    const spsh_cuda_pcm_batch *batch = table->batch;
    const size_t bytes = (size_t)table->count * sizeof(*table->entries);
    const spsh__pcm_job job = {slot->device, batch->payloads, batch->payload_bytes, batch->samples,
                               table->count};
    const spsh__device_use uses[] = {
        {slot->device,                        bytes,                        0},
        {batch->payloads,                     batch->payload_bytes,         0},
        {batch->samples + table->first_value,
         (size_t)(table->end_value - table->first_value) * sizeof(int16_t), 1},
    };
    spsh_status rc = spsh_cuda_copy(pcm->cuda, slot->device, slot->pinned, bytes, stream, err);
    if (rc == SPSH_OK)
        rc = pcm->entry->decode_fn(pcm->options.device, stream, &job, uses,
                                   sizeof(uses) / sizeof(uses[0]), err);
    /* The started work uses the slot even after a failure: record the event in any case. */
    const spsh_status marked =
        spsh_cuda_event_record(pcm->cuda, slot->done, stream, rc == SPSH_OK ? err : NULL);
    pcm->next = (pcm->next + 1) % SLOTS;
    return rc != SPSH_OK ? rc : marked;
}

spsh_status spsh_cuda_pcm_decode(spsh_cuda_pcm *pcm, void *stream, const spsh_cuda_pcm_batch *batch,
                                 spsh_error *err)
{
    if (pcm == NULL || batch == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "pcm or batch is NULL");
    if (batch->count == 0)
        return SPSH_OK;
    pcm_slot *slot = &pcm->slots[pcm->next];
    pcm_table table = {.batch = batch,
                       .entries = slot->pinned,
                       .count_max = pcm->options.block_count_max,
                       .first_value = UINT64_MAX};
    spsh_status rc = check_batch(pcm, batch, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_synchronize(pcm->cuda, slot->done, err);
    for (size_t i = 0; rc == SPSH_OK && i < batch->count; i++)
        rc = add_utterance(&table, &batch->utterances[i], err);
    if (rc != SPSH_OK || table.count == 0)
        return rc;
    return put_table(pcm, stream, &table, err);
}
