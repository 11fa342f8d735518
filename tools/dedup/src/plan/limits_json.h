/* limits_json.h: write the limits of a verdict as JSON, for plans and statements. */
#ifndef SPSH_DEDUP_LIMITS_JSON_H
#define SPSH_DEDUP_LIMITS_JSON_H

#include "common/json_out.h"
#include "fingerprint/align.h"

/* Write the limits as members of the innermost open object. */
void spsh__limits_put(spsh_json *json, const spsh__align_limits *limits);

#endif
