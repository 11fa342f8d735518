/* print_signal.h: samples of a print's signal, at 8 kHz, from anywhere in an utterance.
 *
 *     const spsh__print_signal signal = {set, reader, ordinal, channel};
 *     spsh__print_signal_read(&signal, 8000 * 3600, 8000, samples, err);    // a second after an
 * hour
 *
 * The same values as resampling the whole from its start: a stretch begins at a sample of the
 * source where the resampler's phase is 0, a little earlier than asked for.
 */
#ifndef SPSH_DEDUP_PRINT_SIGNAL_H
#define SPSH_DEDUP_PRINT_SIGNAL_H

#include "print_set.h"

/* One channel of an utterance; all borrowed. */
typedef struct spsh__print_signal {
    const spsh__print_set *set;
    spsh_reader *reader; /* of the utterance's dataset */
    uint64_t utterance;  /* ordinal */
    uint32_t channel;    /* 0: the mix */
} spsh__print_signal;

/* How many samples of 8 kHz there are. */
spsh_status spsh__print_signal_length(const spsh__print_signal *signal, uint64_t *ret_count,
                                      spsh_error *err);

/* Samples [first, first + count) of 8 kHz into dst, in the units of spsh__print.samples; zeros
 * beyond the end. Memory: a few thousand samples and the resampler. Audio that cannot be read
 * names the utterance. */
spsh_status spsh__print_signal_read(const spsh__print_signal *signal, uint64_t first, size_t count,
                                    int32_t *dst, spsh_error *err);

#endif
