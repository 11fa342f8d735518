/* layout_kaldi.c: Kaldi data directories.
 *
 *     [<name>/]wav.scp                  recording  file or command
 *     [<name>/]segments                 utterance  recording start end    (optional)
 *     [<name>/]text, utt2spk, utt2lang, utt2uniq                          by utterance
 *     [<name>/]spk2gender                                                 by speaker
 *     [<name>/]reco2file_and_channel    recording  file channel
 *
 * A root is a data directory, or a folder with several (train/, dev/, test/). The leading file is
 * `segments`, or wav.scp if there is no `segments`. Its rows are the utterances, and the other
 * files are joined to it (kaldi_table.h).
 *
 * A relative path is tried relative to the working directory, as in the tools that wrote it. Then
 * it is tried relative to the data directory and the folders above it, nearest first, including
 * folders above the corpus. The base that matched the last recording is tried first. Commands are
 * never run.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "ingest/metadata/kaldi_command.h"
#include "ingest/metadata/kaldi_table.h"
#include "ingest/metadata/table_audio.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/path_list.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define ENTRY_BYTES_MAX ((size_t)160)
#define BASES_MAX       ((size_t)8)
#define FOLDERS_MAX     ((size_t)4096)
#define SECOND_NS       UINT64_C(1000000000)

typedef enum kaldi_file {
    WAV,
    SEGMENTS,
    TEXT,
    UTT2SPK,
    UTT2LANG,
    UTT2UNIQ,
    SPK2GENDER,
    CHANNELS,
    FILES
} kaldi_file;

static const char *const file_names[FILES] = {
    "wav.scp",  "segments", "text",       "utt2spk",
    "utt2lang", "utt2uniq", "spk2gender", "reco2file_and_channel",
};

/** The recording of the last row, cached because segments of one recording are adjacent. */
typedef struct recording {
    spsh__builder id;
    bool known, found;
    spsh_reject reject; /* reason if it was not found; its source is in `written` */
    uint64_t size_bytes;
    spsh__builder path, source, channel, written, detail;
} recording;

typedef struct kaldi_scan {
    spsh__scan *scan;
    const char *real_root;
    spsh__builder bases;       /* folders in which relative paths are tried, NUL-terminated */
    size_t base_at[BASES_MAX]; /* offsets in bases; paths in the view, or absolute */
    size_t base_count, last_base;
    spsh_bytes name, split; /* name and split of the data directory */
    spsh_bytes prefix;      /* its path, with a '/' */
    kaldi_file leader;
    spsh__kaldi_table tables[FILES];
    spsh__kaldi_source entry;
    recording recording;
    uint64_t commands; /* count of commands that were replaced by their input file */
    uint64_t copies;   /* count of copies at another speed */
    bool failed;       /* out of memory during a lookup */
} kaldi_scan;

static void set(spsh__builder *out, spsh_bytes value)
{
    spsh__builder_clear(out);
    spsh__builder_append_bytes(out, value);
}

/* Path of a data file for rejects: "data/train/" and the file's name. */
static spsh_bytes place_of(kaldi_scan *k, kaldi_file file)
{
    return SPSH__JOIN(k->scan, k->prefix, spsh__bytes_of(file_names[file]));
}

static bool is_remote(spsh_bytes path)
{
    size_t i = 0;
    while (i < path.size_bytes && ((path.data[i] | 0x20) >= 'a' && (path.data[i] | 0x20) <= 'z'))
        i++;
    return i > 0 && path.size_bytes - i >= 3 && memcmp(path.data + i, "://", 3) == 0;
}

/* Try one base. *ret_errno is the errno of the stat. */
static bool search_in(kaldi_scan *k, const char *folder, spsh__view_info *ret_info, int *ret_errno)
{
    recording *r = &k->recording;
    spsh_bytes path = spsh__builder_bytes(&k->entry.path);
    while (path.size_bytes > 2 && memcmp(path.data, "./", 2) == 0)
        path = (spsh_bytes){path.data + 2, path.size_bytes - 2};
    spsh__builder_clear(&r->path);
    spsh__builder_append_part(&r->path, folder);
    if (*folder != '\0')
        spsh__builder_append(&r->path, "/", 1);
    spsh__builder_append_bytes(&r->path, path);
    const char *name = spsh__builder_text(&r->path);
    k->failed |= name == NULL;
    *ret_errno = name == NULL ? ENOMEM : spsh__view_stat(k->scan->options->view, name, ret_info);
    return *ret_errno == 0 && ret_info->type != SPSH__VIEW_FOLDER;
}

static const char *base_at(const kaldi_scan *k, size_t number)
{
    return (const char *)k->bases.data + k->base_at[number];
}

static bool search_everywhere(kaldi_scan *k, spsh__view_info *ret_info, int *ret_errno)
{
    if (k->entry.path.size_bytes > 0 && k->entry.path.data[0] == '/')
        return search_in(k, "", ret_info, ret_errno);
    if (k->last_base < k->base_count && search_in(k, base_at(k, k->last_base), ret_info, ret_errno))
        return true;
    for (size_t i = 0; i < k->base_count; i++) {
        if (search_in(k, base_at(k, i), ret_info, ret_errno)) {
            k->last_base = i;
            return true;
        }
    }
    return false;
}

/* Set the stored source name: the path in the view, relative to the root if the file is below the
 * root on the disk, else the path in wav.scp. */
static void name_source(kaldi_scan *k)
{
    recording *r = &k->recording;
    spsh_bytes path = spsh__builder_bytes(&r->path);
    const size_t root_bytes = k->real_root == NULL ? 0 : strlen(k->real_root);
    spsh__builder_clear(&r->source);
    if (root_bytes > 0 && path.size_bytes > root_bytes + 1 && path.data[root_bytes] == '/' &&
        memcmp(path.data, k->real_root, root_bytes) == 0)
        path = (spsh_bytes){path.data + root_bytes + 1, path.size_bytes - root_bytes - 1};
    else if (path.size_bytes > 0 && path.data[0] == '/')
        path = spsh__builder_bytes(&k->entry.path);
    spsh__name_append(&r->source, path);
}

/* Report an entry that names no usable file: the source is wav.scp, and the detail quotes the entry
 * after the reason. */
static void report_entry(kaldi_scan *k, spsh_bytes written)
{
    recording *r = &k->recording;
    if (written.size_bytes > ENTRY_BYTES_MAX)
        written.size_bytes = ENTRY_BYTES_MAX;
    set(&r->written, place_of(k, WAV));
    set(&r->detail, spsh__bytes_of(k->entry.problem));
    spsh__builder_append_text(&r->detail, ": ");
    spsh__name_append(&r->detail, written);
    r->reject.detail = spsh__builder_text(&r->detail);
}

/* Find the file of an entry of wav.scp. */
static void resolve(kaldi_scan *k, spsh_bytes written)
{
    recording *r = &k->recording;
    spsh__view_info info = {.type = SPSH__VIEW_FOLDER};
    int os_errno = 0;
    r->reject = (spsh_reject){.rows = 1, .reason = SPSH_REJECT_COMMAND_SOURCE};
    set(&r->written, written);
    spsh__kaldi_source_parse(written, &k->entry);
    if (k->entry.problem != NULL) {
        report_entry(k, written);
        return;
    }
    set(&r->written, spsh__builder_bytes(&k->entry.path));
    if (is_remote(spsh__builder_bytes(&k->entry.path))) {
        r->reject.reason = SPSH_REJECT_REMOTE_SOURCE;
        r->reject.detail = "only audio in files can be read; download it first";
        return;
    }
    (void)search_everywhere(k, &info, &os_errno);
    r->found = !spsh__audio_stat_refused(os_errno, &info, &r->reject);
    if (r->found) {
        r->size_bytes = info.size_bytes;
        k->commands += k->entry.is_command;
        name_source(k);
    }
}

/* Set the channel that the command or reco2file_and_channel selects. */
static spsh_status find_channel(kaldi_scan *k, spsh_bytes id, spsh_error *err)
{
    recording *r = &k->recording;
    bool found = false;
    spsh_bytes value = {0};
    set(&r->channel, spsh__builder_bytes(&k->entry.channel));
    spsh_status rc = spsh__kaldi_table_find(&k->tables[CHANNELS], id, &found, &value, err);
    if (rc != SPSH_OK || !found || r->channel.size_bytes > 0)
        return rc;
    size_t begin = value.size_bytes;
    while (begin > 0 && value.data[begin - 1] != ' ' && value.data[begin - 1] != '\t')
        begin--;
    if (begin > 0)
        set(&r->channel, (spsh_bytes){value.data + begin, value.size_bytes - begin});
    return SPSH_OK;
}

/* Load the recording of an id into k->recording. entry: its row if wav.scp is the leading file,
 * else NULL. */
static spsh_status take_recording(kaldi_scan *k, spsh_bytes id, const spsh_bytes *entry,
                                  spsh_error *err)
{
    recording *r = &k->recording;
    bool found = true;
    spsh_bytes value = entry == NULL ? (spsh_bytes){0} : *entry;
    if (entry == NULL && r->known && spsh__bytes_equal(spsh__builder_bytes(&r->id), id))
        return SPSH_OK;
    r->known = false;
    r->found = false;
    set(&r->id, id);
    spsh_status rc =
        entry != NULL ? SPSH_OK : spsh__kaldi_table_find(&k->tables[WAV], id, &found, &value, err);
    if (rc != SPSH_OK)
        return rc;
    if (found) {
        resolve(k, value);
        rc = find_channel(k, id, err);
    } else {
        set(&r->written, id);
        r->reject = (spsh_reject){.reason = SPSH_REJECT_MISSING_AUDIO,
                                  .detail = "wav.scp does not have this recording",
                                  .rows = 1};
    }
    if (k->failed || r->id.failed || r->written.failed || r->path.failed || r->source.failed ||
        r->channel.failed || r->detail.failed || k->entry.path.failed)
        return SPSH_NO_MEMORY(err);
    r->known = true;
    return rc;
}

/* Return a value from a table by utterance or speaker. Empty if the key is missing. */
static spsh_status look_up(kaldi_scan *k, kaldi_file file, spsh_bytes key, spsh_bytes *ret_value,
                           spsh_error *err)
{
    bool found = false;
    spsh_bytes value = {0};
    *ret_value = value;
    if (key.size_bytes == 0)
        return SPSH_OK;
    spsh_status rc = spsh__kaldi_table_find(&k->tables[file], key, &found, &value, err);
    if (rc == SPSH_OK && !spsh__is_placeholder(value))
        *ret_value = SPSH__JOIN(k->scan, value);
    return rc;
}

/* Whether an id has the prefix of speed perturbation: "sp0.9-". */
static bool has_speed(spsh_bytes id)
{
    size_t at = 2;
    if (id.size_bytes < 6 || memcmp(id.data, "sp", 2) != 0)
        return false;
    for (int part = 0; part < 2; part++) {
        const size_t digits = spsh__digits_at(id, at);
        at += digits;
        if (digits == 0 || at == id.size_bytes || id.data[at++] != (part == 0 ? '.' : '-'))
            return false;
    }
    return true;
}

static void member(spsh__builder *extras, const char *key, spsh_bytes value)
{
    if (value.size_bytes > 0)
        spsh__json_member(extras, 0, spsh__bytes_of(key), value);
}

/** An utterance: a row of the leading file. */
typedef struct utterance {
    spsh_bytes id, recording;
    uint64_t start_ns, end_ns;
    bool has_segment;
} utterance;

/* Set what the tables say about an utterance and its speaker. */
static spsh_status describe(kaldi_scan *k, const utterance *u, spsh_ingest_item *item,
                            spsh_error *err)
{
    spsh_bytes gender = {0};
    spsh_bytes original = {0};
    spsh_status rc = look_up(k, UTT2SPK, u->id, &item->speaker, err);
    /* If speakers are unknown, Kaldi uses each utterance id as a speaker. */
    if (spsh__bytes_equal(item->speaker, u->id))
        item->speaker = (spsh_bytes){0};
    if (rc == SPSH_OK)
        rc = look_up(k, UTT2LANG, u->id, &item->language, err);
    if (rc == SPSH_OK)
        rc = look_up(k, SPK2GENDER, item->speaker, &gender, err);
    if (rc == SPSH_OK)
        rc = look_up(k, UTT2UNIQ, u->id, &original, err);
    const bool is_copy = original.size_bytes > 0 && !spsh__bytes_equal(original, u->id);
    k->copies += original.size_bytes > 0 ? is_copy : has_speed(u->id);
    spsh__builder *extras = spsh__strings_open(k->scan);
    member(extras, "channel", spsh__builder_bytes(&k->recording.channel));
    member(extras, "data_dir", k->name);
    member(extras, "gender", gender);
    if (is_copy)
        member(extras, "utt2uniq", original);
    spsh__json_close(extras, 0);
    item->extras = spsh__strings_close(k->scan);
    return rc;
}

static spsh_status emit(kaldi_scan *k, const utterance *u, const spsh__row_place *place,
                        spsh_error *err)
{
    const recording *r = &k->recording;
    spsh_ingest_item item = {
        .audio_path = (const char *)r->path.data,
        .source = spsh__builder_bytes(&r->source),
        .recording_id = spsh__builder_bytes(&r->source),
        .id = u->id,
        .split = k->split,
        .document = u->has_segment ? u->recording : (spsh_bytes){0},
        .start_ns = u->start_ns,
        .end_ns = u->end_ns,
        .source_bytes = r->size_bytes,
    };
    spsh_status rc = describe(k, u, &item, err);
    if (rc == SPSH_OK)
        rc = spsh__kaldi_table_find(&k->tables[TEXT], u->id, &item.has_text, &item.text, err);
    item.domain = item.language.size_bytes > 0 ? item.language : k->name;
    return rc == SPSH_OK ? spsh__scan_emit(k->scan, &item, place, err) : rc;
}

/* The next word of rest. */
static spsh_bytes take_word(spsh_bytes *rest)
{
    size_t begin = 0;
    while (begin < rest->size_bytes && (rest->data[begin] == ' ' || rest->data[begin] == '\t'))
        begin++;
    size_t end = begin;
    while (end < rest->size_bytes && rest->data[end] != ' ' && rest->data[end] != '\t')
        end++;
    const spsh_bytes word = {rest->data + begin, end - begin};
    *rest = (spsh_bytes){rest->data + end, rest->size_bytes - end};
    return word;
}

/* Parse "recording start end". An end of -1 means the end of the recording. */
static const char *parse_segment(spsh_bytes rest, utterance *u, spsh_reject_reason *ret_reason)
{
    u->has_segment = true;
    u->recording = take_word(&rest);
    const spsh_bytes start = take_word(&rest);
    const spsh_bytes end = take_word(&rest);
    *ret_reason = SPSH_REJECT_ROW_FIELD_COUNT;
    if (end.size_bytes == 0)
        return "the line is not an utterance, a recording, a start, and an end";
    *ret_reason = SPSH_REJECT_SEGMENT_RANGE;
    if (spsh__table_time(start, SECOND_NS, &u->start_ns) != SPSH__TIME_OK)
        return "the start is not a number of seconds";
    if (end.data[0] == '-') {
        u->end_ns = SPSH_SEGMENT_END;
        return NULL;
    }
    if (spsh__table_time(end, SECOND_NS, &u->end_ns) != SPSH__TIME_OK)
        return "the end is not a number of seconds";
    return u->end_ns > u->start_ns ? NULL : "the end is not after the start";
}

/* Reject an utterance. Looks up its text, so that the text is not reported as an orphan. */
static spsh_status reject_utterance(kaldi_scan *k, const spsh_reject *reject,
                                    const spsh__row_place *place, spsh_error *err)
{
    bool has_text = false;
    spsh_bytes text = {0};
    spsh_status rc = spsh__kaldi_table_find(&k->tables[TEXT], reject->id, &has_text, &text, err);
    return rc == SPSH_OK ? spsh__scan_reject(k->scan, reject, place, err) : rc;
}

static spsh_status scan_row(void *user, const spsh__row *row, const spsh__row_place *place,
                            spsh_error *err)
{
    kaldi_scan *k = user;
    spsh_reject reject = {.rows = 1, .id = row->fields[0]};
    utterance u = {.id = row->fields[0], .recording = row->fields[0], .end_ns = SPSH_SEGMENT_END};
    if (k->leader == SEGMENTS) {
        reject.detail = parse_segment(row->fields[1], &u, &reject.reason);
        if (reject.detail != NULL)
            return reject_utterance(k, &reject, place, err);
    }
    spsh_status rc = take_recording(k, u.recording, k->leader == WAV ? &row->fields[1] : NULL, err);
    if (rc != SPSH_OK)
        return rc;
    if (k->recording.found)
        return emit(k, &u, place, err);
    reject = k->recording.reject;
    reject.id = u.id;
    reject.source = spsh__builder_bytes(&k->recording.written);
    return reject_utterance(k, &reject, place, err);
}

static spsh_status reject_unused(kaldi_scan *k, kaldi_file file, const spsh__row *row,
                                 spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(k->scan);
    const spsh__row_place place = {place_of(k, file), row->line, row->offset_bytes, row->raw};
    const spsh_reject reject = {
        .reason = file == TEXT ? SPSH_REJECT_ORPHAN_TEXT : SPSH_REJECT_ORPHAN_AUDIO,
        .id = row->fields[0],
        .detail = file == TEXT ? "no utterance has this id" : "no segment has this recording"};
    const spsh_status rc = spsh__scan_reject(k->scan, &reject, &place, err);
    spsh__strings_release(k->scan, mark);
    return rc;
}

static spsh_status reject_unused_text(void *user, const spsh__row *row, spsh_error *err)
{
    return reject_unused(user, TEXT, row, err);
}

static spsh_status reject_unused_recording(void *user, const spsh__row *row, spsh_error *err)
{
    return reject_unused(user, WAV, row, err);
}

static spsh_status open_tables(kaldi_scan *k, const spsh__view *folder, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (int i = 0; i < FILES && rc == SPSH_OK; i++)
        rc = spsh__kaldi_table_open(folder, file_names[i], &k->tables[i], err);
    if (rc != SPSH_OK)
        return rc;
    k->leader = k->tables[SEGMENTS].exists ? SEGMENTS : WAV;
    const bool sorted = k->tables[k->leader].sorted;
    k->tables[TEXT].unused_fn = reject_unused_text;
    k->tables[TEXT].user = k;
    if (k->leader == SEGMENTS) {
        k->tables[WAV].unused_fn = reject_unused_recording;
        k->tables[WAV].user = k;
        rc = spsh__kaldi_table_begin(&k->tables[WAV], false, err);
    }
    for (int i = TEXT; i < FILES && rc == SPSH_OK; i++)
        rc = spsh__kaldi_table_begin(&k->tables[i], i <= UTT2UNIQ && sorted, err);
    return rc;
}

static spsh_status reject_commands(kaldi_scan *k, spsh_error *err)
{
    const uint64_t count = k->commands;
    k->commands = 0;
    return spsh__scan_reject_commands(k->scan, count, place_of(k, WAV), err);
}

/* Report speed-perturbed copies. They are packed, so a model trains on the same words several
 * times. */
static spsh_status report_copies(kaldi_scan *k, spsh_error *err)
{
    char detail[128];
    if (k->copies == 0)
        return SPSH_OK;
    (void)snprintf(detail, sizeof(detail),
                   "utterances that are copies of others with another speed (speed perturbation), "
                   "packed unchanged: %" PRIu64,
                   k->copies);
    const spsh_reject reject = {.reason = SPSH_REJECT_AUGMENTED_COPY,
                                .source = place_of(k, k->tables[UTT2UNIQ].exists ? UTT2UNIQ : WAV),
                                .detail = detail};
    k->copies = 0;
    return spsh__scan_reject(k->scan, &reject, NULL, err);
}

static void close_tables(kaldi_scan *k)
{
    for (size_t i = 0; i < FILES; i++)
        spsh__kaldi_table_close(&k->tables[i]);
    k->base_count = 0;
    k->last_base = SIZE_MAX;
    k->recording.known = false;
}

/* Add the first bytes of a path as a base. Ignores bases beyond BASES_MAX. */
static void add_base(kaldi_scan *k, const char *path, size_t length)
{
    if (k->base_count == BASES_MAX)
        return;
    k->base_at[k->base_count++] = k->bases.size_bytes;
    spsh__builder_append(&k->bases, path, length);
    spsh__builder_append(&k->bases, "", 1);
}

/* Add the folders above a path, nearest first. "" only if the path is relative. */
static void add_folders_above(kaldi_scan *k, const char *path)
{
    for (size_t length = strlen(path); length > 0;) {
        while (length > 0 && path[length - 1] != '/')
            length--;
        length -= length > 0;
        if (length > 0 || path[0] != '/')
            add_base(k, path, length);
    }
}

/* Collect the bases: the working directory, the data directory, and the folders above it. */
static spsh_status find_bases(kaldi_scan *k, const char *below, spsh_error *err)
{
    const char *root = spsh__view_real_root(k->scan->options->view);
    char *process = realpath(".", NULL);
    spsh__builder_clear(&k->bases);
    if (process != NULL)
        add_base(k, process, strlen(process));
    free(process);
    add_base(k, below, strlen(below));
    add_folders_above(k, below);
    add_folders_above(k, root == NULL ? "" : root);
    return k->bases.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status scan_tables(kaldi_scan *k, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    const spsh__row_visitor visitor = {
        .dialect = {.kind = SPSH__DIALECT_KALDI}, .row_fn = scan_row, .user = k};
    const bool whole = k->scan->options->split_filter == NULL;
    if (spsh__scan_wants_either(k->scan, k->split, k->name))
        rc = spsh__scan_rows(k->scan, &k->tables[k->leader].input, place_of(k, k->leader), &visitor,
                             err);
    else
        k->scan->excluded_rows += k->tables[k->leader].row_count;
    if (rc == SPSH_OK && whole)
        rc = spsh__kaldi_table_end(&k->tables[TEXT], err);
    if (rc == SPSH_OK && whole && k->leader == SEGMENTS)
        rc = spsh__kaldi_table_end(&k->tables[WAV], err);
    if (rc == SPSH_OK)
        rc = reject_commands(k, err);
    return rc == SPSH_OK ? report_copies(k, err) : rc;
}

/* Scan a data directory. below: path relative to the root, or "". */
static spsh_status scan_directory(kaldi_scan *k, const char *below, spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(k->scan);
    spsh_error opened = SPSH_ERROR_INIT;
    spsh__view *folder = NULL;
    k->prefix = SPSH__JOIN(k->scan, spsh__strings_name(k->scan, spsh__bytes_of(below)),
                           spsh__bytes_of(*below == '\0' ? "" : "/"));
    spsh__view_folder_name(k->scan->options->view, below, spsh__strings_open(k->scan));
    k->name = spsh__strings_close(k->scan);
    k->split = spsh__leading_split(k->name);
    spsh_status rc = find_bases(k, below, err);
    if (rc == SPSH_OK)
        rc = spsh__view_below(k->scan->options->view, below, &folder, err);
    if (rc == SPSH_OK) {
        rc = open_tables(k, folder, &opened);
        if (rc != SPSH_OK)
            rc = SPSH_FAIL_OS(err, rc, opened.os_errno, "%s: %s", spsh__view_root(folder),
                              opened.message);
    }
    if (rc == SPSH_OK)
        rc = scan_tables(k, err);
    close_tables(k);
    spsh__view_close(folder);
    spsh__strings_release(k->scan, mark);
    return rc;
}

/* Keep a folder if it is a data directory. */
static spsh_status add_directory(spsh__path_list *d, const spsh__view *view, const char *name,
                                 spsh_error *err)
{
    spsh__builder wav_scp = {0};
    spsh__builder_append_part(&wav_scp, name);
    spsh__builder_append_part(&wav_scp, file_names[WAV]);
    const char *path = spsh__builder_text(&wav_scp);
    const bool is_one = path != NULL && spsh__view_has_file(view, path);
    const bool fits = path != NULL;
    spsh__builder_free(&wav_scp);
    if (!is_one || d->count == FOLDERS_MAX)
        return fits ? SPSH_OK : SPSH_NO_MEMORY(err);
    return spsh__path_list_add(d, "", name, err);
}

/* Find the data directories: the root itself, or the matching folders in it. If the user named a
 * wav.scp, only its folder. */
static spsh_status find_directories(const spsh__view *view, spsh__path_list *d, spsh_error *err)
{
    spsh__view_entry entry;
    spsh__view_folder *folder = NULL;
    const char *file = spsh__view_file(view);
    spsh_status rc = SPSH_OK;
    if (file == NULL || strcmp(file, file_names[WAV]) == 0)
        rc = add_directory(d, view, "", err);
    if (rc == SPSH_OK && d->count == 0 && file == NULL) {
        folder = spsh__view_folder_open(view, "");
        if (folder == NULL && errno == ENOMEM)
            rc = SPSH_NO_MEMORY(err);
    }
    for (size_t i = 0; folder != NULL && rc == SPSH_OK && i < FOLDERS_MAX; i++) {
        if (!spsh__view_folder_next(folder, &entry))
            break;
        if (entry.name[0] != '.' && entry.enters && !spsh__is_ignored_name(entry.name))
            rc = add_directory(d, view, entry.name, err);
    }
    spsh__view_folder_close(folder);
    spsh__path_list_sort(d, 0);
    return rc;
}

static void kaldi_free(kaldi_scan *k)
{
    SPSH__BUILDERS_FREE(&k->recording.id, &k->recording.path, &k->recording.source,
                        &k->recording.channel, &k->recording.written, &k->recording.detail,
                        &k->bases);
    spsh__kaldi_source_free(&k->entry);
}

static spsh_status kaldi_layout_scan(spsh__scan *scan, spsh_error *err)
{
    kaldi_scan k = {.scan = scan,
                    .real_root = spsh__view_real_root(scan->options->view),
                    .last_base = SIZE_MAX};
    spsh__path_list d = {0};
    spsh_status rc = find_directories(scan->options->view, &d, err);
    if (rc == SPSH_OK && d.count == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: has no wav.scp",
                       spsh__view_root(scan->options->view));
    for (size_t i = 0; rc == SPSH_OK && i < d.count; i++)
        rc = scan_directory(&k, d.paths[i], err);
    spsh__path_list_free(&d);
    kaldi_free(&k);
    return rc;
}

static spsh_status kaldi_layout_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                      spsh_error *err)
{
    spsh__path_list d = {0};
    spsh_status rc = find_directories(view, &d, err);
    if (rc == SPSH_OK && d.count > 0) {
        ret_probe->matches = true;
        spsh__probe_evidence(ret_probe, "it holds %.100s%swav.scp", d.paths[0],
                             d.paths[0][0] == '\0' ? "" : "/");
    }
    spsh__path_list_free(&d);
    return rc;
}

const spsh_layout spsh__layout_kaldi = {
    .name = "kaldi",
    .summary = "Kaldi data directories: wav.scp with text, segments, utt2spk ...",
    .tier = SPSH_LAYOUT_FORMAT,
    .reads_file = true,
    .probe_fn = kaldi_layout_probe,
    .without_columns = "a Kaldi data directory",
    .scan_fn = kaldi_layout_scan,
};
