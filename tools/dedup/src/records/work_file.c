/* work_file.c: consecutive blocks of records, then a footer.
 *
 *     block: up to 4,096 records; then XXH3-64 over the block number and the records (8 bytes)
 *     footer, 192 bytes: "SPSHWORK", record_bytes (8), record count (8), hash of the run (16),
 *     16 facts (128), zeros (16), XXH3-64 of the preceding footer bytes (8)
 *
 * Every block except the last is full, so the offset of block n follows from its number.
 */
#include "work_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "speechshard/inside.h"

enum { FOOTER_BYTES = 192, SUM_BYTES = 8 };

static const char magic[8] = {'S', 'P', 'S', 'H', 'W', 'O', 'R', 'K'};

struct spsh__work_writer {
    spsh_file_writer *file;
    uint8_t run_hash[16];
    uint32_t record_bytes;
    uint64_t record_count;
    uint8_t *block; /* block number, records, checksum */
    size_t in_block;
};

/* Return the checksum of a block, which starts with 8 bytes for its number. */
static uint64_t sum_block(uint8_t *block, uint64_t number, size_t records_bytes)
{
    spsh__store_le(block, number, 8);
    return spsh__pack_hash64((spsh_bytes){block, 8 + records_bytes});
}

/* ---- writing ---- */

spsh_status spsh__work_writer_open(const spsh_io *io, const char *directory, const char *name,
                                   const uint8_t run_hash[16], uint32_t record_bytes,
                                   spsh__work_writer **ret_writer, spsh_error *err)
{
    spsh__work_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return SPSH_NO_MEMORY(err);
    writer->record_bytes = record_bytes;
    memcpy(writer->run_hash, run_hash, 16);
    writer->block = malloc(8 + (size_t)SPSH__WORK_BLOCK_RECORDS * record_bytes + SUM_BYTES);
    spsh_status rc = writer->block == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh_file_writer_open(io, directory, name, 0, NULL, &writer->file, err);
    if (rc == SPSH_OK) {
        *ret_writer = writer;
        writer = NULL;
    }
    spsh__work_writer_free(writer);
    return rc;
}

static spsh_status flush(spsh__work_writer *writer, spsh_error *err)
{
    const size_t bytes = writer->in_block * writer->record_bytes;
    const uint64_t number = (writer->record_count - 1) / SPSH__WORK_BLOCK_RECORDS;
    spsh__store_le(writer->block + 8 + bytes, sum_block(writer->block, number, bytes), 8);
    writer->in_block = 0;
    return spsh_file_writer_write(writer->file, writer->block + 8, bytes + SUM_BYTES, err);
}

spsh_status spsh__work_writer_add(spsh__work_writer *writer, const uint8_t *record, spsh_error *err)
{
    memcpy(writer->block + 8 + writer->in_block * writer->record_bytes, record,
           writer->record_bytes);
    writer->in_block++;
    writer->record_count++;
    return writer->in_block == SPSH__WORK_BLOCK_RECORDS ? flush(writer, err) : SPSH_OK;
}

spsh_status spsh__work_writer_publish(spsh__work_writer *writer, const uint64_t *facts,
                                      size_t fact_count, spsh_error *err)
{
    uint8_t footer[FOOTER_BYTES] = {0};
    spsh_status rc = writer->in_block > 0 ? flush(writer, err) : SPSH_OK;
    memcpy(footer, magic, 8);
    spsh__store_le(footer + 8, writer->record_bytes, 8);
    spsh__store_le(footer + 16, writer->record_count, 8);
    memcpy(footer + 24, writer->run_hash, 16);
    for (size_t i = 0; i < fact_count && i < SPSH__WORK_FACTS_MAX; i++)
        spsh__store_le(footer + 40 + 8 * i, facts[i], 8);
    spsh__store_le(footer + FOOTER_BYTES - 8,
                   spsh__pack_hash64((spsh_bytes){footer, FOOTER_BYTES - 8}), 8);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(writer->file, footer, FOOTER_BYTES, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer->file, SPSH_PUBLISH_REPLACE, err);
    return rc;
}

void spsh__work_writer_free(spsh__work_writer *writer)
{
    if (writer == NULL)
        return;
    spsh_file_writer_free(writer->file);
    free(writer->block);
    free(writer);
}

/* ---- reading ---- */

static spsh_status check_footer(spsh__work_file *file, const uint8_t *footer, uint64_t file_bytes,
                                const uint8_t run_hash[16], spsh_error *err)
{
    const spsh_bytes summed = {footer, FOOTER_BYTES - 8};
    if (memcmp(footer, magic, 8) != 0 ||
        spsh__load_le(footer + FOOTER_BYTES - 8, 8) != spsh__pack_hash64(summed))
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: the end of the file is damaged; remove the file",
                         file->path);
    if (memcmp(footer + 24, run_hash, 16) != 0 ||
        spsh__load_le(footer + 8, 8) != file->record_bytes)
        return SPSH_FAIL(err, SPSH_E_MISMATCH, "%s: the file belongs to another run", file->path);
    file->record_count = spsh__load_le(footer + 16, 8);
    file->block_count = file->record_count / SPSH__WORK_BLOCK_RECORDS +
                        (file->record_count % SPSH__WORK_BLOCK_RECORDS != 0);
    for (size_t i = 0; i < SPSH__WORK_FACTS_MAX; i++)
        file->facts[i] = spsh__load_le(footer + 40 + 8 * i, 8);
    if (file->record_count > file_bytes || file_bytes != file->record_count * file->record_bytes +
                                                             file->block_count * SUM_BYTES +
                                                             FOOTER_BYTES)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "%s: %" PRIu64 " bytes are not the size of %" PRIu64
                         " records; remove the file",
                         file->path, file_bytes, file->record_count);
    return SPSH_OK;
}

spsh_status spsh__work_file_open(const spsh_io *io, const char *path, const uint8_t run_hash[16],
                                 uint32_t record_bytes, spsh__work_file *ret_file, spsh_error *err)
{
    spsh__work_file file = {.io = io, .path = path, .record_bytes = record_bytes};
    uint8_t footer[FOOTER_BYTES];
    struct stat info;
    spsh_status rc = SPSH_OK;
    file.fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (file.fd < 0) {
        rc = spsh_io_status(-file.fd);
        return SPSH_FAIL_OS(err, rc, -file.fd, "%s: cannot open: %s", path, strerror(-file.fd));
    }
    const int failed = io->fstat_fn(io->user, file.fd, &info);
    if (failed < 0) {
        rc = spsh_io_status(-failed);
        spsh_error_set(err, rc, -failed, SPSH_OFFSET_NONE, "%s: %s", path, strerror(-failed));
    } else if (info.st_size < FOOTER_BYTES) {
        rc = SPSH_FAIL(err, SPSH_E_TRUNCATED, "%s: the file is too short; remove it", path);
    }
    if (rc == SPSH_OK)
        rc = spsh_io_read_exact(io, file.fd, footer, FOOTER_BYTES,
                                (uint64_t)info.st_size - FOOTER_BYTES, path, err);
    if (rc == SPSH_OK)
        rc = check_footer(&file, footer, (uint64_t)info.st_size, run_hash, err);
    if (rc != SPSH_OK) {
        (void)io->close_fn(io->user, file.fd);
        return rc;
    }
    *ret_file = file;
    return SPSH_OK;
}

spsh_status spsh__work_file_read(const spsh__work_file *file, uint64_t block, uint8_t *dst,
                                 size_t *ret_count, spsh_error *err)
{
    const uint64_t first = block * SPSH__WORK_BLOCK_RECORDS;
    const uint64_t left = file->record_count - first;
    const size_t count = left < SPSH__WORK_BLOCK_RECORDS ? (size_t)left : SPSH__WORK_BLOCK_RECORDS;
    const size_t bytes = count * file->record_bytes;
    const uint64_t at = first * file->record_bytes + block * SUM_BYTES;
    uint8_t *buffer = malloc(8 + bytes + SUM_BYTES);
    if (buffer == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc =
        spsh_io_read_exact(file->io, file->fd, buffer + 8, bytes + SUM_BYTES, at, file->path, err);
    if (rc == SPSH_OK && spsh__load_le(buffer + 8 + bytes, 8) != sum_block(buffer, block, bytes)) {
        spsh_error_set(err, SPSH_E_CORRUPT, 0, at,
                       "%s: block %" PRIu64 " at byte %" PRIu64 " is damaged; remove the file",
                       file->path, block, at);
        rc = SPSH_E_CORRUPT;
    }
    if (rc == SPSH_OK) {
        memcpy(dst, buffer + 8, bytes);
        *ret_count = count;
    }
    free(buffer);
    return rc;
}

void spsh__work_file_close(spsh__work_file *file)
{
    (void)file->io->close_fn(file->io->user, file->fd);
    file->fd = -1;
}
