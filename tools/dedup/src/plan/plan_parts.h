/* plan_parts.h: dropped audio by dataset, domain, split, and language.
 *
 *     spsh__plan_parts_open(set, &parts, err);
 *     for each dropped utterance: spsh__plan_parts_add(parts, ordinal, seconds);
 *     spsh__plan_parts_draw(parts, out);
 *     spsh__plan_parts_free(parts);
 */
#ifndef SPSH_DEDUP_PLAN_PARTS_H
#define SPSH_DEDUP_PLAN_PARTS_H

#include "common/byte_builder.h"
#include "set/print_set.h"

typedef struct spsh__plan_parts spsh__plan_parts;

spsh_status spsh__plan_parts_open(const spsh__print_set *set, spsh__plan_parts **ret_parts,
                                  spsh_error *err);
void spsh__plan_parts_add(spsh__plan_parts *parts, uint64_t ordinal, double seconds);
/* Write the section of the page. Writes nothing if no utterance is dropped. */
spsh_status spsh__plan_parts_draw(const spsh__plan_parts *parts, spsh__builder *out,
                                  spsh_error *err);
void spsh__plan_parts_free(spsh__plan_parts *parts);

#endif
