/* text_near.h: find texts of the test side that differ from a text by few characters.
 *
 *     near = spsh__text_near_new(profile)
 *     spsh__text_near_add(near, number, text, err);        numbers ascending, normalized texts
 *     spsh__text_near_finish(near, err);
 *     probe = spsh__near_probe_new(near)                   one per thread
 *     spsh__near_probe_text(probe, text, &found, &crowded)
 *
 * Candidates share one of 32 MinHash bands of their character 5-grams. A match is a candidate whose
 * edit distance in code points is at most 15 % of the longer text. Profile cjk ignores blanks here.
 * Texts below 5 or above 2,000 code points never match. If a train text has more than 1,000
 * candidates (a form letter), only the first 1,000 are measured.
 */
#ifndef SPSH_DEDUP_TEXT_NEAR_H
#define SPSH_DEDUP_TEXT_NEAR_H

#include "text_profile.h"

enum { SPSH__NEAR_POINTS_MAX = 2000, SPSH__NEAR_CANDIDATES_MAX = 1000 };
#define SPSH__NEAR_DISTANCE 0.15

typedef struct spsh__text_near spsh__text_near;
typedef struct spsh__near_probe spsh__near_probe;

spsh__text_near *spsh__text_near_new(spsh_text_profile profile);
/* Add a text. Returns SPSH_E_NO_MEMORY, or SPSH_E_LIMIT after 2^27 texts. */
spsh_status spsh__text_near_add(spsh__text_near *near, uint32_t number, spsh_bytes text,
                                spsh_error *err);
spsh_status spsh__text_near_finish(spsh__text_near *near, spsh_error *err);
void spsh__text_near_free(spsh__text_near *near);
uint64_t spsh__text_near_bytes(const spsh__text_near *near);

spsh__near_probe *spsh__near_probe_new(const spsh__text_near *near);
void spsh__near_probe_free(spsh__near_probe *probe);

typedef struct spsh__near_text {
    uint32_t number;
    double similarity; /* 1 - distance / length of the longer text; 1: equal */
} spsh__near_text;

/* Find near texts. Returns their count. *ret_texts ascends by number and is borrowed until the next
 * call. *ret_crowded: some candidates were not measured. Probes of one index may run at the same
 * time. */
size_t spsh__near_probe_text(spsh__near_probe *probe, spsh_bytes text,
                             const spsh__near_text **ret_texts, bool *ret_crowded);

#endif
