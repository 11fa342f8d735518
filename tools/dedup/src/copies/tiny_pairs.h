/* tiny_pairs.h: clips with less than half a second of active speech, which are too short for the
 * search and for the ordinary thresholds.
 *
 * Equal transcripts or equal names propose pairs of nearly equal length. The name of an utterance
 * is the last part of its id, without the extension. The judge decides with stricter thresholds:
 * the waveforms must agree with flattened spectra, over most of both clips. A proposed pair that it
 * can neither prove nor reject is too short to prove, and is only listed.
 */
#ifndef SPSH_DEDUP_TINY_PAIRS_H
#define SPSH_DEDUP_TINY_PAIRS_H

#include "fingerprint/align.h"
#include "records/call_watch.h"
#include "set/match.h"
#include "set/print_set.h"

#define SPSH__TINY_ACTIVE_S 0.5 /* clips with less active speech */

typedef struct spsh__tiny_options {
    const uint64_t *ordinals; /* ordinal_count utterances to compare; NULL: the whole set */
    uint64_t ordinal_count;
    const spsh__match_list *known; /* sorted by spsh__match_compare; these pairs are skipped */
    uint64_t memory_bytes;         /* limit for frames */
    spsh__call_watch *watch;       /* may be NULL */
} spsh__tiny_options;

/* Whether the judge sees some active speech, but less than the search needs. */
bool spsh__is_tiny(const spsh__segment_row *row);
/* Return the thresholds for these clips. */
spsh__align_limits spsh__tiny_limits(void);

/* Append proven pairs to ret_proven, and pairs that are too short to prove to ret_short. The kind
 * of the latter is NONE if they have too few frames to compare. Both are in ascending order of
 * (a, b). */
spsh_status spsh__tiny_pairs_find(const spsh__print_set *set, const spsh__tiny_options *options,
                                  spsh__match_list *ret_proven, spsh__match_list *ret_short,
                                  spsh_error *err);

#endif
