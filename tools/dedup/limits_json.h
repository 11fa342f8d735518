/* limits_json.h: the limits of a verdict, for plans and statements. */
#ifndef SPSH_DEDUP_LIMITS_JSON_H
#define SPSH_DEDUP_LIMITS_JSON_H

#include "align.h"
#include "json_out.h"

/* Members of the innermost open object. */
void spsh__limits_put(spsh_json *json, const spsh__align_limits *limits);

#endif
