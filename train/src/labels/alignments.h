/* alignments.h: the state of each frame of utterances, in the text format of Kaldi's ali-to-pdf.
 *
 *     ali-to-pdf final.mdl ark:ali ark,t:- | gzip > ali.1.gz         utterance-id 12 12 12 5 5 ...
 *
 *     rc = spsh__alignments_read(config->alignments, &alignments, &err);
 *     if (spsh__alignments_find(alignments, id, &number))
 *         ... spsh__alignments_states(alignments, number, frames, frames, states) ...
 *     spsh__alignments_free(alignments);
 *
 * One line per utterance: its id, then one number per frame, separated by blanks. Files are plain,
 * or compressed with gzip, bzip2, xz, lz4 or zstd. All alignments stay in memory. A run of equal
 * states takes 4 bytes (about 1.4 bytes per frame for triphones at 10 ms, half a GB for 960 hours).
 * An utterance takes about 50 bytes and its id.
 */
#ifndef SPSH_TRAIN_ALIGNMENTS_H
#define SPSH_TRAIN_ALIGNMENTS_H

#include <stdbool.h>

#include "speechshard/dataset.h"

#define SPSH__ALIGNMENT_STATES_MAX (UINT32_C(1) << 22)
/* Maximum difference in frames between an alignment and the features: tools cut edges in several
 * ways. */
#define SPSH__ALIGNMENT_FRAMES_OFF_MAX UINT32_C(3)

typedef struct spsh__alignments spsh__alignments;

/* paths: NULL-terminated. @return SPSH_OK; SPSH_E_SYNTAX with file and line (a malformed number, a
 * repeated utterance, bytes that are not text); SPSH_E_NOT_FOUND, _IO, _CORRUPT, _LIMIT, _NO_MEMORY
 */
spsh_status spsh__alignments_read(const char *const *paths, spsh__alignments **ret,
                                  spsh_error *err);
void spsh__alignments_free(spsh__alignments *a); /* NULL is fine */

uint32_t spsh__alignments_count(const spsh__alignments *a);       /* utterances */
uint64_t spsh__alignments_frame_count(const spsh__alignments *a); /* total */
uint32_t spsh__alignments_greatest(const spsh__alignments *a);    /* largest state */
uint64_t spsh__alignments_bytes(const spsh__alignments *a);       /* size in memory */
/* Borrowed until free. */
spsh_bytes spsh__alignments_id(const spsh__alignments *a, uint32_t number);

/* Find the utterance's number, 0 ... count - 1. false: unknown id. Any thread. */
bool spsh__alignments_find(const spsh__alignments *a, spsh_bytes id, uint32_t *ret_number);

/* Find an utterance by the XXH3-64 of its id, as in dataset indexes (SPSH_COLUMN_ID_HASH). Any
 * thread. */
bool spsh__alignments_find_hash(const spsh__alignments *a, uint64_t id_hash, uint32_t *ret_number);

/* Get the states of an utterance's frames, matched to its features.
 *
 * @param plain_frames  frame count without a change of speed
 * @param frames        ... with the change: each frame gets the state of its original position
 * @param states        written: `frames` states
 * @return false, and nothing is written, if the alignment's length differs from plain_frames by
 * more than SPSH__ALIGNMENT_FRAMES_OFF_MAX. A smaller difference is split between both ends:
 * surplus states are cut, and missing ones repeat the first and the last state. Any thread.
 */
bool spsh__alignments_states(const spsh__alignments *a, uint32_t number, uint32_t plain_frames,
                             uint32_t frames, uint32_t *states);

#endif
