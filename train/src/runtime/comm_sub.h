/* comm_sub.h: some ranks of a communicator as a separate communicator: every `stride`-th from
 * `first`.
 *
 *     8 ranks, nodes of 4:    node of 5: first 4, stride 1, count 4      leaders: first 0, stride 4
 *
 * The parent carries the messages under separate tags, so that both communicators may be used at
 * once.
 */
#ifndef SPSH_TRAIN_COMM_SUB_H
#define SPSH_TRAIN_COMM_SUB_H

#include "comm/comm.h"
#include "runtime.h"

typedef struct spsh__ranks {
    uint32_t first, stride, count;
} spsh__ranks;

/* Open a sub-communicator. tag_first: added to all tags; the ranges of several must not overlap.
 * The parent must outlive it. This rank must be a member. */
spsh_status spsh__comm_sub_open(spsh__comm *parent, const spsh__ranks *ranks, uint32_t tag_first,
                                spsh__comm **ret_comm, spsh_error *err);

/* Open a sub-runtime of the same ranks. It rejects messages of other ranks, and does not report
 * their loss. Its listeners are served through the parent. SPSH_E_NO_MEMORY. */
spsh_status spsh__runtime_sub_open(spsh__runtime *parent, const spsh__ranks *ranks,
                                   const spsh_allocator *allocator, spsh__runtime **ret_runtime,
                                   spsh_error *err);

/* Open a sub-communicator of the listed ranks, ascending. The list is copied. See sub_open; tags
 * are the parent's. */
spsh_status spsh__comm_list_open(spsh__comm *parent, const uint32_t *list, uint32_t count,
                                 spsh__comm **ret_comm, spsh_error *err);

#endif
