/* buffer.h: bytes that grow, from an allocator. A zeroed struct is empty; capacity doubles. */
#ifndef SPSH_BUFFER_H
#define SPSH_BUFFER_H

#include "base_internal.h"

typedef struct spsh__buffer {
    uint8_t *data;
    size_t size_bytes;
    size_t capacity_bytes;
} spsh__buffer;

/* Reserve more_bytes after the current content. SPSH_E_NO_MEMORY leaves the buffer unchanged. */
spsh_status spsh__buffer_reserve(spsh__buffer *buffer, const spsh_allocator *allocator,
                                 size_t more_bytes, spsh_error *err);
spsh_status spsh__buffer_append(spsh__buffer *buffer, const spsh_allocator *allocator,
                                const void *data, size_t size_bytes, spsh_error *err);
void spsh__buffer_free(spsh__buffer *buffer, const spsh_allocator *allocator);

#endif
