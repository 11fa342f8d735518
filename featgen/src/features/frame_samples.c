/* frame_samples.c: see frame_samples.h.
 *
 * A mirrored signal of n samples is periodic: with 2 n where the edge samples count twice (Kaldi),
 * with 2 (n - 1) where they count once, so that any distance from the samples is defined; a single
 * sample is then constant.
 */
#include "frame_samples.h"

/* Return the index of the sample that replaces one outside the signal; sample_count for a zero. */
static uint64_t mirrored(const spsh__signal *signal, int64_t at)
{
    const int64_t count = (int64_t)signal->sample_count;
    const bool is_twice = signal->edges == SPSH_EDGES_MIRROR;
    if (signal->edges == SPSH_EDGES_CENTER_ZEROS || signal->edges == SPSH_EDGES_SNIP)
        return signal->sample_count;
    if (count == 1)
        return 0;
    const int64_t period = is_twice ? 2 * count : 2 * (count - 1);
    int64_t place = at % period;
    if (place < 0)
        place += period;
    if (place >= count)
        place = is_twice ? period - 1 - place : period - place;
    return (uint64_t)place;
}

/* Read `count` values from sample `first` on. Samples that were not given are zeros. */
static void take(const spsh__signal *signal, uint64_t first, size_t count, float *values)
{
    size_t given = 0;
    if (first < signal->given_count) {
        const uint64_t left = signal->given_count - first;
        given = left < count ? (size_t)left : count;
        if (signal->i16 != NULL)
            signal->isa->i16_fn(signal->i16 + first, given, signal->scale, values);
        else
            signal->isa->f32_fn(signal->f32 + first, given, signal->scale, values);
    }
    memset(values + given, 0, (count - given) * sizeof(*values));
}

void spsh__signal_read(const spsh__signal *signal, int64_t first, size_t count, float *values)
{
    const int64_t end = (int64_t)signal->sample_count;
    size_t done = 0;
    while (done < count) {
        const int64_t at = first + (int64_t)done;
        if (at >= 0 && at < end) {
            const uint64_t left = (uint64_t)(end - at);
            const size_t inside = left < count - done ? (size_t)left : count - done;
            take(signal, (uint64_t)at, inside, values + done);
            done += inside;
        } else {
            const uint64_t place = mirrored(signal, at);
            values[done] = 0;
            if (place < signal->sample_count)
                take(signal, place, 1, values + done);
            done++;
        }
    }
}

uint64_t spsh__signal_frame_count(const spsh__frame_tables *tables, uint64_t sample_count)
{
    const uint64_t hop = tables->hop_samples;
    uint64_t count = 0;
    switch (tables->features.edges) {
    case SPSH_EDGES_SNIP:
        if (sample_count >= tables->window_samples)
            count = 1 + (sample_count - tables->window_samples) / hop;
        break;
    case SPSH_EDGES_MIRROR: /* (sample_count + hop / 2) / hop, without overflow */
        count = sample_count / hop + (sample_count % hop + hop / 2) / hop;
        break;
    case SPSH_EDGES_CENTER_REFLECT:
    case SPSH_EDGES_CENTER_ZEROS:
        if (sample_count > 0)
            count = 1 + sample_count / hop;
        break;
    }
    return tables->features.drop_last_frame && count > 0 ? count - 1 : count;
}

int64_t spsh__signal_frame_start(const spsh__frame_tables *tables, uint64_t frame)
{
    const int64_t start = (int64_t)(frame * tables->hop_samples);
    const int64_t half_window = tables->window_samples / 2;
    switch (tables->features.edges) {
    case SPSH_EDGES_SNIP: break;
    case SPSH_EDGES_MIRROR: return start + tables->hop_samples / 2 - half_window;
    case SPSH_EDGES_CENTER_REFLECT:
    case SPSH_EDGES_CENTER_ZEROS: return start - half_window;
    }
    return start;
}
