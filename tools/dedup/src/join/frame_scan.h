/* frame_scan.h: find clips of a small set in a large set by comparing every frame of both.
 *
 *     spsh__frame_scan_open(&scan, err);
 *     spsh__frame_scan_add(scan, print, words, count, err);      // each print of the small set
 *     spsh__frame_scan_ready(scan, NULL, err);
 *     spsh__frame_finder_new(scan, &finder, err);                // one per thread
 *     spsh__frame_finder_run(finder, &stretch, &candidates, &candidate_count, err);
 *
 * A key needs 0.7 s of audio around an onset, so a clip of one second shares few keys with its
 * source. Audits therefore compare every frame. The words of the small set are stored in a table in
 * memory, each in 110 variants: the likeliest ways to flip its weakest bits (1.4 KB per frame, at
 * most 310 MB per hour). Each active frame of the large set is looked up unchanged. One equal word
 * suffices if the frames around it agree as well. Further equal words at the same offset are votes.
 * Words that are too frequent in the small set carry no information and are ignored. A table may
 * hold only a part of the small set. Then the frequent words are counted first (word_counts.h), so
 * that the parts together find the same candidates as one table.
 *
 * The result depends on the added prints, not on their order or on the number of threads.
 */
#ifndef SPSH_DEDUP_FRAME_SCAN_H
#define SPSH_DEDUP_FRAME_SCAN_H

#include "key_join.h"
#include "word_counts.h"

enum { SPSH__SCAN_OVERLAP = 128 }; /* in frames */

typedef struct spsh__frame_scan spsh__frame_scan;
typedef struct spsh__frame_finder spsh__frame_finder;

spsh_status spsh__frame_scan_open(spsh__frame_scan **ret_scan, spsh_error *err);
/* Memory in bytes of the scan for frame_count active frames. */
uint64_t spsh__frame_scan_bytes(uint64_t frame_count);
/* Add a print, each print once, with its words in the order of the frames. SPSH_E_LIMIT for more
 * than 2^32 frames. */
spsh_status spsh__frame_scan_add(spsh__frame_scan *scan, uint64_t print,
                                 const spsh__weak_word *words, size_t count, spsh_error *err);
/* Finish the table after the last print. left_out: the frequent words of the whole small set,
 * borrowed; NULL if the table holds the whole set. */
spsh_status spsh__frame_scan_ready(spsh__frame_scan *scan, const spsh__frequent_words *left_out,
                                   spsh_error *err);
void spsh__frame_scan_free(spsh__frame_scan *scan);

/* Make a finder for one thread. scan is borrowed and must be ready. */
spsh_status spsh__frame_finder_new(const spsh__frame_scan *scan, spsh__frame_finder **ret_finder,
                                   spsh_error *err);

/* Frames of a print of the large set; first: the index of the first frame in the print. */
typedef struct spsh__frame_stretch {
    uint64_t print;
    uint64_t first;
    const spsh__print_frame *frames;
    size_t count;
} spsh__frame_stretch;

/* Find the candidates of a stretch, in ascending order of (b, offset). a is the print of the
 * stretch, b a print of the small set. *ret_candidates is borrowed until the next run. Let the
 * stretches of one print overlap by SPSH__SCAN_OVERLAP: then copies at their borders are found,
 * perhaps twice. */
spsh_status spsh__frame_finder_run(spsh__frame_finder *finder, const spsh__frame_stretch *stretch,
                                   const spsh__candidate **ret_candidates, size_t *ret_count,
                                   spsh_error *err);
void spsh__frame_finder_free(spsh__frame_finder *finder);

#endif
