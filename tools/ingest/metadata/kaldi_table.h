/* kaldi_table.h: a file of keys and values (text, utt2spk, ...), joined with another file by key.
 *
 * Files of a Kaldi data directory should be sorted. Two sorted files are joined while they are
 * read, without extra memory. If one of the two is not sorted, the table gets an index of 17 bytes
 * per row, and a file of at most 96 MiB is kept in memory, too.
 */
#ifndef SPSH_INGEST_KALDI_TABLE_H
#define SPSH_INGEST_KALDI_TABLE_H

#include "common/byte_builder.h"
#include "ingest/view/text_file.h"

typedef struct spsh__kaldi_entry {
    uint64_t hash;
    uint64_t place; /* twice the offset in the file, plus one if the row was requested */
} spsh__kaldi_entry;

/** All zero is a missing file, in which no key is found. */
typedef struct spsh__kaldi_table {
    bool exists;
    bool sorted; /* strictly ascending by bytes */
    spsh__text_file file;
    spsh__text_input input;
    uint64_t row_count, found_count;
    spsh__row_reader *reader; /* reads the rows of a streaming join */
    spsh__row row;            /* current row of the reader; field_count 0: none */
    spsh__kaldi_entry *entries;
    size_t *buckets; /* start of each bucket in entries, then the end of the last */
    size_t bucket_count;
    uint8_t *whole; /* the file's bytes if it is kept in memory */
    size_t whole_bytes;
    spsh__builder line; /* row that the index found */
    spsh__builder key;
    /* Set by the caller before begin, or NULL. Called for every row that was never requested. */
    spsh_status (*unused_fn)(void *user, const spsh__row *row, spsh_error *err);
    void *user;
} spsh__kaldi_table;

/* Open a file in the folder and check whether it is sorted. name is borrowed. A missing file is not
 * an error. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_open(const spsh__view *folder, const char *name,
                                                  spsh__kaldi_table *table, spsh_error *err);

/* Prepare for lookups. keys_sorted: the keys of the lookups will be strictly ascending. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_begin(spsh__kaldi_table *table, bool keys_sorted,
                                                   spsh_error *err);

/* Return the value of a key, from the first row if several rows have it. Borrowed until the next
 * call. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_find(spsh__kaldi_table *table, spsh_bytes key,
                                                  bool *ret_found, spsh_bytes *ret_value,
                                                  spsh_error *err);

/* Call after the last find. Passes the remaining rows that were never requested to unused_fn. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_end(spsh__kaldi_table *table, spsh_error *err);

void spsh__kaldi_table_close(spsh__kaldi_table *table);

#endif
