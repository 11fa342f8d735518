/* kaldi_table.h: a file of keys and values (text, utt2spk ...), joined with another by its keys.
 *
 * Files of a data directory are sorted by contract. Two that are, are joined as they stream by, in
 * no memory. A file that is not, or whose partner is not, gets an index: 17 bytes a row, and a file
 * of at most 96 MiB is kept in memory with it.
 */
#ifndef SPSH_INGEST_KALDI_TABLE_H
#define SPSH_INGEST_KALDI_TABLE_H

#include "common/byte_builder.h"
#include "ingest/view/text_file.h"

typedef struct spsh__kaldi_entry {
    uint64_t hash;
    uint64_t place; /* offset in the file times two, plus one when it was asked for */
} spsh__kaldi_entry;

/** All zero is a file that is not there: nothing is found in it. */
typedef struct spsh__kaldi_table {
    bool exists;
    bool sorted; /* strictly, by bytes */
    spsh__text_file file;
    spsh__text_input input;
    uint64_t row_count, found_count;
    spsh__row_reader *reader; /* joined as it streams */
    spsh__row row;            /* of the reader; field_count 0: none */
    spsh__kaldi_entry *entries;
    size_t *buckets; /* where in entries each begins, and their end */
    size_t bucket_count;
    uint8_t *whole; /* the file, when it is kept */
    size_t whole_bytes;
    spsh__builder line; /* the row that an index found */
    spsh__builder key;
    /* The caller's, set before begin: gets every row that was never asked for; may be NULL. */
    spsh_status (*unused_fn)(void *user, const spsh__row *row, spsh_error *err);
    void *user;
} spsh__kaldi_table;

/* Open name, which is borrowed, in the folder and see whether it is sorted. A file that is not
 * there is no error. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_open(const spsh__view *folder, const char *name,
                                                  spsh__kaldi_table *table, spsh_error *err);

/* Get ready for finding: keys_sorted says that they will come strictly ascending. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_begin(spsh__kaldi_table *table, bool keys_sorted,
                                                   spsh_error *err);

/* The value of key (the first, if there are several); borrowed until the next call. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_find(spsh__kaldi_table *table, spsh_bytes key,
                                                  bool *ret_found, spsh_bytes *ret_value,
                                                  spsh_error *err);

/* After the last find: give unused_fn the rows that were never asked for and not given yet. */
SPSH_NODISCARD spsh_status spsh__kaldi_table_end(spsh__kaldi_table *table, spsh_error *err);

void spsh__kaldi_table_close(spsh__kaldi_table *table);

#endif
