/* statistics_run.c: sums of features over a dataset, shard by shard, then all of them.
 *
 *     utterance --maker threads--> its sums --in order--> sums of its shard, a file
 *     files of all shards --in order--> sums of the dataset, a file; the others are removed
 *
 * Additions run in a fixed order, so the bits do not depend on threads or parts. Files that a
 * killed run finished are reused.
 */
#include <stdlib.h>
#include <string.h>

#include "common/byte_builder.h"
#include "feature_work.h"
#include "speechshard/inside.h"

/* Sums of groups. In a shard's sums, groups are in order of first appearance. Otherwise the index
 * of a group is its number. */
typedef struct sums {
    uint32_t dim;
    uint64_t count, capacity;
    uint64_t *groups, *frame_counts;
    double *sum, *square_sum; /* dim values per group */
} sums;

typedef struct run {
    spsh__feature_work work;
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    uint64_t group_count; /* number of groups in the dataset */
    uint32_t *places;     /* position in the shard's sums + 1, by group */
    sums shard;
} run;

static void free_sums(sums *s)
{
    free(s->groups);
    free(s->frame_counts);
    free(s->sum);
    free(s->square_sum);
    *s = (sums){.dim = 0};
}

static spsh_status reserve(sums *s, uint64_t capacity, spsh_error *err)
{
    const size_t values = (size_t)capacity * s->dim;
    uint64_t *groups = realloc(s->groups, capacity * sizeof(*groups));
    s->groups = groups != NULL ? groups : s->groups;
    uint64_t *frames = realloc(s->frame_counts, capacity * sizeof(*frames));
    s->frame_counts = frames != NULL ? frames : s->frame_counts;
    double *sum = realloc(s->sum, values * sizeof(*sum));
    s->sum = sum != NULL ? sum : s->sum;
    double *square_sum = realloc(s->square_sum, values * sizeof(*square_sum));
    s->square_sum = square_sum != NULL ? square_sum : s->square_sum;
    if (groups == NULL || frames == NULL || sum == NULL || square_sum == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for the sums of %llu speakers",
                         (unsigned long long)capacity);
    s->capacity = capacity;
    return SPSH_OK;
}

/* Append a group whose sums are zero. */
static spsh_status push(sums *s, uint64_t group, spsh_error *err)
{
    const spsh_status rc = s->count < s->capacity ? SPSH_OK : reserve(s, 2 * s->count + 16, err);
    if (rc != SPSH_OK)
        return rc;
    s->groups[s->count] = group;
    s->frame_counts[s->count] = 0;
    for (uint32_t d = 0; d < s->dim; d++) {
        s->sum[s->count * s->dim + d] = 0.0;
        s->square_sum[s->count * s->dim + d] = 0.0;
    }
    s->count++;
    return SPSH_OK;
}

/* Add to the sums at index at. added: dim sums, then dim sums of squares. */
static void add(sums *s, uint64_t at, uint64_t frame_count, const double *added)
{
    s->frame_counts[at] += frame_count;
    for (uint32_t d = 0; d < s->dim; d++) {
        s->sum[at * s->dim + d] += added[d];
        s->square_sum[at * s->dim + d] += added[s->dim + d];
    }
}

/* ---- a shard ---- */

/* On a worker thread: compute the sums of one utterance. */
static spsh_status sum_entry(const spsh__feature_work *w, spsh__feature_entry *entry,
                             const float *rows, spsh__feature_bytes *scratch, spsh_error *err)
{
    const uint32_t dim = spsh_featgen_dim(w->featgen);
    const spsh_status rc =
        spsh__feature_bytes_take(&entry->bytes, 2 * (uint64_t)dim, sizeof(double), err);
    (void)scratch;
    if (rc != SPSH_OK)
        return rc;
    double *values = (double *)(void *)entry->bytes.data;
    for (uint32_t d = 0; d < 2 * dim; d++)
        values[d] = 0.0;
    spsh_feature_sums own = {0, dim, values, values + dim};
    spsh_feature_sums_add(&own, rows, entry->frame_count);
    return SPSH_OK;
}

static spsh_status add_to_group(run *r, uint64_t group, const spsh__feature_entry *entry,
                                spsh_error *err)
{
    if (r->places[group] == 0) {
        const spsh_status rc = push(&r->shard, group, err);
        if (rc != SPSH_OK)
            return rc;
        r->places[group] = (uint32_t)r->shard.count;
    }
    add(&r->shard, r->places[group] - 1, entry->frame_count,
        (const double *)(const void *)entry->bytes.data);
    return SPSH_OK;
}

static spsh_status put_entry(void *user, const spsh__feature_entry *entry, spsh_error *err)
{
    run *r = user;
    spsh_status rc = add_to_group(r, SPSH_STATISTICS_DATASET, entry, err);
    if (rc == SPSH_OK && r->group_count > 1)
        rc = add_to_group(r, spsh_statistics_speaker(entry->row.speaker), entry, err);
    return rc;
}

static spsh_status publish_sums(const run *r, uint64_t shard, const sums *s, spsh_error *err)
{
    const spsh_statistics_content content = {.dataset = r->work.source,
                                             .text = r->text,
                                             .shard = shard,
                                             .dim = s->dim,
                                             .group_count = s->count,
                                             .groups = s->groups,
                                             .frame_counts = s->frame_counts,
                                             .sums = s->sum,
                                             .square_sums = s->square_sum};
    return spsh_statistics_publish(&content, r->work.io, err);
}

/* Copy the shard's sums in ascending order of groups, as in a file. */
static spsh_status sorted(run *r, sums *ret_sorted, spsh_error *err)
{
    const uint32_t dim = r->shard.dim;
    double *both = malloc(2 * (size_t)dim * sizeof(*both));
    spsh_status rc = both == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (uint64_t group = 0; group < r->group_count && rc == SPSH_OK; group++) {
        if (r->places[group] == 0)
            continue;
        const uint64_t from = r->places[group] - 1;
        rc = push(ret_sorted, group, err);
        if (rc != SPSH_OK)
            break;
        memcpy(both, r->shard.sum + from * dim, dim * sizeof(*both));
        memcpy(both + dim, r->shard.square_sum + from * dim, dim * sizeof(*both));
        add(ret_sorted, ret_sorted->count - 1, r->shard.frame_counts[from], both);
    }
    free(both);
    return rc;
}

static spsh_status sum_shard(run *r, spsh__ordered_work *ordered, uint64_t shard, spsh_error *err)
{
    sums in_order = {.dim = r->shard.dim};
    r->shard.count = 0;
    memset(r->places, 0, (size_t)r->group_count * sizeof(*r->places));
    spsh_status rc = spsh__feature_work_shard(&r->work, ordered, shard, put_entry, r, err);
    if (rc == SPSH_OK)
        rc = sorted(r, &in_order, err);
    if (rc == SPSH_OK)
        rc = publish_sums(r, shard, &in_order, err);
    if (rc == SPSH_OK)
        r->work.facts.made_count++;
    free_sums(&in_order);
    return rc;
}

static spsh_status sum_shards(run *r, spsh_error *err)
{
    spsh__ordered_work *ordered = NULL;
    spsh_status rc = spsh__feature_work_start(&r->work, &ordered, err);
    for (uint64_t n = 0; n < r->work.shard_count && rc == SPSH_OK; n++)
        if (r->work.shards[n].is_to_do)
            rc = sum_shard(r, ordered, n, err);
    spsh__ordered_work_stop(ordered);
    return rc;
}

/* ---- the dataset's sums ---- */

/* Whether existing statistics have the groups that this run needs. */
static bool has_enough(const run *r, const spsh_statistics *found, uint64_t shard)
{
    const uint64_t count = spsh_statistics_group_count(found);
    if (spsh_statistics_dim(found) != r->shard.dim)
        return false;
    if (shard == SPSH_STATISTICS_WHOLE)
        return count == r->group_count || r->group_count == 1;
    return count != 1 || r->group_count == 1; /* count 1: only the dataset's sums, without groups */
}

/* Damaged statistics count as missing, so that they are made again. */
static spsh_status inspect(run *r, uint64_t shard, bool *ret_there, spsh_error *err)
{
    spsh_statistics *found = NULL;
    spsh_error why = SPSH_ERROR_INIT;
    const spsh_status rc =
        spsh_statistics_open(r->work.source, r->text, shard, r->work.io, &found, &why);
    *ret_there = rc == SPSH_OK && has_enough(r, found, shard);
    spsh_statistics_close(found);
    return rc == SPSH_E_NO_MEMORY || rc == SPSH_E_IO ? spsh__fail_again(rc, &why, err) : SPSH_OK;
}

static spsh_status inspect_shards(run *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    r->work.facts.missing_count = 0;
    for (uint64_t n = 0; n < r->work.shard_count && rc == SPSH_OK; n++) {
        rc = inspect(r, n, &r->work.shards[n].is_made, err);
        r->work.facts.missing_count += r->work.shards[n].is_made ? 0 : 1;
    }
    return rc;
}

static spsh_status add_shard(run *r, uint64_t shard, double *both, sums *all, spsh_error *err)
{
    const uint32_t dim = all->dim;
    spsh_statistics *part = NULL;
    spsh_statistics_sums found = {0, both, both + dim};
    spsh_status rc = spsh_statistics_open(r->work.source, r->text, shard, r->work.io, &part, err);
    const uint64_t count = rc == SPSH_OK ? spsh_statistics_group_count(part) : 0;
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
        uint64_t group = 0;
        rc = spsh_statistics_group(part, n, &group, err);
        if (rc == SPSH_OK)
            rc = spsh_statistics_get(part, group, &found, err);
        if (rc == SPSH_OK && group < all->count)
            add(all, group, found.frame_count, both);
    }
    spsh_statistics_close(part);
    return rc;
}

static spsh_status add_shards(run *r, sums *all, spsh_error *err)
{
    double *both = malloc(2 * (size_t)all->dim * sizeof(*both));
    spsh_status rc = both == NULL ? SPSH_NO_MEMORY(err) : reserve(all, r->group_count, err);
    for (uint64_t group = 0; group < r->group_count && rc == SPSH_OK; group++)
        rc = push(all, group, err);
    for (uint64_t n = 0; n < r->work.shard_count && rc == SPSH_OK; n++)
        rc = add_shard(r, n, both, all, err);
    free(both);
    return rc;
}

/* Remove the files, which are no longer needed. A file that cannot be removed does no harm. */
static void remove_shard_files(const run *r)
{
    spsh__builder directory = {0}, file = {0};
    const char *folder = spsh__builder_path(&directory, spsh_dataset_path(r->work.source),
                                            SPSH_STATISTICS_DIRECTORY);
    for (uint64_t n = 0; n < r->work.shard_count && folder != NULL; n++) {
        char name[SPSH_STATISTICS_NAME_BYTES];
        spsh_statistics_file_name(r->text, n, name);
        if (spsh__builder_path(&file, folder, name) != NULL)
            (void)r->work.io->unlink_fn(r->work.io->user, (const char *)file.data);
    }
    spsh__builder_free(&directory);
    spsh__builder_free(&file);
}

/* True for a temporary of a file that this run makes. Other parts may be writing other files. */
static bool is_to_do(void *user, const char *name, size_t name_bytes)
{
    const run *r = user;
    const char *mark = memchr(name, '-', name_bytes);
    const char *digits = mark == NULL ? NULL : mark + 1;
    uint64_t shard = SPSH_STATISTICS_WHOLE;
    char file[SPSH_STATISTICS_NAME_BYTES];
    if (mark != NULL && (!spsh__take_digits(&digits, UINT64_MAX, &shard) ||
                         shard >= r->work.shard_count || !r->work.shards[shard].is_to_do))
        return false;
    spsh_statistics_file_name(r->text, shard, file);
    return strlen(file) == name_bytes && memcmp(file, name, name_bytes) == 0;
}

static void remove_stale(run *r)
{
    spsh__builder directory = {0};
    if (spsh__builder_path(&directory, spsh_dataset_path(r->work.source),
                           SPSH_STATISTICS_DIRECTORY) != NULL)
        spsh_stale_files_remove(r->work.io, (const char *)directory.data, is_to_do, r);
    spsh__builder_free(&directory);
}

static spsh_status publish(run *r, spsh_error *err)
{
    sums all = {.dim = r->shard.dim};
    spsh_status rc = inspect_shards(r, err);
    if (rc != SPSH_OK || r->work.facts.missing_count > 0)
        return rc;
    rc = add_shards(r, &all, err);
    if (rc == SPSH_OK)
        rc = publish_sums(r, SPSH_STATISTICS_WHOLE, &all, err);
    r->work.facts.published = rc == SPSH_OK;
    if (rc == SPSH_OK)
        remove_shard_files(r);
    free_sums(&all);
    return rc;
}

/* ---- the run ---- */

static spsh_status prepare(run *r, const spsh__feature_run_options *options, spsh_error *err)
{
    spsh_status rc = spsh__feature_work_open(&r->work, options, true, err);
    r->work.features.norm = SPSH_NORM_NONE;
    r->work.finish_fn = sum_entry;
    (void)spsh_feature_options_text(&r->work.features, r->text, sizeof(r->text));
    if (rc == SPSH_OK)
        rc = spsh__feature_work_open_featgen(&r->work, err);
    if (rc != SPSH_OK)
        return rc;
    r->shard.dim = spsh_featgen_dim(r->work.featgen);
    r->group_count =
        options->by_speaker ? 2 + spsh_dataset_name_count(r->work.source, SPSH_NAME_SPEAKER) : 1;
    r->places = calloc((size_t)r->group_count, sizeof(*r->places));
    return r->places == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status run_all(run *r, spsh_error *err)
{
    spsh_status rc = inspect(r, SPSH_STATISTICS_WHOLE, &r->work.facts.already_there, err);
    if (rc == SPSH_OK && r->work.facts.already_there)
        remove_shard_files(r); /* left by a run that was killed at its end */
    if (rc != SPSH_OK || r->work.facts.already_there)
        return rc;
    rc = inspect_shards(r, err);
    spsh__feature_work_number_jobs(&r->work);
    remove_stale(r);
    if (rc == SPSH_OK)
        rc = sum_shards(r, err);
    return rc == SPSH_OK ? publish(r, err) : rc;
}

spsh_status spsh__statistics_run(const spsh__feature_run_options *options,
                                 spsh__feature_run_facts *ret_facts, spsh_error *err)
{
    run r = {.group_count = 0};
    spsh_status rc = prepare(&r, options, err);
    if (rc == SPSH_OK)
        rc = run_all(&r, err);
    if (rc == SPSH_OK)
        *ret_facts = r.work.facts;
    free_sums(&r.shard);
    free(r.places);
    spsh__feature_work_close(&r.work);
    return rc;
}
