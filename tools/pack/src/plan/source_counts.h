/* source_counts.h: the outcome of the rows of each source. A source is a corpus root below an
 * operand, read as one layout.
 *
 *     rows in = packed + rejected + merged + excluded
 *
 * The scan counts the left side, and of the right side the rejected, merged, and excluded rows.
 * The units count the packed rows and further rejected rows. Both identify a source by the
 * sequence numbers of its items, which form one range.
 */
#ifndef SPSH_SOURCE_COUNTS_H
#define SPSH_SOURCE_COUNTS_H

#include "pack_journal.h"

/** Rows of one source, as counted by the scan. */
typedef struct spsh__source_rows {
    uint64_t offered;  /* items that the layout emitted */
    uint64_t rejected; /* rejected by the scan; includes duplicate ids, which are also offered */
    uint64_t repeated; /* offered items with duplicate ids */
    uint64_t merged;
    uint64_t excluded;
} spsh__source_rows;

typedef struct spsh__source {
    char *root; /* relative to the operand, "." for the operand itself; escaped as in reports */
    char *layout;
    char *evidence;
    char *notes;             /* notes for "worth a look", separated by "; "; "": none */
    uint64_t operand;        /* index of the operand */
    uint64_t first_sequence; /* sequence of its first item */
    spsh__source_rows rows;
} spsh__source;

/** Zero-initialize (empty). Free with spsh__sources_free. */
typedef struct spsh__sources {
    spsh__source *items;
    size_t count, capacity;
} spsh__sources;

/** Rows of one source, as counted by the units. */
typedef struct spsh__source_tally {
    uint64_t packed;
    uint64_t rejected;
    uint64_t audio_ns; /* length of packed utterances */
} spsh__source_tally;

/* Add a source. Strings are copied. false: no memory. */
bool spsh__sources_add(spsh__sources *sources, uint64_t operand, const char *root,
                       const char *layout, const char *evidence);
/* Add a note to the last source, unless the source already has it. false: no memory. */
bool spsh__sources_note(spsh__sources *sources, const char *note);
void spsh__sources_free(spsh__sources *sources);

/* Return the index of an item's source. There must be at least one source. */
size_t spsh__sources_of(const spsh__sources *sources, uint64_t sequence);

uint64_t spsh__source_rows_in(const spsh__source_rows *rows);
uint64_t spsh__source_rejected(const spsh__source_rows *rows, const spsh__source_tally *tally);

/* True if each row of the source has exactly one outcome. */
bool spsh__source_balances(const spsh__source_rows *rows, const spsh__source_tally *tally);

/* Write the sources as lines of a journal, and read them; false: malformed, or no memory. */
void spsh__sources_append(spsh__builder *out, const spsh__sources *sources);
bool spsh__sources_take(spsh__journal *journal, spsh__sources *ret_sources);

/* Write the tallies that are not zero, and read them. take adds to tallies. */
void spsh__tallies_append(spsh__builder *out, const spsh__source_tally *tallies, size_t count);
bool spsh__tallies_take(spsh__journal *journal, spsh__source_tally *tallies, size_t count);

#endif
