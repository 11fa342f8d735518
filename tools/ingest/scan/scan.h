/* scan.h: what every layout does with an utterance on its way to the packer: rules of the command
 * line
 * (--domain, --split), limits and UTF-8, counting. Layouts fill an item and call spsh__scan_emit;
 * an item that may not enter a dataset becomes a reject here, so that all layouts agree on what
 * that is.
 */
#ifndef SPSH_INGEST_SCAN_H
#define SPSH_INGEST_SCAN_H

#include "common/byte_builder.h"
#include "ingest.h"
#include "ingest/view/walk.h"

typedef enum spsh__domain_rule {
    SPSH__DOMAIN_LAYOUT, /* none given: what the layout says */
    SPSH__DOMAIN_NAME,
    SPSH__DOMAIN_DIRECTORY,
    SPSH__DOMAIN_COLUMN,
} spsh__domain_rule;

typedef struct spsh__scan {
    const spsh_ingest_options *options;
    const spsh_ingest_sink *sink;
    spsh__domain_rule domain_rule;
    spsh_bytes domain_name; /* the constant or the column */
    long domain_directory;  /* dir:N; never 0 */
    uint64_t files_seen;
    uint64_t merged_rows;   /* name what another row gave already */
    uint64_t excluded_rows; /* by --split */
    uint64_t skipped_rows;  /* that the corpus itself says to leave out; each is reported */
} spsh__scan;

/* Report one line under "worth a look". */
SPSH_NODISCARD spsh_status spsh__scan_note(const spsh__scan *scan, const char *note,
                                           spsh_error *err);

/** Where a row stands, for rejects; all zero for an item that came from no row. */
typedef struct spsh__row_place {
    spsh_bytes file; /* of the metadata, relative to the root */
    uint64_t line;
    uint64_t offset_bytes;
    spsh_bytes raw;
} spsh__row_place;

/* Parses the rules. SPSH_E_INVALID_ARG says what a right one looks like. */
SPSH_NODISCARD spsh_status spsh__scan_begin(spsh__scan *scan, const spsh_ingest_options *options,
                                            const spsh_ingest_sink *sink, spsh_error *err);

/* For layouts that know no splits or have no columns: refuse rules that cannot mean anything. */
SPSH_NODISCARD spsh_status spsh__scan_refuse_split(const spsh__scan *scan, const char *layout,
                                                   spsh_error *err);
SPSH_NODISCARD spsh_status spsh__scan_refuse_column(const spsh__scan *scan, const char *layout,
                                                    spsh_error *err);

/* Whether --split asks for that name; true when it was not given. */
bool spsh__scan_wants_split(const spsh__scan *scan, spsh_bytes split);

/* Check and emit; item->domain is replaced as the rule says, "default" when it is empty. */
SPSH_NODISCARD spsh_status spsh__scan_emit(spsh__scan *scan, spsh_ingest_item *item,
                                           const spsh__row_place *place, spsh_error *err);

/* place may be NULL. source is empty for problems of the row itself: then it is the place's file.
 */
SPSH_NODISCARD spsh_status spsh__scan_reject(spsh__scan *scan, const spsh_reject *reject,
                                             const spsh__row_place *place, spsh_error *err);

/* Nothing is lost by a command whose file is packed, but it is said. count 0: nothing is. */
SPSH_NODISCARD spsh_status spsh__scan_tell_commands(spsh__scan *scan, uint64_t count,
                                                    spsh_bytes source, spsh_error *err);

/* What the walker could not or did not enter, as a reject that loses no row. */
SPSH_NODISCARD spsh_status spsh__scan_walk_note(void *user, spsh__walk_note note, const char *path,
                                                int os_errno, spsh_error *err);

/* Rows that are passed over since another row of this source gave the same utterance. */
static inline void spsh__scan_merge(spsh__scan *scan, uint64_t rows)
{
    scan->merged_rows += rows;
}

/* A row that --split, or the corpus itself, does not ask for, although its audio is there; item
 * says what published counts go by. Where no release is known, excluded_rows is all that counts. */
void spsh__scan_exclude(spsh__scan *scan, const spsh_ingest_item *item);

/* Count files and tell the sink now and then; it may cancel. */
SPSH_NODISCARD spsh_status spsh__scan_progress(spsh__scan *scan, uint64_t files, spsh_error *err);

/* Report what --split excluded, as one reject that names the number: nothing was lost by it. Tell
 * the sink how many rows were merged and excluded. The counts begin again at 0. */
SPSH_NODISCARD spsh_status spsh__scan_finish(spsh__scan *scan, spsh_error *err);

#endif
