/* pack_journal.c: lines of words with a hash at the end. A journal is published whole or not at
 * all, so a bad end line means damage, not an interrupted write.
 */
#include "pack_journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "speechshard/inside.h"

#define JOURNAL_BYTES_MAX ((size_t)1 << 30)
#define END_LINE_BYTES    (4 + 32 + 1) /* "end ", the hash, a line feed */

void spsh__journal_numbers(spsh__builder *out, const char *name, const uint64_t *numbers,
                           size_t count)
{
    spsh__builder_append_text(out, name);
    for (size_t i = 0; i < count; i++) {
        char word[24];
        int length = snprintf(word, sizeof(word), " %" PRIu64, numbers[i]);
        spsh__builder_append(out, word, (size_t)length);
    }
    spsh__builder_append(out, "\n", 1);
}

void spsh__journal_text(spsh__builder *out, const char *name, spsh_bytes text)
{
    spsh__builder_append_text(out, name);
    spsh__builder_append(out, " ", 1);
    spsh__builder_append_bytes(out, text);
    spsh__builder_append(out, "\n", 1);
}

void spsh__journal_hash(spsh__builder *out, const char *name, const uint8_t hash[16])
{
    char text[33];
    spsh__hex128(hash, text);
    spsh__journal_text(out, name, (spsh_bytes){(const uint8_t *)text, 32});
}

static spsh_status publish(const spsh_io *io, const char *directory, const char *name,
                           spsh_publish_mode mode, spsh_bytes content, spsh_error *err)
{
    spsh_file_writer *writer = NULL;
    spsh_status rc = spsh_file_writer_open(io, directory, name, 0, NULL, &writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer, content.data, content.size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, mode, err);
    spsh_file_writer_free(writer);
    return rc;
}

spsh_status spsh__pack_publish(const spsh_io *io, const char *directory, const char *name,
                               spsh_bytes content, spsh_error *err)
{
    return publish(io, directory, name, SPSH_PUBLISH_REPLACE, content, err);
}

spsh_status spsh__journal_publish(const spsh_io *io, const char *directory, const char *name,
                                  spsh_publish_mode mode, spsh__builder *content, spsh_error *err)
{
    uint8_t hash[16];

    spsh__pack_hash128(spsh__builder_bytes(content), hash);
    spsh__journal_hash(content, "end", hash);
    if (content->failed)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: out of memory", name);
    return publish(io, directory, name, mode, spsh__builder_bytes(content), err);
}

static bool end_line_is_right(const uint8_t *data, size_t size_bytes)
{
    char text[33];
    uint8_t want[16];
    uint8_t found[16];

    if (size_bytes < END_LINE_BYTES)
        return false;
    const uint8_t *line = data + size_bytes - END_LINE_BYTES;
    if (memcmp(line, "end ", 4) != 0 || line[END_LINE_BYTES - 1] != '\n')
        return false;
    memcpy(text, line + 4, 32);
    text[32] = '\0';
    spsh__pack_hash128((spsh_bytes){data, size_bytes - END_LINE_BYTES}, want);
    return spsh__hex128_parse(text, found) && memcmp(want, found, 16) == 0;
}

spsh_status spsh__journal_read(const spsh_io *io, const char *path, spsh__journal *ret_journal,
                               spsh_error *err)
{
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    spsh_status rc = spsh_io_read_file(io, path, JOURNAL_BYTES_MAX, spsh_allocator_default(), &data,
                                       &size_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (!end_line_is_right(data, size_bytes)) {
        free(data);
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: the hash in its last line is missing or wrong",
                         path);
    }
    *ret_journal = (spsh__journal){data, size_bytes - END_LINE_BYTES, 0, path, false};
    return SPSH_OK;
}

bool spsh__journal_take(spsh__journal *journal, const char *name, const char **ret_rest)
{
    size_t length = strlen(name);
    size_t left = journal->size_bytes - journal->at;
    uint8_t *line = journal->data + journal->at;

    if (left <= length || memcmp(line, name, length) != 0 || line[length] != ' ')
        return false;
    uint8_t *end = memchr(line, '\n', left);
    if (end == NULL)
        return false;
    *end = '\0';
    *ret_rest = (const char *)line + length + 1;
    journal->at += (size_t)(end - line) + 1;
    return true;
}

bool spsh__journal_parse(const char *rest, uint64_t *ret_numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!spsh__take_digits(&rest, UINT64_MAX, &ret_numbers[i]) ||
            *rest++ != (i + 1 == count ? '\0' : ' '))
            return false;
    return true;
}

bool spsh__journal_take_numbers(spsh__journal *journal, const char *name, uint64_t *ret_numbers,
                                size_t count)
{
    const char *rest = NULL;
    return spsh__journal_take(journal, name, &rest) &&
           spsh__journal_parse(rest, ret_numbers, count);
}

bool spsh__journal_take_hash(spsh__journal *journal, const char *name, uint8_t ret_hash[16])
{
    const char *rest = NULL;
    return spsh__journal_take(journal, name, &rest) && spsh__hex128_parse(rest, ret_hash);
}

spsh_status spsh__journal_malformed(const spsh__journal *journal, spsh_error *err)
{
    return journal->no_memory
               ? SPSH_NO_MEMORY(err)
               : SPSH_FAIL(err, SPSH_E_CORRUPT,
                           "%s: the file is malformed, or belongs to another plan", journal->path);
}

void spsh__journal_free(spsh__journal *journal)
{
    free(journal->data);
    *journal = (spsh__journal){0};
}
