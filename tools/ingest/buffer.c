/* buffer.c: growth by doubling; sizes are checked before they are added. */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

uint8_t *spsh__buffer_reserve(spsh__buffer *buffer, size_t size_bytes)
{
    if (buffer->failed)
        return NULL;
    if (buffer->data != NULL && size_bytes <= buffer->capacity_bytes - buffer->size_bytes)
        return buffer->data + buffer->size_bytes;
    if (size_bytes > SIZE_MAX / 4 || buffer->size_bytes > SIZE_MAX / 4) {
        buffer->failed = true;
        return NULL;
    }
    size_t capacity = buffer->capacity_bytes < 64 ? 64 : buffer->capacity_bytes;
    while (capacity < buffer->size_bytes + size_bytes)
        capacity *= 2;
    uint8_t *data = realloc(buffer->data, capacity);
    if (data == NULL) {
        buffer->failed = true;
        return NULL;
    }
    buffer->data = data;
    buffer->capacity_bytes = capacity;
    return data + buffer->size_bytes;
}

void spsh__buffer_append(spsh__buffer *buffer, const void *data, size_t size_bytes)
{
    uint8_t *end = spsh__buffer_reserve(buffer, size_bytes);
    if (end == NULL || size_bytes == 0)
        return;
    memcpy(end, data, size_bytes);
    buffer->size_bytes += size_bytes;
}

void spsh__buffer_append_bytes(spsh__buffer *buffer, spsh_bytes bytes)
{
    spsh__buffer_append(buffer, bytes.data, bytes.size_bytes);
}

void spsh__buffer_append_text(spsh__buffer *buffer, const char *text)
{
    spsh__buffer_append(buffer, text, strlen(text));
}

void spsh__buffer_clear(spsh__buffer *buffer)
{
    buffer->size_bytes = 0;
    buffer->failed = false;
}

void spsh__buffer_free(spsh__buffer *buffer)
{
    free(buffer->data);
    *buffer = (spsh__buffer){0};
}

const char *spsh__buffer_text(spsh__buffer *buffer)
{
    uint8_t *end = spsh__buffer_reserve(buffer, 1);
    if (end == NULL)
        return NULL;
    *end = '\0';
    return (const char *)buffer->data;
}
