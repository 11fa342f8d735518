/* audio_memory.c: a decoder source in memory. */
#include "audio_internal.h"

static spsh_status read_memory(void *user, uint64_t offset_bytes, void *dst, size_t size_bytes,
                               size_t *ret_bytes, spsh_error *err)
{
    const spsh_memory_source *memory = (const spsh_memory_source *)user;
    size_t left =
        offset_bytes < memory->data.size_bytes ? memory->data.size_bytes - (size_t)offset_bytes : 0;

    (void)err;
    *ret_bytes = size_bytes < left ? size_bytes : left;
    if (*ret_bytes > 0)
        memcpy(dst, memory->data.data + offset_bytes, *ret_bytes);
    return SPSH_OK;
}

spsh_audio_source spsh_audio_source_memory(spsh_memory_source *memory)
{
    return (spsh_audio_source){read_memory, memory, memory->data.size_bytes};
}

bool spsh__source_view(const spsh_audio_source *source, uint64_t offset_bytes, size_t size_bytes,
                       spsh_bytes *ret_bytes)
{
    if (source->read_fn != read_memory)
        return false;
    const spsh_bytes data = ((const spsh_memory_source *)source->user)->data;
    if (offset_bytes > data.size_bytes || size_bytes > data.size_bytes - (size_t)offset_bytes)
        return false;
    *ret_bytes = (spsh_bytes){data.data + offset_bytes, size_bytes};
    return true;
}
