/* fingerprint_run.c: find the shards without a valid segment, and make their segments in order.
 *
 *     shards of this part -> open their segments -+-> valid: keep
 *                                                 '-> absent, old, of another shard, damaged: make
 *     make: jobs of a few utterances -> threads -> append in order -> publish shard by shard
 *
 * The threads run ahead across shard borders. Results are appended in the order of the utterances,
 * so the bytes of a segment do not depend on the threads. A run that ends early leaves complete
 * segments and at most one temporary file, which the next run removes.
 */
#include "fingerprint_run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/grow.h"
#include "common/ordered_work.h"
#include "extract.h"
#include "speechshard/inside.h"

enum {
    JOB_UTTERANCES = 16,
    RESULTS_AHEAD = 8, /* results per thread */
    SHARDS_OPEN_MAX = 128,
    SEGMENT_OVERHEAD = 20480, /* header, directory, page table, footers */
};

/* A shard of this part. */
typedef struct part_shard {
    uint64_t first; /* position of its first utterance */
    spsh_shard_seal seal;
    bool to_do;
} part_shard;

/* Adjacent utterances of one shard. */
typedef struct extract_job {
    uint64_t first; /* position in the dataset */
    uint32_t count;
} extract_job;

typedef struct extract_result {
    spsh__segment_writer *rows; /* part of the segment that the job computed */
    double seconds;             /* duration of the decoded audio */
} extract_result;

typedef struct run {
    const spsh__fingerprint_run_options *options;
    spsh_dataset *dataset;
    part_shard *shards;
    size_t shard_count, to_do_count;
    extract_job *jobs;
    size_t job_count, job_capacity;
    uint64_t utterances_to_do, utterances_done;
    spsh_fingerprint_facts facts;
} run;

/* ---- existing segments ---- */

static spsh_status open_dataset(run *r, const char *path, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    opt.io = r->options->io;
    opt.shards_open_max = SHARDS_OPEN_MAX;
    opt.flags = SPSH_DATASET_IGNORE_OVERLAYS; /* a segment depends only on its shard */
    return spsh_dataset_open(path, &opt, &r->dataset, err);
}

static spsh_status list_shards(run *r, spsh_error *err)
{
    const uint64_t count = spsh_dataset_info_get(r->dataset)->shard_count;
    uint64_t first = 0;
    r->shards = calloc((size_t)count + 1, sizeof(*r->shards));
    if (r->shards == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t n = 0; n < count; n++) {
        part_shard shard = {.first = first};
        const spsh_status rc = spsh_dataset_shard(r->dataset, n, &shard.seal, err);
        if (rc != SPSH_OK)
            return rc;
        first += shard.seal.utterance_count;
        if (n % r->options->part_count == r->options->part)
            r->shards[r->shard_count++] = shard;
    }
    return SPSH_OK;
}

/* Add the counts of a segment to the facts. */
static spsh_status add_facts(run *r, const spsh__segment *segment, spsh_error *err)
{
    uint64_t aliases = 0;
    uint64_t decoded = 0;
    spsh_status rc = spsh__segment_flag_count(segment, SPSH__ROW_ALIAS, &aliases, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_flag_count(segment, SPSH__ROW_DECODED, &decoded, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__segment_counts *counts = spsh__segment_counts_get(segment);
    r->facts.utterance_count += counts->rows;
    r->facts.alias_count += aliases;
    r->facts.undecoded_count += counts->rows - aliases - decoded;
    r->facts.key_count += counts->keys;
    r->facts.chunk_count += counts->chunks;
    r->facts.file_bytes += spsh__segment_file_bytes(segment);
    return SPSH_OK;
}

/* Return whether a segment that fails with this status must be made again. */
static bool is_unsound(spsh_status status)
{
    switch (status) {
    case SPSH_E_NOT_FOUND:
    case SPSH_E_VERSION:
    case SPSH_E_MISMATCH:
    case SPSH_E_CORRUPT:
    case SPSH_E_TRUNCATED:
    case SPSH_E_NOT_SPEECHSHARD: return true;
    default: return false;
    }
}

static spsh_status inspect(run *r, part_shard *shard, spsh_error *err)
{
    spsh__segment *segment = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    spsh_status rc = spsh__segment_open(r->dataset, &shard->seal, r->options->io, &segment, &why);
    if (rc == SPSH_OK && r->options->check_pages)
        rc = spsh__segment_check(segment, &why);
    if (rc == SPSH_OK)
        rc = add_facts(r, segment, &why);
    spsh__segment_close(segment);
    if (is_unsound(rc)) {
        shard->to_do = true;
        r->to_do_count++;
        r->utterances_to_do += shard->seal.utterance_count;
        return SPSH_OK;
    }
    return spsh__fail_again(rc, &why, err);
}

/* ---- leftover files ---- */

/* Return whether the file is a temporary file of a shard in this run. */
static bool is_to_do(void *user, const char *name, size_t name_bytes)
{
    const run *r = user;
    for (size_t i = 0; i < r->shard_count; i++) {
        char file[32];
        spsh_shard_file_name(r->shards[i].seal.unit, r->shards[i].seal.number, file);
        if (r->shards[i].to_do && strlen(file) == name_bytes && memcmp(file, name, name_bytes) == 0)
            return true;
    }
    return false;
}

static void remove_stale(run *r)
{
    const spsh_io *io = r->options->io != NULL ? r->options->io : spsh_io_default();
    char *directory = spsh__segment_path(r->dataset, "");
    if (directory != NULL)
        spsh_stale_files_remove(io, directory, is_to_do, r);
    free(directory);
}

/* ---- making ---- */

static spsh_status list_jobs(run *r, spsh_error *err)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        const part_shard *shard = &r->shards[i];
        const uint64_t count = shard->to_do ? shard->seal.utterance_count : 0;
        for (uint64_t at = 0; at < count; at += JOB_UTTERANCES) {
            if (!SPSH_GROW(r->jobs, r->job_capacity, r->job_count + 1))
                return SPSH_NO_MEMORY(err);
            r->jobs[r->job_count++] = (extract_job){
                .first = shard->first + at,
                .count = (uint32_t)(count - at < JOB_UTTERANCES ? count - at : JOB_UTTERANCES)};
        }
    }
    return SPSH_OK;
}

/* Collect the results of all jobs of one shard, which are next in order, in its segment. */
static spsh_status collect(run *r, spsh__ordered_work *work, const part_shard *shard,
                           spsh__segment_writer *writer, spsh_error *err)
{
    spsh_status rc = spsh__segment_writer_reset(writer, err);
    while (rc == SPSH_OK && spsh__segment_writer_row_count(writer) < shard->seal.utterance_count) {
        size_t job = 0;
        void *next = NULL;
        rc = spsh__ordered_work_next(work, &job, &next, err);
        const extract_result *result = next;
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_append(writer, result->rows, err);
        if (rc != SPSH_OK)
            break;
        r->facts.made_seconds += result->seconds;
        r->utterances_done += r->jobs[job].count;
        spsh__ordered_work_release(work);
        spsh__call_watch_report(r->options->watch, "fingerprint", r->utterances_done,
                                r->utterances_to_do);
    }
    return rc;
}

static spsh_status make_segment(run *r, spsh__ordered_work *work, const part_shard *shard,
                                spsh__segment_writer *writer, spsh_error *err)
{
    spsh__segment *segment = NULL;
    spsh_status rc = collect(r, work, shard, writer, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_writer_publish(writer, r->dataset, &shard->seal, r->options->io, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_open(r->dataset, &shard->seal, r->options->io, &segment, err);
    if (rc == SPSH_OK)
        rc = add_facts(r, segment, err);
    spsh__segment_close(segment);
    if (rc == SPSH_OK)
        r->facts.made_count++;
    return rc;
}

/* Extraction as ordered work: one extractor per thread, one writer per result. */

static spsh_status run_job(void *user, void *worker, size_t number, void *result_, spsh_error *err)
{
    const run *r = user;
    const extract_job *job = &r->jobs[number];
    extract_result *result = result_;
    spsh_status rc = spsh__segment_writer_reset(result->rows, err);
    result->seconds = 0.0;
    for (uint32_t i = 0; i < job->count && rc == SPSH_OK; i++) {
        spsh__segment_entry entry;
        rc = spsh__call_watch_check(r->options->watch, err);
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
    const run *r = user;
    spsh__extractor *extractor = NULL;
    const spsh_status rc = spsh__extractor_open(r->dataset, &extractor, err);
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
    extract_result *result = calloc(1, sizeof(*result));
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
        spsh__segment_writer_free(((extract_result *)result)->rows);
    free(result);
}

static spsh_status make_all(run *r, spsh_error *err)
{
    static const spsh__ordered_work_kind extraction = {open_worker, close_worker, new_result,
                                                       free_result, run_job};
    spsh__ordered_work *work = NULL;
    spsh__segment_writer *writer = NULL;
    spsh_status rc = list_jobs(r, err);
    const spsh__ordered_work_options options = {.kind = &extraction,
                                                .user = r,
                                                .job_count = r->job_count,
                                                .threads = r->options->threads,
                                                .ahead = RESULTS_AHEAD};
    if (rc == SPSH_OK)
        rc = spsh__segment_writer_open(&writer, err);
    if (rc == SPSH_OK)
        rc = spsh__ordered_work_start(&options, &work, err);
    for (size_t i = 0; i < r->shard_count && rc == SPSH_OK; i++)
        if (r->shards[i].to_do)
            rc = make_segment(r, work, &r->shards[i], writer, err);
    spsh__ordered_work_stop(work);
    spsh__segment_writer_free(writer);
    return rc;
}

/* ---- estimates ---- */

/* Return the dataset position of utterance n of the remaining work. */
static uint64_t to_do_position(const run *r, uint64_t n)
{
    const part_shard *shard = r->shards;
    while (!shard->to_do || n >= shard->seal.utterance_count) {
        n -= shard->to_do ? shard->seal.utterance_count : 0;
        shard++;
    }
    return shard->first + n;
}

static spsh_status add_audio(const run *r, const part_shard *shard, double *seconds,
                             spsh_error *err)
{
    spsh_row rows[64];
    const uint64_t capacity = sizeof(rows) / sizeof(rows[0]);
    const uint64_t total = shard->seal.utterance_count;
    for (uint64_t at = 0; at < total; at += capacity) {
        const uint64_t count = total - at < capacity ? total - at : capacity;
        const spsh_status rc = spsh_dataset_rows(r->dataset, shard->first + at, count, rows, err);
        if (rc != SPSH_OK)
            return rc;
        for (uint64_t i = 0; i < count; i++)
            if (rows[i].duplicate_of == SPSH_NONE_U64)
                *seconds += (double)rows[i].samples / (double)rows[i].sample_rate_hz;
    }
    return SPSH_OK;
}

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Extract utterances spread evenly over the work, each new one between earlier ones, until the time
 * is up. *writer receives their rows. */
static spsh_status measure(const run *r, double measure_s, spsh__segment_writer *writer,
                           spsh_fingerprint_cost *estimate, spsh_error *err)
{
    spsh__extractor *extractor = NULL;
    const double golden = 0.6180339887498949;
    double place = 0.0;
    spsh_status rc = spsh__extractor_open(r->dataset, &extractor, err);
    const double begin = cpu_seconds();
    while (rc == SPSH_OK && estimate->core_seconds < measure_s &&
           estimate->measured_count < r->utterances_to_do) {
        spsh__segment_entry entry;
        const uint64_t n = (uint64_t)(place * (double)r->utterances_to_do);
        rc = spsh__extractor_run(extractor, to_do_position(r, n), &entry, err);
        if (rc == SPSH_OK)
            rc = spsh__segment_writer_add(writer, &entry, err);
        if (rc == SPSH_OK)
            estimate->measured_seconds += spsh__segment_row_seconds(&entry.row);
        estimate->measured_count++;
        place = place + golden >= 1.0 ? place + golden - 1.0 : place + golden;
        estimate->core_seconds = cpu_seconds() - begin;
    }
    spsh__extractor_close(extractor);
    return rc;
}

static spsh_status estimate_all(run *r, double measure_s, spsh_fingerprint_cost *estimate,
                                spsh_error *err)
{
    spsh__segment_writer *writer = NULL;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < r->shard_count && rc == SPSH_OK; i++)
        if (r->shards[i].to_do)
            rc = add_audio(r, &r->shards[i], &estimate->seconds, err);
    if (rc == SPSH_OK)
        rc = spsh__segment_writer_open(&writer, err);
    if (rc == SPSH_OK)
        rc = measure(r, measure_s, writer, estimate, err);
    if (rc == SPSH_OK && estimate->measured_count > 0) {
        const double by_count = (double)r->utterances_to_do / (double)estimate->measured_count;
        const double by_seconds = estimate->measured_seconds > 0.0
                                      ? estimate->seconds / estimate->measured_seconds
                                      : by_count;
        estimate->file_bytes =
            (uint64_t)((double)spsh__segment_writer_data_bytes(writer) * by_seconds) +
            r->to_do_count * SEGMENT_OVERHEAD;
        estimate->core_seconds *= by_seconds;
    }
    spsh__segment_writer_free(writer);
    return rc;
}

static spsh_status prepare(run *r, const char *dataset_path, spsh_error *err)
{
    if (r->options->part >= r->options->part_count)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG, "part %llu of %llu does not exist; parts count from 0",
            (unsigned long long)r->options->part, (unsigned long long)r->options->part_count);
    spsh_status rc = open_dataset(r, dataset_path, err);
    if (rc == SPSH_OK)
        rc = list_shards(r, err);
    for (size_t i = 0; rc == SPSH_OK && i < r->shard_count; i++)
        rc = inspect(r, &r->shards[i], err);
    r->facts.shard_count = r->shard_count;
    return rc;
}

static void finish(run *r)
{
    free(r->jobs);
    free(r->shards);
    spsh_dataset_close(r->dataset);
}

spsh_status spsh__fingerprint_estimate_make(const char *dataset_path,
                                            const spsh__fingerprint_run_options *options,
                                            double measure_s, spsh_fingerprint_cost *ret_cost,
                                            spsh_error *err)
{
    run r = {.options = options};
    spsh_fingerprint_cost estimate = {0};
    spsh_status rc = prepare(&r, dataset_path, err);
    if (rc == SPSH_OK)
        rc = estimate_all(&r, measure_s, &estimate, err);
    if (rc == SPSH_OK) {
        estimate.shard_count = r.shard_count;
        estimate.missing_count = r.to_do_count;
        estimate.utterance_count = r.utterances_to_do;
        *ret_cost = estimate;
    }
    finish(&r);
    return rc;
}

spsh_status spsh__fingerprint_run(const char *dataset_path,
                                  const spsh__fingerprint_run_options *options,
                                  spsh_fingerprint_facts *ret_facts, spsh_error *err)
{
    run r = {.options = options};
    spsh_status rc = prepare(&r, dataset_path, err);
    if (rc == SPSH_OK && r.to_do_count > 0) {
        remove_stale(&r);
        rc = make_all(&r, err);
    }
    if (rc == SPSH_OK)
        *ret_facts = r.facts;
    finish(&r);
    return rc;
}
