/* archive_table.c: columns that grow and are then mapped, and binary search in sorted columns. */
#include "archive_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "speechshard/inside.h"

#define PENDING_BYTES ((size_t)1 << 20)
#define TRIES_MAX     1000U

spsh_status spsh__archive_write(const spsh_io *io, int fd, const char *path, spsh_bytes data,
                                uint64_t offset_bytes, spsh_error *err)
{
    size_t at = 0;

    while (at < data.size_bytes) {
        int64_t put =
            io->pwrite_fn(io->user, fd, data.data + at, data.size_bytes - at, offset_bytes + at);
        if (put == -EINTR)
            continue;
        if (put <= 0) {
            int error = put == 0 ? ENOSPC : (int)-put;
            return SPSH_FAIL_OS(err, spsh_io_status(error), error, "%s: %s", path, strerror(error));
        }
        at += (size_t)put;
    }
    return SPSH_OK;
}

/* ---- columns ---- */

spsh_status spsh__column_open(const spsh_io *io, const char *directory,
                              spsh__archive_column *ret_column, spsh_error *err)
{
    spsh__builder path = {0};
    char name[64];
    int fd = -EEXIST;

    for (unsigned i = 0; fd == -EEXIST && i < TRIES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "/archives.tmp-%ld-%u", (long)getpid(), i);
        spsh__builder_clear(&path);
        spsh__builder_append_text(&path, directory);
        spsh__builder_append_text(&path, name);
        if (spsh__builder_text(&path) == NULL) {
            spsh__builder_free(&path);
            return SPSH_NO_MEMORY(err);
        }
        fd = io->open_fn(io->user, spsh__builder_text(&path), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                         0600);
    }
    if (fd < 0) {
        spsh_error_set(err, spsh_io_status(-fd), -fd, SPSH_OFFSET_NONE, "%s: %s",
                       spsh__builder_text(&path), strerror(-fd));
        spsh__builder_free(&path);
        return spsh_io_status(-fd);
    }
    (void)io->unlink_fn(io->user, spsh__builder_text(&path));
    spsh__builder_free(&path);
    *ret_column = (spsh__archive_column){.io = io, .fd = fd};
    return SPSH_OK;
}

static spsh_status flush(spsh__archive_column *column, spsh_error *err)
{
    const spsh_bytes data = spsh__builder_bytes(&column->pending);
    if (column->pending.failed)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__archive_write(column->io, column->fd, "the index of archives", data,
                                         column->size_bytes - data.size_bytes, err);
    spsh__builder_clear(&column->pending);
    return rc;
}

spsh_status spsh__column_append(spsh__archive_column *column, const void *data, size_t size_bytes,
                                spsh_error *err)
{
    spsh__builder_append(&column->pending, data, size_bytes);
    if (column->pending.failed)
        return SPSH_NO_MEMORY(err);
    column->size_bytes += size_bytes;
    return column->pending.size_bytes < PENDING_BYTES ? SPSH_OK : flush(column, err);
}

static void unmap(spsh__archive_column *column)
{
    if (column->data != NULL)
        (void)column->io->munmap_fn(column->io->user, column->data, (size_t)column->mapped_bytes);
    column->data = NULL;
    column->mapped_bytes = 0;
}

spsh_status spsh__column_map(spsh__archive_column *column, spsh_error *err)
{
    spsh_status rc = flush(column, err);

    unmap(column);
    if (rc != SPSH_OK || column->size_bytes == 0)
        return rc;
    column->data = column->io->mmap_fn(column->io->user, column->fd, (size_t)column->size_bytes, 0);
    if (column->data == NULL)
        return SPSH_NO_MEMORY(err);
    column->mapped_bytes = column->size_bytes;
    return SPSH_OK;
}

void spsh__column_close(spsh__archive_column *column)
{
    unmap(column);
    if (column->fd >= 0)
        (void)column->io->close_fn(column->io->user, column->fd);
    spsh__builder_free(&column->pending);
    *column = (spsh__archive_column){.fd = -1};
}

const char *spsh__column_text(const spsh__archive_column *column, uint64_t at)
{
    return (const char *)column->data + at;
}

/* ---- the table ---- */

spsh_status spsh__archive_table_open(const spsh_io *io, const char *directory,
                                     spsh__archive_table *table, spsh_error *err)
{
    spsh__archive_column *const columns[] = {&table->members, &table->names, &table->folders,
                                             &table->entries, &table->paths};
    spsh_status rc = SPSH_OK;

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        *columns[i] = (spsh__archive_column){.fd = -1};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]) && rc == SPSH_OK; i++)
        rc = spsh__column_open(io, directory, columns[i], err);
    return rc;
}

void spsh__archive_table_close(spsh__archive_table *table)
{
    spsh__column_close(&table->members);
    spsh__column_close(&table->names);
    spsh__column_close(&table->folders);
    spsh__column_close(&table->entries);
    spsh__column_close(&table->paths);
}

spsh__member_record spsh__archive_table_member(const spsh__archive_table *table, uint64_t number)
{
    spsh__member_record record;
    memcpy(&record, table->members.data + number * sizeof(record), sizeof(record));
    return record;
}

spsh__entry_record spsh__archive_table_entry(const spsh__archive_table *table, uint64_t number)
{
    spsh__entry_record record;
    memcpy(&record, table->entries.data + number * sizeof(record), sizeof(record));
    return record;
}

static spsh__folder_record folder_at(const spsh__archive_table *table, uint64_t number)
{
    spsh__folder_record record;
    memcpy(&record, table->folders.data + number * sizeof(record), sizeof(record));
    return record;
}

const char *spsh__archive_table_name(const spsh__archive_table *table,
                                     const spsh__entry_record *entry)
{
    return spsh__column_text(entry->member == SPSH__NO_MEMBER ? &table->paths : &table->names,
                             entry->name);
}

/* Compare a string of size_bytes with a NUL-terminated string. Returns values like strcmp. */
static int compare(const char *text, size_t size_bytes, const char *other)
{
    int order = strncmp(text, other, size_bytes);
    return order != 0 || other[size_bytes] == '\0' ? order : -1;
}

static const char *folder_text(const spsh__archive_table *table, uint64_t number)
{
    return spsh__column_text(&table->paths, folder_at(table, number).path);
}

static const char *entry_text(const spsh__archive_table *table, uint64_t number)
{
    const spsh__entry_record entry = spsh__archive_table_entry(table, number);
    return spsh__archive_table_name(table, &entry);
}

/** Rows sorted by the string that text_fn returns. */
typedef struct rows {
    const char *(*text_fn)(const spsh__archive_table *table, uint64_t number);
    uint64_t first, end;
} rows;

static bool find_row(const spsh__archive_table *table, rows among, const char *text,
                     size_t size_bytes, uint64_t *ret_number)
{
    uint64_t low = among.first;
    uint64_t high = among.end;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = compare(text, size_bytes, among.text_fn(table, middle));
        if (order == 0) {
            *ret_number = middle;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

bool spsh__archive_table_folder(const spsh__archive_table *table, const char *path,
                                size_t path_bytes, uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t count = table->folders.size_bytes / sizeof(spsh__folder_record);
    const rows folders = {folder_text, 0, count == 0 ? 0 : count - 1}; /* the last row is the
                                                                          sentinel */
    uint64_t number = 0;

    if (!find_row(table, folders, path, path_bytes, &number))
        return false;
    *ret_first = folder_at(table, number).first_entry;
    *ret_end = folder_at(table, number + 1).first_entry;
    return true;
}

bool spsh__archive_table_find(const spsh__archive_table *table, const char *path,
                              uint64_t *ret_entry)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    rows entries = {entry_text, 0, 0};

    return spsh__archive_table_folder(table, path, slash == NULL ? 0 : (size_t)(slash - path),
                                      &entries.first, &entries.end) &&
           find_row(table, entries, name, strlen(name), ret_entry);
}
