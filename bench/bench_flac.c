/* bench_flac.c: how fast FLAC frames are decoded, by libFLAC and by our own decoder.
 *
 *     bench_flac FOLDER-OR-FILE... > table
 *
 * All FLAC files of at most 16 bits are read first. Then each way decodes all of them to planes of
 * int32, nothing else, one thread, ROUNDS rounds, the ways in turn, so that a busy machine hits all
 * alike. Printed: the median of nanoseconds of processor time a sample of one channel, the spread,
 * processor seconds an hour of audio, and how much faster than libFLAC that is. Ours must take
 * every frame; a frame that is left to libFLAC is counted as refused.
 */
#include <FLAC/stream_decoder.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "audio_internal.h"
#include "flac_decode.h"

#define ROUNDS    7
#define FILES_MAX 100000

typedef struct bench_file {
    uint8_t *memory;
    spsh_bytes bytes;
    spsh__flac_shape shape;
    uint64_t first_frame_offset_bytes;
} bench_file;

/* What one round of one way produced. */
typedef struct amount {
    uint64_t values; /* samples times channels */
    double seconds;  /* of audio */
    uint64_t refused;
    uint64_t sum; /* of all values: the ways must agree */
} amount;

typedef struct flac_run {
    spsh_bytes bytes;
    size_t position;
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

static void take_file(uint8_t *data, size_t size_bytes)
{
    bench_file file = {
        data, {data, size_bytes},
         { 0, 0,            0, 0},
         0
    };
    spsh_memory_source memory = {file.bytes};
    spsh_audio_source source = spsh_audio_source_memory(&memory);
    spsh__window window;
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

static void load_file(const char *path, size_t size_bytes)
{
    uint8_t *data = (uint8_t *)malloc(size_bytes + 1);
    FILE *file = fopen(path, "rb");
    if (file == NULL || data == NULL) {
        perror(path);
        exit(1);
    }
    size_bytes = fread(data, 1, size_bytes, file);
    (void)fclose(file);
    take_file(data, size_bytes);
}

static void load_path(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        exit(1);
    }
    if (S_ISREG(info.st_mode))
        load_file(path, (size_t)info.st_size);
    if (!S_ISDIR(info.st_mode))
        return;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        exit(1);
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char child[4096];
        int length = snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && length > 0 && (size_t)length < sizeof(child))
            load_path(child);
    }
    (void)closedir(folder);
}

/* ---- the ways ---- */

static FLAC__StreamDecoderReadStatus on_read(const FLAC__StreamDecoder *library,
                                             FLAC__byte buffer[], size_t *bytes, void *user)
{
    flac_run *run = (flac_run *)user;
    size_t left = run->bytes.size_bytes - run->position;
    (void)library;
    *bytes = *bytes < left ? *bytes : left;
    memcpy(buffer, run->bytes.data + run->position, *bytes);
    run->position += *bytes;
    return *bytes == 0 ? FLAC__STREAM_DECODER_READ_STATUS_END_OF_STREAM
                       : FLAC__STREAM_DECODER_READ_STATUS_CONTINUE;
}

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
    flac_run run = {
        {NULL, 0},
        0, done
    };
    FLAC__StreamDecoder *library = FLAC__stream_decoder_new();
    if (library == NULL)
        exit(1);
    (void)FLAC__stream_decoder_set_md5_checking(library, false);
    if (FLAC__stream_decoder_init_stream(library, on_read, NULL, NULL, NULL, NULL, on_write, NULL,
                                         on_error, &run) != FLAC__STREAM_DECODER_INIT_STATUS_OK)
        exit(1);
    for (size_t i = 0; i < file_count; i++) {
        run.bytes = files[i].bytes;
        run.position = 0;
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

static double now_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double seconds[WAY_COUNT][ROUNDS] = {{0}};
    amount amounts[WAY_COUNT] = {
        {0, 0, 0, 0}
    };
    if (argc < 2) {
        fprintf(stderr, "usage: bench_flac FOLDER-OR-FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        load_path(argv[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t w = 0; w < WAY_COUNT; w++) {
            double begin = now_seconds();
            amounts[w] = (amount){0, 0, 0, 0};
            ways[w].decode_fn(&amounts[w]);
            seconds[w][round] = now_seconds() - begin;
        }
    }
    printf("%-14s %9s %9s %14s %8s %8s %8s\n", "way", "ns/sample", "spread", "s / audio hour",
           "ratio", "refused", "agrees");
    for (size_t w = 0; w < WAY_COUNT && amounts[0].values > 0; w++) {
        qsort(seconds[w], ROUNDS, sizeof(seconds[w][0]), compare_doubles);
        double median = seconds[w][ROUNDS / 2];
        printf("%-14s %9.2f %7.1f %% %14.4f %8.2f %8llu %8s\n", ways[w].name,
               median * 1e9 / (double)amounts[w].values,
               (seconds[w][ROUNDS - 1] - seconds[w][0]) / median * 100,
               median * 3600 / amounts[w].seconds, seconds[0][ROUNDS / 2] / median,
               (unsigned long long)amounts[w].refused,
               amounts[w].sum == amounts[0].sum ? "yes" : "no");
    }
    for (size_t i = 0; i < file_count; i++)
        free(files[i].memory);
    return 0;
}
