/* candidate_groups.h: the order in which candidates are judged. */
#ifndef SPSH_DEDUP_CANDIDATE_GROUPS_H
#define SPSH_DEDUP_CANDIDATE_GROUPS_H

#include "join/key_join.h"

/* Reorder candidates so that those whose prints are connected, such as all copies of a recording,
 * are adjacent. A worker of the judge then decodes each print once. Candidates of one group keep
 * their order. The new order depends only on the candidates. SPSH_OK or SPSH_E_NO_MEMORY. */
spsh_status spsh__candidate_groups_sort(spsh__candidate *candidates, size_t count, spsh_error *err);

#endif
