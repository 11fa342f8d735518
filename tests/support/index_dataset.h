/* index_dataset.h: a dataset that consists only of an index and a manifest, for code that reads no
 * audio.
 *
 *     index_row rows[1000] = ...;
 *     index_dataset_write(path, rows, 1000);      makes the folder
 *     spsh_dataset_open(path, ...)
 *
 * Utterance p has the id "u<p>". Names are numbers: domain 3 is called "domain3".
 */
#ifndef INDEX_DATASET_H
#define INDEX_DATASET_H

#include "speechshard/dataset.h"

typedef struct index_row {
    uint64_t samples;
    uint32_t sample_rate_hz;                   /* 0: 16000 */
    uint32_t channels;                         /* 0: 1 */
    uint32_t domain, split, speaker, language; /* 0: none, 1: "domain1" ... */
    uint32_t text_bytes;
    uint64_t copy_of; /* 0: not a copy; else position + 1 */
} index_row;

/* The test stops on failure. tag: part of the dataset's id. */
void index_dataset_write(const char *path, const index_row *rows, uint64_t count, uint8_t tag);

#endif
