/* quota.h: choose the next domain, so that the served units of each domain stay within one
 * utterance of its share. */
#ifndef SPSH_QUOTA_H
#define SPSH_QUOTA_H

#include "plan_internal.h"

typedef struct spsh__share {
    uint64_t weight; /* 0: not served */
    uint64_t served;
    uint64_t length; /* units of the next utterance, > 0 */
    double inverse;  /* 1 / weight */
} spsh__share;

/* A node of a tournament tree: a copy of the smaller of its two children. */
typedef struct spsh__quota_match {
    uint64_t key; /* the bits of a nonnegative double, which compare like the double */
    uint32_t domain;
} spsh__quota_match;

typedef struct spsh__quota {
    spsh__share *shares;
    /* Trees of 2 * leaf_count nodes; leaf_count + d is the leaf of domain d. */
    spsh__quota_match *eligible; /* key: (served + length) / weight */
    spsh__quota_match *waiting;  /* key: served / weight */
    uint32_t leaf_count;         /* a power of two */
    uint64_t weight_sum;
    uint64_t served;
} spsh__quota;

spsh_status spsh__quota_open(spsh__quota *quota, uint32_t count, const spsh_allocator *allocator,
                             spsh_error *err);
void spsh__quota_close(spsh__quota *quota, const spsh_allocator *allocator);

/* Remove all domains. */
void spsh__quota_clear(spsh__quota *quota, uint64_t weight_sum);
/* Add a domain. served: its units served so far. length 0: it has no utterance left. */
void spsh__quota_add(spsh__quota *quota, uint32_t domain, uint64_t weight, uint64_t served,
                     uint64_t length);

/* Return the domain to serve next; SPSH_NONE_U32: no domain has an utterance left. */
uint32_t spsh__quota_pick(spsh__quota *quota);
/* Record that the picked domain was served. next_length 0: it has no utterance left. */
void spsh__quota_serve(spsh__quota *quota, uint32_t domain, uint64_t next_length);

#endif
