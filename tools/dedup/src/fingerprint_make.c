/* fingerprint_make.c: spsh_fingerprint_run and its estimate of the work. */
#include "dedup_options.h"
#include "segment/fingerprint_run.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

static spsh_status take_options(const spsh_fingerprint_options *options,
                                spsh_fingerprint_options *o, spsh__fingerprint_run_options *ret_run,
                                spsh_error *err)
{
    spsh_status rc = spsh_options_take(options, o, sizeof(*o), err);
    if (rc == SPSH_OK && o->flags != 0)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG, "an option has an unknown flag");
    *ret_run = (spsh__fingerprint_run_options){.io = o->io == NULL ? spsh_io_default() : o->io,
                                               .threads = spsh__dedup_threads(o->threads),
                                               .part = o->part,
                                               .part_count = o->part_count == 0 ? 1 : o->part_count,
                                               .check_pages = true};
    return rc;
}

spsh_status spsh_fingerprint_run(const char *dataset_path, const spsh_fingerprint_options *options,
                                 spsh_fingerprint_facts *ret_facts, spsh_error *err)
{
    spsh_fingerprint_options o = SPSH_FINGERPRINT_OPTIONS_INIT;
    spsh__fingerprint_run_options run;
    spsh_fingerprint_facts facts = {0};
    spsh_status rc = take_options(options, &o, &run, err);
    spsh__call_watch watch = {.progress_fn = o.progress_fn, .user = o.user};
    run.watch = &watch;
    if (rc == SPSH_OK)
        rc = spsh_result_check(ret_facts, sizeof(facts), err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_run(dataset_path, &run, &facts, err);
    if (rc == SPSH_OK)
        rc = spsh__call_watch_check(&watch, err);
    if (rc == SPSH_OK)
        spsh_result_give(ret_facts, &facts, sizeof(facts));
    return rc;
}

spsh_status spsh_fingerprint_estimate(const char *dataset_path,
                                      const spsh_fingerprint_options *options,
                                      double measure_seconds, spsh_fingerprint_cost *ret_cost,
                                      spsh_error *err)
{
    spsh_fingerprint_options o = SPSH_FINGERPRINT_OPTIONS_INIT;
    spsh__fingerprint_run_options run;
    spsh_fingerprint_cost cost = {0};
    spsh_status rc = take_options(options, &o, &run, err);
    if (rc == SPSH_OK)
        rc = spsh_result_check(ret_cost, sizeof(cost), err);
    if (rc == SPSH_OK)
        rc = spsh__fingerprint_estimate_make(dataset_path, &run, measure_seconds, &cost, err);
    if (rc == SPSH_OK)
        spsh_result_give(ret_cost, &cost, sizeof(cost));
    return rc;
}
