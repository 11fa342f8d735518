/* unit_align_data.c: real copies are found; the same word repeated by the same voice is not a copy.
 */
#include <dirent.h>
#include <sndfile.h>

#include "fingerprint/align.h"
#include "spsh_test.h"

enum { GROUPS = 60, TAKES = 50 };

static bool is_small; /* use every seventh group, and a third of the files */

static spsh__print listen(const char *path)
{
    spsh__print print = {0};
    SF_INFO info = {0};
    SNDFILE *file = sf_open(path, SFM_READ, &info);
    REQUIRE(file != NULL && info.channels == 1 && info.frames > 0);
    int16_t *samples = calloc((size_t)info.frames, sizeof(*samples));
    REQUIRE(samples != NULL);
    const sf_count_t count = sf_readf_short(file, samples, info.frames);
    CHECK(sf_close(file) == 0);
    REQUIRE(spsh__print_make((uint32_t)info.samplerate, samples, (size_t)count, &print, NULL) ==
            SPSH_OK);
    free(samples);
    return print;
}

static spsh_copy_class compare(const spsh__print *a, const spsh__print *b)
{
    spsh__alignment found = {0};
    int64_t offset = 0;
    if (spsh__align_search(a, b, &spsh__align_limits_default, &offset))
        REQUIRE(spsh__align(a, b, offset, &spsh__align_limits_default, &found, NULL) == SPSH_OK);
    return found.kind;
}

/* All pairs of takes of one digit by one speaker. */
static void test_takes_are_no_copies(void)
{
    static const char *const speakers[] = {"george",  "jackson", "lucas",
                                           "nicolas", "theo",    "yweweler"};
    uint64_t pairs = 0;
    uint64_t kinds[SPSH_COPY_CLASS_COUNT] = {0};
    /* Seven and ten are coprime, so the groups cover nearly every digit and voice. */
    for (size_t group = 0; group < GROUPS; group += is_small ? 7 : 1) {
        spsh__print prints[TAKES];
        for (int take = 0; take < TAKES; take++) {
            char name[128];
            char path[600];
            (void)snprintf(name, sizeof(name), "fsdd/recordings/%zu_%s_%d.wav", group % 10,
                           speakers[group / 10], take);
            test_data_path(path, sizeof(path), name);
            prints[take] = listen(path);
        }
        for (size_t i = 0; i < TAKES; i++)
            for (size_t k = i + 1; k < TAKES; k++, pairs++)
                kinds[compare(&prints[i], &prints[k])]++;
        for (size_t i = 0; i < TAKES; i++)
            spsh__print_free(&prints[i]);
    }
    CHECK_U64(pairs, is_small ? 11025 : 73500);
    CHECK_U64(kinds[SPSH_COPY_NONE] + kinds[SPSH_COPY_REREAD], pairs);
}

/* Eight words per file, from the same two words, by one voice: one-second waveforms of different
 * files correlate up to 0.9. */
static void test_repeated_words_are_no_copies(void)
{
    enum { FILES_MAX = 30 };
    char folder[600];
    spsh__print prints[FILES_MAX];
    size_t count = 0;
    const size_t wanted = is_small ? FILES_MAX / 3 : FILES_MAX;
    test_data_path(folder, sizeof(folder), "yesno");
    for (uint32_t words = 0; words < 256 && count < wanted; words++) {
        char path[900];
        int length = snprintf(path, sizeof(path), "%s/waves_yesno/", folder);
        for (uint32_t bit = 0; bit < 8; bit++)
            length += snprintf(path + length, sizeof(path) - (size_t)length, "%u%s",
                               (words >> bit) & 1, bit < 7 ? "_" : ".wav");
        struct stat info;
        if (stat(path, &info) == 0)
            prints[count++] = listen(path);
    }
    CHECK_U64(count, wanted);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            const spsh_copy_class kind = compare(&prints[i], &prints[k]);
            CHECK(kind == SPSH_COPY_NONE || kind == SPSH_COPY_REREAD);
        }
    }
    for (size_t i = 0; i < count; i++)
        spsh__print_free(&prints[i]);
}

static void test_codecs_are_copies(void)
{
    for (int i = 1; i <= 8; i++) {
        static const char *const copies[] = {"flac", "mp3"};
        char name[128];
        char path[600];
        (void)snprintf(name, sizeof(name), "ljspeech-3codecs/ljspeech/wavs/LJ001-%04d.wav", i);
        test_data_path(path, sizeof(path), name);
        spsh__print source = listen(path);
        for (size_t k = 0; k < 2; k++) {
            (void)snprintf(name, sizeof(name), "ljspeech-3codecs/ljspeech/wavs/LJ001-%04d.%s", i,
                           copies[k]);
            test_data_path(path, sizeof(path), name);
            spsh__print copy = listen(path);
            CHECK_STR(spsh_copy_class_text(compare(&copy, &source)), "same_recording");
            spsh__print_free(&copy);
        }
        spsh__print_free(&source);
    }
}

/* Trimmed and cleaned after recording, and Opus on the other side. */
static void test_natural_twins(void)
{
    char folder[600];
    test_data_path(folder, sizeof(folder), "kerstin-pairs/cleaned");
    DIR *dir = opendir(folder);
    REQUIRE(dir != NULL);
    const int wanted = is_small ? 6 : 20;
    int pairs = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[900];
        char name[300];
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".flac") != 0 || pairs >= wanted)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        spsh__print cleaned = listen(path);
        (void)snprintf(name, sizeof(name), "kerstin-pairs/original/%.*s.opus", (int)length - 5,
                       entry->d_name);
        test_data_path(path, sizeof(path), name);
        spsh__print original = listen(path);
        const spsh_copy_class kind = compare(&cleaned, &original);
        CHECK(kind == SPSH_COPY_SAME_RECORDING || kind == SPSH_COPY_CONTAINED);
        spsh__print_free(&cleaned);
        spsh__print_free(&original);
        pairs++;
    }
    CHECK(closedir(dir) == 0);
    CHECK_I64(pairs, wanted);
}

TEST_MAIN(unit_align_data)
{
    is_small = test_wants_fewer(argc, argv);
    RUN(test_takes_are_no_copies);
    RUN(test_repeated_words_are_no_copies);
    RUN(test_codecs_are_copies);
    RUN(test_natural_twins);
    return TEST_RESULT();
}
