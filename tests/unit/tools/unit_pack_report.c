/* unit_pack_report.c: the parts of reports: levels, accounting of sources, published counts, and
 * the text and drawings of pages. */
#include "spsh_test.h"

#include <math.h>

#include "common/file_names.h"
#include "common/svg.h"
#include "plan/published_counts.h"
#include "plan/source_counts.h"
#include "unit/loudness.h"

/* ---- levels ---- */

/* The same counts, computed value by value. */
static spsh__level plain_level(const int16_t *pcm, size_t count)
{
    spsh__level level = {.values = count};
    for (size_t i = 0; i < count; i++) {
        const int32_t value = pcm[i];
        const uint32_t magnitude = (uint32_t)(value < 0 ? -value : value);
        level.square_sum += (uint64_t)magnitude * magnitude;
        level.full_scale_values += magnitude >= 32767 ? 1 : 0;
        level.peak = magnitude > level.peak ? magnitude : level.peak;
    }
    return level;
}

static void test_level_of_random_pcm(void)
{
    enum { VALUES = 4099 };
    int16_t pcm[VALUES];
    uint64_t random = test_seed(1);
    for (int round = 0; round < 50; round++) {
        const unsigned shift = (unsigned)(test_random(&random) % 17);
        for (size_t i = 0; i < VALUES; i++)
            pcm[i] = (int16_t)((int32_t)(int16_t)test_random(&random) >> shift);
        pcm[test_random(&random) % VALUES] = INT16_MIN;
        const spsh__level want = plain_level(pcm, VALUES);
        spsh__level got = {0};
        for (size_t done = 0; done < VALUES;) { /* pieces of any size, at any alignment */
            size_t piece = (size_t)(test_random(&random) % 300);
            piece = piece < VALUES - done ? piece : VALUES - done;
            spsh__level_add(&got, SPSH_SAMPLE_I16, pcm + done, piece);
            done += piece;
        }
        CHECK_U64(got.values, want.values);
        CHECK_U64(got.square_sum, want.square_sum);
        CHECK_U64(got.full_scale_values, want.full_scale_values);
        CHECK_U64(got.peak, want.peak);
    }
}

/* All values are at the negative end: the squares of two neighbors add up to 2^31. */
static void test_level_at_full_scale(void)
{
    int16_t pcm[1000];
    spsh__level level = {0};
    spsh__level_counts counts = {0};
    for (size_t i = 0; i < 1000; i++)
        pcm[i] = INT16_MIN;
    spsh__level_add(&level, SPSH_SAMPLE_I16, pcm, 1000);
    CHECK_U64(level.square_sum, UINT64_C(1000) << 30);
    CHECK_U64(level.peak, 32768);
    CHECK_U64(level.full_scale_values, 1000);
    spsh__level_count(&level, &counts);
    CHECK_U64(counts.peaks[0], 1);
    CHECK_U64(counts.rms[0], 1);
    CHECK_U64(counts.clipped, 1);
}

static void test_level_of_wider_formats(void)
{
    const int32_t integers[] = {0x40000000, -0x40000000, 0x0000ffff, INT32_MIN};
    const float floats[] = {0.5F, -0.5F, 2.0F, -INFINITY, NAN};
    spsh__level level = {0};
    spsh__level_add(&level, SPSH_SAMPLE_I32, integers, 4);
    CHECK_U64(level.peak, 32768);
    CHECK_U64(level.square_sum, 2 * UINT64_C(16384) * 16384 + UINT64_C(32768) * 32768);
    level = (spsh__level){0};
    spsh__level_add(&level, SPSH_SAMPLE_F32, floats, 5);
    CHECK_U64(level.peak, 32768);
    CHECK_U64(level.full_scale_values, 2);
    CHECK_U64(level.values, 5);
}

static void test_level_bins(void)
{
    spsh__level_counts counts = {0};
    const spsh__level none = {0};
    spsh__level_count(&none, &counts); /* nothing was decoded */
    CHECK_U64(counts.recordings, 0);
    for (unsigned db = 0; db < 96; db++) { /* the middle of each bin */
        const double amplitude = 32768 * pow(10, -(db + 0.5) / 20);
        const spsh__level level = {
            .values = 1000000, .square_sum = (uint64_t)(amplitude * amplitude * 1e6), .peak = 1};
        const uint64_t before = counts.rms[db];
        spsh__level_count(&level, &counts);
        CHECK_U64(counts.rms[db], before + 1);
    }
    CHECK_U64(counts.peaks[90], 96); /* 1 of 32768: -90.3 dB */
    CHECK_U64(spsh__level_quiet(&counts), 36);
}

/* ---- sources ---- */

static void test_sources(void)
{
    spsh__sources sources = {0};
    REQUIRE(spsh__sources_add(&sources, 0, "", "table", "it has a % and a \n"));
    REQUIRE(spsh__sources_add(&sources, 0, "b\xff", "mls", ""));
    REQUIRE(spsh__sources_add(&sources, 1, "c", "mls", "x"));
    CHECK_STR(sources.items[0].root, ".");
    CHECK_STR(sources.items[0].evidence, "it has a % and a %0A");
    CHECK_STR(sources.items[1].root, "b%FF");
    sources.items[1].first_sequence = 10; /* the next source is empty: both begin at 20 */
    sources.items[2].first_sequence = 20;
    CHECK_U64(spsh__sources_of(&sources, 0), 0);
    CHECK_U64(spsh__sources_of(&sources, 9), 0);
    CHECK_U64(spsh__sources_of(&sources, 10), 1);
    CHECK_U64(spsh__sources_of(&sources, 19), 1);
    CHECK_U64(spsh__sources_of(&sources, 20), 2);
    CHECK_U64(spsh__sources_of(&sources, 1000), 2);
    sources.items[1].first_sequence = 20; /* the second source offered nothing */
    CHECK_U64(spsh__sources_of(&sources, 19), 0);
    CHECK_U64(spsh__sources_of(&sources, 20), 2);
    spsh__sources_free(&sources);
    spsh__sources_free(&sources);
}

static void test_balance(void)
{
    const spsh__source_rows rows = {
        .offered = 10, .rejected = 3, .repeated = 1, .merged = 4, .excluded = 5};
    spsh__source_tally tally = {.packed = 7, .rejected = 2, .audio_ns = 1};
    CHECK_U64(spsh__source_rows_in(&rows), 21); /* 10 offered, 2 more rejected, 4, 5 */
    CHECK_U64(spsh__source_rejected(&rows, &tally), 5);
    CHECK(spsh__source_balances(&rows, &tally));
    tally.packed = 6;
    CHECK(!spsh__source_balances(&rows, &tally));
}

/* A journal is read as it was written, and damage is found. */
static void test_journal(void)
{
    spsh__sources sources = {0};
    spsh__sources got = {0};
    spsh__published_found found = {
        .utterances = {[3] = 7, [20] = 512}
    };
    spsh__published_found got_found = {.utterances = {0}};
    const spsh__source_tally tallies[2] = {
        {0, 0, 0 },
        {5, 1, 99},
    };
    spsh__source_tally got_tallies[2] = {
        {0, 0, 0},
        {1, 1, 1},
    };
    spsh__builder out = {0};
    REQUIRE(spsh__sources_add(&sources, 2, "a b%20", "table", "it holds x"));
    REQUIRE(spsh__sources_add(&sources, 3, "c", "mls", ""));
    sources.items[1].first_sequence = 9;
    sources.items[1].rows = (spsh__source_rows){1, 2, 3, 4, 5};
    spsh__sources_append(&out, &sources);
    spsh__published_append(&out, &found);
    spsh__tallies_append(&out, tallies, 2);
    REQUIRE(spsh__builder_text(&out) != NULL);
    spsh__journal journal = {out.data, out.size_bytes, 0, "test", false};
    REQUIRE(spsh__sources_take(&journal, &got));
    REQUIRE(spsh__published_take(&journal, &got_found));
    REQUIRE(spsh__tallies_take(&journal, got_tallies, 2));
    CHECK_U64(journal.at, journal.size_bytes);
    REQUIRE(got.count == 2);
    CHECK_STR(got.items[0].root, sources.items[0].root); /* not escaped again */
    CHECK_STR(got.items[1].evidence, "");
    CHECK_U64(got.items[1].operand, 3);
    CHECK_U64(got.items[1].first_sequence, 9);
    CHECK(memcmp(&got.items[1].rows, &sources.items[1].rows, sizeof(spsh__source_rows)) == 0);
    CHECK(memcmp(got_found.utterances, found.utterances, sizeof(found.utterances)) == 0);
    CHECK_U64(got_tallies[1].packed, 6); /* added */
    CHECK_U64(got_tallies[1].audio_ns, 100);
    spsh__sources_free(&got);
    spsh__sources_free(&sources);
    spsh__builder_clear(&out);
    spsh__builder_append_text(&out, "tally 2 1 1 1\n"); /* there are only two sources */
    journal = (spsh__journal){out.data, out.size_bytes, 0, "test", false};
    CHECK(!spsh__tallies_take(&journal, got_tallies, 2));
    spsh__builder_free(&out);
}

/* ---- published counts ---- */

static void offer(spsh__published_found *found, const char *domain, const char *split,
                  const char *subset)
{
    const spsh_ingest_item item = {.layout_domain = spsh__bytes_of(domain),
                                   .domain = spsh__bytes_of("another"),
                                   .split = spsh__bytes_of(split),
                                   .subset = spsh__bytes_of(subset)};
    spsh__published_add(found, &item);
}

static uint64_t found_of(const spsh__published_found *found, const char *part)
{
    for (size_t i = 0; i < spsh__published_count(); i++) {
        if (strcmp(spsh__published_parts[i].part, part) == 0)
            return found->utterances[i];
    }
    return UINT64_MAX;
}

static void test_published(void)
{
    spsh__published_found found = {.utterances = {0}};
    char line[SPSH__PUBLISHED_LINE_BYTES];
    spsh__published_begin(&found, "mls-opus");
    offer(&found, "mls/german", "train", "");
    offer(&found, "mls/german", "train", "");
    offer(&found, "mls/polish", "dev", "");
    offer(&found, "mls/german", "dev", "");
    offer(&found, "mls/unknown", "dev", "");
    spsh__published_begin(&found, "librispeech");
    offer(&found, "librispeech/clean", "train", "train-clean-360");
    offer(&found, "librispeech/clean", "train", "train-clean-5");
    offer(&found, "mls/german", "train", ""); /* does not belong to this layout */
    spsh__published_begin(&found, "table");
    offer(&found, "mls/german", "train", "");
    CHECK_U64(found_of(&found, "german train"), 2);
    CHECK_U64(found_of(&found, "german dev"), 1);
    CHECK_U64(found_of(&found, "polish dev"), 1);
    CHECK_U64(found_of(&found, "train-clean-360"), 1);
    CHECK_U64(found_of(&found, "train-clean-100"), 0);
    CHECK_STR(spsh__published_line(0, 5496281, line),
              "MLS english train: 5,496,281 of 10,808,037 published utterances found (51 %)");
    CHECK_STR(spsh__published_line(22, 519, line),
              "MLS polish test: 519 of 520 published utterances found (99 %)");
    CHECK_STR(spsh__published_line(22, 521, line),
              "MLS polish test: 521 of 520 published utterances found (101 %)");
}

/* Neither a selection of a published part nor the whole part counts as a mismatch. */
static void test_published_rule(void)
{
    for (size_t i = 0; i < spsh__published_count(); i++) {
        const uint64_t all = spsh__published_parts[i].utterances;
        CHECK(!spsh__published_differs(i, all));
        CHECK(spsh__published_differs(i, all - 1));
        CHECK(spsh__published_differs(i, all + 1));
        CHECK(spsh__published_differs(i, all / 2));
        CHECK(!spsh__published_differs(i, all / 11));
    }
}

/* ---- pages ---- */

static void check_text(const char *text, size_t size_bytes, const char *want)
{
    spsh__builder out = {0};
    spsh__html_text(&out, (spsh_bytes){(const uint8_t *)text, size_bytes});
    const char *got = spsh__builder_text(&out);
    CHECK_STR(got == NULL ? "(none)" : got, want);
    spsh__builder_free(&out);
}

static void test_html_text(void)
{
    check_text("", 0, "");
    check_text("a<b>&\"'c", 8, "a&lt;b&gt;&amp;&quot;&#39;c");
    check_text("&lt;", 4, "&amp;lt;");
    check_text("\x01\t\n\x1f", 4, "\xef\xbf\xbd\t\n\xef\xbf\xbd");
    check_text("\0<", 2, "\xef\xbf\xbd&lt;");
    check_text("\xc3\xa4\xf0\x9f\x98\x80", 6, "\xc3\xa4\xf0\x9f\x98\x80");
    check_text("\xc3<\xa4", 3, "\xef\xbf\xbd&lt;\xef\xbf\xbd"); /* cut sequences hide nothing */
    check_text("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    check_text("\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", 9, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void test_bar(void)
{
    const spsh__svg_slice slices[] = {
        {1, 0 },
        {0, 1 },
        {1, 10},
    };
    spsh__builder out = {0};
    spsh__svg_bar(&out, slices, 3, 4);
    const char *text = spsh__builder_text(&out);
    REQUIRE(text != NULL);
    CHECK(strstr(text, "class=\"c0\" x=\"0.00\" y=\"0\" width=\"250.00\"") != NULL);
    CHECK(strstr(text, "class=\"c1\"") == NULL); /* invisible, except for another color */
    CHECK(strstr(text, "x=\"250.00\" y=\"0\" width=\"250.00\"") != NULL);
    spsh__builder_clear(&out);
    spsh__svg_bar(&out, slices, 3, 0); /* a bar of total 0 */
    text = spsh__builder_text(&out);
    CHECK(text != NULL && strstr(text, "<rect") == NULL);
    spsh__builder_free(&out);
}

static void test_histogram(void)
{
    static const struct {
        uint64_t most;
        double first, step;
        size_t count;
    } cases[] = {
        {0,          0,    1,     0  },
        {0,          0,    1,     1  },
        {1,          0,    0.01,  1  },
        {7,          -100, 1,     100},
        {1000000007, 0,    500,   50 },
        {UINT64_MAX, 0,    86400, 50 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t values[100] = {cases[i].most, 1};
        const spsh__svg_histogram plot = {.values = values,
                                          .count = cases[i].count,
                                          .first = cases[i].first,
                                          .step = cases[i].step,
                                          .last_is_open = true,
                                          .title = "a < b",
                                          .x_label = "x & y",
                                          .y_label = "n"};
        spsh__builder out = {0};
        spsh__svg_histogram_draw(&out, &plot);
        const char *text = spsh__builder_text(&out);
        REQUIRE(text != NULL);
        CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
        CHECK(strstr(text, "a &lt; b") != NULL && strstr(text, "x &amp; y") != NULL);
        CHECK(strlen(text) < 30000); /* ticks are few */
        spsh__builder_free(&out);
    }
}

/* Two kinds, on a logarithmic scale, with a limit and a gap. */
static void test_histogram_of_two(void)
{
    const uint64_t values[4] = {1, 0, 0, 0};
    const uint64_t others[4] = {0, 0, 0, 1000000};
    const spsh__svg_mark mark = {0.5, "a < limit"};
    const spsh__svg_histogram plot = {.values = values,
                                      .others = others,
                                      .count = 4,
                                      .marks = &mark,
                                      .mark_count = 1,
                                      .gap_first = 0.25,
                                      .gap_end = 0.75,
                                      .is_log = true,
                                      .step = 0.25,
                                      .color = 0,
                                      .other_color = 7,
                                      .title = "two",
                                      .x_label = "x",
                                      .y_label = "n"};
    spsh__builder out = {0};
    spsh__svg_histogram_draw(&out, &plot);
    const char *text = spsh__builder_text(&out);
    REQUIRE(text != NULL);
    /* a twentieth of the height (154), not a millionth: log10(2) / log10(1000001) */
    CHECK(strstr(text, "class=\"c0\" x=\"48.50\" y=\"170.27\" width=\"61.25\" height=\"7.73\"") !=
          NULL);
    CHECK(strstr(text, "class=\"c7\"") != NULL && strstr(text, "0.75 to 1: 1000000") != NULL);
    CHECK(strstr(text, "class=\"mark\" x1=\"297.0\"") != NULL);
    CHECK(strstr(text, "a &lt; limit") != NULL);
    CHECK(strstr(text, "class=\"gap\" x=\"172.5\"") != NULL);
    CHECK(strstr(text, ">1 M<") != NULL && strstr(text, ">1000<") != NULL);
    spsh__builder_free(&out);
}

TEST_MAIN(unit_pack_report)
{
    RUN(test_level_of_random_pcm);
    RUN(test_level_at_full_scale);
    RUN(test_level_of_wider_formats);
    RUN(test_level_bins);
    RUN(test_sources);
    RUN(test_balance);
    RUN(test_journal);
    RUN(test_published);
    RUN(test_published_rule);
    RUN(test_html_text);
    RUN(test_bar);
    RUN(test_histogram);
    RUN(test_histogram_of_two);
    return TEST_RESULT();
}
