/* unit_run_cost.c: the cost of a run, computed from metrics files whose sums are known. */
#include <math.h>

#include "runs/run_cost.h"
#include "runs/run_page.h"
#include "spsh_test.h"

static char folder[512];

static spsh__run_history *history_of(const char *lines)
{
    char path[600];
    spsh__run_history *h = NULL;
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", folder);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(fputs(lines, file) >= 0 && fclose(file) == 0);
    REQUIRE(spsh__run_history_read(folder, spsh_io_default(), &h, NULL) == SPSH_OK);
    test_remove_tree(folder);
    return h;
}

#define START(samples_, time_, world_, more_)                                                      \
    "{\"kind\":\"start\",\"samples\":" #samples_ ",\"time\":" #time_                               \
    ",\"world_size\":" #world_ more_ "}\n"
#define STEP(samples_, time_, step_s_, save_s_)                                                    \
    "{\"kind\":\"step\",\"samples\":" #samples_ ",\"step\":1,\"time\":" #time_                     \
    ",\"step_s\":" #step_s_ ",\"save_s\":" #save_s_ "}\n"
#define EVALUATION(samples_, time_, seconds_)                                                      \
    "{\"kind\":\"evaluation\",\"set\":\"dev\",\"samples\":" #samples_ ",\"time\":" #time_          \
    ",\"seconds\":" #seconds_ "}\n"
#define BEFORE(time_, samples_, starts_, lost_s_, lost_process_s_, stopped_s_)                     \
    ",\"before_time\":" #time_ ",\"lost_samples\":" #samples_ ",\"lost_starts\":" #starts_         \
    ",\"lost_s\":" #lost_s_ ",\"lost_process_s\":" #lost_process_s_ ",\"stopped_s\":" #stopped_s_

/* Four processes from second 10000 on: 2000 s kept, 600 s lost, 1000 s stopped. Then four again:
 * 1800 s kept, 1800 s stopped. Then two: 1800 s kept. Finally a start with nothing left to do. */
static const char two_restarts[] =
    START(0, 10000, 4, "") STEP(8, 10900, 900, 0) STEP(16, 11800, 900, 30)
        EVALUATION(16, 12000, 200) START(16, 13600, 4, BEFORE(12600, 40, 0, 600, 2400, 0))
            STEP(24, 15400, 1800, 0) START(24, 17200, 2, BEFORE(15400, 0, 0, 0, 0, 0))
                STEP(32, 19000, 1700, 0) START(32, 99000, 2, BEFORE(19000, 0, 0, 0, 0, 0));

static void test_two_restarts(void)
{
    spsh__run_history *h = history_of(two_restarts);
    const spsh__run_cost c = spsh__run_cost_of(h);
    CHECK_U64(c.restarts, 2);
    CHECK(c.wall_s == 9000);
    CHECK(c.kept_s == 2000 + 1800 + 1800);
    CHECK(c.kept_process_s == 4 * 2000 + 4 * 1800 + 2 * 1800);
    CHECK(c.lost_s == 600 && c.lost_process_s == 2400 && c.lost_samples == 40);
    CHECK(c.stopped_s == 1000 + 1800);
    CHECK(c.stopped_process_s == 4 * 1000 + 2 * 1800);
    CHECK(c.wall_s == c.kept_s + c.lost_s + c.stopped_s);
    CHECK(c.step_s == 900 + 900 + 1800 + 1700);
    CHECK(c.evaluation_s == 200 && c.save_s == 30 && c.other_s == 70);
    spsh__run_history_free(h);
}

/* 18800 process seconds are kept and 2400 lost. With two processes per node, these are 2.61 and
 * 0.33 node hours.
 */
static void test_prices(void)
{
    const spsh__run_rates rates = {36, 9, 2};
    spsh__run_history *h = history_of(two_restarts);
    const spsh__run_cost c = spsh__run_cost_of(h);
    spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX];
    CHECK(spsh__run_price(c.kept_process_s, 36, &rates) == 94);
    REQUIRE(spsh__run_cost_rows(&c, &rates, rows) == 9);
    CHECK_STR(rows[0].what, "wall clock");
    CHECK_STR(rows[0].text, "2.50 h");
    CHECK_STR(rows[1].text, "1.56 h, of processes 5.22 h");
    CHECK_STR(rows[2].text, "steps 94.64 %, evaluations 3.57 %, checkpoints 0.54 %, other 1.25 %");
    CHECK_STR(rows[3].text, "2");
    CHECK_STR(rows[4].text, "0.17 h, of processes 0.67 h, 11.32 % of all; 40 utterances");
    CHECK_STR(rows[5].text, "0.78 h, of processes 2.11 h");
    CHECK_STR(rows[6].text, "26.50 for the kept and the lost work");
    CHECK_STR(rows[7].text, "36.00 if you also paid for the machines while the run was stopped");
    CHECK_STR(rows[8].text, "94.00 for the kept work only, as if nothing had stopped the run");
    CHECK_U64(spsh__run_cost_rows(&c, NULL, rows), 6);
    spsh__run_history_free(h);
}

/* A restart from an older checkpoint than the previous start: both losses, and the stop between. */
static void test_lost_starts(void)
{
    spsh__run_history *h = history_of(START(0, 100, 1, "") START(
        0, 900, 1, BEFORE(800, 99, 1, 300, 500, 250)) STEP(8, 1000, 60, 1));
    const spsh__run_cost c = spsh__run_cost_of(h);
    CHECK_U64(c.restarts, 2);
    CHECK(c.lost_s == 300 && c.lost_process_s == 500 && c.lost_samples == 99);
    CHECK(c.stopped_s == 100 + 250);
    /* The second start. 150 s of the first start's 700 s are neither lost nor stopped. */
    CHECK(c.kept_s == 100);
    spsh__run_history_free(h);
}

/* Metrics of earlier versions do not record discarded work. So the lost time and its cost are
 * unknown. */
static void test_earlier_version(void)
{
    const spsh__run_rates rates = {36, 9, 1};
    spsh__run_history *h = history_of(START(0, 1000, 1, "") STEP(8, 4600, 3000, 0)
                                          START(8, 9000, 1, "") STEP(16, 12600, 3600, 0));
    const spsh__run_cost c = spsh__run_cost_of(h);
    spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX];
    CHECK_U64(c.restarts, 1);
    CHECK(c.kept_s == 7200 && c.wall_s == 11600);
    CHECK(isnan(c.lost_s) && isnan(c.lost_process_s) && isnan(c.stopped_s));
    REQUIRE(spsh__run_cost_rows(&c, &rates, rows) == 8);
    CHECK_STR(rows[4].text, "unknown: an earlier version did not record the lost work");
    CHECK_STR(rows[5].text, "unknown");
    CHECK_STR(rows[6].text, "unknown");
    CHECK_STR(rows[7].text, "72.00 for the kept work only, as if nothing had stopped the run");
    spsh__run_history_free(h);
}

static void test_no_start(void)
{
    spsh__run_history *h = history_of(STEP(8, 4600, 3000, 0));
    const spsh__run_cost c = spsh__run_cost_of(h);
    spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX];
    CHECK(isnan(c.wall_s) && isnan(c.kept_s));
    CHECK_U64(spsh__run_cost_rows(&c, NULL, rows), 0);
    spsh__run_history_free(h);
}

/* Clocks that go back give no negative times. Without a restart, nothing is lost. */
static void test_one_start(void)
{
    spsh__run_history *h =
        history_of(START(0, 5000, 3, "") STEP(8, 6000, 900, 0) STEP(16, 4000, 50, 0));
    const spsh__run_cost c = spsh__run_cost_of(h);
    CHECK(c.restarts == 0 && c.lost_s == 0 && c.stopped_s == 0);
    CHECK(c.wall_s == 0 && c.kept_s == 0 && c.other_s == 0);
    spsh__run_history_free(h);
}

static void test_page(void)
{
    const spsh__run_rates rates = {36, 9, 2};
    spsh__builder page = {0};
    spsh__run_history *h = history_of(two_restarts);
    spsh__run_page(&page, "run", h, NULL, &rates);
    const char *text = spsh__builder_text(&page);
    REQUIRE(text != NULL);
    CHECK(strstr(text, "<h2>Cost</h2>") != NULL);
    CHECK(strstr(text, "26.50 for the kept and the lost work") != NULL);
    CHECK(strstr(text, "94.00 for the kept work only") != NULL);
    spsh__builder_clear(&page);
    spsh__run_page(&page, "run", h, NULL, NULL);
    CHECK(strstr(spsh__builder_text(&page), "price") == NULL);
    spsh__builder_free(&page);
    spsh__run_history_free(h);
}

TEST_MAIN(unit_run_cost)
{
    RUN(test_two_restarts);
    RUN(test_prices);
    RUN(test_lost_starts);
    RUN(test_earlier_version);
    RUN(test_no_start);
    RUN(test_one_start);
    RUN(test_page);
    return TEST_RESULT();
}
