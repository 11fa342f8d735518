/* scaled_keys.h: recordings played at other speeds (and pitches): the speed grid.
 *
 *     for (size_t scale = 1; scale < end; scale++) {
 *         const uint64_t number = spsh__scaled_number(print_count, print, scale);
 *         spsh__scaled_keys_make(&signal, spsh__scales[scale], &keys, &count, err);
 *         spsh__key_join_add(join, number, keys, count, err);
 *     }
 *
 * A copy at 1.1 times the speed shares no key with its source. With the grid enabled, the join also
 * gets the keys that each print would have at the usual speeds, as separate prints. Their numbers
 * start at the print count of the set; the judge recognizes these numbers.
 *
 * Deduplication adds only the faster speeds (scale 1 to SPSH__SCALE_FASTER_END - 1): if b is a at
 * speed 0.9, then a is b at speed 1 / 0.9. An audit adds the scaled prints only on the train side,
 * so it needs all speeds.
 */
#ifndef SPSH_DEDUP_SCALED_KEYS_H
#define SPSH_DEDUP_SCALED_KEYS_H

#include "print_signal.h"

#define SPSH__SCALE_COUNT      9
#define SPSH__SCALE_FASTER_END 5

/* 1, then the faster speeds, then the slower ones. Keys and drift fit cover half a percent around
 * each speed, so 0.97 and 0.95 are covered as well as 0.9, 1.03, 1.05 and 1.1. */
extern const double spsh__scales[SPSH__SCALE_COUNT];

/* Number in a join of a print at one of the speeds. */
static inline uint64_t spsh__scaled_number(uint64_t print_count, uint64_t print, size_t scale)
{
    return print_count * scale + print;
}

/* Read the signal played `speed` times as fast: sample i is the signal at i * speed. All samples
 * are at 8 kHz. Samples past the end are 0. */
spsh_status spsh__scaled_signal_read(const spsh__print_signal *signal, double speed, uint64_t first,
                                     size_t count, int32_t *dst, spsh_error *err);

/* Pass the frames and keys of the signal at this speed to sink; its samples_fn is not called. The
 * whole signal is decoded, one minute at a time. */
spsh_status spsh__scaled_print_make(const spsh__print_signal *signal, double speed,
                                    spsh__print_sink sink, spsh_error *err);

/* Make the keys of the signal at this speed. Free *ret_keys with free. */
spsh_status spsh__scaled_keys_make(const spsh__print_signal *signal, double speed,
                                   spsh__print_key **ret_keys, size_t *ret_count, spsh_error *err);

#endif
