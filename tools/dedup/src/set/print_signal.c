/* print_signal.c: start in the source where a whole number of resampler cycles begins.
 *
 * At L outputs per M inputs, the outputs k L, k L + 1 ... of the whole signal equal the outputs of
 * a resampler that starts at input k M. Only the first ones differ, because their filter reaches
 * before the start. So decoding starts some cycles before the first requested output, and the
 * earlier outputs are dropped.
 */
#include "print_signal.h"

#include <stdlib.h>

#include "fingerprint/resample8k.h"
#include "segment/print_mix.h"
#include "speechshard/inside.h"

/* The source range that is read, and its destination. */
typedef struct stretch {
    spsh_reader *reader;
    uint64_t position;
    uint32_t channels;
    uint32_t channel;
    uint64_t source;     /* next sample of the utterance to read */
    uint64_t source_end; /* number of samples of the utterance */
    size_t dropped;      /* outputs to drop before the first requested output */
    int32_t *dst;
    size_t count; /* outputs that are still missing */
} stretch;

/* Find the start in the source for output `first`, and the number of outputs to drop. */
static void find_start(stretch *part, uint32_t rate_hz, uint64_t first)
{
    const uint64_t factor = spsh__gcd(rate_hz, SPSH__PRINT_RATE_HZ);
    const uint64_t made = SPSH__PRINT_RATE_HZ / factor;
    const uint64_t taken = rate_hz / factor;
    const uint64_t reach = rate_hz / 500 + 1; /* half the length of the filter */
    const uint64_t reach_cycles = (reach + taken - 1) / taken;
    const uint64_t cycle = first / made;
    const uint64_t start = cycle > reach_cycles ? cycle - reach_cycles : 0;
    part->source = start * taken;
    part->dropped = (size_t)(first - start * made);
}

static void take(stretch *part, const int32_t *made, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (part->dropped > 0) {
            part->dropped--;
            continue;
        }
        if (part->count == 0)
            return;
        *part->dst++ = made[i];
        part->count--;
    }
}

static spsh_status resample(stretch *part, spsh__resample8k *resampler, int16_t *pcm,
                            spsh_error *err)
{
    int32_t made[SPSH__RESAMPLE_OUT_MAX];
    while (part->count > 0 && part->source < part->source_end) {
        uint64_t got = 0;
        spsh_status rc = spsh_reader_read_i16(part->reader, part->position, part->source, pcm,
                                              SPSH__RESAMPLE_IN_MAX, &got, err);
        if (rc != SPSH_OK)
            return rc;
        if (got == 0)
            break;
        spsh__mix_channel(pcm, (size_t)got, part->channels, part->channel, pcm);
        take(part, made, spsh__resample8k_push(resampler, pcm, (size_t)got, made));
        part->source += got;
    }
    if (part->count > 0)
        take(part, made, spsh__resample8k_finish(resampler, made));
    for (; part->count > 0; part->count--)
        *part->dst++ = 0;
    return SPSH_OK;
}

spsh_status spsh__print_signal_length(const spsh__print_signal *signal, uint64_t *ret_count,
                                      spsh_error *err)
{
    spsh_row row;
    spsh_status rc = spsh__print_set_index_row(signal->set, signal->utterance, &row, err);
    if (rc != SPSH_OK)
        return rc;
    /* ceil(samples * 8000 / rate), without overflow */
    const uint64_t seconds = row.samples / row.sample_rate_hz;
    const uint64_t rest = row.samples % row.sample_rate_hz * SPSH__PRINT_RATE_HZ;
    *ret_count =
        seconds * SPSH__PRINT_RATE_HZ + (rest + row.sample_rate_hz - 1) / row.sample_rate_hz;
    return SPSH_OK;
}

/* NOLINTBEGIN(readability-non-const-parameter): dst is written, through the stretch */
spsh_status spsh__print_signal_read(const spsh__print_signal *signal, uint64_t first, size_t count,
                                    int32_t *dst, spsh_error *err)
{
    spsh_row row;
    spsh__resample8k *resampler = NULL;
    int16_t *pcm = NULL;
    stretch part = {
        .reader = signal->reader, .channel = signal->channel, .dst = dst, .count = count};

    spsh_status rc = spsh__print_set_index_row(signal->set, signal->utterance, &row, err);
    if (rc != SPSH_OK)
        return rc;
    part.position = spsh__print_set_place(signal->set, signal->utterance).position;
    part.channels = row.channels;
    part.source_end = row.samples;
    if (signal->channel > row.channels)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "a print of channel %u of an utterance of %u",
                         signal->channel, row.channels);
    pcm = calloc((size_t)SPSH__RESAMPLE_IN_MAX * row.channels, sizeof(*pcm));
    if (pcm == NULL)
        return SPSH_NO_MEMORY(err);
    rc = spsh__resample8k_new(row.sample_rate_hz, &resampler, err);
    if (rc == SPSH_OK) {
        find_start(&part, row.sample_rate_hz, first);
        rc = resample(&part, resampler, pcm, err);
    }
    spsh__resample8k_free(resampler);
    free(pcm);
    return rc;
}
/* NOLINTEND(readability-non-const-parameter) */
