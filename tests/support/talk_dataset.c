/* talk_dataset.c: noise under a tone. */
#include "talk_dataset.h"

#include "copy_dataset.h"
#include "spsh_test.h"

enum { SAMPLES_MAX = TALK_LONG_SECONDS * 16000, CHANNELS_MAX = 2, FILES_MAX = 4096, TAG = 1 };

/* Another sound for each seed. */
static void make_pcm(uint64_t seed, uint32_t count, int16_t *pcm)
{
    uint64_t random = seed;
    const uint32_t period = 30 + (uint32_t)(seed % 50);
    for (uint32_t n = 0; n < count; n++) {
        const int32_t noise = (int32_t)(test_random(&random) % 2000) - 1000;
        const int32_t tone = (int32_t)(n % period) * 8000 / (int32_t)period - 4000;
        pcm[n] = (int16_t)(tone + noise);
    }
}

static void add_utterance(copy_dataset *set, uint32_t shard, uint32_t n, uint64_t record,
                          uint64_t start, uint64_t samples)
{
    static const char *const speakers[] = {"ann", "bob", "cem", "dia"};
    char id[64];
    char text[64];
    (void)snprintf(id, sizeof(id), "s%u-u%u", shard, n);
    (void)snprintf(text, sizeof(text), "words %u of %u", n, shard);
    const bool has_text = n % 7 != 3;
    const spsh_utterance row = {.id = text_of(id),
                                .record = record,
                                .start_sample = start,
                                .samples = samples,
                                .flags = has_text ? SPSH_UTTERANCE_HAS_TEXT : 0,
                                .domain = text_of(n % 3 == 0 ? "talk" : "read"),
                                .split = text_of("train"),
                                .speaker = text_of(speakers[n % 4]),
                                .language = text_of("en"),
                                .text = text_of(has_text ? text : "")};
    copy_dataset_row(set, &row);
}

static void add_shard(copy_dataset *set, uint32_t shard, talk_kind kind)
{
    static const spsh_codec codecs[] = {SPSH_CODEC_WAV, SPSH_CODEC_FLAC, SPSH_CODEC_PCM};
    static int16_t pcm[SAMPLES_MAX * CHANNELS_MAX];
    for (uint32_t n = 0; n <= TALK_SHORT; n++) {
        const bool is_long = n == TALK_SHORT;
        const bool mixed = kind == TALK_MIXED;
        const uint32_t rate_hz = mixed && n % 2 == 1 ? 8000 : 16000;
        const copy_audio audio = {.codec = codecs[(n + shard) % 3],
                                  .bits = 16,
                                  .rate_hz = rate_hz,
                                  .channels = mixed && n % 5 == 2 ? 2 : 1,
                                  .pcm = pcm,
                                  .samples = is_long ? TALK_LONG_SECONDS * rate_hz
                                                     : rate_hz / 20 + 131 * (n * 7 % TALK_SHORT)};
        make_pcm(1000 * shard + n + 1, audio.samples * audio.channels, pcm);
        const uint64_t record = copy_dataset_record(set, &audio);
        for (uint32_t segment = 0; is_long && segment < TALK_SEGMENTS; segment++)
            add_utterance(set, shard, n + segment, record,
                          (uint64_t)segment * rate_hz * (TALK_LONG_SECONDS / TALK_SEGMENTS) + 17,
                          rate_hz / 4 + 101 * segment);
        if (!is_long)
            add_utterance(set, shard, n, record, 0, audio.samples);
    }
}

void talk_dataset_make(const char *path, talk_kind kind)
{
    copy_dataset *set = copy_dataset_open(path, TAG);
    for (uint32_t shard = 0; shard < TALK_SHARDS; shard++) {
        if (shard > 0)
            copy_dataset_next_unit(set);
        add_shard(set, shard, kind);
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
}

void talk_dataset_shard(const char *path, uint32_t shard, char *ret_path, size_t capacity_bytes)
{
    char name[32];
    spsh_shard_file_name(shard, 0, name);
    (void)snprintf(ret_path, capacity_bytes, "%s/shards/%s", path, name);
}

/* ---- files ---- */

static char *found[FILES_MAX];
static uint32_t found_count;

static int find_flac(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)walk;
    const size_t length = strlen(path);
    if (kind == FTW_F && length > 5 && strcmp(path + length - 5, ".flac") == 0 &&
        found_count < FILES_MAX)
        found[found_count++] = strdup(path);
    return 0;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

uint32_t talk_dataset_pack(const char *path, const char *source, uint32_t count_max)
{
    found_count = 0;
    REQUIRE(nftw(source, find_flac, 16, FTW_PHYS) == 0);
    qsort((void *)found, found_count, sizeof(found[0]), compare_names);
    const uint32_t count = found_count < count_max ? found_count : count_max;
    copy_dataset *set = copy_dataset_open(path, TAG);
    for (uint32_t n = 0; n < found_count; n++) {
        uint8_t *data = NULL;
        size_t size = 0;
        uint64_t samples = 0;
        if (n < count) {
            REQUIRE(spsh_io_read_file(spsh_io_default(), found[n], (size_t)64 << 20,
                                      spsh_allocator_default(), &data, &size, NULL) == SPSH_OK);
            const uint64_t record =
                copy_dataset_file(set, (spsh_bytes){data, size}, SPSH_CODEC_FLAC, 0, &samples);
            add_utterance(set, 0, n, record, 0, samples);
        }
        free(data);
        free(found[n]);
    }
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
    return count;
}
