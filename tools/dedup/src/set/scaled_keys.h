/* scaled_keys.h: recordings as they would be at another speed (and pitch): the speed grid.
 *
 *     for (size_t scale = 1; scale < end; scale++) {
 *         const uint64_t number = spsh__scaled_number(print_count, print, scale);
 *         spsh__scaled_keys_make(&signal, spsh__scales[scale], &keys, &count, err);
 *         spsh__key_join_add(join, number, keys, count, err);
 *     }
 *
 * A copy at 1.1 times the speed has no key in common with its source. So, where the grid is on, the
 * join also gets the keys that each print would have at the usual speeds, as prints of their own,
 * numbered from the set's print count on; the judge knows these numbers.
 *
 * Deduplication adds the faster ones alone (scale 1 to SPSH__SCALE_FASTER_END - 1): where b is a
 * at 0.9, a is b at 1 / 0.9. An audit, which adds them on the side of the training data, needs all.
 */
#ifndef SPSH_DEDUP_SCALED_KEYS_H
#define SPSH_DEDUP_SCALED_KEYS_H

#include "print_signal.h"

#define SPSH__SCALE_COUNT      9
#define SPSH__SCALE_FASTER_END 5

/* 1, then the faster, then the slower. Keys and drift fit reach half a percent further, so 0.97 and
 * 0.95 are there as well as 0.9, 1.03, 1.05 and 1.1. */
extern const double spsh__scales[SPSH__SCALE_COUNT];

/* The number in a join of a print at a speed. */
static inline uint64_t spsh__scaled_number(uint64_t print_count, uint64_t print, size_t scale)
{
    return print_count * scale + print;
}

/* Samples of the signal played `speed` times as fast: sample i is the signal's at i * speed. All of
 * 8 kHz; zeros beyond the end. */
spsh_status spsh__scaled_signal_read(const spsh__print_signal *signal, double speed, uint64_t first,
                                     size_t count, int32_t *dst, spsh_error *err);

/* Sends frames and keys of the signal at that speed to sink (its samples_fn is not called). The
 * whole is decoded, a minute at a time. */
spsh_status spsh__scaled_print_make(const spsh__print_signal *signal, double speed,
                                    spsh__print_sink sink, spsh_error *err);

/* *ret_keys from malloc. */
spsh_status spsh__scaled_keys_make(const spsh__print_signal *signal, double speed,
                                   spsh__print_key **ret_keys, size_t *ret_count, spsh_error *err);

#endif
