/* feature_work.c: divide shards into jobs of a few utterances, with a feature maker per thread. */
#include "feature_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/features.h"
#include "speechshard/inside.h"

enum { AHEAD = 4, SHARDS_OPEN_MAX = 128 };

/* ---- the source ---- */

static spsh_status list_shards(spsh__feature_work *w, spsh_error *err)
{
    uint64_t first = 0;
    w->shard_count = spsh_dataset_info_get(w->source)->shard_count;
    w->shards = calloc((size_t)w->shard_count + 1, sizeof(*w->shards));
    if (w->shards == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t n = 0; n < w->shard_count; n++) {
        spsh__feature_shard *shard = &w->shards[n];
        const spsh_status rc = spsh_dataset_shard(w->source, n, &shard->seal, err);
        if (rc != SPSH_OK)
            return rc;
        shard->first = first;
        first += shard->seal.utterance_count;
    }
    return SPSH_OK;
}

static spsh_status list_skipped(spsh__feature_work *w, spsh_error *err)
{
    spsh_status rc = spsh_dataset_skipped_positions(w->source, NULL, 0, &w->skipped_count, err);
    if (rc != SPSH_OK || w->skipped_count == 0)
        return rc;
    w->skipped = calloc((size_t)w->skipped_count, sizeof(*w->skipped));
    if (w->skipped == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh_dataset_skipped_positions(w->source, w->skipped, w->skipped_count,
                                          &w->skipped_count, err);
}

static spsh_status check_is_audio(const spsh__feature_work *w, spsh_error *err)
{
    spsh_features_description described = SPSH_FEATURES_DESCRIPTION_INIT;
    spsh_error why = SPSH_ERROR_INIT;
    const spsh_status rc = spsh_features_dataset(w->source, &described, &why);
    if (rc == SPSH_OK)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: already holds features; features are computed from audio",
                         w->options->source);
    return rc == SPSH_E_NOT_FOUND ? SPSH_OK : spsh__fail_again(rc, &why, err);
}

spsh_status spsh__feature_work_open(spsh__feature_work *work,
                                    const spsh__feature_run_options *options, bool ignore_overlays,
                                    spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    *work = (spsh__feature_work){.options = options, .features = options->features};
    work->io = options->io != NULL ? options->io : spsh_io_default();
    if (options->part >= options->part_count)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG, "part %llu of %llu does not exist; parts count from 0",
            (unsigned long long)options->part, (unsigned long long)options->part_count);
    opt.io = work->io;
    opt.shards_open_max = SHARDS_OPEN_MAX;
    opt.flags = ignore_overlays ? SPSH_DATASET_IGNORE_OVERLAYS : 0;
    spsh_status rc = spsh_dataset_open(options->source, &opt, &work->source, err);
    if (rc == SPSH_OK)
        rc = check_is_audio(work, err);
    if (rc == SPSH_OK)
        rc = list_shards(work, err);
    if (rc == SPSH_OK)
        rc = list_skipped(work, err);
    return rc;
}

void spsh__feature_work_close(spsh__feature_work *work)
{
    spsh_statistics_close(work->statistics);
    spsh_featgen_close(work->featgen);
    free(work->skipped);
    free(work->shards);
    spsh_dataset_close(work->source);
}

spsh_status spsh__feature_work_open_featgen(spsh__feature_work *work, spsh_error *err)
{
    const bool needs_statistics =
        work->features.norm == SPSH_NORM_SPEAKER || work->features.norm == SPSH_NORM_DATASET;
    spsh_status rc = spsh_featgen_open(&work->features, NULL, &work->featgen, err);
    if (rc == SPSH_OK && needs_statistics) {
        spsh_feature_options plain = work->features;
        char text[SPSH_FEATURE_TEXT_BYTES_MAX];
        plain.norm = SPSH_NORM_NONE;
        (void)spsh_feature_options_text(&plain, text, sizeof(text));
        rc = spsh_statistics_open(work->source, text, SPSH_STATISTICS_WHOLE, work->io,
                                  &work->statistics, err);
        if (rc == SPSH_OK &&
            spsh_statistics_dim(work->statistics) != spsh_featgen_dim(work->featgen))
            rc = SPSH_FAIL(err, SPSH_E_MISMATCH,
                           "%s: the statistics have %u values per frame, but the features have %u",
                           work->options->source, spsh_statistics_dim(work->statistics),
                           spsh_featgen_dim(work->featgen));
    }
    return rc;
}

/* ---- jobs ---- */

void spsh__feature_work_number_jobs(spsh__feature_work *work)
{
    for (uint64_t n = 0; n < work->shard_count; n++) {
        spsh__feature_shard *shard = &work->shards[n];
        const bool is_mine = n % work->options->part_count == work->options->part;
        shard->first_job = work->job_count;
        shard->is_to_do = is_mine && !shard->is_made;
        work->facts.shard_count += is_mine ? 1 : 0;
        if (!shard->is_to_do)
            continue;
        work->job_count += (shard->seal.utterance_count + SPSH__FEATURE_JOB_UTTERANCES - 1) /
                           SPSH__FEATURE_JOB_UTTERANCES;
        work->utterances_to_do += shard->seal.utterance_count;
    }
}

/* Return the last shard that begins at or before the job. A shard without jobs has the same first
 * job as its successor. */
static const spsh__feature_shard *shard_of(const spsh__feature_work *w, uint64_t job)
{
    uint64_t low = 0, high = w->shard_count;
    while (high - low > 1) {
        const uint64_t at = low + (high - low) / 2;
        if (w->shards[at].first_job <= job)
            low = at;
        else
            high = at;
    }
    return &w->shards[low];
}

bool spsh__feature_is_skipped(const spsh__feature_work *work, uint64_t position)
{
    uint64_t low = 0, high = work->skipped_count;
    while (low < high) {
        const uint64_t at = low + (high - low) / 2;
        if (work->skipped[at] < position)
            low = at + 1;
        else
            high = at;
    }
    return low < work->skipped_count && work->skipped[low] == position;
}

typedef struct thread_tools {
    spsh__feature_maker *maker;
    spsh__feature_bytes scratch;
} thread_tools;

static void close_worker(void *worker_)
{
    thread_tools *w = worker_;
    if (w == NULL)
        return;
    spsh__feature_maker_close(w->maker);
    free(w->scratch.data);
    free(w);
}

static spsh_status open_worker(void *user, void **ret_worker, spsh_error *err)
{
    const spsh__feature_work *work = user;
    const spsh__feature_setup setup = {work->source, work->featgen, work->statistics};
    thread_tools *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = spsh__feature_maker_open(&setup, &w->maker, err);
    if (rc == SPSH_OK)
        *ret_worker = w;
    else
        close_worker(w);
    return rc;
}

static spsh_status new_result(void *user, void **ret_result, spsh_error *err)
{
    (void)user;
    *ret_result = calloc(1, sizeof(spsh__feature_result));
    return *ret_result == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static void free_result(void *result_)
{
    spsh__feature_result *result = result_;
    if (result == NULL)
        return;
    for (size_t i = 0; i < SPSH__FEATURE_JOB_UTTERANCES; i++)
        free(result->entries[i].bytes.data);
    free(result);
}

/* Compute one utterance. Damage becomes the status of the entry. Any other failure is returned. */
static spsh_status run_entry(const spsh__feature_work *w, thread_tools *worker,
                             spsh__feature_entry *entry, spsh_error *err)
{
    const float *rows = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    entry->status = SPSH_OK;
    entry->is_undecodable = false;
    entry->skipped = spsh__feature_is_skipped(w, entry->position);
    spsh_status rc = spsh_dataset_rows(w->source, entry->position, 1, &entry->row, err);
    if (rc != SPSH_OK || entry->skipped)
        return rc;
    rc = spsh__feature_maker_run(worker->maker, entry->position, &entry->row, &rows,
                                 &entry->frame_count, &why);
    if (rc == SPSH_OK)
        return w->finish_fn(w, entry, rows, &worker->scratch, err);
    if (!spsh__feature_is_damage(rc))
        return spsh__fail_again(rc, &why, err);
    entry->status = rc;
    entry->is_undecodable =
        rc == SPSH_E_AUDIO && spsh__feature_is_undecodable(worker->maker, entry->position);
    memcpy(entry->message, why.message, sizeof(entry->message));
    return SPSH_OK;
}

static spsh_status run_job(void *user, void *worker, size_t job, void *result_, spsh_error *err)
{
    const spsh__feature_work *w = user;
    spsh__feature_result *result = result_;
    const spsh__feature_shard *shard = shard_of(w, job);
    const uint64_t at = (job - shard->first_job) * SPSH__FEATURE_JOB_UTTERANCES;
    const uint64_t left = shard->seal.utterance_count - at;
    spsh_status rc = SPSH_OK;
    result->count = left < SPSH__FEATURE_JOB_UTTERANCES ? left : SPSH__FEATURE_JOB_UTTERANCES;
    for (size_t i = 0; i < result->count && rc == SPSH_OK; i++) {
        if (w->options->stop != NULL && *w->options->stop)
            return SPSH_FAIL(err, SPSH_E_CANCELED, "stopped");
        result->entries[i].position = shard->first + at + i;
        rc = run_entry(w, worker, &result->entries[i], err);
    }
    return rc;
}

spsh_status spsh__feature_work_start(spsh__feature_work *work, spsh__ordered_work **ret_ordered,
                                     spsh_error *err)
{
    static const spsh__ordered_work_kind kind = {open_worker, close_worker, new_result, free_result,
                                                 run_job};
    const spsh__ordered_work_options options = {.kind = &kind,
                                                .user = work,
                                                .job_count = (size_t)work->job_count,
                                                .threads = work->options->threads,
                                                .ahead = AHEAD};
    return spsh__ordered_work_start(&options, ret_ordered, err);
}

/* ---- in order ---- */

static spsh_status put_entry(spsh__feature_work *w, const spsh__feature_entry *entry,
                             spsh__feature_put_fn put_fn, void *user, spsh_error *err)
{
    if (entry->skipped)
        return SPSH_OK;
    if (entry->is_undecodable && !w->options->fail_on_undecodable) {
        if (w->facts.undecodable_count++ == 0)
            spsh_error_set(&w->facts.undecodable, entry->status, 0, SPSH_OFFSET_NONE, "%s",
                           entry->message);
        return SPSH_OK;
    }
    if (entry->status != SPSH_OK && (entry->is_undecodable || !w->options->leave_out_damaged))
        return SPSH_FAIL(err, entry->status, "%s", entry->message);
    if (entry->status != SPSH_OK) {
        w->facts.left_out_count++;
        if (w->options->left_out_fn != NULL)
            w->options->left_out_fn(w->options->user, entry->message);
        return SPSH_OK;
    }
    w->facts.utterance_count++;
    w->facts.frame_count += entry->frame_count;
    w->facts.seconds += (double)entry->row.samples / (double)entry->row.sample_rate_hz;
    if (entry->row.sample_rate_hz != w->options->features.sample_rate_hz &&
        w->facts.resampled_count++ == 0)
        w->facts.resampled_from_hz = entry->row.sample_rate_hz;
    return put_fn(user, entry, err);
}

spsh_status spsh__feature_work_shard(spsh__feature_work *work, spsh__ordered_work *ordered,
                                     uint64_t shard, spsh__feature_put_fn put_fn, void *user,
                                     spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t done = 0; rc == SPSH_OK && done < work->shards[shard].seal.utterance_count;) {
        size_t job = 0;
        void *memory = NULL;
        rc = spsh__ordered_work_next(ordered, &job, &memory, err);
        if (rc != SPSH_OK)
            break;
        const spsh__feature_result *result = memory;
        for (size_t i = 0; i < result->count && rc == SPSH_OK; i++)
            rc = put_entry(work, &result->entries[i], put_fn, user, err);
        done += result->count;
        work->utterances_done += result->count;
        spsh__ordered_work_release(ordered);
        if (work->options->progress_fn != NULL)
            work->options->progress_fn(work->options->user, work->utterances_done,
                                       work->utterances_to_do);
    }
    return rc;
}
