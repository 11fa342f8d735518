/* pack_report_html.h: reports/pack.html, a page that needs no other file (page.h).
 *
 * Its bytes are a pure function of the facts and the command.
 */
#ifndef SPSH_PACK_REPORT_HTML_H
#define SPSH_PACK_REPORT_HTML_H

#include "pack_facts.h"

/* Append the page. command: spsh__plan_command. */
void spsh__report_html(spsh__builder *out, const spsh__facts *facts, const char *command);

#endif
