/* dedupe_run.c: one stage after the other; what a stage needs is freed with the run. */
#include "dedupe_run.h"

#include <stdlib.h>
#include <string.h>

#include "common/file_out.h"
#include "set/scaled_keys.h"
#include "set/source_prints.h"
#include "speechshard/inside.h"
#include "work_space.h"

/* ---- segments and the set ---- */

static spsh_status make_segments(const spsh__dedupe_options *options, const volatile bool *stop,
                                 spsh_error *err)
{
    const spsh__fingerprint_run_options run = {
        .io = options->io,
        .threads = options->threads,
        .part = options->part,
        .part_count = options->part_count,
        .progress_fn = options->progress_fn,
        .user = options->user,
    };
    return spsh__source_prints_make(options->sources->items, options->sources->count, &run, stop,
                                    err);
}

static spsh_status open_set(const spsh__dedupe_options *options, spsh__dedupe *d, spsh_error *err)
{
    spsh_status rc = spsh__print_set_open(options->sources->items, options->sources->count,
                                          options->io, &d->set, err);
    if (rc == SPSH_E_NOT_FOUND && options->part_count > 1)
        return SPSH_FAIL(err, SPSH_E_END,
                         "the fingerprints of this part are made; run the "
                         "same command again when the other parts are done");
    return rc;
}

/* Puts the names of splits that a dataset has behind one another, each with a zero behind it. */
static spsh_status add_splits(const spsh__dedupe_options *options, const char *path,
                              spsh__builder *names, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    opt.io = options->io;
    spsh_status rc = spsh_dataset_open(path, &opt, &dataset, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < spsh_dataset_group_count(dataset); i++) {
        spsh_dataset_group group;
        rc = spsh_dataset_group_get(dataset, i, &group, err);
        if (rc == SPSH_OK && group.split.size_bytes > 0) {
            spsh__builder_append_bytes(names, group.split);
            spsh__builder_append(names, "", 1);
        }
    }
    spsh_dataset_close(dataset);
    return rc;
}

static bool has_split(const spsh__builder *names, const char *name, size_t length)
{
    for (size_t at = 0; at < names->size_bytes;) {
        const char *known = (const char *)names->data + at;
        const size_t known_length = strlen(known);
        if (known_length == length && memcmp(known, name, length) == 0)
            return true;
        at += known_length + 1;
    }
    return false;
}

/* Splits that no dataset has are told before anything takes long: a slip would protect all. */
static spsh_status check_names(const spsh__dedupe_options *options, spsh_error *err)
{
    spsh__builder names = {0};
    spsh_status rc = SPSH_OK;
    if (options->policy.drop_from == NULL)
        return SPSH_OK;
    for (size_t i = 0; i < options->sources->count && rc == SPSH_OK; i++)
        rc = add_splits(options, options->sources->items[i].path, &names, err);
    if (rc == SPSH_OK && names.failed)
        rc = SPSH_NO_MEMORY(err);
    for (const char *at = options->policy.drop_from; rc == SPSH_OK && *at != '\0';) {
        const size_t length = strcspn(at, ",");
        if (!has_split(&names, at, length))
            rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG, "--drop-from: no dataset has a split '%.*s'",
                           (int)length, at);
        at += length + (at[length] == ',');
    }
    spsh__builder_free(&names);
    return rc;
}

static spsh_status settle_policy(const spsh__dedupe_options *options, spsh__dedupe *d,
                                 spsh_error *err)
{
    d->policy = options->policy;
    d->policy.prefer_count = 0;
    for (size_t i = 0; i < options->prefer_count; i++) {
        size_t at = 0;
        const size_t count = spsh__print_set_dataset_count(d->set);
        while (at < count && strcmp(spsh_dataset_path(spsh__print_set_dataset(d->set, at)),
                                    options->prefer[i]) != 0)
            at++;
        if (at == count)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "--prefer %s: none of the datasets",
                             options->prefer[i]);
        if (d->policy.prefer_count < SPSH_DEDUPE_PREFER_MAX)
            d->policy.prefer[d->policy.prefer_count++] = at;
    }
    return SPSH_OK;
}

static spsh_status measure_set(spsh__dedupe *d, spsh_error *err)
{
    for (uint64_t i = 0; i < spsh__print_set_print_count(d->set); i++) {
        spsh__set_print print;
        spsh_status rc = spsh__print_set_print(d->set, i, &print, err);
        if (rc != SPSH_OK)
            return rc;
        d->key_count += print.key_count;
    }
    for (uint64_t i = 0; i < spsh__print_set_count(d->set); i++) {
        spsh__segment_row row;
        uint64_t alias_of = 0;
        if (spsh__print_set_side(d->set, i) == SPSH_SIDE_NONE)
            continue;
        spsh_status rc = spsh__print_set_row(d->set, i, &row, &alias_of, err);
        if (rc != SPSH_OK)
            return rc;
        if (row.sample_rate_hz > 0)
            d->facts.total_seconds += (double)row.samples / row.sample_rate_hz;
    }
    return SPSH_OK;
}

/* ---- space ---- */

uint64_t spsh__dedupe_space(const spsh__dedupe_options *options, uint64_t key_count)
{
    const uint64_t speeds = options->speed_grid ? SPSH__SCALE_FASTER_END : 1;
    if (options->exact_only)
        return key_count * 4; /* chunks that are sorted; there are about as many as keys */
    return spsh__key_join_space(options->mode, key_count * speeds, 0, options->memory_bytes);
}

static spsh_status check_space(const spsh__dedupe_options *options, const spsh__dedupe *d,
                               spsh_error *err)
{
    const uint64_t need = spsh__dedupe_space(options, d->key_count);
    if (options->space_fn != NULL)
        options->space_fn(options->user, need, options->work_path);
    return spsh__work_space_check(options->work_path, need, err);
}

/* ---- copies and clusters ---- */

static spsh_status take_match(void *user, const spsh__match *match, spsh_error *err)
{
    spsh__dedupe *d = (spsh__dedupe *)user;
    if (d->match_count == d->match_capacity) {
        const uint64_t capacity = d->match_capacity == 0 ? 1024 : 2 * d->match_capacity;
        spsh__match *grown = realloc(d->matches, (size_t)capacity * sizeof(*grown));
        if (grown == NULL)
            return SPSH_NO_MEMORY(err);
        d->matches = grown;
        d->match_capacity = capacity;
    }
    d->matches[d->match_count++] = *match;
    return SPSH_OK;
}

static spsh_status find_copies(const spsh__dedupe_options *options, const volatile bool *stop,
                               spsh__dedupe *d, spsh_error *err)
{
    const spsh__copies_options copies = {
        .io = options->io,
        .work_path = options->work_path,
        .memory_bytes = options->memory_bytes,
        .threads = options->threads,
        .exact_only = options->exact_only,
        .mode = options->mode,
        .speed_grid = options->speed_grid,
        .confirm = options->confirm,
        .part = options->part,
        .part_count = options->part_count,
        .limits = &spsh__align_limits_default,
        .progress_fn = options->progress_fn,
        .user = options->user,
    };
    return spsh__copies_find(d->set, &copies, stop, (spsh__match_sink){take_match, d}, &d->copies,
                             err);
}

static spsh_status check_pair(void *user, uint64_t a, uint64_t b, spsh__match_sink sink,
                              spsh_error *err)
{
    return spsh__judge_pair((spsh__judge *)user, a, b, sink, err);
}

static spsh_status make_clusters(const spsh__dedupe_options *options, spsh__dedupe *d,
                                 spsh_error *err)
{
    const spsh__judge_options judge_options = {
        .limits = &spsh__align_limits_default, .threads = 1, .memory_bytes = options->memory_bytes};
    spsh__judge *judge = NULL;
    spsh_status rc = SPSH_OK;
    if (!options->exact_only)
        rc = spsh__judge_open(d->set, &judge_options, &judge, err);
    if (rc == SPSH_OK)
        rc = spsh__clusters_make(d->set, d->matches, d->match_count, &d->policy,
                                 (spsh__pair_check){options->exact_only ? NULL : check_pair, judge},
                                 &d->clusters, err);
    spsh__judge_close(judge);
    return rc;
}

/* ---- facts ---- */

static spsh_status sum_members(spsh__dedupe *d, spsh_error *err)
{
    for (uint64_t i = 0; i < d->clusters.member_count; i++) {
        const spsh__member *m = &d->clusters.members[i];
        spsh__segment_row row;
        uint64_t alias_of = 0;
        d->decisions[m->decision]++;
        if (m->decision != SPSH_DECISION_DROP)
            continue;
        spsh_status rc = spsh__print_set_row(d->set, m->ordinal, &row, &alias_of, err);
        if (rc != SPSH_OK)
            return rc;
        const double seconds =
            row.sample_rate_hz == 0 ? 0 : (double)row.samples / row.sample_rate_hz;
        spsh__dedupe_sum *sum = &d->by_tier[spsh__plan_match(&d->facts, m->match)->tier];
        sum->utterances++;
        sum->seconds += seconds;
        sum->bytes += (uint64_t)(seconds * row.payload_bps / 8);
    }
    return SPSH_OK;
}

static spsh_status sum_up(const spsh__dedupe_options *options, spsh__dedupe *d, spsh_error *err)
{
    static const char *const modes[] = {"mild", "deep", "audit"};
    spsh__plan_facts *f = &d->facts;
    f->common.set = d->set;
    f->common.copies = &d->copies;
    f->common.limits = &spsh__align_limits_default;
    f->common.command = options->command;
    f->common.mode = options->exact_only ? "exact" : modes[options->mode];
    f->common.match_count = d->match_count;
    f->matches = d->matches;
    f->clusters = &d->clusters;
    f->policy = &d->policy;
    for (uint64_t i = 0; i < d->match_count + d->clusters.checked_count; i++)
        spsh__copy_facts_count(&f->common, spsh__plan_match(&d->facts, i));
    spsh_status rc = sum_members(d, err);
    for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
        f->dropped_count += d->by_tier[tier].utterances;
        f->dropped_seconds += d->by_tier[tier].seconds;
        f->dropped_bytes += d->by_tier[tier].bytes;
    }
    return rc;
}

/* ---- files ---- */

static int compare_names(const void *left, const void *right)
{
    const spsh_bytes *l = left;
    const spsh_bytes *r = right;
    const size_t common = l->size_bytes < r->size_bytes ? l->size_bytes : r->size_bytes;
    const int order = memcmp(l->data, r->data, common);
    return order != 0 ? order : (l->size_bytes > r->size_bytes) - (l->size_bytes < r->size_bytes);
}

/* The names between the commas, borrowed, at the end of names. */
static void add_names(const char *splits, spsh__builder *names)
{
    while (*splits != '\0') {
        const size_t length = strcspn(splits, ",");
        const spsh_bytes name = {(const uint8_t *)splits, length};
        spsh__builder_append(names, &name, sizeof(name));
        splits += length + (splits[length] == ',');
    }
}

/* The splits that were asked for, each once and sorted; *ret_text NULL: all. */
static spsh_status list_splits(const spsh_dedup_sources *sources, const char *path, char **ret_text,
                               spsh_error *err)
{
    spsh__builder names = {0};
    spsh__builder joined = {0};
    bool has_all = false;
    *ret_text = NULL;
    for (size_t i = 0; i < sources->count; i++) {
        if (strcmp(sources->items[i].path, path) != 0)
            continue;
        if (sources->items[i].splits == NULL)
            has_all = true;
        else
            add_names(sources->items[i].splits, &names);
    }
    spsh_bytes *list = (spsh_bytes *)(void *)names.data;
    const size_t count = names.size_bytes / sizeof(*list);
    if (count > 1)
        qsort(list, count, sizeof(*list), compare_names);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare_names(&list[i], &list[i - 1]) == 0)
            continue;
        if (i > 0)
            spsh__builder_append_text(&joined, ",");
        spsh__builder_append_bytes(&joined, list[i]);
    }
    const char *text = names.failed ? NULL : spsh__builder_text(&joined);
    if (text != NULL && !has_all)
        *ret_text = strdup(text);
    const bool failed = text == NULL || (!has_all && *ret_text == NULL);
    spsh__builder_free(&names);
    spsh__builder_free(&joined);
    return failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status write_plan(const spsh__dedupe_options *options, spsh__dedupe *d, spsh_error *err)
{
    const size_t count = spsh__print_set_dataset_count(d->set);
    char **splits = (char **)calloc(count + 1, sizeof(*splits));
    const spsh__copy_plan_options plan = {
        .io = options->io,
        .path = options->plan_path,
        .splits = (const char *const *)splits,
        .speed_grid = options->speed_grid,
        .confirm = options->confirm,
    };
    spsh_status rc = splits == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = list_splits(options->sources, spsh_dataset_path(spsh__print_set_dataset(d->set, i)),
                         &splits[i], err);
    if (rc == SPSH_OK)
        rc = spsh__copy_plan_write(&d->facts, &plan, d->plan_hash, err);
    for (size_t i = 0; splits != NULL && i < count; i++)
        free(splits[i]);
    free((void *)splits);
    return rc;
}

static spsh_status write_page(const spsh__dedupe_options *options, const spsh__dedupe *d,
                              spsh_error *err)
{
    spsh__builder page = {0};
    spsh_status rc = spsh__plan_page(&d->facts, &page, err);
    if (rc == SPSH_OK)
        rc = spsh__file_out_write(options->html_path, spsh__builder_bytes(&page), err);
    spsh__builder_free(&page);
    return rc;
}

spsh_status spsh__dedupe_run(const spsh__dedupe_options *options, const volatile bool *stop,
                             spsh__dedupe *d, spsh_error *err)
{
    *d = (spsh__dedupe){0};
    spsh_status rc = check_names(options, err);
    if (rc == SPSH_OK)
        rc = make_segments(options, stop, err);
    if (rc == SPSH_OK)
        rc = open_set(options, d, err);
    if (rc == SPSH_OK)
        rc = settle_policy(options, d, err);
    if (rc == SPSH_OK)
        rc = measure_set(d, err);
    if (rc == SPSH_OK)
        rc = check_space(options, d, err);
    if (rc == SPSH_OK)
        rc = find_copies(options, stop, d, err);
    if (rc == SPSH_OK)
        rc = make_clusters(options, d, err);
    if (rc == SPSH_OK)
        rc = sum_up(options, d, err);
    if (rc == SPSH_OK && options->html_path != NULL)
        rc = write_page(options, d, err);
    if (rc == SPSH_OK && options->plan_path != NULL)
        rc = write_plan(options, d, err);
    if (rc == SPSH_OK && options->part_count <= 1)
        rc = spsh__copies_remove(options->work_path, options->io, err);
    return rc;
}

void spsh__dedupe_free(spsh__dedupe *d)
{
    spsh__clusters_free(&d->clusters);
    free(d->matches);
    spsh__print_set_close(d->set);
    *d = (spsh__dedupe){0};
}
