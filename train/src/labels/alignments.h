/* alignments.h: the state of each frame of utterances, as Kaldi's ali-to-pdf writes them as text.
 *
 *     ali-to-pdf final.mdl ark:ali ark,t:- | gzip > ali.1.gz         utterance-id 12 12 12 5 5 ...
 *
 *     rc = spsh__alignments_read(config->alignments, &alignments, &err);
 *     if (spsh__alignments_find(alignments, id, &number))
 *         ... spsh__alignments_states(alignments, number, frames, frames, states) ...
 *     spsh__alignments_free(alignments);
 *
 * A line an utterance: its id, then a number a frame, blanks between. Files are plain, or
 * compressed with gzip, bzip2, xz, lz4 or zstd. All is kept in memory: runs of equal states take 4
 * bytes each (of triphones at 10 ms about 1.4 bytes a frame, half a GB for 960 hours), an utterance
 * about 50 and its id.
 */
#ifndef SPSH_TRAIN_ALIGNMENTS_H
#define SPSH_TRAIN_ALIGNMENTS_H

#include <stdbool.h>

#include "speechshard/dataset.h"

#define SPSH__ALIGNMENT_STATES_MAX (UINT32_C(1) << 22)
/* An alignment may have so many frames more or less than the features: edges are cut in several
 * ways. */
#define SPSH__ALIGNMENT_FRAMES_OFF_MAX UINT32_C(3)

typedef struct spsh__alignments spsh__alignments;

/* paths: NULL behind the last. @return SPSH_OK; SPSH_E_SYNTAX with file and line (a number that is
 * none, an utterance that was there before, bytes that are no text); SPSH_E_NOT_FOUND, _IO,
 * _CORRUPT, _LIMIT, _NO_MEMORY */
spsh_status spsh__alignments_read(const char *const *paths, spsh__alignments **ret,
                                  spsh_error *err);
void spsh__alignments_free(spsh__alignments *a); /* NULL is fine */

uint32_t spsh__alignments_count(const spsh__alignments *a);       /* utterances */
uint64_t spsh__alignments_frame_count(const spsh__alignments *a); /* of all */
uint32_t spsh__alignments_greatest(const spsh__alignments *a);    /* state of all */
uint64_t spsh__alignments_bytes(const spsh__alignments *a);       /* of memory */
/* Borrowed until free. */
spsh_bytes spsh__alignments_id(const spsh__alignments *a, uint32_t number);

/* The utterance's number, 0 ... count - 1; false: there is none. Any thread. */
bool spsh__alignments_find(const spsh__alignments *a, spsh_bytes id, uint32_t *ret_number);

/* By XXH3-64 of an id, as dataset indexes have it (SPSH_COLUMN_ID_HASH). Any thread. */
bool spsh__alignments_find_hash(const spsh__alignments *a, uint64_t id_hash, uint32_t *ret_number);

/*
 * The states of an utterance's frames, as its features have them.
 *
 * @param plain_frames  how many there are without a change of speed
 * @param frames        ... with it: each gets the state of where it was before
 * @param states        written: frames of them
 * @return false, and nothing is written: the alignment's length differs from plain_frames by more
 * than SPSH__ALIGNMENT_FRAMES_OFF_MAX. A smaller difference is shared by both ends: what is too
 * much is cut there, what is missing repeats the first and the last state. Any thread.
 */
bool spsh__alignments_states(const spsh__alignments *a, uint32_t number, uint32_t plain_frames,
                             uint32_t frames, uint32_t *states);

#endif
