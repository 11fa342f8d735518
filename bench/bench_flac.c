/* bench_flac.c: how fast FLAC frames are decoded, by libFLAC and by our own decoder.
 *
 *     bench_flac FOLDER-OR-FILE... > table
 *
 * All FLAC files of at most 16 bits are read first. Then each way decodes all of them to planes of
 * int32, nothing else, on one thread, in ROUNDS rounds. The ways run in turn, so that a busy
 * machine slows all alike. Printed: the median processor time in nanoseconds per sample of one
 * channel, the spread, processor seconds per hour of audio, and the speed relative to libFLAC. Our
 * decoder must decode every frame. A frame that it leaves to libFLAC is counted as refused.
 */
#include <FLAC/stream_decoder.h>
#include <stdio.h>
#include <stdlib.h>

#include "audio/audio_internal.h"
#include "audio/flac_decode.h"
#include "bench_files.h"
#include "bench_kit.h"

#define ROUNDS    7
#define FILES_MAX 100000

typedef struct bench_file {
    uint8_t *memory;
    spsh_bytes bytes;
    spsh__flac_shape shape;
    uint64_t first_frame_offset_bytes;
} bench_file;

/* Output of one round of one way. */
typedef struct amount {
    uint64_t values; /* samples times channels */
    double seconds;  /* seconds of audio */
    uint64_t refused;
    uint64_t sum; /* sum of all values, which must be the same for all ways */
} amount;

typedef struct flac_run {
    bench_stream stream;
    amount *done;
} flac_run;

static bench_file files[FILES_MAX];
static size_t file_count;
static int32_t planes[8 * 65535];

static void add_values(amount *done, const int32_t *plane, uint32_t count)
{
    done->values += count;
    done->sum = done->sum * 31 + (uint32_t)plane[0] + (uint32_t)plane[count - 1];
}

static void take_file(const char *path)
{
    size_t size_bytes = 0;
    uint8_t *data = bench_read_file(path, &size_bytes);
    bench_file file = {
        data, {data, size_bytes},
         { 0, 0,            0, 0},
         0
    };
    spsh_memory_source memory = {file.bytes};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh__audio_window window;
    spsh_audio_info info = {.codec = SPSH_CODEC_FLAC};
    spsh__flac_head head;
    spsh__window_init(&window, &source);
    if (file_count == FILES_MAX || spsh__flac_parse_head(&window, &info, &head, NULL) != SPSH_OK ||
        info.bits_per_sample > SPSH__FLAC_BITS_MAX) {
        free(data);
        return;
    }
    file.shape = (spsh__flac_shape){info.channels, info.sample_rate_hz, info.bits_per_sample,
                                    head.block_samples_max};
    file.first_frame_offset_bytes = head.first_frame_offset_bytes;
    files[file_count++] = file;
}

/* ---- the ways ---- */

static FLAC__StreamDecoderWriteStatus on_write(const FLAC__StreamDecoder *library,
                                               const FLAC__Frame *frame,
                                               const FLAC__int32 *const channels[], void *user)
{
    amount *done = ((flac_run *)user)->done;
    (void)library;
    for (uint32_t c = 0; c < frame->header.channels; c++)
        add_values(done, channels[c], frame->header.blocksize);
    done->seconds += (double)frame->header.blocksize / frame->header.sample_rate;
    return FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE;
}

static void on_error(const FLAC__StreamDecoder *library, FLAC__StreamDecoderErrorStatus status,
                     void *user)
{
    (void)library, (void)status;
    ((flac_run *)user)->done->refused++;
}

/* One decoder for all files. */
static void decode_library(amount *done)
{
    flac_run run = {.done = done};
    FLAC__StreamDecoder *library = FLAC__stream_decoder_new();
    if (library == NULL)
        exit(1);
    (void)FLAC__stream_decoder_set_md5_checking(library, false);
    if (FLAC__stream_decoder_init_stream(library, bench_flac_read, NULL, NULL, NULL, NULL, on_write,
                                         NULL, on_error,
                                         &run) != FLAC__STREAM_DECODER_INIT_STATUS_OK)
        exit(1);
    for (size_t i = 0; i < file_count; i++) {
        run.stream = (bench_stream){files[i].bytes, 0};
        (void)FLAC__stream_decoder_reset(library);
        (void)FLAC__stream_decoder_process_until_end_of_stream(library);
    }
    FLAC__stream_decoder_delete(library);
}

static void decode_ours(amount *done)
{
    for (size_t i = 0; i < file_count; i++) {
        const bench_file *file = &files[i];
        uint64_t offset = file->first_frame_offset_bytes;
        while (offset < file->bytes.size_bytes) {
            spsh_bytes rest = {file->bytes.data + offset, file->bytes.size_bytes - (size_t)offset};
            spsh__flac_frame frame;
            if (!spsh__flac_decode_frame(rest, &file->shape, planes, &frame)) {
                done->refused++;
                break;
            }
            for (uint32_t c = 0; c < frame.channels; c++)
                add_values(done, planes + (size_t)c * file->shape.block_samples_max,
                           frame.block_samples);
            done->seconds += (double)frame.block_samples / file->shape.sample_rate_hz;
            offset += frame.size_bytes;
        }
    }
}

static void decode_ours_plain_c(amount *done)
{
    spsh__flac_force_plain_c(true);
    decode_ours(done);
    spsh__flac_force_plain_c(false);
}

/* ---- table ---- */

typedef struct way {
    const char *name;
    void (*decode_fn)(amount *done);
} way;

static const way ways[] = {
    {"libFLAC",       decode_library     },
    {"ours",          decode_ours        },
    {"ours, plain C", decode_ours_plain_c},
};
#define WAY_COUNT (sizeof(ways) / sizeof(ways[0]))

int main(int argc, char **argv)
{
    double seconds[WAY_COUNT][ROUNDS] = {{0}};
    double first_median = 0;
    amount amounts[WAY_COUNT] = {
        {0, 0, 0, 0}
    };
    if (argc < 2) {
        fprintf(stderr, "usage: bench_flac FOLDER-OR-FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        bench_walk(argv[i], take_file);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t w = 0; w < WAY_COUNT; w++) {
            double begin = cpu_seconds();
            amounts[w] = (amount){0, 0, 0, 0};
            ways[w].decode_fn(&amounts[w]);
            seconds[w][round] = cpu_seconds() - begin;
        }
    }
    printf("%-14s %9s %9s %14s %8s %8s %8s\n", "way", "ns/sample", "spread", "s / audio hour",
           "ratio", "refused", "agrees");
    for (size_t w = 0; w < WAY_COUNT && amounts[0].values > 0; w++) {
        const figure time = figure_of(seconds[w], ROUNDS);
        first_median = w == 0 ? time.median : first_median;
        printf("%-14s %9.2f %7.1f %% %14.4f %8.2f %8llu %8s\n", ways[w].name,
               time.median * 1e9 / (double)amounts[w].values, time.spread_percent,
               time.median * 3600 / amounts[w].seconds, first_median / time.median,
               (unsigned long long)amounts[w].refused,
               amounts[w].sum == amounts[0].sum ? "yes" : "no");
    }
    for (size_t i = 0; i < file_count; i++)
        free(files[i].memory);
    return 0;
}
