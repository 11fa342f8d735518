/* clusters.h: matches -> clusters of copies, which member is kept and why, which others may go.
 *
 *     spsh__clusters_make(set, matches, match_count, &policy, check, &clusters, err);
 *
 * Members are joined by matches that may drop something (tiers BYTES to ACOUSTIC, class
 * same_recording, or contained where the policy says so). But a member goes only if it is proven
 * against the one that is kept, not against a neighbour of a neighbour: what has no such match is
 * checked (check.pair_fn listens to the two), and stays if that fails.
 */
#ifndef SPSH_DEDUP_CLUSTERS_H
#define SPSH_DEDUP_CLUSTERS_H

#include "set/match.h"
#include "set/print_set.h"

typedef struct spsh__policy {
    spsh_dedupe_keep keep;
    spsh_dedupe_contained contained;
    size_t prefer[SPSH_DEDUPE_PREFER_MAX]; /* datasets of the set whose members are kept first, in
                                              order */
    size_t prefer_count;
    const char *drop_from; /* splits with commas: members of others never go; NULL: all may go */
    uint64_t
        boilerplate_min; /* a stretch shared by so many utterances is listed as boilerplate, 20 */
} spsh__policy;

typedef struct spsh__member {
    uint64_t ordinal;
    spsh_copy_decision decision;
    uint64_t match;  /* its proof, a number in matches (or checked): with the kept one, or with one
                        whose samples equal those of the kept one; SPSH_NONE_U64 for the kept one,
                        and where there is none */
    char reason[64]; /* why it is kept or not, for people: "lossless", "lower bandwidth" */
} spsh__member;

/* A stretch that many utterances share (a jingle, a disclaimer). */
typedef struct spsh__boilerplate {
    uint64_t ordinal; /* one of them, and where in it */
    double start_s, seconds;
    uint64_t utterance_count; /* copies of one recording count once */
} spsh__boilerplate;

typedef struct spsh__clusters {
    spsh_copy_cluster *clusters; /* by their kept member's ordinal */
    uint64_t cluster_count;
    spsh__member *members;
    uint64_t member_count;
    spsh__match *checked; /* matches that the check added; numbers go on after the given ones */
    uint64_t checked_count;
    spsh__boilerplate *boilerplate; /* most utterances first */
    size_t boilerplate_count;
} spsh__clusters;

/* Listens to two utterances and sends their matches to sink. pair_fn NULL: nothing is checked. */
typedef struct spsh__pair_check {
    spsh_status (*pair_fn)(void *user, uint64_t a, uint64_t b, spsh__match_sink sink,
                           spsh_error *err);
    void *user;
} spsh__pair_check;

/* matches: sorted by spsh__match_compare. Memory: about 120 bytes a match and 400 an utterance that
 * has one. Free with spsh__clusters_free. */
spsh_status spsh__clusters_make(const spsh__print_set *set, const spsh__match *matches,
                                uint64_t match_count, const spsh__policy *policy,
                                spsh__pair_check check, spsh__clusters *ret_clusters,
                                spsh_error *err);
void spsh__clusters_free(spsh__clusters *clusters);

/* ---- the same over facts from elsewhere ---- */

/* What policies ask of an utterance. */
typedef struct spsh__copy_quality {
    uint64_t ordinal;
    size_t dataset;
    double seconds;
    double sound_seconds; /* without the zeros around it: what counts as longer */
    uint64_t bytes;
    bool is_lossless, has_text;
    bool is_protected; /* policy.drop_from does not name its split */
    uint32_t bandwidth_hz, payload_bps, clipped_count;
    uint64_t text_hash; /* of the normalised transcript; 0: none */
} spsh__copy_quality;

typedef struct spsh__copy_stretch {
    double first_s, seconds;
} spsh__copy_stretch;

typedef struct spsh__quality_source {
    spsh_status (*quality_fn)(void *user, uint64_t ordinal, spsh__copy_quality *ret_quality,
                              spsh_error *err);
    /* Share of the utterance's active speech that lies in the stretches, in the order of their
     * beginnings. */
    spsh_status (*covered_fn)(void *user, uint64_t ordinal, const spsh__copy_stretch *stretches,
                              size_t count, double *ret_share, spsh_error *err);
    void *user;
} spsh__quality_source;

spsh_status spsh__clusters_of(const spsh__quality_source *source, const spsh__match *matches,
                              uint64_t match_count, const spsh__policy *policy,
                              spsh__pair_check check, spsh__clusters *ret_clusters,
                              spsh_error *err);

#endif
