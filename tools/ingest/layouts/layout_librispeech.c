/* layout_librispeech.c: LibriSpeech, mini LibriSpeech, and subsets that users made of them.
 *
 *     [LibriSpeech/]<subset>/<reader>/<chapter>/<reader>-<chapter>.trans.txt     lines "id TEXT"
 *     [LibriSpeech/]<subset>/<reader>/<chapter>/<reader>-<chapter>-<index>.flac  or .wav
 *     [LibriSpeech/]SPEAKERS.TXT
 *
 * The walk visits a folder before its subfolders, so SPEAKERS.TXT is read before the chapters that
 * it describes. The names of a folder are sorted. Each transcript line is looked up among the audio
 * files, and audio without a line is reported at the end. The folders of chapter, reader, and
 * subset are recognized from the innermost outward, including the name of the root. So a root may
 * be a subset, a reader, or a chapter.
 */
#include "layout_librispeech.h"

#include <stdlib.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "common/json_text.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define TRANS_SUFFIX      ".trans.txt"
#define READERS_MAX       ((size_t)1 << 20)
#define PROBE_FOLDERS_MAX 256U

/* Cut the bytes before the next '-' off rest, and the '-' itself. */
static spsh_bytes take_part(spsh_bytes *rest)
{
    size_t length = 0;
    while (length < rest->size_bytes && rest->data[length] != '-')
        length++;
    const spsh_bytes part = {rest->data, length};
    const size_t taken = length < rest->size_bytes ? length + 1 : length;
    *rest = (spsh_bytes){rest->data + taken, rest->size_bytes - taken};
    return part;
}

bool spsh__librispeech_key_parse(spsh_bytes key, spsh__librispeech_key *ret_key)
{
    if (key.size_bytes == 0)
        return false;
    ret_key->reader = take_part(&key);
    ret_key->chapter = take_part(&key);
    ret_key->index = key;
    return spsh__is_digits(ret_key->reader) && spsh__is_digits(ret_key->chapter) &&
           spsh__is_digits(ret_key->index);
}

static int compare_reader_ids(const void *a, const void *b)
{
    const spsh__librispeech_reader *x = a;
    const spsh__librispeech_reader *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int compare_readers(const void *a, const void *b)
{
    const spsh__librispeech_reader *x = a;
    const spsh__librispeech_reader *y = b;
    const int order = compare_reader_ids(a, b);
    return order != 0 ? order : x->order < y->order ? -1 : x->order > y->order;
}

const spsh__librispeech_reader *
spsh__librispeech_readers_find(const spsh__librispeech_readers *readers, uint64_t id)
{
    const spsh__librispeech_reader key = {.id = id};
    if (readers->count == 0)
        return NULL;
    return bsearch(&key, readers->readers, readers->count, sizeof(key), compare_reader_ids);
}

static spsh_status add_reader(spsh__librispeech_readers *readers, uint64_t id, spsh_bytes sex,
                              spsh_error *err)
{
    spsh__librispeech_reader reader = {.id = id, .order = (uint32_t)readers->count};
    if (sex.size_bytes == 0 || sex.size_bytes >= sizeof(reader.sex))
        return SPSH_OK;
    if (readers->count == READERS_MAX)
        return SPSH_OK;
    if (!SPSH_GROW(readers->readers, readers->capacity, readers->count + 1))
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for %zu readers", readers->count + 1);
    memcpy(reader.sex, sex.data, sex.size_bytes);
    readers->readers[readers->count++] = reader;
    return SPSH_OK;
}

/* Sort the readers by id. Of readers with the same id, keep the first. */
static void settle_readers(spsh__librispeech_readers *readers)
{
    size_t kept = 0;
    if (readers->count == 0)
        return;
    qsort(readers->readers, readers->count, sizeof(*readers->readers), compare_readers);
    for (size_t i = 1; i < readers->count; i++) {
        if (readers->readers[i].id != readers->readers[kept].id)
            readers->readers[++kept] = readers->readers[i];
    }
    readers->count = kept + 1;
    for (size_t i = 0; i < readers->count; i++)
        readers->readers[i].order = (uint32_t)i;
}

spsh_status spsh__librispeech_readers_add(const spsh__text_input *input,
                                          spsh__librispeech_readers *readers, spsh_error *err)
{
    /* A name may contain pipes ("|CBW|Simon"), so cut four times: the fifth field is the rest. */
    const spsh__dialect dialect = {
        .kind = SPSH__DIALECT_PIPE_PAD, .delimiter = '|', .comment = ';', .cuts_max = 4};
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc = spsh__row_reader_new(input, &dialect, &reader, err);
    while (rc == SPSH_OK && (rc = spsh__row_reader_next(reader, &row, err)) == SPSH_OK) {
        uint64_t id = 0;
        if (row.problem == NULL && row.field_count == 5 && spsh__parse_digits(row.fields[0], &id))
            rc = add_reader(readers, id, row.fields[1], err);
    }
    spsh__row_reader_free(reader);
    settle_readers(readers);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

void spsh__librispeech_readers_free(spsh__librispeech_readers *readers)
{
    free(readers->readers);
    *readers = (spsh__librispeech_readers){0};
}

typedef struct audio_entry {
    uint32_t entry; /* index in the folder's entries */
    bool used;
} audio_entry;

typedef struct libri_scan {
    spsh__scan *scan;
    spsh__librispeech_readers readers;
    const char *real_root; /* NULL: unknown */
    audio_entry *audio;
    size_t audio_count, audio_capacity;
    const spsh__folder *folder; /* being read */
} libri_scan;

static int compare_audio(const void *a, const void *b, void *user)
{
    const audio_entry *x = a;
    const audio_entry *y = b;
    const spsh__folder *folder = user;
    return strcmp(folder->entries[x->entry].name, folder->entries[y->entry].name);
}

static bool is_trans_name(const spsh__folder_entry *entry)
{
    return spsh__ends_with((spsh_bytes){(const uint8_t *)entry->name, entry->name_bytes},
                           TRANS_SUFFIX);
}

static spsh_status collect_audio(libri_scan *l, const spsh__folder *folder, spsh_error *err)
{
    l->audio_count = 0;
    for (size_t i = 0; i < folder->entry_count; i++) {
        if (!spsh__is_audio_name(spsh__bytes_of(folder->entries[i].name)))
            continue;
        if (!SPSH_GROW(l->audio, l->audio_capacity, l->audio_count + 1))
            return SPSH_NO_MEMORY(err);
        l->audio[l->audio_count++] = (audio_entry){(uint32_t)i, false};
    }
    union {
        const spsh__folder *in;
        void *out;
    } context = {.in = folder}; /* compare_audio treats it as const */
    if (l->audio_count > 1)
        qsort_r(l->audio, l->audio_count, sizeof(*l->audio), compare_audio, context.out);
    return SPSH_OK;
}

/* Find the audio file with the name key and extension, or NULL. */
static audio_entry *find_audio(libri_scan *l, const spsh__folder *folder, spsh_bytes key,
                               const char *extension)
{
    size_t low = 0;
    size_t high = l->audio_count;
    const spsh_bytes name = SPSH__JOIN(l->scan, key, spsh__bytes_of(extension));
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(folder->entries[l->audio[middle].entry].name, spsh__text_of(name));
        if (order == 0)
            return &l->audio[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Path of a file in the folder, relative to the root. */
static spsh_bytes file_path(libri_scan *l, const spsh__folder *folder, const char *name)
{
    return spsh__strings_path(l->scan, spsh__bytes_of(folder->path), spsh__bytes_of(name));
}

static spsh_status reject_file(libri_scan *l, const spsh__folder *folder, const char *name,
                               spsh_reject reject, const spsh__row_place *place, spsh_error *err)
{
    reject.source = file_path(l, folder, name);
    return spsh__scan_reject(l->scan, &reject, place, err);
}

static void drop_component(spsh_bytes *path)
{
    path->size_bytes -= spsh__bytes_base_name(*path).size_bytes;
    while (path->size_bytes > 0 && path->data[path->size_bytes - 1] == '/')
        path->size_bytes--;
}

/* Name of the folder above the reader's, if it is a subset, or a half of a subset as in the
 * fine-tuning sets of Libri-Light. */
static spsh_bytes subset_of(libri_scan *l, const spsh__folder *folder,
                            const spsh__librispeech_key *key)
{
    spsh_bytes path = SPSH__JOIN(l->scan, spsh__bytes_of(l->real_root == NULL ? "" : l->real_root),
                                 spsh__bytes_of("/"), spsh__bytes_of(folder->path));
    while (path.size_bytes > 0 && path.data[path.size_bytes - 1] == '/')
        path.size_bytes--;
    if (spsh__bytes_equal(spsh__bytes_base_name(path), key->chapter))
        drop_component(&path);
    if (spsh__bytes_equal(spsh__bytes_base_name(path), key->reader))
        drop_component(&path);
    const spsh_bytes subset = spsh__bytes_base_name(path);
    const bool half = spsh__bytes_equal(subset, spsh__bytes_of("clean")) ||
                      spsh__bytes_equal(subset, spsh__bytes_of("other"));
    return half || spsh__leading_split(subset).size_bytes > 0 ? subset : (spsh_bytes){0};
}

static bool has_word(spsh_bytes subset, const char *word)
{
    while (subset.size_bytes > 0) {
        if (spsh__bytes_equal(take_part(&subset), spsh__bytes_of(word)))
            return true;
    }
    return false;
}

static const char *domain_of(spsh_bytes subset)
{
    if (has_word(subset, "clean"))
        return "librispeech/clean";
    return has_word(subset, "other") ? "librispeech/other" : "librispeech";
}

static spsh_bytes make_extras(libri_scan *l, spsh_bytes subset, spsh_bytes reader)
{
    uint64_t id = 0;
    spsh__builder *extras = spsh__strings_open(l->scan);
    const spsh__librispeech_reader *known = NULL;
    if (spsh__parse_digits(reader, &id))
        known = spsh__librispeech_readers_find(&l->readers, id);
    if (known != NULL)
        spsh__json_member(extras, 0, spsh__bytes_of("gender"), spsh__bytes_of(known->sex));
    if (subset.size_bytes > 0)
        spsh__json_member(extras, 0, spsh__bytes_of("subset"), subset);
    spsh__json_close(extras, 0);
    return spsh__strings_close(l->scan);
}

/** A line of a .trans.txt. */
typedef struct trans_line {
    spsh_bytes id, text;
    spsh__librispeech_key key;
    spsh_bytes subset, split; /* empty if the folder is not a subset */
    const spsh__row_place *place;
} trans_line;

static spsh_status emit_line(libri_scan *l, const trans_line *line, spsh_bytes path,
                             uint64_t size_bytes, spsh_error *err)
{
    spsh_ingest_item item = {
        .audio_path = spsh__text_of(path),
        .source = spsh__strings_name(l->scan, path),
        .recording_id = line->id,
        .id = line->id,
        .has_text = true,
        .text = line->text,
        .domain = spsh__bytes_of(domain_of(line->subset)),
        .split = line->split,
        .subset = line->subset,
        .speaker = SPSH__JOIN(l->scan, spsh__bytes_of("librispeech/"), line->key.reader),
        .language = spsh__bytes_of("en"),
        .document = line->key.chapter,
        .extras = make_extras(l, line->subset, line->key.reader),
        .end_ns = SPSH_SEGMENT_END,
        .source_bytes = size_bytes,
    };
    return spsh__scan_emit(l->scan, &item, line->place, err);
}

/* Return the audio of a line, .flac before .wav, or NULL. Marks both as used. */
static const audio_entry *use_audio(libri_scan *l, const spsh__folder *folder, spsh_bytes id)
{
    audio_entry *flac = find_audio(l, folder, id, ".flac");
    audio_entry *wav = find_audio(l, folder, id, ".wav");
    if (flac != NULL)
        flac->used = true;
    if (wav != NULL)
        wav->used = true;
    return flac != NULL ? flac : wav;
}

static spsh_status scan_line(libri_scan *l, const spsh__folder *folder, const trans_line *line,
                             spsh_error *err)
{
    spsh__view_info info;
    spsh_reject reject = {.reason = SPSH_REJECT_MISSING_AUDIO, .id = line->id, .rows = 1};
    const audio_entry *audio = use_audio(l, folder, line->id);
    if (!spsh__scan_wants_either(l->scan, line->split, line->subset)) {
        l->scan->excluded_rows++;
        return SPSH_OK;
    }
    if (audio == NULL)
        return reject_file(l, folder,
                           spsh__text_of(SPSH__JOIN(l->scan, line->id, spsh__bytes_of(".flac"))),
                           reject, line->place, err);
    const spsh__folder_entry *entry = &folder->entries[audio->entry];
    const spsh_bytes path = file_path(l, folder, entry->name);
    if (spsh__view_stat(folder->view, spsh__text_of(path), &info) == 0 &&
        info.type == SPSH__VIEW_FILE)
        return emit_line(l, line, path, info.size_bytes, err);
    reject.reason =
        entry->type == SPSH__ENTRY_SPECIAL ? SPSH_REJECT_NOT_REGULAR : SPSH_REJECT_UNREADABLE;
    return reject_file(l, folder, entry->name, reject, line->place, err);
}

static spsh_status scan_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    libri_scan *l = user;
    trans_line line = {.id = row->fields[0], .text = row->fields[1], .place = place};
    if (spsh__librispeech_key_parse(line.id, &line.key)) {
        line.subset = subset_of(l, l->folder, &line.key);
        line.split = spsh__leading_split(line.subset);
        return scan_line(l, l->folder, &line, err);
    }
    const spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX,
                                .detail =
                                    "the line does not begin with reader-chapter-index, in digits",
                                .rows = 1};
    return spsh__scan_reject(l->scan, &reject, place, err);
}

static spsh_status scan_trans(libri_scan *l, const spsh__folder *folder, const char *name,
                              spsh_error *err)
{
    const spsh__row_visitor visitor = {
        .dialect = {.kind = SPSH__DIALECT_KALDI}, .row_fn = scan_row, .user = l};
    return spsh__scan_file_rows(l->scan, spsh__text_of(file_path(l, folder, name)), &visitor, err);
}

static spsh_status scan_speakers(libri_scan *l, const spsh__folder *folder, const char *name,
                                 spsh_error *err)
{
    spsh__text_file file;
    spsh_status rc =
        spsh__scan_open(l->scan, spsh__text_of(file_path(l, folder, name)), &file, err);
    if (rc != SPSH_OK || file.fd < 0)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    rc = spsh__librispeech_readers_add(&input, &l->readers, err);
    spsh__text_file_close(&file);
    return rc;
}

/* Reject audio without a transcript line, and .wav copies of a .flac. */
static spsh_status reject_unused(libri_scan *l, const spsh__folder *folder, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < l->audio_count && rc == SPSH_OK; i++) {
        const char *name = folder->entries[l->audio[i].entry].name;
        const spsh_bytes stem = {(const uint8_t *)name, spsh__audio_stem(spsh__bytes_of(name))};
        spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                              .detail = "no transcript line has its name"};
        if (l->audio[i].used) {
            const bool is_flac = strcmp(name + stem.size_bytes, ".flac") == 0;
            if (is_flac || find_audio(l, folder, stem, ".flac") == NULL)
                continue;
            reject.reason = SPSH_REJECT_EXCLUDED_BY_RULE;
            reject.detail = "a .flac of the same name is used";
        }
        rc = reject_file(l, folder, name, reject, NULL, err);
    }
    return rc;
}

static spsh_status scan_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    libri_scan *l = user;
    const spsh__strings_mark mark = spsh__strings_here(l->scan);
    l->folder = folder;
    spsh_status rc = collect_audio(l, folder, err);
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++) {
        const spsh__folder_entry *entry = &folder->entries[i];
        if (spsh__bytes_equal_nocase(spsh__bytes_of(entry->name), spsh__bytes_of("speakers.txt")))
            rc = scan_speakers(l, folder, entry->name, err);
    }
    for (size_t i = 0; i < folder->entry_count && rc == SPSH_OK; i++) {
        if (is_trans_name(&folder->entries[i]))
            rc = scan_trans(l, folder, folder->entries[i].name, err);
    }
    if (rc == SPSH_OK)
        rc = reject_unused(l, folder, err);
    spsh__strings_release(l->scan, mark);
    return rc;
}

static spsh_status librispeech_scan(spsh__scan *scan, spsh_error *err)
{
    libri_scan l = {.scan = scan, .real_root = spsh__view_real_root(scan->options->view)};
    const spsh__walk_visitor visitor = {scan_folder, &l, spsh__scan_walk_note, scan};
    spsh_status rc = spsh__walk(scan->options->view, &visitor, err);
    spsh__librispeech_readers_free(&l.readers);
    free(l.audio);
    return rc;
}

typedef struct libri_probe {
    spsh_layout_probe *result;
    unsigned folders;
} libri_probe;

/* Look for <reader>-<chapter>.trans.txt, which is specific to the family. SPEAKERS.TXT is not
 * enough, because it has no transcripts. */
static spsh_status probe_folder(void *user, const spsh__folder *folder, spsh_error *err)
{
    libri_probe *p = user;
    (void)err;
    for (size_t i = 0; i < folder->entry_count; i++) {
        const spsh__folder_entry *entry = &folder->entries[i];
        if (!is_trans_name(entry))
            continue;
        spsh_bytes rest = {(const uint8_t *)entry->name, entry->name_bytes - strlen(TRANS_SUFFIX)};
        const spsh_bytes reader = take_part(&rest);
        if (!spsh__is_digits(reader) || !spsh__is_digits(rest))
            continue;
        p->result->matches = true;
        spsh__probe_evidence(p->result, "it holds %.100s%s%.60s", folder->path,
                             folder->path[0] == '\0' ? "" : "/", entry->name);
        return SPSH_E_END;
    }
    return ++p->folders < PROBE_FOLDERS_MAX ? SPSH_OK : SPSH_E_END;
}

static spsh_status librispeech_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                     spsh_error *err)
{
    libri_probe p = {.result = ret_probe};
    const spsh__walk_visitor visitor = {.folder_fn = probe_folder, .user = &p};
    if (spsh__view_file(view) != NULL)
        return SPSH_OK;
    spsh_status rc = spsh__walk(view, &visitor, err);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

const spsh_layout spsh__layout_librispeech = {
    .name = "librispeech",
    .summary = "LibriSpeech, mini LibriSpeech and subsets: reader/chapter folders, .trans.txt",
    .probe_fn = librispeech_probe,
    .without_columns = "LibriSpeech",
    .scan_fn = librispeech_scan,
};
