/* unit_run_history.c: reading a run's metrics.jsonl, and plotting it. */
#include <math.h>

#include "common/curve.h"
#include "runs/run_history.h"
#include "runs/run_page.h"
#include "spsh_test.h"

static char folder[512];
static FILE *file;

static void begin_run(void)
{
    char path[600];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    file = fopen(path, "wb");
    REQUIRE(file != NULL);
}

static void put_step(uint64_t step, double loss)
{
    (void)fprintf(file,
                  "{\"kind\":\"step\",\"samples\":%" PRIu64 ",\"step\":%" PRIu64
                  ",\"time\":1700000000.5,\"epoch\":0,\"loss\":%g,\"rate\":0.001,\"step_s\":0.5,"
                  "\"wait_s\":0.05,\"audio_s\":40,\"utterances\":8,\"infeasible\":1,"
                  "\"skipped_steps\":3,\"domains\":{\"a<b\":{\"loss\":%g,\"utterances\":3},"
                  "\"b\":{\"loss\":null,\"utterances\":0}}}\n",
                  8 * step, step, loss, loss / 2);
}

static void put_start(uint64_t step)
{
    (void)fprintf(file,
                  "{\"kind\":\"start\",\"samples\":%" PRIu64 ",\"step\":%" PRIu64
                  ",\"time\":1.6e9,\"world_size\":2,\"threads\":1,\"weights\":100,"
                  "\"backend\":\"cpu\",\"strategy\":\"allreduce\",\"launcher\":\"mpirun\"}\n",
                  8 * step, step);
}

static void put_evaluation(uint64_t step, const char *set, double wer)
{
    (void)fprintf(file,
                  "{\"kind\":\"evaluation\",\"samples\":%" PRIu64 ",\"step\":%" PRIu64
                  ",\"set\":\"%s\",\"loss\":null,\"wer\":%g,\"cer\":0.5,\"cer_letters\":0.4,"
                  "\"seconds\":2,\"utterances\":4,\"words\":9,\"examples\":[{\"id\":\"u%" PRIu64
                  "\",\"reference\":\"x <i>\",\"found\":\"y\"}]}\n",
                  8 * step, step, set, wer, step);
}

static spsh__run_history *end_run(void)
{
    spsh__run_history *h = NULL;
    REQUIRE(fclose(file) == 0);
    REQUIRE(spsh__run_history_read(folder, spsh_io_default(), &h, NULL) == SPSH_OK);
    return h;
}

/* ---- series ---- */

static void test_series_keeps_points(void)
{
    spsh__series s;
    REQUIRE(spsh__series_open(&s, 2));
    for (int i = 0; i < SPSH__SERIES_BINS; i++)
        spsh__series_add(&s, i, (double[]){2.0 * i, i == 3 ? (double)NAN : 1}, 1);
    CHECK_U64(s.count, SPSH__SERIES_BINS);
    CHECK_U64(s.points_each, 1);
    CHECK(spsh__series_x(&s, 7) == 7 && spsh__series_mean(&s, 7, 0) == 14);
    CHECK(isnan(spsh__series_mean(&s, 3, 1)));
    CHECK(spsh__series_sum(&s, 1) == SPSH__SERIES_BINS - 1);
    spsh__series_close(&s);
}

/* A million points give the usual number of bins, exact sums, and the extremes in the right bins.
 */
static void test_series_thins(void)
{
    enum { POINTS = 1000000, ODD = 123457 };
    spsh__series s;
    double least = (double)INFINITY, greatest = -(double)INFINITY, points = 0, x_before = -1;
    REQUIRE(spsh__series_open(&s, 1));
    for (int i = 0; i < POINTS; i++) {
        const double value = i == ODD ? 1000 : i % 5;
        spsh__series_add(&s, i, &value, 1);
    }
    CHECK(s.count > SPSH__SERIES_BINS / 2 - 1 && s.count <= SPSH__SERIES_BINS);
    CHECK_U64(s.points_each, 2048);
    for (size_t i = 0; i < s.count; i++) {
        const spsh__bin *b = spsh__series_bin(&s, i, 0);
        least = fmin(least, b->least);
        greatest = fmax(greatest, b->greatest);
        points += b->weight;
        CHECK(spsh__series_x(&s, i) > x_before);
        x_before = spsh__series_x(&s, i);
        if (i == ODD / 2048)
            CHECK(b->greatest == 1000);
        else
            CHECK(b->greatest == 4);
    }
    CHECK(least == 0 && greatest == 1000 && points == POINTS);
    CHECK(spsh__series_sum(&s, 0) == 2.0 * POINTS - ODD % 5 + 1000);
    spsh__series_cut(&s, 2047);
    CHECK_U64(s.count, 1);
    spsh__series_cut(&s, 2046);
    CHECK_U64(s.count, 0);
    spsh__series_close(&s);
}

static void test_series_weighs(void)
{
    spsh__series s;
    REQUIRE(spsh__series_open(&s, 1));
    for (int i = 0; i < 2 * SPSH__SERIES_BINS; i++)
        spsh__series_add(&s, i, (double[]){i % 2 == 0 ? 10 : 20}, i % 2 == 0 ? 3 : 1);
    CHECK(spsh__series_mean(&s, 0, 0) == 12.5);
    spsh__series_close(&s);
}

/* ---- history ---- */

static void test_history(void)
{
    begin_run();
    put_start(0);
    for (uint64_t step = 1; step <= 4; step++)
        put_step(step, 10.0 * (double)step);
    put_evaluation(4, "dev", 0.5);
    put_evaluation(4, "test", 0.25);
    (void)fputs("{\"kind\":\"of later versions\",\"samples\":32}\n", file);
    spsh__run_history *h = end_run();
    CHECK_U64(h->steps.count, 4);
    CHECK(spsh__series_x(&h->steps, 1) == 16);
    CHECK(spsh__series_mean(&h->steps, 1, SPSH__RUN_LOSS) == 20);
    CHECK(isnan(spsh__series_mean(&h->steps, 1, SPSH__RUN_NORM)));
    CHECK(spsh__series_sum(&h->steps, SPSH__RUN_INFEASIBLE) == 4);
    CHECK(h->last[SPSH__RUN_LOSS] == 40);
    CHECK(h->last_step.step == 4 && h->last_step.samples == 32 && h->last_step.skipped_steps == 3);
    CHECK_U64(h->domain_count, 1); /* the model was never trained on b */
    CHECK_STR(h->domains[0].name, "a<b");
    CHECK(spsh__series_mean(&h->domains[0].series, 0, 0) == 5);
    CHECK_U64(h->set_count, 2);
    CHECK_U64(h->evaluation_count, 2);
    CHECK_STR(h->sets[h->evaluations[1].set].name, "test");
    CHECK(h->evaluations[1].wer == 0.25 && isnan(h->evaluations[1].loss));
    CHECK_STR(h->sets[0].examples[0].id, "u4");
    CHECK_U64(h->start_count, 1);
    CHECK_STR(h->starts[0].launcher, "mpirun");
    CHECK_U64(h->damaged_lines, 0);
    spsh__run_history_free(h);
    test_remove_tree(folder);
}

/* The last line is incomplete if the run is still writing or was killed. */
static void test_torn_last_line(void)
{
    begin_run();
    put_step(1, 1);
    (void)fputs("{\"kind\":\"step\",\"samples\":16,\"lo", file);
    spsh__run_history *h = end_run();
    CHECK_U64(h->steps.count, 1);
    CHECK_U64(h->damaged_lines, 0);
    spsh__run_history_free(h);
    test_remove_tree(folder);
}

static void test_damaged_lines(void)
{
    begin_run();
    put_step(1, 1);
    (void)fputs("\n", file);
    (void)fputs("{\"kind\":\"step\",\"samples\":1\n", file);
    (void)fputs("[1,2]\n", file);
    (void)fwrite("\0\xff\n", 1, 3, file);
    (void)fputs("{\"kind\":\"step\",\"samples\":\"many\",\"loss\":4}\n",
                file);                           /* has no position */
    for (size_t i = 0; i < (size_t)5 << 20; i++) /* longer than one read */
        (void)fputc('x', file);
    (void)fputc('\n', file);
    put_step(2, 3);
    spsh__run_history *h = end_run();
    CHECK_U64(h->steps.count, 2);
    CHECK(h->last[SPSH__RUN_LOSS] == 3);
    CHECK_U64(h->damaged_lines, 5);
    CHECK_U64(h->first_damaged_line, 2);
    spsh__run_history_free(h);
    test_remove_tree(folder);
}

/* After a restart, steps and evaluations after the checkpoint count once, as the new process
 * recorded them. */
static void test_restart(void)
{
    begin_run();
    put_start(0);
    for (uint64_t step = 1; step <= 6; step++)
        put_step(step, 1);
    put_evaluation(5, "dev", 0.5);
    put_start(4);
    for (uint64_t step = 5; step <= 6; step++)
        put_step(step, 2);
    put_evaluation(6, "dev", 0.4);
    spsh__run_history *h = end_run();
    CHECK_U64(h->steps.count, 6);
    CHECK(spsh__series_sum(&h->steps, SPSH__RUN_LOSS) == 4 * 1 + 2 * 2);
    CHECK_U64(h->evaluation_count, 1);
    CHECK_U64(h->sets[0].series.count, 1);
    CHECK(h->evaluations[0].wer == 0.4);
    CHECK_U64(h->start_count, 2);
    spsh__run_history_free(h);
    test_remove_tree(folder);
}

static void test_no_run(void)
{
    spsh__run_history *h = NULL;
    test_temp_dir(folder, sizeof(folder));
    CHECK_I64(spsh__run_history_read(folder, spsh_io_default(), &h, NULL), SPSH_E_NOT_FOUND);
    test_remove_tree(folder);
}

/* ---- plots ---- */

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

static void test_curve(void)
{
    spsh__series s;
    spsh__builder out = {0};
    REQUIRE(spsh__series_open(&s, 2));
    for (int i = 0; i < 10; i++)
        spsh__series_add(&s, i, (double[]){i == 4 ? (double)NAN : 5.0, 10}, 1);
    spsh__line lines[] = {
        {&s, 0, SPSH__NO_COLUMN, 1,   "<one>", 0, true },
        {&s, 0, 1,               100, "share", 1, false},
    };
    const double marks[] = {0, 4.5};
    const spsh__curve curve = {.lines = lines,
                               .line_count = 2,
                               .marks = marks,
                               .mark_count = 2,
                               .title = "T",
                               .x_label = "x",
                               .y_label = "y"};
    spsh__curve_draw(&out, &curve);
    const char *text = spsh__builder_text(&out);
    REQUIRE(text != NULL);
    CHECK_U64(count_of(text, "<circle"), 9);
    CHECK_U64(count_of(text, "<path"), 3); /* the first line has a gap */
    CHECK_U64(count_of(text, "class=\"mark\""), 1);
    CHECK(strstr(text, "&lt;one&gt;") != NULL);
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
    spsh__builder_clear(&out);
    spsh__series_cut(&s, -1);
    spsh__curve_draw(&out, &curve);
    CHECK_U64(out.size_bytes, 0);
    spsh__builder_free(&out);
    spsh__series_close(&s);
}

/* A single point of value 0: the axis starts at 0, and does not cover billionths. */
static void test_curve_of_nothing_much(void)
{
    spsh__series s;
    spsh__builder out = {0};
    REQUIRE(spsh__series_open(&s, 1));
    spsh__series_add(&s, 300, (double[]){0}, 1);
    const spsh__line line = {&s, 0, SPSH__NO_COLUMN, 1, "", 0, false};
    const spsh__curve curve = {
        .lines = &line, .line_count = 1, .title = "T", .x_label = "x", .y_label = "y"};
    spsh__curve_draw(&out, &curve);
    const char *text = spsh__builder_text(&out);
    REQUIRE(text != NULL);
    CHECK_U64(count_of(text, "<circle"), 1);
    CHECK(strstr(text, ">0.4</text>") != NULL && strstr(text, ">200</text>") != NULL);
    CHECK(strstr(text, ">-") == NULL && strstr(text, "1e-") == NULL);
    spsh__builder_free(&out);
    spsh__series_close(&s);
}

static size_t page_bytes(uint64_t steps)
{
    spsh__builder page = {0};
    begin_run();
    put_start(0);
    for (uint64_t step = 1; step <= steps; step++)
        put_step(step, 100.0 / (double)(step % 1000 + 1));
    put_evaluation(steps, "dev <b>", 0.5);
    spsh__run_history *h = end_run();
    spsh__run_page(&page, "<run>", h, "vocabulary: \"a<b\"\n# x\ntrain:\n  rate: 0.1\n", NULL);
    const char *text = spsh__builder_text(&page);
    REQUIRE(text != NULL);
    CHECK(strstr(text, "<b>\"") == NULL && strstr(text, "<run>") == NULL);
    CHECK(strstr(text, "dev &lt;b&gt;") != NULL);
    CHECK(strstr(text, "<code>train.rate</code>") != NULL);
    CHECK(strstr(text, "50.00 %") != NULL);
    const size_t size_bytes = page.size_bytes;
    spsh__builder_free(&page);
    spsh__run_history_free(h);
    test_remove_tree(folder);
    return size_bytes;
}

/* The report page of a long run is not larger than the page of a shorter run. */
static void test_page(void)
{
    const size_t bytes = page_bytes(2 * SPSH__SERIES_BINS);
    CHECK(bytes < 300000);
    CHECK(page_bytes(40000) < 2 * bytes);
}

TEST_MAIN(unit_run_history)
{
    RUN(test_series_keeps_points);
    RUN(test_series_thins);
    RUN(test_series_weighs);
    RUN(test_history);
    RUN(test_torn_last_line);
    RUN(test_damaged_lines);
    RUN(test_restart);
    RUN(test_no_run);
    RUN(test_curve);
    RUN(test_curve_of_nothing_much);
    RUN(test_page);
    return TEST_RESULT();
}
