/* extract_pipeline.c: extraction as ordered work: one extractor per thread, one writer per
 * result.
 */
#include "extract_pipeline.h"

#include <stdlib.h>

#include "speechshard/inside.h"

static spsh_status run_job(void *user, void *worker, size_t number, void *result_, spsh_error *err)
{
    const spsh__extract_jobs *p = user;
    const spsh__extract_job *job = &p->jobs[number];
    spsh__extract_result *result = result_;
    spsh_status rc = spsh__segment_writer_reset(result->rows, err);
    result->seconds = 0.0;
    for (uint32_t i = 0; i < job->count && rc == SPSH_OK; i++) {
        spsh__segment_entry entry;
        rc = spsh__call_watch_check(p->watch, err);
        if (rc == SPSH_OK)
            rc = spsh__extractor_run(worker, job->first + i, &entry, err);
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_add(result->rows, &entry, err);
        if (rc == SPSH_OK)
            result->seconds += spsh__segment_row_seconds(&entry.row);
    }
    return rc;
}

static spsh_status open_worker(void *user, void **ret_worker, spsh_error *err)
{
    const spsh__extract_jobs *p = user;
    spsh__extractor *extractor = NULL;
    const spsh_status rc = spsh__extractor_open(p->dataset, &extractor, err);
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

const spsh__ordered_work_kind spsh__extraction = {open_worker, close_worker, new_result,
                                                  free_result, run_job};
