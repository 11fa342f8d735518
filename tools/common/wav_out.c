/* wav_out.c: RIFF, little-endian throughout:
 *
 *     "RIFF"  u32 size of the rest   "WAVE"
 *     "fmt "  u32 16 (float: 18)
 *             u16 tag (1 integer, 3 float)   u16 channels   u32 rate   u32 bytes per second
 *             u16 bytes per sample of all channels   u16 bits   [float: u16 0]
 *     [float: "fact"  u32 4   u32 samples]
 *     "data"  u32 size   samples   [a zero byte if the size is odd]
 *
 * The lengths are known before the first sample is decoded, so the output may be a pipe. A decode
 * that ends early is an error of the reader: a header never announces more samples than follow.
 */
#include "wav_out.h"
#include "speechshard/inside.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES_MAX = 58,
    CHUNK_BYTES = 1 << 16, /* bytes of samples in memory, at 4 bytes per value */
    PAYLOAD_CHUNK_BYTES = 1 << 20,
    PIECE_VALUES = 4096,
    TAG_INTEGER = 1,
    TAG_FLOAT = 3,
};

static uint64_t data_bytes(const spsh__wav *wav)
{
    return wav->samples * wav->channels * (wav->bits_per_sample / 8);
}

static size_t header_bytes(const spsh__wav *wav)
{
    return wav->format == SPSH_SAMPLE_F32 ? HEADER_BYTES_MAX : 44;
}

uint64_t spsh__wav_file_bytes(const spsh__wav *wav)
{
    return header_bytes(wav) + data_bytes(wav) + data_bytes(wav) % 2;
}

spsh_status spsh__wav_describe(spsh_reader *reader, uint64_t position, uint64_t samples,
                               spsh__wav *ret_wav, spsh_error *err)
{
    const spsh_record *record = NULL;
    spsh_status rc = spsh_reader_record(reader, position, &record, err);
    if (rc != SPSH_OK)
        return rc;
    if (record->codec == SPSH_CODEC_FEATURES)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "%.*s: the dataset holds features, not audio",
                         (int)record->id.size_bytes, (const char *)record->id.data);
    uint32_t bits = 32;
    if (record->format == SPSH_SAMPLE_I16)
        bits = 16;
    else if (record->format == SPSH_SAMPLE_I32 && record->bits_per_sample <= 24)
        bits = 24;
    if (samples > (UINT32_MAX - HEADER_BYTES_MAX - 1) / (bits / 8) / record->channels)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%.*s: %llu samples of %u channels do not fit into a WAV file of 4 GiB",
                         (int)record->id.size_bytes, (const char *)record->id.data,
                         (unsigned long long)samples, record->channels);
    *ret_wav = (spsh__wav){record->format, bits, record->channels, record->sample_rate_hz, samples};
    return SPSH_OK;
}

static uint8_t *put(uint8_t *at, uint32_t value, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
    return at + size_bytes;
}

static uint8_t *put_tag(uint8_t *at, const char tag[5])
{
    memcpy(at, tag, 4);
    return at + 4;
}

/* wav_describe has made sure that everything fits. */
static void make_header(const spsh__wav *wav, uint8_t header[HEADER_BYTES_MAX])
{
    bool is_float = wav->format == SPSH_SAMPLE_F32;
    uint32_t frame_bytes = wav->channels * (wav->bits_per_sample / 8);
    uint8_t *at = put_tag(header, "RIFF");
    at = put(at, (uint32_t)(spsh__wav_file_bytes(wav) - 8), 4);
    at = put_tag(at, "WAVE");
    at = put_tag(at, "fmt ");
    at = put(at, is_float ? 18 : 16, 4);
    at = put(at, is_float ? TAG_FLOAT : TAG_INTEGER, 2);
    at = put(at, wav->channels, 2);
    at = put(at, wav->sample_rate_hz, 4);
    at = put(at, wav->sample_rate_hz * frame_bytes, 4);
    at = put(at, frame_bytes, 2);
    at = put(at, wav->bits_per_sample, 2);
    if (is_float) {
        at = put(at, 0, 2);
        at = put_tag(at, "fact");
        at = put(at, 4, 4);
        at = put(at, (uint32_t)wav->samples, 4);
    }
    at = put_tag(at, "data");
    put(at, (uint32_t)data_bytes(wav), 4);
}

typedef union chunk {
    int16_t i16[CHUNK_BYTES / 4];
    int32_t i32[CHUNK_BYTES / 4];
    float f32[CHUNK_BYTES / 4];
} chunk;

/* The utterance that is being written. */
typedef struct source {
    spsh_reader *reader;
    uint64_t position;
    uint64_t done; /* samples */
} source;

static spsh_status read_chunk(const spsh__wav *wav, const source *s, chunk *pcm,
                              uint64_t *ret_samples, spsh_error *err)
{
    uint64_t capacity = CHUNK_BYTES / 4 / wav->channels;
    if (wav->format == SPSH_SAMPLE_I16)
        return spsh_reader_read_i16(s->reader, s->position, s->done, pcm->i16, capacity,
                                    ret_samples, err);
    if (wav->format == SPSH_SAMPLE_I32)
        return spsh_reader_read_i32(s->reader, s->position, s->done, pcm->i32, capacity,
                                    ret_samples, err);
    return spsh_reader_read_f32(s->reader, s->position, s->done, pcm->f32, capacity, ret_samples,
                                err);
}

/* Convert values to file bytes. 32-bit integers are left-justified, so 24-bit samples are their
 * upper three bytes. */
static size_t encode(const spsh__wav *wav, const chunk *pcm, size_t values, uint8_t *bytes)
{
    uint8_t *at = bytes;
    for (size_t i = 0; i < values; i++) {
        uint32_t bits = 0;
        if (wav->format == SPSH_SAMPLE_I16)
            at = put(at, (uint16_t)pcm->i16[i], 2);
        else if (wav->format == SPSH_SAMPLE_I32 && wav->bits_per_sample == 24)
            at = put(at, (uint32_t)pcm->i32[i] >> 8, 3);
        else if (wav->format == SPSH_SAMPLE_I32)
            at = put(at, (uint32_t)pcm->i32[i], 4);
        else {
            memcpy(&bits, &pcm->f32[i], sizeof(bits));
            at = put(at, bits, 4);
        }
    }
    return (size_t)(at - bytes);
}

static spsh_status write_head(const spsh__wav *wav, const spsh__byte_sink *sink, spsh_error *err)
{
    uint8_t header[HEADER_BYTES_MAX];
    make_header(wav, header);
    return sink->write_fn(sink->user, header, header_bytes(wav), err);
}

spsh_status spsh__wav_write_i16(const spsh__wav *wav, const int16_t *samples,
                                const spsh__byte_sink *sink, spsh_error *err)
{
    uint8_t bytes[2 * PIECE_VALUES];
    const uint64_t count = wav->samples * wav->channels;
    spsh_status rc = write_head(wav, sink, err);
    for (uint64_t done = 0; rc == SPSH_OK && done < count; done += PIECE_VALUES) {
        const uint64_t left = count - done;
        const size_t values = left < PIECE_VALUES ? (size_t)left : PIECE_VALUES;
        for (size_t i = 0; i < values; i++)
            (void)put(bytes + 2 * i, (uint16_t)samples[done + i], 2);
        rc = sink->write_fn(sink->user, bytes, 2 * values, err);
    }
    return rc;
}

spsh_status spsh__wav_write(const spsh__wav *wav, spsh_reader *reader, uint64_t position,
                            const spsh__byte_sink *sink, spsh_error *err)
{
    source from = {reader, position, 0};
    spsh_status rc = SPSH_OK;
    chunk *pcm = (chunk *)malloc(sizeof(*pcm));
    uint8_t *bytes = (uint8_t *)malloc(CHUNK_BYTES);
    if (pcm == NULL || bytes == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    rc = write_head(wav, sink, err);
    while (rc == SPSH_OK && from.done < wav->samples) {
        uint64_t samples = 0;
        rc = read_chunk(wav, &from, pcm, &samples, err);
        if (rc == SPSH_OK && (samples == 0 || samples > wav->samples - from.done))
            rc = SPSH_FAIL(err, SPSH_E_AUDIO, "the audio ends after %llu of %llu samples",
                           (unsigned long long)from.done, (unsigned long long)wav->samples);
        if (rc == SPSH_OK)
            rc = sink->write_fn(sink->user, bytes,
                                encode(wav, pcm, (size_t)samples * wav->channels, bytes), err);
        from.done += samples;
    }
    if (rc == SPSH_OK && data_bytes(wav) % 2 != 0)
        rc = sink->write_fn(sink->user, "", 1, err);
out:
    free(bytes);
    free(pcm);
    return rc;
}

spsh_status spsh__payload_write(spsh_reader *reader, uint64_t position, const spsh__byte_sink *sink,
                                spsh_error *err)
{
    const spsh_record *record = NULL;
    spsh_status rc = spsh_reader_record(reader, position, &record, err);
    if (rc != SPSH_OK)
        return rc;
    uint64_t payload_bytes = record->payload_bytes;
    uint8_t *bytes = (uint8_t *)malloc(PAYLOAD_CHUNK_BYTES);
    if (bytes == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t done = 0; rc == SPSH_OK && done < payload_bytes;) {
        uint64_t left = payload_bytes - done;
        size_t size = left < PAYLOAD_CHUNK_BYTES ? (size_t)left : PAYLOAD_CHUNK_BYTES;
        rc = spsh_reader_payload(reader, position, done, bytes, size, err);
        if (rc == SPSH_OK)
            rc = sink->write_fn(sink->user, bytes, size, err);
        done += size;
    }
    free(bytes);
    return rc;
}

const char *spsh__payload_extension(spsh_codec codec)
{
    switch (codec) {
    case SPSH_CODEC_WAV: return "wav";
    case SPSH_CODEC_FLAC: return "flac";
    case SPSH_CODEC_MP3: return "mp3";
    case SPSH_CODEC_VORBIS: return "ogg";
    case SPSH_CODEC_OPUS: return "opus";
    case SPSH_CODEC_GSM: return "gsm";
    case SPSH_CODEC_PCM: return "spcm";
    case SPSH_CODEC_FEATURES: return "sfea";
    case SPSH_CODEC_UNKNOWN: break;
    }
    return "bin";
}
