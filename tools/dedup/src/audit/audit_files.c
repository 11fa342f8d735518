/* audit_files.c: one file after the other, hashed as it is written. */
#include "audit_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/io.h"

#include "audit_statement.h"
#include "common/hash.h"
#include "speechshard/inside.h"

#define SUMMARY_FILE "summary.json"
/* How summary.json begins, whatever its version: by this a folder is known as an audit. */
#define SUMMARY_MARK "{\n  \"schema\": \"speechshard-audit-summary-"

enum { PIECE_BYTES = 1 << 20 };

/* ---- one file ---- */

typedef struct out_file {
    spsh_file_writer *writer;
    spsh__pack_hasher *hasher;
    spsh__builder piece;
} out_file;

static spsh_status out_open(out_file *out, const char *folder, const char *name, const spsh_io *io,
                            spsh_error *err)
{
    *out = (out_file){NULL, spsh__pack_hasher_new(), {0}};
    if (out->hasher == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh_file_writer_open(io, folder, name, 0, NULL, &out->writer, err);
}

static spsh_status out_flush(out_file *out, spsh_error *err)
{
    if (out->piece.failed)
        return SPSH_NO_MEMORY(err);
    const spsh_bytes bytes = spsh__builder_bytes(&out->piece);
    if (bytes.size_bytes == 0)
        return SPSH_OK;
    spsh__pack_hasher_add(out->hasher, bytes);
    const spsh_status rc = spsh_file_writer_write(out->writer, bytes.data, bytes.size_bytes, err);
    spsh__builder_clear(&out->piece);
    return rc;
}

static spsh_status out_line(out_file *out, spsh_bytes line, spsh_error *err)
{
    spsh__builder_append_bytes(&out->piece, line);
    spsh__builder_append(&out->piece, "\n", 1);
    return out->piece.size_bytes < PIECE_BYTES && !out->piece.failed ? SPSH_OK
                                                                     : out_flush(out, err);
}

/* The object as a line. */
static spsh_status out_json(out_file *out, spsh_json *json, spsh_error *err)
{
    char *text = NULL;
    spsh_status rc = spsh__json_take_text(json, &text, err);
    if (rc == SPSH_OK)
        rc = out_line(out, (spsh_bytes){(const uint8_t *)text, strlen(text)}, err);
    free(text);
    return rc;
}

/* What is written of a file's content. */
typedef spsh_status (*content_fn)(const spsh__audit_report *report, const void *user, out_file *out,
                                  spsh_error *err);

/* ---- contents ---- */

static spsh_status write_summary(const spsh__audit_report *report, const void *user, out_file *out,
                                 spsh_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    spsh_json *json = spsh__json_new();
    FILE *stream = open_memstream(&text, &bytes);
    spsh_status rc = json == NULL || stream == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    (void)user;
    if (rc == SPSH_OK)
        rc = spsh__audit_put_summary(report, json, err);
    if (rc == SPSH_OK)
        rc = spsh__json_write_pretty(json, stream, err);
    if (stream != NULL && fclose(stream) != 0 && rc == SPSH_OK)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        spsh__builder_append(&out->piece, text, bytes);
    spsh__json_free(json);
    free(text);
    return rc;
}

static spsh_status write_pairs(const spsh__audit_report *report, const void *user, out_file *out,
                               spsh_error *err)
{
    const spsh__leaks *leaks = report->leaks;
    spsh__audit_names names = {0};
    spsh_json *json = spsh__json_new();
    spsh_status rc = json == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    (void)user;
    if (rc == SPSH_OK)
        rc = spsh__audit_names_open(report->sides, &names, err);
    for (uint64_t i = 0; i < leaks->match_count && rc == SPSH_OK;) {
        const spsh__match *first = &leaks->matches[i];
        uint64_t count = 1;
        while (i + count < leaks->match_count && first[count].a == first->a &&
               first[count].b == first->b)
            count++;
        rc = spsh__audit_put_pair(report, &names, first, count, json, err);
        if (rc == SPSH_OK)
            rc = out_json(out, json, err);
        i += count;
    }
    spsh__audit_names_close(&names);
    spsh__json_free(json);
    return rc;
}

static spsh_status write_leaks(const spsh__audit_report *report, const void *user, out_file *out,
                               spsh_error *err)
{
    spsh__audit_names names = {0};
    spsh_json *json = spsh__json_new();
    spsh_status rc = json == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    (void)user;
    if (rc == SPSH_OK)
        rc = spsh__audit_names_open(report->sides, &names, err);
    for (uint64_t i = 0; i < report->sides->roster.test_utterance_count && rc == SPSH_OK; i++) {
        if (report->leaks->masks[i] == 0)
            continue;
        rc = spsh__audit_put_leak(report, &names, i, json, err);
        if (rc == SPSH_OK)
            rc = out_json(out, json, err);
    }
    spsh__audit_names_close(&names);
    spsh__json_free(json);
    return rc;
}

/* A list of one test split. */
typedef struct id_list {
    size_t split;
    bool is_dirty;
} id_list;

/* Ids a line; what would break a line is a blank, as in all output of the command. */
static spsh_status out_id(out_file *out, spsh_bytes id, spsh_error *err)
{
    const size_t begin = out->piece.size_bytes;
    spsh__builder_append_bytes(&out->piece, id);
    for (size_t i = begin; i < out->piece.size_bytes && !out->piece.failed; i++) {
        const uint8_t byte = out->piece.data[i];
        if (byte == '\n' || byte == '\r' || byte == '\t')
            out->piece.data[i] = ' ';
    }
    return out_line(out, (spsh_bytes){NULL, 0}, err);
}

static spsh_status write_list(const spsh__audit_report *report, const void *user, out_file *out,
                              spsh_error *err)
{
    const id_list *list = user;
    const spsh__audit_roster *roster = &report->sides->roster;
    spsh__audit_names names = {0};
    spsh_utterance utterance;
    spsh_status rc = spsh__audit_names_open(report->sides, &names, err);
    for (uint64_t i = 0; i < roster->test_utterance_count && rc == SPSH_OK; i++) {
        const bool is_dirty = (report->leaks->masks[i] & SPSH__LEAK_DIRTY_MASK) != 0;
        if (roster->test_splits[i] != list->split || is_dirty != list->is_dirty)
            continue;
        rc = spsh__audit_names_get(&names, roster->test_ordinals[i], &utterance, err);
        if (rc == SPSH_OK)
            rc = out_id(out, utterance.id, err);
    }
    spsh__audit_names_close(&names);
    return rc;
}

static spsh_status write_page(const spsh__audit_report *report, const void *user, out_file *out,
                              spsh_error *err)
{
    (void)user;
    return spsh__audit_page(report->facts, &out->piece, err);
}

static spsh_status write_text(const spsh__audit_report *report, const void *user, out_file *out,
                              spsh_error *err)
{
    (void)report;
    (void)err;
    spsh__builder_append_text(&out->piece, user);
    return SPSH_OK;
}

/* ---- the folder ---- */

static spsh_status join(spsh__builder *path, const char *folder, const char *name, spsh_error *err)
{
    spsh__builder_clear(path);
    spsh__builder_append_part(path, folder);
    spsh__builder_append_part(path, name);
    return spsh__builder_text(path) != NULL ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* Whether the summary begins as one of ours; what cannot be read does not. */
static spsh_status look_for_mark(const char *folder, const spsh_io *io, bool *ret_found,
                                 spsh_error *err)
{
    static const char mark[] = SUMMARY_MARK;
    char head[sizeof(mark)] = "";
    spsh__builder path = {0};
    const spsh_status rc = join(&path, folder, SUMMARY_FILE, err);
    const char *text = spsh__builder_text(&path);
    const int fd =
        rc == SPSH_OK ? io->open_fn(io->user, text, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0) : -1;
    *ret_found = false;
    if (fd >= 0) {
        *ret_found = spsh_io_read_exact(io, fd, head, sizeof(mark) - 1, 0, text, NULL) == SPSH_OK &&
                     memcmp(head, mark, sizeof(mark) - 1) == 0;
        (void)io->close_fn(io->user, fd);
    }
    spsh__builder_free(&path);
    return rc;
}

spsh_status spsh__audit_folder_check(const char *folder, const spsh_io *io, spsh_error *err)
{
    struct stat status;
    bool is_empty = true;
    if (io->stat_fn(io->user, folder, &status) == -ENOENT)
        return SPSH_OK;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return SPSH_FAIL(err, SPSH_E_EXISTS, "%s is no folder that can be read: %s", folder,
                         strerror(errno));
    for (const struct dirent *entry; is_empty && (entry = readdir(listing)) != NULL;)
        is_empty =
            strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strncmp(entry->d_name, SUMMARY_FILE ".tmp-", sizeof(SUMMARY_FILE ".tmp-") - 1) == 0;
    closedir(listing);
    bool is_audit = false;
    const spsh_status rc = is_empty ? SPSH_OK : look_for_mark(folder, io, &is_audit, err);
    if (rc != SPSH_OK || is_empty || is_audit)
        return rc;
    return SPSH_FAIL(err, SPSH_E_EXISTS,
                     "%s is not empty and no report of an audit; nothing was written", folder);
}

/* A file that an audit may have left: lists of other splits, and what a killed run had begun. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"report.html", SUMMARY_FILE, "pairs.jsonl", "leaks.jsonl",
                                        SPSH__AUDIT_STATEMENT_FILE};
    const char *temporary = strstr(name, ".tmp-");
    const size_t bytes = temporary != NULL ? (size_t)(temporary - name) : strlen(name);
    if (bytes > 4 && memcmp(name + bytes - 4, ".txt", 4) == 0 &&
        (strncmp(name, "clean-", 6) == 0 || strncmp(name, "dirty-", 6) == 0))
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0)
            return true;
    }
    return false;
}

static spsh_status remove_file(const char *folder, const char *name, const spsh_io *io,
                               spsh_error *err)
{
    spsh__builder path = {0};
    spsh_status rc = join(&path, folder, name, err);
    const int result = rc == SPSH_OK ? io->unlink_fn(io->user, spsh__builder_text(&path)) : 0;
    if (result < 0 && result != -ENOENT)
        rc = SPSH_FAIL(err, SPSH_E_IO, "%s: %s", spsh__builder_text(&path), strerror(-result));
    spsh__builder_free(&path);
    return rc;
}

/* What an earlier audit left and this one has not. */
static spsh_status remove_stale(const char *folder, const spsh__audit_file *files, size_t count,
                                const spsh_io *io, spsh_error *err)
{
    DIR *listing = opendir(folder);
    spsh_status rc = SPSH_OK;
    if (listing == NULL)
        return SPSH_FAIL(err, SPSH_E_IO, "%s: %s", folder, strerror(errno));
    for (const struct dirent *entry; rc == SPSH_OK && (entry = readdir(listing)) != NULL;) {
        bool is_new = !is_ours(entry->d_name);
        for (size_t i = 0; i < count && !is_new; i++)
            is_new = strcmp(files[i].name, entry->d_name) == 0;
        if (!is_new)
            rc = remove_file(folder, entry->d_name, io, err);
    }
    closedir(listing);
    return rc;
}

/* ---- all files ---- */

/* What is written, in order, with hashes. */
typedef struct folder_writer {
    const char *folder;
    const spsh__audit_report *report;
    spsh__audit_file *files;
    size_t count, capacity;
} folder_writer;

static spsh_status write_file(folder_writer *w, const char *name, content_fn content,
                              const void *user, spsh_error *err)
{
    out_file out;
    spsh__audit_file *file = &w->files[w->count];
    if (w->count == w->capacity || (file->name = strdup(name)) == NULL)
        return SPSH_NO_MEMORY(err);
    w->count++;
    spsh_status rc = out_open(&out, w->folder, name, w->report->io, err);
    if (rc == SPSH_OK)
        rc = content(w->report, user, &out, err);
    if (rc == SPSH_OK)
        rc = out_flush(&out, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(out.writer, SPSH_PUBLISH_REPLACE, err);
    if (rc == SPSH_OK)
        spsh__pack_hasher_digest(out.hasher, file->hash);
    spsh_file_writer_free(out.writer);
    spsh__pack_hasher_free(out.hasher);
    spsh__builder_free(&out.piece);
    return rc;
}

static spsh_status write_lists(folder_writer *w, spsh_error *err)
{
    spsh__builder name = {0};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < 2 * w->report->facts->test_count && rc == SPSH_OK; i++) {
        const id_list list = {i / 2, i % 2 == 1};
        rc = spsh__audit_list_name(w->report->sides, list.is_dirty ? "dirty" : "clean", list.split,
                                   &name, err);
        if (rc == SPSH_OK)
            rc = write_file(w, spsh__builder_text(&name), write_list, &list, err);
    }
    spsh__builder_free(&name);
    return rc;
}

static spsh_status write_statement(folder_writer *w, spsh_error *err)
{
    char *text = NULL;
    spsh_status rc = spsh__audit_statement(w->report, w->files, w->count, &text, err);
    if (rc == SPSH_OK)
        rc = write_file(w, SPSH__AUDIT_STATEMENT_FILE, write_text, text, err);
    free(text);
    return rc;
}

spsh_status spsh__audit_files_write(const char *folder, const spsh__audit_report *report,
                                    spsh_error *err)
{
    const size_t files = 5 + 2 * report->facts->test_count;
    folder_writer w = {folder, report, calloc(files, sizeof(*w.files)), 0, files};
    if (w.files == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh_io_make_directory(report->io, folder, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_folder_check(folder, report->io, err);
    if (rc == SPSH_OK)
        rc = remove_file(folder, SPSH__AUDIT_STATEMENT_FILE, report->io, err);
    if (rc == SPSH_OK)
        rc = write_file(&w, SUMMARY_FILE, write_summary, NULL, err);
    if (rc == SPSH_OK)
        rc = write_file(&w, "pairs.jsonl", write_pairs, NULL, err);
    if (rc == SPSH_OK)
        rc = write_file(&w, "leaks.jsonl", write_leaks, NULL, err);
    if (rc == SPSH_OK)
        rc = write_lists(&w, err);
    if (rc == SPSH_OK)
        rc = write_file(&w, "report.html", write_page, NULL, err);
    if (rc == SPSH_OK)
        rc = remove_stale(folder, w.files, w.count, report->io, err);
    if (rc == SPSH_OK)
        rc = write_statement(&w, err);
    for (size_t i = 0; i < w.count; i++)
        free(w.files[i].name);
    free(w.files);
    return rc;
}
