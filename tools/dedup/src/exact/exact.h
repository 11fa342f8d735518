/* exact.h: find copies without comparing fingerprints: equal bytes, samples, or stretches of
 * samples.
 *
 *     spsh__exact_find(set, &options, sink, &groups, err);
 *     rep = spsh__exact_representative(groups, ordinal);
 *
 * Utterances with equal bytes or samples form groups. Each member except the first is matched with
 * the first. So 10^6 identical clips give 10^6 - 1 matches, and only the first clip reaches the
 * acoustic tier. 128-bit digests decide. With --confirm, the samples of each match are read again
 * and compared.
 *
 * If a set has both sides, each side of a group is a star around its first member on that side.
 * Each test member is also matched with the first train member. So an audit sees a train partner
 * for each test utterance, and the number of matches stays below twice the number of members.
 *
 * Fields of the matches: lag and sample positions are at the sample rate of the utterances.
 * Coverage counts samples, without the zeros at the ends of the recording. active_s is computed
 * from the fingerprints. votes of a CHUNKS match is its number of chunks.
 *
 * Recordings with equal samples are SAME_RECORDING with coverage 1 and 1, whatever zeros surround
 * the sound. If those zeros differ, the stretch excludes them. A recording with one channel equals
 * one with several identical channels. Digital silence is not a copy of speech: equal silent files,
 * and equal bytes that cannot be decoded, are matches of class NONE with coverage 0. Sound shorter
 * than 0.1 s is compared together with all the zeros around it.
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
    double min_active_s; /* minimum active duration of a shared stretch, unless it covers a
                            recording, e.g. 0.5 */
    double coverage_min; /* as spsh__align_limits.coverage_min */
    bool confirm;        /* read and compare the samples of each match */
    bool groups_only;    /* skip the search for stretches; for callers that already have the matches
                            and need only the groups */
    spsh__call_watch *watch; /* may be NULL */
} spsh__exact_options;

typedef struct spsh__exact_groups spsh__exact_groups;

/* Find matches of the tiers BYTES, PCM and CHUNKS. Each match is emitted once, in unspecified
 * order; the caller sorts them. The result does not depend on memory and threads. Utterances
 * without a side are skipped. In a set with both sides, a group may contain members of both, and
 * chunks are matched across sides only. Utterances that view overlapping stretches of one stored
 * record are matched by their sample ranges (tier BYTES). */
spsh_status spsh__exact_find(const spsh__print_set *set, const spsh__exact_options *options,
                             spsh__match_sink sink, spsh__exact_groups **ret_groups,
                             spsh_error *err);

/* Return the first member, on the same side, of the group of equal samples that contains the
 * utterance. Returns the utterance itself if it is alone, has no side, or if --confirm found
 * different samples. Memory of the groups: 4 or 8 bytes per utterance, and twice that while groups
 * with both sides are built. */
uint64_t spsh__exact_representative(const spsh__exact_groups *groups, uint64_t ordinal);
void spsh__exact_groups_free(spsh__exact_groups *groups);

#endif
