/* pack_scan.h: run the layouts over all corpora and give their items back in plan order, duplicates
 * marked. */
#ifndef SPSH_PACK_SCAN_H
#define SPSH_PACK_SCAN_H

#include "pack_options.h"
#include "published_counts.h"
#include "source_counts.h"

/* Items sorted by (hash of the recording's id, id, order of emission), or by order of emission; ids
 * that were given twice are known. Memory is bounded: everything goes through external sorts. */
typedef struct spsh__plan_scan spsh__plan_scan;

/** Scan. *ret_scan is the caller's to free. */
spsh_status spsh__plan_scan_run(const spsh_pack_options *options, const char *work_directory,
                                spsh__plan_scan **ret_scan, spsh_error *err);

/** The sources in the order of the scan, with what was counted; borrowed until free. Duplicate ids
 * count when all items were taken. */
spsh__sources *spsh__plan_scan_sources(spsh__plan_scan *scan);

/** What was offered of published releases; borrowed until free. */
const spsh__published_found *spsh__plan_scan_published(const spsh__plan_scan *scan);

/** The next item in plan order, as plan_item.h stores it; borrowed until the next call.
 * *ret_duplicate: its id is an earlier item's too. SPSH_E_END. */
spsh_status spsh__plan_scan_next(spsh__plan_scan *scan, spsh_bytes *ret_item, bool *ret_duplicate,
                                 spsh_error *err);

/** The next reject line, in a fixed order. SPSH_E_END. */
spsh_status spsh__plan_scan_next_reject(spsh__plan_scan *scan, spsh_bytes *ret_line,
                                        spsh_error *err);
const spsh__reject_counts *spsh__plan_scan_reject_counts(const spsh__plan_scan *scan);

void spsh__plan_scan_free(spsh__plan_scan *scan);

#endif
