/* layout_nemo_tarred.c: NeMo manifests whose audio is stored in archives.
 *
 *     [bucket1/]tarred_audio_manifest.json           lines for all archives
 *     [bucket1/]sharded_manifests/manifest_0.json    the same lines, only for archive 0
 *     [bucket1/]audio_0.tar                          archive 0 with a member a_wav.wav
 *
 *     {"audio_filepath": "a_wav.wav", "shard_id": 0, ...}
 *
 * A line's member is in the archive with the number shard_id. Its name is the name in the line,
 * with two exceptions. First, producers convert audio, and the manifest keeps the old extension.
 * Second, if several lines cut pieces out of one file ("a.wav", "a-sub1.wav", "a-sub2.wav"), the
 * file is in the archive once, under the name of the first line.
 *
 * The manifest of all archives is read if it exists, otherwise the manifests of single archives.
 * Producers drop utterances so that all archives have the same count of members. These utterances
 * are in no archive.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/file_names.h"
#include "ingest/scan/scan_strings.h"
#include "ingest/view/member_index.h"
#include "ingest/view/path_list.h"
#include "layout_nemo.h"
#include "layouts.h"
#include "speechshard/inside.h"

#define PATHS_MAX     ((size_t)1 << 16)
#define PROBES_MAX    ((size_t)64) /* files next to archives to check; a folder may hold millions */
#define NUMBER_DIGITS ((size_t)18)

/** One folder with manifests and archives. */
typedef struct unit_scan {
    spsh__scan *scan;
    const char *folder; /* "" or "bucket1" */
    const spsh__path_list *buckets;
    spsh__json_format format;
    spsh__member_index *members;
    uint64_t manifest_number; /* archive number in the manifest's name; UINT64_MAX: none */
} unit_scan;

/* ---- names ---- */

/* The number after the last '_' that digits follow: "audio_12.tar", "manifest_0.json". */
static uint64_t number_of(const char *path)
{
    const char *base = spsh__base_name(path);
    for (const char *at = base + strlen(base); at > base; at--) {
        const char *digits = at;
        uint64_t number = 0;
        if (at[-1] == '_' && spsh__take_digits(&digits, UINT64_MAX, &number) &&
            (size_t)(digits - at) <= NUMBER_DIGITS)
            return number;
    }
    return UINT64_MAX;
}

static bool is_bucket(const char *name)
{
    return strncmp(name, "bucket", 6) == 0 && name[6] != '\0' &&
           name[6 + strspn(name + 6, "0123456789")] == '\0';
}

static bool is_manifest_name(const char *name)
{
    return !spsh__is_ignored_name(name) && (spsh__ends_with(spsh__bytes_of(name), ".json") ||
                                            spsh__ends_with(spsh__bytes_of(name), ".jsonl"));
}

static bool is_below(const char *path, const char *folder)
{
    const size_t length = strlen(folder);
    return length == 0 || (strncmp(path, folder, length) == 0 && path[length] == '/');
}

/* ---- lists of paths ---- */

static int compare_paths(const void *a, const void *b)
{
    const char *x = *(char *const *)a;
    const char *y = *(char *const *)b;
    const uint64_t m = number_of(x);
    const uint64_t n = number_of(y);
    if (m != n)
        return m < n ? -1 : 1;
    return strcmp(x, y);
}

/* List the names in a folder that keep_fn accepts and that have the given type. Empty if the folder
 * is unreadable. */
static spsh_status list_folder(const spsh__view *view, const char *folder, spsh__view_type type,
                               bool (*keep_fn)(const char *name), spsh__path_list *list,
                               spsh_error *err)
{
    spsh__view_entry entry;
    spsh_status rc = SPSH_OK;
    spsh__view_folder *opened = spsh__view_folder_open(view, folder);
    if (opened == NULL && errno == ENOMEM)
        return SPSH_NO_MEMORY(err);
    while (rc == SPSH_OK && opened != NULL && list->count < PATHS_MAX &&
           spsh__view_folder_next(opened, &entry)) {
        const bool fits = entry.type == type || entry.type == SPSH__VIEW_LINK;
        if (fits && keep_fn(entry.name))
            rc = spsh__path_list_add(list, folder, entry.name, err);
    }
    spsh__view_folder_close(opened);
    if (list->count > 1)
        qsort(list->paths, list->count, sizeof(*list->paths), compare_paths);
    return rc;
}

/* ---- manifests and archives ---- */

static spsh__json_format format_of(bool has_shards)
{
    spsh__json_format format = spsh__nemo_format;
    format.title = "a NeMo manifest of archives";
    format.excluded = 0;
    if (has_shards)
        format.required |= UINT32_C(1) << SPSH__JSON_SHARD;
    return format;
}

/* Keep the manifests among the first files. */
static spsh_status keep_manifests(const spsh__view *view, bool has_shards, size_t probes_max,
                                  spsh__path_list *list, spsh_error *err)
{
    const spsh__json_format format = format_of(has_shards);
    size_t kept = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < list->count; i++) {
        bool fits = false;
        if (rc == SPSH_OK && i < probes_max)
            rc = spsh__json_manifest_fits(view, list->paths[i], &format, &fits, err);
        rc = rc == SPSH_E_NO_MEMORY ? rc : SPSH_OK; /* an unreadable file is not a manifest */
        if (fits)
            list->paths[kept++] = list->paths[i];
        else
            free(list->paths[i]);
    }
    list->count = kept;
    return rc;
}

/* Find the manifest of all archives: the named file, NeMo's standard name, or a similar one. */
static spsh_status find_whole(const spsh__view *view, const char *folder, spsh__path_list *ret_list,
                              spsh_error *err)
{
    const char *given = folder[0] == '\0' ? spsh__view_file(view) : NULL;
    spsh_status rc = spsh__path_list_add(ret_list, given == NULL ? folder : "",
                                         given == NULL ? "tarred_audio_manifest.json" : given, err);
    if (rc == SPSH_OK)
        rc = keep_manifests(view, true, 1, ret_list, err);
    if (rc == SPSH_OK && ret_list->count == 0 && given == NULL)
        rc = list_folder(view, folder, SPSH__VIEW_FILE, is_manifest_name, ret_list, err);
    return rc == SPSH_OK ? keep_manifests(view, true, PROBES_MAX, ret_list, err) : rc;
}

/* Find the manifests of a folder. A probe checks only the first. */
static spsh_status find_manifests(const spsh__view *view, const char *folder, bool is_probe,
                                  spsh__path_list *ret_list, spsh_error *err)
{
    spsh__builder sharded = {0};
    spsh_status rc = find_whole(view, folder, ret_list, err);
    if (rc != SPSH_OK || ret_list->count > 0 || spsh__view_file(view) != NULL)
        return rc;
    spsh__builder_append_part(&sharded, folder);
    spsh__builder_append_part(&sharded, "sharded_manifests");
    const char *path = spsh__builder_text(&sharded);
    rc = path == NULL ? SPSH_NO_MEMORY(err)
                      : list_folder(view, path, SPSH__VIEW_FILE, is_manifest_name, ret_list, err);
    if (rc == SPSH_OK)
        rc = keep_manifests(view, false, is_probe ? 1 : PATHS_MAX, ret_list, err);
    spsh__builder_free(&sharded);
    return rc;
}

/* List the root and its buckets. */
static spsh_status find_folders(const spsh__view *view, spsh__path_list *ret_buckets,
                                spsh_error *err)
{
    if (spsh__view_file(view) != NULL)
        return SPSH_OK;
    return list_folder(view, "", SPSH__VIEW_FOLDER, is_bucket, ret_buckets, err);
}

/* ---- archives ---- */

/* Whether an archive belongs to the unit. For a named manifest, only archives in its folder do:
 * archives of other corpora below that folder may have the same numbers. */
static bool is_of_unit(const unit_scan *u, const char *archive)
{
    if (!is_below(archive, u->folder) || number_of(archive) == UINT64_MAX)
        return false;
    if (spsh__view_file(u->scan->options->view) != NULL)
        return strchr(archive, '/') == NULL;
    for (size_t i = 0; i < u->buckets->count && u->folder[0] == '\0'; i++) {
        if (is_below(archive, u->buckets->paths[i]))
            return false;
    }
    return true;
}

/* Source of a member: the archive's path and the member's name. */
static spsh_bytes source_of(unit_scan *u, const char *archive, spsh_bytes name)
{
    return spsh__strings_name(
        u->scan, SPSH__JOIN(u->scan, spsh__bytes_of(archive), spsh__bytes_of("/"), name));
}

static spsh_status reject_member(unit_scan *u, spsh_reject_reason reason, const char *detail,
                                 const char *archive, const spsh__view_member *member,
                                 spsh_error *err)
{
    const spsh__strings_mark mark = spsh__strings_here(u->scan);
    const spsh_reject reject = {.reason = reason,
                                .source = source_of(u, archive, spsh__bytes_of(member->name)),
                                .detail = detail};
    const spsh_status rc = spsh__scan_reject(u->scan, &reject, NULL, err);
    spsh__strings_release(u->scan, mark);
    return rc;
}

static spsh_status report_twice(void *user, const char *archive, const spsh__view_member *member,
                                spsh_error *err)
{
    return reject_member(user, SPSH_REJECT_DUP_MEMBER,
                         "an earlier member of the archive has this name", archive, member, err);
}

static spsh_status report_orphan(void *user, const char *archive, const spsh__view_member *member,
                                 spsh_error *err)
{
    return reject_member(user, SPSH_REJECT_ORPHAN_AUDIO, "no line of a manifest names it", archive,
                         member, err);
}

static spsh_status index_archives(unit_scan *u, spsh_error *err)
{
    const spsh__view *view = u->scan->options->view;
    const spsh__member_visitor twice = {report_twice, u};
    spsh_status rc = spsh__member_index_new(view, &u->members, err);
    for (size_t i = 0; rc == SPSH_OK; i++) {
        const char *archive = spsh__view_archive(view, i);
        if (archive == NULL)
            break;
        if (is_of_unit(u, archive))
            rc = spsh__member_index_add(u->members, archive, number_of(archive), &twice, err);
    }
    return rc;
}

/* ---- lines ---- */

/* Strip "-sub<N>" before the extension. Returns a name without it unchanged. */
static spsh_bytes without_sub(spsh_bytes name)
{
    size_t end = spsh__audio_stem(name);
    const size_t stem = end;
    while (end > 0 && name.data[end - 1] >= '0' && name.data[end - 1] <= '9')
        end--;
    if (end == stem || end < 5 || memcmp(name.data + end - 4, "-sub", 4) != 0)
        return name;
    return (spsh_bytes){name.data, end - 4};
}

static spsh_status find_line(void *user, spsh_bytes written, const spsh__json_value *shard,
                             spsh__json_archived *ret_member, spsh_error *err)
{
    unit_scan *u = user;
    spsh__found_member member;
    uint64_t number = u->manifest_number;
    const spsh_bytes base = spsh__bytes_base_name(written);
    const spsh_bytes names[] = {written, base, without_sub(base)};
    *ret_member = (spsh__json_archived){.detail = "the line names no archive"};
    if (shard != NULL && !spsh__parse_digits(shard->raw, &number))
        return SPSH_OK;
    if (number == UINT64_MAX)
        return SPSH_OK;
    spsh_bytes name = written;
    bool found = false;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == SPSH_OK && !found; i++) {
        name = names[i];
        rc = spsh__member_index_find(u->members, number, name, &found, &member, err);
    }
    ret_member->found = found;
    if (rc != SPSH_OK || !found) {
        ret_member->detail = spsh__member_index_has(u->members, number)
                                 ? "its archive has no such member"
                                 : "no archive has the number of this line";
        return rc;
    }
    const spsh_bytes stem = {name.data, spsh__audio_stem(name)};
    ret_member->piece = member.piece;
    ret_member->source = source_of(u, member.archive, SPSH__JOIN(u->scan, stem, member.extension));
    return SPSH_OK;
}

/* ---- units ---- */

static spsh_status scan_manifests(unit_scan *u, const spsh__path_list *manifests, spsh_error *err)
{
    spsh__json_archives members = {
        .find_fn = find_line,
        .user = u,
        .folder = u->folder,
    };
    if (!spsh__split_of_root(u->scan->options->view, &members.split))
        return SPSH_NO_MEMORY(err);
    const spsh__member_visitor orphans = {report_orphan, u};
    spsh_status rc = index_archives(u, err);
    for (size_t i = 0; i < manifests->count && rc == SPSH_OK; i++) {
        u->manifest_number = number_of(manifests->paths[i]);
        rc = spsh__json_manifest_read(u->scan, &u->format, manifests->paths[i], &members, err);
    }
    /* With --split, members of other splits were never looked up, so they are not orphans. */
    if (rc == SPSH_OK && u->scan->options->split_filter == NULL)
        rc = spsh__member_index_rest(u->members, &orphans, err);
    return rc;
}

static spsh_status scan_unit(spsh__scan *scan, const char *folder, const spsh__path_list *buckets,
                             bool *ret_taken, spsh_error *err)
{
    unit_scan u = {.scan = scan, .folder = folder, .buckets = buckets, .format = format_of(true)};
    spsh__path_list manifests = {0};
    spsh_status rc = find_manifests(scan->options->view, folder, false, &manifests, err);
    *ret_taken |= manifests.count > 0;
    if (rc == SPSH_OK && manifests.count > 0)
        rc = scan_manifests(&u, &manifests, err);
    spsh__member_index_free(u.members);
    spsh__path_list_free(&manifests);
    return rc;
}

static spsh_status nemo_tarred_scan(spsh__scan *scan, spsh_error *err)
{
    spsh__path_list buckets = {0};
    bool taken = false;
    spsh_status rc = find_folders(scan->options->view, &buckets, err);
    if (rc == SPSH_OK)
        rc = scan_unit(scan, "", &buckets, &taken, err);
    for (size_t i = 0; i < buckets.count && rc == SPSH_OK; i++)
        rc = scan_unit(scan, buckets.paths[i], &buckets, &taken, err);
    if (rc == SPSH_OK && !taken)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: holds no NeMo manifest of archives",
                       spsh__view_root(scan->options->view));
    spsh__path_list_free(&buckets);
    return rc;
}

/* Whether an archive with the number of the manifest exists. The lines of a manifest of a single
 * archive do not show that they refer to an archive. */
static bool has_archive(const spsh__view *view, const char *manifest)
{
    const char *archive = NULL;
    for (size_t i = 0; (archive = spsh__view_archive(view, i)) != NULL; i++) {
        if (number_of(archive) == number_of(manifest))
            return true;
    }
    return false;
}

static spsh_status probe_unit(const spsh__view *view, const char *folder,
                              spsh_layout_probe *ret_probe, spsh_error *err)
{
    spsh__path_list manifests = {0};
    spsh_status rc = find_manifests(view, folder, true, &manifests, err);
    if (rc == SPSH_OK && manifests.count > 0) {
        const char *first = manifests.paths[0];
        ret_probe->matches =
            strstr(first, "sharded_manifests/") == NULL || has_archive(view, first);
        spsh__probe_evidence(ret_probe, "%.100s is a NeMo manifest of archives", first);
    }
    spsh__path_list_free(&manifests);
    return rc;
}

static spsh_status nemo_tarred_probe(const spsh__view *view, spsh_layout_probe *ret_probe,
                                     spsh_error *err)
{
    spsh__path_list buckets = {0};
    spsh_status rc = probe_unit(view, "", ret_probe, err);
    if (rc == SPSH_OK && !ret_probe->matches)
        rc = find_folders(view, &buckets, err);
    if (rc == SPSH_OK && buckets.count > 0)
        rc = probe_unit(view, buckets.paths[0], ret_probe, err);
    spsh__path_list_free(&buckets);
    return rc;
}

const spsh_layout spsh__layout_nemo_tarred = {
    .name = "nemo-tarred",
    .summary = "NeMo manifests whose lines have a shard_id, and their audio_*.tar",
    .tier = SPSH_LAYOUT_CORPUS,
    .reads_file = true,
    .probe_fn = nemo_tarred_probe,
    .scan_fn = nemo_tarred_scan,
};
