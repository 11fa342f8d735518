/* resample.c: changes the rate of int16 PCM through libsoxr, the only file that includes it.
 *
 * Very high quality, one thread, no dither: libsoxr seeds its dither from the clock, and the same
 * input has to give the same bytes. The output has exactly ceil(samples * to / from) samples: the
 * filter's tail is fed zeros until they are there.
 */
#include "audio_internal.h"

#include <soxr.h>

#define CHUNK_SAMPLES   4096
#define SILENCE_SAMPLES 256

const char *spsh__soxr_version(void)
{
    return soxr_version();
}

/* One conversion. */
typedef struct resample_job {
    soxr_t resampler;
    uint32_t channels;
    const int16_t *pcm;
    uint64_t samples;
    int16_t *dst;
    uint64_t wanted;
} resample_job;

static spsh_status run(const resample_job *job, spsh_error *err)
{
    static const int16_t silence[SILENCE_SAMPLES * SPSH_CHANNELS_MAX];
    uint64_t taken = 0;
    uint64_t made = 0;
    uint64_t padded = 0;
    while (made < job->wanted) {
        size_t done_in = 0;
        size_t done_out = 0;
        bool is_tail = taken == job->samples;
        uint64_t left = is_tail ? SILENCE_SAMPLES : job->samples - taken;
        uint64_t room = job->wanted - made;
        soxr_error_t failure =
            soxr_process(job->resampler, is_tail ? silence : job->pcm + taken * job->channels,
                         left < CHUNK_SAMPLES ? (size_t)left : CHUNK_SAMPLES, &done_in,
                         job->dst + made * job->channels,
                         room < CHUNK_SAMPLES ? (size_t)room : CHUNK_SAMPLES, &done_out);
        if (failure != NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "resampler: %s", failure);
        made += done_out;
        if (is_tail)
            padded += done_in;
        else
            taken += done_in;
        /* The filter is shorter than a second of either rate; more silence means a stuck library.
         */
        if (padded > UINT64_C(4) * SPSH_SAMPLE_RATE_HZ_MAX)
            return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, SPSH_OFFSET_NONE,
                             "resampler: %llu of %llu samples came out", (unsigned long long)made,
                             (unsigned long long)job->wanted);
    }
    return SPSH_OK;
}

static bool is_rate(uint32_t rate_hz)
{
    return rate_hz >= SPSH_SAMPLE_RATE_HZ_MIN && rate_hz <= SPSH_SAMPLE_RATE_HZ_MAX;
}

/* NOLINTNEXTLINE(readability-function-size): what PCM is, and where it goes */
spsh_status spsh_resample_i16(const int16_t *pcm, uint64_t samples, uint32_t channels,
                              uint32_t from_rate_hz, uint32_t to_rate_hz, int16_t *dst,
                              uint64_t capacity, uint64_t *ret_samples, spsh_error *err)
{
    uint64_t scaled = 0;
    if ((pcm == NULL && samples > 0) || ret_samples == NULL || channels == 0 ||
        channels > SPSH_CHANNELS_MAX || !is_rate(from_rate_hz) || !is_rate(to_rate_hz))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "resample: %u channels from %u Hz to %u Hz", channels, from_rate_hz,
                         to_rate_hz);
    if (!spsh__mul_u64(samples, to_rate_hz, &scaled) ||
        !spsh__add_u64(scaled, from_rate_hz - 1, &scaled))
        return SPSH_FAIL(err, SPSH_E_LIMIT, SPSH_OFFSET_NONE, "resample: %llu samples",
                         (unsigned long long)samples);
    uint64_t wanted = scaled / from_rate_hz;
    if (wanted > capacity || (wanted > 0 && dst == NULL))
        return SPSH_FAIL(err, SPSH_E_LIMIT, SPSH_OFFSET_NONE,
                         "resample: %llu samples come out, there is room for %llu",
                         (unsigned long long)wanted, (unsigned long long)capacity);
    if (from_rate_hz == to_rate_hz || wanted == 0) {
        if (wanted > 0 && pcm != NULL)
            memcpy(dst, pcm, (size_t)samples * channels * sizeof(*pcm));
        *ret_samples = wanted;
        return SPSH_OK;
    }
    soxr_error_t failure = NULL;
    soxr_io_spec_t io = soxr_io_spec(SOXR_INT16_I, SOXR_INT16_I);
    io.flags |= SOXR_NO_DITHER;
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_VHQ, 0);
    soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    soxr_t resampler =
        soxr_create(from_rate_hz, to_rate_hz, channels, &failure, &io, &quality, &runtime);
    if (failure != NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, SPSH_OFFSET_NONE, "resampler: %s", failure);
    const resample_job job = {resampler, channels, pcm, samples, dst, wanted};
    spsh_status rc = run(&job, err);
    soxr_delete(resampler);
    if (rc == SPSH_OK)
        *ret_samples = wanted;
    return rc;
}
