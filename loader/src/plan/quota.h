/* quota.h: which domain is next, so that each gets its share of the units served, within one
 * utterance. */
#ifndef SPSH_QUOTA_H
#define SPSH_QUOTA_H

#include "plan_internal.h"

typedef struct spsh__share {
    uint64_t weight; /* 0: not served */
    uint64_t served;
    uint64_t length; /* units of the utterance that is next, > 0 */
    double inverse;  /* 1 / weight */
} spsh__share;

/* Of a tournament: the lesser of its two children. */
typedef struct spsh__quota_match {
    uint64_t key; /* the bits of a double, which ascend as it does */
    uint32_t domain;
} spsh__quota_match;

typedef struct spsh__quota {
    spsh__share *shares;
    spsh__quota_match
        *eligible; /* by (served + length) / weight; leaf of domain d: leaf_count + d */
    spsh__quota_match *waiting; /* by served / weight */
    uint32_t leaf_count;        /* a power of two */
    uint64_t weight_sum;
    uint64_t served;
} spsh__quota;

spsh_status spsh__quota_open(spsh__quota *quota, uint32_t count, const spsh_allocator *allocator,
                             spsh_error *err);
void spsh__quota_close(spsh__quota *quota, const spsh_allocator *allocator);

/* Forget everything. */
void spsh__quota_clear(spsh__quota *quota, uint64_t weight_sum);
/* A domain with what it has been served; length 0: it has nothing (left) to serve. */
void spsh__quota_add(spsh__quota *quota, uint32_t domain, uint64_t weight, uint64_t served,
                     uint64_t length);

/* The domain to serve next; SPSH_NONE_U32: none has anything left. */
uint32_t spsh__quota_pick(spsh__quota *quota);
/* The domain that was picked has been served; next_length 0: it has nothing left. */
void spsh__quota_serve(spsh__quota *quota, uint32_t domain, uint64_t next_length);

#endif
