/* published_counts.h: how many utterances the known releases have, and how many of them were found.
 *
 * Half a download looks like a whole corpus. So what the layouts offer is counted by the published
 * parts (a language and split, a subset), and compared when the scan is through. A part of which
 * little is there is somebody's selection: it is noted in the report and no more. From
 * SPSH__PUBLISHED_NOTE_PERCENT on it is meant as the whole, and said to be incomplete. Neither is a
 * failure.
 */
#ifndef SPSH_PUBLISHED_COUNTS_H
#define SPSH_PUBLISHED_COUNTS_H

#include "ingest/scan/ingest.h"
#include "pack_journal.h"

#define SPSH__PUBLISHED_NOTE_PERCENT 10U

/** A part of a release. */
typedef struct spsh__published {
    const char *layout; /* names of layouts that read it begin so; parts of one stand together */
    const char *corpus; /* as people call it */
    const char *part;
    const char *domain; /* as the layout gives it, before --domain; NULL: part is a subset's name */
    const char *split;
    uint64_t utterances;
} spsh__published;

#define SPSH__PUBLISHED_MAX 64U

extern const spsh__published spsh__published_parts[];
size_t spsh__published_count(void);

/** What was found, by part. */
typedef struct spsh__published_found {
    uint64_t utterances[SPSH__PUBLISHED_MAX];
    size_t first, end; /* parts of the layout that is scanned */
    size_t last;       /* part of the last item: mostly the next one's, too */
} spsh__published_found;

/* The items that follow are of that layout. */
void spsh__published_begin(spsh__published_found *found, const char *layout);

/* Count an item that the layout offered. */
void spsh__published_add(spsh__published_found *found, const spsh_ingest_item *item);

/* Is a part, of which something was found, to be spoken of? */
bool spsh__published_differs(size_t part, uint64_t found);

/* "MLS english train: 5,496,281 of 10,808,037 published utterances found (51 %)" */
#define SPSH__PUBLISHED_LINE_BYTES 160
const char *spsh__published_line(size_t part, uint64_t found, char dst[SPSH__PUBLISHED_LINE_BYTES]);

/* As lines of a journal, and back. */
void spsh__published_append(spsh__builder *out, const spsh__published_found *found);
bool spsh__published_take(spsh__journal *journal, spsh__published_found *ret_found);

#endif
