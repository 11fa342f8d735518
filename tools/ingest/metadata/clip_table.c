/* clip_table.c: see clip_table.h.
 *
 * A hash index holds the state of each clip name: its folder, and the first table that named it.
 * The folders are listed into the index, then the tables are read. Rows of clips that an earlier
 * row named are ignored, so that a clip in train and in validated is one utterance.
 */
#include "clip_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/view/name_index.h"
#include "ingest/view/path_list.h"
#include "ingest/view/text_file.h"
#include "speechshard/inside.h"
#include "table.h"

#define COLUMNS_MAX     ((size_t)128)
#define NAME_BYTES_MAX  ((size_t)255)
#define AHEAD_BYTES_MAX ((size_t)1024)
#define YEAR_BYTES      ((size_t)4)
#define STATE_KNOWN     UINT32_C(1)
#define STATE_ON_DISK   UINT32_C(2)
#define STATE_SPECIAL   UINT32_C(4)
#define STATE_AUDIO     UINT32_C(8) /* the name is an audio name: an orphan if no row has it */
#define STATE_ROW       UINT32_C(16)
#define TABLE_SHIFT     8 /* index of the first table that named it */
#define TABLE_MASK      UINT32_C(15)

typedef struct clip_column {
    spsh__clip_role role; /* SPSH__CLIP_ROLES: extra */
    bool is_repeated;     /* an earlier column has the same name and is used instead */
    size_t name_at, name_bytes;
} clip_column;

typedef struct clip_scan {
    spsh__scan *scan;
    const spsh__clip_form *form;
    const spsh__clip_tree *tree;
    size_t table; /* index of the table being read */
    size_t column_of[SPSH__CLIP_ROLES];
    clip_column columns[COLUMNS_MAX];
    size_t column_count;
    size_t domain_column;    /* --domain column:NAME */
    spsh__name_index index;  /* value: index of the folder */
    spsh__path_list folders; /* folders of clips; the first is tree->clips */
    size_t folder;           /* index of the folder being listed, or of the row's clip */
    spsh__builder names, file, written, clip, path, source, id, speaker, domain, extras;
} clip_scan;

bool spsh__is_locale(spsh_bytes text)
{
    size_t letters = 0;
    while (letters < text.size_bytes && text.data[letters] >= 'a' && text.data[letters] <= 'z')
        letters++;
    if (letters < 2 || letters > 3)
        return false;
    for (size_t i = letters; i < text.size_bytes; i++) {
        const uint8_t c = text.data[i];
        if (c != '-' && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
            !(c >= 'A' && c <= 'Z'))
            return false;
    }
    return letters == text.size_bytes || text.data[letters] == '-';
}

/* ---- the folders of clips ---- */

/* Append the clip's path relative to the root to path. */
static void append_clip_path(const clip_scan *c, spsh__builder *path)
{
    const char *folder = c->folders.paths[c->folder];
    spsh__builder_append_part(path, folder);
    if (folder[0] != '\0')
        spsh__builder_append(path, "/", 1);
    spsh__builder_append_bytes(path, spsh__builder_bytes(&c->clip));
}

/* Type of a link's target. A dangling link counts as a file: the packer reports the error. */
static spsh__view_type look_behind(clip_scan *c)
{
    spsh__view_info info = {.type = SPSH__VIEW_FILE};
    spsh__builder_clear(&c->path);
    append_clip_path(c, &c->path);
    const char *path = spsh__builder_text(&c->path);
    if (path == NULL || spsh__view_stat(c->scan->options->view, path, &info) != 0)
        return SPSH__VIEW_FILE;
    return info.type;
}

/* Enter a name into the index. c->clip: the entry's name in the form that rows use. */
static spsh_status enter_clip(clip_scan *c, spsh__view_type type, spsh_error *err)
{
    uint32_t state = STATE_KNOWN | STATE_ON_DISK;
    const spsh_bytes name = spsh__builder_bytes(&c->clip);
    if (type == SPSH__VIEW_LINK)
        type = look_behind(c);
    if (type == SPSH__VIEW_FOLDER)
        return SPSH_OK;
    if (type == SPSH__VIEW_SPECIAL)
        state |= STATE_SPECIAL;
    if (spsh__is_audio_name(name))
        state |= STATE_AUDIO;
    if (c->folder == 0)
        return spsh__name_index_mark(&c->index, name, state, 0) ? SPSH_OK : SPSH_NO_MEMORY(err);
    if (spsh__name_index_find(&c->index, name) != NULL)
        return SPSH_OK;
    spsh__name_slot *slot = spsh__name_index_add(&c->index, name, state);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    slot->value = c->folder;
    return SPSH_OK;
}

static spsh_status report_orphan(clip_scan *c, spsh_error *err)
{
    const spsh__name_slot *slot = spsh__name_index_find(&c->index, spsh__builder_bytes(&c->clip));
    if (slot == NULL || (slot->state & STATE_ROW) != 0 || (slot->state & STATE_AUDIO) == 0)
        return SPSH_OK;
    spsh__builder_clear(&c->source);
    append_clip_path(c, &c->source);
    const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                                .source = spsh__builder_bytes(&c->source),
                                .detail = "no table has a row for it"};
    return c->source.failed ? SPSH_NO_MEMORY(err) : spsh__scan_reject(c->scan, &reject, NULL, err);
}

static bool is_year(const char *name)
{
    return strlen(name) == YEAR_BYTES && strspn(name, "0123456789") == YEAR_BYTES;
}

static spsh_status list_clips(clip_scan *c, const char *year, bool report, spsh_error *err);

/* Handle one entry of the clip folder or of a year's folder in it. */
static spsh_status list_entry(clip_scan *c, const spsh__view_entry *entry, const char *year,
                              bool report, spsh_error *err)
{
    if (c->form->in_year_folders && year[0] == '\0')
        return is_year(entry->name) ? list_clips(c, entry->name, report, err) : SPSH_OK;
    spsh__builder_clear(&c->clip);
    spsh__builder_append_part(&c->clip, year);
    spsh__builder_append_part(&c->clip, entry->name);
    if (c->clip.failed)
        return SPSH_NO_MEMORY(err);
    if (report)
        return report_orphan(c, err);
    spsh_status rc = enter_clip(c, entry->type, err);
    return rc == SPSH_OK ? spsh__scan_progress(c->scan, 1, err) : rc;
}

/* Enter all names of the clip folder or of a year's folder in it, or report the names that no row
 * had. */
static spsh_status list_clips(clip_scan *c, const char *year, bool report, spsh_error *err)
{
    char name[YEAR_BYTES + 1]; /* a copy, because year is valid only until the next entry */
    spsh__view_entry entry;
    spsh_status rc = SPSH_OK;
    (void)snprintf(name, sizeof(name), "%s", year);
    spsh__builder_clear(&c->path);
    spsh__builder_append_part(&c->path, c->folders.paths[c->folder]);
    spsh__builder_append_part(&c->path, name);
    const char *path = spsh__builder_text(&c->path);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__view_folder *folder = spsh__view_folder_open(c->scan->options->view, path);
    if (folder == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    if (folder == NULL && name[0] != '\0')
        return SPSH_OK; /* a file with the name of a year */
    if (folder == NULL)
        return spsh__scan_walk_note(c->scan, SPSH__WALK_UNREADABLE, path, errno, err);
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (entry.name[0] != '.' && !spsh__is_ignored_name(entry.name))
            rc = list_entry(c, &entry, name, report, err);
    }
    const int os_errno = rc == SPSH_OK ? errno : 0; /* not 0: the listing is incomplete */
    spsh__view_folder_close(folder);
    if (rc == SPSH_OK && !spsh__name_index_settle(&c->index))
        return SPSH_NO_MEMORY(err);
    if (os_errno == 0 || report)
        return rc;
    spsh__builder_clear(&c->path);
    spsh__builder_append_part(&c->path, c->folders.paths[c->folder]);
    spsh__builder_append_part(&c->path, name);
    path = spsh__builder_text(&c->path);
    return path == NULL ? SPSH_NO_MEMORY(err)
                        : spsh__scan_walk_note(c->scan, SPSH__WALK_UNREADABLE, path, os_errno, err);
}

static spsh_status list_all_clips(clip_scan *c, bool report, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (c->folder = 0; c->folder < c->folders.count && rc == SPSH_OK; c->folder++)
        rc = list_clips(c, "", report, err);
    c->folder = 0;
    return rc;
}

static spsh_status add_folder(clip_scan *c, const char *parent, const char *name, spsh_error *err)
{
    return spsh__path_list_add(&c->folders, parent, name) ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* Find the clip folders: the tree's folder and the folders below it, sorted at each level.
 * list_clips reports the folders that cannot be listed. */
static spsh_status find_folders(clip_scan *c, spsh_error *err)
{
    const spsh__view *view = c->scan->options->view;
    size_t begin = 0;
    spsh_status rc = add_folder(c, c->tree->path, c->tree->clips, err);
    for (unsigned level = 0; level < c->tree->depth; level++) {
        const size_t end = c->folders.count;
        for (; begin < end && rc == SPSH_OK; begin++) {
            spsh__view_entry entry;
            spsh__view_folder *folder = spsh__view_folder_open(view, c->folders.paths[begin]);
            if (folder == NULL && errno == ENOMEM)
                return SPSH_NO_MEMORY(err);
            while (folder != NULL && rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
                if (entry.enters && entry.name[0] != '.' && !spsh__is_ignored_name(entry.name))
                    rc = add_folder(c, c->folders.paths[begin], entry.name, err);
            }
            spsh__view_folder_close(folder);
        }
        spsh__path_list_sort(&c->folders, end);
    }
    return rc;
}

/* ---- columns ---- */

static spsh__clip_role role_of(const spsh__clip_form *form, spsh_bytes name)
{
    for (size_t role = 0; role < SPSH__CLIP_ROLES; role++) {
        if (form->columns[role] != NULL &&
            spsh__bytes_equal(name, spsh__bytes_of(form->columns[role])))
            return (spsh__clip_role)role;
    }
    return SPSH__CLIP_ROLES;
}

static spsh_bytes column_name(const clip_scan *c, size_t column)
{
    return (spsh_bytes){c->names.data + c->columns[column].name_at, c->columns[column].name_bytes};
}

static spsh_status add_column(clip_scan *c, spsh_bytes name, spsh_error *err)
{
    clip_column *column = &c->columns[c->column_count];
    *column = (clip_column){role_of(c->form, name), false, c->names.size_bytes, name.size_bytes};
    for (size_t i = 0; i < c->column_count && !column->is_repeated; i++)
        column->is_repeated = spsh__bytes_equal(column_name(c, i), name);
    spsh__builder_append_bytes(&c->names, name);
    if (c->names.failed)
        return SPSH_NO_MEMORY(err);
    if (!column->is_repeated && column->role != SPSH__CLIP_ROLES)
        c->column_of[column->role] = c->column_count;
    c->column_count++;
    return SPSH_OK;
}

/* Report repeated columns, as in an intermediate release of Common Voice. */
static spsh_status tell_repeated(clip_scan *c, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < c->column_count && rc == SPSH_OK; i++) {
        char detail[128];
        const spsh_bytes name = column_name(c, i);
        const spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                                    .source = spsh__builder_bytes(&c->file),
                                    .detail = detail};
        (void)snprintf(detail, sizeof(detail),
                       "the column '%.*s' stands there twice: the first counts",
                       (int)(name.size_bytes < 60 ? name.size_bytes : 60), (const char *)name.data);
        if (c->columns[i].is_repeated)
            rc = spsh__scan_reject(c->scan, &reject, NULL, err);
    }
    return rc;
}

static spsh_status take_header(clip_scan *c, const spsh__row *row, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    c->column_count = 0;
    spsh__builder_clear(&c->names);
    for (size_t role = 0; role < SPSH__CLIP_ROLES; role++)
        c->column_of[role] = SPSH__COLUMN_NONE;
    for (size_t i = 0; i < row->field_count && i < COLUMNS_MAX && rc == SPSH_OK; i++)
        rc = add_column(c, row->fields[i], err);
    if (rc == SPSH_OK)
        rc = tell_repeated(c, err);
    c->domain_column = SPSH__COLUMN_NONE;
    if (rc != SPSH_OK || c->scan->domain_rule != SPSH__DOMAIN_COLUMN)
        return rc;
    for (size_t i = 0; i < c->column_count && c->domain_column == SPSH__COLUMN_NONE; i++) {
        if (spsh__bytes_equal_nocase(column_name(c, i), c->scan->domain_name))
            c->domain_column = i;
    }
    if (c->domain_column == SPSH__COLUMN_NONE)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%.*s: has no column '%.60s'",
                         (int)c->file.size_bytes, (const char *)c->file.data,
                         c->scan->options->domain_rule + strlen("column:"));
    return SPSH_OK;
}

static spsh_bytes field(const clip_scan *c, const spsh__row *row, spsh__clip_role role)
{
    return spsh__row_field(row, c->column_of[role]);
}

/* ---- rows ---- */

/* Strip the clip folder from a path, because some tables include it. */
static spsh_bytes below_clips(const clip_scan *c, spsh_bytes written)
{
    const spsh_bytes folder = spsh__bytes_of(c->tree->clips);
    const size_t prefix = folder.size_bytes + 1;
    if (written.size_bytes > prefix && written.data[prefix - 1] == '/' &&
        memcmp(written.data, folder.data, folder.size_bytes) == 0)
        return (spsh_bytes){written.data + prefix, written.size_bytes - prefix};
    return written;
}

/* Prefetch the slot of the next row's clip. */
static void expect_clip(const clip_scan *c, spsh_bytes ahead)
{
    const uint8_t *at = ahead.data;
    size_t left = ahead.size_bytes < AHEAD_BYTES_MAX ? ahead.size_bytes : AHEAD_BYTES_MAX;
    if (c->column_of[SPSH__CLIP_PATH] == SPSH__COLUMN_NONE)
        return;
    for (size_t column = 0; left > 0; column++) {
        const uint8_t *end = memchr(at, c->form->dialect.delimiter, left);
        const size_t size = end == NULL ? 0 : (size_t)(end - at);
        if (end == NULL)
            return;
        if (column == c->column_of[SPSH__CLIP_PATH]) {
            spsh__name_index_expect(&c->index, below_clips(c, (spsh_bytes){at, size}));
            return;
        }
        at = end + 1;
        left -= size + 1;
    }
}

/* Find the slot of the row's clip. c->clip becomes its name in the clip folder. */
static spsh__name_slot *find_clip(clip_scan *c, spsh_bytes written)
{
    written = below_clips(c, written);
    spsh__builder_clear(&c->clip);
    if (c->form->in_year_folders && written.size_bytes > YEAR_BYTES) {
        spsh__builder_append(&c->clip, written.data, YEAR_BYTES);
        spsh__builder_append(&c->clip, "/", 1);
    }
    spsh__builder_append_bytes(&c->clip, written);
    spsh__name_slot *slot = spsh__name_index_find(&c->index, spsh__builder_bytes(&c->clip));
    if (slot == NULL && c->form->extension != NULL && !spsh__is_audio_name(written)) {
        spsh__builder_append_text(&c->clip, c->form->extension);
        slot = spsh__name_index_find(&c->index, spsh__builder_bytes(&c->clip));
    }
    if (slot == NULL && !c->clip.failed)
        slot = spsh__name_index_add(&c->index, spsh__builder_bytes(&c->clip), STATE_KNOWN);
    return c->clip.failed ? NULL : slot;
}

static spsh_bytes row_split(const clip_scan *c, const spsh__row *row)
{
    const char *split = c->tree->tables[c->table].split;
    const spsh_bytes written = field(c, row, SPSH__CLIP_SPLIT);
    return written.size_bytes > 0 || split == NULL ? written : spsh__bytes_of(split);
}

static bool is_wanted(const clip_scan *c, spsh_bytes split)
{
    const char *left = c->form->left_split;
    if (c->scan->options->split_filter == NULL)
        return !c->tree->tables[c->table].only_when_asked &&
               (left == NULL || !spsh__bytes_equal(split, spsh__bytes_of(left)));
    return spsh__scan_wants_split(c->scan, split);
}

static spsh_status reject_clip(clip_scan *c, spsh_reject reject, const spsh__row_place *place,
                               spsh_error *err)
{
    spsh__builder_clear(&c->source);
    append_clip_path(c, &c->source);
    reject.source = spsh__builder_bytes(&c->source);
    return c->source.failed ? SPSH_NO_MEMORY(err) : spsh__scan_reject(c->scan, &reject, place, err);
}

/* Handle a row for a clip that an earlier row named. */
static spsh_status pass_over(clip_scan *c, uint32_t state, const spsh__row_place *place,
                             spsh_error *err)
{
    char detail[160];
    const size_t first = (state >> TABLE_SHIFT) & TABLE_MASK;
    const spsh__clip_table *before = &c->tree->tables[first];
    const spsh__clip_table *now = &c->tree->tables[c->table];
    spsh_reject reject = {.reason = SPSH_REJECT_SPLIT_CONFLICT, .detail = detail};
    if (before != now)
        spsh__scan_merge(c->scan, 1);
    if (before != now && before->is_exclusive && now->holds_exclusive)
        return SPSH_OK;
    if (before == now) {
        reject.reason = SPSH_REJECT_DUP_ID;
        reject.detail = "an earlier row of the table has this clip";
        reject.rows = 1;
    } else {
        (void)snprintf(detail, sizeof(detail), "%.60s has this clip too, and keeps it",
                       before->name);
    }
    return reject_clip(c, reject, place, err);
}

static void set_extras(clip_scan *c, const spsh__row *row)
{
    spsh__builder_clear(&c->extras);
    for (size_t i = 0; i < row->field_count && i < c->column_count; i++) {
        const clip_column *column = &c->columns[i];
        if ((column->role == SPSH__CLIP_ROLES || column->role == SPSH__CLIP_DURATION) &&
            !column->is_repeated && row->fields[i].size_bytes > 0)
            spsh__json_member(&c->extras, 0, column_name(c, i), row->fields[i]);
    }
    spsh__json_close(&c->extras, 0);
}

/* Whether the locale is a variant folder: "cy-southwes" holds copies of clips of "cy", as the ids
 * show. */
static bool is_variant(const clip_scan *c, spsh_bytes locale)
{
    const char *name = c->tree->name;
    return locale.size_bytes > 0 && strlen(name) > locale.size_bytes &&
           memcmp(name, locale.data, locale.size_bytes) == 0 && name[locale.size_bytes] == '-';
}

static void set_id(clip_scan *c, const spsh__row *row, spsh_bytes locale)
{
    const spsh_bytes given = field(c, row, SPSH__CLIP_ID);
    spsh_bytes clip = spsh__builder_bytes(&c->clip);
    if (c->form->in_year_folders && clip.size_bytes > YEAR_BYTES + 1)
        clip = (spsh_bytes){clip.data + YEAR_BYTES + 1, clip.size_bytes - YEAR_BYTES - 1};
    spsh__builder_clear(&c->id);
    if (is_variant(c, locale)) {
        spsh__builder_append_text(&c->id, c->tree->name);
        spsh__builder_append(&c->id, "/", 1);
    }
    spsh__builder_append_text(&c->id, c->tree->id_prefix);
    if (given.size_bytes > 0)
        spsh__builder_append_bytes(&c->id, given);
    else
        spsh__name_append(&c->id, (spsh_bytes){clip.data, spsh__audio_stem(clip)});
}

static void set_names(clip_scan *c, const spsh__row *row, spsh_bytes locale)
{
    const spsh_bytes speaker = field(c, row, SPSH__CLIP_SPEAKER);
    spsh__builder_clear(&c->speaker);
    if (!spsh__is_placeholder(speaker)) {
        spsh__builder_append_text(&c->speaker, c->form->corpus);
        spsh__builder_append(&c->speaker, "/", 1);
        spsh__builder_append_bytes(&c->speaker, speaker);
    }
    spsh__builder_clear(&c->domain);
    if (c->domain_column != SPSH__COLUMN_NONE) {
        spsh__builder_append_bytes(&c->domain, spsh__row_field(row, c->domain_column));
    } else {
        spsh__builder_append_text(&c->domain, c->form->corpus);
        spsh__builder_append(&c->domain, "/", 1);
        spsh__builder_append_bytes(&c->domain, locale);
    }
    spsh__builder_clear(&c->path);
    append_clip_path(c, &c->path);
    spsh__builder_clear(&c->source);
    spsh__name_append(&c->source, spsh__builder_bytes(&c->path));
}

/* "en" of "en_accented"; empty if it is not a locale. */
static spsh_bytes language_of(spsh_bytes locale)
{
    const uint8_t *end =
        locale.size_bytes == 0 ? NULL : memchr(locale.data, '_', locale.size_bytes);
    if (end != NULL)
        locale.size_bytes = (size_t)(end - locale.data);
    return spsh__is_locale(locale) ? locale : (spsh_bytes){0};
}

static spsh_bytes subset_of(const clip_scan *c)
{
    return c->tree->subset == NULL ? (spsh_bytes){0} : spsh__bytes_of(c->tree->subset);
}

static uint64_t row_length(const clip_scan *c, const spsh__row *row)
{
    uint64_t length_ns = 0;
    const spsh_bytes written = field(c, row, SPSH__CLIP_DURATION);
    const spsh__time_result result =
        spsh__table_time(written, c->form->duration_unit_ns, &length_ns);
    return result == SPSH__TIME_OK ? length_ns : 0;
}

static spsh_status emit_row(clip_scan *c, const spsh__row *row, spsh_bytes split,
                            const spsh__row_place *place, spsh_error *err)
{
    const spsh_bytes text = field(c, row, SPSH__CLIP_TEXT);
    spsh_bytes locale = field(c, row, SPSH__CLIP_LOCALE);
    if (spsh__is_placeholder(locale))
        locale = spsh__bytes_of(c->tree->locale);
    set_id(c, row, locale);
    set_names(c, row, locale);
    set_extras(c, row);
    spsh_ingest_item item = {
        .audio_path = spsh__builder_text(&c->path),
        .source = spsh__builder_bytes(&c->source),
        .recording_id = spsh__builder_bytes(&c->id),
        .id = spsh__builder_bytes(&c->id),
        .has_text = text.size_bytes > 0,
        .text = text,
        .domain = spsh__builder_bytes(&c->domain),
        .split = spsh__is_placeholder(split) ? (spsh_bytes){0} : split,
        .subset = subset_of(c),
        .speaker = spsh__builder_bytes(&c->speaker),
        .language = language_of(locale),
        .document = field(c, row, SPSH__CLIP_DOCUMENT),
        .extras = spsh__builder_bytes(&c->extras),
        .end_ns = SPSH_SEGMENT_END,
        .expected_ns = row_length(c, row),
        .source_bytes = SPSH_SOURCE_BYTES_UNKNOWN,
    };
    if (item.audio_path == NULL || c->source.failed || c->id.failed || c->speaker.failed ||
        c->domain.failed || c->extras.failed)
        return SPSH_NO_MEMORY(err);
    return spsh__scan_emit(c->scan, &item, place, err);
}

/* Emit a row whose clip no earlier row named. */
static spsh_status take_row(clip_scan *c, const spsh__row *row, uint32_t state,
                            const spsh__row_place *place, spsh_error *err)
{
    spsh_reject reject = {.rows = 1};
    const spsh_bytes split = row_split(c, row);
    if (row->field_count > c->column_count) {
        reject.reason = SPSH_REJECT_ROW_FIELD_COUNT;
        reject.detail = "the row has more fields than the header";
        return spsh__scan_reject(c->scan, &reject, place, err);
    }
    const bool is_there = (state & STATE_ON_DISK) != 0 && (state & STATE_SPECIAL) == 0;
    if (!is_wanted(c, split)) {
        const spsh_ingest_item item = {.subset = subset_of(c)};
        if (is_there)
            spsh__scan_exclude(c->scan, &item);
        else
            c->scan->excluded_rows++;
        return SPSH_OK;
    }
    if (is_there)
        return emit_row(c, row, split, place, err);
    reject.reason =
        (state & STATE_SPECIAL) != 0 ? SPSH_REJECT_NOT_REGULAR : SPSH_REJECT_MISSING_AUDIO;
    return reject_clip(c, reject, place, err);
}

/* The row's clip name; empty if the row names none. */
static spsh_bytes row_path(clip_scan *c, const spsh__row *row)
{
    const spsh_bytes written = field(c, row, SPSH__CLIP_PATH);
    if (!c->form->document_before_path || written.size_bytes == 0)
        return written;
    spsh__builder_clear(&c->written);
    spsh__builder_append_bytes(&c->written, field(c, row, SPSH__CLIP_DOCUMENT));
    spsh__builder_append(&c->written, "-", 1);
    spsh__builder_append_bytes(&c->written, written);
    return spsh__builder_bytes(&c->written);
}

static spsh_status scan_row(clip_scan *c, const spsh__row *row, spsh_error *err)
{
    const spsh__row_place place = {spsh__builder_bytes(&c->file), row->line, row->offset_bytes,
                                   row->raw};
    const spsh_bytes written = row_path(c, row);
    spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = row->problem, .rows = 1};
    if (spsh__row_is_blank(row))
        return SPSH_OK;
    if (row->problem != NULL)
        return spsh__scan_reject(c->scan, &reject, &place, err);
    if (written.size_bytes == 0 || written.size_bytes > NAME_BYTES_MAX) {
        reject.reason = SPSH_REJECT_MISSING_AUDIO;
        reject.detail = c->column_of[SPSH__CLIP_PATH] == SPSH__COLUMN_NONE
                            ? "the table's header has no column of clips"
                            : "the row names no clip";
        return spsh__scan_reject(c->scan, &reject, &place, err);
    }
    spsh__name_slot *slot = c->written.failed ? NULL : find_clip(c, written);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    c->folder = (size_t)slot->value;
    if ((slot->state & STATE_ROW) != 0)
        return pass_over(c, slot->state, &place, err);
    slot->state |= STATE_ROW | ((uint32_t)c->table << TABLE_SHIFT);
    return take_row(c, row, slot->state, &place, err);
}

static spsh_status scan_rows(clip_scan *c, spsh__text_file *file, spsh_error *err)
{
    const spsh__text_input input = spsh__text_input_file(file);
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(&input, &c->form->dialect, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh__row_reader_next(reader, &row, err);
    if (rc == SPSH_OK)
        rc = take_header(c, &row, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        expect_clip(c, spsh__row_reader_ahead(reader));
        rc = scan_row(c, &row, err);
        if (rc == SPSH_OK)
            rc = spsh__scan_progress(c->scan, 1, err);
    }
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status scan_table(clip_scan *c, spsh_error *err)
{
    spsh__view_info info;
    const spsh__view *view = c->scan->options->view;
    spsh__text_file file = {.fd = -1};
    spsh_error open_error = SPSH_ERROR_INIT;
    spsh__builder_clear(&c->file);
    spsh__builder_append_part(&c->file, c->tree->path);
    spsh__builder_append_part(&c->file, c->tree->tables[c->table].name);
    const char *path = spsh__builder_text(&c->file);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    if (spsh__view_stat(view, path, &info) == ENOENT)
        return SPSH_OK;
    spsh_status rc = spsh__text_file_open(view, path, &file, &open_error);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK) {
        const spsh_reject reject = {.reason = SPSH_REJECT_UNREADABLE,
                                    .source = spsh__builder_bytes(&c->file),
                                    .detail = open_error.message};
        return spsh__scan_reject(c->scan, &reject, NULL, err);
    }
    rc = scan_rows(c, &file, err);
    spsh__text_file_close(&file);
    return rc;
}

spsh_status spsh__clip_tree_scan(spsh__scan *scan, const spsh__clip_form *form,
                                 const spsh__clip_tree *tree, spsh_error *err)
{
    clip_scan *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return SPSH_NO_MEMORY(err);
    c->scan = scan;
    c->form = form;
    c->tree = tree;
    spsh_status rc = find_folders(c, err);
    if (rc == SPSH_OK)
        rc = list_all_clips(c, false, err);
    for (c->table = 0; c->table < tree->table_count && rc == SPSH_OK; c->table++)
        rc = scan_table(c, err);
    if (rc == SPSH_OK && spsh__name_index_any(&c->index, STATE_ON_DISK | STATE_AUDIO, STATE_ROW))
        rc = list_all_clips(c, true, err);
    SPSH__BUILDERS_FREE(&c->names, &c->file, &c->written, &c->clip, &c->path, &c->source, &c->id,
                        &c->speaker, &c->domain, &c->extras);
    spsh__path_list_free(&c->folders);
    spsh__name_index_free(&c->index);
    free(c);
    return rc;
}

static bool names_all(const spsh__row *row, const char *const *columns)
{
    for (; *columns != NULL; columns++) {
        bool found = false;
        for (size_t i = 0; i < row->field_count && !found; i++)
            found = spsh__bytes_equal(row->fields[i], spsh__bytes_of(*columns));
        if (!found)
            return false;
    }
    return true;
}

spsh_status spsh__clip_header_has(const spsh__view *view, const char *path,
                                  const spsh__dialect *dialect, const char *const *columns,
                                  bool *ret_has, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    spsh__row_reader *reader = NULL;
    spsh__row row;
    *ret_has = false;
    if (!spsh__view_has_file(view, path))
        return SPSH_OK;
    spsh_status rc = spsh__text_file_open(view, path, &file, NULL);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_NO_MEMORY(err);
    if (rc != SPSH_OK)
        return SPSH_OK; /* the scan reports it, if the file belongs to the corpus */
    uint8_t head[4096];
    size_t head_bytes = 0;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = input.read_at_fn(input.user, 0, head, sizeof(head), &head_bytes, err);
    spsh__text_file_close(&file);
    if (rc != SPSH_OK || memchr(head, '\n', head_bytes) == NULL)
        return rc; /* a first line that long is not a header of these tables */
    const spsh__text_memory memory = {head, head_bytes};
    const spsh__text_input text = spsh__text_input_memory(&memory, path);
    rc = spsh__row_reader_new(&text, dialect, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh__row_reader_next(reader, &row, err);
    if (rc == SPSH_OK)
        *ret_has = row.problem == NULL && names_all(&row, columns);
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}
