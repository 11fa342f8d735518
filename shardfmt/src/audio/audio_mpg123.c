/* audio_mpg123.c: MP3 through libmpg123, the only file that includes it.
 *
 * libsndfile does not suit, for two reasons. libmpg123 prints messages about damaged frames to
 * standard error unless they are disabled, and libsndfile does not disable them. And libmpg123
 * chooses one of several decoders by the processor, whose samples differ in the last bit. Here one
 * decoder is fixed for each architecture, so that a PCM hash does not depend on the machine.
 *
 * The library gets only the chain of frames that audio_mp3.c has walked.
 */
#include "audio_internal.h"

#include <mpg123.h>
#include <stdio.h>

typedef struct mp3_state {
    mpg123_handle *library;
    const spsh_audio_source *source;
    spsh__stream_extent extent;
    uint64_t offset;  /* in the extent */
    uint64_t decoded; /* the library's position in samples */
    bool has_ended;
    spsh_status io_status;
    spsh_error io_error;
    float *floats; /* SPSH__SCRATCH_BYTES */
} mp3_state;

const char *spsh__mpg123_version(void)
{
#define TEXT_OF(number_) #number_
#define TEXT(number_)    TEXT_OF(number_)
    return "libmpg123-api" TEXT(MPG123_API_VERSION);
#undef TEXT
#undef TEXT_OF
}

static ssize_t on_read(void *user, void *dst, size_t size_bytes)
{
    mp3_state *state = (mp3_state *)user;
    uint64_t left = state->extent.end_bytes - state->extent.begin_bytes - state->offset;
    size_t wanted = size_bytes < left ? size_bytes : (size_t)left;
    size_t got = 0;
    if (state->io_status == SPSH_OK)
        state->io_status =
            spsh__source_read(state->source, state->extent.begin_bytes + state->offset, dst, wanted,
                              &got, &state->io_error);
    if (state->io_status != SPSH_OK)
        return -1;
    state->offset += got;
    return (ssize_t)got;
}

static off_t on_seek(void *user, off_t offset, int whence)
{
    mp3_state *state = (mp3_state *)user;
    off_t length = (off_t)(state->extent.end_bytes - state->extent.begin_bytes);
    off_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? (off_t)state->offset : length;
    if (offset < -base || offset > length - base)
        return -1;
    state->offset = (uint64_t)(base + offset);
    return base + offset;
}

static spsh_status mp3_inspect(spsh__audio_window *window, spsh_audio_info *ret_info,
                               spsh_error *err)
{
    spsh__stream_extent extent = {.is_clean = true};
    return spsh__mp3_parse(window, true, ret_info, &extent, err);
}

/* One decoder for all processors of an architecture. */
static mpg123_handle *make_library(void)
{
    static const char *const names[] = {"x86-64", "NEON64", "generic"};
    mpg123_handle *library = NULL;
    (void)mpg123_init();             /* needed before version 1.27, without effect since */
    int failed = MPG123_BAD_DECODER; /* not in this build: try the next name */
    for (size_t i = 0;
         i < sizeof(names) / sizeof(names[0]) && library == NULL && failed == MPG123_BAD_DECODER;
         i++)
        library = mpg123_new(names[i], &failed);
    return library;
}

static spsh_status set_up(mp3_state *state, spsh_error *err)
{
    mpg123_handle *library = state->library;
    errno = 0;
    bool ok = mpg123_param(library, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0) == MPG123_OK &&
              mpg123_param(library, MPG123_ADD_FLAGS,
                           MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_GAPLESS |
                               MPG123_NO_FRANKENSTEIN | MPG123_SKIP_ID3V2,
                           0) == MPG123_OK &&
              mpg123_param(library, MPG123_INDEX_SIZE, 0, 0) == MPG123_OK &&
              mpg123_replace_reader_handle(library, on_read, on_seek, NULL) == MPG123_OK;
    if (!ok && spsh__library_lacks_memory())
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "MP3 decoder");
    return ok ? SPSH_OK : SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "MP3: libmpg123 cannot be set up");
}

/* After a failure of the library: the stream is not to blame if memory is lacking. */
static void note_memory(mp3_state *state)
{
    if (state->io_status == SPSH_OK && spsh__library_lacks_memory())
        state->io_status = SPSH_FAIL(&state->io_error, SPSH_E_NO_MEMORY, "MP3 decoder");
}

static spsh_status io_failed(const mp3_state *state, spsh_error *err)
{
    if (err != NULL)
        *err = state->io_error;
    return state->io_status;
}

/* Starts the library at sample 0. */
static spsh_status start(spsh_decoder *decoder, spsh_error *err)
{
    mp3_state *state = (mp3_state *)decoder->state;
    long rate = 0;
    int channels = 0;
    int encoding = 0;
    state->offset = 0;
    state->decoded = 0;
    state->has_ended = false;
    errno = 0;
    bool ok = mpg123_open_handle(state->library, state) == MPG123_OK &&
              mpg123_getformat(state->library, &rate, &channels, &encoding) == MPG123_OK;
    if (!ok)
        note_memory(state);
    if (state->io_status != SPSH_OK)
        return io_failed(state, err);
    if (!ok || rate != (long)decoder->info.sample_rate_hz ||
        channels != (int)decoder->info.channels || encoding != MPG123_ENC_FLOAT_32)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, state->extent.begin_bytes,
                            "MP3: libmpg123 refuses the stream (%ld Hz, %d channels)", rate,
                            channels);
    return SPSH_OK;
}

/* Create the state, or reset the state of the last stream and keep its allocations. */
static spsh_status take_state(spsh_decoder *decoder, spsh_error *err)
{
    mp3_state *state = (mp3_state *)decoder->state;
    if (state != NULL) {
        (void)mpg123_close(state->library);
        *state = (mp3_state){
            .library = state->library, .floats = state->floats, .source = &decoder->source};
        return SPSH_OK;
    }
    state = (mp3_state *)spsh__new(&decoder->allocator, 1, sizeof(*state));
    decoder->state = state;
    if (state != NULL) {
        state->source = &decoder->source;
        state->floats = (float *)spsh__alloc(&decoder->allocator, SPSH__SCRATCH_BYTES);
        state->library = make_library();
    }
    if (state == NULL || state->floats == NULL || state->library == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "MP3 decoder: %d bytes", SPSH__SCRATCH_BYTES);
    return set_up(state, err);
}

static spsh_status mp3_open(spsh_decoder *decoder, spsh__audio_window *window, spsh_error *err)
{
    spsh_status rc = take_state(decoder, err);
    if (rc != SPSH_OK)
        return rc;
    mp3_state *state = (mp3_state *)decoder->state;
    rc = spsh__mp3_parse(window, false, &decoder->info, &state->extent, err);
    if (rc == SPSH_OK && state->extent.begin_bytes < state->extent.end_bytes)
        rc = start(decoder, err);
    else
        state->has_ended = true; /* no whole frame: the verdict compares 0 with the claim */
    return rc;
}

/* Make one call into the library, for at most a scratch buffer of floats. */
static uint64_t read_some(spsh_decoder *decoder, int16_t *dst, uint64_t wanted)
{
    mp3_state *state = (mp3_state *)decoder->state;
    size_t frame_bytes = sizeof(float) * decoder->info.channels;
    uint64_t fit = SPSH__SCRATCH_BYTES / frame_bytes;
    size_t got_bytes = 0;
    errno = 0;
    int status = mpg123_read(state->library, (unsigned char *)state->floats,
                             (size_t)(wanted < fit ? wanted : fit) * frame_bytes, &got_bytes);
    uint64_t got = got_bytes / frame_bytes;
    spsh__f32_to_i16(state->floats, dst, (size_t)got * decoder->info.channels);
    state->has_ended = status != MPG123_OK || got == 0;
    if (state->has_ended)
        note_memory(state);
    state->decoded += got;
    return got;
}

static spsh_status mp3_read(spsh_decoder *decoder, void *pcm, uint64_t capacity,
                            uint64_t *ret_samples, spsh_error *err)
{
    mp3_state *state = (mp3_state *)decoder->state;
    uint64_t done = 0;
    while (done < capacity && !state->has_ended)
        done += read_some(decoder, (int16_t *)pcm + done * decoder->info.channels, capacity - done);
    if (state->io_status != SPSH_OK)
        return io_failed(state, err);
    if (!decoder->keep_going && done < capacity && !state->extent.is_clean)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, state->extent.end_bytes, "%s", state->extent.detail);
    *ret_samples = done;
    return SPSH_OK;
}

static spsh_status mp3_seek(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    mp3_state *state = (mp3_state *)decoder->state;
    uint64_t fit = SPSH__SCRATCH_BYTES / sizeof(float) / decoder->info.channels;
    if (sample < state->decoded) {
        (void)mpg123_close(state->library);
        spsh_status rc = start(decoder, err);
        if (rc != SPSH_OK) {
            state->has_ended = true;
            return rc;
        }
    }
    while (state->decoded < sample && !state->has_ended) {
        uint64_t left = sample - state->decoded;
        (void)read_some(decoder, (int16_t *)(void *)decoder->scratch, left < fit ? left : fit);
    }
    decoder->position = state->decoded;
    if (state->io_status != SPSH_OK)
        return io_failed(state, err);
    return spsh__audio_check_reached(decoder, sample, err);
}

static void mp3_judge(spsh_decoder *decoder, spsh_bytes file, spsh_decode_result *result)
{
    (void)file;
    spsh__audio_judge_extent(result, &((const mp3_state *)decoder->state)->extent);
}

static void mp3_close(spsh_decoder *decoder)
{
    mp3_state *state = (mp3_state *)decoder->state;
    mpg123_delete(state->library);
    spsh__free(&decoder->allocator, state->floats);
    spsh__free(&decoder->allocator, state);
}

const spsh__audio_backend spsh__audio_mpg123 = {
    true, mp3_inspect, mp3_open, mp3_read, mp3_seek, mp3_judge, mp3_close,
};
