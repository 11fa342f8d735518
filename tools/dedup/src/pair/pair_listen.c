/* pair_listen.c: two aligned recordings as one stereo file. Common sound is heard in the center.
 *
 * Each side is read over its own range of time and resampled to the higher of the two rates. A
 * different speed is handled as a different input rate. Samples keep 16 bits, so levels and
 * polarity do not change.
 */
#include <math.h>
#include <stdlib.h>

#include "common/file_out.h"
#include "pair_audio.h"
#include "pair_view.h"
#include "speechshard/audio.h"
#include "speechshard/inside.h"
#include "speechshard/limits.h"

enum { CHANNELS = 2 };
static const double around_s = 1; /* seconds before and after the match */

typedef struct track {
    int16_t *samples;
    size_t count, capacity;
} track;

static spsh_status collect(void *user, const int16_t *samples, size_t count, spsh_error *err)
{
    track *t = (track *)user;
    (void)err;
    for (size_t i = 0; i < count && t->count < t->capacity; i++)
        t->samples[t->count++] = samples[i];
    return SPSH_OK;
}

static spsh_status allocate(track *t, size_t capacity, spsh_error *err)
{
    *t = (track){(int16_t *)calloc(capacity + 1, sizeof(int16_t)), 0, capacity};
    return t->samples == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Resample a track. Only the ratio of the rates matters. Both are scaled up to the largest rate
 * that the resampler accepts, so that integer rates approximate the ratio closely. */
static spsh_status resample(track *t, double from_hz, double to_hz, size_t count, spsh_error *err)
{
    track out = {NULL, 0, 0};
    const double scale = SPSH_SAMPLE_RATE_HZ_MAX / fmax(from_hz, to_hz);
    const uint32_t from = (uint32_t)lround(from_hz * scale);
    const uint32_t to = (uint32_t)lround(to_hz * scale);
    const size_t made = (size_t)(((uint64_t)t->count * to + from - 1) / from);
    spsh_status rc = allocate(&out, made > count ? made : count, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t ret_samples = 0;
    rc = spsh_resample_i16(t->samples, t->count, 1, from, to, out.samples, out.capacity,
                           &ret_samples, err);
    free(t->samples);
    *t = out;
    t->count = count; /* missing samples at the end are silent, because the buffer is zeroed */
    return rc;
}

/* Read `seconds` seconds of a's time line at rate_hz. first_s is a position in the lane's
 * recording. */
static spsh_status read_track(const spsh__pair_lane *lane, uint32_t channel, double first_s,
                              double seconds, uint32_t rate_hz, track *t, spsh_error *err)
{
    const double own_hz = (double)lane->row.sample_rate_hz * lane->speed;
    const uint64_t count = (uint64_t)llround(seconds * own_hz);
    const spsh__pair_source source = {lane->dataset,
                                      lane->position,
                                      lane->row,
                                      channel,
                                      (int64_t)llround(first_s * lane->row.sample_rate_hz),
                                      count,
                                      collect,
                                      t};
    spsh_status rc = allocate(t, (size_t)count, err);
    if (rc == SPSH_OK)
        rc = spsh__pair_read(&source, err);
    if (rc == SPSH_OK)
        rc = resample(t, own_hz, rate_hz, (size_t)llround(seconds * rate_hz), err);
    return rc;
}

static spsh_status write_tracks(const track *a, const track *b, uint32_t rate_hz, const char *path,
                                spsh_error *err)
{
    const spsh__wav wav = {SPSH_SAMPLE_I16, 16, CHANNELS, rate_hz, a->count};
    spsh__file_out *file = NULL;
    track both = {NULL, 0, 0};
    spsh_status rc = allocate(&both, CHANNELS * a->count, err);
    for (size_t i = 0; rc == SPSH_OK && i < a->count; i++) {
        both.samples[CHANNELS * i] = a->samples[i];
        both.samples[CHANNELS * i + 1] = b->samples[i];
    }
    if (rc == SPSH_OK)
        rc = spsh__file_out_open(path, &file, err);
    if (rc == SPSH_OK) {
        const spsh__byte_sink sink = spsh__file_out_sink(file);
        rc = spsh__wav_write_i16(&wav, both.samples, &sink, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__file_out_finish(file, err);
    spsh__file_out_free(file);
    free(both.samples);
    return rc;
}

spsh_status spsh__pair_view_listen(const spsh__print_set *set, const spsh__match *match,
                                   const char *path, spsh_error *err)
{
    const spsh__pair_place place = spsh__pair_place_of(match);
    spsh__pair_lane lanes[2];
    track a = {NULL, 0, 0};
    track b = {NULL, 0, 0};
    spsh_status rc = spsh__pair_lane_open(set, match->a, 1, &lanes[0], err);
    if (rc == SPSH_OK)
        rc = spsh__pair_lane_open(set, match->b, match->scale > 0 ? 1 / match->scale : 1, &lanes[1],
                                  err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t rate_hz = lanes[0].row.sample_rate_hz > lanes[1].row.sample_rate_hz
                                 ? lanes[0].row.sample_rate_hz
                                 : lanes[1].row.sample_rate_hz;
    double first = place.a_first_s - around_s;
    double seconds = place.a_s + 2 * around_s;
    if (match->count == 0) {
        first = 0;
        seconds = fmax(lanes[0].total_s, lanes[1].total_s);
    }
    seconds = fmin(seconds, SPSH__PAIR_SECONDS);
    const double b_first = place.b_first_s + (first - place.a_first_s) * lanes[1].speed;
    rc = read_track(&lanes[0], match->a_channel, first, seconds, rate_hz, &a, err);
    if (rc == SPSH_OK)
        rc = read_track(&lanes[1], match->b_channel, b_first, seconds, rate_hz, &b, err);
    if (rc == SPSH_OK)
        rc = write_tracks(&a, &b, rate_hz, path, err);
    free(a.samples);
    free(b.samples);
    return rc;
}
