/* fuzz_audio.c: arbitrary bytes through sniffing, inspection, a whole decode, and a decoder that
 * seeks; the first byte chooses the codec that the caller believes in. Output is bounded. In half
 * of the inputs the CRCs of Ogg pages are corrected first. Otherwise no damage would reach a
 * decoder. */
#include <stdlib.h>

#include "audio/audio_internal.h"

#define PCM_BYTES_MAX 262144
#define READ_SAMPLES  300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check_decode(spsh_bytes file, spsh_codec codec, const spsh_decoder_options *options)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_decode_result again = SPSH_DECODE_RESULT_INIT;
    spsh_status rc = spsh_audio_decode_memory(file, codec, options, NULL, NULL, &result, NULL);
    if (rc != SPSH_OK)
        return;
    uint64_t sample_bytes = result.info.format == SPSH_SAMPLE_I16 ? 2 : 4;
    if (result.info.channels == 0 || result.info.sample_rate_hz == 0 ||
        (result.verdict != SPSH_DECODE_DECODER_LIMIT &&
         result.samples * result.info.channels * sample_bytes > PCM_BYTES_MAX))
        abort();
    /* The same bytes give the same samples. */
    if (spsh_audio_decode_memory(file, codec, options, NULL, NULL, &again, NULL) != SPSH_OK ||
        again.samples != result.samples || again.verdict != result.verdict)
        abort();
    for (int i = 0; i < 16; i++)
        if (again.pcm_hash[i] != result.pcm_hash[i])
            abort();
}

/* A decoder that has decoded another stream decodes like a new one. */
static void check_reopen(spsh_decoder *decoder, spsh_bytes file, spsh_codec codec,
                         const spsh_decoder_options *options, spsh_status want,
                         uint64_t want_samples, const float *want_pcm)
{
    static float pcm[READ_SAMPLES * 64];
    spsh_memory_source cut = {
        {file.data, file.size_bytes / 2}
    };
    spsh_memory_source memory = {file};
    const spsh_audio_source cut_source = spsh_audio_source_memory(&cut);
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    uint64_t got = 0;
    if (spsh_decoder_reopen(decoder, &cut_source, codec, options, NULL) == SPSH_OK)
        (void)!spsh_decoder_read_f32(decoder, pcm, READ_SAMPLES, &got, NULL);
    else if (spsh_decoder_read_f32(decoder, pcm, READ_SAMPLES, &got, NULL) != SPSH_E_INVALID_ARG)
        abort();
    if (spsh_decoder_reopen(decoder, &source, codec, options, NULL) != SPSH_OK)
        abort();
    got = 0;
    const spsh_status rc = spsh_decoder_read_f32(decoder, pcm, READ_SAMPLES, &got, NULL);
    const size_t count = (size_t)got * spsh_decoder_info(decoder)->channels;
    if (rc != want || got != want_samples || memcmp(pcm, want_pcm, count * sizeof(*pcm)) != 0)
        abort();
}

static void check_decoder(spsh_bytes file, spsh_codec codec, const spsh_decoder_options *options)
{
    static float first[READ_SAMPLES * 64];
    static float pcm[READ_SAMPLES * 64];
    spsh_memory_source memory = {file};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder *decoder = NULL;
    uint64_t first_got = 0;
    uint64_t got = 0;
    if (spsh_decoder_open(&source, codec, options, &decoder, NULL) != SPSH_OK)
        return;
    spsh_status rc = spsh_decoder_read_f32(decoder, first, READ_SAMPLES, &first_got, NULL);
    if (rc == SPSH_OK && first_got > READ_SAMPLES)
        abort();
    if (spsh_decoder_seek(decoder, 1000, NULL) == SPSH_OK)
        (void)!spsh_decoder_read_f32(decoder, pcm, READ_SAMPLES, &got, NULL);
    if (spsh_decoder_seek(decoder, 1, NULL) == SPSH_OK)
        (void)!spsh_decoder_read_f32(decoder, pcm, READ_SAMPLES, &got, NULL);
    check_reopen(decoder, file, codec, options, rc, first_got, first);
    spsh_decoder_free(decoder);
}

/* Correct the CRC of everything that looks like a complete page. */
static void reseal_pages(uint8_t *data, size_t size_bytes)
{
    for (size_t at = 0; at + 27 <= size_bytes; at++) {
        size_t page_bytes = 27 + (size_t)data[at + 26];
        if (memcmp(data + at, "OggS", 4) != 0 || page_bytes > size_bytes - at)
            continue;
        for (size_t i = 27; i < 27 + (size_t)data[at + 26]; i++)
            page_bytes += data[at + i];
        if (page_bytes <= size_bytes - at)
            spsh__ogg_store_crc(data + at, page_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const spsh_codec codecs[] = {SPSH_CODEC_UNKNOWN, SPSH_CODEC_WAV,    SPSH_CODEC_FLAC,
                                        SPSH_CODEC_MP3,     SPSH_CODEC_VORBIS, SPSH_CODEC_OPUS,
                                        SPSH_CODEC_GSM,     SPSH_CODEC_PCM};
    spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
    spsh_audio_info info;
    spsh_seek_point points[4];
    uint64_t count = 0;
    if (size_bytes == 0)
        return 0;
    spsh_codec codec = codecs[data[0] % 8];
    uint8_t flags = data[0] / 8;
    uint8_t *copy = (uint8_t *)malloc(size_bytes - 1 == 0 ? 1 : size_bytes - 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, data + 1, size_bytes - 1);
    if ((flags & 4) != 0)
        reseal_pages(copy, size_bytes - 1);
    spsh_bytes file = {copy, size_bytes - 1};
    spsh_memory_source memory = {file};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    options.pcm_bytes_max = PCM_BYTES_MAX;
    options.sample_rate_hz = 16000;
    options.skip_md5 = (flags & 1) != 0;
    (void)spsh_audio_sniff(file.data, file.size_bytes, "x.gsm");
    (void)!spsh_audio_inspect(&source, codec, &info, NULL);
    check_decode(file, codec, &options);
    if (spsh_audio_seek_points(file, codec, 1, points, 4, &count, NULL) == SPSH_OK &&
        (flags & 2) != 0) {
        options.seek_points = points;
        options.seek_point_count = count < 4 ? count : 4;
    }
    check_decoder(file, codec, &options);
    free(copy);
    return 0;
}
