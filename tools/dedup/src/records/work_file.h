/* work_file.h: a file of fixed-size records with a checksum per block. Long runs save finished work
 * in such files.
 *
 *     spsh__work_writer_open(io, directory, "candidates", run_hash, 32, &writer, err);
 *     spsh__work_writer_add(writer, record, err);
 *     spsh__work_writer_publish(writer, facts, fact_count, err);
 *     spsh__work_writer_free(writer);
 *
 *     spsh__work_file_open(io, path, run_hash, 32, &file, err);
 *     spsh__work_file_read(&file, block, records, &count, err);
 *     spsh__work_file_close(&file);
 *
 * The file appears complete or not at all. Its footer stores the facts: up to SPSH__WORK_FACTS_MAX
 * numbers that describe the work.
 */
#ifndef SPSH_DEDUP_WORK_FILE_H
#define SPSH_DEDUP_WORK_FILE_H

#include "common/byte_builder.h"
#include "speechshard/io.h"

enum {
    SPSH__WORK_BLOCK_RECORDS = 4096,
    SPSH__WORK_FACTS_MAX = 16,
};

typedef struct spsh__work_writer spsh__work_writer;

/* run_hash: 16-byte hash of the run that the file belongs to. */
spsh_status spsh__work_writer_open(const spsh_io *io, const char *directory, const char *name,
                                   const uint8_t run_hash[16], uint32_t record_bytes,
                                   spsh__work_writer **ret_writer, spsh_error *err);
spsh_status spsh__work_writer_add(spsh__work_writer *writer, const uint8_t *record,
                                  spsh_error *err);
/* Publish the file. An existing file is replaced: another machine may have published the same
 * bytes, which is not an error. */
spsh_status spsh__work_writer_publish(spsh__work_writer *writer, const uint64_t *facts,
                                      size_t fact_count, spsh_error *err);
void spsh__work_writer_free(spsh__work_writer *writer);

/* A file that is open for reading. Any thread may read blocks by number. */
typedef struct spsh__work_file {
    const spsh_io *io;
    const char *path; /* borrowed */
    int fd;
    uint32_t record_bytes;
    uint64_t record_count, block_count;
    uint64_t facts[SPSH__WORK_FACTS_MAX];
} spsh__work_file;

/* SPSH_E_NOT_FOUND if the file does not exist; _MISMATCH if it belongs to another run; _CORRUPT;
 * _TRUNCATED. */
spsh_status spsh__work_file_open(const spsh_io *io, const char *path, const uint8_t run_hash[16],
                                 uint32_t record_bytes, spsh__work_file *ret_file, spsh_error *err);
/* Read the records of one block. dst has capacity for SPSH__WORK_BLOCK_RECORDS records. */
spsh_status spsh__work_file_read(const spsh__work_file *file, uint64_t block, uint8_t *dst,
                                 size_t *ret_count, spsh_error *err);
void spsh__work_file_close(spsh__work_file *file);

#endif
