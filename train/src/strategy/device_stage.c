/* device_stage.c: see device_stage.h. */
#include "device_stage.h"

#include "speechshard/inside.h"

struct spsh__device_stage {
    spsh_allocator allocator;
    spsh__backend *backend;
    const spsh_cuda *cuda;
    void *stream;
    void *computed; /* event: work enqueued on the backend's stream */
    void *up;       /* event: after the last copy up */
    void **slots;   /* events */
    uint32_t slot_count;
    float *memory; /* pinned host memory */
};

static void *compute_stream(const spsh__device_stage *s)
{
    return s->backend->ops->stream_fn(s->backend);
}

float *spsh__device_stage_memory(const spsh__device_stage *s)
{
    return s->memory;
}

spsh_status spsh__device_stage_follow(spsh__device_stage *s, spsh_error *err)
{
    const spsh_status rc = spsh_cuda_event_record(s->cuda, s->computed, compute_stream(s), err);
    return rc == SPSH_OK ? spsh_cuda_event_wait(s->cuda, s->computed, s->stream, err) : rc;
}

spsh_status spsh__device_stage_down(spsh__device_stage *s, spsh__backend_buffer from,
                                    uint64_t offset, uint64_t count, uint32_t slot, spsh_error *err)
{
    spsh_status rc = spsh__device_stage_follow(s, err);
    if (rc == SPSH_OK && count > 0)
        rc = spsh_cuda_copy(s->cuda, s->memory + offset, from.data, count * sizeof(float),
                            s->stream, err);
    return rc == SPSH_OK ? spsh_cuda_event_record(s->cuda, s->slots[slot], s->stream, err) : rc;
}

spsh_status spsh__device_stage_hold(spsh__device_stage *s, uint32_t slot, spsh_error *err)
{
    return spsh_cuda_event_wait(s->cuda, s->slots[slot], compute_stream(s), err);
}

bool spsh__device_stage_is_down(spsh__device_stage *s, uint32_t slot)
{
    return spsh_cuda_event_query(s->cuda, s->slots[slot], NULL) != SPSH_E_TIMEOUT;
}

spsh_status spsh__device_stage_wait(spsh__device_stage *s, uint32_t slot, spsh_error *err)
{
    return spsh_cuda_event_synchronize(s->cuda, s->slots[slot], err);
}

spsh_status spsh__device_stage_up(spsh__device_stage *s, spsh__backend_buffer to, uint64_t offset,
                                  uint64_t count, spsh_error *err)
{
    return count == 0 ? SPSH_OK
                      : spsh_cuda_copy(s->cuda, to.data, s->memory + offset, count * sizeof(float),
                                       s->stream, err);
}

spsh_status spsh__device_stage_end(spsh__device_stage *s, spsh_error *err)
{
    const spsh_status rc = spsh_cuda_event_record(s->cuda, s->up, s->stream, err);
    return rc == SPSH_OK ? spsh_cuda_event_wait(s->cuda, s->up, compute_stream(s), err) : rc;
}

spsh_status spsh__device_stage_rest(spsh__device_stage *s, spsh_error *err)
{
    return spsh_cuda_event_synchronize(s->cuda, s->up, err);
}

spsh_status spsh__device_stage_open(const spsh__learner *l, uint32_t slot_count,
                                    const spsh_allocator *allocator, spsh__device_stage **ret,
                                    spsh_error *err)
{
    const spsh_cuda *cuda = l->backend->cuda;
    const uint32_t device = l->backend->device;
    const size_t size_bytes =
        (size_t)(l->arena_elements + l->statistics_elements + 1) * sizeof(float);
    spsh__device_stage *s = spsh__new(allocator, 1, sizeof(*s));
    void *memory = NULL;
    spsh_status rc = SPSH_OK;
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    *s = (spsh__device_stage){
        .allocator = *allocator, .backend = l->backend, .cuda = cuda, .slot_count = slot_count};
    s->slots = spsh__new(allocator, slot_count, sizeof(*s->slots));
    rc = s->slots == NULL ? SPSH_NO_MEMORY(err)
                          : spsh_cuda_host_alloc(cuda, size_bytes, &memory, err);
    s->memory = memory;
    if (rc == SPSH_OK)
        rc = spsh_cuda_stream_open(cuda, device, 0, &s->stream, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_open(cuda, device, 0, &s->computed, err);
    if (rc == SPSH_OK)
        rc = spsh_cuda_event_open(cuda, device, 0, &s->up, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < slot_count; i++)
        rc = spsh_cuda_event_open(cuda, device, 0, &s->slots[i], err);
    if (rc == SPSH_OK)
        *ret = s;
    else
        spsh__device_stage_close(s);
    return rc;
}

void spsh__device_stage_close(spsh__device_stage *s)
{
    if (s == NULL)
        return;
    spsh_allocator allocator = s->allocator;
    spsh_cuda_stream_close(s->cuda, s->stream);
    spsh_cuda_event_close(s->cuda, s->computed);
    spsh_cuda_event_close(s->cuda, s->up);
    for (uint32_t i = 0; s->slots != NULL && i < s->slot_count; i++)
        spsh_cuda_event_close(s->cuda, s->slots[i]);
    spsh_cuda_host_free(s->cuda, s->memory);
    spsh__free(&allocator, s->slots);
    spsh__free(&allocator, s);
}
