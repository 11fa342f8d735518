/* source_counts.h: what became of the rows of each source: a corpus root below an operand, read as
 * one layout.
 *
 *     rows in = packed + rejected + merged + excluded
 *
 * The left side is counted by the scan, the right side by the scan (rejected, merged, excluded) and
 * by the units (packed, rejected); both know a source by the sequence numbers of its items, which
 * are one range.
 */
#ifndef SPSH_SOURCE_COUNTS_H
#define SPSH_SOURCE_COUNTS_H

#include "pack_journal.h"

/** Rows of one source as the scan saw them. */
typedef struct spsh__source_rows {
    uint64_t offered;  /* items that the layout emitted */
    uint64_t rejected; /* by the scan, duplicate ids included: those are offered, too */
    uint64_t repeated; /* of the offered ones: duplicate ids */
    uint64_t merged;
    uint64_t excluded;
} spsh__source_rows;

typedef struct spsh__source {
    char *root; /* relative to the operand, "." for the operand itself; as names are reported */
    char *layout;
    char *evidence;
    char *notes;             /* for "worth a look", separated by "; "; "": none */
    uint64_t operand;        /* 0 for the first */
    uint64_t first_sequence; /* of its items */
    spsh__source_rows rows;
} spsh__source;

/** All zero is empty; free with spsh__sources_free. */
typedef struct spsh__sources {
    spsh__source *items;
    size_t count, capacity;
} spsh__sources;

/** Rows of one source as the units leave them. */
typedef struct spsh__source_tally {
    uint64_t packed;
    uint64_t rejected;
    uint64_t audio_ns; /* of packed utterances */
} spsh__source_tally;

/* What a source is; strings are copied. false: no memory. */
bool spsh__sources_add(spsh__sources *sources, uint64_t operand, const char *root,
                       const char *layout, const char *evidence);
/* Add a note to the last source, unless it has the same one. false: no memory. */
bool spsh__sources_note(spsh__sources *sources, const char *note);
void spsh__sources_free(spsh__sources *sources);

/* The source of an item. There is at least one. */
size_t spsh__sources_of(const spsh__sources *sources, uint64_t sequence);

uint64_t spsh__source_rows_in(const spsh__source_rows *rows);
uint64_t spsh__source_rejected(const spsh__source_rows *rows, const spsh__source_tally *tally);

/* Do all rows of the source come out, once each? */
bool spsh__source_balances(const spsh__source_rows *rows, const spsh__source_tally *tally);

/* As lines of a journal, and back; false: malformed, or no memory. */
void spsh__sources_append(spsh__builder *out, const spsh__sources *sources);
bool spsh__sources_take(spsh__journal *journal, spsh__sources *ret_sources);

/* Tallies that are not zero. take adds to tallies. */
void spsh__tallies_append(spsh__builder *out, const spsh__source_tally *tallies, size_t count);
bool spsh__tallies_take(spsh__journal *journal, spsh__source_tally *tallies, size_t count);

#endif
