/* bench_decode.c: how fast whole files in memory are decoded, compared with bare loops of the
 * libraries.
 *
 *     bench_decode FOLDER-OR-FILE... > table
 *
 * All files are read first. Then each way decodes all files of a codec, on one thread, in five
 * rounds. The ways run in turn, so that a busy machine disturbs all alike. Printed: the median of
 * MB of PCM and of seconds of audio per second of processor time, the spread, and the speed
 * relative to ours.
 *
 *     ours      spsh_audio_decode_memory: verdict, PCM hash, with and without FLAC's MD5
 *     libFLAC   decode to planes, nothing else; with and without its MD5
 *     sndfile   libsndfile's sf_readf_short over a virtual file: neither MD5 nor hash
 */
#include <FLAC/stream_decoder.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_files.h"
#include "bench_kit.h"
#include "speechshard/audio.h"

#define ROUNDS    5
#define FILES_MAX 100000

typedef struct bench_file {
    uint8_t *memory;
    spsh_bytes bytes;
    spsh_codec codec;
} bench_file;

/* Output of one decode of one file. */
typedef struct amount {
    double pcm_bytes;
    double seconds;
} amount;

typedef struct way {
    const char *name;
    amount (*decode_fn)(const bench_file *file);
    bool flac_only;
} way;

static bench_file files[FILES_MAX];
static size_t file_count;

static void take_file(const char *path)
{
    size_t got = 0;
    uint8_t *data = bench_read_file(path, &got);
    spsh_codec codec = spsh_audio_sniff(data, got < 4096 ? got : 4096, path);
    if (codec == SPSH_CODEC_UNKNOWN || file_count == FILES_MAX) {
        free(data);
        return;
    }
    files[file_count++] = (bench_file){
        .memory = data, .bytes = {data, got},
             .codec = codec
    };
}

/* ---- ours ---- */

static amount run_ours(const bench_file *file, bool skip_md5)
{
    spsh_decode_result result = SPSH_DECODE_RESULT_INIT;
    spsh_decoder_options options = SPSH_DECODER_OPTIONS_INIT;
    options.skip_md5 = skip_md5;
    if (spsh_audio_decode_memory(file->bytes, file->codec, &options, NULL, NULL, &result,
                                 &failure) != SPSH_OK)
        return (amount){0, 0};
    double sample_bytes = result.info.format == SPSH_SAMPLE_I16 ? 2 : 4;
    return (amount){(double)result.samples * result.info.channels * sample_bytes,
                    (double)result.samples / result.info.sample_rate_hz};
}

static amount decode_ours(const bench_file *file)
{
    return run_ours(file, false);
}

static amount decode_ours_no_md5(const bench_file *file)
{
    return run_ours(file, true);
}

/* ---- libFLAC ---- */

typedef struct flac_run {
    bench_stream stream;
    amount done;
} flac_run;

static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder *decoder,
                                               const FLAC__Frame *frame,
                                               const FLAC__int32 *const planes[], void *user)
{
    amount *done = &((flac_run *)user)->done;
    double sample_bytes = frame->header.bits_per_sample > 16 ? 4 : 2;
    (void)decoder, (void)planes;
    done->pcm_bytes += (double)frame->header.blocksize * frame->header.channels * sample_bytes;
    done->seconds += (double)frame->header.blocksize / frame->header.sample_rate;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static amount run_flac(const bench_file *file, bool md5)
{
    flac_run run = {
        {file->bytes, 0},
        {0,           0}
    };
    FLAC__StreamDecoder *decoder = FLAC__stream_decoder_new();
    if (decoder == NULL)
        return run.done;
    (void)FLAC__stream_decoder_set_md5_checking(decoder, md5);
    if (FLAC__stream_decoder_init_stream(decoder, bench_flac_read, NULL, NULL, NULL, NULL, on_write,
                                         NULL, bench_flac_ignore,
                                         &run) == FLAC__STREAM_DECODER_INIT_STATUS_OK)
        (void)FLAC__stream_decoder_process_until_end_of_stream(decoder);
    (void)FLAC__stream_decoder_finish(decoder);
    FLAC__stream_decoder_delete(decoder);
    return run.done;
}

static amount decode_flac(const bench_file *file)
{
    return run_flac(file, false);
}

static amount decode_flac_md5(const bench_file *file)
{
    return run_flac(file, true);
}

/* ---- libsndfile ---- */

static sf_count_t on_length(void *user)
{
    return (sf_count_t)((const bench_stream *)user)->bytes.size_bytes;
}

static sf_count_t on_seek(sf_count_t offset, int whence, void *user)
{
    bench_stream *file = (bench_stream *)user;
    sf_count_t base = whence == SEEK_SET   ? 0
                      : whence == SEEK_CUR ? (sf_count_t)file->position
                                           : on_length(user);
    if (base + offset < 0 || base + offset > on_length(user))
        return -1;
    file->position = (size_t)(base + offset);
    return base + offset;
}

static sf_count_t on_sndfile_read(void *dst, sf_count_t count, void *user)
{
    bench_stream *file = (bench_stream *)user;
    size_t left = file->bytes.size_bytes - file->position;
    size_t now = (size_t)count < left ? (size_t)count : left;
    memcpy(dst, file->bytes.data + file->position, now);
    file->position += now;
    return (sf_count_t)now;
}

static sf_count_t on_tell(void *user)
{
    return (sf_count_t)((const bench_stream *)user)->position;
}

static amount decode_sndfile(const bench_file *file)
{
    static short pcm[32768];
    SF_VIRTUAL_IO io = {on_length, on_seek, on_sndfile_read, NULL, on_tell};
    SF_INFO info = {0};
    bench_stream memory = {file->bytes, 0};
    amount done = {0, 0};
    if (file->codec == SPSH_CODEC_GSM || file->codec == SPSH_CODEC_PCM)
        return done;
    SNDFILE *decoder = sf_open_virtual(&io, SFM_READ, &info, &memory);
    if (decoder == NULL)
        return done;
    sf_count_t got = 0;
    sf_count_t fit = 32768 / info.channels;
    while ((got = sf_readf_short(decoder, pcm, fit)) > 0) {
        done.pcm_bytes += (double)got * info.channels * 2;
        done.seconds += (double)got / info.samplerate;
    }
    (void)sf_close(decoder);
    return done;
}

/* ---- table ---- */

static const way ways[] = {
    {"ours",         decode_ours,        false},
    {"ours, no MD5", decode_ours_no_md5, true },
    {"libFLAC",      decode_flac,        true },
    {"libFLAC, MD5", decode_flac_md5,    true },
    {"sndfile",      decode_sndfile,     false},
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

static void run_codec(spsh_codec codec)
{
    double seconds[WAY_COUNT][ROUNDS] = {{0}};
    double our_median = 0;
    amount total[WAY_COUNT] = {
        {0, 0}
    };
    size_t count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t w = 0; w < WAY_COUNT; w++) {
            if (ways[w].flac_only && codec != SPSH_CODEC_FLAC)
                continue;
            double begin = cpu_seconds();
            total[w] = (amount){0, 0};
            count = 0;
            for (size_t i = 0; i < file_count; i++) {
                if (files[i].codec != codec)
                    continue;
                amount done = ways[w].decode_fn(&files[i]);
                total[w].pcm_bytes += done.pcm_bytes;
                total[w].seconds += done.seconds;
                count++;
            }
            seconds[w][round] = cpu_seconds() - begin;
        }
    }
    for (size_t w = 0; w < WAY_COUNT; w++) {
        if (total[w].pcm_bytes <= 0)
            continue;
        const figure time = figure_of(seconds[w], ROUNDS);
        our_median = w == 0 ? time.median : our_median;
        printf("%-8s %-14s %7zu %10.1f %12.0f %11.1f %% %8.2f\n", spsh_codec_name(codec),
               ways[w].name, count, total[w].pcm_bytes / time.median * 1e-6,
               total[w].seconds / time.median, time.spread_percent, our_median / time.median);
    }
}

int main(int argc, char **argv)
{
    static const spsh_codec codecs[] = {SPSH_CODEC_WAV,    SPSH_CODEC_FLAC, SPSH_CODEC_MP3,
                                        SPSH_CODEC_VORBIS, SPSH_CODEC_OPUS, SPSH_CODEC_GSM};
    if (argc < 2) {
        fprintf(stderr, "usage: bench_decode FOLDER-OR-FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        bench_walk(argv[i], take_file);
    printf("%s\n", spsh_audio_versions());
    printf("%-8s %-14s %7s %10s %12s %13s %8s\n", "codec", "way", "files", "MB/s PCM",
           "x real time", "spread", "of ours");
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
        run_codec(codecs[i]);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].memory);
    return 0;
}
