/* comm_sub.h: some ranks of a communication, as one of their own: every `stride`-th from `first`.
 *
 *     8 ranks, nodes of 4:    node of 5: first 4, stride 1, count 4      leaders: first 0, stride 4
 *
 * Messages are the parent's, with tags of their own, so that both may be used side by side.
 */
#ifndef SPSH_TRAIN_COMM_SUB_H
#define SPSH_TRAIN_COMM_SUB_H

#include "comm/comm.h"
#include "runtime.h"

typedef struct spsh__ranks {
    uint32_t first, stride, count;
} spsh__ranks;

/* tag_first: added to all tags; ranges of several must not meet. The parent must outlive it. This
 * rank must be one of them. */
spsh_status spsh__comm_sub_open(spsh__comm *parent, const spsh__ranks *ranks, uint32_t tag_first,
                                spsh__comm **ret_comm, spsh_error *err);

/* The same of a runtime: messages of other ranks are not known, and nobody hears of their loss. Who
 * listens, listens to what is returned, which is served through the parent. SPSH_E_NO_MEMORY. */
spsh_status spsh__runtime_sub_open(spsh__runtime *parent, const spsh__ranks *ranks,
                                   const spsh_allocator *allocator, spsh__runtime **ret_runtime,
                                   spsh_error *err);

/* Of a list, ascending, which is copied: as sub_open, with the parent's tags. */
spsh_status spsh__comm_list_open(spsh__comm *parent, const uint32_t *list, uint32_t count,
                                 spsh__comm **ret_comm, spsh_error *err);

#endif
