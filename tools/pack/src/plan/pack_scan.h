/* pack_scan.h: run the layouts over all corpora and give their items back in plan order, duplicates
 * rejected. */
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

/** What was counted. Items with duplicate ids are counted as spsh__plan_scan_next passes them. */
typedef struct spsh__scan_counts {
    spsh__sources sources; /* in the order of the scan */
    spsh__published_found published;
    spsh__reject_counts rejects;
} spsh__scan_counts;

/** Borrowed until free. The caller may take the sources out of it. */
spsh__scan_counts *spsh__plan_scan_counts(spsh__plan_scan *scan);

/** The next item in plan order whose id no earlier item has; the others are rejected. Borrowed until
 * the next call. *ret_bytes: the item as plan_item.h stores it. SPSH_E_END. */
spsh_status spsh__plan_scan_next(spsh__plan_scan *scan, spsh_bytes *ret_bytes,
                                 spsh_ingest_item *ret_item, spsh_error *err);

/** The next reject line, in a fixed order, after all items. SPSH_E_END. */
spsh_status spsh__plan_scan_next_reject(spsh__plan_scan *scan, spsh_bytes *ret_line,
                                        spsh_error *err);

void spsh__plan_scan_free(spsh__plan_scan *scan);

#endif
