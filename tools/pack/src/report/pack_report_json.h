/* pack_report_json.h: reports/pack.json, for programs. docs/REPORT.md lists its members, which are
 * stable.
 */
#ifndef SPSH_PACK_REPORT_JSON_H
#define SPSH_PACK_REPORT_JSON_H

#include "pack_facts.h"

/* Return the object as one line without a line end. Free *ret_text with free. */
SPSH_NODISCARD spsh_status spsh__report_json(const spsh__facts *facts, char **ret_text,
                                             spsh_error *err);

#endif
