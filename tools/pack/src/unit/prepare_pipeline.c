/* prepare_pipeline.c: see prepare_pipeline.h. */
#include "prepare_pipeline.h"

#include <stdlib.h>

#include "plan/plan_item.h"
#include "speechshard/inside.h"

enum { AHEAD = 16 };

spsh_bytes spsh__job_items(const spsh__prepare_plan *plan, size_t job)
{
    const size_t at = (size_t)plan->jobs[job].first_item_bytes;
    return (spsh_bytes){plan->items.data + at, plan->items.size_bytes - at};
}

void spsh__job_result_clear(spsh__job_result *result)
{
    spsh__prepared_free(&result->prepared);
    for (uint32_t i = 0; i < result->text_count; i++)
        spsh__builder_free(&result->texts[i].text);
    free(result->texts);
    result->texts = NULL;
    result->text_count = 0;
}

static spsh_status new_result(void *user, void **ret_result, spsh_error *err)
{
    (void)user;
    *ret_result = calloc(1, sizeof(spsh__job_result));
    return *ret_result == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static void free_result(void *result)
{
    if (result != NULL)
        spsh__job_result_clear(result);
    free(result);
}

/* Read the sidecar of item number `at` of a job. */
static spsh_status read_text(const spsh__prepare_plan *plan, const spsh_ingest_item *item,
                             uint32_t at, spsh__job_result *result, spsh_error *err)
{
    if (result->texts == NULL) {
        const uint32_t count = plan->jobs[result->job].item_count;
        result->texts = calloc(count, sizeof(spsh__job_text));
        if (result->texts == NULL)
            return SPSH_NO_MEMORY(err);
        result->text_count = count;
    }
    spsh__job_text *text = &result->texts[at];
    return spsh__prepare_text(plan->pack->io, &item->sidecar, &text->text, &text->reason,
                              &text->detail, err);
}

static spsh_status run_job(void *user, void *worker, size_t job, void *memory, spsh_error *err)
{
    const spsh__prepare_plan *plan = user;
    spsh__job_result *result = memory;
    spsh_bytes rest = spsh__job_items(plan, job);
    spsh_status rc = SPSH_OK;

    (void)worker;
    result->job = job;
    for (uint32_t i = 0; rc == SPSH_OK && i < plan->jobs[job].item_count; i++) {
        spsh_ingest_item item;
        uint64_t sequence = 0;
        rc = spsh__item_take(&rest, &item, &sequence, err);
        if (rc == SPSH_OK && i == 0)
            rc = spsh__prepare(plan->pack, &item, &result->prepared, err);
        if (rc == SPSH_OK && result->prepared.rejected)
            break;
        if (rc == SPSH_OK && item.sidecar.path != NULL)
            rc = read_text(plan, &item, i, result, err);
    }
    return rc;
}

static uint64_t cost_of(void *user, size_t job)
{
    const spsh__prepare_plan *plan = user;
    return plan->jobs[job].cost_bytes;
}

spsh_status spsh__prepare_start(spsh__prepare_plan *plan, spsh__ordered_work **ret_work,
                                spsh_error *err)
{
    static const spsh__ordered_work_kind kind = {
        .result_new_fn = new_result, .result_free_fn = free_result, .run_fn = run_job};
    const spsh__ordered_work_options options = {.kind = &kind,
                                                .user = plan,
                                                .first_job = plan->first_job,
                                                .job_count = plan->job_count,
                                                .threads = plan->pack->threads,
                                                .ahead = AHEAD,
                                                .cost_fn = cost_of,
                                                .cost_max = plan->pack->memory_bytes};
    return spsh__ordered_work_start(&options, ret_work, err);
}
