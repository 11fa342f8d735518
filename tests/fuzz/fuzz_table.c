/* fuzz_table.c: tables, as rows of fields and as a corpus.
 *
 * The first byte selects the dialect and the options; the rest is the table. Every dialect reads
 * the table through a small window. A table with an audio column is then scanned like a manifest of
 * a user (from a memory file). The scan checks whether its paths exist, but opens none of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>

#include "common/file_names.h"
#include "common/row_reader.h"
#include "ingest/layouts/layouts.h"
#include "ingest/metadata/table.h"
#include "speechshard/inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void read_rows(const spsh__text_memory *memory, const spsh__dialect *dialect,
                      size_t window_bytes)
{
    spsh__text_input input = spsh__text_input_memory(memory, "fuzz");
    spsh__row_reader *reader = NULL;
    spsh__row row;
    uint64_t offset = 0;
    uint64_t line = 0;
    spsh_status rc;
    input.window_bytes = window_bytes;
    must(spsh__row_reader_new(&input, dialect, &reader, NULL) == SPSH_OK);
    while ((rc = spsh__row_reader_next(reader, &row, NULL)) == SPSH_OK) {
        must(row.line > line && (line == 0 || row.offset_bytes > offset));
        must(row.offset_bytes + row.raw.size_bytes <= memory->size_bytes);
        must(row.raw.size_bytes == 0 ||
             memcmp(row.raw.data, memory->data + row.offset_bytes, row.raw.size_bytes) == 0);
        must((row.problem == NULL) == (row.field_count > 0));
        size_t bytes = 0;
        for (size_t i = 0; i < row.field_count; i++)
            bytes += row.fields[i].size_bytes;
        must(bytes <= row.raw.size_bytes);
        line = row.line;
        offset = row.offset_bytes;
    }
    must(rc == SPSH_E_END);
    spsh__row_reader_free(reader);
}

static spsh_status take_item(void *user, const spsh_ingest_item *item, spsh_error *err)
{
    uint64_t *items = user;
    (void)err;
    must(item->id.size_bytes > 0 && item->id.size_bytes <= 4096 && spsh__utf8_valid(item->id));
    must(item->recording_id.size_bytes > 0 && item->domain.size_bytes > 0);
    must(spsh__utf8_valid(item->text) && spsh__utf8_valid(item->source));
    must(item->end_ns > item->start_ns);
    if (item->extras.size_bytes > 0) {
        json_t *extras = json_loadb((const char *)item->extras.data, item->extras.size_bytes,
                                    JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        /* jansson accepts no NUL in a key; our keys may contain one. */
        must(json_is_object(extras) || memchr(item->extras.data, '\\', item->extras.size_bytes));
        json_decref(extras);
    }
    ++*items;
    return SPSH_OK;
}

static spsh_status take_reject(void *user, const spsh_reject *reject, spsh_error *err)
{
    uint64_t *items = user;
    (void)err;
    const bool is_kept = reject->reason == SPSH_REJECT_TEXT_CONTROL_CHARS;
    must(reject->excerpt.size_bytes <= 200 && reject->rows == (is_kept ? 0 : 1));
    must(reject->reason < SPSH_REJECT_COUNT);
    *items += reject->rows;
    return SPSH_OK;
}

static void scan_as_corpus(const uint8_t *data, size_t size, uint8_t choice)
{
    static const char *const layouts[] = {"table", "table-raw", "table-rfc"};
    static int fd = -1;
    char path[64];
    uint64_t items = 0;
    if (fd < 0)
        fd = memfd_create("fuzz_table", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    spsh__view *view = NULL;
    const spsh__view_options view_options = {.root = path};
    must(spsh__view_open(&view_options, &view, NULL) == SPSH_OK);
    const spsh_ingest_options options = {
        .view = view, .domain_rule = choice % 5 == 0 ? "column:text" : NULL, .split_filter = NULL};
    const spsh_ingest_sink sink = {.emit_fn = take_item, .reject_fn = take_reject, .user = &items};
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc =
        spsh__layout_scan(spsh__layout_find(layouts[choice % 3]), &options, &sink, &err);
    must(rc == SPSH_OK || err.message[0] != '\0');
    spsh__view_close(view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t delimiters[] = {'\t', ',', '|', ';'};
    if (size == 0)
        return 0;
    const uint8_t choice = data[0];
    const spsh__text_memory memory = {data + 1, size - 1};
    spsh__text_input input = spsh__text_input_memory(&memory, "fuzz");
    input.window_bytes = 256;
    for (int kind = SPSH__DIALECT_RAW; kind <= SPSH__DIALECT_KALDI; kind++) {
        const spsh__dialect dialect = {.kind = (spsh__dialect_kind)kind,
                                       .delimiter = delimiters[choice & 3],
                                       .comment = ';',
                                       .cuts_max = choice >> 6};
        read_rows(&memory, &dialect, 16 + (choice >> 2));
    }
    spsh__table_format format = {0};
    must(spsh__table_sniff(&input, choice & 4 ? "t.csv" : "t.tsv", SPSH__TABLE_QUOTING_DECIDE, NULL,
                           &format, NULL) == SPSH_OK);
    /* Checking whether files exist is slow, so three of four inputs skip it. */
    if (format.found && (choice & 0x30) == 0)
        scan_as_corpus(memory.data, memory.size_bytes, choice);
    spsh__table_columns_free(&format.columns);
    return 0;
}
