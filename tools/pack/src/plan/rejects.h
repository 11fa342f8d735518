/* rejects.h: rejected rows and their reasons: lines for reports/rejects.jsonl, and counts by
 * reason. */
#ifndef SPSH_PACK_REJECTS_H
#define SPSH_PACK_REJECTS_H

#include "common/byte_builder.h"
#include "ingest/scan/ingest.h"

typedef struct spsh__reject_counts {
    uint64_t events[SPSH_REJECT_COUNT]; /* lines in the report */
    uint64_t rows[SPSH_REJECT_COUNT];   /* utterances lost */
} spsh__reject_counts;

uint64_t spsh__reject_rows(const spsh__reject_counts *counts);
void spsh__reject_counts_add(spsh__reject_counts *sum, const spsh__reject_counts *more);

/* Append one JSON line and count it. Bytes that are not UTF-8 are percent-encoded as in ids. */
void spsh__reject_append(spsh__builder *lines, spsh__reject_counts *counts,
                         const spsh_reject *reject);

#define SPSH__EXAMPLES_MAX 3U

/** The first lines of each reason, gathered from rejects.jsonl. Zero-initialize. */
typedef struct spsh__examples {
    char *lines[SPSH_REJECT_COUNT][SPSH__EXAMPLES_MAX]; /* NUL-terminated; NULL: none */
    spsh__builder line;                                 /* start of an incomplete line */
} spsh__examples;

/* Add the next bytes of the file, cut anywhere. false: no memory. */
bool spsh__examples_watch(spsh__examples *examples, spsh_bytes piece);
void spsh__examples_free(spsh__examples *examples);

#endif
