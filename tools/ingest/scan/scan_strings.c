/* scan_strings.c: blocks that are filled one after another and kept for the next row, so that a row
 * allocates nothing. */
#include "scan_strings.h"

#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"

#define BLOCK_BYTES ((size_t)16 << 10)

/* Go to the next block that can hold size_bytes, or make one. */
static bool next_block(spsh__strings *s, size_t size_bytes)
{
    size_t next = s->at.block + (s->at.block < s->block_count);
    while (next < s->block_count && s->blocks[next].capacity_bytes < size_bytes)
        next++;
    if (next == s->block_count) {
        const size_t capacity = size_bytes > BLOCK_BYTES ? size_bytes : BLOCK_BYTES;
        uint8_t *data = malloc(capacity);
        if (data == NULL || !SPSH_GROW(s->blocks, s->block_capacity, next + 1)) {
            free(data);
            return false;
        }
        s->blocks[s->block_count++] = (spsh__strings_block){data, capacity};
    }
    s->at = (spsh__strings_mark){next, 0};
    return true;
}

/* Return size_bytes of memory and a NUL after them. NULL: no memory, which is remembered. */
static uint8_t *take(spsh__strings *s, size_t size_bytes)
{
    const bool fits = s->at.block < s->block_count &&
                      size_bytes < s->blocks[s->at.block].capacity_bytes - s->at.used_bytes;
    if (!fits && !next_block(s, size_bytes + 1)) {
        s->failed = true;
        return NULL;
    }
    uint8_t *data = s->blocks[s->at.block].data + s->at.used_bytes;
    s->at.used_bytes += size_bytes + 1;
    data[size_bytes] = '\0';
    return data;
}

spsh_bytes spsh__strings_join(spsh__scan *scan, const spsh_bytes *parts, size_t count)
{
    size_t size_bytes = 0;
    for (size_t i = 0; i < count; i++)
        size_bytes += parts[i].size_bytes;
    uint8_t *data = take(&scan->strings, size_bytes);
    if (data == NULL)
        return spsh__bytes_of("");
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].size_bytes > 0)
            memcpy(data + at, parts[i].data, parts[i].size_bytes);
        at += parts[i].size_bytes;
    }
    return (spsh_bytes){data, size_bytes};
}

spsh_bytes spsh__strings_path(spsh__scan *scan, spsh_bytes folder, spsh_bytes name)
{
    const bool both = folder.size_bytes > 0 && name.size_bytes > 0;
    return SPSH__JOIN(scan, folder, spsh__bytes_of(both ? "/" : ""), name);
}

spsh_bytes spsh__strings_name(spsh__scan *scan, spsh_bytes name)
{
    spsh__name_append(spsh__strings_open(scan), name);
    return spsh__strings_close(scan);
}

spsh_bytes spsh__strings_json_text(spsh__scan *scan, const spsh__json_value *value)
{
    if (value->kind != SPSH__JSON_STRING)
        return (spsh_bytes){0};
    if (!value->escaped)
        return value->raw;
    spsh__json_unescape(value, spsh__strings_open(scan));
    return spsh__strings_close(scan);
}

spsh_bytes spsh__strings_json_name(spsh__scan *scan, const spsh__json_value *value)
{
    const spsh_bytes text =
        value->kind == SPSH__JSON_NUMBER ? value->raw : spsh__strings_json_text(scan, value);
    return spsh__is_placeholder(text) ? (spsh_bytes){0} : text;
}

spsh_bytes spsh__strings_json_column(spsh__scan *scan, spsh_bytes object)
{
    const char *name = spsh__text_of(scan->domain_name);
    spsh__json_value value;
    size_t offset = 0;
    return spsh__json_pick(object, &name, 1, &value, NULL, &offset) == NULL
               ? spsh__strings_json_name(scan, &value)
               : (spsh_bytes){0};
}

spsh__builder *spsh__strings_open(spsh__scan *scan)
{
    spsh__builder *open = &scan->strings.open;
    scan->strings.failed |= open->failed;
    spsh__builder_clear(open);
    return open;
}

spsh_bytes spsh__strings_close(spsh__scan *scan)
{
    scan->strings.failed |= scan->strings.open.failed;
    return SPSH__JOIN(scan, spsh__builder_bytes(&scan->strings.open));
}

spsh__strings_mark spsh__strings_here(const spsh__scan *scan)
{
    return scan->strings.at;
}

void spsh__strings_release(spsh__scan *scan, spsh__strings_mark mark)
{
    scan->strings.at = mark;
}

void spsh__strings_free(spsh__strings *strings)
{
    for (size_t i = 0; i < strings->block_count; i++)
        free(strings->blocks[i].data);
    free(strings->blocks);
    spsh__builder_free(&strings->open);
    *strings = (spsh__strings){0};
}
