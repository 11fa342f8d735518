/* pack_report.h: the files of a report, for people and for programs.
 *
 *     reports/rejects.jsonl   one line per rejected row or remark
 *     reports/pack.json       counts, for programs; REPORT.md lists its stable members
 *     reports/pack.html       the same facts, for people
 *
 * All are a pure function of input and options: no times, no paths, no thread counts.
 */
#ifndef SPSH_PACK_REPORT_H
#define SPSH_PACK_REPORT_H

#include "pack_facts.h"

/** Write reports/rejects.jsonl from the reject files of packed, in order. Adds the
 * first lines of each reason to examples. */
spsh_status spsh__report_write_rejects(const spsh_pack_options *options, const char *work_directory,
                                       const char *report_directory, const spsh__packed *packed,
                                       spsh__examples *examples, spsh_error *err);

/** Write reports/pack.json and reports/pack.html. command: spsh__plan_command. */
spsh_status spsh__report_write(const spsh_io *io, const char *report_directory, const char *command,
                               const spsh__facts *facts, spsh_error *err);

/* Return reports/pack.json as one line without a line end. Free *ret_text with free. */
SPSH_NODISCARD spsh_status spsh__report_json(const spsh__facts *facts, char **ret_text,
                                             spsh_error *err);
/* Append reports/pack.html, which needs no other file (page.h). command: spsh__plan_command. */
void spsh__report_html(spsh__builder *out, const spsh__facts *facts, const char *command);

#endif
