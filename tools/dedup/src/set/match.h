/* match.h: one stretch that two utterances have in common, and the evidence.
 *
 * All of detection speaks in matches: the exact tiers, the acoustic one and those of text write
 * them, plans and audits read them. A pair of utterances may have several: a recording that was cut
 * elsewhere, or the same jingle twice.
 */
#ifndef SPSH_DEDUP_MATCH_H
#define SPSH_DEDUP_MATCH_H

#include "fingerprint/align.h"

bool spsh__tier_may_drop(spsh_copy_tier tier);

/* Fixed size, no padding that counts, written to work files as the bytes that match.c makes. What a
 * tier does not measure is 0. */
typedef struct spsh__match {
    uint64_t a, b; /* utterances by their ordinals in the set (print_set.h), a < b */
    spsh_copy_tier tier;
    spsh_copy_class kind; /* NONE for tiers of text and metadata */
    uint32_t rate_hz;     /* of the three below: both utterances' own rate, or 8,000 */
    uint64_t a_first;     /* samples */
    uint64_t b_first;
    uint64_t count;    /* of a; of b at another speed as many less or more as scale says */
    double lag;        /* b's sample for a's sample 0, fractional */
    double coverage_a; /* of a's active speech (exact tiers: of its samples; text: of n-grams) */
    double coverage_b;
    uint32_t a_channel; /* 0: the mix of all; else the channel, from 1 */
    uint32_t b_channel;
    uint32_t votes;   /* keys that pointed to this offset */
    bool is_inverted; /* polarity */
    double active_s, ber, words_hz, tonality;
    double ncc, ncc_white, envelope;
    double block_share, slope_ppm, spread_ms;
    double scale;      /* b's speed was divided by it; 1: as it is */
    double similarity; /* of texts: 1 - edit distance / length */
} spsh__match;

/* The same with a and b exchanged. */
spsh__match spsh__match_turned(const spsh__match *match);

enum { SPSH__MATCH_BYTES = 192 };
void spsh__match_encode(const spsh__match *match, uint8_t bytes[SPSH__MATCH_BYTES]);
/* SPSH_E_CORRUPT for a tier, class or number that cannot be. */
spsh_status spsh__match_decode(const uint8_t bytes[SPSH__MATCH_BYTES], spsh__match *ret_match,
                               spsh_error *err);

/* By a, b, tier, a_first, b_first, then everything else: a total order, for qsort. */
int spsh__match_compare(const void *left, const void *right);

/* Of a pair's matches in that order, one or more: of the class that says most, of the lowest tier
 * among equals. */
const spsh__match *spsh__match_strongest(const spsh__match *matches, uint64_t count);

/* Takes matches as they are found; anything but SPSH_OK ends the search with that. */
typedef struct spsh__match_sink {
    spsh_status (*match_fn)(void *user, const spsh__match *match, spsh_error *err);
    void *user;
} spsh__match_sink;

#endif
