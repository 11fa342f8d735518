/* report.h: what a pack did, for people and for programs. */
#ifndef SPSH_PACK_REPORT_H
#define SPSH_PACK_REPORT_H

#include <stdio.h>

#include "plan.h"
#include "unit.h"

/** reports/pack.json: a pure function of input and options; no times, no paths, no thread counts.
 */
spsh_status spsh__report_write(const spsh__pack_options *options, const char *report_directory,
                               const spsh__plan *plan, const spsh__pack_result *result,
                               spsh_error *err);

/** reports/rejects.jsonl: the plan's rejects, then the units' in order. */
spsh_status spsh__report_write_rejects(const spsh__pack_options *options,
                                       const char *work_directory, const char *report_directory,
                                       const spsh__packed *packed, spsh_error *err);

/** The table at the end of a pack. */
void spsh__report_print(FILE *stream, const spsh__pack_options *options,
                        const spsh__pack_result *result);

/** The same as JSON: reports/pack.json, copied to stream. */
void spsh__report_print_json(FILE *stream, const char *dataset);

#endif
