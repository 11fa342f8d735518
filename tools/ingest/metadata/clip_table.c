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
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/name_index.h"
#include "ingest/view/path_list.h"
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
#define TABLE_SHIFT     8 /* bit position: index of the first table that named the clip */
#define TABLE_MASK      UINT32_C(15)

typedef struct clip_column {
    spsh__clip_role role; /* SPSH__CLIP_ROLES: extra */
    bool is_repeated;     /* an earlier column has the same name and is used instead */
    spsh_bytes name;
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
    const char *file;        /* path of the table */
    spsh_bytes clip;         /* name of a clip in its folder */
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

/* The clip's path relative to the root. */
static spsh_bytes clip_path(const clip_scan *c)
{
    return spsh__strings_path(c->scan, spsh__bytes_of(c->folders.paths[c->folder]), c->clip);
}

/* Type of a link's target. A dangling link counts as a file: the packer reports the error. */
static spsh__view_type look_behind(const clip_scan *c)
{
    spsh__view_info info;
    return spsh__view_stat(c->scan->options->view, spsh__text_of(clip_path(c)), &info) == 0
               ? info.type
               : SPSH__VIEW_FILE;
}

/* Enter a name into the index. c->clip: the entry's name in the form that rows use. */
static spsh_status enter_clip(clip_scan *c, spsh__view_type type, spsh_error *err)
{
    uint32_t state = STATE_KNOWN | STATE_ON_DISK;
    const spsh_bytes name = c->clip;
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
    const spsh__name_slot *slot = spsh__name_index_find(&c->index, c->clip);
    if (slot == NULL || (slot->state & STATE_ROW) != 0 || (slot->state & STATE_AUDIO) == 0)
        return SPSH_OK;
    const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                                .source = clip_path(c),
                                .detail = "no table has a row for it"};
    return spsh__scan_reject(c->scan, &reject, NULL, err);
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
    const spsh__strings_mark mark = spsh__strings_here(c->scan);
    c->clip = spsh__strings_path(c->scan, spsh__bytes_of(year), spsh__bytes_of(entry->name));
    spsh_status rc = report ? report_orphan(c, err) : enter_clip(c, entry->type, err);
    if (rc == SPSH_OK && !report)
        rc = spsh__scan_progress(c->scan, 1, err);
    spsh__strings_release(c->scan, mark);
    return rc;
}

/* Enter all names of the clip folder or of a year's folder in it, or report the names that no row
 * had. */
static spsh_status list_clips(clip_scan *c, const char *year, bool report, spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(c->scan);
    spsh__view_entry entry;
    spsh_status rc = SPSH_OK;
    const char *path = spsh__text_of(spsh__strings_path(
        c->scan, spsh__bytes_of(c->folders.paths[c->folder]), spsh__bytes_of(year)));
    /* A copy, because year is valid only until the next entry. */
    const char *name = spsh__text_of(SPSH__JOIN(c->scan, spsh__bytes_of(year)));
    spsh__view_folder *folder = spsh__view_folder_open(c->scan->options->view, path);
    int os_errno = folder == NULL ? errno : 0;
    while (folder != NULL && rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (entry.name[0] != '.' && !spsh__is_ignored_name(entry.name))
            rc = list_entry(c, &entry, name, report, err);
    }
    if (folder != NULL && rc == SPSH_OK)
        os_errno = errno; /* not 0: the listing failed midway */
    spsh__view_folder_close(folder);
    const bool is_file = folder == NULL && name[0] != '\0'; /* with the name of a year */
    if (rc == SPSH_OK && (os_errno == ENOMEM || !spsh__name_index_settle(&c->index)))
        rc = SPSH_NO_MEMORY(err);
    else if (rc == SPSH_OK && os_errno != 0 && !is_file && (folder == NULL || !report))
        rc = spsh__scan_walk_note(c->scan, SPSH__WALK_UNREADABLE, path, os_errno, err);
    spsh__strings_release(c->scan, mark);
    return rc;
}

static spsh_status list_all_clips(clip_scan *c, bool report, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (c->folder = 0; c->folder < c->folders.count && rc == SPSH_OK; c->folder++)
        rc = list_clips(c, "", report, err);
    c->folder = 0;
    return rc;
}

/* Find the clip folders: the tree's folder and the folders below it, sorted at each level.
 * list_clips reports the folders that cannot be listed. */
static spsh_status find_folders(clip_scan *c, spsh_error *err)
{
    const spsh__view *view = c->scan->options->view;
    size_t begin = 0;
    spsh_status rc = spsh__path_list_add(&c->folders, c->tree->path, c->tree->clips, err);
    for (unsigned level = 0; level < c->tree->depth; level++) {
        const size_t end = c->folders.count;
        for (; begin < end && rc == SPSH_OK; begin++) {
            spsh__view_entry entry;
            spsh__view_folder *folder = spsh__view_folder_open(view, c->folders.paths[begin]);
            if (folder == NULL && errno == ENOMEM)
                return SPSH_NO_MEMORY(err);
            while (folder != NULL && rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
                if (entry.enters && entry.name[0] != '.' && !spsh__is_ignored_name(entry.name))
                    rc = spsh__path_list_add(&c->folders, c->folders.paths[begin], entry.name, err);
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

static void add_column(clip_scan *c, spsh_bytes name)
{
    clip_column *column = &c->columns[c->column_count];
    *column = (clip_column){role_of(c->form, name), false, SPSH__JOIN(c->scan, name)};
    for (size_t i = 0; i < c->column_count && !column->is_repeated; i++)
        column->is_repeated = spsh__bytes_equal(c->columns[i].name, name);
    if (!column->is_repeated && column->role != SPSH__CLIP_ROLES)
        c->column_of[column->role] = c->column_count;
    c->column_count++;
}

/* Report repeated columns, as in an intermediate release of Common Voice. */
static spsh_status report_repeated(clip_scan *c, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < c->column_count && rc == SPSH_OK; i++) {
        char detail[128];
        const spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                                    .source = spsh__bytes_of(c->file),
                                    .detail = detail};
        (void)snprintf(detail, sizeof(detail),
                       "the column '%.60s' appears twice; the first one is used",
                       spsh__text_of(c->columns[i].name));
        if (c->columns[i].is_repeated)
            rc = spsh__scan_reject(c->scan, &reject, NULL, err);
    }
    return rc;
}

static spsh_status take_header(void *user, const spsh__row *row, spsh_error *err)
{
    clip_scan *c = user;
    spsh_status rc = SPSH_OK;
    c->column_count = 0;
    for (size_t role = 0; role < SPSH__CLIP_ROLES; role++)
        c->column_of[role] = SPSH__COLUMN_NONE;
    for (size_t i = 0; i < row->field_count && i < COLUMNS_MAX; i++)
        add_column(c, row->fields[i]);
    rc = report_repeated(c, err);
    c->domain_column = SPSH__COLUMN_NONE;
    if (rc != SPSH_OK || c->scan->domain_rule != SPSH__DOMAIN_COLUMN)
        return rc;
    for (size_t i = 0; i < c->column_count && c->domain_column == SPSH__COLUMN_NONE; i++) {
        if (spsh__bytes_equal_nocase(c->columns[i].name, c->scan->domain_name))
            c->domain_column = i;
    }
    if (c->domain_column == SPSH__COLUMN_NONE)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: the table has no column '%.60s'", c->file,
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
static void expect_clip(const void *user, spsh_bytes ahead)
{
    const clip_scan *c = user;
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
    c->clip = written;
    if (c->form->in_year_folders && written.size_bytes > YEAR_BYTES) {
        const spsh_bytes year = {written.data, YEAR_BYTES};
        c->clip = spsh__strings_path(c->scan, year, written);
    }
    spsh__name_slot *slot = spsh__name_index_find(&c->index, c->clip);
    if (slot == NULL && c->form->extension != NULL && !spsh__is_audio_name(written)) {
        c->clip = SPSH__JOIN(c->scan, c->clip, spsh__bytes_of(c->form->extension));
        slot = spsh__name_index_find(&c->index, c->clip);
    }
    return slot != NULL ? slot : spsh__name_index_add(&c->index, c->clip, STATE_KNOWN);
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
    reject.source = clip_path(c);
    return spsh__scan_reject(c->scan, &reject, place, err);
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

static spsh_bytes make_extras(clip_scan *c, const spsh__row *row)
{
    spsh__builder *extras = spsh__strings_open(c->scan);
    for (size_t i = 0; i < row->field_count && i < c->column_count; i++) {
        const clip_column *column = &c->columns[i];
        if ((column->role == SPSH__CLIP_ROLES || column->role == SPSH__CLIP_DURATION) &&
            !column->is_repeated && row->fields[i].size_bytes > 0)
            spsh__json_member(extras, 0, column->name, row->fields[i]);
    }
    spsh__json_close(extras, 0);
    return spsh__strings_close(c->scan);
}

/* Whether the locale is a variant folder: "cy-southwes" holds copies of clips of "cy", as the ids
 * show. */
static bool is_variant(const clip_scan *c, spsh_bytes locale)
{
    const char *name = c->tree->name;
    return locale.size_bytes > 0 && strlen(name) > locale.size_bytes &&
           memcmp(name, locale.data, locale.size_bytes) == 0 && name[locale.size_bytes] == '-';
}

static spsh_bytes make_id(clip_scan *c, const spsh__row *row, spsh_bytes locale)
{
    const spsh_bytes prefix = spsh__bytes_of(c->tree->id_prefix);
    const spsh_bytes variant = spsh__bytes_of(is_variant(c, locale) ? c->tree->name : "");
    spsh_bytes id = field(c, row, SPSH__CLIP_ID);
    spsh_bytes clip = c->clip;
    if (c->form->in_year_folders && clip.size_bytes > YEAR_BYTES + 1)
        clip = (spsh_bytes){clip.data + YEAR_BYTES + 1, clip.size_bytes - YEAR_BYTES - 1};
    if (id.size_bytes == 0)
        id = spsh__strings_name(c->scan, (spsh_bytes){clip.data, spsh__audio_stem(clip)});
    return spsh__strings_path(c->scan, variant, SPSH__JOIN(c->scan, prefix, id));
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
    const spsh_bytes corpus = spsh__bytes_of(c->form->corpus);
    const spsh_bytes slash = spsh__bytes_of("/");
    const spsh_bytes text = field(c, row, SPSH__CLIP_TEXT);
    const spsh_bytes speaker = field(c, row, SPSH__CLIP_SPEAKER);
    spsh_bytes locale = field(c, row, SPSH__CLIP_LOCALE);
    if (spsh__is_placeholder(locale))
        locale = spsh__bytes_of(c->tree->locale);
    const spsh_bytes path = clip_path(c);
    const spsh_bytes id = make_id(c, row, locale);
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = spsh__strings_name(c->scan, path),
        .recording_id = id,
        .id = id,
        .has_text = text.size_bytes > 0,
        .text = text,
        .domain = c->domain_column != SPSH__COLUMN_NONE
                      ? spsh__row_field(row, c->domain_column)
                      : SPSH__JOIN(c->scan, corpus, slash, locale),
        .split = spsh__is_placeholder(split) ? (spsh_bytes){0} : split,
        .subset = subset_of(c),
        .speaker = spsh__is_placeholder(speaker) ? (spsh_bytes){0}
                                                 : SPSH__JOIN(c->scan, corpus, slash, speaker),
        .language = language_of(locale),
        .document = field(c, row, SPSH__CLIP_DOCUMENT),
        .extras = make_extras(c, row),
        .end_ns = SPSH_SEGMENT_END,
        .expected_ns = row_length(c, row),
        .source_bytes = SPSH_SOURCE_BYTES_UNKNOWN,
    };
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
static spsh_bytes row_path(const clip_scan *c, const spsh__row *row)
{
    const spsh_bytes written = field(c, row, SPSH__CLIP_PATH);
    return !c->form->document_before_path || written.size_bytes == 0
               ? written
               : SPSH__JOIN(c->scan, field(c, row, SPSH__CLIP_DOCUMENT), spsh__bytes_of("-"),
                            written);
}

static spsh_status scan_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    clip_scan *c = user;
    const spsh_bytes written = row_path(c, row);
    if (written.size_bytes == 0 || written.size_bytes > NAME_BYTES_MAX) {
        const spsh_reject reject = {.reason = SPSH_REJECT_MISSING_AUDIO,
                                    .detail = c->column_of[SPSH__CLIP_PATH] == SPSH__COLUMN_NONE
                                                  ? "the table's header has no column of clips"
                                                  : "the row names no clip",
                                    .rows = 1};
        return spsh__scan_reject(c->scan, &reject, place, err);
    }
    spsh__name_slot *slot = find_clip(c, written);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    c->folder = (size_t)slot->value;
    if ((slot->state & STATE_ROW) != 0)
        return pass_over(c, slot->state, place, err);
    slot->state |= STATE_ROW | ((uint32_t)c->table << TABLE_SHIFT);
    return take_row(c, row, slot->state, place, err);
}

static spsh_status scan_table(clip_scan *c, spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(c->scan);
    const spsh__row_visitor visitor = {.dialect = c->form->dialect,
                                       .header_fn = take_header,
                                       .row_fn = scan_row,
                                       .ahead_fn = expect_clip,
                                       .user = c};
    spsh__view_info info;
    c->file = spsh__text_of(spsh__strings_path(c->scan, spsh__bytes_of(c->tree->path),
                                               spsh__bytes_of(c->tree->tables[c->table].name)));
    const bool absent = spsh__view_stat(c->scan->options->view, c->file, &info) == ENOENT;
    const char *split = c->tree->tables[c->table].split;
    if (!absent && split != NULL) /* a split of the corpus even if other tables have all its rows */
        (void)spsh__scan_wants_split(c->scan, spsh__bytes_of(split));
    const spsh_status rc = absent ? SPSH_OK : spsh__scan_file_rows(c->scan, c->file, &visitor, err);
    spsh__strings_release(c->scan, mark);
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
    uint8_t head[4096];
    size_t head_bytes = 0;
    *ret_has = false;
    if (!spsh__view_has_file(view, path))
        return SPSH_OK;
    spsh_status rc = spsh__text_file_open(view, path, &file, NULL);
    if (rc != SPSH_OK) /* the scan reports the file if it belongs to the corpus */
        return rc == SPSH_E_NO_MEMORY ? SPSH_NO_MEMORY(err) : SPSH_OK;
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
