/* pack_report.h: the files of a report, for people and for programs.
 *
 *     reports/rejects.jsonl   a line for everything that was left out
 *     reports/pack.json       counts, for programs; docs/REPORT.md lists its members
 *     reports/pack.html       the same to look at
 *
 * All are a pure function of input and options: no times, no paths, no thread counts.
 */
#ifndef SPSH_PACK_REPORT_H
#define SPSH_PACK_REPORT_H

#include "pack_facts.h"

/** reports/rejects.jsonl: the plan's rejects, then the units' in order. The first ones of each
 * reason are added to examples. */
spsh_status spsh__report_write_rejects(const spsh_pack_options *options, const char *work_directory,
                                       const char *report_directory, const spsh__packed *packed,
                                       spsh__examples *examples, spsh_error *err);

/** reports/pack.json and reports/pack.html. */
spsh_status spsh__report_write(const spsh_pack_options *options, const char *report_directory,
                               const spsh__facts *facts, spsh_error *err);

#endif
