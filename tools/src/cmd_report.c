/* cmd_report.c: `speechshard report`: write the page of a training run, and print its cost. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "commands.h"
#include "common/json_out.h"
#include "runs/run_page.h"
#include "speechshard/decimal.h"

static void put_count(spsh_json *json, const char *key, double value)
{
    spsh__json_put_u64(json, key, value > 0 && value < 1e18 ? (uint64_t)value : 0);
}

static void put_evaluation(spsh_json *json, const char *key, const spsh__run_history *h,
                           const spsh__run_evaluation *e)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_string(json, "set", h->sets[e->set].name);
    put_count(json, "step", e->step);
    put_count(json, "samples", e->samples);
    spsh__json_put_real(json, "wer", e->wer);
    spsh__json_put_real(json, "cer", e->cer);
    spsh__json_put_real(json, "frame_error", e->frame_error);
    spsh__json_put_real(json, "loss", e->loss);
    spsh__json_end(json);
}

/* Add the newest evaluation of each set, and the best one of the first set, which selects the best
 * checkpoint. */
static void put_evaluations(spsh_json *json, const spsh__run_history *h)
{
    const spsh__run_evaluation *best = spsh__run_best(h);
    spsh__json_begin_array(json, "evaluations");
    for (size_t set = 0; set < h->set_count; set++) {
        const spsh__run_evaluation *newest = spsh__run_newest(h, set);
        if (newest != NULL)
            put_evaluation(json, NULL, h, newest);
    }
    spsh__json_end(json);
    if (best != NULL)
        put_evaluation(json, "best", h, best);
    else
        spsh__json_put_null(json, "best");
}

static void put_steps(spsh_json *json, const spsh__run_history *h)
{
    const double step_s = spsh__series_sum(&h->steps, SPSH__RUN_STEP_S);
    put_count(json, "steps", h->last_step.step);
    put_count(json, "epoch", h->last_step.epoch);
    put_count(json, "samples", h->last_step.samples);
    spsh__json_put_real(json, "loss", h->last[SPSH__RUN_LOSS]);
    spsh__json_put_real(json, "audio_seconds", spsh__series_sum(&h->steps, SPSH__RUN_AUDIO_S));
    spsh__json_put_real(json, "step_seconds", step_s);
    spsh__json_put_real(json, "wait_share", spsh__series_sum(&h->steps, SPSH__RUN_WAIT_S) / step_s);
    spsh__json_put_real(json, "exchange_share",
                        spsh__series_sum(&h->steps, SPSH__RUN_EXCHANGE_S) / step_s);
    put_count(json, "infeasible", spsh__series_sum(&h->steps, SPSH__RUN_INFEASIBLE));
    put_count(json, "without_text", spsh__series_sum(&h->steps, SPSH__RUN_WITHOUT_TEXT));
    put_count(json, "without_frames", spsh__series_sum(&h->steps, SPSH__RUN_WITHOUT_FRAMES));
    put_count(json, "without_alignment", spsh__series_sum(&h->steps, SPSH__RUN_WITHOUT_ALIGNMENT));
    put_count(json, "other_length", spsh__series_sum(&h->steps, SPSH__RUN_OTHER_LENGTH));
    put_count(json, "skipped_steps", h->last_step.skipped_steps);
}

/* ---- cost ---- */

static void put_price(spsh_json *json, const char *key, double process_s, double rate,
                      const spsh__run_rates *rates)
{
    if (isfinite(rate))
        spsh__json_put_real(json, key, spsh__run_price(process_s, rate, rates));
}

static void put_cost(spsh_json *json, const spsh__run_history *h, const spsh__run_rates *rates)
{
    const spsh__run_cost c = spsh__run_cost_of(h);
    const double ran_s = c.kept_process_s + c.lost_process_s;
    spsh__json_begin_object(json, "cost");
    spsh__json_put_real(json, "wall_s", c.wall_s);
    spsh__json_put_u64(json, "restarts", c.restarts);
    spsh__json_put_real(json, "kept_s", c.kept_s);
    spsh__json_put_real(json, "kept_process_s", c.kept_process_s);
    spsh__json_put_real(json, "lost_s", c.lost_s);
    spsh__json_put_real(json, "lost_process_s", c.lost_process_s);
    spsh__json_put_real(json, "lost_samples", c.lost_samples);
    spsh__json_put_real(json, "stopped_s", c.stopped_s);
    spsh__json_put_real(json, "stopped_process_s", c.stopped_process_s);
    spsh__json_put_real(json, "step_s", c.step_s);
    spsh__json_put_real(json, "evaluation_s", c.evaluation_s);
    spsh__json_put_real(json, "save_s", c.save_s);
    spsh__json_put_real(json, "other_s", c.other_s);
    put_price(json, "price_preemptible", ran_s, rates->preemptible, rates);
    put_price(json, "price_preemptible_max", ran_s + c.stopped_process_s, rates->preemptible,
              rates);
    put_price(json, "price_on_demand", c.kept_process_s, rates->on_demand, rates);
    spsh__json_end(json);
}

static int print_cost(const char *run, const spsh__run_rates *rates)
{
    spsh__run_history *h = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__run_history_read(run, spsh_io_default(), &h, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    const spsh__run_cost cost = spsh__run_cost_of(h);
    spsh__run_cost_row rows[SPSH__RUN_COST_ROWS_MAX];
    const size_t count = spsh__run_cost_rows(&cost, rates, rows);
    if (h->damaged_lines > 0)
        spsh__cli_message("%s: %" PRIu64
                          " invalid lines in metrics.jsonl, the first one is line %" PRIu64
                          ": they are ignored",
                          run, h->damaged_lines, h->first_damaged_line);
    for (size_t i = 0; i < count; i++)
        (void)printf("%-20s %s\n", rows[i].what, rows[i].text);
    spsh__run_history_free(h);
    if (count > 0)
        return SPSH_EXIT_DONE;
    spsh__cli_error(
        "%s: the cost is unknown, because metrics.jsonl has no record of a start with its time",
        run);
    return SPSH_EXIT_FAILED;
}

/* Parse a rate such as "on-demand=32.77". Returns false if it is invalid. */
static bool read_rate(const char *text, spsh__run_rates *rates)
{
    const char *number = strchr(text, '=');
    double *to = NULL;
    if (strncmp(text, "on-demand=", 10) == 0)
        to = &rates->on_demand;
    else if (strncmp(text, "preemptible=", 12) == 0)
        to = &rates->preemptible;
    if (to == NULL || number[1] < '0' || number[1] > '9') /* no sign, no blank, no "inf" */
        return false;
    return spsh_decimal_scan(number + 1, strlen(number + 1), to) == strlen(number + 1) && *to < 1e9;
}

/* ---- the command ---- */

static int print_summary(const char *run, const spsh__run_rates *rates)
{
    spsh__run_history *h = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__run_history_read(run, spsh_io_default(), &h, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "run", run);
    spsh__json_put_u64(json, "starts", h->start_count);
    spsh__json_put_real(json, "time", h->last_time);
    put_steps(json, h);
    put_evaluations(json, h);
    put_cost(json, h, rates);
    spsh__json_put_u64(json, "damaged_lines", h->damaged_lines);
    spsh__run_history_free(h);
    return spsh__cli_json(json);
}

typedef struct request {
    const char *run, *output;
    bool is_json, wants_cost;
    spsh__run_rates rates;
} request;

static int answer(const request *r)
{
    spsh_error err = SPSH_ERROR_INIT;
    if ((!r->is_json || r->output != NULL) &&
        spsh__run_page_write(r->run, r->output, &r->rates, spsh_io_default(), &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    if (r->is_json)
        return print_summary(r->run, &r->rates);
    if (r->wants_cost)
        return print_cost(r->run, &r->rates);
    if (r->output != NULL)
        (void)printf("%s\n", r->output);
    else
        (void)printf("%s/report.html\n", r->run);
    return SPSH_EXIT_DONE;
}

int spsh__cmd_report(int argc, char **argv)
{
    request r = {.rates = {(double)NAN, (double)NAN, 1}};
    spsh_cli_texts rates = {.count = 0};
    uint64_t processes_per_node = 1;
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "FILE", "page to write (default: RUN/report.html)",
         &r.output, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print a summary as JSON; write a page only with -o",
         &r.is_json, 0, 0},
        {"cost", 0, SPSH_CLI_FLAG, NULL,
         "print hours, restarts, and the work that they lost, instead of the page's path",
         &r.wants_cost, 0, 0},
        {"rate", 0, SPSH_CLI_TEXTS, "KIND=PRICE",
         "also print the cost; PRICE is per hour and node, in any currency; KIND is on-demand or "
         "preemptible; may be repeated",
         &rates, 0, 0},
        {"processes-per-node", 0, SPSH_CLI_COUNT, "N",
         "number of processes per node; the price of a node is divided by N (default: 1)",
         &processes_per_node, 1, 1 << 20},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "report",
        "RUN",
        NULL,
        "write a page about a run: curves, error rates, examples, cost",
        "The page is one self-contained file. It shows the run's results so far; the run may still "
        "be in progress.",
        "speechshard report run\n"
        "speechshard report run -o run.html\n"
        "speechshard report run --json\n"
        "speechshard report run --rate preemptible=9.83 --rate on-demand=32.77 "
        "--processes-per-node 8\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    for (size_t i = 0; i < rates.count; i++) {
        if (!read_rate(rates.items[i], &r.rates))
            return spsh__cli_usage("report",
                                   "--rate %s: write on-demand=PRICE or preemptible=PRICE, a price "
                                   "such as 9.83",
                                   rates.items[i]);
    }
    r.run = args.operands[0];
    r.wants_cost = r.wants_cost || rates.count > 0;
    r.rates.processes_per_node = (double)processes_per_node;
    return spsh__cli_finish(answer(&r));
}
