/* pack_plan.h: the sorted list of all utterances to pack, on disk, cut into units.
 *
 * Files in the work directory:
 *
 *     plan.g<K>/plan.items    items (plan_item.h), unit after unit
 *     plan.g<K>/plan.rejects  JSON lines of the rows that the layouts rejected
 *     plan.g<K>/unpacked-*    members of zip archives, to which items refer, and a tar that was read
 *                             from standard input
 *     tar-<ID>.g<K>/tar       unpacked archives, to which items refer (pack_archives.h)
 *     plan                    a journal: K, options, dataset id, counts, units
 *
 * The plan depends only on the input and the options, not on threads, time, or the path of the
 * corpus. `plan` is published last, and the first one that is published wins. A process that makes
 * a plan has its own folder (claim.h), so it cannot change the plan of another process.
 */
#ifndef SPSH_PACK_PLAN_H
#define SPSH_PACK_PLAN_H

#include "claim/claim.h"
#include "pack_options.h"
#include "pack_scan.h"
#include "published_counts.h"
#include "source_counts.h"

/** Name of the list of compressed archives (pack_archives.h). */
#define SPSH__PLAN_ARCHIVES_NAME "archives"

typedef struct spsh__plan_unit {
    uint64_t offset_bytes; /* offset in plan.items */
    uint64_t size_bytes;
    uint64_t item_count;
    uint64_t source_bytes;
    uint64_t hash; /* XXH3-64 of the unit's items */
} spsh__plan_unit;

typedef struct spsh__plan {
    uint8_t dataset_id[16];
    spsh__plan_unit *units;
    uint64_t unit_count;
    uint64_t item_count;   /* items to pack, without duplicate ids */
    uint64_t source_bytes; /* size of the items' audio files, as far as known */
    uint64_t row_count;    /* items and rows that the scan rejected */
    spsh__reject_counts rejects;
    spsh__sources sources;
    spsh__published_found published;
    spsh__builder options; /* the options as a JSON object, part of the dataset's identity */
    /* Options of the call that made the plan, for a merge. */
    char **corpora; /* absolute paths; only if the plan was loaded */
    size_t corpus_count;
    spsh__builder command; /* see spsh__plan_command */
    spsh_pack_dedupe dedupe;
    bool is_strict;
    uint64_t rejects_max_ppm;
    char folder[SPSH__CLAIM_NAME_BYTES]; /* folder of the items, in the work directory */
} spsh__plan;

/** Append the command without folder names and without options that cannot change the dataset. So a
 * corpus at another path produces the same page. */
void spsh__plan_command(const spsh_pack_options *options, spsh__builder *line);

/** Whether the options make a dataset whose manifest has these options. SPSH_E_NO_MEMORY. */
SPSH_NODISCARD spsh_status spsh__plan_options_equal(const spsh_pack_options *options,
                                                    spsh_bytes options_json, bool *ret_equal,
                                                    spsh_error *err);

/** Scan the corpora and write the files of the plan, except the journal. folder: in the work
 * directory. */
spsh_status spsh__plan_build(const spsh_pack_options *options, const char *work_directory,
                             const char *folder, const spsh__plan_unpacker *unpacker,
                             spsh__plan *ret_plan, spsh_error *err);

/** Publish the journal of a plan. SPSH_E_EXISTS: there is another plan already. */
spsh_status spsh__plan_publish(const spsh_pack_options *options, const char *work_directory,
                               const spsh__plan *plan, spsh_error *err);

/**
 * Load a published plan.
 *
 * @param any_options  accept a plan of any options and corpora
 * @return SPSH_E_NOT_FOUND: no plan; SPSH_E_EXISTS: the plan was made with other options or corpora
 */
spsh_status spsh__plan_load(const spsh_pack_options *options, const char *work_directory,
                            bool any_options, spsh__plan *ret_plan, spsh_error *err);

/** Load and check the items of one unit. The caller frees *ret_items. */
spsh_status spsh__plan_read_unit(const spsh_io *io, const char *work_directory,
                                 const spsh__plan *plan, uint64_t unit, uint8_t **ret_items,
                                 spsh_error *err);

/** Check that this machine sees the audio files of the plan. Without a corpus, which is perhaps not
 * mounted here, a part would reject all its utterances. SPSH_E_IO. */
spsh_status spsh__plan_check_sources(const spsh_io *io, const char *work_directory,
                                     const spsh__plan *plan, spsh_error *err);

void spsh__plan_free(spsh__plan *plan);

#endif
