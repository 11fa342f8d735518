/* index_files.h: a dataset's index and manifest, written row by row; there are no shards.
 *
 *     const index_files files = {
 *         .path = folder, .dataset_id = id, .utterance_count = 1000, .shard_count = 1,
 *         .shard_bytes = 1 << 30, .cell_fn = cell, .user = rows
 *     };
 *     index_files_write(&files, &err);
 *
 * Memory does not grow with utterances, so this is for benches of 10^8 of them, too.
 */
#ifndef INDEX_FILES_H
#define INDEX_FILES_H

#include "speechshard/dataset.h"

/* Names 0 to count - 1, concatenated; ends[i] is the end of name i. */
typedef struct index_names {
    uint64_t *ends;
    char *bytes;
    uint64_t count, size_bytes;
} index_names;

typedef struct index_files {
    const char *path;          /* a folder that exists */
    const uint8_t *dataset_id; /* 16 bytes */
    uint64_t utterance_count;
    uint64_t shard_count; /* all have the same number of utterances; the last has the rest */
    uint64_t shard_bytes;
    index_names names[SPSH_NAME_KINDS];
    /* The value of an index column (SPSH__INDEX_*) at a position. */
    uint64_t (*cell_fn)(const void *user, uint32_t column, uint64_t position);
    const void *user;
} index_files;

/* Number of utterances per shard; the last shard may have fewer. */
uint64_t index_files_shard_rows(const index_files *files);

spsh_status index_files_write(const index_files *files, spsh_error *err);

/* `word` and a number: first, first + 1, ...; bytes is NULL when there is no memory. */
index_names index_names_make(const char *word, uint64_t first, uint64_t count);
void index_names_free(index_names *names);

#endif
