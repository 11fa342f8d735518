/* pack_report.h: what a pack did, for people and for programs: three files and a table.
 *
 *     reports/rejects.jsonl   a line for everything that was left out
 *     reports/pack.json       counts, for programs; docs/REPORT.md lists its members
 *     reports/pack.html       the same to look at
 *
 * All are a pure function of input and options: no times, no paths, no thread counts.
 */
#ifndef SPSH_PACK_REPORT_H
#define SPSH_PACK_REPORT_H

#include <stdio.h>

#include "pack_facts.h"

/** reports/rejects.jsonl: the plan's rejects, then the units' in order. The first ones of each
 * reason are added to examples. */
spsh_status spsh__report_write_rejects(const spsh__pack_options *options,
                                       const char *work_directory, const char *report_directory,
                                       const spsh__packed *packed, spsh__examples *examples,
                                       spsh_error *err);

/** reports/pack.json and reports/pack.html. */
spsh_status spsh__report_write(const spsh__pack_options *options, const char *report_directory,
                               const spsh__facts *facts, spsh_error *err);

/** The table at the end of a pack. */
void spsh__report_print(FILE *stream, const spsh__pack_options *options,
                        const spsh__pack_result *result);

/** reports/pack.json, copied to stream. */
void spsh__report_print_json(FILE *stream, const char *dataset);

#endif
