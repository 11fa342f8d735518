/* audit_files.c: write the files one after another, and hash each file while it is written. */
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
/* Beginning of summary.json in every version. It identifies a folder as the report of an audit. */
#define SUMMARY_MARK "{\n  \"schema\": \"speechshard-audit-summary-"

enum { PIECE_BYTES = 1 << 20 };

/* State of writing a folder. */
typedef struct folder_writer {
    const char *folder;
    const spsh__audit_report *report;
    spsh__set_readers readers;
    spsh_json *json;
    spsh__audit_file *files; /* written files, in order */
    size_t count;
    size_t list; /* number of the id list in progress: the test split is list / 2; even lists are
                    clean, odd ones dirty */
    /* the file in progress */
    spsh_file_writer *file;
    spsh__pack_hasher *hasher;
    spsh__builder piece;
} folder_writer;

/* ---- one file ---- */

static spsh_status flush(folder_writer *w, spsh_error *err)
{
    if (w->piece.failed)
        return SPSH_NO_MEMORY(err);
    const spsh_bytes bytes = spsh__builder_bytes(&w->piece);
    if (bytes.size_bytes == 0)
        return SPSH_OK;
    spsh__pack_hasher_add(w->hasher, bytes);
    const spsh_status rc = spsh_file_writer_write(w->file, bytes.data, bytes.size_bytes, err);
    spsh__builder_clear(&w->piece);
    return rc;
}

static spsh_status end_line(folder_writer *w, spsh_error *err)
{
    spsh__builder_append(&w->piece, "\n", 1);
    return w->piece.size_bytes < PIECE_BYTES && !w->piece.failed ? SPSH_OK : flush(w, err);
}

/* Write the JSON object as one line. */
static spsh_status write_json(folder_writer *w, spsh_error *err)
{
    char *text = NULL;
    const spsh_status rc = spsh__json_take_text(w->json, &text, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(&w->piece, text);
    free(text);
    return end_line(w, err);
}

/* Write the content of one file. */
typedef spsh_status (*content_fn)(folder_writer *w, spsh_error *err);

/* ---- contents ---- */

static spsh_status write_summary(folder_writer *w, spsh_error *err)
{
    char *text = NULL;
    spsh_status rc = spsh__audit_put_summary(w->report, w->json, err);
    if (rc == SPSH_OK)
        rc = spsh__json_take_indented(w->json, &text, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(&w->piece, text);
    free(text);
    return end_line(w, err);
}

static spsh_status write_pairs(folder_writer *w, spsh_error *err)
{
    const spsh__leaks *leaks = w->report->facts.leaks;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < leaks->match_count && rc == SPSH_OK;) {
        const spsh__match *first = &leaks->matches[i];
        uint64_t count = 1;
        while (i + count < leaks->match_count && first[count].a == first->a &&
               first[count].b == first->b)
            count++;
        rc = spsh__audit_put_pair(w->report, &w->readers, first, count, w->json, err);
        if (rc == SPSH_OK)
            rc = write_json(w, err);
        i += count;
    }
    return rc;
}

static spsh_status write_leaks(folder_writer *w, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < w->report->sides->roster.test_utterance_count && rc == SPSH_OK; i++) {
        if (w->report->facts.leaks->masks[i] == 0)
            continue;
        rc = spsh__audit_put_leak(w->report, &w->readers, i, w->json, err);
        if (rc == SPSH_OK)
            rc = write_json(w, err);
    }
    return rc;
}

/* Write one id per line. Line breaks and tabs become blanks, as in all output of the command. */
static spsh_status write_id(folder_writer *w, spsh_bytes id, spsh_error *err)
{
    const size_t begin = w->piece.size_bytes;
    spsh__builder_append_bytes(&w->piece, id);
    for (size_t i = begin; i < w->piece.size_bytes && !w->piece.failed; i++) {
        const uint8_t byte = w->piece.data[i];
        if (byte == '\n' || byte == '\r' || byte == '\t')
            w->piece.data[i] = ' ';
    }
    return end_line(w, err);
}

static spsh_status write_list(folder_writer *w, spsh_error *err)
{
    const spsh__audit_roster *roster = &w->report->sides->roster;
    const uint8_t *masks = w->report->facts.leaks->masks;
    spsh_utterance utterance;
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < roster->test_utterance_count && rc == SPSH_OK; i++) {
        const bool is_dirty = (masks[i] & SPSH__LEAK_DIRTY_MASK) != 0;
        if (roster->test_splits[i] != w->list / 2 || is_dirty != w->list % 2)
            continue;
        rc = spsh__set_readers_metadata(&w->readers, roster->test_ordinals[i], &utterance, err);
        if (rc == SPSH_OK)
            rc = write_id(w, utterance.id, err);
    }
    return rc;
}

static spsh_status write_page(folder_writer *w, spsh_error *err)
{
    return spsh__audit_page(&w->report->facts, &w->piece, err);
}

static spsh_status write_statement(folder_writer *w, spsh_error *err)
{
    return spsh__audit_statement(w->report, w->files, w->count, &w->piece, err);
}

/* ---- the folder ---- */

static spsh_status join(spsh__builder *path, const char *folder, const char *name, spsh_error *err)
{
    spsh__builder_clear(path);
    spsh__builder_append_part(path, folder);
    spsh__builder_append_part(path, name);
    return spsh__builder_text(path) != NULL ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* Whether summary.json begins as the summary of an audit. False if it cannot be read. */
static spsh_status find_mark(const char *folder, const spsh_io *io, bool *ret_found,
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
        return SPSH_FAIL(err, SPSH_E_EXISTS, "%s: cannot read the folder: %s", folder,
                         strerror(errno));
    for (const struct dirent *entry; is_empty && (entry = readdir(listing)) != NULL;)
        is_empty =
            strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strncmp(entry->d_name, SUMMARY_FILE ".tmp-", sizeof(SUMMARY_FILE ".tmp-") - 1) == 0;
    closedir(listing);
    bool is_audit = false;
    const spsh_status rc = is_empty ? SPSH_OK : find_mark(folder, io, &is_audit, err);
    if (rc != SPSH_OK || is_empty || is_audit)
        return rc;
    return SPSH_FAIL(
        err, SPSH_E_EXISTS,
        "%s: the folder is not empty and is not a report of an audit; nothing was written", folder);
}

/* Whether an audit may have made the file: a list of any split, or a temporary file of a killed
 * run. */
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

/* Remove the files of an earlier audit that this audit did not write. */
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

static spsh_status write_file(folder_writer *w, const char *name, content_fn content,
                              spsh_error *err)
{
    spsh__audit_file *file = &w->files[w->count];
    file->name = strdup(name);
    if (file->name == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__pack_hasher_reset(w->hasher);
    spsh_status rc = spsh_file_writer_open(w->report->io, w->folder, name, 0, NULL, &w->file, err);
    if (rc == SPSH_OK)
        rc = content(w, err);
    if (rc == SPSH_OK)
        rc = flush(w, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(w->file, SPSH_PUBLISH_REPLACE, err);
    spsh__pack_hasher_digest(w->hasher, file->hash);
    spsh_file_writer_free(w->file);
    w->file = NULL;
    w->count++;
    return rc;
}

static spsh_status write_lists(folder_writer *w, spsh_error *err)
{
    spsh__builder name = {0};
    spsh_status rc = SPSH_OK;
    for (w->list = 0; w->list < 2 * w->report->sides->roster.test_count && rc == SPSH_OK;
         w->list++) {
        rc = spsh__audit_list_name(w->report->sides, w->list % 2 == 1 ? "dirty" : "clean",
                                   w->list / 2, &name, err);
        if (rc == SPSH_OK)
            rc = write_file(w, spsh__builder_text(&name), write_list, err);
    }
    spsh__builder_free(&name);
    return rc;
}

static spsh_status write_all(folder_writer *w, spsh_error *err)
{
    const spsh_io *io = w->report->io;
    spsh_status rc = spsh__set_readers_open(w->report->sides->set, &w->readers, err);
    if (rc == SPSH_OK)
        rc = spsh_io_make_directory(io, w->folder, err);
    if (rc == SPSH_OK)
        rc = spsh__audit_folder_check(w->folder, io, err);
    if (rc == SPSH_OK)
        rc = remove_file(w->folder, SPSH__AUDIT_STATEMENT_FILE, io, err);
    if (rc == SPSH_OK)
        rc = write_file(w, SUMMARY_FILE, write_summary, err);
    if (rc == SPSH_OK)
        rc = write_file(w, "pairs.jsonl", write_pairs, err);
    if (rc == SPSH_OK)
        rc = write_file(w, "leaks.jsonl", write_leaks, err);
    if (rc == SPSH_OK)
        rc = write_lists(w, err);
    if (rc == SPSH_OK)
        rc = write_file(w, "report.html", write_page, err);
    if (rc == SPSH_OK)
        rc = remove_stale(w->folder, w->files, w->count, io, err);
    if (rc == SPSH_OK)
        rc = write_file(w, SPSH__AUDIT_STATEMENT_FILE, write_statement, err);
    return rc;
}

spsh_status spsh__audit_files_write(const char *folder, const spsh__audit_report *report,
                                    spsh_error *err)
{
    const size_t files = 5 + 2 * report->sides->roster.test_count;
    folder_writer w = {.folder = folder, .report = report};
    w.files = calloc(files, sizeof(*w.files));
    w.json = spsh__json_new();
    w.hasher = spsh__pack_hasher_new();
    const spsh_status rc = w.files == NULL || w.json == NULL || w.hasher == NULL
                               ? SPSH_NO_MEMORY(err)
                               : write_all(&w, err);
    for (size_t i = 0; i < w.count; i++)
        free(w.files[i].name);
    free(w.files);
    spsh__set_readers_close(&w.readers);
    spsh__json_free(w.json);
    spsh__pack_hasher_free(w.hasher);
    spsh__builder_free(&w.piece);
    return rc;
}
