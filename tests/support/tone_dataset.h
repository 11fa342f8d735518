/* tone_dataset.h: a dataset in which each frame has an audible state: utterances are sequences of
 * tones. Also writes the alignments, in frames of 10 ms.
 *
 *     tone_dataset_make(path, "speech.ali");       // splits "train" and "dev", ids "u0", "u1", ...
 */
#ifndef TONE_DATASET_H
#define TONE_DATASET_H

#include <stdint.h>

enum {
    TONE_UTTERANCES = 40,
    TONE_DEV = 8,    /* number of last utterances, with split "dev" */
    TONE_STATES = 5, /* one tone per state */
    TONE_RATE_HZ = 16000,
};

/* Alignments like Kaldi's for frames of 25 ms every 10 ms that are completely inside the utterance
 * (snip-edges=true). path must not exist; the test stops on failure. Domains "low" and "high"
 * alternate. */
void tone_dataset_make(const char *path, const char *alignments);

/* The state at a sample of utterance n. */
uint32_t tone_dataset_state(uint32_t n, uint64_t sample);

#endif
