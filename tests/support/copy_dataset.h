/* copy_dataset.h: datasets of any PCM in any lossless form, for tests of what finds copies.
 *
 *     copy_dataset *set = copy_dataset_open(path, 1);
 *     uint64_t record = copy_dataset_record(set, &(copy_audio){.codec = SPSH_CODEC_WAV, ...});
 *     copy_dataset_utterance(set, record, 0, samples, "train");
 *     copy_dataset_close(set, SPSH_DEDUPE_NONE);
 *
 * Utterance n, in the order in which they are added, has the id "u<n>". Every failure stops the
 * test.
 */
#ifndef COPY_DATASET_H
#define COPY_DATASET_H

#include "speechshard/publish.h"

typedef struct copy_audio {
    spsh_codec codec; /* WAV, FLAC, PCM */
    uint32_t bits;    /* 16; WAV: also 24 */
    uint32_t rate_hz, channels;
    const int16_t *pcm; /* interleaved */
    uint32_t samples;   /* per channel */
} copy_audio;

typedef struct copy_dataset copy_dataset;

/* path must not exist; tag makes its id and its place among others. */
copy_dataset *copy_dataset_open(const char *path, uint8_t tag);
/* All that follows goes into a new unit, between which equal records are found on closing. */
void copy_dataset_next_unit(copy_dataset *set);
/* Returns its number. */
uint64_t copy_dataset_record(copy_dataset *set, const copy_audio *audio);
void copy_dataset_utterance(copy_dataset *set, uint64_t record, uint64_t start, uint64_t samples,
                            const char *split);
/* A record with an utterance that is all of it, of split "train". */
void copy_dataset_add(copy_dataset *set, const copy_audio *audio);
/* Publishes and frees. */
void copy_dataset_close(copy_dataset *set, spsh_dedupe dedupe);

#endif
