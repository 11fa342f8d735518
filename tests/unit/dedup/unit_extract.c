/* unit_extract.c: the stored data of an utterance match its samples: prints of the correct
 * channels, with rates and channel counts in any order. Also copies by reference, parts, and
 * undecodable audio, all read through the set of utterances. */
#include "copy_dataset.h"
#include "fingerprint/bandwidth.h"
#include "print_set_kit.h"
#include "print_signals.h"
#include "segment/canonical.h"
#include "segment/extract.h"
#include "segment/fingerprint_run.h"
#include "segment/print_mix.h"
#include "spsh_test.h"
#include "tiny_dataset.h"

enum { RATE = 16000, COUNT = 4 * RATE, CHANNELS = 9 };

static char folder[256];
static int16_t voices[CHANNELS][COUNT];
static int16_t mixed[CHANNELS * COUNT];
static int16_t mono[COUNT];

static void test_mixing(void)
{
    const int16_t stereo[] = {3, -4, -3, 0, 32767, 32767, -32768, -32768, 1, 2};
    const int16_t want[] = {-1, -2, 32767, -32768, 1};
    const int32_t wide[] = {0, 0x7fff, 0x8000, -0x8000, -0x8001, INT32_MAX, INT32_MIN};
    const int16_t narrow_want[] = {0, 0, 1, 0, -1, 32767, -32768};
    int16_t got[7];
    spsh__mix_channel(stereo, 5, 2, 0, got);
    CHECK(memcmp(got, want, sizeof(want)) == 0);
    spsh__mix_channel(stereo, 5, 2, 2, got);
    CHECK(got[0] == -4 && got[1] == 0 && got[4] == 2);
    spsh__mix_narrow(wide, 7, got);
    CHECK(memcmp(got, narrow_want, sizeof(narrow_want)) == 0);
}

/* Noise, signals below the threshold, and tones, in pieces of any size. */
static void test_bandwidth(void)
{
    static const struct {
        signal_kind kind;
        uint32_t rate_hz, min_hz, max_hz;
    } cases[] = {
        {SIGNAL_SILENCE, 16000, 0,     0    },
        {SIGNAL_HISS,    16000, 0,     0    },
        {SIGNAL_NOISE,   16000, 8000,  8000 },
        {SIGNAL_NOISE,   8000,  4000,  4000 },
        {SIGNAL_NOISE,   44100, 22050, 22050},
        {SIGNAL_NOISE,   4000,  2000,  2000 },
        {SIGNAL_TONE,    16000, 1000,  1500 },
        {SIGNAL_DTMF,    48000, 1336,  8000 }, /* switching tones adds overtones */
    };
    spsh__bandwidth *measure = NULL;
    REQUIRE(spsh__bandwidth_new(&measure, NULL) == SPSH_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t piece = COUNT; piece > 500; piece = piece / 3 - 1) {
            make_signal(cases[i].kind, cases[i].rate_hz, 3, mono, COUNT);
            spsh__bandwidth_begin(measure, cases[i].rate_hz, COUNT);
            for (size_t at = 0; at < COUNT; at += piece)
                spsh__bandwidth_push(measure, mono + at, COUNT - at < piece ? COUNT - at : piece);
            const uint32_t hz = spsh__bandwidth_finish(measure);
            CHECK(hz >= cases[i].min_hz && hz <= cases[i].max_hz);
            if (hz < cases[i].min_hz || hz > cases[i].max_hz)
                fprintf(stderr, "    case %zu, pieces of %zu: %u Hz\n", i, piece, hz);
        }
    }
    spsh__bandwidth_begin(measure, 16000, 1);
    spsh__bandwidth_push(measure, mono, 1);
    CHECK(spsh__bandwidth_finish(measure) <= 8000);
    spsh__bandwidth_begin(measure, 16000, 0);
    CHECK_U64(spsh__bandwidth_finish(measure), 0);
    spsh__bandwidth_free(measure);
}

/* ---- channels ---- */

static void interleave(const int16_t *const *channels, uint32_t count, int16_t *dst)
{
    for (size_t i = 0; i < COUNT; i++)
        for (uint32_t c = 0; c < count; c++)
            dst[i * count + c] = channels[c][i];
}

static void check_same_print(const spsh__print_set *set, uint64_t number, const int16_t *samples,
                             uint32_t rate_hz)
{
    spsh__print want = {0};
    spsh__set_print got;
    static spsh__print_frame frames[COUNT / 64];
    static spsh__print_key keys[COUNT / 64];
    bool same = true;
    REQUIRE(spsh__print_make(rate_hz, samples, COUNT, &want, NULL) == SPSH_OK);
    REQUIRE(spsh__print_set_print(set, number, &got, NULL) == SPSH_OK);
    CHECK_U64(got.frame_count, want.frame_count);
    CHECK_U64(got.key_count, want.key_count);
    REQUIRE(got.frame_count <= COUNT / 64 && got.key_count <= COUNT / 64);
    REQUIRE(spsh__segment_frames(got.segment, got.first_frame, got.frame_count, frames, NULL) ==
            SPSH_OK);
    REQUIRE(spsh__segment_keys(got.segment, got.first_key, got.key_count, keys, NULL) == SPSH_OK);
    for (size_t i = 0; i < want.frame_count && i < got.frame_count; i++)
        same = same && frames[i].word == want.frames[i].word &&
               frames[i].is_active == want.frames[i].is_active;
    for (size_t i = 0; i < want.key_count && i < got.key_count; i++)
        same = same && keys[i].bits == want.keys[i].bits && keys[i].frame == want.keys[i].frame;
    CHECK(same);
    spsh__print_free(&want);
}

/* Each clip has the prints of its mix and, if want_channels, of its channels. */
static void check_clip(const spsh__print_set *set, uint64_t ordinal, const copy_audio *one,
                       bool want_channels)
{
    uint64_t first = 0;
    uint64_t count = 0;
    spsh__segment_row row;
    uint64_t alias_of = 0;
    REQUIRE(spsh__print_set_row(set, ordinal, &row, &alias_of, NULL) == SPSH_OK);
    REQUIRE(spsh__print_set_prints_of(set, ordinal, &first, &count, NULL) == SPSH_OK);
    CHECK_U64(alias_of, SPSH_NONE_U64);
    CHECK_U64(row.flags, SPSH__ROW_DECODED | SPSH__ROW_WHOLE | SPSH__ROW_LOSSLESS);
    CHECK_U64(row.channels, one->channels);
    CHECK_U64(row.samples, one->samples);
    CHECK_U64(row.payload_bps,
              (44 + UINT64_C(2) * one->samples * one->channels) * 8 * one->rate_hz / one->samples);
    CHECK_U64(count, one->rate_hz < 8000 ? 0 : want_channels ? one->channels + 1 : 1);
    for (uint64_t i = 0; i < count; i++) {
        spsh__set_print print;
        REQUIRE(spsh__print_set_print(set, first + i, &print, NULL) == SPSH_OK);
        CHECK_U64(print.utterance, ordinal);
        CHECK_U64(print.channel, i);
        spsh__mix_channel(one->pcm, COUNT, one->channels, (uint32_t)i, mono);
        check_same_print(set, first + i, mono, one->rate_hz);
    }
}

static void test_channels(void)
{
    char path[300];
    int16_t *same = malloc(2 * COUNT * sizeof(*same));
    int16_t *silent = malloc(2 * COUNT * sizeof(*silent));
    int16_t *stereo = malloc(2 * COUNT * sizeof(*stereo));
    int16_t *inverted = malloc(2 * COUNT * sizeof(*inverted));
    REQUIRE(same != NULL && silent != NULL && stereo != NULL && inverted != NULL);
    for (uint32_t c = 0; c < CHANNELS; c++)
        make_signal(SIGNAL_SPEECH, RATE, 20 + c, voices[c], COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        same[2 * i] = same[2 * i + 1] = voices[0][i];
        silent[2 * i] = voices[0][i];
        silent[2 * i + 1] = 0;
        stereo[2 * i] = voices[0][i];
        stereo[2 * i + 1] = voices[1][i];
        inverted[2 * i] = voices[2][i];
        inverted[2 * i + 1] = (int16_t)-voices[2][i];
    }
    const int16_t *all[CHANNELS];
    for (uint32_t c = 0; c < CHANNELS; c++)
        all[c] = voices[c];
    interleave(all, CHANNELS, mixed);
    const copy_audio clips[] = {
        {SPSH_CODEC_WAV, 16, RATE, 1,        voices[0], COUNT}, /* mono */
        {SPSH_CODEC_WAV, 16, RATE, 2,        same,      COUNT}, /* same */
        {SPSH_CODEC_WAV, 16, RATE, 2,        stereo,    COUNT}, /* two */
        {SPSH_CODEC_WAV, 16, 4000, 1,        voices[3], COUNT}, /* low */
        {SPSH_CODEC_WAV, 16, RATE, 2,        silent,    COUNT}, /* half */
        {SPSH_CODEC_WAV, 16, 8000, 1,        voices[4], COUNT}, /* other rate */
        {SPSH_CODEC_WAV, 16, RATE, 2,        inverted,  COUNT}, /* inverted */
        {SPSH_CODEC_WAV, 16, RATE, CHANNELS, mixed,     COUNT}, /* nine */
        {SPSH_CODEC_WAV, 16, RATE, 1,        voices[5], COUNT}, /* again */
    };
    static const bool want_channels[] = {false, false, true,  false, false,
                                         false, true,  false, false};
    (void)snprintf(path, sizeof(path), "%s/channels.spsh", folder);
    copy_dataset_make(path, 1, clips, sizeof(clips) / sizeof(clips[0]));
    make_segments(path);
    spsh__print_set *set = open_print_set(path);
    REQUIRE(spsh__print_set_count(set) == sizeof(clips) / sizeof(clips[0]));
    for (size_t i = 0; i < sizeof(clips) / sizeof(clips[0]); i++)
        check_clip(set, i, &clips[i], want_channels[i]);
    spsh__print_set_close(set);
    free(same);
    free(silent);
    free(stereo);
    free(inverted);
}

/* ---- copies by reference, parts, broken audio ---- */

static spsh_status open_set(const spsh_dedup_source *sources, size_t count,
                            spsh__print_set **ret_set, spsh_error *err)
{
    return spsh__print_set_open(sources, count, NULL, ret_set, err);
}

static void check_references(const spsh__print_set *set)
{
    const spsh_dataset *dataset = spsh__print_set_dataset(set, 0);
    uint64_t aliases = 0;
    uint64_t undecoded = 0;
    for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
        spsh_row want;
        spsh__segment_row row;
        uint64_t alias_of = 0;
        REQUIRE(spsh_dataset_rows(dataset, i, 1, &want, NULL) == SPSH_OK);
        REQUIRE(spsh__print_set_row(set, i, &row, &alias_of, NULL) == SPSH_OK);
        CHECK_U64(alias_of, want.duplicate_of);
        CHECK_U64(row.samples, want.samples);
        CHECK_U64(row.sample_rate_hz, want.sample_rate_hz);
        CHECK_U64(row.channels, want.channels);
        CHECK(((row.flags & SPSH__ROW_HAS_TEXT) != 0) ==
              ((want.flags & SPSH_UTTERANCE_HAS_TEXT) != 0));
        CHECK(((row.flags & SPSH__ROW_ALIAS) != 0) == (want.duplicate_of != SPSH_NONE_U64));
        aliases += (row.flags & SPSH__ROW_ALIAS) != 0;
        undecoded += (row.flags & SPSH__ROW_DECODED) == 0;
        if (alias_of == SPSH_NONE_U64)
            continue;
        spsh__segment_row original;
        uint64_t none = 0;
        REQUIRE(spsh__print_set_row(set, alias_of, &original, &none, NULL) == SPSH_OK);
        CHECK(memcmp(row.pcm_full, original.pcm_full, 16) == 0);
        CHECK(memcmp(row.id_key, original.id_key, 16) != 0);
        CHECK_U64(row.first_chunk, original.first_chunk);
    }
    CHECK(aliases > 2);
    CHECK(undecoded > 0);
}

/* The digests equal the digests of the samples from the library's reader, for parts as well. */
static void check_digests(const spsh__print_set *set)
{
    static int32_t pcm[20000];
    const spsh_dataset *dataset = spsh__print_set_dataset(set, 0);
    spsh_reader *reader = NULL;
    spsh__canonical *canonical = NULL;
    REQUIRE(spsh_reader_open(dataset, &reader, NULL) == SPSH_OK);
    REQUIRE(spsh__canonical_new(&canonical, NULL) == SPSH_OK);
    for (uint64_t i = 0; i < TINY_UTTERANCES; i++) {
        spsh__segment_row row;
        spsh__digests want;
        uint64_t alias_of = 0;
        uint64_t got = 0;
        REQUIRE(spsh__print_set_row(set, i, &row, &alias_of, NULL) == SPSH_OK);
        const spsh_status rc = spsh_reader_read_i32(reader, i, 0, pcm, 10000, &got, NULL);
        CHECK((rc == SPSH_OK) == ((row.flags & SPSH__ROW_DECODED) != 0));
        if (rc != SPSH_OK)
            continue;
        spsh__canonical_begin(canonical, row.sample_rate_hz, row.channels);
        spsh__canonical_push(canonical, pcm, (size_t)got);
        spsh__canonical_finish(canonical, &want);
        CHECK(memcmp(row.pcm_full, want.full, 16) == 0);
        CHECK(memcmp(row.pcm_trim, want.trim, 16) == 0);
        CHECK(memcmp(row.pcm_mono, want.mono, 16) == 0);
        CHECK_U64(row.trim_first, want.trim_first);
        CHECK_U64(row.trim_count, want.trim_count);
    }
    spsh__canonical_free(canonical);
    spsh_reader_close(reader);
}

static void check_sides(const char *path)
{
    const spsh_dedup_source sources[] = {
        {path, "train", SPSH_SIDE_TRAIN},
        {path, "test",  SPSH_SIDE_TEST }
    };
    const spsh_dedup_source turned[] = {sources[1], sources[0]};
    const spsh_dedup_source both[] = {
        {path, NULL, SPSH_SIDE_TRAIN},
        sources[1]
    };
    const spsh_dedup_source none = {path, "train,nowhere", SPSH_SIDE_TRAIN};
    spsh__print_set *set = NULL;
    spsh__print_set *other = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    uint8_t hash[16];
    uint8_t other_hash[16];
    REQUIRE(open_set(sources, 2, &set, &err) == SPSH_OK);
    REQUIRE(open_set(turned, 2, &other, &err) == SPSH_OK);
    spsh__print_set_hash(set, hash);
    spsh__print_set_hash(other, other_hash);
    CHECK(memcmp(hash, other_hash, 16) == 0);
    CHECK_U64(spsh__print_set_dataset_count(set), 1);
    CHECK(spsh__print_set_side_count(set, SPSH_SIDE_TEST) > 0);
    CHECK(spsh__print_set_side_count(set, SPSH_SIDE_TRAIN) > 0);
    CHECK_I64(spsh__print_set_side(set, 3), SPSH_SIDE_TEST); /* u3 */
    CHECK_I64(spsh__print_set_side(set, 0), SPSH_SIDE_TRAIN);
    spsh__print_set_close(other);
    REQUIRE(open_set(sources, 1, &other, &err) == SPSH_OK);
    spsh__print_set_hash(other, other_hash);
    CHECK(memcmp(hash, other_hash, 16) != 0);
    CHECK_U64(spsh__print_set_side_count(other, SPSH_SIDE_TEST), 0);
    CHECK_U64(spsh__print_set_count(other), TINY_UTTERANCES);
    spsh__print_set_close(other);
    spsh__print_set_close(set);
    CHECK_I64(open_set(both, 2, &set, &err), SPSH_E_INVALID_ARG);
    CHECK(strstr(err.message, "\"u3\"") != NULL);
    CHECK_I64(open_set(&none, 1, &set, &err), SPSH_E_UNKNOWN_NAME);
    CHECK(strstr(err.message, "nowhere") != NULL && strstr(err.message, " train") != NULL &&
          strstr(err.message, " test") != NULL);
}

static void check_skips(const char *path)
{
    const spsh_dedup_source source = {path, NULL, SPSH_SIDE_TRAIN};
    const spsh_overlay_entry entry = {
        {(const uint8_t *)"u2", 2},
        {NULL,                  0}
    };
    spsh__print_set *set = NULL;
    uint8_t before[16];
    uint8_t after[16];
    REQUIRE(open_set(&source, 1, &set, NULL) == SPSH_OK);
    spsh__print_set_hash(set, before);
    spsh__print_set_close(set);
    REQUIRE(spsh_overlay_add(path, "x", SPSH_OVERLAY_SKIP, &entry, 1, NULL, NULL) == SPSH_OK);
    REQUIRE(open_set(&source, 1, &set, NULL) == SPSH_OK);
    spsh__print_set_hash(set, after);
    CHECK(memcmp(before, after, 16) != 0);
    CHECK_I64(spsh__print_set_side(set, 2), SPSH_SIDE_NONE);
    CHECK_U64(spsh__print_set_side_count(set, SPSH_SIDE_TRAIN), TINY_UTTERANCES - 1);
    spsh__print_set_close(set);
    REQUIRE(spsh_overlay_remove(path, "x", NULL, NULL) == SPSH_OK);
    REQUIRE(open_set(&source, 1, &set, NULL) == SPSH_OK);
    spsh__print_set_hash(set, after);
    CHECK(memcmp(before, after, 16) == 0);
    spsh__print_set_close(set);
}

static void test_references(void)
{
    static tiny_dataset tiny;
    char path[300];
    const spsh__fingerprint_run_options options = {.threads = 2, .part_count = 1};
    spsh_fingerprint_facts facts;
    spsh__print_set *set = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    (void)snprintf(path, sizeof(path), "%s/tiny.spsh", folder);
    const spsh_dedup_source source = {path, NULL, SPSH_SIDE_TRAIN};
    tiny_dataset_write(&tiny, path);
    REQUIRE(tiny_dataset_publish(&tiny, SPSH_DEDUPE_PCM, NULL, NULL, NULL, NULL) == SPSH_OK);
    CHECK_I64(open_set(&source, 1, &set, &err), SPSH_E_NOT_FOUND);
    CHECK(strstr(err.message, "speechshard fingerprint ") != NULL);
    REQUIRE(spsh__fingerprint_run(path, &options, &facts, &err) == SPSH_OK);
    CHECK_U64(facts.made_count, TINY_SHARDS);
    CHECK_U64(facts.utterance_count, TINY_UTTERANCES);
    REQUIRE(spsh__fingerprint_run(path, &options, &facts, &err) == SPSH_OK);
    CHECK_U64(facts.made_count, 0);
    REQUIRE(open_set(&source, 1, &set, &err) == SPSH_OK);
    check_references(set);
    check_digests(set);
    spsh__print_set_close(set);
    check_sides(path);
    check_skips(path);
}

TEST_MAIN(unit_extract)
{
    test_temp_dir(folder, sizeof(folder));
    RUN(test_mixing);
    RUN(test_bandwidth);
    RUN(test_channels);
    RUN(test_references);
    test_remove_tree(folder);
    return TEST_RESULT();
}
