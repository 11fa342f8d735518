/* pack_scan.h: run the layouts over all corpora, and return their items in plan order without
 * duplicates. */
#ifndef SPSH_PACK_SCAN_H
#define SPSH_PACK_SCAN_H

#include "ingest/view/view.h"
#include "pack_options.h"
#include "published_counts.h"
#include "source_counts.h"

/* Items sorted by (hash of the recording id, id, order of emission), or only by order of emission,
 * and the items with duplicate ids. External sorts bound the memory. */
typedef struct spsh__plan_scan spsh__plan_scan;

/** A function that unpacks archives, and its argument. */
typedef struct spsh__plan_unpacker {
    spsh__unpack_all_fn unpack_all_fn;
    void *user;
} spsh__plan_unpacker;

/** Scan the corpora. The caller frees *ret_scan. */
spsh_status spsh__plan_scan_run(const spsh_pack_options *options, const char *work_directory,
                                const spsh__plan_unpacker *unpacker, spsh__plan_scan **ret_scan,
                                spsh_error *err);

/** Counts of the scan. Items with duplicate ids are counted when spsh__plan_scan_next passes them.
 */
typedef struct spsh__scan_counts {
    spsh__sources sources; /* in scan order */
    spsh__published_found published;
    spsh__reject_counts rejects;
} spsh__scan_counts;

/** Return the counts, borrowed until free. The caller may move the sources out. */
spsh__scan_counts *spsh__plan_scan_counts(spsh__plan_scan *scan);

/** Return the next item in plan order. Items whose id an earlier item has are rejected. Borrowed
 * until the next call. *ret_bytes: the item as plan_item.h stores it. SPSH_E_END. */
spsh_status spsh__plan_scan_next(spsh__plan_scan *scan, spsh_bytes *ret_bytes,
                                 spsh_ingest_item *ret_item, spsh_error *err);

/** Return the next reject line, in a fixed order. Call after all items. SPSH_E_END. */
spsh_status spsh__plan_scan_next_reject(spsh__plan_scan *scan, spsh_bytes *ret_line,
                                        spsh_error *err);

void spsh__plan_scan_free(spsh__plan_scan *scan);

#endif
