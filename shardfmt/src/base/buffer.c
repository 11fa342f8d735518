/* buffer.c: capacity doubles, so that appending n bytes copies at most 2 n. */
#include "buffer.h"

enum { CAPACITY_MIN = 256 };

spsh_status spsh__buffer_reserve(spsh__buffer *buffer, const spsh_allocator *allocator,
                                 size_t more_bytes, spsh_error *err)
{
    if (more_bytes <= buffer->capacity_bytes - buffer->size_bytes)
        return SPSH_OK;
    size_t need = 0;
    size_t capacity = 0;
    uint8_t *data = NULL;
    if (!__builtin_add_overflow(buffer->size_bytes, more_bytes, &need)) {
        if (__builtin_mul_overflow(buffer->capacity_bytes, (size_t)2, &capacity) || capacity < need)
            capacity = need;
        if (capacity < CAPACITY_MIN)
            capacity = CAPACITY_MIN;
        data = (uint8_t *)spsh__alloc(allocator, capacity);
    }
    if (data == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "cannot append %zu bytes to a buffer of %zu bytes",
                         more_bytes, buffer->size_bytes);
    if (buffer->size_bytes != 0)
        memcpy(data, buffer->data, buffer->size_bytes);
    spsh__free(allocator, buffer->data);
    buffer->data = data;
    buffer->capacity_bytes = capacity;
    return SPSH_OK;
}

spsh_status spsh__buffer_append(spsh__buffer *buffer, const spsh_allocator *allocator,
                                const void *data, size_t size_bytes, spsh_error *err)
{
    spsh_status rc = spsh__buffer_reserve(buffer, allocator, size_bytes, err);
    if (rc == SPSH_OK && size_bytes != 0) {
        memcpy(buffer->data + buffer->size_bytes, data, size_bytes);
        buffer->size_bytes += size_bytes;
    }
    return rc;
}

void spsh__buffer_free(spsh__buffer *buffer, const spsh_allocator *allocator)
{
    spsh__free(allocator, buffer->data);
    *buffer = (spsh__buffer){NULL, 0, 0};
}
