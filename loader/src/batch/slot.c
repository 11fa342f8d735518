/* slot.c: the memory and tables of slots, and the end of a batch. recipe.c computes the sizes. */
#include "slot.h"

#include <stddef.h>
#include <sys/mman.h>

#define ULL(value_) ((unsigned long long)(value_))

#define TEXT_BYTES_FIRST ((size_t)8 << 10)
#define TEXT_BYTES_LAST  ((size_t)256 << 10)
#define CAPACITY_MIN     UINT32_C(32)

/* ---- memory ---- */

void *spsh__budget_take(spsh__budget *budget, size_t size_bytes)
{
    const uint64_t before = atomic_fetch_add(&budget->used_bytes, size_bytes);
    void *memory = NULL;
    if (before <= budget->limit_bytes && size_bytes <= budget->limit_bytes - before)
        memory = budget->allocator.alloc_fn(budget->allocator.user, size_bytes);
    else
        atomic_store(&budget->has_refused, true);
    if (memory == NULL)
        atomic_fetch_sub(&budget->used_bytes, size_bytes);
    return memory;
}

void spsh__budget_give(spsh__budget *budget, void *memory, size_t size_bytes)
{
    if (memory == NULL)
        return;
    budget->allocator.free_fn(budget->allocator.user, memory);
    atomic_fetch_sub(&budget->used_bytes, size_bytes);
}

/* Header before each block that stores its size, because free_fn does not pass it. */
typedef union block_head {
    size_t size_bytes;
    max_align_t align;
} block_head;

static void *allocate(void *user, size_t size_bytes)
{
    block_head *head = NULL;
    if (size_bytes <= SIZE_MAX - sizeof(*head))
        head = (block_head *)spsh__budget_take((spsh__budget *)user, sizeof(*head) + size_bytes);
    if (head == NULL)
        return NULL;
    head->size_bytes = sizeof(*head) + size_bytes;
    return head + 1;
}

static void release(void *user, void *memory)
{
    block_head *head = (block_head *)memory;
    if (head != NULL)
        spsh__budget_give((spsh__budget *)user, head - 1, (head - 1)->size_bytes);
}

spsh_allocator spsh__budget_allocator(spsh__budget *budget)
{
    return (spsh_allocator){allocate, release, budget};
}

spsh_status spsh__memory_open(const spsh_arena *hook, size_t size_bytes, spsh__memory *ret_memory,
                              spsh_error *err)
{
    spsh__memory memory = {.size_bytes = size_bytes};
    if (hook != NULL) {
        memory.hook = *hook;
        memory.data = (uint8_t *)hook->alloc_fn(hook->user, size_bytes);
        if (memory.data == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: arena of %zu bytes", size_bytes);
        *ret_memory = memory;
        return SPSH_OK;
    }
    void *mapped = mmap(NULL, memory.size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: arena of %zu bytes", memory.size_bytes);
    (void)madvise(mapped, memory.size_bytes, MADV_HUGEPAGE); /* advice only */
    memory.data = (uint8_t *)mapped;
    *ret_memory = memory;
    return SPSH_OK;
}

void spsh__memory_keep(spsh__memory *memory, size_t size_bytes)
{
    if (memory->hook.alloc_fn == NULL && madvise(memory->data, size_bytes, MADV_DONTFORK) == 0)
        memory->kept_bytes = size_bytes;
}

void spsh__memory_close(spsh__memory *memory, bool is_inherited)
{
    /* A child may have mapped other memory at the addresses that it did not inherit. */
    const size_t kept_bytes = is_inherited ? memory->kept_bytes : 0;
    if (memory->data == NULL)
        return;
    if (memory->hook.alloc_fn == NULL)
        (void)munmap(memory->data + kept_bytes, memory->size_bytes - kept_bytes);
    else if (!is_inherited)
        memory->hook.free_fn(memory->hook.user, memory->data, memory->size_bytes);
    memory->data = NULL;
}

/* ---- tables ---- */

spsh_status spsh__slot_open(spsh__slot *slot, spsh__budget *budget, uint8_t *audio,
                            const spsh__slot_layout *layout, spsh_error *err)
{
    if (pthread_mutex_init(&slot->lock, NULL) != 0)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: mutex");
    slot->budget = budget;
    slot->audio = audio;
    slot->layout = *layout;
    return SPSH_OK;
}

static void give_tables(spsh__slot *slot)
{
    const size_t count = slot->capacity;
    spsh__budget_give(slot->budget, slot->utterances, count * sizeof(*slot->utterances));
    spsh__budget_give(slot->budget, slot->jobs, count * sizeof(*slot->jobs));
    spsh__budget_give(slot->budget, (void *)slot->order, count * sizeof(spsh__job *));
    slot->utterances = NULL;
    slot->jobs = NULL;
    slot->order = NULL;
    slot->capacity = 0;
}

void spsh__slot_close(spsh__slot *slot)
{
    if (slot->budget == NULL)
        return;
    give_tables(slot);
    while (slot->chunks != NULL) {
        spsh__text_chunk *chunk = slot->chunks;
        slot->chunks = chunk->next;
        spsh__budget_give(slot->budget, chunk, sizeof(*chunk) + chunk->size_bytes);
    }
    spsh__free(&slot->budget->allocator, slot->bads);
    (void)pthread_mutex_destroy(&slot->lock);
}

spsh_status spsh__slot_reset(spsh__slot *slot, uint32_t utterance_count, spsh_error *err)
{
    slot->bad_count = 0;
    slot->status = SPSH_OK;
    slot->status_number = SPSH_NONE_U32;
    if (utterance_count > slot->capacity) {
        uint32_t capacity = slot->capacity < CAPACITY_MIN ? CAPACITY_MIN : slot->capacity;
        while (capacity < utterance_count)
            capacity = capacity > UINT32_MAX / 2 ? UINT32_MAX : 2 * capacity;
        give_tables(slot);
        const size_t count = capacity;
        slot->capacity = capacity;
        slot->utterances = (spsh_batch_utterance *)spsh__budget_take(
            slot->budget, count * sizeof(*slot->utterances));
        slot->jobs = (spsh__job *)spsh__budget_take(slot->budget, count * sizeof(*slot->jobs));
        slot->order = (spsh__job **)spsh__budget_take(slot->budget, count * sizeof(spsh__job *));
        if (slot->utterances == NULL || slot->jobs == NULL || slot->order == NULL) {
            spsh_status rc =
                SPSH_FAIL(err, SPSH_E_LIMIT,
                          "loader: no memory for a batch of %u utterances: %llu of %llu bytes are "
                          "in use; increase memory_bytes, or set batch_utterances_max",
                          utterance_count, ULL(atomic_load(&slot->budget->used_bytes)),
                          ULL(slot->budget->limit_bytes));
            give_tables(slot); /* reset capacity, so that the next batch allocates again */
            return rc;
        }
    }
    slot->job_count = utterance_count;
    slot->stride = 0;
    atomic_store(&slot->packed_bytes, 0);
    atomic_store(&slot->packed_blocks, 0);
    slot->chunk_now = slot->chunks;
    if (slot->chunk_now != NULL)
        slot->chunk_now->used_bytes = 0;
    atomic_store(&slot->jobs_left, utterance_count);
    return SPSH_OK;
}

/* Advance to the next chunk with enough space, or insert one. Call with the lock held. */
static spsh__text_chunk *next_chunk(spsh__slot *slot, size_t size_bytes)
{
    spsh__text_chunk *now = slot->chunk_now;
    spsh__text_chunk *next = now == NULL ? slot->chunks : now->next;
    if (next == NULL || next->size_bytes < size_bytes) {
        size_t bytes = now == NULL ? TEXT_BYTES_FIRST : 2 * now->size_bytes;
        bytes = bytes < TEXT_BYTES_LAST ? bytes : TEXT_BYTES_LAST;
        bytes = bytes > size_bytes ? bytes : size_bytes;
        spsh__text_chunk *made =
            (spsh__text_chunk *)spsh__budget_take(slot->budget, sizeof(*made) + bytes);
        if (made == NULL)
            return NULL;
        made->size_bytes = bytes;
        made->next = next;
        if (now == NULL)
            slot->chunks = made;
        else
            now->next = made;
        next = made;
    }
    next->used_bytes = 0;
    slot->chunk_now = next;
    return next;
}

spsh_status spsh__slot_string(spsh__slot *slot, spsh_bytes string, spsh_bytes *ret_copy,
                              spsh_error *err)
{
    uint8_t *copy = NULL;
    *ret_copy = (spsh_bytes){NULL, 0};
    if (string.size_bytes == 0)
        return SPSH_OK;
    (void)pthread_mutex_lock(&slot->lock);
    spsh__text_chunk *chunk = slot->chunk_now;
    if (chunk == NULL || string.size_bytes > chunk->size_bytes - chunk->used_bytes)
        chunk = next_chunk(slot, string.size_bytes);
    if (chunk != NULL) {
        copy = chunk->data + chunk->used_bytes;
        chunk->used_bytes += string.size_bytes;
    }
    (void)pthread_mutex_unlock(&slot->lock);
    if (copy == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY,
                         "loader: no memory for %zu bytes of text: %llu of %llu bytes are in use; "
                         "increase memory_bytes",
                         string.size_bytes, ULL(atomic_load(&slot->budget->used_bytes)),
                         ULL(slot->budget->limit_bytes));
    memcpy(copy, string.data, string.size_bytes);
    *ret_copy = (spsh_bytes){copy, string.size_bytes};
    return SPSH_OK;
}

void spsh__slot_fail(spsh__slot *slot, uint32_t number, spsh_status status, const spsh_error *error)
{
    (void)pthread_mutex_lock(&slot->lock);
    if (slot->status == SPSH_OK || number < slot->status_number) {
        slot->status = status;
        slot->status_number = number;
        slot->error = *error;
    }
    (void)pthread_mutex_unlock(&slot->lock);
}

spsh_status spsh__slot_bad(spsh__slot *slot, const spsh_bad_record *bad)
{
    const spsh_allocator *allocator = &slot->budget->allocator;
    spsh_status rc = SPSH_OK;
    (void)pthread_mutex_lock(&slot->lock);
    if (slot->bad_count == slot->bad_capacity) {
        const uint32_t capacity = 2 * slot->bad_capacity + 4;
        spsh_bad_record *more = (spsh_bad_record *)spsh__new(allocator, capacity, sizeof(*more));
        if (more == NULL) {
            rc = SPSH_E_NO_MEMORY;
        } else {
            if (slot->bad_count > 0)
                memcpy(more, slot->bads, slot->bad_count * sizeof(*more));
            spsh__free(allocator, slot->bads);
            slot->bads = more;
            slot->bad_capacity = capacity;
        }
    }
    if (rc == SPSH_OK)
        slot->bads[slot->bad_count++] = *bad;
    (void)pthread_mutex_unlock(&slot->lock);
    return rc;
}

/* ---- the finished batch ---- */

/* Number of values of an utterance in the finished batch. */
static uint64_t values_of(const spsh__slot *slot, const spsh__job *job)
{
    const spsh_batch *batch = &slot->batch;
    switch (batch->output) {
    case SPSH_OUTPUT_INT16: break;
    case SPSH_OUTPUT_FLOAT32: return batch->padded_samples * batch->channels;
    case SPSH_OUTPUT_FEATURES: return batch->padded_frames * batch->feature_dim;
    }
    return job->out_samples * batch->channels;
}

/* Move utterances down to close the gaps of skipped ones. Rows of padded output shrink to the
 * longest remaining utterance, and their padding moves with them. A packed utterance has no values
 * to move. */
static void close_gaps(spsh__slot *slot)
{
    uint64_t at = 0;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        spsh__job *job = &slot->jobs[n];
        if (job->left_out)
            continue;
        const uint64_t values = values_of(slot, job);
        if (job->place != at && !job->is_packed)
            memmove(slot->audio + at * slot->value_bytes,
                    slot->audio + job->place * slot->value_bytes,
                    (size_t)values * slot->value_bytes);
        job->place = at;
        at += values;
    }
    slot->batch.value_count = at;
}

void spsh__slot_finish(spsh__slot *slot)
{
    spsh_batch *batch = &slot->batch;
    uint32_t count = 0;
    batch->padded_samples = 0;
    batch->padded_frames = 0;
    for (uint32_t n = 0; n < slot->job_count; n++) {
        const spsh__job *job = &slot->jobs[n];
        if (!job->left_out && job->out_samples > batch->padded_samples)
            batch->padded_samples = job->out_samples;
        if (!job->left_out && job->frames > batch->padded_frames)
            batch->padded_frames = job->frames;
    }
    if (!slot->hands_samples) /* else samples stay in place: the device gets their positions */
        close_gaps(slot);
    for (uint32_t n = 0; n < slot->job_count; n++) {
        const spsh__job *job = &slot->jobs[n];
        if (job->left_out)
            continue;
        spsh_batch_utterance *utterance = &slot->utterances[count++];
        if (utterance != &slot->utterances[n])
            *utterance = slot->utterances[n];
        utterance->offset = slot->hands_samples ? (count - 1) * values_of(slot, job) : job->place;
        utterance->samples = job->out_samples;
        utterance->frames = job->frames;
        utterance->item = job->item;
        utterance->substitute = job->substitute;
    }
    batch->utterance_count = count;
    batch->utterances = slot->utterances;
    if (slot->hands_samples)
        batch->value_count = count * batch->padded_frames * batch->feature_dim;
    batch->i16 = NULL;
    batch->f32 = NULL;
    batch->features = NULL;
    switch (batch->output) {
    case SPSH_OUTPUT_INT16: batch->i16 = (const int16_t *)(const void *)slot->audio; break;
    case SPSH_OUTPUT_FLOAT32: batch->f32 = (const float *)(const void *)slot->audio; break;
    case SPSH_OUTPUT_FEATURES: batch->features = slot->audio; break;
    }
    if (count == 0) {
        batch->sample_rate_hz = 0;
        batch->channels = 0;
    }
}
