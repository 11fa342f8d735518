/* bandwidth.c: a few spectra, spread over the recording, in 64 bands from 0 to half the rate.
 *
 * A window has 2,048 samples. One transform takes a group of 8 windows (four lanes, real and
 * imaginary part). There are 8 windows per 4 s or part of 4 s, at most 64, spread from the first
 * sample to the last. Their energies are added. The bandwidth ends with the highest band that is
 * above white noise of one unit of 16 bits (11 dB above rounding noise, 6 dB above dither) and
 * within 70 dB of the strongest band. The residue of a resampler is below that.
 *
 * Windows of one group may overlap. At 8 kHz and above, windows of different groups never overlap,
 * because they start more than 2,048 samples apart. Below 8 kHz there is one group.
 *
 * The result is stored, so each operation is rounded separately, as in fingerprint.c.
 */
#include "bandwidth.h"

#include <stdlib.h>
#include <string.h>

#include "fft.h"
#include "speechshard/inside.h"

enum {
    SIZE = 2048,
    GROUP = 2 * SPSH__LANES,
    WINDOWS_MAX = 64,
    GROUP_SECONDS = 4,
    BANDS = 64,
    BAND_BINS = SIZE / 2 / BANDS,
    RATE_MIN_HZ = 8000, /* minimum for more than one group */
};

/* Energy of one bin of a window for white noise of one unit: the sum of the squared window. */
static const double noise_energy = 768.0;
static const double weakest = 1e-7;

struct spsh__bandwidth {
    spsh__fft_circle circle;
    float window[SIZE];
    uint16_t position[SIZE]; /* position of each bin in the output of the transform */
    spsh__lanes re[SIZE];
    spsh__lanes im[SIZE];
    double energy[BANDS];
    int16_t group[GROUP][SIZE];
    uint32_t rate_hz;
    uint64_t samples;
    uint64_t at; /* samples consumed so far */
    uint32_t window_count;
    uint32_t next_window; /* first window of the group */
};

spsh_status spsh__bandwidth_new(spsh__bandwidth **ret_measure, spsh_error *err)
{
    const float unit = 1.0F / (2.0F * SPSH__COSINE_1);
    void *memory = NULL;
    if (posix_memalign(&memory, sizeof(spsh__lanes), sizeof(spsh__bandwidth)) != 0)
        return SPSH_NO_MEMORY(err);
    spsh__bandwidth *m = memory;
    memset(m, 0, sizeof(*m));
    spsh__fft_circle_init(&m->circle);
    for (size_t i = 0; i < SIZE; i++) {
        const int64_t one_less = SPSH__COSINE_1 - (int64_t)spsh__cosine((int64_t)i);
        m->window[i] = (float)one_less * unit;
        m->position[i] = (uint16_t)spsh__fft_position(i, SIZE);
    }
    *ret_measure = m;
    return SPSH_OK;
}

void spsh__bandwidth_free(spsh__bandwidth *measure)
{
    free(measure);
}

void spsh__bandwidth_begin(spsh__bandwidth *measure, uint32_t rate_hz, uint64_t samples)
{
    const uint64_t groups = samples / ((uint64_t)GROUP_SECONDS * rate_hz) + 1;
    measure->rate_hz = rate_hz;
    measure->samples = samples;
    measure->at = 0;
    measure->next_window = 0;
    measure->window_count = GROUP;
    if (rate_hz >= RATE_MIN_HZ)
        measure->window_count =
            groups < WINDOWS_MAX / GROUP ? (uint32_t)groups * GROUP : WINDOWS_MAX;
    memset(measure->energy, 0, sizeof(measure->energy));
    memset(measure->group, 0, sizeof(measure->group));
}

static uint64_t window_begin(const spsh__bandwidth *m, uint32_t window)
{
    const uint64_t span = m->samples > SIZE ? m->samples - SIZE : 0;
    const uint64_t steps = m->window_count - 1;
    return span / steps * window + span % steps * window / steps;
}

/* Return the energy of all bins of one band, summed over all windows of the group. */
static double band_energy(const spsh__bandwidth *m, size_t band)
{
    spsh__lanes sum = {0};
    for (size_t bin = band * BAND_BINS; bin < (band + 1) * BAND_BINS; bin++) {
        const size_t here = m->position[bin];
        const size_t mirror = m->position[(SIZE - bin) % SIZE];
        if (bin == 0)
            continue; /* bin 0 is a constant offset, which is not sound */
        sum = sum + (m->re[here] * m->re[here] + m->im[here] * m->im[here]);
        sum = sum + (m->re[mirror] * m->re[mirror] + m->im[mirror] * m->im[mirror]);
    }
    return (((double)sum[0] + (double)sum[1]) + ((double)sum[2] + (double)sum[3])) * 0.5;
}

static void add_group(spsh__bandwidth *m)
{
    for (size_t n = 0; n < SIZE; n++) {
        const float w = m->window[n];
        for (size_t lane = 0; lane < SPSH__LANES; lane++) {
            m->re[n][lane] = (float)m->group[2 * lane][n] * w;
            m->im[n][lane] = (float)m->group[2 * lane + 1][n] * w;
        }
    }
    spsh__fft_lanes(&m->circle, m->re, m->im, SIZE);
    for (size_t band = 0; band < BANDS; band++)
        m->energy[band] = m->energy[band] + band_energy(m, band);
    memset(m->group, 0, sizeof(m->group));
    m->next_window += GROUP;
}

/* Copy the part of the samples [m->at, m->at + count) that belongs to the group. Returns the number
 * of consumed samples: up to the end of the group's last window, or all. */
static size_t take(spsh__bandwidth *m, const int16_t *samples, size_t count)
{
    const uint64_t end = m->at + count;
    const uint64_t group_end = window_begin(m, m->next_window + GROUP - 1) + SIZE;
    for (uint32_t i = 0; i < GROUP; i++) {
        const uint64_t begin = window_begin(m, m->next_window + i);
        const uint64_t from = begin > m->at ? begin : m->at;
        const uint64_t to = begin + SIZE < end ? begin + SIZE : end;
        if (from < to)
            memcpy(m->group[i] + (from - begin), samples + (from - m->at),
                   (size_t)(to - from) * sizeof(*samples));
    }
    return group_end < end ? (size_t)(group_end - m->at) : count;
}

void spsh__bandwidth_push(spsh__bandwidth *measure, const int16_t *samples, size_t count)
{
    spsh__bandwidth *m = measure;
    while (count > 0 && m->next_window < m->window_count) {
        const uint64_t group_end = window_begin(m, m->next_window + GROUP - 1) + SIZE;
        const size_t taken = take(m, samples, count);
        m->at += taken;
        samples += taken;
        count -= taken;
        if (m->at >= group_end)
            add_group(m);
    }
}

uint32_t spsh__bandwidth_finish(spsh__bandwidth *measure)
{
    spsh__bandwidth *m = measure;
    double strongest = 0.0;
    uint32_t bands = 0;
    if (m->next_window < m->window_count) /* the recording is shorter than a window */
        add_group(m);
    const double floor = noise_energy * (double)BAND_BINS * (double)m->window_count;
    for (size_t band = 0; band < BANDS; band++)
        strongest = m->energy[band] > strongest ? m->energy[band] : strongest;
    const double relative = strongest * weakest;
    for (uint32_t band = 0; band < BANDS; band++)
        if (m->energy[band] > floor && m->energy[band] > relative)
            bands = band + 1;
    return (uint32_t)((uint64_t)bands * m->rate_hz / (UINT64_C(2) * BANDS));
}
