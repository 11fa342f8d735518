/* exact.h: copies that need no listening: equal bytes, equal samples, equal stretches of samples.
 *
 *     spsh__exact_find(set, &options, sink, &groups, err);
 *     rep = spsh__exact_representative(groups, ordinal);
 *
 * Utterances with equal bytes or samples form groups; each member but the first is matched with the
 * first one, so 10^6 identical clips are 10^6 - 1 matches, and only the first goes on to the
 * acoustic tier. Digests of 128 bits decide; --confirm has each match read again and compared.
 */
#ifndef SPSH_DEDUP_EXACT_H
#define SPSH_DEDUP_EXACT_H

#include "match.h"
#include "print_set.h"

typedef struct spsh__exact_options {
    const spsh_io *io;
    const char *temporary_path;
    uint64_t memory_bytes;
    uint32_t threads;
    double min_active_s; /* shared chunks must last so long, 0.5 */
    double coverage_min; /* spsh__align_limits.coverage_min */
    bool confirm;        /* read both and compare */
    void (*progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);
    void *user;
} spsh__exact_options;

typedef struct spsh__exact_groups spsh__exact_groups;

/* Matches of tiers BYTES, PCM and CHUNKS, in no promised order (the caller sorts), each once; the
 * same whatever memory and threads. Utterances on no side take no part. In a set with both sides a
 * group may hold members of both; chunks are matched across sides only. Utterances that view
 * overlapping stretches of one stored record are matched by their places (tier BYTES). */
spsh_status spsh__exact_find(const spsh__print_set *set, const spsh__exact_options *options,
                             spsh__match_sink sink, spsh__exact_groups **ret_groups,
                             spsh_error *err);

/* The first member, of the same side, of the utterance's group of equal samples; itself if alone.
 * 4 or 8 bytes an utterance. */
uint64_t spsh__exact_representative(const spsh__exact_groups *groups, uint64_t ordinal);
void spsh__exact_groups_free(spsh__exact_groups *groups);

#endif
