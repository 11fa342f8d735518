/* audit_files.h: the folder with the report of an audit.
 *
 *     rc = spsh__audit_folder_check("audit", io, err);         // before hours of work
 *     rc = spsh__audit_files_write("audit", &report, err);
 *
 *     report.html        the page (copy_report.h)
 *     summary.json       all numbers
 *     pairs.jsonl        one line per pair of a train and a test utterance, with the evidence
 *     leaks.jsonl        one line per test utterance with a leak
 *     clean-SPLIT.txt    ids of a test split without a leak, and
 *     dirty-SPLIT.txt    with a leak, of kind recording, segment, performance, or sentence
 *     statement.json     audit_statement.h
 *
 * Each file is complete or absent. The old statement is removed first and the new one is written
 * last. So a folder with a statement holds the files of one audit.
 */
#ifndef SPSH_DEDUP_AUDIT_FILES_H
#define SPSH_DEDUP_AUDIT_FILES_H

#include "audit_report.h"

/* Check the folder. SPSH_OK if it does not exist, is empty, or holds an audit. SPSH_E_EXISTS
 * otherwise. */
spsh_status spsh__audit_folder_check(const char *folder, const spsh_io *io, spsh_error *err);

/* Create the folder, or replace the audit in it. Other files stay. */
spsh_status spsh__audit_files_write(const char *folder, const spsh__audit_report *report,
                                    spsh_error *err);

#endif
