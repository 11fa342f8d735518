/* kaldi_table.c: see kaldi_table.h. The index is sorted by hash, then by offset. A lookup compares
 * the row itself, so a hash collision costs a read but no error. Hashes are uniform: their upper
 * bits select a bucket of about BUCKET_ROWS adjacent entries. So a lookup has two cache misses,
 * where a binary search would have one per step at first. Small files are kept in memory, because
 * reading each row costs more than everything else.
 */
#include "kaldi_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/file_names.h"
#include "speechshard/inside.h"

#define LINE_BYTES_FIRST ((size_t)512) /* most lines are shorter */
#define LINE_BYTES       ((size_t)16384)
#define WHOLE_BYTES_MAX  ((uint64_t)96 << 20) /* maximum size of a file kept in memory */
#define BUCKET_ROWS      ((size_t)8)

static const spsh__dialect kaldi_dialect = {.kind = SPSH__DIALECT_KALDI};

static spsh_status no_memory(const spsh__kaldi_table *t, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for its rows", t->file.path);
}

static uint64_t hash_key(spsh_bytes key)
{
    return XXH3_64bits(key.data, key.size_bytes);
}

static spsh_status open_reader(const spsh__kaldi_table *t, spsh__row_reader **ret_reader,
                               spsh_error *err)
{
    return spsh__row_reader_new(&t->input, &kaldi_dialect, ret_reader, err);
}

/* Count the rows and check that the keys are strictly ascending. */
static spsh_status check_order(spsh__kaldi_table *t, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    t->sorted = true;
    spsh_status rc = open_reader(t, &reader, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        if (row.problem != NULL)
            continue;
        if (t->row_count++ > 0 &&
            spsh__bytes_compare(spsh__builder_bytes(&t->key), row.fields[0]) >= 0)
            t->sorted = false;
        if (!t->sorted)
            continue;
        spsh__builder_clear(&t->key);
        spsh__builder_append_bytes(&t->key, row.fields[0]);
        if (t->key.failed)
            rc = no_memory(t, err);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__kaldi_table_open(const spsh__view *folder, const char *name,
                                   spsh__kaldi_table *table, spsh_error *err)
{
    spsh__view_info info;
    if (spsh__view_stat(folder, name, &info) == ENOENT)
        return SPSH_OK;
    spsh_status rc = spsh__text_file_open(folder, name, &table->file, err);
    if (rc != SPSH_OK)
        return rc;
    table->exists = true;
    table->input = spsh__text_input_file(&table->file);
    return check_order(table, err);
}

static int compare_entries(const void *a, const void *b)
{
    const spsh__kaldi_entry *x = a;
    const spsh__kaldi_entry *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static size_t bucket_of(const spsh__kaldi_table *t, uint64_t hash)
{
    return (size_t)(((hash >> 32) * (uint64_t)t->bucket_count) >> 32);
}

/* Compute the first entry of each bucket, and the end of the last. */
static spsh_status build_buckets(spsh__kaldi_table *t, spsh_error *err)
{
    const size_t count = (size_t)t->row_count;
    size_t entry = 0;
    t->bucket_count = count / BUCKET_ROWS + 1;
    t->buckets = malloc((t->bucket_count + 1) * sizeof(*t->buckets));
    if (t->buckets == NULL)
        return no_memory(t, err);
    for (size_t bucket = 0; bucket <= t->bucket_count; bucket++) {
        while (entry < count && bucket_of(t, t->entries[entry].hash) < bucket)
            entry++;
        t->buckets[bucket] = entry;
    }
    return SPSH_OK;
}

/* Return the first entry with that hash, or the position where it would be. */
static size_t first_entry(const spsh__kaldi_table *t, uint64_t hash)
{
    const size_t bucket = bucket_of(t, hash);
    size_t low = t->buckets[bucket];
    while (low < t->buckets[bucket + 1] && t->entries[low].hash < hash)
        low++;
    return low;
}

/* Keep the file in memory unless it is too large. */
static spsh_status keep_whole(spsh__kaldi_table *t, spsh_error *err)
{
    if (t->file.size_bytes == 0 || t->file.size_bytes > WHOLE_BYTES_MAX)
        return SPSH_OK;
    t->whole = malloc((size_t)t->file.size_bytes);
    if (t->whole == NULL)
        return no_memory(t, err);
    return t->input.read_at_fn(t->input.user, 0, t->whole, (size_t)t->file.size_bytes,
                               &t->whole_bytes, err);
}

static spsh_status build_index(spsh__kaldi_table *t, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    uint64_t count = 0;
    t->entries = calloc((size_t)t->row_count + 1, sizeof(*t->entries));
    if (t->entries == NULL)
        return no_memory(t, err);
    spsh_status rc = open_reader(t, &reader, err);
    while (rc == SPSH_OK && count < t->row_count &&
           (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        if (row.problem == NULL)
            t->entries[count++] =
                (spsh__kaldi_entry){hash_key(row.fields[0]), row.offset_bytes * 2};
    }
    spsh__row_reader_free(reader);
    t->row_count = count;
    qsort(t->entries, (size_t)count, sizeof(*t->entries), compare_entries);
    if (rc == SPSH_E_END)
        rc = SPSH_OK;
    if (rc == SPSH_OK)
        rc = build_buckets(t, err);
    return rc == SPSH_OK ? keep_whole(t, err) : rc;
}

/* Advance to the next row of the stream, if any. */
static spsh_status advance(spsh__kaldi_table *t, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    do {
        rc = spsh__row_reader_next(t->reader, &t->row, err);
    } while (rc == SPSH_OK && t->row.problem != NULL);
    if (rc == SPSH_E_END)
        t->row.field_count = 0;
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__kaldi_table_begin(spsh__kaldi_table *table, bool keys_sorted, spsh_error *err)
{
    if (!table->exists)
        return SPSH_OK;
    spsh__builder_clear(&table->key);
    if (!keys_sorted || !table->sorted)
        return build_index(table, err);
    spsh_status rc = open_reader(table, &table->reader, err);
    return rc == SPSH_OK ? advance(table, err) : rc;
}

static spsh_status give_unused(spsh__kaldi_table *t, const spsh__row *row, spsh_error *err)
{
    return t->unused_fn == NULL ? SPSH_OK : t->unused_fn(t->user, row, err);
}

/* Find a key in the stream. The row stays until the next find, because its value is borrowed. */
static spsh_status find_in_stream(spsh__kaldi_table *t, spsh_bytes key, bool *ret_found,
                                  spsh_error *err)
{
    while (t->row.field_count > 0) {
        const int order = spsh__bytes_compare(t->row.fields[0], key);
        spsh_status rc = SPSH_OK;
        if (order > 0)
            return SPSH_OK;
        if (order == 0) {
            *ret_found = true;
            t->found_count++;
            return SPSH_OK;
        }
        /* Report the row as unused unless it was found before. */
        if (t->key.size_bytes == 0 ||
            !spsh__bytes_equal(spsh__builder_bytes(&t->key), t->row.fields[0]))
            rc = give_unused(t, &t->row, err);
        if (rc == SPSH_OK)
            rc = advance(t, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

/* Return the row at an offset without its line end. Reads it into line unless the file is in
 * memory. */
static spsh_status read_line(spsh__kaldi_table *t, uint64_t offset_bytes, spsh_bytes *ret_line,
                             spsh_error *err)
{
    if (offset_bytes < t->whole_bytes) {
        const uint8_t *begin = t->whole + offset_bytes;
        const size_t left = t->whole_bytes - (size_t)offset_bytes;
        const uint8_t *end = memchr(begin, '\n', left);
        *ret_line = (spsh_bytes){begin, end == NULL ? left : (size_t)(end - begin)};
        return SPSH_OK;
    }
    size_t got = 0;
    size_t wanted = LINE_BYTES_FIRST;
    bool more = true;
    spsh__builder_clear(&t->line);
    for (; more; wanted = LINE_BYTES) {
        uint8_t *end = spsh__builder_reserve(&t->line, wanted);
        if (end == NULL)
            return no_memory(t, err);
        spsh_status rc = t->input.read_at_fn(t->input.user, offset_bytes + t->line.size_bytes, end,
                                             wanted, &got, err);
        if (rc != SPSH_OK)
            return rc;
        const uint8_t *line_end = got == 0 ? NULL : memchr(end, '\n', got);
        t->line.size_bytes += line_end == NULL ? got : (size_t)(line_end - end);
        more = line_end == NULL && got == wanted && t->line.size_bytes < SPSH__ROW_BYTES_MAX;
    }
    *ret_line = spsh__builder_bytes(&t->line);
    return SPSH_OK;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Whether the line has that key. *ret_value is the rest of the line. */
static bool line_has_key(spsh_bytes line, spsh_bytes key, spsh_bytes *ret_value)
{
    size_t begin = 0;
    size_t end = line.size_bytes;
    const uint8_t *text = line.data;
    while (end > 0 && is_blank(text[end - 1]))
        end--;
    while (begin < end && is_blank(text[begin]))
        begin++;
    if (end - begin < key.size_bytes || memcmp(text + begin, key.data, key.size_bytes) != 0)
        return false;
    begin += key.size_bytes;
    if (begin < end && !is_blank(text[begin]))
        return false;
    while (begin < end && is_blank(text[begin]))
        begin++;
    *ret_value = (spsh_bytes){text + begin, end - begin};
    return true;
}

static spsh_status find_in_index(spsh__kaldi_table *t, spsh_bytes key, bool *ret_found,
                                 spsh_bytes *ret_value, spsh_error *err)
{
    const uint64_t hash = hash_key(key);
    for (size_t i = first_entry(t, hash); i < t->row_count && t->entries[i].hash == hash; i++) {
        spsh_bytes line = {0};
        spsh_status rc = read_line(t, t->entries[i].place / 2, &line, err);
        if (rc != SPSH_OK)
            return rc;
        if (!line_has_key(line, key, ret_value))
            continue;
        t->found_count += (t->entries[i].place & 1) == 0;
        t->entries[i].place |= 1;
        *ret_found = true;
        return SPSH_OK;
    }
    return SPSH_OK;
}

spsh_status spsh__kaldi_table_find(spsh__kaldi_table *table, spsh_bytes key, bool *ret_found,
                                   spsh_bytes *ret_value, spsh_error *err)
{
    *ret_found = false;
    *ret_value = (spsh_bytes){0};
    if (!table->exists)
        return SPSH_OK;
    if (table->entries != NULL)
        return find_in_index(table, key, ret_found, ret_value, err);
    spsh_status rc = find_in_stream(table, key, ret_found, err);
    if (rc != SPSH_OK || !*ret_found)
        return rc;
    spsh__builder_clear(&table->key);
    spsh__builder_append_bytes(&table->key, key);
    *ret_value = table->row.fields[1];
    return table->key.failed ? no_memory(table, err) : SPSH_OK;
}

static bool entry_was_used(const spsh__kaldi_table *t, const spsh__row *row)
{
    const uint64_t hash = hash_key(row->fields[0]);
    for (size_t i = first_entry(t, hash); i < t->row_count && t->entries[i].hash == hash; i++) {
        if (t->entries[i].place / 2 == row->offset_bytes)
            return (t->entries[i].place & 1) != 0;
    }
    return false;
}

static spsh_status end_index(spsh__kaldi_table *t, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    if (t->found_count == t->row_count)
        return SPSH_OK;
    spsh_status rc = open_reader(t, &reader, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        if (row.problem == NULL && !entry_was_used(t, &row))
            rc = give_unused(t, &row, err);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__kaldi_table_end(spsh__kaldi_table *table, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (!table->exists || table->unused_fn == NULL)
        return SPSH_OK;
    if (table->entries != NULL)
        return end_index(table, err);
    while (rc == SPSH_OK && table->row.field_count > 0) {
        if (table->key.size_bytes == 0 ||
            !spsh__bytes_equal(spsh__builder_bytes(&table->key), table->row.fields[0]))
            rc = give_unused(table, &table->row, err);
        if (rc == SPSH_OK)
            rc = advance(table, err);
    }
    return rc;
}

void spsh__kaldi_table_close(spsh__kaldi_table *table)
{
    spsh__row_reader_free(table->reader);
    if (table->exists)
        spsh__text_file_close(&table->file);
    free(table->entries);
    free(table->buckets);
    free(table->whole);
    SPSH__BUILDERS_FREE(&table->line, &table->key);
    *table = (spsh__kaldi_table){0};
}
