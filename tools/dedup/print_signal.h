/* print_signal.h: samples of a print's signal, at 8 kHz, from anywhere in an utterance.
 *
 * The same values as resampling the whole from its start: a stretch begins at a sample of the
 * source where the resampler's phase is 0, a little earlier than asked for.
 */
#ifndef SPSH_DEDUP_PRINT_SIGNAL_H
#define SPSH_DEDUP_PRINT_SIGNAL_H

#include "print_set.h"

/* Samples [first, first + count) of 8 kHz into dst, in the units of spsh__print.samples; zeros
 * beyond the end. reader: of the utterance's dataset. Memory: a few seconds' worth. */
spsh_status spsh__signal_read(const spsh__print_set *set, spsh_reader *reader, uint64_t utterance,
                              uint32_t channel, uint64_t first, size_t count, int32_t *dst,
                              spsh_error *err);

#endif
