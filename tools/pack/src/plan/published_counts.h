/* published_counts.h: how many utterances the known releases have, and how many of them were found.
 *
 * An incomplete download looks like a complete corpus. So the offered utterances are counted per
 * published part (a language and split, or a subset) and compared after the scan. A part with less
 * than SPSH__PUBLISHED_NOTE_PERCENT of its utterances is taken for a deliberate selection and only
 * noted in the report. From that share on the part is reported as incomplete. Neither is an error.
 */
#ifndef SPSH_PUBLISHED_COUNTS_H
#define SPSH_PUBLISHED_COUNTS_H

#include "ingest/scan/ingest.h"
#include "pack_journal.h"

#define SPSH__PUBLISHED_NOTE_PERCENT 10U

/** A part of a release. */
typedef struct spsh__published {
    const char *layout; /* prefix of layout names; parts of one layout are adjacent */
    const char *corpus; /* common name of the corpus */
    const char *part;
    const char *domain; /* domain from the layout, before --domain; NULL: part is a subset's name */
    const char *split;
    uint64_t utterances;
} spsh__published;

#define SPSH__PUBLISHED_MAX 64U

extern const spsh__published spsh__published_parts[];
size_t spsh__published_count(void);

/** Number of utterances found, by part. */
typedef struct spsh__published_found {
    uint64_t utterances[SPSH__PUBLISHED_MAX];
    size_t first, end; /* range of parts of the current layout */
    size_t last;       /* part of the last item, which the next item often shares */
} spsh__published_found;

/* Set the layout of the next items. */
void spsh__published_begin(spsh__published_found *found, const char *layout);

/* Count an item that the layout offered. */
void spsh__published_add(spsh__published_found *found, const spsh_ingest_item *item);

/* True if the number of utterances found in a part is worth a warning. */
bool spsh__published_differs(size_t part, uint64_t found);

/* Format a line such as "MLS english train: 5,496,281 of 10,808,037 published utterances found (51
 * %)". */
#define SPSH__PUBLISHED_LINE_BYTES 160
const char *spsh__published_line(size_t part, uint64_t found, char dst[SPSH__PUBLISHED_LINE_BYTES]);

/* Write the counts as lines of a journal, and read them. */
void spsh__published_append(spsh__builder *out, const spsh__published_found *found);
bool spsh__published_take(spsh__journal *journal, spsh__published_found *ret_found);

#endif
