/* scaled_keys.c: sample the signal between its samples.
 *
 * There is no low-pass filter: the aliases from a speed of 1.12 are above 3.4 kHz, which neither
 * prints nor correlations use.
 */
#include "scaled_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fingerprint/resample8k.h"
#include "fingerprint/sinc_table.h"
#include "speechshard/inside.h"

enum { PIECE = 60 * SPSH__PRINT_RATE_HZ }; /* samples per piece */

const double spsh__scales[SPSH__SCALE_COUNT] = {
    1, 1.03, 1.05, 1.1, 1 / 0.9, 1 / 1.03, 1 / 1.05, 1 / 1.1, 0.9,
};

static spsh_status read_with(const double *table, const spsh__print_signal *signal, double speed,
                             uint64_t first, size_t count, int32_t *dst, spsh_error *err)
{
    enum { BEFORE = SPSH__SINC_HALF - 1 };
    const double start = (double)first * speed;
    const uint64_t base = (uint64_t)start;
    const size_t missing = base < BEFORE ? (size_t)(BEFORE - base) : 0;
    const size_t size = (size_t)((double)count * speed) + SPSH__SINC_TAPS + 2;
    int32_t *source = calloc(size, sizeof(*source));
    double *values = calloc(size, sizeof(*values));
    spsh_status rc = source == NULL || values == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = spsh__print_signal_read(signal, base + missing - BEFORE, size - missing,
                                     source + missing, err);
    for (size_t i = 0; rc == SPSH_OK && i < size; i++)
        values[i] = (double)source[i];
    for (size_t i = 0; rc == SPSH_OK && i < count; i++) {
        const double place = start - (double)base + (double)i * speed;
        const double whole = floor(place);
        dst[i] = (int32_t)lrint(spsh__sinc_at(table, values + (size_t)whole, place - whole));
    }
    free(source);
    free(values);
    return rc;
}

spsh_status spsh__scaled_signal_read(const spsh__print_signal *signal, double speed, uint64_t first,
                                     size_t count, int32_t *dst, spsh_error *err)
{
    return read_with(spsh__sinc_table(), signal, speed, first, count, dst, err);
}

/* Convert samples back to the unit of the input, 16 bits. */
static void to_16_bits(const int32_t *samples, int16_t *pcm, size_t count)
{
    const int32_t one = 1 << SPSH__RESAMPLE_ONE_BITS;
    for (size_t i = 0; i < count; i++) {
        int32_t value = (samples[i] + one / 2) >> SPSH__RESAMPLE_ONE_BITS;
        value = value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value;
        pcm[i] = (int16_t)value;
    }
}

spsh_status spsh__scaled_print_make(const spsh__print_signal *signal, double speed,
                                    spsh__print_sink sink, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    spsh__fingerprint *maker = NULL;
    const double *table = spsh__sinc_table();
    int32_t *samples = calloc(PIECE, sizeof(*samples));
    int16_t *pcm = calloc(PIECE, sizeof(*pcm));
    uint64_t length = 0;

    sink.samples_fn = NULL;
    if (samples == NULL || pcm == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    rc = spsh__fingerprint_new(SPSH__PRINT_RATE_HZ, sink, &maker, err);
    if (rc == SPSH_OK)
        rc = spsh__print_signal_length(signal, &length, err);
    const uint64_t scaled = (uint64_t)((double)length / speed);
    for (uint64_t done = 0; rc == SPSH_OK && done < scaled; done += PIECE) {
        const size_t count = scaled - done < PIECE ? (size_t)(scaled - done) : PIECE;
        rc = read_with(table, signal, speed, done, count, samples, err);
        if (rc != SPSH_OK)
            break;
        to_16_bits(samples, pcm, count);
        rc = spsh__fingerprint_push(maker, pcm, count, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_finish(maker, err);
out:
    spsh__fingerprint_free(maker);
    free(samples);
    free(pcm);
    return rc;
}

spsh_status spsh__scaled_keys_make(const spsh__print_signal *signal, double speed,
                                   spsh__print_key **ret_keys, size_t *ret_count, spsh_error *err)
{
    spsh__print print = {0};
    spsh__print_sink sink = spsh__print_collect(&print);
    sink.frames_fn = NULL;
    spsh_status rc = spsh__scaled_print_make(signal, speed, sink, err);
    if (rc == SPSH_OK) {
        *ret_keys = print.keys;
        *ret_count = print.key_count;
        print.keys = NULL;
    }
    spsh__print_free(&print);
    return rc;
}
