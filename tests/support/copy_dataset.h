/* copy_dataset.h: datasets of given samples in any lossless form.
 *
 *     copy_dataset *set = copy_dataset_open(path, 1);
 *     uint64_t record = copy_dataset_record(set, &(copy_audio){.codec = SPSH_CODEC_WAV, ...});
 *     copy_dataset_utterance(set, record, 0, samples, "train");
 *     copy_dataset_close(set, SPSH_DEDUPE_NONE);
 *
 * The same bytes at every call. Every failure stops the test.
 */
#ifndef COPY_DATASET_H
#define COPY_DATASET_H

#include <string.h>

#include "speechshard/publish.h"

typedef struct copy_audio {
    spsh_codec codec; /* WAV, FLAC, PCM */
    uint32_t bits;    /* 16; WAV: also 24 */
    uint32_t rate_hz, channels;
    const int16_t *pcm; /* interleaved */
    uint32_t samples;   /* per channel */
} copy_audio;

typedef struct copy_dataset copy_dataset;

static inline spsh_bytes text_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

/* path must not exist; tag sets its id, and its order among datasets. */
copy_dataset *copy_dataset_open(const char *path, uint8_t tag);
/* Start a new unit. Closing the dataset finds equal records in different units. */
void copy_dataset_next_unit(copy_dataset *set);
/* Returns its number. */
uint64_t copy_dataset_record(copy_dataset *set, const copy_audio *audio);
/* A record that is already encoded; only codec pcm needs rate_hz. */
uint64_t copy_dataset_file(copy_dataset *set, spsh_bytes file, spsh_codec codec, uint32_t rate_hz,
                           uint64_t *ret_samples);
void copy_dataset_row(copy_dataset *set, const spsh_utterance *row);
/* The n-th utterance that these functions add has the id "u<n>". */
void copy_dataset_utterance(copy_dataset *set, uint64_t record, uint64_t start, uint64_t samples,
                            const char *split);
/* Add a record, and an utterance of split "train" that covers the whole record. */
void copy_dataset_add(copy_dataset *set, const copy_audio *audio);
/* The same, with byte `at` of the encoded record changed before its checksums are computed. */
void copy_dataset_add_spoiled(copy_dataset *set, const copy_audio *audio, size_t at, uint8_t value);
/* Publishes and frees. */
void copy_dataset_close(copy_dataset *set, spsh_dedupe dedupe);

/* Make a whole dataset: utterance "u<n>" covers all of audios[n]. */
void copy_dataset_make(const char *path, uint8_t tag, const copy_audio *audios, size_t count);

#endif
