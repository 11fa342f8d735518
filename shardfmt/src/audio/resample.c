/* resample.c: changes the rate of PCM through libsoxr, the only file that includes it.
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

/* One conversion. Positions in pcm and dst are samples of all channels. */
typedef struct resample_job {
    soxr_datatype_t type; /* interleaved */
    size_t value_bytes;
    uint32_t channels, from_rate_hz, to_rate_hz;
    const uint8_t *pcm;
    uint64_t samples;
    uint8_t *dst;
    uint64_t capacity;
    uint64_t wanted; /* number of output samples */
} resample_job;

static spsh_status run(const resample_job *job, soxr_t resampler, spsh_error *err)
{
    static const float silence[SILENCE_SAMPLES * SPSH_CHANNELS_MAX]; /* zeros of either type */
    const size_t stride_bytes = job->channels * job->value_bytes;
    uint64_t taken = 0;
    uint64_t made = 0;
    uint64_t padded = 0;
    while (made < job->wanted) {
        size_t done_in = 0;
        size_t done_out = 0;
        bool is_tail = taken == job->samples;
        const void *in = is_tail ? (const void *)silence : job->pcm + taken * stride_bytes;
        uint64_t left = is_tail ? SILENCE_SAMPLES : job->samples - taken;
        uint64_t missing = job->wanted - made;
        soxr_error_t failure =
            soxr_process(resampler, in, left < CHUNK_SAMPLES ? (size_t)left : CHUNK_SAMPLES,
                         &done_in, job->dst + made * stride_bytes,
                         missing < CHUNK_SAMPLES ? (size_t)missing : CHUNK_SAMPLES, &done_out);
        if (failure != NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "resampler: %s", failure);
        made += done_out;
        if (is_tail)
            padded += done_in;
        else
            taken += done_in;
        /* The filter is shorter than a second of either rate; more silence means a stuck library.
         */
        if (padded > UINT64_C(4) * SPSH_SAMPLE_RATE_HZ_MAX)
            return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "resampler: returned %llu of %llu samples",
                             (unsigned long long)made, (unsigned long long)job->wanted);
    }
    return SPSH_OK;
}

static bool is_rate(uint32_t rate_hz)
{
    return rate_hz >= SPSH_SAMPLE_RATE_HZ_MIN && rate_hz <= SPSH_SAMPLE_RATE_HZ_MAX;
}

/* Fills job->wanted. */
static spsh_status check_job(resample_job *job, spsh_error *err)
{
    uint64_t scaled = 0;
    if ((job->pcm == NULL && job->samples > 0) || job->channels == 0 ||
        job->channels > SPSH_CHANNELS_MAX || !is_rate(job->from_rate_hz) ||
        !is_rate(job->to_rate_hz))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "resample: %u channels from %u Hz to %u Hz",
                         job->channels, job->from_rate_hz, job->to_rate_hz);
    if (!spsh__mul_u64(job->samples, job->to_rate_hz, &scaled) ||
        !spsh__add_u64(scaled, job->from_rate_hz - 1, &scaled))
        return SPSH_FAIL(err, SPSH_E_LIMIT, "resample: %llu samples",
                         (unsigned long long)job->samples);
    job->wanted = scaled / job->from_rate_hz;
    if (job->wanted > job->capacity || (job->wanted > 0 && job->dst == NULL))
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "resample: the result has %llu samples, but the buffer only %llu",
                         (unsigned long long)job->wanted, (unsigned long long)job->capacity);
    return SPSH_OK;
}

static spsh_status resample(resample_job *job, uint64_t *ret_samples, spsh_error *err)
{
    spsh_status rc = check_job(job, err);
    if (rc != SPSH_OK)
        return rc;
    if (job->from_rate_hz == job->to_rate_hz || job->wanted == 0) {
        if (job->wanted > 0 && job->pcm != NULL)
            memcpy(job->dst, job->pcm, (size_t)job->samples * job->channels * job->value_bytes);
        *ret_samples = job->wanted;
        return SPSH_OK;
    }
    soxr_error_t failure = NULL;
    soxr_io_spec_t io = soxr_io_spec(job->type, job->type);
    io.flags |= SOXR_NO_DITHER;
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_VHQ, 0);
    soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    soxr_t resampler = soxr_create(job->from_rate_hz, job->to_rate_hz, job->channels, &failure, &io,
                                   &quality, &runtime);
    if (failure != NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "resampler: %s", failure);
    rc = run(job, resampler, err);
    soxr_delete(resampler);
    if (rc == SPSH_OK)
        *ret_samples = job->wanted;
    return rc;
}

/* Input and output of one call; the job writes dst, so it cannot be const.
 * NOLINTBEGIN(readability-function-size,readability-non-const-parameter)
 */
spsh_status spsh_resample_i16(const int16_t *pcm, uint64_t samples, uint32_t channels,
                              uint32_t from_rate_hz, uint32_t to_rate_hz, int16_t *dst,
                              uint64_t capacity, uint64_t *ret_samples, spsh_error *err)
{
    resample_job job = {
        SOXR_INT16_I,         sizeof(*pcm), channels,       from_rate_hz, to_rate_hz,
        (const uint8_t *)pcm, samples,      (uint8_t *)dst, capacity,     0};
    return resample(&job, ret_samples, err);
}

spsh_status spsh_resample_f32(const float *pcm, uint64_t samples, uint32_t channels,
                              uint32_t from_rate_hz, uint32_t to_rate_hz, float *dst,
                              uint64_t capacity, uint64_t *ret_samples, spsh_error *err)
{
    resample_job job = {
        SOXR_FLOAT32_I,       sizeof(*pcm), channels,       from_rate_hz, to_rate_hz,
        (const uint8_t *)pcm, samples,      (uint8_t *)dst, capacity,     0};
    return resample(&job, ret_samples, err);
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */
