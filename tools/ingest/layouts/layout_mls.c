/* layout_mls.c: Multilingual LibriSpeech, one language or several below the root.
 *
 *     mls_<language>[_opus]/metainfo.txt                      speaker | gender | partition | ...
 *     mls_<language>[_opus]/<split>/transcripts.txt           id TAB text
 *     mls_<language>[_opus]/<split>/segments.txt              id TAB url TAB start TAB end
 *     mls_<language>[_opus]/<split>/audio/<speaker>/<book>/<speaker>_<book>_<index>.flac or .opus
 *     mls_<language>[_opus]/<split>/audio/<speaker>_<book>_<index>.flac    in many small archives
 *     mls_<language>[_opus]/train/limited_supervision/{9hr,1hr/0 ... 1hr/5}/handles.txt
 *
 * One hash index joins the files by id, so they may be in any order. First, every audio folder is
 * listed once, and each file at the path that its id requires is entered. Next come segments.txt,
 * of which only the row offsets are kept, and the handles. Then transcripts.txt is read, with one
 * lookup per row. Segment rows are read again through a window, which is cheap if both files have
 * the same order. The index does not keep names. So if some audio has no row, the folders are
 * listed a second time to report it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/metadata/table.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/scan/trees.h"
#include "ingest/view/name_index.h"
#include "layout_librispeech.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define WINDOW_BYTES      ((size_t)64 << 10)
#define ID_BYTES_EXPECTED ((size_t)64)
#define SEGMENT_BYTES_MAX ((size_t)4096)
#define FOLD_COUNT        6U
#define NOMINAL_RATE_HZ   16000U
#define NS_PER_SECOND     UINT64_C(1000000000)
#define DEPTH_CLIPS       2U /* audio/<speaker>/<book>/ */

/* State bits of an id. The extensions come first, in order of preference. */
#define EXTENSION_BIT(n_) (UINT32_C(1) << (n_))
#define EXTENSION_OPUS    1U
#define FLAT_SHIFT        ((size_t)4) /* shift of these bits for files in audio/ itself */
#define STATE_AUDIO       UINT32_C(0xff)
#define STATE_KNOWN       (UINT32_C(1) << 8)
#define STATE_ROW         (UINT32_C(1) << 9) /* has a row in transcripts.txt */
#define STATE_SEGMENT     (UINT32_C(1) << 10)
#define STATE_9HR         (UINT32_C(1) << 11)
#define STATE_FOLD(n_)    (UINT32_C(1) << (12 + (n_)))

static const char *const extensions[] = {".flac", ".opus", ".wav", ".mp3"};
#define EXTENSION_COUNT (sizeof(extensions) / sizeof(extensions[0]))

typedef enum mls_form { MLS_ANY, MLS_FLAC, MLS_OPUS } mls_form;

typedef enum audio_pass { PASS_INDEX, PASS_ORPHANS } audio_pass;

typedef struct mls_scan {
    spsh__scan *scan;
    const char *tree; /* path relative to the root */
    const char *split;
    size_t extension;    /* index of the extension that a missing file should have */
    spsh_bytes language; /* language in the folder's name, or "unknown" */
    spsh__librispeech_readers speakers;
    bool has_metainfo;
    spsh__name_index strangers; /* unknown speakers that were reported, per tree */
    spsh__name_index index;     /* ids of one split */
    audio_pass pass;
    bool misplaced; /* some audio is not at the path that its name requires */
    spsh__text_file segments;
    uint8_t *window;
    uint64_t window_at;
    size_t window_bytes;
    uint64_t expected_ns; /* length of the row's audio according to segments.txt; 0: unknown */
    spsh_bytes domain;
    spsh__builder source; /* path while folders are listed */
} mls_scan;

/** The parts of "10148_10119_000003". */
typedef struct mls_id {
    spsh_bytes speaker, book;
} mls_id;

static bool parse_id(spsh_bytes text, mls_id *ret_id)
{
    const size_t speaker = spsh__digits_at(text, 0);
    if (speaker == 0 || speaker == text.size_bytes || text.data[speaker] != '_')
        return false;
    const size_t book = spsh__digits_at(text, speaker + 1);
    const size_t second = speaker + 1 + book;
    if (book == 0 || second >= text.size_bytes || text.data[second] != '_')
        return false;
    const size_t index = spsh__digits_at(text, second + 1);
    *ret_id = (mls_id){
        {text.data,               speaker},
        {text.data + speaker + 1, book   }
    };
    return index > 0 && second + 1 + index == text.size_bytes;
}

static const char *const languages[][2] = {
    {"english",    "en"},
    {"german",     "de"},
    {"dutch",      "nl"},
    {"french",     "fr"},
    {"spanish",    "es"},
    {"italian",    "it"},
    {"portuguese", "pt"},
    {"polish",     "pl"},
};

/* "german" of "mls_german_opus", or of "german". */
static spsh_bytes language_of(spsh_bytes name)
{
    if (spsh__ends_with(name, "_opus"))
        name.size_bytes -= strlen("_opus");
    if (name.size_bytes > 4 && memcmp(name.data, "mls_", 4) == 0)
        return (spsh_bytes){name.data + 4, name.size_bytes - 4};
    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
        if (spsh__bytes_equal(name, spsh__bytes_of(languages[i][0])))
            return name;
    }
    return spsh__bytes_of("unknown");
}

static spsh_bytes language_code(spsh_bytes language)
{
    for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
        if (spsh__bytes_equal(language, spsh__bytes_of(languages[i][0])))
            return spsh__bytes_of(languages[i][1]);
    }
    return (spsh_bytes){0};
}

/* Path tree/split/name. */
static spsh_bytes file_path(mls_scan *m, const char *split, const char *name)
{
    const spsh_bytes folder =
        spsh__strings_path(m->scan, spsh__bytes_of(m->tree), spsh__bytes_of(split));
    return spsh__strings_path(m->scan, folder, spsh__bytes_of(name));
}

/* Open a file of the tree, unless it does not exist or is unreadable, which is reported. */
static spsh_status open_file(mls_scan *m, const char *path, spsh__text_file *ret_file,
                             spsh_error *err)
{
    spsh__view_info info;
    *ret_file = (spsh__text_file){.fd = -1};
    return spsh__view_stat(m->scan->options->view, path, &info) == ENOENT
               ? SPSH_OK
               : spsh__scan_open(m->scan, path, ret_file, err);
}

/* ---- audio ---- */

static spsh_status report_orphan(mls_scan *m, spsh_bytes path, spsh_bytes id, bool misplaced,
                                 spsh_error *err)
{
    const spsh_reject reject = {
        .reason = SPSH_REJECT_ORPHAN_AUDIO,
        .source = path,
        .id = id,
        .detail = misplaced ? "its path does not match its name: expected audio/speaker/book/"
                            : "no line of transcripts.txt has its name",
    };
    return m->source.failed ? SPSH_NO_MEMORY(err) : spsh__scan_reject(m->scan, &reject, NULL, err);
}

/* Whether a folder (ending in audio/<speaker>/<book>) is the right one for the id. */
static bool is_place_of(spsh_bytes folder, spsh_bytes stem)
{
    mls_id id;
    if (!parse_id(stem, &id))
        return false;
    const size_t wanted = id.speaker.size_bytes + id.book.size_bytes + 2;
    if (folder.size_bytes < wanted)
        return false;
    const uint8_t *at = folder.data + folder.size_bytes - wanted;
    return at[0] == '/' && memcmp(at + 1, id.speaker.data, id.speaker.size_bytes) == 0 &&
           at[1 + id.speaker.size_bytes] == '/' &&
           memcmp(at + 2 + id.speaker.size_bytes, id.book.data, id.book.size_bytes) == 0;
}

/* Enter one audio file. source holds its folder. */
static spsh_status take_audio(mls_scan *m, const char *name, unsigned depth, spsh_error *err)
{
    const spsh_bytes whole = spsh__bytes_of(name);
    const spsh_bytes stem = {whole.data, spsh__audio_stem(whole)};
    const size_t folder_bytes = m->source.size_bytes;
    mls_id id;
    const bool flat = depth == 0 && parse_id(stem, &id);
    const bool placed =
        flat || (depth == DEPTH_CLIPS && is_place_of(spsh__builder_bytes(&m->source), stem));
    size_t extension = 0;
    spsh_status rc = SPSH_OK;
    while (extension < EXTENSION_COUNT &&
           strcmp(name + stem.size_bytes, extensions[extension]) != 0)
        extension++;
    const bool known = placed && extension < EXTENSION_COUNT;
    if (m->pass == PASS_INDEX && known) {
        const uint32_t bit = EXTENSION_BIT(extension) << (flat ? FLAT_SHIFT : 0);
        if (!spsh__name_index_mark(&m->index, stem, STATE_KNOWN | bit, SPSH__NAME_VALUE_KEPT))
            return SPSH_NO_MEMORY(err);
    } else if (m->pass == PASS_INDEX) {
        m->misplaced = true;
    } else {
        const spsh__name_slot *slot = spsh__name_index_find(&m->index, stem);
        spsh__builder_append_part(&m->source, name);
        if (!known || slot == NULL || (slot->state & STATE_ROW) == 0)
            rc = report_orphan(m, spsh__builder_bytes(&m->source), stem, !known, err);
        m->source.size_bytes = folder_bytes;
    }
    return rc;
}

static spsh_status list_audio(mls_scan *m, const char *name, unsigned depth, spsh_error *err);

/* Handle one entry of the folder in source. */
static spsh_status take_entry(mls_scan *m, const spsh__view_entry *entry, unsigned depth,
                              spsh_error *err)
{
    spsh__view_info info;
    if (spsh__is_audio_name(spsh__bytes_of(entry->name)))
        return take_audio(m, entry->name, depth, err);
    if (depth == DEPTH_CLIPS ||
        (entry->type != SPSH__VIEW_FOLDER && entry->type != SPSH__VIEW_LINK))
        return SPSH_OK;
    if (entry->type == SPSH__VIEW_LINK) {
        const size_t before = m->source.size_bytes;
        spsh__builder_append_part(&m->source, entry->name);
        const char *path = spsh__builder_text(&m->source);
        const bool is_folder = path != NULL &&
                               spsh__view_stat(m->scan->options->view, path, &info) == 0 &&
                               info.type == SPSH__VIEW_FOLDER;
        m->source.size_bytes = before;
        if (!is_folder)
            return path == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    return list_audio(m, entry->name, depth + 1, err);
}

/* List a subfolder of the folder in source. source is unchanged afterwards. */
static spsh_status list_audio(mls_scan *m, const char *name, unsigned depth, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    const size_t before = m->source.size_bytes;
    spsh__builder_append_part(&m->source, name);
    const char *path = spsh__builder_text(&m->source);
    if (path == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__view_folder *folder = spsh__view_folder_open(m->scan->options->view, path);
    if (folder == NULL) {
        if (errno == ENOMEM)
            return SPSH_NO_MEMORY(err);
        if (m->pass == PASS_INDEX)
            rc = spsh__scan_walk_note(m->scan, SPSH__WALK_UNREADABLE, path, errno, err);
        m->source.size_bytes = before;
        return rc;
    }
    uint64_t files = 0;
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (entry.name[0] == '.' || spsh__is_ignored_name(entry.name))
            continue;
        files++;
        rc = take_entry(m, &entry, depth, err);
    }
    const int os_errno = rc == SPSH_OK ? errno : 0; /* not 0: the listing failed midway */
    spsh__view_folder_close(folder);
    if (os_errno != 0 && m->pass == PASS_INDEX) {
        path = spsh__builder_text(&m->source);
        rc = path == NULL
                 ? SPSH_NO_MEMORY(err)
                 : spsh__scan_walk_note(m->scan, SPSH__WALK_UNREADABLE, path, os_errno, err);
    }
    m->source.size_bytes = before;
    return rc == SPSH_OK ? spsh__scan_progress(m->scan, files, err) : rc;
}

static spsh_status pass_audio(mls_scan *m, audio_pass pass, spsh_error *err)
{
    m->pass = pass;
    spsh__builder_clear(&m->source);
    spsh__builder_append_bytes(&m->source, file_path(m, m->split, ""));
    return list_audio(m, "audio", 0, err);
}

/* ---- other metadata of an id ---- */

static const spsh__dialect tabs = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'};

static spsh_status mark_rows(mls_scan *m, spsh__text_file *file, uint32_t bit, spsh_error *err)
{
    const spsh__text_input input = spsh__text_input_file(file);
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(&input, &tabs, &reader, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        if (row.problem != NULL || row.fields[0].size_bytes == 0)
            continue;
        const uint64_t value = bit == STATE_SEGMENT ? row.offset_bytes : SPSH__NAME_VALUE_KEPT;
        if (!spsh__name_index_mark(&m->index, row.fields[0], STATE_KNOWN | bit, value)) {
            rc = SPSH_NO_MEMORY(err);
            break;
        }
    }
    if (rc == SPSH_E_END && !spsh__name_index_settle(&m->index))
        rc = SPSH_NO_MEMORY(err);
    spsh__row_reader_free(reader);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

static spsh_status mark_handles(mls_scan *m, const char *name, uint32_t bit, spsh_error *err)
{
    spsh__text_file file;
    spsh_status rc = open_file(m, spsh__text_of(file_path(m, m->split, name)), &file, err);
    if (rc == SPSH_OK && file.fd >= 0)
        rc = mark_rows(m, &file, bit, err);
    spsh__text_file_close(&file);
    return rc;
}

static spsh_status mark_limited_supervision(mls_scan *m, spsh_error *err)
{
    spsh_status rc = mark_handles(m, "limited_supervision/9hr/handles.txt", STATE_9HR, err);
    for (unsigned fold = 0; fold < FOLD_COUNT && rc == SPSH_OK; fold++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "limited_supervision/1hr/%u/handles.txt", fold);
        rc = mark_handles(m, name, STATE_FOLD(fold), err);
    }
    return rc;
}

static spsh_status open_segments(mls_scan *m, spsh_error *err)
{
    m->window_bytes = 0;
    spsh_status rc =
        open_file(m, spsh__text_of(file_path(m, m->split, "segments.txt")), &m->segments, err);
    if (rc == SPSH_OK && m->segments.fd >= 0)
        rc = mark_rows(m, &m->segments, STATE_SEGMENT, err);
    return rc;
}

/* Return the row of segments.txt at an offset. Loads a new window if necessary. */
static spsh_status read_segment(mls_scan *m, uint64_t offset, spsh_bytes *ret_row, spsh_error *err)
{
    const bool inside = offset >= m->window_at && offset - m->window_at <= m->window_bytes &&
                        m->window_bytes - (size_t)(offset - m->window_at) >= SEGMENT_BYTES_MAX;
    if (!inside) {
        const spsh__text_input input = spsh__text_input_file(&m->segments);
        if (m->window == NULL && (m->window = malloc(WINDOW_BYTES)) == NULL)
            return SPSH_NO_MEMORY(err);
        m->window_bytes = 0;
        spsh_status rc =
            input.read_at_fn(input.user, offset, m->window, WINDOW_BYTES, &m->window_bytes, err);
        if (rc != SPSH_OK)
            return rc;
        m->window_at = offset;
    }
    const uint8_t *row = m->window + (offset - m->window_at);
    size_t size = m->window_bytes - (size_t)(offset - m->window_at);
    if (size > SEGMENT_BYTES_MAX)
        size = SEGMENT_BYTES_MAX;
    const uint8_t *end = memchr(row, '\n', size);
    *ret_row = (spsh_bytes){row, end != NULL ? (size_t)(end - row) : size};
    if (ret_row->size_bytes > 0 && row[ret_row->size_bytes - 1] == '\r')
        ret_row->size_bytes--;
    return SPSH_OK;
}

/* Add the origin of the segment as extras: url, start, and end in the LibriVox recording,
 * unchanged. */
static spsh_status add_provenance(mls_scan *m, spsh__builder *extras, uint64_t offset,
                                  spsh_error *err)
{
    static const char *const keys[] = {NULL, "source_url", "source_start", "source_end"};
    uint64_t times_ns[4] = {0};
    bool timed = true;
    spsh_bytes row = {NULL, 0};
    spsh_status rc = read_segment(m, offset, &row, err);
    if (rc != SPSH_OK)
        return rc;
    for (size_t column = 0; column < 4; column++) {
        const uint8_t *tab = row.size_bytes == 0 ? NULL : memchr(row.data, '\t', row.size_bytes);
        const spsh_bytes field = {row.data,
                                  tab == NULL ? row.size_bytes : (size_t)(tab - row.data)};
        if (keys[column] != NULL && field.size_bytes > 0)
            spsh__json_member(extras, 0, spsh__bytes_of(keys[column]), field);
        if (column >= 2)
            timed &= spsh__table_time(field, NS_PER_SECOND, &times_ns[column]) == SPSH__TIME_OK;
        if (tab == NULL)
            break;
        row = (spsh_bytes){tab + 1, row.size_bytes - field.size_bytes - 1};
    }
    if (timed && times_ns[3] > times_ns[2])
        m->expected_ns = times_ns[3] - times_ns[2];
    return SPSH_OK;
}

static void add_limited_supervision(spsh__builder *extras, uint32_t state)
{
    static const char *const names[] = {"9hr",   "1hr/0", "1hr/1", "1hr/2",
                                        "1hr/3", "1hr/4", "1hr/5"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((state & (STATE_9HR << i)) != 0) {
            spsh__json_member(extras, 0, spsh__bytes_of("limited_supervision"),
                              spsh__bytes_of(names[i]));
            return;
        }
    }
}

/* Report a speaker that metainfo.txt does not list, once, at its first row. */
static spsh_status report_stranger(mls_scan *m, spsh_bytes speaker, const spsh__row_place *place,
                                   spsh_error *err)
{
    const spsh_reject reject = {.reason = SPSH_REJECT_UNKNOWN_SPEAKER,
                                .detail = "metainfo.txt does not name this speaker"};
    if (spsh__name_index_find(&m->strangers, speaker) != NULL)
        return SPSH_OK;
    if (spsh__name_index_add(&m->strangers, speaker, STATE_KNOWN) == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh__scan_reject(m->scan, &reject, place, err);
}

static spsh_status add_extras(mls_scan *m, spsh__builder *extras, const spsh__name_slot *slot,
                              spsh_bytes speaker, const spsh__row_place *place, spsh_error *err)
{
    uint64_t number = 0;
    spsh_status rc = SPSH_OK;
    m->expected_ns = 0;
    const spsh__librispeech_reader *known = NULL;
    if (spsh__parse_digits(speaker, &number))
        known = spsh__librispeech_readers_find(&m->speakers, number);
    if (known != NULL)
        spsh__json_member(extras, 0, spsh__bytes_of("gender"), spsh__bytes_of(known->sex));
    else if (m->has_metainfo)
        rc = report_stranger(m, speaker, place, err);
    add_limited_supervision(extras, slot->state);
    if (rc == SPSH_OK && (slot->state & STATE_SEGMENT) != 0)
        rc = add_provenance(m, extras, slot->value, err);
    spsh__json_close(extras, 0);
    return rc;
}

/* ---- transcripts ---- */

/* Path of the id's audio with that extension. flat: directly in audio/. */
static spsh_bytes audio_path(mls_scan *m, spsh_bytes id, const mls_id *parts, size_t extension,
                             bool flat)
{
    const spsh_bytes slash = spsh__bytes_of("/");
    const spsh_bytes folder = file_path(m, m->split, "audio/");
    const spsh_bytes end = spsh__bytes_of(extensions[extension]);
    return flat ? SPSH__JOIN(m->scan, folder, id, end)
                : SPSH__JOIN(m->scan, folder, parts->speaker, slash, parts->book, slash, id, end);
}

static spsh_status emit_row(mls_scan *m, const spsh__row *row, const mls_id *parts,
                            const spsh__name_slot *slot, const spsh__row_place *place,
                            spsh_error *err)
{
    size_t bit = 0;
    while ((slot->state & EXTENSION_BIT(bit)) == 0)
        bit++;
    const size_t extension = bit % FLAT_SHIFT;
    spsh_status rc = add_extras(m, spsh__strings_open(m->scan), slot, parts->speaker, place, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_bytes extras = spsh__strings_close(m->scan);
    const spsh_bytes path = audio_path(m, row->fields[0], parts, extension, bit >= FLAT_SHIFT);
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = spsh__strings_name(m->scan, path),
        .recording_id = row->fields[0],
        .id = row->fields[0],
        .has_text = true,
        .text = row->fields[1],
        .domain = m->domain,
        .split = spsh__bytes_of(m->split),
        .speaker = SPSH__JOIN(m->scan, spsh__bytes_of("mls/"), parts->speaker),
        .language = language_code(m->language),
        .document = parts->book,
        .extras = extras,
        .end_ns = SPSH_SEGMENT_END,
        .expected_ns = m->expected_ns,
        .source_bytes = SPSH_SOURCE_BYTES_UNKNOWN,
        .nominal_rate_hz = extension == EXTENSION_OPUS ? NOMINAL_RATE_HZ : 0,
    };
    return spsh__scan_emit(m->scan, &item, place, err);
}

static spsh_status take_row(mls_scan *m, const spsh__row *row, const mls_id *parts,
                            const spsh__row_place *place, spsh_error *err)
{
    spsh__name_slot *slot = spsh__name_index_add(&m->index, row->fields[0], STATE_KNOWN);
    spsh_reject reject = {.id = row->fields[0], .rows = 1};
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    const uint32_t before = slot->state;
    slot->state |= STATE_ROW;
    if ((before & STATE_AUDIO) != 0 && (before & STATE_ROW) == 0)
        return emit_row(m, row, parts, slot, place, err);
    if ((before & STATE_ROW) != 0) {
        reject.reason = SPSH_REJECT_DUP_ID;
        reject.detail = "an earlier line has this id";
    } else {
        reject.reason = SPSH_REJECT_MISSING_AUDIO;
        reject.source = audio_path(m, row->fields[0], parts, m->extension, false);
    }
    return spsh__scan_reject(m->scan, &reject, place, err);
}

static spsh_status scan_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    mls_scan *m = user;
    spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX,
                          .detail = "the id is not speaker_book_index, in digits",
                          .rows = 1};
    mls_id parts;
    if (row->field_count == 2 && parse_id(row->fields[0], &parts))
        return take_row(m, row, &parts, place, err);
    if (row->field_count != 2) {
        reject.reason = SPSH_REJECT_ROW_FIELD_COUNT;
        reject.detail = "the line is not an id, one TAB, and the text";
    }
    return spsh__scan_reject(m->scan, &reject, place, err);
}

/* Prefetch the slot of the next row's id. */
static void expect_row(const void *user, spsh_bytes ahead)
{
    const mls_scan *m = user;
    const size_t size = ahead.size_bytes < ID_BYTES_EXPECTED ? ahead.size_bytes : ID_BYTES_EXPECTED;
    const uint8_t *tab = size == 0 ? NULL : memchr(ahead.data, '\t', size);
    if (tab != NULL)
        spsh__name_index_expect(&m->index, (spsh_bytes){ahead.data, (size_t)(tab - ahead.data)});
}

static spsh_status scan_transcripts(mls_scan *m, bool wanted, spsh_error *err)
{
    const spsh__row_visitor visitor = {.dialect = tabs,
                                       .row_fn = scan_row,
                                       .ahead_fn = expect_row,
                                       .user = m,
                                       .is_excluded = !wanted};
    spsh__view_info info;
    const char *path = spsh__text_of(file_path(m, m->split, "transcripts.txt"));
    return spsh__view_stat(m->scan->options->view, path, &info) == ENOENT
               ? SPSH_OK
               : spsh__scan_file_rows(m->scan, path, &visitor, err);
}

static spsh_status scan_split(mls_scan *m, const char *split, spsh_error *err)
{
    spsh__view_info info;
    m->split = split;
    m->misplaced = false;
    if (spsh__view_stat(m->scan->options->view, spsh__text_of(file_path(m, split, "")), &info) ==
        ENOENT)
        return SPSH_OK; /* a corpus may have been reduced to one split */
    if (!spsh__scan_wants_split(m->scan, spsh__bytes_of(split)))
        return scan_transcripts(m, false, err);
    spsh_status rc = pass_audio(m, PASS_INDEX, err);
    if (rc == SPSH_OK && !spsh__name_index_settle(&m->index))
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = open_segments(m, err);
    if (rc == SPSH_OK)
        rc = mark_limited_supervision(m, err);
    if (rc == SPSH_OK)
        rc = scan_transcripts(m, true, err);
    bool orphans = m->misplaced;
    for (size_t i = 0; i < 2 * FLAT_SHIFT && !orphans; i++)
        orphans = spsh__name_index_any(&m->index, EXTENSION_BIT(i), STATE_ROW);
    if (rc == SPSH_OK && orphans)
        rc = pass_audio(m, PASS_ORPHANS, err);
    spsh__text_file_close(&m->segments);
    spsh__name_index_free(&m->index);
    return rc;
}

/* ---- trees ---- */

static spsh_status read_metainfo(mls_scan *m, spsh_error *err)
{
    spsh__text_file file;
    spsh_status rc = open_file(m, spsh__text_of(file_path(m, "", "metainfo.txt")), &file, err);
    m->has_metainfo = file.fd >= 0;
    if (rc != SPSH_OK || !m->has_metainfo)
        return rc;
    /* "SPEAKER | GENDER | ..." begins like LibriSpeech's "ID | SEX | ...", so the same parser
     * works. The other columns are not needed: they contain free text and rows of unpublished data
     * (partition "secret"). */
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = spsh__librispeech_readers_add(&input, &m->speakers, err);
    spsh__text_file_close(&file);
    return rc;
}

static spsh_status scan_tree(mls_scan *m, const char *tree, spsh_error *err)
{
    static const char *const splits[] = {"train", "dev", "test"};
    const spsh__strings_mark mark = spsh__strings_here(m->scan);
    m->tree = tree;
    m->domain = SPSH__JOIN(m->scan, spsh__bytes_of("mls/"), m->language);
    spsh_status rc = read_metainfo(m, err);
    for (size_t i = 0; i < 3 && rc == SPSH_OK; i++)
        rc = scan_split(m, splits[i], err);
    spsh__strings_release(m->scan, mark);
    spsh__librispeech_readers_free(&m->speakers);
    spsh__name_index_free(&m->strangers);
    return rc;
}

static spsh_status check_tree(const spsh__view *folder, bool *ret_is_tree, spsh_error *err)
{
    static const char *const names[] = {"train/transcripts.txt", "dev/transcripts.txt",
                                        "test/transcripts.txt"};
    (void)err;
    for (size_t i = 0; i < 3 && !*ret_is_tree; i++)
        *ret_is_tree = spsh__view_has_file(folder, names[i]);
    *ret_is_tree = *ret_is_tree && (spsh__view_has_folder(folder, "train/audio") ||
                                    spsh__view_has_folder(folder, "dev/audio") ||
                                    spsh__view_has_folder(folder, "test/audio"));
    return SPSH_OK;
}

/* Collect the NUL-terminated names of all trees, which contain the language and the format. */
static bool name_trees(const spsh__view *view, const spsh__path_list *trees, spsh__builder *names,
                       spsh_bytes *ret_names)
{
    size_t at = 0;
    for (size_t i = 0; i < trees->count; i++) {
        spsh__view_folder_name(view, trees->paths[i], names);
        spsh__builder_append(names, "", 1);
    }
    for (size_t i = 0; i < trees->count && !names->failed; i++) {
        ret_names[i] = spsh__bytes_of((const char *)names->data + at);
        at += ret_names[i].size_bytes + 1;
    }
    return !names->failed;
}

static mls_form form_of(spsh_bytes name)
{
    return spsh__ends_with(name, "_opus") ? MLS_OPUS : MLS_FLAC;
}

/* Reject a root with the same language as FLAC and as Opus: every utterance would appear twice with
 * the same id. */
static spsh_status refuse_both(const spsh__view *view, const spsh__path_list *trees,
                               const spsh_bytes *names, spsh_error *err)
{
    for (size_t i = 0; i < trees->count; i++) {
        for (size_t j = 0; j < trees->count; j++) {
            if (form_of(names[i]) == MLS_FLAC && form_of(names[j]) == MLS_OPUS &&
                spsh__bytes_equal(language_of(names[i]), language_of(names[j])))
                return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                                 "%s: '%.60s' and '%.60s' hold the same utterances, as FLAC and as "
                                 "Opus; give one of the two folders, or choose layout_name "
                                 "mls-flac or layout_name mls-opus",
                                 spsh__view_root(view), trees->paths[i], trees->paths[j]);
        }
    }
    return SPSH_OK;
}

static spsh_status scan_trees(mls_scan *m, const spsh__path_list *trees, const spsh_bytes *names,
                              mls_form form, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < trees->count && rc == SPSH_OK; i++) {
        m->language = language_of(names[i]);
        m->extension = form_of(names[i]) == MLS_OPUS ? EXTENSION_OPUS : 0;
        if (form == MLS_ANY || form == form_of(names[i])) {
            rc = scan_tree(m, trees->paths[i], err);
            continue;
        }
        const spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                                    .source = spsh__bytes_of(trees->paths[i]),
                                    .detail = "the other codec of MLS was selected"};
        rc = spsh__scan_reject(m->scan, &reject, NULL, err);
    }
    return rc;
}

static void mls_free(mls_scan *m)
{
    spsh__builder_free(&m->source);
    spsh__librispeech_readers_free(&m->speakers);
    spsh__name_index_free(&m->index);
    spsh__text_file_close(&m->segments);
    free(m->window);
}

static spsh_status mls_layout_scan(spsh__scan *scan, spsh_error *err)
{
    const mls_form form = (mls_form)scan->options->variant;
    mls_scan m = {.scan = scan, .segments = {.fd = -1}};
    const spsh__tree_search search = {scan->options->view, scan, check_tree};
    spsh__path_list trees = {0};
    spsh__builder text = {0};
    spsh_bytes *names = NULL;
    spsh_status rc = spsh__trees_find(&search, &trees, err);
    if (rc != SPSH_OK)
        goto out;
    if (trees.count == 0) {
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: holds no folder with train, dev or test that have "
                       "transcripts.txt and audio/",
                       spsh__view_root(scan->options->view));
        goto out;
    }
    names = calloc(trees.count, sizeof(*names));
    if (names == NULL || !name_trees(scan->options->view, &trees, &text, names)) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    if (form == MLS_ANY)
        rc = refuse_both(scan->options->view, &trees, names, err);
    if (rc == SPSH_OK)
        rc = scan_trees(&m, &trees, names, form, err);
out:
    mls_free(&m);
    spsh__path_list_free(&trees);
    spsh__builder_free(&text);
    free(names);
    return rc;
}

static const spsh__tree_layout tree_layout = {
    .what = "holds splits with transcripts.txt and audio/", .check_fn = check_tree};

const spsh_layout spsh__layout_mls = {
    .name = "mls",
    .summary = "Multilingual LibriSpeech: mls_<language>/<split>/transcripts.txt and audio/",
    .tier = SPSH_LAYOUT_CORPUS,
    .variant = MLS_ANY,
    .trees = &tree_layout,
    .without_columns = "MLS",
    .scan_fn = mls_layout_scan,
};

const spsh_layout spsh__layout_mls_flac = {
    .name = "mls-flac",
    .summary = "mls, and of a language that is there as flac and as opus, the flac",
    .tier = SPSH_LAYOUT_FORCED,
    .variant = MLS_FLAC,
    .trees = &tree_layout,
    .without_columns = "MLS",
    .scan_fn = mls_layout_scan,
};

const spsh_layout spsh__layout_mls_opus = {
    .name = "mls-opus",
    .summary = "mls, and of a language that is there as flac and as opus, the opus",
    .tier = SPSH_LAYOUT_FORCED,
    .variant = MLS_OPUS,
    .trees = &tree_layout,
    .without_columns = "MLS",
    .scan_fn = mls_layout_scan,
};
