/* match.h: one stretch that two utterances share, and the evidence for it.
 *
 * Matches are the common format of duplicate detection. The exact, acoustic, and text tiers write
 * them; plans and audits read them. A pair of utterances may have several matches, e.g. a recording
 * that was cut differently, or the same jingle twice.
 */
#ifndef SPSH_DEDUP_MATCH_H
#define SPSH_DEDUP_MATCH_H

#include "fingerprint/align.h"

bool spsh__tier_may_drop(spsh_copy_tier tier);

/* A match is stored in work files as the SPSH__MATCH_BYTES that spsh__match_encode writes. Fields
 * that a tier does not measure are 0. */
typedef struct spsh__match {
    uint64_t a, b; /* ordinals of the utterances in the set (print_set.h), a < b */
    spsh_copy_tier tier;
    spsh_copy_class kind; /* NONE for the tiers of text and metadata */
    uint32_t rate_hz;     /* rate of a_first, b_first, count, and lag: the rate of both utterances,
                             or 8,000 */
    uint64_t a_first;     /* in samples */
    uint64_t b_first;
    uint64_t count;    /* samples of a; at another speed, b has count / scale samples */
    double lag;        /* position in b of a's sample 0, fractional */
    double coverage_a; /* share of a's active speech (exact tiers: of its samples; text: of
                          n-grams) */
    double coverage_b;
    uint32_t a_channel; /* 0: mix of all channels; else the channel, from 1 */
    uint32_t b_channel;
    uint32_t votes;   /* keys that agree at this offset */
    bool is_inverted; /* the polarity is inverted */
    double active_s, ber, words_hz, tonality;
    double ncc, ncc_white, envelope;
    double block_share, slope_ppm, spread_ms;
    double scale;      /* factor by which the speed of b was divided; 1: equal speed */
    double similarity; /* similarity of the texts: 1 - edit distance / length */
} spsh__match;

/* Return the match with a and b exchanged. */
spsh__match spsh__match_turned(const spsh__match *match);

enum { SPSH__MATCH_BYTES = 192 };
void spsh__match_encode(const spsh__match *match, uint8_t bytes[SPSH__MATCH_BYTES]);
/* SPSH_E_CORRUPT for an invalid tier, class, or number. */
spsh_status spsh__match_decode(const uint8_t bytes[SPSH__MATCH_BYTES], spsh__match *ret_match,
                               spsh_error *err);

/* Total order for qsort: by a, b, tier, a_first, b_first, then all other fields. */
int spsh__match_compare(const void *left, const void *right);

/* Return the strongest of the matches of one pair, which are sorted by spsh__match_compare; count
 * is at least 1. The strongest class wins, then the lowest tier. */
const spsh__match *spsh__match_strongest(const spsh__match *matches, uint64_t count);

/* Receives matches as they are found. Any result except SPSH_OK ends the search with that result.
 */
typedef struct spsh__match_sink {
    spsh_status (*match_fn)(void *user, const spsh__match *match, spsh_error *err);
    void *user;
} spsh__match_sink;

/* Matches in memory. Initialize with zeros. items is from malloc. */
typedef struct spsh__match_list {
    spsh__match *items;
    size_t count, capacity;
} spsh__match_list;

/* Append a match to a spsh__match_list. It is the match_fn of a sink. */
spsh_status spsh__match_list_add(void *list, const spsh__match *match, spsh_error *err);

#endif
