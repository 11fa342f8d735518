/* bench_utterance.c: the cost of a decoder per short utterance, compared with the decoding itself.
 *
 *     bench_utterance FLAC-FILE...
 *
 * The files' samples are cut into pieces of 0.5, 3, and 15 s, each encoded as a separate file. Then
 * each way decodes all pieces to interleaved int16, on one thread, in five rounds, the ways in
 * turn. Printed: the median of microseconds of processor time per piece, the spread, and the ratio
 * to the bare loop, or for codec pcm to the bare function.
 *
 *     bare      libFLAC with one decoder for all pieces; spsh_pcm_decode
 *     open      spsh_decoder_open, read, free for each
 *     reopen    spsh_decoder_reopen, read
 */
#include <FLAC/stream_decoder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_files.h"
#include "bench_kit.h"
#include "speechshard/audio.h"
#include "speechshard/pcm.h"

enum { ROUNDS = 5, RATE_HZ = 16000, SAMPLES_MAX = RATE_HZ * 1800, PIECES_MAX = 3600 };

typedef struct piece {
    uint8_t *memory;
    spsh_bytes bytes;
    uint64_t samples;
    spsh_codec codec;
} piece;

static int16_t speech[SAMPLES_MAX];
static uint64_t speech_samples;
static piece pieces[PIECES_MAX];
static size_t piece_count;
static int16_t pcm[15 * RATE_HZ];
static uint64_t checksum;

static spsh_status take(void *user, const spsh_audio_info *info, const void *samples,
                        uint64_t count, spsh_error *ret_err)
{
    (void)user, (void)ret_err;
    if (info->format == SPSH_SAMPLE_I16 && info->channels == 1 &&
        count <= SAMPLES_MAX - speech_samples) {
        memcpy(speech + speech_samples, samples, (size_t)count * sizeof(*speech));
        speech_samples += count;
    }
    return SPSH_OK;
}

static void load(const char *path)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    size_t size = 0;
    uint8_t *data = bench_read_file(path, &size);
    check_ok(spsh_audio_decode_memory((spsh_bytes){data, size}, SPSH_CODEC_FLAC, NULL, take, NULL,
                                      &result, &failure));
    free(data);
}

static void cut(spsh_codec codec, uint64_t samples)
{
    for (size_t i = 0; i < piece_count; i++)
        free(pieces[i].memory);
    piece_count = 0;
    for (uint64_t at = 0; at + samples <= speech_samples && piece_count < PIECES_MAX;
         at += samples) {
        size_t size =
            codec == SPSH_CODEC_FLAC ? spsh_flac_bound(samples, 1, 16) : spsh_pcm_bound(samples, 1);
        uint8_t *data = malloc(size);
        if (data == NULL)
            exit(1);
        if (codec == SPSH_CODEC_FLAC)
            check_ok(spsh_flac_encode(speech + at, SPSH_SAMPLE_I16, 16, samples, 1, RATE_HZ, data,
                                      size, &size, &failure));
        else
            check_ok(spsh_pcm_encode(speech + at, samples, 1, data, size, &size, &failure));
        pieces[piece_count++] = (piece){
            .memory = data, .bytes = {data, size},
                 .samples = samples, .codec = codec
        };
    }
}

/* ---- ways ---- */

static FLAC__StreamDecoder *library;
static uint64_t written;

static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder *decoder,
                                               const FLAC__Frame *frame,
                                               const FLAC__int32 *const planes[], void *user)
{
    (void)decoder, (void)user;
    for (uint32_t i = 0; i < frame->header.blocksize; i++)
        pcm[written + i] = (int16_t)planes[0][i];
    written += frame->header.blocksize;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static void decode_bare(const piece *p)
{
    if (p->codec == SPSH_CODEC_PCM) {
        check_ok(spsh_pcm_decode(p->bytes.data, p->bytes.size_bytes, 0, p->samples, pcm, &failure));
        return;
    }
    bench_stream stream = {p->bytes, 0};
    written = 0;
    (void)FLAC__stream_decoder_init_stream(library, bench_flac_read, NULL, NULL, NULL, NULL,
                                           on_write, NULL, bench_flac_ignore, &stream);
    (void)FLAC__stream_decoder_process_until_end_of_stream(library);
    (void)FLAC__stream_decoder_finish(library);
}

static void read_all(spsh_decoder *decoder, const piece *p)
{
    uint64_t got = 0;
    check_ok(spsh_decoder_read_i16(decoder, pcm, p->samples, &got, &failure));
    if (got != p->samples)
        exit(1);
}

static void decode_open(const piece *p)
{
    spsh_memory_source memory = {p->bytes};
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    spsh_decoder *decoder = NULL;
    opt.sample_rate_hz = RATE_HZ;
    opt.skip_md5 = true;
    check_ok(spsh_decoder_open(&source, p->codec, &opt, &decoder, &failure));
    read_all(decoder, p);
    spsh_decoder_free(decoder);
}

static spsh_decoder *kept;

static void decode_reopen(const piece *p)
{
    static spsh_memory_source memory; /* must outlive the decoder */
    memory.data = p->bytes;
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    opt.sample_rate_hz = RATE_HZ;
    opt.skip_md5 = true;
    if (kept == NULL)
        check_ok(spsh_decoder_open(&source, p->codec, &opt, &kept, &failure));
    else
        check_ok(spsh_decoder_reopen(kept, &source, p->codec, &opt, &failure));
    read_all(kept, p);
}

static const struct {
    const char *name;
    void (*decode_fn)(const piece *p);
} ways[] = {
    {"bare",   decode_bare  },
    {"open",   decode_open  },
    {"reopen", decode_reopen},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void measure(spsh_codec codec, double seconds)
{
    double spent[WAYS][ROUNDS];
    double bare_median = 0;
    cut(codec, (uint64_t)(seconds * RATE_HZ));
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t w = 0; w < WAYS; w++) {
            const double begin = cpu_seconds();
            for (size_t i = 0; i < piece_count; i++) {
                ways[w].decode_fn(&pieces[i]);
                checksum += (uint64_t)(pcm[0] + pcm[pieces[i].samples - 1]);
            }
            spent[w][round] = (cpu_seconds() - begin) * 1e6 / (double)piece_count;
        }
    }
    for (size_t w = 0; w < WAYS; w++) {
        const figure time = figure_of(spent[w], ROUNDS);
        bare_median = w == 0 ? time.median : bare_median;
        printf("%-5s %5.1f s  %-7s %6zu %10.2f us %7.1f %% %8.3f\n", spsh_codec_name(codec),
               seconds, ways[w].name, piece_count, time.median, time.spread_percent,
               time.median / bare_median);
    }
}

int main(int argc, char **argv)
{
    static const double lengths[] = {0.5, 3, 15};
    for (int i = 1; i < argc; i++)
        load(argv[i]);
    library = FLAC__stream_decoder_new();
    if (speech_samples < (uint64_t)15 * RATE_HZ || library == NULL) {
        fprintf(stderr, "usage: bench_utterance FLAC-FILE...   (mono, 16 bits, 15 s at least)\n");
        return 2;
    }
    printf("%s\ncodec length     way     pieces       median   spread  of bare\n",
           spsh_audio_versions());
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        measure(SPSH_CODEC_FLAC, lengths[i]);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        measure(SPSH_CODEC_PCM, lengths[i]);
    spsh_decoder_free(kept);
    FLAC__stream_decoder_delete(library);
    return checksum == 0;
}
