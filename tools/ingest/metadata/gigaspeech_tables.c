/* gigaspeech_tables.c: see gigaspeech_tables.h.
 *
 *     data/metadata/<subset>_metadata/<subset>_chunks_0000_metadata.csv  sid, speaker, text_tn, ...
 *     data/audio/<subset>_files/<subset>_chunks_0000/<sid>.wav
 *
 * The subsets are nested, so their tables repeat each other. An index of ids (name_index.h: 32 to
 * 64 bytes each) records the emitted segments.
 */
#include "gigaspeech_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/name_index.h"
#include "speechshard/inside.h"
#include "table.h"

#define PROBE_WINDOW   ((size_t)16 << 10)
#define COLUMNS_MAX    ((size_t)64)
#define SUBSET_BYTES   ((size_t)16)
#define PATH_BYTES_MAX ((size_t)1024)
#define CLIP_PLACES    ((size_t)6)
#define TABLE_SUFFIX   "_metadata.csv"

struct spsh__giga_tables {
    spsh__scan *scan;
    spsh__name_index index; /* ids that were emitted */
    uint64_t repeated;
    spsh__builder path;
    /* State of the current table. */
    const char *split;
    char folder[PATH_BYTES_MAX];       /* folder of the table */
    char audio_folder[PATH_BYTES_MAX]; /* "data/audio/xs_files" */
    char chunk[PATH_BYTES_MAX];        /* "xs_chunks_0000" */
    char subset[SUBSET_BYTES];         /* "xs" */
    bool is_wanted;
    size_t last_place; /* location of the last clip */
    unsigned roles[COLUMNS_MAX];
    spsh_bytes column_names[COLUMNS_MAX];
    size_t column_count;
};

static const char *const sources[] = {"audiobook", "podcast", "youtube"};

spsh_bytes spsh__giga_domain(spsh_bytes path)
{
    size_t begin = 0;
    for (size_t i = 0; i < path.size_bytes; i++) {
        if (path.data[i] != '/')
            continue;
        for (size_t k = 0; k < sizeof(sources) / sizeof(sources[0]); k++) {
            if (spsh__bytes_equal((spsh_bytes){path.data + begin, i - begin},
                                  spsh__bytes_of(sources[k])))
                return spsh__bytes_of(sources[k]);
        }
        begin = i + 1;
    }
    return (spsh_bytes){0};
}

void spsh__giga_mark_garbage(spsh__builder *extras, spsh_bytes text)
{
    static const char *const tags[] = {"<SIL>", "<MUSIC>", "<NOISE>", "<OTHER>"};
    const spsh__json_value yes = {.kind = SPSH__JSON_TRUE, .raw = spsh__bytes_of("true")};
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if (spsh__bytes_equal(text, spsh__bytes_of(tags[i])))
            spsh__json_value_member(extras, 0, "non_speech", &yes);
    }
}

spsh_bytes spsh__giga_speaker(spsh__scan *scan, spsh_bytes written)
{
    return spsh__is_placeholder(written) ? (spsh_bytes){0}
                                         : SPSH__JOIN(scan, spsh__bytes_of("gigaspeech/"), written);
}

typedef enum giga_column {
    COLUMN_SID,
    COLUMN_TEXT,
    COLUMN_SPEAKER,
    COLUMN_AID,
    COLUMN_PATH,
    COLUMN_SOURCE,
    COLUMN_EXTRA,
} giga_column;

static const struct {
    const char *name;
    giga_column role;
} column_roles[] = {
    {"sid",                COLUMN_SID    },
    {"segment_id",         COLUMN_SID    },
    {"text_tn",            COLUMN_TEXT   },
    {"text",               COLUMN_TEXT   },
    {"speaker",            COLUMN_SPEAKER},
    {"aid",                COLUMN_AID    },
    {"audio_id",           COLUMN_AID    },
    {"path",               COLUMN_PATH   },
    {"original_full_path", COLUMN_PATH   },
    {"source",             COLUMN_SOURCE },
};

static giga_column column_role(spsh_bytes name)
{
    for (size_t i = 0; i < sizeof(column_roles) / sizeof(column_roles[0]); i++) {
        if (spsh__bytes_equal(name, spsh__bytes_of(column_roles[i].name)))
            return column_roles[i].role;
    }
    return COLUMN_EXTRA;
}

bool spsh__giga_is_table_name(const char *name)
{
    return spsh__ends_with(spsh__bytes_of(name), TABLE_SUFFIX) && strstr(name, "_chunks_") != NULL;
}

static const spsh__dialect csv = {.kind = SPSH__DIALECT_RFC, .delimiter = ','};

/* Whether a header row belongs to such a table. */
static bool is_header(const spsh__row *row)
{
    bool has_id = false;
    bool has_text = false;
    for (size_t i = 0; i < row->field_count; i++) {
        has_id = has_id || column_role(row->fields[i]) == COLUMN_SID;
        has_text = has_text || column_role(row->fields[i]) == COLUMN_TEXT;
    }
    return has_id && has_text;
}

spsh_status spsh__giga_is_table(const spsh__view *view, const char *path, bool *ret_fits,
                                spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__text_file_open(view, path, &file, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__text_input input = spsh__text_input_file(&file);
    input.window_bytes = PROBE_WINDOW;
    rc = spsh__row_reader_new(&input, &csv, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh__row_reader_next(reader, &row, err);
    if (rc == SPSH_OK)
        *ret_fits = is_header(&row);
    spsh__row_reader_free(reader);
    spsh__text_file_close(&file);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status take_header(void *user, const spsh__row *row, spsh_error *err)
{
    spsh__giga_tables *t = user;
    (void)err;
    for (size_t i = 0; i < row->field_count && i < COLUMNS_MAX; i++) {
        t->roles[i] = column_role(row->fields[i]);
        t->column_names[t->column_count++] = SPSH__JOIN(t->scan, row->fields[i]);
    }
    return SPSH_OK;
}

static spsh_bytes field(const spsh__giga_tables *t, const spsh__row *row, giga_column role)
{
    for (size_t i = 0; i < t->column_count && i < row->field_count; i++) {
        if (t->roles[i] == role)
            return row->fields[i];
    }
    return (spsh_bytes){0};
}

/* Return <folder>/<sid>.wav for one of the folders to which the archives may be unpacked. */
static spsh_bytes clip_path(spsh__giga_tables *t, size_t place, spsh_bytes sid)
{
    const char *const folders[CLIP_PLACES] = {
        t->audio_folder, t->audio_folder, t->folder, t->folder, "", ""};
    const spsh_bytes folder = spsh__strings_path(t->scan, spsh__bytes_of(folders[place]),
                                                 spsh__bytes_of(place % 2 == 0 ? t->chunk : ""));
    return spsh__strings_path(t->scan, folder, SPSH__JOIN(t->scan, sid, spsh__bytes_of(".wav")));
}

/* *ret_path is empty if the clip does not exist. */
static spsh_status find_clip(spsh__giga_tables *t, spsh_bytes sid, spsh__view_info *ret_info,
                             spsh_bytes *ret_path, spsh_error *err)
{
    *ret_path = (spsh_bytes){0};
    if (sid.size_bytes == 0 || memchr(sid.data, '\0', sid.size_bytes) != NULL)
        return SPSH_OK;
    for (size_t i = 0; i <= CLIP_PLACES; i++) {
        const size_t place = i == 0 ? t->last_place : i - 1;
        const spsh_bytes path = clip_path(t, place, sid);
        const int os_errno = spsh__view_stat(t->scan->options->view, spsh__text_of(path), ret_info);
        if (os_errno == ENOMEM)
            return SPSH_NO_MEMORY(err);
        if (os_errno != 0 || ret_info->type == SPSH__VIEW_FOLDER)
            continue;
        t->last_place = place;
        *ret_path = path;
        return SPSH_OK;
    }
    return SPSH_OK;
}

static spsh_bytes domain_of_row(spsh__giga_tables *t, const spsh__row *row)
{
    const spsh_bytes source = field(t, row, COLUMN_SOURCE);
    if (t->scan->domain_rule == SPSH__DOMAIN_COLUMN) {
        for (size_t i = 0; i < t->column_count && i < row->field_count; i++) {
            if (spsh__bytes_equal_nocase(t->column_names[i], t->scan->domain_name))
                return spsh__is_placeholder(row->fields[i]) ? (spsh_bytes){0} : row->fields[i];
        }
        return (spsh_bytes){0};
    }
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        const uint8_t digit = (uint8_t)('0' + i);
        if ((source.size_bytes == 1 && source.data[0] == digit) ||
            spsh__bytes_equal(source, spsh__bytes_of(sources[i])))
            return spsh__bytes_of(sources[i]);
    }
    return spsh__giga_domain(field(t, row, COLUMN_PATH));
}

static spsh_bytes make_extras(spsh__giga_tables *t, const spsh__row *row)
{
    spsh__builder *extras = spsh__strings_open(t->scan);
    for (size_t i = 0; i < t->column_count && i < row->field_count; i++) {
        const bool is_extra = t->roles[i] == COLUMN_EXTRA || t->roles[i] == COLUMN_PATH;
        if (is_extra && row->fields[i].size_bytes > 0 && t->column_names[i].size_bytes > 0)
            spsh__json_member(extras, 0, t->column_names[i], row->fields[i]);
    }
    spsh__json_member(extras, 0, spsh__bytes_of("subset"), spsh__bytes_of(t->subset));
    spsh__giga_mark_garbage(extras, field(t, row, COLUMN_TEXT));
    spsh__json_close(extras, 0);
    return spsh__strings_close(t->scan);
}

static spsh_status emit_row(spsh__giga_tables *t, const spsh__row *row, spsh_bytes path,
                            const spsh__view_info *info, const spsh__row_place *place,
                            spsh_error *err)
{
    const spsh_bytes text = field(t, row, COLUMN_TEXT);
    const spsh_bytes source = spsh__strings_name(t->scan, path);
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = source,
        .recording_id = source,
        .id = field(t, row, COLUMN_SID),
        .has_text = text.size_bytes > 0,
        .text = text,
        .domain = domain_of_row(t, row),
        .split = spsh__bytes_of(t->split),
        .speaker = spsh__giga_speaker(t->scan, field(t, row, COLUMN_SPEAKER)),
        .language = spsh__bytes_of("en"),
        .document = field(t, row, COLUMN_AID),
        .extras = make_extras(t, row),
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = info->size_bytes,
    };
    return spsh__scan_emit(t->scan, &item, place, err);
}

static spsh_status take_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    spsh__giga_tables *t = user;
    const spsh_bytes sid = field(t, row, COLUMN_SID);
    spsh_reject reject = {.id = sid, .rows = 1};
    spsh__view_info info = {0};
    spsh_bytes path = {0};
    if (row->field_count > t->column_count) {
        reject.reason = SPSH_REJECT_ROW_FIELD_COUNT;
        reject.detail = "the row has more fields than the header";
        return spsh__scan_reject(t->scan, &reject, place, err);
    }
    if (!t->is_wanted) {
        t->scan->excluded_rows++;
        return SPSH_OK;
    }
    if (spsh__name_index_find(&t->index, sid) != NULL) {
        t->repeated++;
        spsh__scan_merge(t->scan, 1);
        return SPSH_OK;
    }
    spsh_status rc = find_clip(t, sid, &info, &path, err);
    if (rc != SPSH_OK)
        return rc;
    if (path.size_bytes == 0 || info.type != SPSH__VIEW_FILE) {
        reject.reason = path.size_bytes == 0 ? SPSH_REJECT_MISSING_AUDIO : SPSH_REJECT_NOT_REGULAR;
        reject.source = clip_path(t, t->last_place, sid);
        return spsh__scan_reject(t->scan, &reject, place, err);
    }
    if (spsh__name_index_add(&t->index, sid, 1) == NULL)
        return SPSH_NO_MEMORY(err);
    return emit_row(t, row, path, &info, place, err);
}

/* Derive folder, chunk, and subset from the path of a table:
 * "data/metadata/xs_metadata/xs_chunks_0000_metadata.csv". */
static bool name_table(spsh__giga_tables *t, const char *path)
{
    const char *name = spsh__base_name(path);
    const size_t folder = name == path ? 0 : (size_t)(name - path) - 1;
    const char *chunks = strstr(name, "_chunks_");
    const size_t subset = chunks == NULL ? 0 : (size_t)(chunks - name);
    if (subset >= SUBSET_BYTES || folder >= PATH_BYTES_MAX || strlen(name) >= PATH_BYTES_MAX)
        return false;
    t->last_place = 0;
    (void)snprintf(t->folder, sizeof(t->folder), "%.*s", (int)folder, path);
    (void)snprintf(t->chunk, sizeof(t->chunk), "%.*s", (int)(strlen(name) - strlen(TABLE_SUFFIX)),
                   name);
    (void)snprintf(t->subset, sizeof(t->subset), "%.*s", (int)subset, name);
    /* metadata/xs_metadata -> audio/xs_files, metadata/s_metadata_additional -> ... */
    spsh__builder_clear(&t->path);
    for (const char *at = t->folder; *at != '\0';) {
        if (strncmp(at, "metadata/", 9) == 0 && (at == t->folder || at[-1] == '/')) {
            spsh__builder_append_text(&t->path, "audio/");
            at += 9;
        } else if (strncmp(at, "_metadata", 9) == 0) {
            spsh__builder_append_text(&t->path, "_files");
            at += 9;
        } else {
            spsh__builder_append(&t->path, at++, 1);
        }
    }
    const char *audio = spsh__builder_text(&t->path);
    (void)snprintf(t->audio_folder, sizeof(t->audio_folder), "%s", audio == NULL ? "" : audio);
    t->split =
        strcmp(t->subset, "dev") == 0 || strcmp(t->subset, "test") == 0 ? t->subset : "train";
    return audio != NULL;
}

static bool table_is_wanted(const spsh__giga_tables *t)
{
    char upper[SUBSET_BYTES];
    size_t i = 0;
    for (; t->subset[i] != '\0'; i++) {
        const char c = t->subset[i];
        upper[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
    upper[i] = '\0';
    const bool wants_upper = spsh__scan_wants_split(t->scan, spsh__bytes_of(upper));
    return spsh__scan_wants_either(t->scan, spsh__bytes_of(t->split), spsh__bytes_of(t->subset)) ||
           wants_upper;
}

spsh_status spsh__giga_table_scan(spsh__giga_tables *tables, const char *path, spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(tables->scan);
    const spsh__row_visitor visitor = {.dialect = csv,
                                       .header_fn = take_header,
                                       .row_fn = take_row,
                                       .user = tables,
                                       .is_required = true};
    if (!name_table(tables, path))
        return tables->path.failed ? SPSH_NO_MEMORY(err)
                                   : SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the path", path);
    tables->is_wanted = table_is_wanted(tables);
    tables->column_count = 0;
    const spsh_status rc = spsh__scan_file_rows(tables->scan, path, &visitor, err);
    spsh__strings_release(tables->scan, mark);
    return rc;
}

spsh_status spsh__giga_tables_end(spsh__giga_tables *tables, spsh_error *err)
{
    char detail[128];
    if (tables->repeated == 0)
        return SPSH_OK;
    (void)snprintf(detail, sizeof(detail),
                   "%" PRIu64
                   " rows repeat segments of another subset; each segment is packed once",
                   tables->repeated);
    const spsh_reject reject = {
        .reason = SPSH_REJECT_EXCLUDED_BY_RULE, .source = spsh__bytes_of("."), .detail = detail};
    return spsh__scan_reject(tables->scan, &reject, NULL, err);
}

spsh_status spsh__giga_tables_new(spsh__scan *scan, spsh__giga_tables **ret_tables, spsh_error *err)
{
    spsh__giga_tables *tables = calloc(1, sizeof(*tables));
    if (tables == NULL)
        return SPSH_NO_MEMORY(err);
    tables->scan = scan;
    *ret_tables = tables;
    return SPSH_OK;
}

void spsh__giga_tables_free(spsh__giga_tables *tables)
{
    if (tables == NULL)
        return;
    spsh__name_index_free(&tables->index);
    spsh__builder_free(&tables->path);
    free(tables);
}
