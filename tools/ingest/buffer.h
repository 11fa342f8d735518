/* buffer.h: bytes that grow. A failed allocation is remembered, so that a row can be built with
 * many appends and one check: `failed` stays true and every later append does nothing.
 *
 *     spsh__buffer path = {0};
 *     spsh__buffer_append_text(&path, root);
 *     spsh__buffer_append(&path, "/", 1);
 *     if (spsh__buffer_text(&path) == NULL)
 *         ... out of memory
 */
#ifndef SPSH_INGEST_BUFFER_H
#define SPSH_INGEST_BUFFER_H

#include <stdbool.h>

#include "speechshard/base.h"

typedef struct spsh__buffer {
    uint8_t *data;
    size_t size_bytes;
    size_t capacity_bytes;
    bool failed;
} spsh__buffer;

/* Room for size_bytes more behind the end; NULL (and failed) when there is no memory. */
uint8_t *spsh__buffer_reserve(spsh__buffer *buffer, size_t size_bytes);
void spsh__buffer_append(spsh__buffer *buffer, const void *data, size_t size_bytes);
void spsh__buffer_append_bytes(spsh__buffer *buffer, spsh_bytes bytes);
void spsh__buffer_append_text(spsh__buffer *buffer, const char *text);

/* Empty, with its memory kept; a failure is forgotten. */
void spsh__buffer_clear(spsh__buffer *buffer);
void spsh__buffer_free(spsh__buffer *buffer);

/* The content with a NUL behind it (not counted), or NULL when an append failed. */
const char *spsh__buffer_text(spsh__buffer *buffer);

static inline spsh_bytes spsh__buffer_bytes(const spsh__buffer *buffer)
{
    return (spsh_bytes){buffer->data, buffer->size_bytes};
}

#endif
