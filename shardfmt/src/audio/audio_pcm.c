/* audio_pcm.c: payloads of our own codec `pcm`, for the decoder of audio.h.
 *
 * A payload starts with 8 bytes (channels at 2, samples at 4; pcm.c) and a directory that locates
 * each frame. Opening reads that head. A read fetches the frames that it touches. A seek reads
 * nothing.
 */
#include "audio_internal.h"
#include "base/buffer.h"
#include "speechshard/pcm.h"

#define PREFIX_BYTES    8
#define SAMPLES_AT      4
#define BLOCK_BYTES_MAX (1 + 2 * SPSH_PCM_FRAME_SAMPLES)
#define PIECE_BYTES     65536

typedef struct pcm_state {
    spsh__buffer head_memory, piece_memory; /* reused for later streams */
    uint8_t *head;
    size_t head_bytes;
    uint8_t *piece; /* the stored bytes of a few frames */
    size_t piece_bytes_max;
    uint32_t piece_frames; /* frames that always fit into piece */
} pcm_state;

/* Checks the first bytes, by letting the codec check a head that has them and no samples. */
static spsh_status parse_prefix(spsh__audio_window *window, spsh_audio_info *info,
                                size_t *ret_head_bytes, spsh_error *err)
{
    uint8_t prefix[PREFIX_BYTES] = {0};
    spsh_bytes bytes = {NULL, 0};
    spsh_pcm_info found = {.samples = 0};
    spsh_status rc = spsh__window_get(window, 0, PREFIX_BYTES, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    if (bytes.size_bytes < PREFIX_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, bytes.size_bytes, "pcm: payload of %zu bytes",
                            bytes.size_bytes);
    memcpy(prefix, bytes.data, SAMPLES_AT);
    rc = spsh_pcm_inspect(prefix, sizeof(prefix), &found, err);
    if (rc != SPSH_OK)
        return rc;
    *info = (spsh_audio_info){
        .codec = SPSH_CODEC_PCM,
        .format = SPSH_SAMPLE_I16,
        .sample_rate_hz = info->sample_rate_hz,
        .nominal_rate_hz = info->sample_rate_hz,
        .channels = found.channels,
        .bits_per_sample = 16,
        .samples = spsh__load_u32le(bytes.data + SAMPLES_AT),
    };
    *ret_head_bytes = spsh_pcm_head_bytes(info->samples, info->channels);
    if (*ret_head_bytes == SIZE_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_LIMIT, SAMPLES_AT, "pcm: %llu samples of %u channels",
                            (unsigned long long)info->samples, info->channels);
    if (*ret_head_bytes > window->source->size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, window->source->size_bytes,
                            "pcm: the head needs %zu bytes", *ret_head_bytes);
    return SPSH_OK;
}

/* The directory's last entry is the size of the payload. */
static spsh_status check_end(const uint8_t *entry, uint64_t size_bytes, spsh_error *err)
{
    uint64_t end = spsh__load_u32le(entry);
    if (end > size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, size_bytes, "pcm: payload needs %llu bytes",
                            (unsigned long long)end);
    if (end < size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, end, "pcm: payload ends at byte %llu of %llu",
                            (unsigned long long)end, (unsigned long long)size_bytes);
    return SPSH_OK;
}

static spsh_status pcm_inspect(spsh__audio_window *window, spsh_audio_info *ret_info,
                               spsh_error *err)
{
    size_t head_bytes = 0;
    spsh_bytes bytes = {NULL, 0};
    spsh_audio_info info = {.codec = SPSH_CODEC_PCM};
    spsh_status rc = parse_prefix(window, &info, &head_bytes, err);
    if (rc == SPSH_OK && info.samples > 0) {
        rc = spsh__window_get(window, head_bytes - 4, 4, &bytes, err);
        if (rc == SPSH_OK && bytes.size_bytes == 4)
            rc = check_end(bytes.data, window->source->size_bytes, err);
    }
    if (rc == SPSH_OK)
        *ret_info = info;
    return rc;
}

static spsh_status pcm_open(spsh_decoder *decoder, spsh__audio_window *window, spsh_error *err)
{
    size_t got = 0;
    pcm_state *state = (pcm_state *)decoder->state;
    if (state == NULL)
        state = (pcm_state *)spsh__new(&decoder->allocator, 1, sizeof(*state));
    decoder->state = state;
    if (state == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "pcm decoder: %zu bytes", sizeof(*state));
    decoder->info.sample_rate_hz = decoder->sample_rate_hz;
    spsh_status rc = parse_prefix(window, &decoder->info, &state->head_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__audio_check_info(&decoder->info, err);
    if (rc != SPSH_OK)
        return rc;
    uint32_t frame_bytes = decoder->info.channels * BLOCK_BYTES_MAX;
    state->piece_frames = frame_bytes < PIECE_BYTES ? PIECE_BYTES / frame_bytes : 1;
    state->piece_bytes_max = (size_t)state->piece_frames * frame_bytes;
    rc = spsh__buffer_reserve(&state->head_memory, &decoder->allocator, state->head_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__buffer_reserve(&state->piece_memory, &decoder->allocator, state->piece_bytes_max,
                                  err);
    if (rc != SPSH_OK)
        return rc;
    state->head = state->head_memory.data;
    state->piece = state->piece_memory.data;
    rc = spsh__source_read(&decoder->source, 0, state->head, state->head_bytes, &got, err);
    if (rc != SPSH_OK)
        return rc;
    if (got < state->head_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, got, "pcm: the head needs %zu bytes",
                            state->head_bytes);
    if (decoder->info.samples == 0)
        return SPSH_OK;
    return check_end(state->head + state->head_bytes - 4, decoder->source.size_bytes, err);
}

/* Decode samples [first, first + count), which span at most piece_frames frames. */
static spsh_status decode_piece(spsh_decoder *decoder, uint64_t first, uint64_t count, int16_t *pcm,
                                spsh_error *err)
{
    const pcm_state *state = (const pcm_state *)decoder->state;
    const spsh_bytes head = {state->head, state->head_bytes};
    spsh_pcm_part part = {
        head, {NULL, 0},
         0
    };
    uint64_t size = 0;
    spsh_status rc = spsh_pcm_range(head, first, count, &part.offset_bytes, &size, err);
    if (rc != SPSH_OK)
        return rc;
    if (size > state->piece_bytes_max)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, part.offset_bytes, "pcm: frames of %llu bytes",
                            (unsigned long long)size);
    if (!spsh__source_view(&decoder->source, part.offset_bytes, (size_t)size, &part.piece)) {
        part.piece.data = state->piece;
        rc = spsh__source_read(&decoder->source, part.offset_bytes, state->piece, (size_t)size,
                               &part.piece.size_bytes, err);
    }
    return rc == SPSH_OK ? spsh_pcm_decode_part(&part, first, count, pcm, err) : rc;
}

static spsh_status pcm_read(spsh_decoder *decoder, void *pcm, uint64_t capacity,
                            uint64_t *ret_samples, spsh_error *err)
{
    const pcm_state *state = (const pcm_state *)decoder->state;
    uint64_t left = decoder->info.samples - decoder->position;
    uint64_t wanted = capacity < left ? capacity : left;
    uint64_t done = 0;
    while (done < wanted) {
        uint64_t first = decoder->position + done;
        uint64_t fit =
            (uint64_t)state->piece_frames * SPSH_PCM_FRAME_SAMPLES - first % SPSH_PCM_FRAME_SAMPLES;
        uint64_t count = wanted - done < fit ? wanted - done : fit;
        spsh_status rc = decode_piece(decoder, first, count,
                                      (int16_t *)pcm + done * decoder->info.channels, err);
        if (rc != SPSH_OK)
            return rc;
        done += count;
    }
    *ret_samples = done;
    return SPSH_OK;
}

static spsh_status pcm_seek(spsh_decoder *decoder, uint64_t sample, spsh_error *err)
{
    (void)err;
    decoder->position = sample;
    return SPSH_OK;
}

static void pcm_judge(spsh_decoder *decoder, spsh_bytes file, spsh_decode_result *result)
{
    (void)decoder, (void)file;
    spsh__audio_judge_count(result);
}

static void pcm_close(spsh_decoder *decoder)
{
    pcm_state *state = (pcm_state *)decoder->state;
    if (state == NULL)
        return;
    spsh__buffer_free(&state->piece_memory, &decoder->allocator);
    spsh__buffer_free(&state->head_memory, &decoder->allocator);
    spsh__free(&decoder->allocator, state);
}

const spsh__audio_backend spsh__audio_pcm = {
    true, pcm_inspect, pcm_open, pcm_read, pcm_seek, pcm_judge, pcm_close,
};
