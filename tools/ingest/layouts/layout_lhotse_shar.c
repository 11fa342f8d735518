/* layout_lhotse_shar.c: Lhotse Shar, cuts and their audio in archives of equal order.
 *
 *     cuts.000000.jsonl.gz     {"id": "cut-1", "type": "MonoCut", "supervisions": [...], ...}
 *     recording.000000.tar     cut-1.flac, cut-1.json, cut-2.nodata, cut-2.nometa, ...
 *     features.000000.tar, <other>.000000.jsonl.gz    not read
 *
 * The numbers may be missing. The n-th pair of members in the archive belongs to the n-th cut of
 * the manifest. The name of the members must equal the cut's id. If either file ends early, that is
 * reported. Both files are read together, and only one cut is held in memory.
 *
 * A member holds only the audio of its cut, so times in the cut are times in the member.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "ingest/metadata/json_manifest.h"
#include "ingest/metadata/lhotse.h"
#include "ingest/scan/scan_rows.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/path_list.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define FIELDS_MAX ((size_t)64)

/** Shards of one field: of the cuts, or of another field. */
typedef struct shar_field {
    char *name;
    uint64_t files;
} shar_field;

typedef struct shar_scan {
    spsh__scan *scan;
    spsh__lhotse lhotse;
    shar_field fields[FIELDS_MAX]; /* fields that are not read */
    size_t field_count;
    spsh__path_list suffixes; /* suffixes of the shards, sorted: ".000000", or "" without a
                                 number */
    spsh__builder folder_name;
    /* State of the current shard. */
    spsh__jsonl_reader *cuts;
    spsh__builder cuts_name, archive_name;
    spsh__builder data_name, data_path; /* data member that waits for the next member, its .json */
    spsh__piece data;
    bool have_data;
    bool cuts_ended;
    uint64_t pairs_left; /* pairs after the last cut */
} shar_scan;

/** "recording.000017.tar" */
typedef struct shar_name {
    size_t field_bytes;
    const char *suffix; /* starts after the field */
    size_t suffix_bytes;
    bool is_archive; /* false: JSON lines */
} shar_name;

/* Parse the file name of a shard. Returns false for other names. */
static bool parse_name(const char *name, shar_name *ret_name)
{
    static const char *const endings[] = {".tar", ".jsonl", ".jsonl.gz"};
    shar_name n = {.field_bytes = strcspn(name, ".")};
    n.suffix = name + n.field_bytes;
    const size_t digits = n.suffix[0] == '.' ? strspn(n.suffix + 1, "0123456789") : 0;
    n.suffix_bytes = digits > 0 ? digits + 1 : 0;
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (n.field_bytes > 0 && strcmp(n.suffix + n.suffix_bytes, endings[i]) == 0) {
            n.is_archive = i == 0;
            *ret_name = n;
            return true;
        }
    }
    return false;
}

static bool is_field(const char *name, const shar_name *n, const char *field)
{
    return n->field_bytes == strlen(field) && memcmp(name, field, n->field_bytes) == 0;
}

static void cuts_path(spsh__builder *out, const char *suffix, const char *ending)
{
    spsh__builder_clear(out);
    spsh__builder_append_text(out, "cuts");
    spsh__builder_append_text(out, suffix);
    spsh__builder_append_text(out, ending);
}

/* Find the cuts manifest with that suffix and write its path to out. Returns false if it does not
 * exist. */
static bool find_cuts(const spsh__view *view, const char *suffix, spsh__builder *out)
{
    static const char *const endings[] = {".jsonl.gz", ".jsonl"};
    for (size_t i = 0; i < 2; i++) {
        cuts_path(out, suffix, endings[i]);
        spsh__view_info info = {0};
        const char *path = spsh__builder_text(out);
        const int os_errno = path == NULL ? ENOMEM : spsh__view_stat(view, path, &info);
        if (os_errno == 0 && info.type == SPSH__VIEW_FILE)
            return true;
        out->failed |= os_errno == ENOMEM;
        if (out->failed)
            return false;
    }
    return false;
}

/* Whether a file name is the cuts manifest of a shard. */
static bool is_cuts_name(const char *name, shar_name *n)
{
    return parse_name(name, n) && !n->is_archive && is_field(name, n, "cuts");
}

/* Probe named cuts: they match if their recordings are in the same folder. */
static spsh_status probe_file(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err)
{
    const char *file = spsh__view_file(view);
    spsh__builder archive = {0};
    shar_name n;
    if (!is_cuts_name(file, &n))
        return SPSH_OK;
    spsh__builder_append_text(&archive, "recording");
    spsh__builder_append(&archive, n.suffix, n.suffix_bytes);
    spsh__builder_append_text(&archive, ".tar");
    const char *path = spsh__builder_text(&archive);
    ret_probe->matches = path != NULL && spsh__view_has_file(view, path);
    if (ret_probe->matches)
        spsh__probe_evidence(ret_probe, "%.80s is next to %.80s", file, path);
    const bool failed = path == NULL;
    spsh__builder_free(&archive);
    return failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status shar_probe(const spsh__view *view, spsh_layout_probe *ret_probe, spsh_error *err)
{
    spsh__builder cuts = {0};
    shar_name n;
    if (spsh__view_file(view) != NULL)
        return probe_file(view, ret_probe, err);
    for (size_t i = 0; !ret_probe->matches; i++) {
        const char *archive = spsh__view_archive(view, i);
        char suffix[64];
        if (archive == NULL)
            break;
        if (!parse_name(archive, &n) || !n.is_archive || !is_field(archive, &n, "recording") ||
            n.suffix_bytes >= sizeof(suffix))
            continue;
        memcpy(suffix, n.suffix, n.suffix_bytes);
        suffix[n.suffix_bytes] = '\0';
        ret_probe->matches = find_cuts(view, suffix, &cuts);
        if (ret_probe->matches)
            spsh__probe_evidence(ret_probe, "%s is next to recording%s.tar",
                                 (const char *)cuts.data, suffix);
    }
    const bool failed = cuts.failed;
    spsh__builder_free(&cuts);
    return failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* ---- the files of the folder ---- */

static spsh_status add_suffix(shar_scan *s, const char *suffix, size_t size_bytes, spsh_error *err)
{
    return spsh__path_list_push(&s->suffixes, strndup(suffix, size_bytes)) ? SPSH_OK
                                                                           : SPSH_NO_MEMORY(err);
}

static spsh_status add_field(shar_scan *s, const char *name, size_t size_bytes, spsh_error *err)
{
    for (size_t i = 0; i < s->field_count; i++) {
        if (strlen(s->fields[i].name) == size_bytes &&
            memcmp(s->fields[i].name, name, size_bytes) == 0) {
            s->fields[i].files++;
            return SPSH_OK;
        }
    }
    if (s->field_count == FIELDS_MAX)
        return SPSH_OK;
    s->fields[s->field_count] = (shar_field){strndup(name, size_bytes), 1};
    return s->fields[s->field_count].name == NULL ? SPSH_NO_MEMORY(err)
                                                  : (s->field_count++, SPSH_OK);
}

static int compare_fields(const void *a, const void *b)
{
    return strcmp(((const shar_field *)a)->name, ((const shar_field *)b)->name);
}

/* List the suffixes of cuts and recordings, each once. For named cuts, only their suffix. */
static spsh_status list_shards(shar_scan *s, spsh_error *err)
{
    const char *file = spsh__view_file(s->scan->options->view);
    spsh_status rc = SPSH_OK;
    spsh__view_entry entry;
    shar_name n;
    size_t kept = 0;
    if (file != NULL)
        return is_cuts_name(file, &n)
                   ? add_suffix(s, n.suffix, n.suffix_bytes, err)
                   : SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: the file name is not cuts*.jsonl[.gz]",
                               spsh__view_root(s->scan->options->view));
    spsh__view_folder *folder = spsh__view_folder_open(s->scan->options->view, "");
    if (folder == NULL)
        return SPSH_FAIL_OS(err, errno == ENOMEM ? SPSH_E_NO_MEMORY : SPSH_E_IO, errno,
                            "%s: cannot read the file", spsh__view_root(s->scan->options->view));
    while (rc == SPSH_OK && spsh__view_folder_next(folder, &entry)) {
        if (entry.type == SPSH__VIEW_FOLDER || spsh__is_ignored_name(entry.name) ||
            !parse_name(entry.name, &n))
            continue;
        if (is_field(entry.name, &n, n.is_archive ? "recording" : "cuts"))
            rc = add_suffix(s, n.suffix, n.suffix_bytes, err);
        else
            rc = add_field(s, entry.name, n.field_bytes, err);
    }
    spsh__view_folder_close(folder);
    spsh__path_list_sort(&s->suffixes, 0);
    if (s->field_count > 1)
        qsort(s->fields, s->field_count, sizeof(*s->fields), compare_fields);
    for (size_t i = 0; i < s->suffixes.count; i++) {
        if (kept > 0 && strcmp(s->suffixes.paths[kept - 1], s->suffixes.paths[i]) == 0)
            free(s->suffixes.paths[i]);
        else
            s->suffixes.paths[kept++] = s->suffixes.paths[i];
    }
    s->suffixes.count = kept;
    return rc;
}

static spsh_status report_fields(shar_scan *s, spsh_error *err)
{
    char detail[96];
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < s->field_count && rc == SPSH_OK; i++) {
        (void)snprintf(detail, sizeof(detail),
                       "a field that is not read, in %" PRIu64 " file(s): audio and cuts are",
                       s->fields[i].files);
        const spsh_reject reject = {.reason = SPSH_REJECT_EXCLUDED_BY_RULE,
                                    .source = spsh__bytes_of(s->fields[i].name),
                                    .detail = detail};
        rc = spsh__scan_reject(s->scan, &reject, NULL, err);
    }
    return rc;
}

/* ---- a shard ---- */

/* Length of a member's name before its last extension. */
static size_t stem_of(spsh_bytes name)
{
    for (size_t i = name.size_bytes; i > 1 && name.data[i - 1] != '/'; i--) {
        if (name.data[i - 1] == '.')
            return i - 1;
    }
    return name.size_bytes;
}

/* Return the path of the data member that has no metadata member yet: archive/member. */
static spsh_bytes source_of(shar_scan *s)
{
    return spsh__strings_name(s->scan,
                              SPSH__JOIN(s->scan, spsh__builder_bytes(&s->archive_name),
                                         spsh__bytes_of("/"), spsh__builder_bytes(&s->data_name)));
}

static spsh_status reject_member(shar_scan *s, const char *detail, const spsh__lhotse_cut *cut,
                                 const spsh__row_place *place, spsh_error *err)
{
    const spsh_reject reject = {.reason = SPSH_REJECT_BAD_MEMBER,
                                .source = source_of(s),
                                .id = cut == NULL ? (spsh_bytes){0} : cut->id,
                                .detail = detail,
                                .rows = cut == NULL ? 0 : spsh__lhotse_cut_rows(cut)};
    return spsh__scan_reject(s->scan, &reject, place, err);
}

static bool is_wanted(const shar_scan *s)
{
    return spsh__scan_wants_either(s->scan, s->lhotse.name.split,
                                   spsh__builder_bytes(&s->folder_name));
}

/* Emit a cut and its member. */
static spsh_status take_pair(shar_scan *s, const spsh__lhotse_cut *cut,
                             const spsh__row_place *place, spsh_error *err)
{
    const spsh_bytes name = spsh__builder_bytes(&s->data_name);
    const spsh_bytes stem = {name.data, stem_of(name)};
    spsh__lhotse_audio audio = {
        .reject = {
                   .reason = SPSH_REJECT_MISSING_AUDIO,
                   .detail =
                "the archive has only a placeholder: the cut was written without its recording"}
    };
    spsh__json_value id;
    static const char *const id_name[] = {"id"};
    static const unsigned id_kinds = SPSH__JSON_STRINGS;
    spsh__lhotse_cut bad = *cut;
    bad.reason = SPSH_REJECT_ROW_SYNTAX;
    bad.problem = NULL;
    size_t offset = 0;
    if (!is_wanted(s)) {
        s->scan->excluded_rows += spsh__lhotse_cut_rows(cut);
        return SPSH_OK;
    }
    if (cut->problem != NULL && cut->reason == SPSH_REJECT_ROW_SYNTAX)
        return spsh__lhotse_cut_emit(&s->lhotse, cut, &audio, place, err);
    if (!spsh__bytes_equal(stem, cut->id))
        return reject_member(s, "the member at the position of the cut's audio has another name",
                             cut, place, err);
    if (!spsh__ends_with(name, ".nodata")) {
        audio.found = true;
        audio.piece = s->data;
        audio.source = source_of(s);
        audio.size_bytes = s->data.size_bytes;
        spsh__builder_clear(&s->lhotse.recording_id);
        if (spsh__json_pick(cut->recording.raw, id_name, 1, &id, NULL, &offset) == NULL) {
            bad.problem =
                spsh__json_kind_problem(&id, id_name, &id_kinds, 1, s->lhotse.kind_problem);
            spsh__json_unescape(&id, &s->lhotse.recording_id);
        }
        if (bad.problem != NULL)
            return spsh__lhotse_cut_emit(&s->lhotse, &bad, &audio, place, err);
        audio.recording_id = spsh__builder_bytes(&s->lhotse.recording_id);
    }
    return spsh__lhotse_cut_emit(&s->lhotse, cut, &audio, place, err);
}

/* Read the next cut of the shard. Broken lines are reported. A broken line still has a position in
 * the archive, so its member is skipped. */
static spsh_status next_pair(shar_scan *s, spsh_error *err)
{
    spsh__jsonl_line line;
    spsh__lhotse_cut cut;
    if (s->cuts_ended) {
        s->pairs_left++;
        return SPSH_OK;
    }
    spsh_status rc = spsh__jsonl_reader_next(s->cuts, &line, err);
    if (rc == SPSH_E_END) {
        s->cuts_ended = true;
        s->pairs_left++;
        return SPSH_OK;
    }
    if (rc != SPSH_OK)
        return rc;
    const spsh__row_place place = {spsh__builder_bytes(&s->cuts_name), line.line, line.offset_bytes,
                                   line.raw};
    if (line.problem != NULL) {
        const spsh_reject reject = {
            .reason = SPSH_REJECT_ROW_SYNTAX, .detail = line.problem, .rows = 1};
        return spsh__scan_reject(s->scan, &reject, &place, err);
    }
    spsh__lhotse_cut_take(&s->lhotse, &line, &cut);
    rc = take_pair(s, &cut, &place, err);
    return rc == SPSH_OK ? spsh__scan_progress(s->scan, 1, err) : rc;
}

static bool is_second(const shar_scan *s, spsh_bytes name)
{
    const spsh_bytes first = spsh__builder_bytes(&s->data_name);
    const size_t stem = stem_of(name);
    return (spsh__ends_with(name, ".json") || spsh__ends_with(name, ".nometa")) &&
           stem == stem_of(first) && memcmp(name.data, first.data, stem) == 0;
}

static spsh_status take_member(void *user, const spsh__view_member *member, spsh_error *err)
{
    shar_scan *s = user;
    const spsh__strings_mark mark = spsh__strings_here(s->scan);
    const spsh_bytes name = spsh__bytes_of(member->name);
    spsh_status rc = SPSH_OK;
    if (member->type != SPSH__VIEW_FILE)
        return SPSH_OK;
    if (s->have_data && is_second(s, name)) {
        s->have_data = false;
        rc = next_pair(s, err);
        spsh__strings_release(s->scan, mark);
        return rc;
    }
    if (s->have_data)
        rc = reject_member(s, "the member has no .json that describes it", NULL, NULL, err);
    spsh__strings_release(s->scan, mark);
    spsh__builder_clear(&s->data_name);
    spsh__builder_append_bytes(&s->data_name, name);
    spsh__builder_clear(&s->data_path);
    spsh__builder_append_text(&s->data_path, member->piece.path);
    s->data = member->piece;
    s->data.path = spsh__builder_text(&s->data_path);
    s->have_data = true;
    return s->data.path == NULL || s->data_name.failed ? SPSH_NO_MEMORY(err) : rc;
}

/* Report the rest of the longer file. */
static spsh_status end_shard(shar_scan *s, spsh_error *err)
{
    char detail[128];
    spsh__jsonl_line line;
    spsh__lhotse_cut cut;
    uint64_t rows = 0;
    uint64_t cuts = 0;
    spsh_status rc = SPSH_OK;
    if (s->have_data)
        rc = reject_member(s, "the member has no .json that describes it", NULL, NULL, err);
    while (rc == SPSH_OK && !s->cuts_ended &&
           (rc = spsh__jsonl_reader_next(s->cuts, &line, err)) == SPSH_OK) {
        if (line.problem == NULL)
            spsh__lhotse_cut_take(&s->lhotse, &line, &cut);
        rows += line.problem == NULL ? spsh__lhotse_cut_rows(&cut) : 1;
        cuts++;
    }
    if ((rc != SPSH_OK && rc != SPSH_E_END) || (cuts == 0 && s->pairs_left == 0))
        return rc == SPSH_E_END ? SPSH_OK : rc;
    if (cuts > 0)
        (void)snprintf(detail, sizeof(detail), "cuts without a member in the archive: %" PRIu64,
                       cuts);
    else
        (void)snprintf(detail, sizeof(detail), "recordings after the last cut: %" PRIu64,
                       s->pairs_left);
    const spsh_reject reject = {.reason = SPSH_REJECT_COUNT_MISMATCH,
                                .source = spsh__builder_bytes(&s->archive_name),
                                .detail = detail,
                                .rows = rows};
    return spsh__scan_reject(s->scan, &reject, NULL, err);
}

static spsh_status scan_members(shar_scan *s, spsh__text_file *cuts, spsh_error *err)
{
    const spsh__text_input input = spsh__text_input_file(cuts);
    s->have_data = false;
    s->cuts_ended = false;
    s->pairs_left = 0;
    spsh_status rc = spsh__jsonl_reader_new(&input, spsh__lhotse_cut_names, SPSH__LHOTSE_NAMES_MAX,
                                            &s->cuts, err);
    if (rc == SPSH_OK)
        rc = spsh__view_members(s->scan->options->view, spsh__builder_text(&s->archive_name),
                                take_member, s, err);
    if (rc == SPSH_E_NOT_FOUND)
        rc = SPSH_OK; /* end_shard counts the cuts */
    if (rc == SPSH_OK)
        rc = end_shard(s, err);
    spsh__jsonl_reader_free(s->cuts);
    s->cuts = NULL;
    return rc;
}

static spsh_status scan_shard(shar_scan *s, const char *suffix, spsh_error *err)
{
    spsh__text_file file;
    spsh__builder_clear(&s->archive_name);
    spsh__builder_append_text(&s->archive_name, "recording");
    spsh__builder_append_text(&s->archive_name, suffix);
    spsh__builder_append_text(&s->archive_name, ".tar");
    const char *given = spsh__view_file(s->scan->options->view);
    const bool has_cuts = given != NULL || find_cuts(s->scan->options->view, suffix, &s->cuts_name);
    if (given != NULL) {
        spsh__builder_clear(&s->cuts_name);
        spsh__builder_append_text(&s->cuts_name, given);
    }
    if (spsh__builder_text(&s->archive_name) == NULL || spsh__builder_text(&s->cuts_name) == NULL)
        return SPSH_NO_MEMORY(err);
    if (!has_cuts) {
        const spsh_reject reject = {.reason = SPSH_REJECT_COUNT_MISMATCH,
                                    .source = spsh__builder_bytes(&s->archive_name),
                                    .detail = "there are no cuts for this archive"};
        return spsh__scan_reject(s->scan, &reject, NULL, err);
    }
    spsh_status rc = spsh__scan_open(s->scan, (const char *)s->cuts_name.data, &file, err);
    if (rc == SPSH_OK && file.fd >= 0)
        rc = scan_members(s, &file, err);
    spsh__text_file_close(&file);
    return rc;
}

static void shar_free(shar_scan *s)
{
    SPSH__BUILDERS_FREE(&s->folder_name, &s->cuts_name, &s->archive_name, &s->data_name,
                        &s->data_path);
    spsh__path_list_free(&s->suffixes);
    for (size_t i = 0; i < s->field_count; i++)
        free(s->fields[i].name);
    spsh__lhotse_free(&s->lhotse);
    free(s);
}

static spsh_status shar_scan_root(spsh__scan *scan, spsh_error *err)
{
    shar_scan *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    s->scan = scan;
    s->lhotse.scan = scan;
    spsh__view_folder_name(scan->options->view, "", &s->folder_name);
    spsh_status rc = spsh__builder_text(&s->folder_name) == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK) {
        s->lhotse.name.split = spsh__split_of_name((const char *)s->folder_name.data);
        rc = list_shards(s, err);
    }
    for (size_t i = 0; i < s->suffixes.count && rc == SPSH_OK; i++)
        rc = scan_shard(s, s->suffixes.paths[i], err);
    if (rc == SPSH_OK)
        rc = report_fields(s, err);
    shar_free(s);
    return rc;
}

const spsh_layout spsh__layout_lhotse_shar = {
    .name = "lhotse-shar",
    .summary = "Lhotse Shar: cuts.000000.jsonl.gz and recording.000000.tar",
    .tier = SPSH_LAYOUT_CORPUS,
    .reads_file = true,
    .probe_fn = shar_probe,
    .scan_fn = shar_scan_root,
};
