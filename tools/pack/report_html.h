/* report_html.h: reports/pack.html, a page that needs nothing but itself: no script, no other file.
 *
 * Its bytes are a pure function of the facts. It is well-formed XML, too.
 */
#ifndef SPSH_PACK_REPORT_HTML_H
#define SPSH_PACK_REPORT_HTML_H

#include "facts.h"

/* Append the page. */
void spsh__report_html(spsh__builder *out, const spsh__facts *facts);

#endif
