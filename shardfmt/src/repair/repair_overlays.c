/* repair_overlays.c: carry the edits of a dataset over to its repaired copy.
 *
 * Overlays are keyed by utterance id and name the dataset's id, so the same files fit the copy.
 * They only have to be listed there. Each file is checked with the reader's functions first: a
 * damaged one is reported and omitted, because a manifest that lists it could not be opened.
 *
 * If manifest.spsh is readable, it lists the overlays in force. If it is damaged, the files in
 * overlays/ are still intact in most cases, and each checks itself. Whether one is in force is then
 * decided by these witnesses, in this order:
 *
 *   1. The damaged manifest.spsh. Its list has each overlay's file id and root hash, 16 bytes each,
 *      at multiples of 16 in list order. An overlay of which either is there is in force: an
 *      overlay that was removed is not in the list, and 128 bits do not match by chance. If as many
 *      overlays are found as the section directory counts, the list is proven. Nothing else is in
 *      force, and nothing is in doubt.
 *   2. The newest readable generation. Its overlays stay in force.
 *   3. No readable generation lists the file. It was added later, or is what a crash left between
 *      the overlay and its manifest. It is taken as in force: an edit that is lost goes unnoticed,
 *      and one too many is reported.
 *
 * An overlay that only generations before the newest readable one list was removed, and stays out.
 * Every decision by 2, 3 and the last rule is reported by name, since nothing proves it.
 */
#include "dataset/overlay.h"
#include "io/io_internal.h"
#include "speechshard/limits.h"
#include "speechshard/options.h"
#include "speechshard/verify.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MANIFEST_BYTES_MAX ((size_t)1 << 31)

enum {
    NAME_BYTES = 129, /* 128 and a zero */
    COPY_BYTES = 1 << 16,
    DIRECTORY_ENTRY_BYTES = 40,
    HASH_BYTES = 16,
};

/* An overlay that is, or may be, in force. An unknown number is UINT64_MAX. */
typedef struct candidate {
    char name[NAME_BYTES];
    spsh__file_ref file;     /* as listed (is_known) or as found on disk (is_intact) */
    bool is_known;           /* manifest.spsh is readable: the file must be the listed one */
    bool is_intact;          /* checked in full */
    bool was_listed;         /* by a readable generation before the newest readable one */
    uint64_t listed;         /* position in the list of the newest readable generation */
    uint64_t id_at, root_at; /* where the damaged manifest.spsh has file id and root hash */
    char why[sizeof(((spsh_error *)0)->message)]; /* reason, unless is_intact */
} candidate;

typedef struct carry {
    const spsh_io *io;
    const spsh_allocator *allocator;
    const spsh_repair_options *opt;
    const char *from_path, *to_path;
    spsh__manifest to;
    spsh__buffer candidates;
    uint64_t generation; /* newest readable generation; 0: none */
    uint64_t kept;
} carry;

static candidate *candidate_at(const carry *c, size_t n)
{
    return (candidate *)(void *)c->candidates.data + n;
}

static size_t candidate_count(const carry *c)
{
    return c->candidates.size_bytes / sizeof(candidate);
}

/* ---- reports ---- */

static spsh_status report(const carry *c, const char *name, const char *part, const char *message,
                          spsh_error *err)
{
    char file[NAME_BYTES + 16];
    (void)snprintf(file, sizeof(file), "overlays/%s.spsh", name);
    const spsh_damage damage = {
        .file = file, .part = part, .offset_bytes = SPSH_OFFSET_NONE, .message = message};
    if (c->opt->damage_fn != NULL && c->opt->damage_fn(c->opt->user, &damage) != 0)
        return SPSH_FAIL(err, SPSH_E_CANCELED, "repair was stopped");
    return SPSH_OK;
}

/* ---- one file ---- */

static spsh_status open_overlay(const carry *c, const candidate *o, spsh__container **ret_container,
                                spsh_error *err)
{
    char relative[NAME_BYTES + 16];
    spsh__container *container = NULL;
    (void)snprintf(relative, sizeof(relative), "overlays/%s.spsh", o->name);
    char *path = spsh__path_join(c->allocator, c->from_path, relative);
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", relative);
    spsh_status rc =
        spsh__container_open(c->io, path, SPSH__KIND_OVERLAY, c->allocator, &container, err);
    spsh__free(c->allocator, path);
    if (rc == SPSH_OK &&
        memcmp(spsh__container_header(container)->dataset_id, c->to.info.dataset_id, 16) != 0)
        rc = SPSH_FAIL_AT(err, SPSH_E_MISMATCH, 64, "the overlay belongs to another dataset");
    if (rc == SPSH_OK && o->is_known)
        rc = spsh__manifest_check_file(&c->to, container, &o->file, err);
    if (rc == SPSH_OK)
        rc = spsh__overlay_check_file(
            container, (spsh_bytes){(const uint8_t *)o->name, strlen(o->name)}, c->allocator, err);
    if (rc == SPSH_OK) {
        *ret_container = container;
        return SPSH_OK;
    }
    spsh__container_close(container);
    return rc;
}

/* The status tells only what ends the repair. */
static spsh_status check_candidate(const carry *c, candidate *o, spsh_error *err)
{
    spsh__container *container = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = open_overlay(c, o, &container, &why);
    if (rc == SPSH_E_NO_MEMORY)
        return SPSH_FAIL(err, rc, "%s", why.message);
    o->is_intact = rc == SPSH_OK;
    if (rc != SPSH_OK) {
        memcpy(o->why, why.message, sizeof(o->why));
        return SPSH_OK;
    }
    const spsh__footer *footer = spsh__container_footer(container);
    memcpy(o->file.file_id, footer->file_id, 16);
    memcpy(o->file.root_hash, footer->root_hash, 16);
    o->file.file_bytes = footer->file_bytes;
    spsh__container_close(container);
    return SPSH_OK;
}

/* Everything but the footers, which are encoded again: a reader needs only one of them to be good.
 */
static spsh_status copy_bytes(const carry *c, const spsh__container *from, spsh_file_writer *writer,
                              spsh_error *err)
{
    const spsh__footer *footer = spsh__container_footer(from);
    const uint64_t end = footer->file_bytes - SPSH__FOOTERS_BYTES;
    uint8_t *buffer = (uint8_t *)spsh__alloc(c->allocator, COPY_BYTES);
    spsh_status rc = SPSH_OK;
    if (buffer == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "copy of an overlay");
    for (uint64_t at = 0; rc == SPSH_OK && at < end; at += COPY_BYTES) {
        const size_t size = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
        rc = spsh_io_read_exact(c->io, spsh__container_fd(from), buffer, size, at,
                                spsh__container_path(from), err);
        if (rc == SPSH_OK)
            rc = spsh_file_writer_write(writer, buffer, size, err);
    }
    for (uint32_t copy = 0; rc == SPSH_OK && copy < 2; copy++) {
        spsh__footer_encode(footer, copy, buffer);
        rc = spsh_file_writer_write(writer, buffer, SPSH__PAGE_BYTES, err);
    }
    spsh__free(c->allocator, buffer);
    return rc;
}

static spsh_status copy_file(const carry *c, const candidate *o, spsh_error *err)
{
    char file_name[NAME_BYTES + 8];
    spsh__container *from = NULL;
    spsh_file_writer *writer = NULL;
    (void)snprintf(file_name, sizeof(file_name), "%s.spsh", o->name);
    char *directory = spsh__path_join(c->allocator, c->to_path, "overlays");
    spsh_status rc = directory == NULL ? SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", file_name)
                                       : spsh_io_make_directory(c->io, directory, err);
    if (rc == SPSH_OK)
        rc = open_overlay(c, o, &from, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_open(c->io, directory, file_name, 0, c->allocator, &writer, err);
    if (rc == SPSH_OK)
        rc = copy_bytes(c, from, writer, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer, SPSH_PUBLISH_NEW, err);
    spsh_file_writer_free(writer);
    spsh__container_close(from);
    spsh__free(c->allocator, directory);
    return rc;
}

/* ---- candidates ---- */

static spsh_status find_or_add(carry *c, spsh_bytes name, candidate **ret_candidate,
                               spsh_error *err)
{
    candidate added = {.listed = UINT64_MAX, .id_at = UINT64_MAX, .root_at = UINT64_MAX, .why = ""};
    for (size_t n = 0; n < candidate_count(c); n++) {
        candidate *o = candidate_at(c, n);
        if (strlen(o->name) == name.size_bytes &&
            memcmp(o->name, name.data, name.size_bytes) == 0) {
            *ret_candidate = o;
            return SPSH_OK;
        }
    }
    memcpy(added.name, name.data, name.size_bytes); /* spsh__overlay_name_ok: at most 128 */
    spsh_status rc = spsh__buffer_append(&c->candidates, c->allocator, &added, sizeof(added), err);
    if (rc == SPSH_OK)
        *ret_candidate = candidate_at(c, candidate_count(c) - 1);
    return rc;
}

/* Note which overlays a readable generation lists. Files are checked by now. A file with the name
 * and another id is a later overlay of that name. */
static spsh_status add_listed(carry *c, const spsh__manifest *manifest, bool is_newest,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; rc == SPSH_OK && n < manifest->info.overlay_count; n++) {
        const size_t before = candidate_count(c);
        spsh__file_ref file;
        spsh_bytes name = {NULL, 0};
        candidate *o = NULL;
        rc = spsh__manifest_overlay(manifest, n, &file, &name, err);
        if (rc == SPSH_OK)
            rc = find_or_add(c, name, &o, err);
        if (rc == SPSH_OK && candidate_count(c) > before)
            rc = check_candidate(c, o, err); /* reports that the file is missing */
        if (rc != SPSH_OK)
            break;
        if (o->is_intact && memcmp(o->file.file_id, file.file_id, 16) != 0)
            continue;
        if (is_newest)
            o->listed = n;
        else
            o->was_listed = true;
    }
    return rc;
}

static spsh_status add_generations(carry *c, spsh_error *err)
{
    spsh__buffer numbers = {NULL, 0, 0};
    spsh_status rc = spsh__manifest_generations(c->allocator, c->from_path, &numbers, err);
    const uint64_t *number = (const uint64_t *)(const void *)numbers.data;
    for (size_t left = numbers.size_bytes / sizeof(*number); rc == SPSH_OK && left > 0; left--) {
        spsh__manifest manifest;
        rc = spsh__manifest_open(c->io, c->allocator, c->from_path, number[left - 1], &manifest,
                                 err);
        if (rc == SPSH_OK) {
            if (spsh__manifest_check(&manifest, NULL) == SPSH_OK) {
                rc = add_listed(c, &manifest, c->generation == 0, err);
                c->generation = c->generation == 0 ? number[left - 1] : c->generation;
            }
            spsh__manifest_close(&manifest);
        } else if (rc != SPSH_E_NO_MEMORY) {
            rc = SPSH_OK; /* damaged, too */
        }
    }
    spsh__buffer_free(&numbers, c->allocator);
    return rc;
}

static spsh_status add_files(carry *c, spsh_error *err)
{
    const char *ending = ".spsh";
    const struct dirent *entry = NULL;
    char *path = spsh__path_join(c->allocator, c->from_path, "overlays");
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", c->from_path);
    DIR *open = opendir(path);
    spsh_status rc = SPSH_OK;
    spsh__free(c->allocator, path);
    while (open != NULL && rc == SPSH_OK && (entry = readdir(open)) != NULL) {
        const size_t size = strlen(entry->d_name), tail = strlen(ending);
        const spsh_bytes name = {(const uint8_t *)entry->d_name, size > tail ? size - tail : 0};
        candidate *o = NULL;
        if (spsh__overlay_name_ok(name) && strcmp(entry->d_name + name.size_bytes, ending) == 0)
            rc = find_or_add(c, name, &o, err);
    }
    if (open != NULL)
        (void)closedir(open);
    return rc;
}

/* ---- the damaged manifest as a witness ---- */

typedef struct trace {
    uint8_t hash[HASH_BYTES]; /* first: the key of the search */
    uint64_t *found_at;       /* id_at or root_at of a candidate */
} trace;

static int compare_traces(const void *a, const void *b)
{
    return memcmp(a, b, HASH_BYTES);
}

/* Elements are aligned to their size, so only multiples of 16 can hold one. */
static spsh_status find_traces(carry *c, spsh_bytes raw, spsh_error *err)
{
    size_t count = 0;
    trace *traces = spsh__alloc_array(c->allocator, 2 * candidate_count(c) + 1, sizeof(*traces));
    if (traces == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "overlays");
    for (size_t n = 0; n < candidate_count(c); n++) {
        candidate *o = candidate_at(c, n);
        if (!o->is_intact)
            continue;
        memcpy(traces[count].hash, o->file.file_id, HASH_BYTES);
        traces[count++].found_at = &o->id_at;
        memcpy(traces[count].hash, o->file.root_hash, HASH_BYTES);
        traces[count++].found_at = &o->root_at;
    }
    if (count != 0)
        qsort(traces, count, sizeof(*traces), compare_traces);
    for (size_t at = 0; count != 0 && at + HASH_BYTES <= raw.size_bytes; at += HASH_BYTES) {
        const trace *found = bsearch(raw.data + at, traces, count, sizeof(*traces), compare_traces);
        if (found != NULL)
            *found->found_at = at;
    }
    spsh__free(c->allocator, traces);
    return SPSH_OK;
}

/* Count the overlays in the section directory, which has their number four times. UINT64_MAX unless
 * all agree.
 */
static uint64_t count_listed(spsh_bytes raw)
{
    static const uint32_t widths[] = {16, 16, 8, 8};
    for (size_t n = 0; n + 4 <= SPSH__SECTIONS_MAX; n++) {
        const size_t at = SPSH__PAGE_BYTES + n * DIRECTORY_ENTRY_BYTES;
        if (raw.size_bytes < at + sizeof(widths) / sizeof(widths[0]) * DIRECTORY_ENTRY_BYTES)
            break;
        const uint64_t count = spsh__load_u64le(raw.data + at + 16);
        bool agree = count <= SPSH_OVERLAYS_MAX;
        for (uint32_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
            const uint8_t *entry = raw.data + at + (size_t)i * DIRECTORY_ENTRY_BYTES;
            agree = agree && spsh__load_u32le(entry) == SPSH__MANIFEST_OVERLAY_FILE_ID + i &&
                    spsh__load_u32le(entry + 4) == widths[i] &&
                    spsh__load_u64le(entry + 16) == count;
        }
        if (agree)
            return count;
    }
    return UINT64_MAX;
}

static bool has_trace(const candidate *o)
{
    return o->id_at != UINT64_MAX || o->root_at != UINT64_MAX;
}

/* File ids and root hashes are two columns in the same order, so every overlay has the same
 * distance between its file id and its root hash. Use that to fill in id_at where damage has hit
 * the file id. false: the order is unknown. */
static bool order_traces(carry *c)
{
    uint64_t distance = UINT64_MAX, only_id = 0, only_root = 0;
    for (size_t n = 0; n < candidate_count(c); n++) {
        const candidate *o = candidate_at(c, n);
        if (o->id_at != UINT64_MAX && o->root_at != UINT64_MAX)
            distance = o->root_at - o->id_at;
        only_id += o->id_at != UINT64_MAX && o->root_at == UINT64_MAX;
        only_root += o->id_at == UINT64_MAX && o->root_at != UINT64_MAX;
    }
    for (size_t n = 0; n < candidate_count(c); n++) {
        candidate *o = candidate_at(c, n);
        if (o->id_at == UINT64_MAX && o->root_at != UINT64_MAX)
            o->id_at = distance != UINT64_MAX ? o->root_at - distance : o->root_at;
    }
    return distance != UINT64_MAX || only_id == 0 || only_root == 0;
}

/* *ret_proven: exactly the overlays with a trace are in force, in the order of id_at. */
static spsh_status ask_damaged_manifest(carry *c, bool *ret_proven, spsh_error *err)
{
    uint8_t *data = NULL;
    size_t size_bytes = 0;
    uint64_t traced = 0;
    char *path = spsh__path_join(c->allocator, c->from_path, "manifest.spsh");
    if (path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%s", c->from_path);
    spsh_status rc =
        spsh_io_read_file(c->io, path, MANIFEST_BYTES_MAX, c->allocator, &data, &size_bytes, NULL);
    spsh__free(c->allocator, path);
    *ret_proven = false;
    if (rc != SPSH_OK)
        return rc == SPSH_E_NO_MEMORY ? SPSH_FAIL(err, rc, "manifest.spsh: no memory to search it")
                                      : SPSH_OK; /* missing or unreadable: no witness */
    const spsh_bytes raw = {data, size_bytes};
    rc = find_traces(c, raw, err);
    for (size_t n = 0; n < candidate_count(c); n++)
        traced += has_trace(candidate_at(c, n));
    if (rc == SPSH_OK)
        *ret_proven = order_traces(c) && traced == count_listed(raw);
    spsh__free(c->allocator, data);
    return rc;
}

/* ---- which ones ---- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_by_trace(const void *a, const void *b)
{
    return compare_u64(((const candidate *)a)->id_at, ((const candidate *)b)->id_at);
}

static int compare_in_doubt(const void *a, const void *b)
{
    const candidate *left = (const candidate *)a, *right = (const candidate *)b;
    int order = compare_u64(left->listed, right->listed);
    if (order == 0)
        order = compare_u64(left->id_at, right->id_at);
    return order != 0 ? order : strcmp(left->name, right->name);
}

/* Nothing proves the list: decide about one overlay and report the decision. */
static spsh_status decide(const carry *c, const candidate *o, bool *ret_kept, spsh_error *err)
{
    char message[sizeof(o->why) + 160];
    const char *part = "overlay in doubt";
    const bool is_listed = o->listed != UINT64_MAX;
    *ret_kept = o->is_intact && (is_listed || has_trace(o) || !o->was_listed);
    if (*ret_kept && has_trace(o))
        return SPSH_OK;
    if (!o->is_intact && (is_listed || !o->was_listed)) {
        part = "overlay";
        (void)snprintf(message, sizeof(message), "lost: %s", o->why);
    } else if (is_listed) {
        (void)snprintf(message, sizeof(message),
                       "kept in force: generation %" PRIu64
                       " lists it; whether it was removed later is unknown",
                       c->generation);
    } else if (*ret_kept) {
        (void)snprintf(message, sizeof(message),
                       "put in force: no readable manifest lists it, so it was added last, or an "
                       "interrupted edit left it");
    } else {
        (void)snprintf(message, sizeof(message),
                       "not in force: it was removed before generation %" PRIu64
                       "; whether it was added again is unknown",
                       c->generation);
    }
    return report(c, o->name, part, message, err);
}

/* Reduce the candidates to the overlays in force, in their order. */
static spsh_status choose(carry *c, bool proven, spsh_error *err)
{
    size_t kept = 0;
    spsh_status rc = SPSH_OK;
    if (candidate_count(c) > 1)
        qsort(c->candidates.data, candidate_count(c), sizeof(candidate),
              proven ? compare_by_trace : compare_in_doubt);
    for (size_t n = 0; rc == SPSH_OK && n < candidate_count(c); n++) {
        const candidate *o = candidate_at(c, n);
        bool keep = has_trace(o);
        if (!proven)
            rc = decide(c, o, &keep, err);
        if (rc == SPSH_OK && keep)
            memmove(candidate_at(c, kept++), o, sizeof(*o));
    }
    c->candidates.size_bytes = kept * sizeof(candidate);
    return rc;
}

static spsh_status find_in_force(carry *c, spsh_error *err)
{
    bool proven = false;
    spsh_status rc = add_files(c, err);
    for (size_t n = 0; rc == SPSH_OK && n < candidate_count(c); n++)
        rc = check_candidate(c, candidate_at(c, n), err);
    if (rc == SPSH_OK)
        rc = add_generations(c, err);
    if (rc == SPSH_OK)
        rc = ask_damaged_manifest(c, &proven, err);
    return rc == SPSH_OK ? choose(c, proven, err) : rc;
}

/* The list of a readable manifest.spsh, without the overlays that are damaged. */
static spsh_status take_listed(carry *c, const spsh__manifest *from, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; rc == SPSH_OK && n < from->info.overlay_count; n++) {
        spsh_bytes name = {NULL, 0};
        spsh__file_ref file;
        candidate *o = NULL;
        rc = spsh__manifest_overlay(from, n, &file, &name, err);
        if (rc == SPSH_OK)
            rc = find_or_add(c, name, &o, err);
        if (rc != SPSH_OK)
            break;
        o->file = file;
        o->is_known = true;
        rc = check_candidate(c, o, err);
        if (rc == SPSH_OK && !o->is_intact) {
            rc = report(c, o->name, "overlay", o->why, err);
            c->candidates.size_bytes -= sizeof(*o); /* it was the last one */
        }
    }
    return rc;
}

/* ---- the whole ---- */

static spsh_status publish(carry *c, spsh_error *err)
{
    const size_t count = candidate_count(c);
    spsh_status rc = SPSH_OK;
    if (count == 0)
        return SPSH_OK;
    if (count > SPSH_OVERLAYS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: %zu overlays may be in force, but the limit is %u",
                         c->from_path, count, SPSH_OVERLAYS_MAX);
    spsh__overlay_entry_ref *entries = spsh__alloc_array(c->allocator, count, sizeof(*entries));
    if (entries == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "overlays");
    for (size_t n = 0; n < count && rc == SPSH_OK; n++) {
        const candidate *o = candidate_at(c, n);
        entries[n].file = o->file;
        entries[n].name = (spsh_bytes){(const uint8_t *)o->name, strlen(o->name)};
        rc = copy_file(c, o, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__manifest_publish_overlays(c->io, c->allocator, c->to_path, &c->to, entries,
                                             count, err);
    spsh__free(c->allocator, entries);
    if (rc == SPSH_OK)
        c->kept = count;
    return rc;
}

static spsh_status carry_all(carry *c, spsh_error *err)
{
    spsh__manifest from;
    spsh_status rc = spsh__manifest_open(c->io, c->allocator, c->from_path, 0, &from, NULL);
    const bool opened = rc == SPSH_OK;
    if (opened)
        rc = spsh__manifest_check(&from, NULL);
    if (rc == SPSH_E_NO_MEMORY)
        rc = SPSH_FAIL(err, rc, "%s: manifest", c->from_path);
    else if (rc != SPSH_OK)
        rc = find_in_force(c, err);
    else if (memcmp(from.info.dataset_id, c->to.info.dataset_id, 16) != 0)
        rc = SPSH_FAIL(err, SPSH_E_MISMATCH, "%s and %s are different datasets", c->from_path,
                       c->to_path);
    else
        rc = take_listed(c, &from, err);
    if (rc == SPSH_OK)
        rc = publish(c, err);
    if (opened)
        spsh__manifest_close(&from);
    return rc;
}

spsh_status spsh_repair_overlays(const char *from_path, const char *to_path,
                                 const spsh_repair_options *options, uint64_t *ret_count,
                                 spsh_error *err)
{
    spsh_repair_options opt = SPSH_REPAIR_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &opt, sizeof(opt), err);
    if (rc != SPSH_OK)
        return rc;
    carry c = {.io = opt.io != NULL ? opt.io : spsh_io_default(),
               .allocator = opt.allocator != NULL ? opt.allocator : spsh_allocator_default(),
               .opt = &opt,
               .from_path = from_path,
               .to_path = to_path};
    rc = spsh__manifest_open(c.io, c.allocator, to_path, 0, &c.to, err);
    if (rc != SPSH_OK)
        return rc;
    rc = carry_all(&c, err);
    spsh__buffer_free(&c.candidates, c.allocator);
    spsh__manifest_close(&c.to);
    if (rc == SPSH_OK && ret_count != NULL)
        *ret_count = c.kept;
    return rc;
}
