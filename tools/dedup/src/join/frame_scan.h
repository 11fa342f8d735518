/* frame_scan.h: where clips of a small set occur in a large one, by every frame of both.
 *
 *     spsh__frame_scan_open(&scan, err);
 *     spsh__frame_scan_add(scan, print, words, count, err);      // each print of the small set
 *     spsh__frame_scan_ready(scan, NULL, err);
 *     spsh__frame_finder_new(scan, &finder, err);                // one a thread
 *     spsh__frame_finder_run(finder, &stretch, &candidates, &candidate_count, err);
 *
 * Keys need 0.7 s around an onset: of a clip of a second, few keys of its source are left. So
 * audits look at every frame: the words of the small set, each with its weakest bits turned over in
 * the 110 likeliest ways, are a table in memory (1.4 KB a frame: an hour is 310 MB at most), and
 * each active frame of the large set is looked up as it is. One word is enough if the frames around
 * it agree as well; further ones at its offset are votes. Words that the small set has all too
 * often say nothing and are left out. A table may hold a part of the small set only: then those are
 * counted before (word_counts.h), so that parts find together what the whole would.
 *
 * The result depends on what was added, not on its order or on threads.
 */
#ifndef SPSH_DEDUP_FRAME_SCAN_H
#define SPSH_DEDUP_FRAME_SCAN_H

#include "key_join.h"
#include "word_counts.h"

enum { SPSH__SCAN_OVERLAP = 128 }; /* frames */

typedef struct spsh__frame_scan spsh__frame_scan;
typedef struct spsh__frame_finder spsh__frame_finder;

spsh_status spsh__frame_scan_open(spsh__frame_scan **ret_scan, spsh_error *err);
/* Memory for so many active frames. */
uint64_t spsh__frame_scan_bytes(uint64_t frame_count);
/* Each print once; its words in the order of frames. SPSH_E_LIMIT for more than 2^32 frames. */
spsh_status spsh__frame_scan_add(spsh__frame_scan *scan, uint64_t print,
                                 const spsh__weak_word *words, size_t count, spsh_error *err);
/* No more is added. left_out: the frequent words of all that is looked for, borrowed; NULL when
 * that is what was added. */
spsh_status spsh__frame_scan_ready(spsh__frame_scan *scan, const spsh__frequent_words *left_out,
                                   spsh_error *err);
void spsh__frame_scan_free(spsh__frame_scan *scan);

/* scan: borrowed, ready. */
spsh_status spsh__frame_finder_new(const spsh__frame_scan *scan, spsh__frame_finder **ret_finder,
                                   spsh_error *err);

/* Frames of a print of the large set, and where they begin in it. */
typedef struct spsh__frame_stretch {
    uint64_t print;
    uint64_t first;
    const spsh__print_frame *frames;
    size_t count;
} spsh__frame_stretch;

/* *ret_candidates: borrowed until the next run; a is the stretch's print, b of the small set;
 * ascending (b, offset). Stretches of one print overlap by SPSH__SCAN_OVERLAP, so that what lies on
 * their border is found, perhaps twice. */
spsh_status spsh__frame_finder_run(spsh__frame_finder *finder, const spsh__frame_stretch *stretch,
                                   const spsh__candidate **ret_candidates, size_t *ret_count,
                                   spsh_error *err);
void spsh__frame_finder_free(spsh__frame_finder *finder);

#endif
