/* scan.h: the common path of utterances from all layouts to the packer. It applies the rules of the
 * command line (--domain, --split), checks limits and UTF-8, and counts. Layouts fill an item and
 * call spsh__scan_emit. An item that may not enter a dataset becomes a reject here, so that all
 * layouts apply the same rules.
 */
#ifndef SPSH_INGEST_SCAN_H
#define SPSH_INGEST_SCAN_H

#include "common/byte_builder.h"
#include "ingest.h"
#include "ingest/view/walk.h"

typedef enum spsh__domain_rule {
    SPSH__DOMAIN_LAYOUT, /* no rule: use the layout's domain */
    SPSH__DOMAIN_NAME,
    SPSH__DOMAIN_DIRECTORY,
    SPSH__DOMAIN_COLUMN,
} spsh__domain_rule;

typedef struct spsh__strings_block {
    uint8_t *data;
    size_t capacity_bytes;
} spsh__strings_block;
typedef struct spsh__strings_mark {
    size_t block, used_bytes;
} spsh__strings_mark;

/** Strings of the current row, see scan_strings.h. All zero is empty. */
typedef struct spsh__strings {
    spsh__strings_block *blocks;
    size_t block_count, block_capacity;
    spsh__strings_mark at; /* end of the strings */
    spsh__builder open;    /* string that is built */
    bool failed;           /* out of memory */
} spsh__strings;
void spsh__strings_free(spsh__strings *strings);

typedef struct spsh__scan {
    const spsh_ingest_options *options;
    const spsh_ingest_sink *sink;
    spsh__domain_rule domain_rule;
    spsh_bytes domain_name; /* constant name or column name */
    long domain_directory;  /* N of dir:N; never 0 */
    uint64_t files_seen;
    uint64_t merged_rows;   /* rows for utterances that another row described already */
    uint64_t excluded_rows; /* rows that --split excludes */
    uint64_t skipped_rows;  /* rows that the corpus itself marks as skipped; each is reported */
    spsh__strings strings;
} spsh__scan;

/* Report one line under "worth a look". */
SPSH_NODISCARD spsh_status spsh__scan_note(const spsh__scan *scan, const char *note,
                                           spsh_error *err);

/** Position of a row, for rejects. All zero for an item without a row. */
typedef struct spsh__row_place {
    spsh_bytes file; /* path of the metadata file relative to the root */
    uint64_t line;
    uint64_t offset_bytes;
    spsh_bytes raw;
} spsh__row_place;

/* Parse the rules. The message of SPSH_E_INVALID_ARG shows the valid form. The caller frees
 * scan->strings in the end. */
SPSH_NODISCARD spsh_status spsh__scan_begin(spsh__scan *scan, const spsh_ingest_options *options,
                                            const spsh_ingest_sink *sink, spsh_error *err);

/* Reject --split or --domain column: for a layout without splits or without columns. */
SPSH_NODISCARD spsh_status spsh__scan_refuse_split(const spsh__scan *scan, const char *layout,
                                                   spsh_error *err);
SPSH_NODISCARD spsh_status spsh__scan_refuse_column(const spsh__scan *scan, const char *layout,
                                                    spsh_error *err);

/* Whether --split selects that name. Always true without --split. Call it for all names that select
 * a row: a name of --split that no call has is an error. */
bool spsh__scan_wants_split(const spsh__scan *scan, spsh_bytes split);
/* The same for rows that two names select. */
bool spsh__scan_wants_either(const spsh__scan *scan, spsh_bytes split, spsh_bytes name);

/* Check and emit an item. Replaces item->domain according to the rule, or by "default" if it is
 * empty. */
SPSH_NODISCARD spsh_status spsh__scan_emit(spsh__scan *scan, spsh_ingest_item *item,
                                           const spsh__row_place *place, spsh_error *err);

/* Report a reject. place may be NULL. If source is empty, the reject concerns the row itself, and
 * the file of place is reported.
 */
SPSH_NODISCARD spsh_status spsh__scan_reject(spsh__scan *scan, const spsh_reject *reject,
                                             const spsh__row_place *place, spsh_error *err);

/* Report how many commands were replaced by the files that they read. No row is lost. Does nothing
 * if count is 0. */
SPSH_NODISCARD spsh_status spsh__scan_reject_commands(spsh__scan *scan, uint64_t count,
                                                      spsh_bytes source, spsh_error *err);

/* Report a path that the walk could not or did not enter, as a reject that loses no row. */
SPSH_NODISCARD spsh_status spsh__scan_walk_note(void *user, spsh__walk_note note, const char *path,
                                                int os_errno, spsh_error *err);

/* Count rows that are ignored because another row of this source described the same utterance. */
static inline void spsh__scan_merge(spsh__scan *scan, uint64_t rows)
{
    scan->merged_rows += rows;
}

/* Count a row whose audio exists but that --split or the corpus itself excludes. item has the
 * fields that published counts use. Without a known release, only excluded_rows matters. */
void spsh__scan_exclude(spsh__scan *scan, const spsh_ingest_item *item);

/* Count files and report progress to the sink from time to time. The sink may cancel. */
SPSH_NODISCARD spsh_status spsh__scan_progress(spsh__scan *scan, uint64_t files, spsh_error *err);

/* Report the rows that --split excluded as one reject with their count and without lost rows. Pass
 * the counts of merged and excluded rows to the sink, then reset them to 0. */
SPSH_NODISCARD spsh_status spsh__scan_finish(spsh__scan *scan, spsh_error *err);

#endif
