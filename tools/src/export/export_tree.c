/* export_tree.c: write a folder of audio files and a manifest.csv, which `pack` can read.
 *
 * The manifest is RFC 4180 CSV, because transcripts are exported exactly and may contain line ends
 * and quotes. It is published last, so a folder without a manifest is an incomplete export. Audio
 * files are synced all at once before the manifest, because syncing each would cost a disk seek.
 *
 * With `stored`, a recording is written with the first of its utterances. A table of the written
 * records (8 bytes each, open addressing, at most half full) tells which exist.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export.h"
#include "speechshard/inside.h"
#include "speechshard/io.h"

enum { CSV_FLUSH_BYTES = 1 << 16, SLOTS_MIN = 1024 };

#define SLOT_EMPTY      UINT64_MAX
#define SLOT_RENAMED    (UINT64_C(1) << 63) /* the name of the record's file is not the plain id */
#define SLOT_KEY(slot_) ((slot_) & ~SLOT_RENAMED)

typedef struct tree_export {
    spsh__export base; /* must be the first member */
    int directory_fd;
    spsh_file_writer *manifest;
    spsh__builder csv;    /* lines that are not in the manifest yet */
    spsh__builder path;   /* path of the file, relative to the directory */
    spsh__builder folder; /* folder that was created last */
    uint64_t *slots;      /* keys of the written records */
    size_t slot_count, used_count;
} tree_export;

static spsh_status fail_path(const tree_export *e, const char *path, int os_errno, spsh_error *err)
{
    spsh_status status = spsh_io_status(os_errno);
    return SPSH_FAIL_OS(err, status, os_errno, "%s/%s: %s", e->base.options.directory, path,
                        strerror(os_errno));
}

/* ---- the written records ---- */

static uint64_t record_key(const spsh_row *row)
{
    return (uint64_t)row->payload_shard << 32 | row->payload_record;
}

/* Return the slot of a key, or the empty slot where it belongs. */
static size_t find_slot(const uint64_t *slots, size_t slot_count, uint64_t key)
{
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (slot_count - 1);
    while (slots[at] != SLOT_EMPTY && SLOT_KEY(slots[at]) != key)
        at = (at + 1) & (slot_count - 1);
    return at;
}

static bool grow_slots(tree_export *e)
{
    size_t count = e->slot_count == 0 ? SLOTS_MIN : 2 * e->slot_count;
    uint64_t *slots = (uint64_t *)malloc(count * sizeof(*slots));
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        slots[i] = SLOT_EMPTY;
    for (size_t i = 0; i < e->slot_count; i++) {
        if (e->slots[i] != SLOT_EMPTY)
            slots[find_slot(slots, count, SLOT_KEY(e->slots[i]))] = e->slots[i];
    }
    free(e->slots);
    e->slots = slots;
    e->slot_count = count;
    return true;
}

/* Return the slot value of a record, or SLOT_EMPTY if it was not written. */
static uint64_t find_record(const tree_export *e, uint64_t key)
{
    return e->slot_count == 0 ? SLOT_EMPTY : e->slots[find_slot(e->slots, e->slot_count, key)];
}

static spsh_status remember_record(tree_export *e, uint64_t key, bool renamed, spsh_error *err)
{
    if (2 * (e->used_count + 1) > e->slot_count && !grow_slots(e))
        return SPSH_NO_MEMORY(err);
    e->slots[find_slot(e->slots, e->slot_count, key)] = renamed ? key | SLOT_RENAMED : key;
    e->used_count++;
    return SPSH_OK;
}

/* ---- audio files ---- */

static spsh_status make_folders(tree_export *e, spsh_error *err)
{
    size_t folder_bytes = e->path.size_bytes;
    while (folder_bytes > 0 && e->path.data[folder_bytes - 1] != '/')
        folder_bytes--;
    if (folder_bytes == 0 || (folder_bytes == e->folder.size_bytes &&
                              memcmp(e->folder.data, e->path.data, folder_bytes) == 0))
        return SPSH_OK;
    spsh__builder_clear(&e->folder);
    spsh__builder_append(&e->folder, e->path.data, folder_bytes);
    if (spsh__builder_text(&e->folder) == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < folder_bytes; i++) {
        if (e->folder.data[i] != '/')
            continue;
        e->folder.data[i] = '\0';
        const char *folder = (const char *)e->folder.data;
        bool good = mkdirat(e->directory_fd, folder, 0777) == 0 || errno == EEXIST;
        spsh_status rc = good ? SPSH_OK : fail_path(e, folder, errno, err);
        e->folder.data[i] = '/';
        if (rc != SPSH_OK) {
            spsh__builder_clear(&e->folder);
            return rc;
        }
    }
    return SPSH_OK;
}

typedef struct audio_file {
    const tree_export *form;
    const char *path;
    int fd;
    uint64_t bytes;
} audio_file;

static spsh_status write_audio(void *user, const void *data, size_t size_bytes, spsh_error *err)
{
    audio_file *file = (audio_file *)user;
    const uint8_t *at = (const uint8_t *)data;
    file->bytes += size_bytes;
    while (size_bytes > 0) {
        ssize_t written = write(file->fd, at, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_path(file->form, file->path, errno, err);
        at += written;
        size_bytes -= (size_t)written;
    }
    return SPSH_OK;
}

static spsh_status write_content(const tree_export *e, const spsh__export_utterance *u,
                                 const spsh__byte_sink *sink, spsh_error *err)
{
    spsh__wav wav;
    if (e->base.options.stored)
        return spsh__payload_write(u->reader, u->position, sink, err);
    spsh_status rc = spsh__wav_describe(u->reader, u->position, u->row->samples, &wav, err);
    if (rc == SPSH_OK)
        rc = spsh__wav_write(&wav, u->reader, u->position, sink, err);
    return rc;
}

/* Make the path of an utterance's file. renamed: add a number, because a file has the plain path
 * already: of a recording with the same id, or on a file system that ignores case. */
static spsh_status make_path(tree_export *e, const spsh__export_utterance *u, bool renamed,
                             spsh_error *err)
{
    uint64_t number = e->base.options.stored ? record_key(u->row) : u->position;
    spsh__builder_clear(&e->path);
    spsh__export_path(&e->path, e->base.options.stored ? u->record->id : u->metadata.id, true,
                      number);
    if (renamed)
        spsh__export_number(&e->path, number);
    spsh__builder_append_text(&e->path, ".");
    spsh__builder_append_text(
        &e->path, e->base.options.stored ? spsh__payload_extension(u->row->codec) : "wav");
    return spsh__builder_text(&e->path) == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Create the file of an utterance at e->path, renamed if necessary. */
static spsh_status open_file(tree_export *e, const spsh__export_utterance *u, int *ret_fd,
                             bool *ret_renamed, spsh_error *err)
{
    for (int renamed = 0; renamed <= 1; renamed++) {
        spsh_status rc = make_path(e, u, renamed != 0, err);
        if (rc == SPSH_OK)
            rc = make_folders(e, err);
        if (rc != SPSH_OK)
            return rc;
        const char *path = (const char *)e->path.data;
        int fd = openat(e->directory_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            *ret_fd = fd;
            *ret_renamed = renamed != 0;
            return SPSH_OK;
        }
        if (errno != EEXIST || renamed == 1)
            return fail_path(e, path, errno, err);
    }
    return SPSH_E_EXISTS;
}

/* Write the file of an utterance. Removes the file after a failure. */
static spsh_status write_file(tree_export *e, const spsh__export_utterance *u, uint64_t *ret_bytes,
                              bool *ret_renamed, spsh_error *err)
{
    audio_file file = {e, NULL, -1, 0};
    spsh_status rc = open_file(e, u, &file.fd, ret_renamed, err);
    if (rc != SPSH_OK)
        return rc;
    file.path = (const char *)e->path.data;
    const spsh__byte_sink sink = {write_audio, &file};
    rc = write_content(e, u, &sink, err);
    if (close(file.fd) != 0 && rc == SPSH_OK)
        rc = fail_path(e, file.path, errno, err);
    if (rc != SPSH_OK)
        unlinkat(e->directory_fd, file.path, 0);
    *ret_bytes = file.bytes;
    return rc;
}

/* ---- the manifest ---- */

static void append_field(spsh__builder *csv, spsh_bytes text, char end)
{
    bool quoted = false;
    for (size_t i = 0; i < text.size_bytes && !quoted; i++)
        quoted = memchr(",\"\r\n", text.data[i], 4) != NULL;
    if (quoted)
        spsh__builder_append(csv, "\"", 1);
    for (size_t i = 0; i < text.size_bytes && quoted; i++)
        spsh__builder_append(csv, text.data[i] == '"' ? "\"\"" : (const char *)&text.data[i],
                             text.data[i] == '"' ? 2 : 1);
    if (!quoted)
        spsh__builder_append_bytes(csv, text);
    else
        spsh__builder_append(csv, "\"", 1);
    spsh__builder_append(csv, &end, 1);
}

/* Append a time as seconds with nine digits, which identifies the sample at every sampling rate. */
static void append_time(spsh__builder *csv, uint64_t sample, uint32_t rate_hz, char end)
{
    char text[48];
    uint64_t nanoseconds = (sample % rate_hz * UINT64_C(1000000000) + rate_hz / 2) / rate_hz;
    uint64_t seconds = sample / rate_hz + nanoseconds / UINT64_C(1000000000);
    snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64 "%c", seconds,
             nanoseconds % UINT64_C(1000000000), end);
    spsh__builder_append_text(csv, text);
}

static spsh_status flush_manifest(tree_export *e, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (e->csv.failed)
        return SPSH_NO_MEMORY(err);
    if (e->csv.size_bytes > 0)
        rc = spsh_file_writer_write(e->manifest, e->csv.data, e->csv.size_bytes, err);
    spsh__builder_clear(&e->csv);
    return rc;
}

static spsh_status add_line(tree_export *e, const spsh__export_utterance *u, bool whole,
                            spsh_error *err)
{
    const spsh_utterance *m = &u->metadata;
    const spsh_bytes path = {e->path.data, strlen((const char *)e->path.data)};
    append_field(&e->csv, path, ',');
    append_field(&e->csv, m->id, ',');
    append_field(&e->csv, m->text, ',');
    append_field(&e->csv, m->domain, ',');
    append_field(&e->csv, m->split, ',');
    append_field(&e->csv, m->speaker, ',');
    append_field(&e->csv, m->language, ',');
    if (e->base.options.stored && !whole) {
        append_time(&e->csv, u->row->start_sample, u->row->sample_rate_hz, ',');
        append_time(&e->csv, u->row->start_sample + u->row->samples, u->row->sample_rate_hz, ',');
    } else if (e->base.options.stored) {
        spsh__builder_append_text(&e->csv, ",,");
    }
    append_field(&e->csv, m->document, '\n');
    return e->csv.size_bytes < CSV_FLUSH_BYTES ? SPSH_OK : flush_manifest(e, err);
}

/* ---- the form ---- */

static void tree_free(spsh__export *form)
{
    tree_export *e = (tree_export *)form;
    if (e == NULL)
        return;
    spsh_file_writer_free(e->manifest);
    if (e->directory_fd >= 0)
        close(e->directory_fd);
    spsh__builder_free(&e->csv);
    spsh__builder_free(&e->path);
    spsh__builder_free(&e->folder);
    free(e->slots);
    free(e);
}

static spsh_status tree_open(const spsh__export_options *options, spsh__export **ret_export,
                             spsh_error *err)
{
    spsh_status rc;
    tree_export *e = (tree_export *)calloc(1, sizeof(*e));
    if (e == NULL)
        return SPSH_NO_MEMORY(err);
    e->base.options = *options;
    e->directory_fd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (e->directory_fd < 0) {
        rc = fail_path(e, "", errno, err);
        goto out;
    }
    rc = spsh_file_writer_open(spsh_io_default(), options->directory, "manifest.csv", 0, NULL,
                               &e->manifest, err);
    if (rc != SPSH_OK)
        goto out;
    spsh__builder_append_text(&e->csv, options->stored ? "path,id,text,domain,split,speaker,"
                                                         "language,start,end,document\n"
                                                       : "path,id,text,domain,split,speaker,"
                                                         "language,document\n");
    *ret_export = &e->base;
    e = NULL;
out:
    tree_free(e == NULL ? NULL : &e->base);
    return rc;
}

static spsh_status tree_add(spsh__export *form, const spsh__export_utterance *u,
                            uint64_t *ret_bytes, bool *ret_can_continue, spsh_error *err)
{
    tree_export *e = (tree_export *)form;
    bool whole = spsh__export_is_whole(u), renamed = false;
    uint64_t key = record_key(u->row);
    uint64_t slot = e->base.options.stored ? find_record(e, key) : SLOT_EMPTY;
    spsh_status rc;
    *ret_bytes = 0;
    *ret_can_continue = false;
    if (slot != SLOT_EMPTY) {
        rc = make_path(e, u, (slot & SLOT_RENAMED) != 0, err);
    } else {
        rc = write_file(e, u, ret_bytes, &renamed, err);
        *ret_can_continue = rc != SPSH_OK && spsh__export_is_damage(rc);
        if (rc == SPSH_OK && e->base.options.stored)
            rc = remember_record(e, key, renamed, err);
    }
    return rc == SPSH_OK ? add_line(e, u, whole, err) : rc;
}

static spsh_status tree_finish(spsh__export *form, spsh_error *err)
{
    tree_export *e = (tree_export *)form;
    spsh_status rc = flush_manifest(e, err);
    if (rc == SPSH_OK && syncfs(e->directory_fd) != 0)
        rc = fail_path(e, "", errno, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(e->manifest, SPSH_PUBLISH_NEW, err);
    return rc;
}

const spsh__export_form spsh__export_tree = {tree_open, tree_add, tree_finish, tree_free};
