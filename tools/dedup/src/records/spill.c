/* spill.c: an unlinked file that grows by whole blocks. */
#include "spill.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/hash.h"
#include "speechshard/inside.h"

enum { NAME_TRIES = 1000, PATH_BYTES_MAX = 4096 };

struct spsh__spill {
    const spsh_io *io;
    char *path;
    size_t block_records;
    _Atomic uint64_t block_count;
    int fd;
};

/* Takes the place of a record at the end of each block. */
typedef struct seal {
    uint64_t block;
    uint64_t hash;
} seal;
_Static_assert(sizeof(seal) == sizeof(spsh__u128), "a seal takes the place of a record");

static uint64_t hash_of(const spsh__u128 *records, size_t count)
{
    return spsh__pack_hash64((spsh_bytes){(const uint8_t *)records, count * sizeof(*records)});
}

static spsh_status io_failed(const spsh__spill *spill, const char *what, int64_t result,
                             spsh_error *err)
{
    const int code = (int)-result;
    const spsh_status rc = spsh_io_status(code);
    return SPSH_FAIL_OS(err, rc, code, "%s: cannot %s: %s", spill->path, what, strerror(code));
}

/* Create a file with a name that is not in use, and unlink it at once. */
static spsh_status open_unlinked(spsh__spill *spill, const char *directory, spsh_error *err)
{
    static _Atomic uint64_t next_number;
    int fd = -EEXIST;

    for (int i = 0; i < NAME_TRIES && fd == -EEXIST; i++) {
        (void)snprintf(spill->path, PATH_BYTES_MAX, "%s/sort-%ld-%" PRIu64 ".tmp", directory,
                       (long)getpid(), atomic_fetch_add(&next_number, 1));
        fd = spill->io->open_fn(spill->io->user, spill->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                                0600);
    }
    if (fd < 0)
        return io_failed(spill, "make it", fd, err);
    spill->fd = fd;
    const int code = spill->io->unlink_fn(spill->io->user, spill->path);
    return code < 0 ? io_failed(spill, "unlink it", code, err) : SPSH_OK;
}

spsh_status spsh__spill_open(const spsh_io *io, const char *directory, size_t block_records,
                             spsh__spill **ret_spill, spsh_error *err)
{
    if (strlen(directory) > PATH_BYTES_MAX - 64)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the name of the temporary directory is too long");
    spsh__spill *spill = calloc(1, sizeof(*spill));
    if (spill == NULL)
        return SPSH_NO_MEMORY(err);
    spill->io = io != NULL ? io : spsh_io_default();
    spill->block_records = block_records;
    spill->fd = -1;
    spill->path = malloc(PATH_BYTES_MAX);
    const spsh_status rc =
        spill->path == NULL ? SPSH_NO_MEMORY(err) : open_unlinked(spill, directory, err);
    if (rc == SPSH_OK)
        *ret_spill = spill;
    else
        spsh__spill_close(spill);
    return rc;
}

static uint64_t place_of(const spsh__spill *spill, uint64_t block)
{
    return block * (spill->block_records + 1) * sizeof(spsh__u128);
}

static spsh_status write_all(spsh__spill *spill, const void *data, size_t size_bytes,
                             uint64_t offset_bytes, spsh_error *err)
{
    const uint8_t *bytes = data;
    while (size_bytes > 0) {
        const int64_t done =
            spill->io->pwrite_fn(spill->io->user, spill->fd, bytes, size_bytes, offset_bytes);
        if (done == -EINTR)
            continue;
        if (done <= 0)
            return io_failed(spill, "write", done < 0 ? done : -ENOSPC, err);
        bytes += done;
        size_bytes -= (size_t)done;
        offset_bytes += (uint64_t)done;
    }
    return SPSH_OK;
}

spsh_status spsh__spill_write(spsh__spill *spill, const spsh__u128 *records, size_t count,
                              uint64_t *ret_block, spsh_error *err)
{
    const uint64_t block = atomic_fetch_add(&spill->block_count, 1);
    const seal end = {block, hash_of(records, count)};
    const uint64_t place = place_of(spill, block);
    spsh_status rc = write_all(spill, records, count * sizeof(*records), place, err);
    if (rc == SPSH_OK)
        rc = write_all(spill, &end, sizeof(end), place + count * sizeof(*records), err);
    if (rc == SPSH_OK)
        *ret_block = block;
    return rc;
}

spsh_status spsh__spill_read(spsh__spill *spill, uint64_t block, spsh__u128 *records, size_t count,
                             spsh_error *err)
{
    seal end = {0, 0};
    spsh_status rc =
        spsh_io_read_exact(spill->io, spill->fd, records, (count + 1) * sizeof(*records),
                           place_of(spill, block), spill->path, err);
    if (rc == SPSH_E_TRUNCATED)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: the file is shorter than what was written",
                         spill->path);
    if (rc != SPSH_OK)
        return rc;
    memcpy(&end, &records[count], sizeof(end));
    if (end.block == block && end.hash == hash_of(records, count))
        return SPSH_OK;
    spsh_error_set(err, SPSH_E_CORRUPT, 0, place_of(spill, block),
                   "%s: block %" PRIu64 " differs from what was written; the disk is not reliable",
                   spill->path, block);
    return SPSH_E_CORRUPT;
}

uint64_t spsh__spill_bytes(spsh__spill *spill)
{
    return place_of(spill, atomic_load(&spill->block_count));
}

spsh_status spsh__spill_cut(spsh__spill *spill, uint64_t block, spsh_error *err)
{
    const int code = spill->io->ftruncate_fn(spill->io->user, spill->fd, place_of(spill, block));
    if (code < 0)
        return io_failed(spill, "shorten", code, err);
    atomic_store(&spill->block_count, block);
    return SPSH_OK;
}

void spsh__spill_close(spsh__spill *spill)
{
    if (spill == NULL)
        return;
    if (spill->fd >= 0)
        (void)spill->io->close_fn(spill->io->user, spill->fd);
    free(spill->path);
    free(spill);
}
