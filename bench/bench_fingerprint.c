/* bench_fingerprint.c: how fast fingerprints are made, without decoding, and how many keys they
 * have.
 *
 *     bench_fingerprint FILE-OR-FOLDER... > results/fingerprint-NAME.json
 *
 * All files that libsndfile opens are decoded to 16 bits first (the first channel of several). Then
 * one thread makes the prints of all, ROUNDS times. The result of a round is seconds of audio per
 * second of the thread's processor time. `align_ms`: aligning a file with itself, at most 5
 * seconds.
 */
#include <sndfile.h>

#include "bench_files.h"
#include "bench_kit.h"
#include "fingerprint/align.h"

enum { ROUNDS = 7, FILES_MAX = 100000, KEY_BYTES = 16 };

typedef struct bench_file {
    int16_t *pcm;
    size_t count;
    uint32_t rate_hz;
} bench_file;

static bench_file files[FILES_MAX];
static size_t file_count;

static void take(const char *path)
{
    SF_INFO info = {0};
    SNDFILE *sound = sf_open(path, SFM_READ, &info);
    if (sound == NULL)
        return;
    must(file_count < FILES_MAX, "too many files");
    if (info.samplerate >= 8000 && info.frames > 0) {
        const size_t channels = (size_t)info.channels;
        bench_file *file = &files[file_count++];
        file->pcm = calloc((size_t)info.frames * channels, sizeof(*file->pcm));
        must(file->pcm != NULL, "memory");
        file->count = (size_t)sf_readf_short(sound, file->pcm, info.frames);
        file->rate_hz = (uint32_t)info.samplerate;
        for (size_t i = 0; i < file->count; i++)
            file->pcm[i] = file->pcm[i * channels];
    }
    (void)sf_close(sound);
}

typedef struct tally {
    uint64_t frames;
    uint64_t active;
    uint64_t keys;
} tally;

static spsh_status count_frames(void *user, uint64_t first, const spsh__print_frame *frames,
                                size_t count, spsh_error *error)
{
    tally *sum = user;
    (void)first;
    (void)error;
    sum->frames += count;
    for (size_t i = 0; i < count; i++)
        sum->active += frames[i].is_active;
    return SPSH_OK;
}

static spsh_status count_key(void *user, const spsh__print_key *key, spsh_error *error)
{
    tally *sum = user;
    (void)key;
    (void)error;
    sum->keys++;
    return SPSH_OK;
}

/* Make the prints of all files. Adjacent files of one rate share an object. */
static double run_all(tally *sum)
{
    const double start = cpu_seconds();
    spsh__fingerprint *maker = NULL;
    uint32_t rate_hz = 0;
    for (size_t i = 0; i < file_count; i++) {
        if (files[i].rate_hz != rate_hz) {
            spsh__fingerprint_free(maker);
            rate_hz = files[i].rate_hz;
            check_ok(spsh__fingerprint_new(
                rate_hz,
                (spsh__print_sink){.frames_fn = count_frames, .key_fn = count_key, .user = sum},
                &maker, &failure));
        }
        check_ok(spsh__fingerprint_push(maker, files[i].pcm, files[i].count, &failure));
        check_ok(spsh__fingerprint_finish(maker, &failure));
    }
    spsh__fingerprint_free(maker);
    return cpu_seconds() - start;
}

/* Milliseconds to judge each of the first files against itself. */
static figure time_align(void)
{
    enum { ALIGNED = 51, SECONDS = 5 };
    static double times[ALIGNED];
    const spsh__align_limits *limits = &spsh__align_limits_default;
    size_t count = 0;
    for (size_t i = 0; i < file_count && count < ALIGNED; i++) {
        const size_t most = (size_t)SECONDS * files[i].rate_hz;
        const size_t samples = files[i].count < most ? files[i].count : most;
        spsh__print print = {0};
        spsh__alignment found = {0};
        check_ok(spsh__print_make(files[i].rate_hz, files[i].pcm, samples, &print, &failure));
        const double start = cpu_seconds();
        check_ok(spsh__align(&print, &print, 0, limits, &found, &failure));
        times[count++] = (cpu_seconds() - start) * 1e3;
        spsh__print_free(&print);
    }
    return figure_of(times, count);
}

int main(int argc, char **argv)
{
    double rates[ROUNDS];
    double seconds = 0;
    tally sum = {0};

    for (int i = 1; i < argc; i++)
        bench_walk(argv[i], take);
    must(file_count > 0, "no audio");
    for (size_t i = 0; i < file_count; i++)
        seconds += (double)files[i].count / files[i].rate_hz;
    for (size_t round = 0; round < ROUNDS; round++) {
        sum = (tally){0};
        rates[round] = seconds / run_all(&sum);
    }
    const figure speed = figure_of(rates, ROUNDS);
    const figure align = time_align();
    printf("{\n  \"files\": %zu, \"seconds\": %.1f,\n", file_count, seconds);
    printf("  \"times_real_time\": {\"median\": %.0f, \"least\": %.0f, \"most\": %.0f},\n",
           speed.median, speed.least, speed.most);
    printf("  \"align_ms\": {\"median\": %.2f, \"least\": %.2f, \"most\": %.2f},\n", align.median,
           align.least, align.most);
    printf("  \"keys_per_second\": %.3f, \"key_bytes_per_second\": %.1f,\n",
           (double)sum.keys / seconds, (double)sum.keys * KEY_BYTES / seconds);
    printf("  \"active_share\": %.3f\n}\n",
           sum.frames > 0 ? (double)sum.active / (double)sum.frames : 0);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].pcm);
    return 0;
}
