/* speech.c: see speech.h. */
#include "speech.h"

#include <stdlib.h>

#include "speechshard/audio.h"

enum { PIECE = 1 << 16 /* samples decoded at once */ };

static spsh_status fail_memory(spsh_error *err)
{
    spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
    return SPSH_E_NO_MEMORY;
}

static spsh_status check_bytes(const char *what, uint64_t count, uint64_t each_bytes,
                               spsh_error *err)
{
    if (count <= SPSH__SPEECH_BYTES_MAX / each_bytes)
        return SPSH_OK;
    spsh_error_set(err, SPSH_E_LIMIT, 0, SPSH_OFFSET_NONE,
                   "%llu %s of %llu bytes; the limit is %llu bytes", (unsigned long long)count,
                   what, (unsigned long long)each_bytes,
                   (unsigned long long)SPSH__SPEECH_BYTES_MAX);
    return SPSH_E_LIMIT;
}

static spsh_status take(spsh__speech *speech, spsh_error *err)
{
    const uint64_t sample_bytes = sizeof(int16_t) * speech->channels;
    spsh_status rc = check_bytes("samples", speech->count, sample_bytes, err);
    if (rc != SPSH_OK)
        return rc;
    speech->samples = (int16_t *)malloc((size_t)(speech->count * sample_bytes) + 1);
    return speech->samples == NULL ? fail_memory(err) : SPSH_OK;
}

void spsh__speech_free(spsh__speech *speech)
{
    free(speech->samples);
    *speech = (spsh__speech){0};
}

spsh_status spsh__speech_read(spsh_reader *reader, uint64_t position, const spsh_row *row,
                              spsh__speech *ret_speech, spsh_error *err)
{
    spsh__speech *s = ret_speech;
    *s = (spsh__speech){NULL, row->samples, row->channels, row->sample_rate_hz};
    spsh_status rc = take(s, err);
    for (uint64_t done = 0; rc == SPSH_OK && done < s->count;) {
        uint64_t got = 0;
        const uint64_t left = s->count - done;
        rc = spsh_reader_read_i16(reader, position, done, s->samples + done * s->channels,
                                  left < PIECE ? left : PIECE, &got, err);
        if (rc == SPSH_OK && got == 0) {
            spsh_error_set(err, SPSH_E_AUDIO, 0, SPSH_OFFSET_NONE,
                           "audio ends after %llu of %llu samples", (unsigned long long)done,
                           (unsigned long long)s->count);
            rc = SPSH_E_AUDIO;
        }
        done += got;
    }
    return rc;
}

static void mix(const spsh__speech *from, int16_t *to)
{
    const int32_t count = (int32_t)from->channels;
    const int16_t *sample = from->samples;
    for (uint64_t n = 0; n < from->count; n++) {
        int32_t sum = 0;
        for (int32_t c = 0; c < count; c++)
            sum += *sample++;
        /* An offset of whole means keeps the dividend positive, where division rounds down. */
        to[n] = (int16_t)((2 * sum + count + 131072 * count) / (2 * count) - 65536);
    }
}

spsh_status spsh__speech_mix(const spsh__speech *speech, uint32_t rate_hz, spsh__speech *ret_mono,
                             spsh_error *err)
{
    spsh__speech mono = {NULL, speech->count, 1, speech->rate_hz};
    spsh__speech resampled = {NULL, 0, 1, rate_hz};
    spsh_status rc = take(&mono, err);
    *ret_mono = resampled;
    if (rc != SPSH_OK)
        return rc;
    mix(speech, mono.samples);
    if (rate_hz == speech->rate_hz) {
        *ret_mono = mono;
        return SPSH_OK;
    }
    resampled.count = (mono.count * rate_hz + mono.rate_hz - 1) / mono.rate_hz;
    rc = take(&resampled, err);
    if (rc == SPSH_OK && mono.count > 0)
        rc = spsh_resample_i16(mono.samples, mono.count, 1, mono.rate_hz, rate_hz,
                               resampled.samples, resampled.count, &resampled.count, err);
    spsh__speech_free(&mono);
    *ret_mono = resampled;
    return rc;
}

/* ---- features ---- */

spsh_status spsh__speech_features(const spsh__speech *mono, const spsh_feature_options *options,
                                  spsh__speech_rows *ret_rows, spsh_error *err)
{
    const spsh_feature_input input = {.i16 = mono->samples, .sample_count = mono->count};
    spsh_featgen *featgen = NULL;
    spsh_featgen_worker *worker = NULL;
    spsh__speech_rows *r = ret_rows;
    *r = (spsh__speech_rows){.options = *options};
    spsh_status rc = spsh_featgen_open(options, NULL, &featgen, err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_worker_open(featgen, &worker, err);
    if (rc != SPSH_OK)
        goto out;
    r->dim = spsh_featgen_dim(featgen);
    r->frame_count = spsh_featgen_frame_count(featgen, mono->count);
    rc = check_bytes("frames", r->frame_count, sizeof(float) * r->dim, err);
    if (rc != SPSH_OK || r->frame_count == 0)
        goto out;
    r->rows = (float *)malloc((size_t)r->frame_count * r->dim * sizeof(*r->rows));
    rc = r->rows == NULL ? fail_memory(err) : spsh_featgen_compute(worker, &input, r->rows, err);
out:
    spsh_featgen_worker_close(worker);
    spsh_featgen_close(featgen);
    return rc;
}

void spsh__speech_features_free(spsh__speech_rows *rows)
{
    free(rows->rows);
    rows->rows = NULL;
    rows->frame_count = 0;
}
