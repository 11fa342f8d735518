/* train_simulate_out.c: print strategies simulated on a cluster, as a table or as JSON. */
#include "train_simulate_out.h"

#include <inttypes.h>
#include <math.h>

#include "cli/cli.h"
#include "speechshard/train.h"

/* ---- for people ---- */

static const char *seconds(double value, char dst[SPSH_HUMAN_BYTES])
{
    if (isfinite(value) && value < 100)
        (void)snprintf(dst, SPSH_HUMAN_BYTES, "%.3g s", value);
    else if (isfinite(value))
        (void)spsh__human_duration(value, dst);
    else
        (void)snprintf(dst, SPSH_HUMAN_BYTES, "-");
    return dst;
}

static void add_row(spsh_table *table, const spsh_train_simulated *r)
{
    char exposed[SPSH_HUMAN_BYTES], took[SPSH_HUMAN_BYTES], target_took[SPSH_HUMAN_BYTES];
    const char *learners = SPSH_SHOW("%" PRIu32, r->learners);
    if (r->batches == 0) {
        spsh__table_row(table, r->strategy, learners, "-", "-", "-", "-", "-", "-", "-", "-", "-");
        return;
    }
    spsh__table_row(table, r->strategy, learners, SPSH_SHOW("%.3f", r->share),
                    SPSH_SHOW("%.3g", r->steps_per_s),
                    SPSH_SHOW("%.3g-%.3g", r->slowest_steps_per_s, r->fastest_steps_per_s),
                    SPSH_SHOW_BYTES((uint64_t)r->sent_bytes), seconds(r->exposed_s, exposed),
                    SPSH_SHOW("%.3g/%" PRIu32 "/%" PRIu32, r->staleness_mean, r->staleness_p50,
                              r->staleness_max),
                    seconds(r->seconds, took),
                    r->target_batches > 0 ? SPSH_SHOW("%" PRIu64, r->target_batches) : "-",
                    seconds(r->target_seconds, target_took));
}

static int print(const spsh_train_simulation *s)
{
    spsh_table *table = spsh__table_new("lrrrrrrrrrr");
    printf("%s weights; a learner needs %.4g s per batch\n", SPSH_SHOW_COUNT(s->weights),
           s->step_s);
    spsh__table_row(table, "strategy", "learners", "of ideal", "steps/s", "of each", "sent a step",
                    "exposed", "staleness", "all batches", "to target", "in");
    for (uint32_t i = 0; i < s->run_count; i++)
        add_row(table, &s->runs[i]);
    if (!spsh__table_finish(table))
        return spsh__cli_fail_memory();
    for (uint32_t i = 0; i < s->run_count; i++)
        if (s->runs[i].stopped[0] != '\0')
            printf("%s, %" PRIu32 " learners: %s\n", s->runs[i].strategy, s->runs[i].learners,
                   s->runs[i].stopped);
    return SPSH_EXIT_DONE;
}

/* ---- for programs ---- */

static void put_run(spsh_json *json, const spsh_train_simulated *r)
{
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "strategy", r->strategy);
    spsh__json_put_u64(json, "learners", r->learners);
    spsh__json_put_string(json, "stopped", r->stopped[0] != '\0' ? r->stopped : NULL);
    spsh__json_put_real(json, "share", r->share);
    spsh__json_put_real(json, "steps_per_s", r->steps_per_s);
    spsh__json_begin_array(json, "learner_steps_per_s");
    for (uint32_t i = 0; i < r->learners; i++)
        spsh__json_put_real(json, NULL, r->speeds[i]);
    spsh__json_end(json);
    spsh__json_put_real(json, "sent_bytes", r->sent_bytes);
    spsh__json_put_real(json, "exposed_s", r->exposed_s);
    spsh__json_put_real(json, "staleness_mean", r->staleness_mean);
    spsh__json_put_u64(json, "staleness_p50", r->staleness_p50);
    spsh__json_put_u64(json, "staleness_max", r->staleness_max);
    spsh__json_put_u64(json, "batches", r->batches);
    spsh__json_put_real(json, "seconds", r->seconds);
    spsh__json_put_u64(json, "target_batches", r->target_batches);
    spsh__json_put_real(json, "target_seconds", r->target_seconds);
    spsh__json_end(json);
}

static int put(const spsh_train_simulation *s)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_u64(json, "weights", s->weights);
    spsh__json_put_real(json, "step_s", s->step_s);
    spsh__json_put_real(json, "target", SPSH_TRAIN_TARGET);
    spsh__json_begin_array(json, "runs");
    for (uint32_t i = 0; i < s->run_count; i++)
        put_run(json, &s->runs[i]);
    spsh__json_end(json);
    return spsh__cli_json(json);
}

int spsh__train_simulate(const char *cluster, const char *config, const char *const *overrides,
                         bool json)
{
    spsh_train_simulate_options options = SPSH_TRAIN_SIMULATE_OPTIONS_INIT;
    spsh_train_simulation *simulation = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    options.cluster = cluster;
    options.config_path = config;
    options.overrides = overrides;
    if (spsh_train_simulate(&options, &simulation, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    const int rc = json ? put(simulation) : print(simulation);
    spsh_train_simulation_free(simulation);
    return rc;
}
