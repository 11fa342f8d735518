/* audio_window.c: bounded reads from an audio source. */
#include "audio_internal.h"

spsh_status spsh__source_read(const spsh_audio_source *source, uint64_t offset_bytes, void *dst,
                              size_t size_bytes, size_t *ret_bytes, spsh_error *err)
{
    *ret_bytes = 0;
    if (offset_bytes >= source->size_bytes || size_bytes == 0)
        return SPSH_OK;
    uint64_t left_bytes = source->size_bytes - offset_bytes;
    size_t wanted = left_bytes < size_bytes ? (size_t)left_bytes : size_bytes;
    size_t got = 0;
    spsh_status rc = source->read_fn(source->user, offset_bytes, dst, wanted, &got, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_bytes = got < wanted ? got : wanted;
    return SPSH_OK;
}

void spsh__window_init(spsh__audio_window *window, const spsh_audio_source *source)
{
    window->source = source;
    window->offset_bytes = 0;
    window->size_bytes = 0;
}

spsh_status spsh__window_get(spsh__audio_window *window, uint64_t offset_bytes, size_t size_bytes,
                             spsh_bytes *ret_bytes, spsh_error *err)
{
    size_t wanted = size_bytes < SPSH__WINDOW_BYTES ? size_bytes : SPSH__WINDOW_BYTES;
    bool is_inside = offset_bytes >= window->offset_bytes &&
                     offset_bytes - window->offset_bytes <= window->size_bytes &&
                     window->size_bytes - (offset_bytes - window->offset_bytes) >= wanted;
    if (!is_inside) {
        size_t got = 0;
        window->size_bytes = 0;
        spsh_status rc = spsh__source_read(window->source, offset_bytes, window->bytes,
                                           SPSH__WINDOW_BYTES, &got, err);
        if (rc != SPSH_OK)
            return rc;
        window->offset_bytes = offset_bytes;
        window->size_bytes = got;
    }
    size_t begin = (size_t)(offset_bytes - window->offset_bytes);
    size_t left_bytes = window->size_bytes - begin;
    ret_bytes->data = window->bytes + begin;
    ret_bytes->size_bytes = left_bytes < wanted ? left_bytes : wanted;
    return SPSH_OK;
}
