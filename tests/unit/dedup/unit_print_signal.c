/* unit_print_signal.c: any stretch of the 8 kHz signal equals the same stretch of the whole
 * recording, resampled from its start. Also other speeds, and offsets of keys. */
#include <math.h>

#include "copy_dataset.h"
#include "fingerprint/resample8k.h"
#include "join/pair_offsets.h"
#include "print_set_kit.h"
#include "print_signals.h"
#include "segment/print_mix.h"
#include "set/scaled_keys.h"
#include "spsh_test.h"

enum { SECONDS = 6, RATES = 8, CHANNELS = 2 };
static const uint32_t rates[RATES] = {8000, 11025, 16000, 22050, 32000, 44100, 48000, 8001};
static char root[400];
static char path[600];
static int16_t *pcm[RATES];

static void make(void)
{
    copy_audio clips[RATES];
    for (size_t i = 0; i < RATES; i++) {
        const size_t count = SECONDS * rates[i] + 37;
        int16_t *left = calloc(count, sizeof(*left));
        int16_t *right = calloc(count, sizeof(*right));
        pcm[i] = calloc(count * CHANNELS, sizeof(*pcm[i]));
        REQUIRE(left != NULL && right != NULL && pcm[i] != NULL);
        make_signal(SIGNAL_SPEECH, rates[i], 1, left, count);
        make_signal(SIGNAL_CLIPPED, rates[i], 2 + i, right, count);
        for (size_t n = 0; n < count; n++) {
            pcm[i][2 * n] = left[n];
            pcm[i][2 * n + 1] = right[n];
        }
        free(left);
        free(right);
        clips[i] = (copy_audio){SPSH_CODEC_WAV, 16, rates[i], CHANNELS, pcm[i], (uint32_t)count};
    }
    (void)snprintf(path, sizeof(path), "%s/rates", root);
    copy_dataset_make(path, 1, clips, RATES);
    make_segments(path);
}

/* Resample the whole at once. Return the number of samples. *ret_whole comes from malloc. */
static size_t resample_whole(size_t which, uint32_t channel, int32_t **ret_whole)
{
    const size_t count = SECONDS * rates[which] + 37;
    int16_t *mono = calloc(count, sizeof(*mono));
    int32_t *whole = calloc(count + SPSH__RESAMPLE_OUT_MAX, sizeof(*whole));
    spsh__resample8k *resampler = NULL;
    size_t made = 0;
    REQUIRE(mono != NULL && whole != NULL);
    spsh__mix_channel(pcm[which], count, CHANNELS, channel, mono);
    REQUIRE(spsh__resample8k_new(rates[which], &resampler, NULL) == SPSH_OK);
    for (size_t n = 0; n < count; n += 1000) {
        const size_t piece = count - n < 1000 ? count - n : 1000;
        made += spsh__resample8k_push(resampler, mono + n, piece, whole + made);
    }
    made += spsh__resample8k_finish(resampler, whole + made);
    spsh__resample8k_free(resampler);
    free(mono);
    *ret_whole = whole;
    return made;
}

static uint64_t random_state;

static void check_stretches(const spsh__print_signal *signal, const int32_t *whole, size_t size)
{
    int32_t got[4000];
    for (int i = 0; i < 40; i++) {
        const size_t first = i == 0 ? 0 : i == 1 ? size : test_random(&random_state) % (size + 100);
        const size_t count = i == 1 ? 10 : 1 + test_random(&random_state) % 4000;
        REQUIRE(spsh__print_signal_read(signal, first, count, got, NULL) == SPSH_OK);
        size_t wrong = 0;
        for (size_t n = 0; n < count; n++)
            wrong += got[n] != (first + n < size ? whole[first + n] : 0);
        CHECK_U64(wrong, 0);
    }
}

static void test_stretches_are_of_the_whole(void)
{
    spsh__print_set *set = open_print_set(path);
    spsh_reader *reader = NULL;
    random_state = test_seed(5);
    REQUIRE(spsh_reader_open(spsh__print_set_dataset(set, 0), &reader, NULL) == SPSH_OK);
    for (size_t i = 0; i < RATES; i++) {
        for (uint32_t channel = 0; channel <= CHANNELS; channel++) {
            const spsh__print_signal signal = {set, reader, i, channel};
            int32_t *whole = NULL;
            uint64_t length = 0;
            const size_t size = resample_whole(i, channel, &whole);
            REQUIRE(spsh__print_signal_length(&signal, &length, NULL) == SPSH_OK);
            CHECK_U64(length, size);
            check_stretches(&signal, whole, size);
            free(whole);
        }
    }
    spsh_reader_close(reader);
    spsh__print_set_close(set);
}

/* Another speed changes the frequency of a tone. Adjacent pieces fit together. */
static void test_other_speeds(void)
{
    enum { COUNT = 20000 };
    static int32_t got[COUNT];
    static int32_t piece[COUNT];
    static int16_t tone[8000 * 3];
    char folder[600];
    for (size_t n = 0; n < 8000 * 3; n++)
        tone[n] = (int16_t)lrint(8000 * sin(2 * 3.141592653589793 * 1000 * (double)n / 8000));
    const copy_audio one = {SPSH_CODEC_WAV, 16, 8000, 1, tone, 8000 * 3};
    (void)snprintf(folder, sizeof(folder), "%s/speeds", root);
    copy_dataset_make(folder, 1, &one, 1);
    make_segments(folder);
    spsh__print_set *set = open_print_set(folder);
    spsh_reader *reader = NULL;
    REQUIRE(spsh_reader_open(spsh__print_set_dataset(set, 0), &reader, NULL) == SPSH_OK);
    const spsh__print_signal signal = {set, reader, 0, 0};
    for (size_t i = 0; i < SPSH__SCALE_COUNT; i++) {
        const double speed = spsh__scales[i];
        double worst = 0;
        REQUIRE(spsh__scaled_signal_read(&signal, speed, 0, COUNT, got, NULL) == SPSH_OK);
        for (size_t n = 100; n < COUNT; n++) {
            const double want = 16 * 8000 * sin(2 * 3.141592653589793 * speed * (double)n / 8);
            worst = fmax(worst, fabs(want - got[n]));
        }
        CHECK(worst < 16 * 8000 * 0.01);
        REQUIRE(spsh__scaled_signal_read(&signal, speed, 777, COUNT - 777, piece, NULL) == SPSH_OK);
        CHECK(memcmp(piece, got + 777, (COUNT - 777) * sizeof(*got)) == 0);
    }
    spsh_reader_close(reader);
    spsh__print_set_close(set);
}

/* Keys of a recording at a speed equal the keys of the recording that was made at that speed. */
static void test_keys_at_speeds(void)
{
    enum { RATE = 8000, COUNT = 10 * RATE };
    static int16_t slow[COUNT];
    char folder[600];
    make_signal(SIGNAL_SPEECH, RATE, 11, slow, COUNT);
    const copy_audio one = {SPSH_CODEC_WAV, 16, RATE, 1, slow, COUNT};
    (void)snprintf(folder, sizeof(folder), "%s/keys", root);
    copy_dataset_make(folder, 1, &one, 1);
    make_segments(folder);
    spsh__print_set *set = open_print_set(folder);
    spsh_reader *reader = NULL;
    REQUIRE(spsh_reader_open(spsh__print_set_dataset(set, 0), &reader, NULL) == SPSH_OK);
    const spsh__print_signal signal = {set, reader, 0, 0};
    for (size_t i = 0; i < SPSH__SCALE_COUNT; i++) {
        /* Resample the speech. Taken as 8 kHz, it then has another speed. */
        const size_t count = (size_t)(COUNT / spsh__scales[i]);
        int16_t *fast = calloc(count, sizeof(*fast));
        spsh__print want = {0};
        spsh__print_key *keys = NULL;
        spsh__pair_offset offsets[SPSH__PAIR_OFFSETS_MAX];
        size_t key_count = 0;
        size_t offset_count = 0;
        REQUIRE(fast != NULL);
        for (size_t n = 0; n + 1 < count; n++) {
            const double place = (double)n * spsh__scales[i];
            const size_t at = (size_t)place;
            const double part = place - floor(place);
            fast[n] =
                (int16_t)lrint(slow[at] * (1 - part) + slow[at + 1 < COUNT ? at + 1 : at] * part);
        }
        REQUIRE(spsh__print_make(RATE, fast, count, &want, NULL) == SPSH_OK);
        REQUIRE(spsh__scaled_keys_make(&signal, spsh__scales[i], &keys, &key_count, NULL) ==
                SPSH_OK);
        CHECK(key_count > 10);
        REQUIRE(spsh__pair_offsets_find(keys, key_count, want.keys, want.key_count, offsets,
                                        &offset_count, NULL) == SPSH_OK);
        CHECK(offset_count > 0 && offsets[0].offset >= -1 && offsets[0].offset <= 1);
        CHECK(offsets[0].votes >= key_count / 2);
        spsh__print_free(&want);
        free(keys);
        free(fast);
    }
    spsh_reader_close(reader);
    spsh__print_set_close(set);
}

static void test_offsets_of_keys(void)
{
    spsh__pair_offset offsets[SPSH__PAIR_OFFSETS_MAX];
    spsh__print_key a[30];
    spsh__print_key b[30];
    uint64_t random = test_seed(7);
    size_t count = 9;
    for (size_t i = 0; i < 30; i++) {
        a[i] = (spsh__print_key){.bits = test_random(&random) >> 16, .frame = 10 * i};
        for (size_t k = 0; k < SPSH__KEY_WEAK_MAX; k++)
            a[i].weak[k] = (uint8_t)(13 * k + i % 9);
        b[i] = a[i];
        b[i].frame += i < 20 ? 1000 : 50 + i % 2;
        b[i].bits ^= UINT64_C(1) << b[i].weak[i % 3]; /* flip a weak bit */
    }
    REQUIRE(spsh__pair_offsets_find(a, 30, b, 30, offsets, &count, NULL) == SPSH_OK);
    REQUIRE(count >= 2);
    CHECK_I64(offsets[0].offset, 1000);
    CHECK(offsets[0].votes >= 20);
    CHECK(offsets[1].offset == 50 || offsets[1].offset == 51);
    CHECK(offsets[1].votes >= 10);
    REQUIRE(spsh__pair_offsets_find(a, 0, b, 30, offsets, &count, NULL) == SPSH_OK);
    CHECK_U64(count, 0);
    REQUIRE(spsh__pair_offsets_find(a, 30, b, 0, offsets, &count, NULL) == SPSH_OK);
    CHECK_U64(count, 0);
}

TEST_MAIN(unit_print_signal)
{
    test_temp_dir(root, sizeof(root));
    make();
    RUN(test_stretches_are_of_the_whole);
    RUN(test_other_speeds);
    RUN(test_keys_at_speeds);
    RUN(test_offsets_of_keys);
    for (size_t i = 0; i < RATES; i++)
        free(pcm[i]);
    test_remove_tree(root);
    return TEST_RESULT();
}
