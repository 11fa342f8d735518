/* audit_files.h: the folder that an audit leaves.
 *
 *     rc = spsh__audit_folder_check("audit", io, err);         // before hours of work
 *     rc = spsh__audit_files_write("audit", &report, err);
 *
 *     report.html        for people (copy_report.h)
 *     summary.json       all numbers
 *     pairs.jsonl        a line a pair of utterances, one of each side, with the evidence
 *     leaks.jsonl        a line a test utterance that has a leak
 *     clean-SPLIT.txt    ids of a test split without, and
 *     dirty-SPLIT.txt    with a leak of kind recording, segment, performance or sentence
 *     statement.json     audit_statement.h
 *
 * Each file is whole or not there. The statement goes first and comes last, so a folder that has
 * one is of one audit.
 */
#ifndef SPSH_DEDUP_AUDIT_FILES_H
#define SPSH_DEDUP_AUDIT_FILES_H

#include "audit_report.h"

/* SPSH_OK: there is nothing, an empty folder, or an audit; SPSH_E_EXISTS: something else. */
spsh_status spsh__audit_folder_check(const char *folder, const spsh_io *io, spsh_error *err);

/* Makes the folder, or replaces the audit in it; files of others stay. */
spsh_status spsh__audit_files_write(const char *folder, const spsh__audit_report *report,
                                    spsh_error *err);

#endif
