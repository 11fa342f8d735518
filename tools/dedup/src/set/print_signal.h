/* print_signal.h: read the 8 kHz signal of a print from any position of an utterance.
 *
 *     const spsh__print_signal signal = {set, reader, ordinal, channel};
 *     // one second, starting at one hour
 *     spsh__print_signal_read(&signal, 8000 * 3600, 8000, samples, err);
 *
 * The samples are identical to those from resampling the whole utterance. Decoding starts a little
 * before the requested stretch, at a source sample where the phase of the resampler is 0.
 */
#ifndef SPSH_DEDUP_PRINT_SIGNAL_H
#define SPSH_DEDUP_PRINT_SIGNAL_H

#include "print_set.h"

/* One channel of an utterance. All pointers are borrowed. */
typedef struct spsh__print_signal {
    const spsh__print_set *set;
    spsh_reader *reader; /* reader of the utterance's dataset */
    uint64_t utterance;  /* ordinal */
    uint32_t channel;    /* 0: the mix */
} spsh__print_signal;

/* Return the number of samples at 8 kHz. */
spsh_status spsh__print_signal_length(const spsh__print_signal *signal, uint64_t *ret_count,
                                      spsh_error *err);

/* Read the samples [first, first + count) at 8 kHz into dst, in the units of spsh__print.samples.
 * Samples past the end are 0. Memory: a few thousand samples and the resampler. If the audio cannot
 * be read, the error names the utterance. */
spsh_status spsh__print_signal_read(const spsh__print_signal *signal, uint64_t first, size_t count,
                                    int32_t *dst, spsh_error *err);

#endif
