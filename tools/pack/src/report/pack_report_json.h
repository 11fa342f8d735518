/* pack_report_json.h: reports/pack.json, for programs. docs/REPORT.md lists its members; they stay.
 */
#ifndef SPSH_PACK_REPORT_JSON_H
#define SPSH_PACK_REPORT_JSON_H

#include "pack_facts.h"

/* The object as one line without its end, from malloc. */
SPSH_NODISCARD spsh_status spsh__report_json(const spsh__facts *facts, char **ret_text,
                                             spsh_error *err);

#endif
