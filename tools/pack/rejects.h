/* rejects.h: what was left out and why: lines for reports/rejects.jsonl, and counts by reason. */
#ifndef SPSH_PACK_REJECTS_H
#define SPSH_PACK_REJECTS_H

#include "builder.h"
#include "ingest.h"

typedef struct spsh__reject_counts {
    uint64_t events[SPSH_REJECT_COUNT]; /* lines in the report */
    uint64_t rows[SPSH_REJECT_COUNT];   /* utterances that they cost */
} spsh__reject_counts;

uint64_t spsh__reject_rows(const spsh__reject_counts *counts);
void spsh__reject_counts_add(spsh__reject_counts *sum, const spsh__reject_counts *more);

/* Append one JSON line and count it. Bytes that are not UTF-8 are percent-encoded as in ids. */
void spsh__reject_append(spsh__builder *lines, spsh__reject_counts *counts,
                         const spsh_reject *reject);

#endif
