/* exact.h: copies that need no listening: equal bytes, equal samples, equal stretches of samples.
 *
 *     spsh__exact_find(set, &options, sink, &groups, err);
 *     rep = spsh__exact_representative(groups, ordinal);
 *
 * Utterances with equal bytes or samples form groups; each member but the first is matched with the
 * first one, so 10^6 identical clips are 10^6 - 1 matches, and only the first goes on to the
 * acoustic tier. Digests of 128 bits decide; --confirm has each match read again and compared.
 *
 * With both sides in a set there is a star on each side, around its first member, and each test
 * member is matched with the first train member as well: so an audit sees for each test utterance a
 * train partner, and the number of matches stays below twice the members.
 *
 * What matches say: lag and places at the utterances' own rate; coverage of samples, without the
 * zeros at the recording's ends; active_s by the prints; votes of CHUNKS: its chunks. Equal samples
 * are SAME_RECORDING with coverage 1 and 1, whatever zeros surround them (then the stretch is
 * without those), and one channel equals two that are equal. Digital silence is no copy of anything
 * that is said: equal silent files, and equal bytes that do not decode, are matches of class NONE
 * with coverage 0. Sound of less than 0.1 s is compared with all the zeros around it.
 */
#ifndef SPSH_DEDUP_EXACT_H
#define SPSH_DEDUP_EXACT_H

#include "records/call_watch.h"
#include "set/match.h"
#include "set/print_set.h"

typedef struct spsh__exact_options {
    const spsh_io *io;
    const char *temporary_path;
    uint64_t memory_bytes;
    uint32_t threads;
    double min_active_s; /* a shared stretch must last so long, unless it covers a recording, 0.5 */
    double coverage_min; /* spsh__align_limits.coverage_min */
    bool confirm;        /* read both and compare */
    bool groups_only;    /* no stretches: for who has the matches, and wants the groups again */
    spsh__call_watch *watch; /* may be NULL */
} spsh__exact_options;

typedef struct spsh__exact_groups spsh__exact_groups;

/* Matches of tiers BYTES, PCM and CHUNKS, in no promised order (the caller sorts), each once; the
 * same whatever memory and threads. Utterances on no side take no part. In a set with both sides a
 * group may hold members of both; chunks are matched across sides only. Utterances that view
 * overlapping stretches of one stored record are matched by their places (tier BYTES). */
spsh_status spsh__exact_find(const spsh__print_set *set, const spsh__exact_options *options,
                             spsh__match_sink sink, spsh__exact_groups **ret_groups,
                             spsh_error *err);

/* The first member, of the same side, of the utterance's group of equal samples; itself if alone,
 * on no side, or if --confirm found its samples to differ. 4 or 8 bytes an utterance; twice that
 * while groups of both sides are made. */
uint64_t spsh__exact_representative(const spsh__exact_groups *groups, uint64_t ordinal);
void spsh__exact_groups_free(spsh__exact_groups *groups);

#endif
