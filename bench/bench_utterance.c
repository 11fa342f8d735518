/* bench_utterance.c: what a decoder for each short utterance costs beside the decoding itself.
 *
 *     bench_utterance FLAC-FILE...
 *
 * The files' samples are cut into pieces of 0.5, 3 and 15 s, each encoded as a file of its own.
 * Then each way decodes all pieces to interleaved int16, one thread, five rounds, the ways in turn.
 * Printed: the median of microseconds of processor time a piece, the spread, and the ratio to the
 * bare loop, or for codec pcm to the bare function.
 *
 *     bare      libFLAC with one decoder for all pieces; spsh_pcm_decode
 *     open      spsh_decoder_open, read, free for each
 *     reopen    spsh_decoder_reopen, read
 */
#include <FLAC/stream_decoder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static spsh_error err = SPSH_ERROR_INIT;

static void must(spsh_status rc)
{
    if (rc == SPSH_OK)
        return;
    fprintf(stderr, "bench_utterance: %s\n", err.message);
    exit(1);
}

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
    static uint8_t data[1 << 24];
    spsh_decode_result result;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    size_t size = fread(data, 1, sizeof(data), file);
    (void)fclose(file);
    must(spsh_audio_decode_memory((spsh_bytes){data, size}, SPSH_CODEC_FLAC, NULL, take, NULL,
                                  &result, &err));
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
            must(spsh_flac_encode(speech + at, SPSH_SAMPLE_I16, 16, samples, 1, RATE_HZ, data, size,
                                  &size, &err));
        else
            must(spsh_pcm_encode(speech + at, samples, 1, data, size, &size, &err));
        pieces[piece_count++] = (piece){
            .memory = data, .bytes = {data, size},
                 .samples = samples, .codec = codec
        };
    }
}

/* ---- ways ---- */

static FLAC__StreamDecoder *library;
static const piece *current;
static size_t position;
static uint64_t written;

static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder *decoder,
                                             FLAC__byte buffer[], size_t *bytes, void *user)
{
    const size_t left = current->bytes.size_bytes - position;
    (void)decoder, (void)user;
    *bytes = *bytes < left ? *bytes : left;
    memcpy(buffer, current->bytes.data + position, *bytes);
    position += *bytes;
    return *bytes == 0 ? FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM
                       : FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

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

static void on_error(const FLAC__StreamDecoder *decoder, FLAC__StreamDecoderErrorStatus status,
                     void *user)
{
    (void)decoder, (void)status, (void)user;
}

static void decode_bare(const piece *p)
{
    if (p->codec == SPSH_CODEC_PCM) {
        must(spsh_pcm_decode(p->bytes.data, p->bytes.size_bytes, 0, p->samples, pcm, &err));
        return;
    }
    current = p;
    position = 0;
    written = 0;
    (void)FLAC__stream_decoder_init_stream(library, on_read, NULL, NULL, NULL, NULL, on_write, NULL,
                                           on_error, NULL);
    (void)FLAC__stream_decoder_process_until_end_of_stream(library);
    (void)FLAC__stream_decoder_finish(library);
}

static void read_all(spsh_decoder *decoder, const piece *p)
{
    uint64_t got = 0;
    must(spsh_decoder_read_i16(decoder, pcm, p->samples, &got, &err));
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
    must(spsh_decoder_open(&source, p->codec, &opt, &decoder, &err));
    read_all(decoder, p);
    spsh_decoder_free(decoder);
}

static spsh_decoder *kept;

static void decode_reopen(const piece *p)
{
    static spsh_memory_source memory; /* lives as long as the decoder looks at it */
    memory.data = p->bytes;
    const spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh_decoder_options opt = SPSH_DECODER_OPTIONS_INIT;
    opt.sample_rate_hz = RATE_HZ;
    opt.skip_md5 = true;
    if (kept == NULL)
        must(spsh_decoder_open(&source, p->codec, &opt, &kept, &err));
    else
        must(spsh_decoder_reopen(kept, &source, p->codec, &opt, &err));
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

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(spsh_codec codec, double seconds)
{
    double spent[WAYS][ROUNDS];
    cut(codec, (uint64_t)(seconds * RATE_HZ));
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t w = 0; w < WAYS; w++) {
            double begin = now_us();
            for (size_t i = 0; i < piece_count; i++) {
                ways[w].decode_fn(&pieces[i]);
                checksum += (uint64_t)(pcm[0] + pcm[pieces[i].samples - 1]);
            }
            spent[w][round] = (now_us() - begin) / (double)piece_count;
        }
    }
    for (size_t w = 0; w < WAYS; w++) {
        qsort(spent[w], ROUNDS, sizeof(double), compare_doubles);
        printf("%-5s %5.1f s  %-7s %6zu %10.2f us %7.1f %% %8.3f\n", spsh_codec_name(codec),
               seconds, ways[w].name, piece_count, spent[w][ROUNDS / 2],
               (spent[w][ROUNDS - 1] - spent[w][0]) / spent[w][ROUNDS / 2] * 100,
               spent[w][ROUNDS / 2] / spent[0][ROUNDS / 2]);
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
