/* extract_pipeline.c: extraction as a kind of ordered work: an extractor a thread, a writer a
 * result.
 */
#include "extract_pipeline.h"

#include <stdlib.h>

#include "common/ordered_work.h"
#include "speechshard/inside.h"

enum { AHEAD = 8 };

struct spsh__extract_pipeline {
    spsh__extract_pipeline_options options;
    spsh__ordered_work *work;
};

static double decoded_seconds(const spsh__segment_row *row)
{
    return (row->flags & SPSH__ROW_DECODED) != 0
               ? (double)row->samples / (double)row->sample_rate_hz
               : 0.0;
}

static spsh_status run_job(void *user, void *worker, size_t job, void *result_, spsh_error *err)
{
    const spsh__extract_pipeline *p = user;
    spsh__extract_result *result = result_;
    spsh_status rc = spsh__segment_writer_reset(result->rows, err);
    result->job = p->options.jobs[job];
    result->seconds = 0.0;
    for (uint32_t i = 0; i < result->job.count && rc == SPSH_OK; i++) {
        spsh__segment_entry entry;
        rc = spsh__call_watch_check(p->options.watch, err);
        if (rc == SPSH_OK)
            rc = spsh__extractor_run(worker, result->job.first + i, &entry, err);
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_add(result->rows, &entry, err);
        if (rc == SPSH_OK)
            result->seconds += decoded_seconds(&entry.row);
    }
    return rc;
}

static spsh_status open_worker(void *user, void **ret_worker, spsh_error *err)
{
    const spsh__extract_pipeline *p = user;
    spsh__extractor *extractor = NULL;
    const spsh_status rc = spsh__extractor_open(p->options.dataset, &extractor, err);
    *ret_worker = extractor;
    return rc;
}

static void close_worker(void *worker)
{
    spsh__extractor_close(worker);
}

static spsh_status new_result(void *user, void **ret_result, spsh_error *err)
{
    (void)user;
    spsh__extract_result *result = calloc(1, sizeof(*result));
    if (result == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh__segment_writer_open(&result->rows, err);
    if (rc == SPSH_OK)
        *ret_result = result;
    else
        free(result);
    return rc;
}

static void free_result(void *result)
{
    if (result != NULL)
        spsh__segment_writer_free(((spsh__extract_result *)result)->rows);
    free(result);
}

spsh_status spsh__extract_pipeline_start(const spsh__extract_pipeline_options *options,
                                         spsh__extract_pipeline **ret_pipeline, spsh_error *err)
{
    static const spsh__ordered_work_kind kind = {open_worker, close_worker, new_result, free_result,
                                                 run_job};
    spsh__extract_pipeline *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return SPSH_NO_MEMORY(err);
    p->options = *options;
    const spsh__ordered_work_options work = {.kind = &kind,
                                             .user = p,
                                             .job_count = options->job_count,
                                             .threads = options->threads,
                                             .ahead = AHEAD};
    const spsh_status rc = spsh__ordered_work_start(&work, &p->work, err);
    if (rc == SPSH_OK)
        *ret_pipeline = p;
    else
        free(p);
    return rc;
}

spsh_status spsh__extract_pipeline_next(spsh__extract_pipeline *pipeline,
                                        const spsh__extract_result **ret_result, spsh_error *err)
{
    size_t job = 0;
    void *result = NULL;
    const spsh_status rc = spsh__ordered_work_next(pipeline->work, &job, &result, err);
    *ret_result = result;
    return rc;
}

void spsh__extract_pipeline_release(spsh__extract_pipeline *pipeline)
{
    spsh__ordered_work_release(pipeline->work);
}

void spsh__extract_pipeline_stop(spsh__extract_pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    spsh__ordered_work_stop(pipeline->work);
    free(pipeline);
}
