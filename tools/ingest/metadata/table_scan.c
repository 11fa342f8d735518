/* table_scan.c: convert the rows of a table to utterances.
 *
 * Ids: without an id column, the id is the path of the audio file without extension. If the table
 * cuts segments out of files, "#start_ns-end_ns" follows. Extensions may be dropped only if no two
 * files differ only by extension. Nearly all tables use a single extension, which one quick pass
 * over the column shows, and are then safe. Only for tables with several extensions are hashes of
 * the paths compared (16 bytes per row, until the colliding paths are known).
 */
#include "table_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "ingest/scan/probe.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "row_segment.h"
#include "speechshard/inside.h"
#include "table_audio.h"

#define PROBE_ROWS 4096U

typedef struct table_scan {
    spsh__scan *scan;
    spsh__text_file file;
    spsh__text_input input;
    const char *name; /* name of the table in the root of the view */
    char *path;       /* path of the table for messages */
    spsh__table_format format;
    spsh__audio_resolver *resolver;
    size_t domain_column;
    spsh_bytes split;     /* split in the table's name, for all rows; empty: none */
    bool mixed;           /* the audio files have several extensions */
    uint64_t *collisions; /* sorted hashes of stems that several files share */
    size_t collision_count;
    spsh__builder plain; /* path of the last row whose extension was looked at */
} table_scan;

static spsh_status no_memory(const table_scan *t, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for a row", t->path);
}

static void table_close(table_scan *t)
{
    spsh__text_file_close(&t->file);
    spsh__table_columns_free(&t->format.columns);
    spsh__audio_resolver_free(t->resolver);
    free(t->path);
    free(t->collisions);
    spsh__builder_free(&t->plain);
}

/* Open the table. The caller closes t also on failure. name is borrowed. */
static spsh_status table_open(table_scan *t, const spsh__view *view, const char *name,
                              spsh__table_quoting quoting, const spsh__column_rules *rules,
                              spsh_error *err)
{
    const char *root = spsh__view_root(view);
    t->file.fd = -1;
    t->name = name;
    if (spsh__view_file(view) != NULL)
        t->path = strdup(root);
    else if (asprintf(&t->path, "%s/%s", root, name) < 0)
        t->path = NULL;
    if (t->path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for its path", name);
    spsh__text_file file = {.fd = -1};
    spsh_status rc = spsh__text_file_open(view, t->name, &file, err);
    if (rc != SPSH_OK)
        return rc;
    t->file = file;
    t->input = spsh__text_input_file(&t->file);
    rc = spsh__table_sniff(&t->input, t->path, quoting, rules, &t->format, err);
    if (rc == SPSH_OK && t->format.found)
        rc = spsh__audio_resolver_new(view, &t->resolver, err);
    return rc;
}

/* Open a reader at the first row after the header row, if any. */
static spsh_status open_rows(const table_scan *t, spsh__row_reader **ret_reader, spsh_error *err)
{
    spsh__row header;
    spsh__row_reader *reader = NULL;
    spsh_status rc = spsh__row_reader_new(&t->input, &t->format.dialect, &reader, err);
    if (rc != SPSH_OK)
        return rc;
    if (!t->format.headless)
        rc = spsh__row_reader_next(reader, &header, err);
    if (rc != SPSH_OK && rc != SPSH_E_END) {
        spsh__row_reader_free(reader);
        return rc;
    }
    *ret_reader = reader;
    return SPSH_OK;
}

static spsh_bytes field(const table_scan *t, const spsh__row *row, spsh__column_role role)
{
    return spsh__row_field(row, t->format.columns.column_of[role]);
}

static bool has_column(const table_scan *t, spsh__column_role role)
{
    return t->format.columns.column_of[role] != SPSH__COLUMN_NONE;
}

static spsh_bytes name_field(const table_scan *t, const spsh__row *row, spsh__column_role role)
{
    const spsh_bytes value = field(t, row, role);
    return spsh__is_placeholder(value) ? (spsh_bytes){0} : value;
}

static uint64_t hash_bytes(spsh_bytes bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < bytes.size_bytes; i++)
        hash = (hash ^ bytes.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

typedef struct stem_hash {
    uint64_t stem, extension;
} stem_hash;

/* Normalize the audio path of a row and split it into stem and extension. */
static bool stem_of_row(table_scan *t, const spsh__row *row, spsh_bytes *ret_stem,
                        spsh_bytes *ret_extension)
{
    const spsh_bytes written = field(t, row, SPSH__COLUMN_AUDIO);
    if (row->problem != NULL || written.size_bytes == 0)
        return false;
    spsh__builder_clear(&t->plain);
    spsh__audio_plain_path(t->resolver, written, &t->plain);
    const spsh_bytes plain = spsh__builder_bytes(&t->plain);
    const size_t stem_bytes = spsh__audio_stem(plain);
    if (t->plain.failed || plain.size_bytes == 0)
        return false;
    *ret_stem = (spsh_bytes){plain.data, stem_bytes};
    *ret_extension = (spsh_bytes){plain.data + stem_bytes, plain.size_bytes - stem_bytes};
    return true;
}

/* Return the stem of the next row that has one. SPSH_E_END after the last row. */
static spsh_status next_stem(table_scan *t, spsh__row_reader *reader, spsh_bytes *ret_stem,
                             spsh_bytes *ret_extension, spsh_error *err)
{
    spsh__row row;
    spsh_status rc = SPSH_OK;
    while ((rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK &&
           !stem_of_row(t, &row, ret_stem, ret_extension)) {
        if (t->plain.failed)
            return no_memory(t, err);
    }
    return rc;
}

/* Check whether the audio column has several extensions. Stops at the second. */
static spsh_status find_mixture(table_scan *t, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh_bytes stem, extension;
    char first[16] = "";
    size_t first_bytes = SIZE_MAX;
    spsh_status rc = open_rows(t, &reader, err);
    while (rc == SPSH_OK && (rc = next_stem(t, reader, &stem, &extension, err)) == SPSH_OK) {
        if (first_bytes == SIZE_MAX && extension.size_bytes <= sizeof(first)) {
            first_bytes = extension.size_bytes;
            memcpy(first, extension.data, extension.size_bytes);
        }
        if (!spsh__bytes_equal(extension, (spsh_bytes){(const uint8_t *)first, first_bytes})) {
            t->mixed = true;
            break;
        }
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static int compare_hashes(const void *a, const void *b)
{
    const stem_hash *x = a;
    const stem_hash *y = b;
    if (x->stem != y->stem)
        return x->stem < y->stem ? -1 : 1;
    if (x->extension != y->extension)
        return x->extension < y->extension ? -1 : 1;
    return 0;
}

/* Keep the stems that occur with several extensions, without repetitions. */
static size_t keep_collisions(const stem_hash *hashes, size_t count, uint64_t *collisions)
{
    size_t kept = 0;
    for (size_t i = 1; i < count; i++) {
        if (hashes[i].stem == hashes[i - 1].stem &&
            hashes[i].extension != hashes[i - 1].extension &&
            (kept == 0 || collisions[kept - 1] != hashes[i].stem))
            collisions[kept++] = hashes[i].stem;
    }
    return kept;
}

static spsh_status hash_rows(table_scan *t, spsh__builder *hashes, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh_bytes stem, extension;
    spsh_status rc = open_rows(t, &reader, err);
    while (rc == SPSH_OK && (rc = next_stem(t, reader, &stem, &extension, err)) == SPSH_OK) {
        const stem_hash hash = {hash_bytes(stem), hash_bytes(extension)};
        spsh__builder_append(hashes, &hash, sizeof(hash));
        if (hashes->failed)
            rc = no_memory(t, err);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status find_collisions(table_scan *t, spsh_error *err)
{
    spsh__builder bytes = {0};
    spsh_status rc = hash_rows(t, &bytes, err);
    const size_t count = bytes.size_bytes / sizeof(stem_hash);
    if (rc != SPSH_OK || count == 0)
        goto out;
    stem_hash *hashes = (stem_hash *)(void *)bytes.data;
    qsort(hashes, count, sizeof(*hashes), compare_hashes);
    t->collisions = malloc(count * sizeof(*t->collisions));
    if (t->collisions == NULL) {
        rc = no_memory(t, err);
        goto out;
    }
    t->collision_count = keep_collisions(hashes, count, t->collisions);
out:
    spsh__builder_free(&bytes);
    return rc;
}

static bool stem_collides(const table_scan *t, spsh_bytes stem)
{
    const uint64_t hash = hash_bytes(stem);
    size_t low = 0;
    size_t high = t->collision_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->collisions[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->collision_count && t->collisions[low] == hash;
}

/* Return a path as an id, without extension if that is unambiguous. */
static spsh_bytes path_id(const table_scan *t, spsh_bytes path, bool keep_extension)
{
    const spsh_bytes stem = {path.data, spsh__audio_stem(path)};
    const bool keep = keep_extension || (t->collision_count > 0 && stem_collides(t, stem));
    return spsh__strings_name(t->scan, keep ? path : stem);
}

static spsh_bytes row_id(const table_scan *t, const spsh__row *row, const spsh__row_segment *cut)
{
    const spsh_bytes id = name_field(t, row, SPSH__COLUMN_ID);
    if (id.size_bytes > 0)
        return id;
    spsh__audio_plain_path(t->resolver, field(t, row, SPSH__COLUMN_AUDIO),
                           spsh__strings_open(t->scan));
    return spsh__row_segment_id(t->scan, path_id(t, spsh__strings_close(t->scan), false), cut);
}

static spsh__row_time row_time(const table_scan *t, const spsh__row *row, spsh__column_role role)
{
    spsh__row_time time = {SPSH__TIME_ABSENT, 0};
    time.result = spsh__table_time(field(t, row, role), t->format.columns.unit_ns[role], &time.ns);
    return time;
}

static spsh_bytes row_split(const table_scan *t, const spsh__row *row)
{
    return t->split.size_bytes > 0 ? t->split : name_field(t, row, SPSH__COLUMN_SPLIT);
}

static spsh_bytes row_domain(const table_scan *t, const spsh__row *row)
{
    if (t->scan->domain_rule == SPSH__DOMAIN_COLUMN) {
        const spsh_bytes value = spsh__row_field(row, t->domain_column);
        return spsh__is_placeholder(value) ? (spsh_bytes){0} : value;
    }
    const spsh_bytes domain = name_field(t, row, SPSH__COLUMN_DOMAIN);
    return domain.size_bytes > 0 ? domain : name_field(t, row, SPSH__COLUMN_LANGUAGE);
}

static spsh_bytes row_text(const table_scan *t, const spsh__row *row)
{
    const spsh_bytes text = field(t, row, SPSH__COLUMN_TEXT);
    return text.size_bytes > 0 ? text : spsh__row_field(row, t->format.text_else);
}

static spsh_status emit_row(table_scan *t, const spsh__row *row, const spsh__audio_file *audio,
                            const spsh__row_segment *cut, const spsh__row_place *place,
                            spsh_error *err)
{
    const spsh_bytes text = row_text(t, row);
    const spsh_bytes path = spsh__bytes_of(audio->path);
    spsh__table_extras(&t->format.columns, row->fields, row->field_count,
                       spsh__strings_open(t->scan));
    const spsh_bytes extras = spsh__strings_close(t->scan);
    spsh_ingest_item item = {
        .audio_path = audio->path,
        .source = spsh__strings_name(t->scan, path),
        .recording_id = path_id(t, path, t->mixed && audio->extension_was_added),
        .id = row_id(t, row, cut),
        .has_text = text.size_bytes > 0,
        .text = text,
        .domain = row_domain(t, row),
        .split = row_split(t, row),
        .speaker = name_field(t, row, SPSH__COLUMN_SPEAKER),
        .language = name_field(t, row, SPSH__COLUMN_LANGUAGE),
        .extras = extras,
        .start_ns = cut->start_ns,
        .end_ns = cut->end_ns,
        .expected_ns = cut->expected_ns,
        .source_bytes = audio->size_bytes,
    };
    return spsh__scan_emit(t->scan, &item, place, err);
}

static spsh_status scan_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    table_scan *t = user;
    const spsh_bytes written = field(t, row, SPSH__COLUMN_AUDIO);
    spsh__audio_file audio;
    spsh_reject reject = {.rows = 1};
    spsh__row_segment cut;
    if (written.size_bytes == 0) {
        reject.reason = SPSH_REJECT_MISSING_AUDIO;
        reject.detail = "the audio column is empty";
        return spsh__scan_reject(t->scan, &reject, place, err);
    }
    if (!spsh__scan_wants_split(t->scan, row_split(t, row))) {
        t->scan->excluded_rows++;
        return SPSH_OK;
    }
    spsh_status rc = spsh__audio_resolve(t->resolver, written, &audio, err);
    if (rc != SPSH_OK)
        return rc;
    if (spsh__audio_refused(&audio, &reject)) {
        reject.source = written;
        return spsh__scan_reject(t->scan, &reject, place, err);
    }
    if (spsh__row_segment_take(row_time(t, row, SPSH__COLUMN_START),
                               row_time(t, row, SPSH__COLUMN_END),
                               row_time(t, row, SPSH__COLUMN_DURATION), &cut))
        return emit_row(t, row, &audio, &cut, place, err);
    reject.reason = SPSH_REJECT_SEGMENT_RANGE;
    reject.source = spsh__bytes_of(audio.path);
    reject.detail = "start and end must be decimal numbers, and end must be later";
    return spsh__scan_reject(t->scan, &reject, place, err);
}

static spsh_status pass_header(void *user, const spsh__row *row, spsh_error *err)
{
    (void)user, (void)row, (void)err;
    return SPSH_OK;
}

static spsh_status scan_rows(table_scan *t, spsh_error *err)
{
    const spsh__row_visitor visitor = {
        .dialect = t->format.dialect,
        .header_fn = t->format.headless ? NULL : pass_header,
        .row_fn = scan_row,
        .user = t,
        .column_count = &t->format.columns.count,
    };
    return spsh__scan_rows(t->scan, &t->input, spsh__bytes_of(t->name), &visitor, err);
}

/* Explain why a file that the user named is not a readable table. */
static spsh_status explain_no_table(const table_scan *t, spsh_error *err)
{
    uint8_t head[81] = {0};
    size_t size = 0;
    spsh_status rc = t->input.read_at_fn(t->input.user, 0, head, sizeof(head) - 1, &size, err);
    if (rc != SPSH_OK)
        return rc;
    if (size >= 2 && ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff)))
        return SPSH_FAIL(
            err, SPSH_E_SYNTAX,
            "%s: the file is UTF-16; convert it to UTF-8 first, for example with iconv", t->path);
    if (size >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the file is compressed; unpack it first",
                         t->path);
    for (size_t i = 0; i < size; i++) {
        if (head[i] == '\n' || head[i] == '\r')
            head[i] = '\0';
        else if (head[i] < 0x20 || head[i] >= 0x7f)
            head[i] = '?';
        if (head[i] == '\0')
            break;
    }
    return SPSH_FAIL(err, SPSH_E_SYNTAX,
                     "%s: the header row has no audio column (path, file, filename, audio, "
                     "wav, clip ...); it begins '%s'",
                     t->path, (const char *)head);
}

/* "train" of "lists/train.csv"; empty if the name is not a split. */
static spsh_bytes split_of_name(const char *name)
{
    const char *base = spsh__base_name(name);
    const spsh_bytes stem = {(const uint8_t *)base, strcspn(base, ".")};
    return spsh__is_split_name(stem) ? stem : (spsh_bytes){0};
}

static spsh_status check_rules(table_scan *t, spsh_error *err)
{
    if (!t->format.found)
        return explain_no_table(t, err);
    if (t->format.unclear_line != 0)
        return SPSH_FAIL(
            err, SPSH_E_SYNTAX,
            "%s: from line %" PRIu64
            " on, quotes may be text or enclose fields, and both fit; choose layout_name table-raw "
            "(quotes are text) or layout_name table-rfc (quotes enclose fields)",
            t->path, t->format.unclear_line);
    if (t->scan->domain_rule == SPSH__DOMAIN_COLUMN) {
        t->domain_column = spsh__table_column_find(&t->format.columns, t->scan->domain_name);
        if (t->domain_column == SPSH__COLUMN_NONE)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: the table has no column '%.60s'",
                             t->path, t->scan->options->domain_rule + strlen("column:"));
    }
    if (t->scan->options->split_by_name && !has_column(t, SPSH__COLUMN_SPLIT))
        t->split = split_of_name(t->name);
    return has_column(t, SPSH__COLUMN_SPLIT) || t->split.size_bytes > 0
               ? SPSH_OK
               : spsh__scan_refuse_split(t->scan, t->name, err);
}

spsh_status spsh__table_note_unused(const spsh__scan *scan, const char *name,
                                    const spsh__table_columns *columns, spsh_error *err)
{
    const bool has_text = columns->column_of[SPSH__COLUMN_TEXT] != SPSH__COLUMN_NONE;
    spsh__builder unused = {0};
    char note[320];
    spsh__table_unused(columns, &unused);
    const spsh_bytes names = spsh__builder_bytes(&unused);
    const size_t shown = names.size_bytes < 120 ? names.size_bytes : 120;
    spsh_status rc = SPSH_OK;
    if (unused.failed)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s: no memory for names of columns", name);
    else if (shown > 0) {
        (void)snprintf(note, sizeof(note),
                       "%.60s%s: columns without a field, kept as extras: %.*s%s (--column %s=NAME "
                       "assigns one)",
                       name, has_text ? "" : " has no text column", (int)shown,
                       (const char *)names.data, shown < names.size_bytes ? " ..." : "",
                       has_text ? "FIELD" : "text");
        rc = spsh__scan_note(scan, note, err);
    }
    spsh__builder_free(&unused);
    return rc;
}

static spsh_status note_split(const table_scan *t, spsh_error *err)
{
    char note[200];
    (void)snprintf(note, sizeof(note),
                   "%.60s: all rows have the split '%.*s', from its name (--split-from none: none)",
                   t->name, (int)t->split.size_bytes, (const char *)t->split.data);
    return spsh__scan_note(t->scan, note, err);
}

spsh_status spsh__table_scan(spsh__scan *scan, const char *name, spsh__table_quoting quoting,
                             spsh_error *err)
{
    const spsh_ingest_options *options = scan->options;
    table_scan t = {.scan = scan, .file = {.fd = -1}};
    const spsh__column_rules rules = {options->columns, options->column_count};
    spsh_status rc = table_open(&t, options->view, name, quoting, &rules, err);
    if (rc == SPSH_OK)
        rc = check_rules(&t, err);
    if (rc == SPSH_OK && !t.format.headless)
        rc = spsh__table_note_unused(scan, t.name, &t.format.columns, err);
    if (rc == SPSH_OK && t.split.size_bytes > 0)
        rc = note_split(&t, err);
    if (rc == SPSH_OK)
        rc = find_mixture(&t, err);
    if (rc == SPSH_OK && t.mixed)
        rc = find_collisions(&t, err);
    if (rc == SPSH_OK)
        rc = scan_rows(&t, err);
    table_close(&t);
    return rc;
}

/* Whether one of the first rows names existing audio. */
static spsh_status rows_resolve(table_scan *t, bool *ret_resolves, spsh_error *err)
{
    spsh__row_reader *reader = NULL;
    spsh__row row;
    *ret_resolves = false;
    spsh_status rc = open_rows(t, &reader, err);
    for (unsigned i = 0; i < PROBE_ROWS && rc == SPSH_OK && !*ret_resolves; i++) {
        spsh__audio_file audio;
        rc = spsh__row_reader_next(reader, &row, err);
        if (rc != SPSH_OK || row.problem != NULL ||
            field(t, &row, SPSH__COLUMN_AUDIO).size_bytes == 0)
            continue;
        rc = spsh__audio_resolve(t->resolver, field(t, &row, SPSH__COLUMN_AUDIO), &audio, err);
        *ret_resolves = rc == SPSH_OK && audio.found == SPSH__AUDIO_FOUND;
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

spsh_status spsh__table_probe(const spsh__view *view, const char *name, spsh__table_quoting quoting,
                              bool given, spsh_layout_probe *probe, bool *ret_has_split,
                              spsh_error *err)
{
    table_scan t = {.file = {.fd = -1}};
    spsh_status rc = table_open(&t, view, name, quoting, NULL, err);
    if (rc == SPSH_OK && t.format.found && ret_has_split != NULL)
        *ret_has_split = has_column(&t, SPSH__COLUMN_SPLIT);
    bool resolves = given && rc == SPSH_OK && t.format.found;
    if (rc == SPSH_OK && t.format.found && !given)
        rc = spsh__view_index_archives(view, err);
    if (rc == SPSH_OK && t.format.found && !given)
        rc = rows_resolve(&t, &resolves, err);
    if (rc == SPSH_OK && resolves && t.format.headless) {
        probe->matches = true;
        spsh__probe_evidence(probe,
                             "%.80s has no header, and %zu fields between pipes, of audio first",
                             t.name, t.format.columns.count);
    } else if (rc == SPSH_OK && resolves) {
        const struct spsh__table_column *column =
            &t.format.columns.columns[t.format.columns.column_of[SPSH__COLUMN_AUDIO]];
        probe->matches = true;
        spsh__probe_evidence(probe, "%.80s has a header with the audio column '%.*s'", t.name,
                             (int)column->name_bytes,
                             (const char *)t.format.columns.text.data + column->name_at);
    }
    table_close(&t);
    return rc;
}
