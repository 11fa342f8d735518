/* byte_builder.h: a growing byte buffer. It remembers a failed allocation: `failed` stays true,
 * and every later append does nothing. One check is enough after many appends.
 *
 *     spsh__builder path = {0};
 *     spsh__builder_append_text(&path, root);
 *     spsh__builder_append(&path, "/", 1);
 *     if (spsh__builder_text(&path) == NULL)
 *         ... out of memory
 */
#ifndef SPSH_BYTE_BUILDER_H
#define SPSH_BYTE_BUILDER_H

#include <stdbool.h>
#include <string.h>

#include "speechshard/base.h"

typedef struct spsh__builder {
    uint8_t *data;
    size_t size_bytes;
    size_t capacity_bytes;
    bool failed;
} spsh__builder;

uint8_t *spsh__builder_grow(spsh__builder *buffer, size_t size_bytes);

/* Reserve size_bytes more bytes at the end. NULL (and failed): no memory. */
static inline uint8_t *spsh__builder_reserve(spsh__builder *buffer, size_t size_bytes)
{
    if (!buffer->failed && buffer->data != NULL &&
        size_bytes <= buffer->capacity_bytes - buffer->size_bytes)
        return buffer->data + buffer->size_bytes;
    return spsh__builder_grow(buffer, size_bytes);
}

/* Inline, because a row consists of dozens of short pieces. */
static inline void spsh__builder_append(spsh__builder *buffer, const void *data, size_t size_bytes)
{
    uint8_t *end = spsh__builder_reserve(buffer, size_bytes);
    if (end == NULL || size_bytes == 0)
        return;
    memcpy(end, data, size_bytes);
    buffer->size_bytes += size_bytes;
}

static inline void spsh__builder_append_bytes(spsh__builder *buffer, spsh_bytes bytes)
{
    spsh__builder_append(buffer, bytes.data, bytes.size_bytes);
}

static inline void spsh__builder_append_text(spsh__builder *buffer, const char *text)
{
    spsh__builder_append(buffer, text, strlen(text));
}

/* Append a part of a path, with a '/' before it if the path is not empty. An empty part appends
 * nothing. */
void spsh__builder_append_part(spsh__builder *path, const char *part);

/* Replace the content by "directory/name". NULL: no memory. */
const char *spsh__builder_path(spsh__builder *path, const char *directory, const char *name);

/* Empty the buffer, keep its memory, and reset a failure. */
void spsh__builder_clear(spsh__builder *buffer);
void spsh__builder_free(spsh__builder *buffer);
void spsh__builders_free(spsh__builder *const *buffers, size_t count);

/* Free each builder that the arguments point to. */
#define SPSH__BUILDERS_FREE(...)                                                                   \
    spsh__builders_free((spsh__builder *const[]){__VA_ARGS__},                                     \
                        sizeof((spsh__builder *const[]){__VA_ARGS__}) / sizeof(spsh__builder *))

/* Return the content with a NUL after it (not counted), or NULL if an append failed. */
const char *spsh__builder_text(spsh__builder *buffer);

static inline spsh_bytes spsh__builder_bytes(const spsh__builder *buffer)
{
    return (spsh_bytes){buffer->data, buffer->size_bytes};
}

#endif
