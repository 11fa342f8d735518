/* golden_augment.c: compare draws and samples with those of augment_reference.py, an independent
 * implementation of docs/reference/FEATURES.md. All instruction sets must produce identical bits.
 */
#include "augment/augmenter.h"
#include "spsh_test.h"
#include "test_number.h"

enum { LINE_BYTES = 32768, FIELDS = 8, OUTPUTS_MAX = 1400 };

/* Cut a line into fields. Returns their number. */
static size_t cut(char *text, char **fields)
{
    size_t count = 0;
    text[strcspn(text, "\n")] = '\0';
    for (char *at = text; at != NULL && count < FIELDS; count++) {
        fields[count] = at;
        at = strchr(at, '|');
        if (at != NULL)
            *at++ = '\0';
    }
    return count;
}

static FILE *open_golden(const char *name)
{
    char relative[128], path[512];
    (void)snprintf(relative, sizeof(relative), "tests/golden/augment/%s", name);
    test_source_path(path, sizeof(path), relative);
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL);
    return file;
}

/* ---- draws ---- */

static void check_draw(char **fields)
{
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_augment_draw draw;
    char noise[32], room[32], json[2048];
    REQUIRE(spsh_augment_options_parse(fields[0], &options, NULL) == SPSH_OK);
    spsh_augment_draw_make(&options, strtoull(fields[1], NULL, 10), strtoull(fields[2], NULL, 10),
                           strtoull(fields[3], NULL, 10), &draw);
    (void)snprintf(noise, sizeof(noise), "noise-%u", (unsigned)spsh_fraction_of(draw.noise, 11));
    (void)snprintf(room, sizeof(room), "room-%u", (unsigned)spsh_fraction_of(draw.room, 7));
    const spsh_augment_subject subject = {
        .sample_count = strtoull(fields[4], NULL, 10),
        .frame_count = strtoull(fields[5], NULL, 10),
        .dim = (uint32_t)strtoul(fields[6], NULL, 10),
        .noise_id = noise,
        .room_id = room,
        .noise_start = spsh_fraction_of(draw.noise_start, 48000),
    };
    CHECK(spsh_augment_draw_json(&draw, &subject, json, sizeof(json)) < sizeof(json));
    CHECK_STR(json, fields[7]);
}

static void test_draws(void)
{
    static char line[LINE_BYTES];
    char *fields[FIELDS];
    FILE *file = open_golden("draws.txt");
    size_t count = 0;
    for (; fgets(line, sizeof(line), file) != NULL; count++) {
        REQUIRE(cut(line, fields) == FIELDS);
        check_draw(fields);
    }
    CHECK_U64(count, 60);
    (void)fclose(file);
}

/* ---- samples ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void make_signal(int16_t *samples, size_t count, uint64_t seed, int32_t peak)
{
    for (size_t i = 0; i < count; i++)
        samples[i] = (int16_t)((int32_t)(mix(seed + i) >> 48) * 2LL * peak / 65536 - peak);
}

static spsh_augment_draw draw_of(char **fields)
{
    const bool has_noise = strcmp(fields[2], "-") != 0;
    const bool has_gain = strcmp(fields[3], "-") != 0;
    return (spsh_augment_draw){
        .speed_percent = (uint32_t)strtoul(fields[0], NULL, 10),
        .has_room = strcmp(fields[1], "1") == 0,
        .has_noise = has_noise,
        .has_gain = has_gain,
        .snr_db = has_noise ? (float)test_number(fields[2], NULL) : 0,
        .gain_db = has_gain ? (float)test_number(fields[3], NULL) : 0,
    };
}

/* The samples must be within 1 of the values in text, and most must be equal. */
static void check_outputs(const int16_t *out, uint64_t count, const char *text)
{
    uint64_t near_count = 0;
    for (uint64_t i = 0; i < count; i++) {
        char *end = NULL;
        const long wanted = strtol(text, &end, 10);
        REQUIRE(end != text);
        CHECK(labs(wanted - out[i]) <= 1);
        near_count += wanted != out[i];
        text = end;
    }
    CHECK(*text == '\0');
    CHECK(near_count * 100 <= count);
}

/* FNV-1a hash of the samples before rounding to int16, in the order of the file. */
static uint64_t work_hash = UINT64_C(0xcbf29ce484222325);

static void hash_work(const float *work, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &work[i], sizeof(bits));
        work_hash = (work_hash ^ bits) * UINT64_C(0x100000001b3);
    }
}

static void check_samples(spsh_augmenter *augmenter, char **fields, const char *isa)
{
    int16_t samples[700], noise[300], room[90], out[OUTPUTS_MAX], best[OUTPUTS_MAX];
    make_signal(samples, 700, 1, 9000);
    make_signal(noise, 300, 3000, 1500);
    make_signal(room, 90, 2000, 20000);
    for (int32_t k = 0; k < 90; k++) {
        const int32_t faded = room[k] * (90 - k);
        /* rounds down, like // in Python */
        room[k] = (int16_t)(faded >= 0 ? faded / 90 : -((89 - faded) / 90));
    }
    const spsh_augment_input input = {samples, 700, noise, 300, 250, room, 90};
    const spsh_augment_draw draw = draw_of(fields);
    const uint64_t count = spsh_augment_sample_count(&draw, 700);
    REQUIRE(count <= OUTPUTS_MAX);
    augmenter->isa = spsh__augment_isa_named(isa);
    if (augmenter->isa == NULL)
        return;
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, out, NULL) == SPSH_OK);
    check_outputs(out, count, fields[4]);
    if (strcmp(isa, "scalar") == 0)
        hash_work(augmenter->work, count);
    augmenter->isa = spsh__augment_isa_best();
    REQUIRE(spsh_augment_samples(augmenter, &draw, &input, best, NULL) == SPSH_OK);
    CHECK(memcmp(out, best, count * sizeof(*out)) == 0);
}

static void test_samples(void)
{
    static const char *const isas[] = {"scalar", "sse2", "neon", "avx2"};
    static char line[LINE_BYTES];
    char *fields[FIELDS];
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_augmenter *augmenter = NULL;
    REQUIRE(spsh_augment_options_parse("speeds=0.9:1.1:0.97:2:0.5", &options, NULL) == SPSH_OK);
    REQUIRE(spsh_augmenter_open(&options, 700, 90, NULL, &augmenter, NULL) == SPSH_OK);
    FILE *file = open_golden("samples.txt");
    size_t count = 0;
    for (; fgets(line, sizeof(line), file) != NULL; count++) {
        REQUIRE(cut(line, fields) == 5);
        for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++)
            check_samples(augmenter, fields, isas[i]);
    }
    CHECK_U64(count, 9);
    CHECK_U64(work_hash, UINT64_C(269924004049501560)); /* must be the same for every compiler and
                                                         * machine */
    (void)fclose(file);
    spsh_augmenter_close(augmenter);
}

TEST_MAIN(golden_augment)
{
    RUN(test_draws);
    RUN(test_samples);
    return TEST_RESULT();
}
