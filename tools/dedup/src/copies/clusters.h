/* clusters.h: turn matches into clusters of copies, and decide which members are kept.
 *
 *     spsh__clusters_make(set, matches, match_count, &policy, check, &clusters, err);
 *
 * Matches that allow a drop join members: tiers BYTES to ACOUSTIC, class same_recording, or
 * contained if the policy allows it. A member is dropped only if a match proves it against the kept
 * member itself, not only against another member. If there is no such match, check.pair_fn compares
 * the two utterances. The member stays if this check fails.
 */
#ifndef SPSH_DEDUP_CLUSTERS_H
#define SPSH_DEDUP_CLUSTERS_H

#include "set/match.h"
#include "set/print_set.h"

typedef struct spsh__policy {
    spsh_dedupe_keep keep;
    spsh_dedupe_contained contained;
    size_t prefer[SPSH_DEDUPE_PREFER_MAX]; /* datasets to keep members from, as numbers of the set,
                                              most preferred first */
    size_t prefer_count;
    const char *drop_from; /* comma-separated splits; members of other splits are never dropped;
                              NULL: any member may be dropped */
    uint64_t
        boilerplate_min; /* minimum number of recordings that share a stretch listed as boilerplate;
                            dedupe passes 20 */
} spsh__policy;

typedef struct spsh__member {
    uint64_t ordinal;
    spsh_copy_decision decision;
    uint64_t match;  /* Index of the proving match in matches, or in checked after match_count. The
                        match is with the kept member or with an utterance whose samples equal those
                        of the kept member. SPSH_NONE_U64 for the kept member, and if there is no
                        proof. */
    char reason[64]; /* reason in words for the user: "lossless", "lower bandwidth" */
} spsh__member;

/* A stretch that many utterances share (a jingle, a disclaimer). */
typedef struct spsh__boilerplate {
    uint64_t ordinal; /* an utterance that contains the stretch; start_s is the position in it */
    double start_s, seconds;
    uint64_t utterance_count; /* number of distinct recordings: copies of one recording count
                                 once */
} spsh__boilerplate;

typedef struct spsh__clusters {
    spsh_copy_cluster *clusters; /* in order of the kept member's ordinal */
    uint64_t cluster_count;
    spsh__member *members;
    uint64_t member_count;
    spsh__match *checked; /* matches found by the pair check; their indices start at match_count */
    uint64_t checked_count;
    spsh__boilerplate *boilerplate; /* in descending order of utterance_count */
    size_t boilerplate_count;
} spsh__clusters;

/* Compare two utterances and send their matches to sink. If pair_fn is NULL, nothing is checked. */
typedef struct spsh__pair_check {
    spsh_status (*pair_fn)(void *user, uint64_t a, uint64_t b, spsh__match_sink sink,
                           spsh_error *err);
    void *user;
} spsh__pair_check;

/* Make the clusters. matches must be sorted by spsh__match_compare. Memory: about 120 bytes per
 * match and 400 bytes per utterance with a match. Free the result with spsh__clusters_free. */
spsh_status spsh__clusters_make(const spsh__print_set *set, const spsh__match *matches,
                                uint64_t match_count, const spsh__policy *policy,
                                spsh__pair_check check, spsh__clusters *ret_clusters,
                                spsh_error *err);
void spsh__clusters_free(spsh__clusters *clusters);

/* ---- clusters with utterance properties from another source ---- */

/* Properties of an utterance that a policy ranks. */
typedef struct spsh__copy_quality {
    uint64_t ordinal;
    size_t dataset;
    double seconds;
    double sound_seconds; /* duration without leading and trailing zeros; decides which utterance is
                             longer */
    uint64_t bytes;
    bool is_lossless, has_text;
    bool is_protected; /* policy.drop_from is set and does not name the utterance's split */
    uint32_t bandwidth_hz, payload_bps, clipped_count;
    uint64_t text_hash; /* hash of the normalized transcript; 0: no transcript */
} spsh__copy_quality;

typedef struct spsh__copy_stretch {
    double first_s, seconds;
} spsh__copy_stretch;

typedef struct spsh__quality_source {
    spsh_status (*quality_fn)(void *user, uint64_t ordinal, spsh__copy_quality *ret_quality,
                              spsh_error *err);
    /* Compute the share of the utterance's active speech that the stretches cover. The stretches
     * are in order of first_s. */
    spsh_status (*covered_fn)(void *user, uint64_t ordinal, const spsh__copy_stretch *stretches,
                              size_t count, double *ret_share, spsh_error *err);
    void *user;
} spsh__quality_source;

spsh_status spsh__clusters_of(const spsh__quality_source *source, const spsh__match *matches,
                              uint64_t match_count, const spsh__policy *policy,
                              spsh__pair_check check, spsh__clusters *ret_clusters,
                              spsh_error *err);

#endif
