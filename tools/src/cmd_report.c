/* cmd_report.c: `speechshard report`: the page of a training run. */
#include <math.h>

#include "cli.h"
#include "commands.h"
#include "json_out.h"
#include "train/run_page.h"

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

/* The newest of each set; the best of the first one, by which the best checkpoint is chosen. */
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

static int print_summary(const char *run)
{
    spsh__run_history *h = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__run_history_read(run, spsh_io_default(), &h, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    spsh_json *json = spsh__json_new();
    spsh_status rc = SPSH_E_NO_MEMORY;
    if (json != NULL) {
        spsh__json_put_string(json, "run", run);
        spsh__json_put_u64(json, "starts", h->start_count);
        spsh__json_put_real(json, "time", h->last_time);
        put_steps(json, h);
        put_evaluations(json, h);
        spsh__json_put_u64(json, "damaged_lines", h->damaged_lines);
        rc = spsh__json_write_line(json, stdout, &err);
    }
    spsh__json_free(json);
    spsh__run_history_free(h);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

int spsh__cmd_report(int argc, char **argv)
{
    const char *output = NULL;
    bool json = false;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "FILE", "the page; RUN/report.html",                                &output, 0, 0},
        {"json",   0,   SPSH_CLI_FLAG, NULL,   "print a summary as JSON, and draw no page but that of -o",
         &json,                                                                                                     0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "report",
        "RUN",
        NULL,
        "draw a training run: curves, error rates, examples",
        "The page needs nothing but itself. It is made of what the run has written so far, so it\n"
        "can be drawn while the run goes on.",
        "speechshard report run\n"
        "speechshard report run -o run.html\n"
        "speechshard report run --json\n",
        options};
    spsh_cli_args args;
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if ((!json || output != NULL) &&
        spsh__run_page_write(args.operands[0], output, spsh_io_default(), &err) != SPSH_OK)
        return spsh__cli_finish(spsh__cli_fail(NULL, &err));
    if (json)
        return spsh__cli_finish(print_summary(args.operands[0]));
    if (output != NULL)
        (void)printf("%s\n", output);
    else
        (void)printf("%s/report.html\n", args.operands[0]);
    return spsh__cli_finish(SPSH_EXIT_DONE);
}
