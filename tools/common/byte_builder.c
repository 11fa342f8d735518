/* byte_builder.c: growth by doubling; sizes are checked before they are added. */
#include "byte_builder.h"

#include <stdlib.h>
#include <string.h>

uint8_t *spsh__builder_grow(spsh__builder *buffer, size_t size_bytes)
{
    if (buffer->failed)
        return NULL;
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

void spsh__builder_append_part(spsh__builder *path, const char *part)
{
    if (part[0] == '\0')
        return;
    if (path->size_bytes > 0)
        spsh__builder_append(path, "/", 1);
    spsh__builder_append_text(path, part);
}

void spsh__builder_clear(spsh__builder *buffer)
{
    buffer->size_bytes = 0;
    buffer->failed = false;
}

void spsh__builder_free(spsh__builder *buffer)
{
    free(buffer->data);
    *buffer = (spsh__builder){0};
}

void spsh__builders_free(spsh__builder *const *buffers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        spsh__builder_free(buffers[i]);
}

const char *spsh__builder_text(spsh__builder *buffer)
{
    uint8_t *end = spsh__builder_reserve(buffer, 1);
    if (end == NULL)
        return NULL;
    *end = '\0';
    return (const char *)buffer->data;
}

const char *spsh__builder_path(spsh__builder *path, const char *directory, const char *name)
{
    spsh__builder_clear(path);
    spsh__builder_append_text(path, directory);
    spsh__builder_append_part(path, name);
    return spsh__builder_text(path);
}
