/* dedupe_run.c: deduplication from the sources to the plan, in order:
 *
 *     missing fingerprints -> the set -> copies -> clusters -> plan, page
 *
 * Data that a stage leaves for a later one is part of the result, and is freed with it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/file_out.h"
#include "copies/judge.h"
#include "copies/search_choice.h"
#include "copies/tiny_pairs.h"
#include "dedup_options.h"
#include "join/contour_search.h"
#include "plan/copy_plan.h"
#include "set/dataset_splits.h"
#include "set/scaled_keys.h"
#include "set/source_prints.h"
#include "set/split_names.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

enum {
    BOILERPLATE_MIN = 20,
    KEYS_PER_PRINT = 8, /* assumed for estimates before the fingerprints exist */
};

/* All findings. Stages fill it, and the functions of dedup.h show it. */
struct spsh_dedupe_result {
    spsh_dedupe_facts facts;
    spsh__print_set *set;
    spsh__copies_facts copies;
    spsh__match_list matches;
    spsh__match_list short_pairs; /* pairs of clips that are too short to prove */
    spsh__clusters clusters;
    spsh__policy policy;
    spsh__plan_facts plan;
    spsh_dedupe_sum by_tier[SPSH_TIER_COUNT];
    uint64_t decisions[SPSH_DECISION_COUNT]; /* number of members per decision */
    uint64_t key_count;
    spsh__search_choice choice;
    spsh_copy_member *members;     /* clusters.member_count items */
    spsh_boilerplate *boilerplate; /* clusters.boilerplate_count items */
};

typedef struct run {
    const spsh_dedup_sources *sources;
    spsh_dedupe_options options;
    spsh__call_watch watch;
    spsh_dedupe_result *d;
} run;

static bool has_flag(const run *r, uint32_t flag)
{
    return (r->options.flags & flag) != 0;
}

/* ---- segments and the set ---- */

static spsh_status make_segments(run *r, spsh_error *err)
{
    const spsh__fingerprint_run_options make = {
        .io = r->options.io,
        .threads = r->options.threads,
        .part = r->options.part,
        .part_count = r->options.part_count,
        .watch = &r->watch,
    };
    return spsh__source_prints_make(r->sources->items, r->sources->count, &make, err);
}

static spsh_status open_set(run *r, spsh_error *err)
{
    spsh_status rc =
        spsh__print_set_open(r->sources->items, r->sources->count, r->options.io, &r->d->set, err);
    if (rc == SPSH_E_NOT_FOUND && r->options.part_count > 1)
        return SPSH_FAIL(err, SPSH_E_END, SPSH__PART_HAS_PRINTS);
    return rc;
}

/* Remove the splits of a dataset from names. */
static spsh_status take_out_splits(const run *r, const char *path, spsh__split_names *names,
                                   spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    opt.io = r->options.io;
    spsh_status rc = spsh_dataset_open(path, &opt, &dataset, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < spsh_dataset_group_count(dataset); i++) {
        spsh_dataset_group group;
        size_t left = 0;
        rc = spsh_dataset_group_get(dataset, i, &group, err);
        for (size_t k = 0; rc == SPSH_OK && k < names->count; k++) {
            if (!spsh__bytes_equal(names->items[k], group.split))
                names->items[left++] = names->items[k];
        }
        names->count = rc == SPSH_OK ? left : names->count;
    }
    spsh_dataset_close(dataset);
    return rc;
}

/* Reject unknown splits before any long work. A typing error would protect every utterance. */
static spsh_status check_names(run *r, spsh_error *err)
{
    spsh__split_names names = {0};
    spsh_status rc = SPSH_OK;
    if (r->options.drop_from == NULL)
        return SPSH_OK;
    if (!spsh__split_names_add(&names, r->options.drop_from))
        rc = SPSH_NO_MEMORY(err);
    for (size_t i = 0; i < r->sources->count && rc == SPSH_OK; i++)
        rc = take_out_splits(r, r->sources->items[i].path, &names, err);
    if (rc == SPSH_OK && names.count > 0)
        rc = SPSH_FAIL(err, SPSH_E_UNKNOWN_NAME, "drop_from: no dataset has the split '%.*s'",
                       (int)names.items[0].size_bytes, (const char *)names.items[0].data);
    free(names.items);
    return rc;
}

static spsh_status settle_policy(run *r, spsh_error *err)
{
    const spsh_dedupe_options *o = &r->options;
    const spsh__print_set *set = r->d->set;
    spsh__policy *policy = &r->d->policy;
    *policy = (spsh__policy){.keep = o->keep,
                             .contained = o->contained,
                             .drop_from = o->drop_from,
                             .boilerplate_min = BOILERPLATE_MIN};
    for (size_t i = 0; i < o->prefer_count; i++) {
        size_t at = 0;
        const size_t count = spsh__print_set_dataset_count(set);
        while (at < count &&
               strcmp(spsh_dataset_path(spsh__print_set_dataset(set, at)), o->prefer[i]) != 0)
            at++;
        if (at == count)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "prefer %s: not one of the given datasets",
                             o->prefer[i]);
        policy->prefer[policy->prefer_count++] = at;
    }
    return SPSH_OK;
}

static spsh_status measure_set(run *r, spsh_error *err)
{
    spsh_dedupe_result *d = r->d;
    for (uint64_t i = 0; i < spsh__print_set_print_count(d->set); i++) {
        spsh__set_print print;
        spsh_status rc = spsh__print_set_print(d->set, i, &print, err);
        if (rc != SPSH_OK)
            return rc;
        d->key_count += print.key_count;
    }
    for (uint64_t i = 0; i < spsh__print_set_count(d->set); i++) {
        spsh__segment_row row;
        if (spsh__print_set_side(d->set, i) == SPSH_SIDE_NONE)
            continue;
        spsh_status rc = spsh__print_set_row(d->set, i, &row, NULL, err);
        if (rc != SPSH_OK)
            return rc;
        if (row.sample_rate_hz > 0)
            d->plan.total_seconds += (double)row.samples / row.sample_rate_hz;
    }
    if (has_flag(r, SPSH_DEDUPE_EXACT_ONLY))
        return SPSH_OK;
    return spsh__search_choose(d->set, r->options.search, d->key_count, &d->choice, err);
}

/* ---- space ---- */

static uint64_t space_for(const spsh_dedupe_options *options, const spsh__search_choice *choice,
                          uint64_t key_count, uint64_t print_count)
{
    const uint64_t speeds =
        (options->flags & SPSH_DEDUPE_SPEED_GRID) != 0 ? SPSH__SCALE_FASTER_END : 1;
    if ((options->flags & SPSH_DEDUPE_EXACT_ONLY) != 0)
        return key_count * 4; /* sorted chunks; their number is about the number of keys */
    const uint64_t keys =
        spsh__key_join_space(choice->mode, key_count * speeds, 0, options->memory_bytes);
    const uint64_t contours =
        spsh__contour_search_space(print_count, choice->contour_weak, options->memory_bytes);
    return keys > contours ? keys : contours; /* the contours are finished before the keys */
}

static spsh_status check_space(run *r, spsh_error *err)
{
    const uint64_t need = space_for(&r->options, &r->d->choice, r->d->key_count,
                                    spsh__print_set_print_count(r->d->set));
    if (r->options.space_fn != NULL)
        r->options.space_fn(r->options.user, need);
    return spsh__work_space_check(r->options.work_path, need, err);
}

/* ---- copies and clusters ---- */

static spsh_status find_copies(run *r, spsh_error *err)
{
    const spsh__copies_options copies = {
        .io = r->options.io,
        .work_path = r->options.work_path,
        .memory_bytes = r->options.memory_bytes,
        .threads = r->options.threads,
        .exact_only = has_flag(r, SPSH_DEDUPE_EXACT_ONLY),
        .mode = r->d->choice.mode,
        .contour_weak = r->d->choice.contour_weak,
        .speed_grid = has_flag(r, SPSH_DEDUPE_SPEED_GRID),
        .confirm = has_flag(r, SPSH_DEDUPE_CONFIRM),
        .part = r->options.part,
        .part_count = r->options.part_count,
        .watch = &r->watch,
    };
    return spsh__copies_find(r->d->set, &copies,
                             (spsh__match_sink){spsh__match_list_add, &r->d->matches},
                             &r->d->copies, err);
}

/* Add the proven pairs of clips that are too short for the search to the matches. */
static spsh_status find_tiny(run *r, spsh_error *err)
{
    spsh_dedupe_result *d = r->d;
    const spsh__tiny_options options = {
        .known = &d->matches, .memory_bytes = r->options.memory_bytes, .watch = &r->watch};
    spsh__match_list proven = {0};
    spsh_status rc = SPSH_OK;
    if (has_flag(r, SPSH_DEDUPE_EXACT_ONLY))
        return SPSH_OK;
    rc = spsh__tiny_pairs_find(d->set, &options, &proven, &d->short_pairs, err);
    for (size_t i = 0; rc == SPSH_OK && i < proven.count; i++)
        rc = spsh__match_list_add(&d->matches, &proven.items[i], err);
    if (rc == SPSH_OK && proven.count > 0)
        qsort(d->matches.items, d->matches.count, sizeof(*d->matches.items), spsh__match_compare);
    free(proven.items);
    return rc;
}

static spsh_status check_pair(void *user, uint64_t a, uint64_t b, spsh__match_sink sink,
                              spsh_error *err)
{
    return spsh__judge_pair((spsh__judge *)user, a, b, sink, err);
}

static spsh_status make_clusters(run *r, spsh_error *err)
{
    const spsh__judge_options judge_options = {.limits = &spsh__align_limits_default,
                                               .threads = 1,
                                               .memory_bytes = r->options.memory_bytes};
    const bool listens = !has_flag(r, SPSH_DEDUPE_EXACT_ONLY);
    spsh_dedupe_result *d = r->d;
    spsh__judge *judge = NULL;
    spsh_status rc = SPSH_OK;
    if (listens)
        rc = spsh__judge_open(d->set, &judge_options, &judge, err);
    if (rc == SPSH_OK)
        rc = spsh__clusters_make(d->set, d->matches.items, d->matches.count, &d->policy,
                                 (spsh__pair_check){listens ? check_pair : NULL, judge},
                                 &d->clusters, err);
    spsh__judge_close(judge);
    return rc;
}

/* ---- facts ---- */

static spsh_status sum_members(spsh_dedupe_result *d, spsh_error *err)
{
    for (uint64_t i = 0; i < d->clusters.member_count; i++) {
        const spsh__member *m = &d->clusters.members[i];
        spsh__segment_row row;
        d->decisions[m->decision]++;
        if (m->decision != SPSH_DECISION_DROP)
            continue;
        spsh_status rc = spsh__print_set_row(d->set, m->ordinal, &row, NULL, err);
        if (rc != SPSH_OK)
            return rc;
        const double seconds =
            row.sample_rate_hz == 0 ? 0 : (double)row.samples / row.sample_rate_hz;
        spsh_dedupe_sum *sum = &d->by_tier[spsh__plan_match(&d->plan, m->match)->tier];
        sum->utterance_count++;
        sum->seconds += seconds;
        sum->bytes += (uint64_t)(seconds * row.payload_bps / 8);
    }
    return SPSH_OK;
}

static spsh_status sum_up(run *r, spsh_error *err)
{
    static const char *const modes[] = {"mild", "deep", "auto"};
    spsh_dedupe_result *d = r->d;
    spsh__plan_facts *f = &d->plan;
    f->common.set = d->set;
    f->common.copies = &d->copies;
    f->common.limits = &spsh__align_limits_default;
    f->common.command = r->options.command;
    f->common.mode = has_flag(r, SPSH_DEDUPE_EXACT_ONLY) ? "exact" : modes[r->options.search];
    f->common.match_count = d->matches.count;
    f->matches = d->matches.items;
    f->short_pairs = &d->short_pairs;
    f->clusters = &d->clusters;
    f->policy = &d->policy;
    for (uint64_t i = 0; i < d->matches.count + d->clusters.checked_count; i++)
        spsh__copy_facts_count(&f->common, spsh__plan_match(f, i));
    spsh_status rc = sum_members(d, err);
    for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
        f->dropped_count += d->by_tier[tier].utterance_count;
        f->dropped_seconds += d->by_tier[tier].seconds;
        f->dropped_bytes += d->by_tier[tier].bytes;
    }
    return rc;
}

/* Find the dataset and the position of each utterance in the result. */
static spsh_status place_members(run *r, spsh_error *err)
{
    spsh_dedupe_result *d = r->d;
    const spsh__clusters *c = &d->clusters;
    d->members = calloc((size_t)c->member_count + 1, sizeof(*d->members));
    d->boilerplate = calloc(c->boilerplate_count + 1, sizeof(*d->boilerplate));
    if (d->members == NULL || d->boilerplate == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t i = 0; i < c->member_count; i++) {
        const spsh__member *m = &c->members[i];
        const spsh__set_place place = spsh__print_set_place(d->set, m->ordinal);
        d->members[i] = (spsh_copy_member){place.number, place.position, m->decision, m->reason};
    }
    for (size_t i = 0; i < c->boilerplate_count; i++) {
        const spsh__boilerplate *b = &c->boilerplate[i];
        const spsh__set_place place = spsh__print_set_place(d->set, b->ordinal);
        d->boilerplate[i] = (spsh_boilerplate){place.number, place.position, b->start_s, b->seconds,
                                               b->utterance_count};
    }
    return SPSH_OK;
}

static void fill_facts(spsh_dedupe_result *d)
{
    spsh_dedupe_facts *f = &d->facts;
    f->dataset_count = spsh__print_set_dataset_count(d->set);
    f->utterance_count = spsh__print_set_side_count(d->set, SPSH_SIDE_TRAIN);
    f->seconds = d->plan.total_seconds;
    f->undecoded_count = d->copies.undecoded_count;
    f->key_count = d->copies.join.key_count;
    f->key_bits = d->choice.key_bits;
    f->contour_bits = d->choice.contour_weak;
    f->telephone_count = d->choice.telephone_count;
    f->short_pair_count = d->short_pairs.count;
    f->is_limited = d->choice.is_limited;
    f->candidate_count = d->copies.join.candidate_count;
    f->decoded_count = d->copies.judge.decoded_count;
    f->cluster_count = d->clusters.cluster_count;
    f->member_count = d->clusters.member_count;
    for (uint64_t i = 0; i < f->cluster_count; i++)
        f->texts_differ_count += d->clusters.clusters[i].texts_differ;
    f->boilerplate_count = d->clusters.boilerplate_count;
    f->dropped_count = d->plan.dropped_count;
    f->dropped_bytes = d->plan.dropped_bytes;
    f->dropped_seconds = d->plan.dropped_seconds;
}

/* ---- files ---- */

/* List the chosen splits of a dataset, sorted and each once. *ret_text is NULL if all are chosen.
 */
static spsh_status list_splits(const spsh_dedup_sources *sources, const char *path, char **ret_text,
                               spsh_error *err)
{
    spsh__split_names names = {0};
    spsh__builder joined = {0};
    bool has_all = false;
    *ret_text = NULL;
    for (size_t i = 0; i < sources->count; i++) {
        const spsh_dedup_source *source = &sources->items[i];
        if (strcmp(source->path, path) != 0)
            continue;
        has_all = has_all || source->splits == NULL;
        if (source->splits != NULL && !spsh__split_names_add(&names, source->splits))
            joined.failed = true;
    }
    spsh__split_names_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        spsh__builder_append_text(&joined, i > 0 ? "," : "");
        spsh__builder_append_bytes(&joined, names.items[i]);
    }
    const char *text = spsh__builder_text(&joined);
    if (text != NULL && !has_all)
        *ret_text = strdup(text);
    const bool failed = text == NULL || (!has_all && *ret_text == NULL);
    free(names.items);
    spsh__builder_free(&joined);
    return failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status write_plan(const run *r, spsh_error *err)
{
    const spsh_dedupe_result *d = r->d;
    const size_t count = spsh__print_set_dataset_count(d->set);
    char **splits = (char **)calloc(count + 1, sizeof(*splits));
    const spsh__copy_plan_options plan = {
        .io = r->options.io,
        .path = r->options.plan_path,
        .splits = (const char *const *)splits,
        .speed_grid = has_flag(r, SPSH_DEDUPE_SPEED_GRID),
        .confirm = has_flag(r, SPSH_DEDUPE_CONFIRM),
    };
    spsh_status rc = splits == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = list_splits(r->sources, spsh_dataset_path(spsh__print_set_dataset(d->set, i)),
                         &splits[i], err);
    if (rc == SPSH_OK)
        rc = spsh__copy_plan_write(&d->plan, &plan, r->d->facts.plan_hash, err);
    for (size_t i = 0; splits != NULL && i < count; i++)
        free(splits[i]);
    free((void *)splits);
    return rc;
}

static spsh_status write_page(const run *r, spsh_error *err)
{
    spsh__builder page = {0};
    spsh_status rc = spsh__plan_page(&r->d->plan, &page, err);
    if (rc == SPSH_OK)
        rc = spsh__file_out_write(r->options.html_path, spsh__builder_bytes(&page), err);
    spsh__builder_free(&page);
    return rc;
}

static spsh_status write_files(const run *r, spsh_error *err)
{
    spsh_status rc = spsh__call_watch_check(&r->watch, err);
    if (rc == SPSH_OK && r->options.html_path != NULL)
        rc = write_page(r, err);
    if (rc == SPSH_OK && r->options.plan_path != NULL)
        rc = write_plan(r, err);
    if (rc == SPSH_OK && r->options.part_count <= 1)
        rc = spsh__copies_remove(r->options.work_path, r->options.io, err);
    return rc;
}

/* ---- the run ---- */

static spsh_status check_options(const spsh_dedup_sources *sources, spsh_dedupe_options *o,
                                 spsh_error *err)
{
    const uint32_t known = SPSH_DEDUPE_EXACT_ONLY | SPSH_DEDUPE_SPEED_GRID | SPSH_DEDUPE_CONFIRM |
                           SPSH_DEDUPE_DISCARD_WORK;
    if ((o->flags & ~known) != 0 || (unsigned)o->search > SPSH_SEARCH_AUTO ||
        (unsigned)o->keep > SPSH_KEEP_LONGEST || (unsigned)o->contained > SPSH_CONTAINED_KEEP_PART)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "an option has an unknown value or flag");
    if (o->prefer_count > SPSH_DEDUPE_PREFER_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "prefer_count is %zu, must be at most %d",
                         o->prefer_count, SPSH_DEDUPE_PREFER_MAX);
    for (size_t i = 0; i < sources->count; i++)
        if (sources->items[i].side != SPSH_SIDE_TRAIN)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s: not on side train",
                             sources->items[i].path);
    const spsh_status rc = spsh__dedup_path_check("work_path", o->work_path, err);
    return rc == SPSH_OK ? spsh__dedup_memory_take(&o->memory_bytes, err) : rc;
}

static spsh_status take_options(run *r, const spsh_dedupe_options *options, spsh_error *err)
{
    spsh_dedupe_options *o = &r->options;
    *o = (spsh_dedupe_options)SPSH_DEDUPE_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, o, sizeof(*o), err);
    if (rc != SPSH_OK)
        return rc;
    o->io = o->io == NULL ? spsh_io_default() : o->io;
    o->command = o->command == NULL ? "" : o->command;
    o->threads = spsh__dedup_threads(o->threads);
    o->part_count = o->part_count == 0 ? 1 : o->part_count;
    r->watch.progress_fn = o->progress_fn;
    r->watch.user = o->user;
    return check_options(r->sources, o, err);
}

/* The stages, in order. */
static spsh_status (*const stages[])(run *r, spsh_error *err) = {
    check_names, make_segments, open_set,      settle_policy, measure_set,   check_space,
    find_copies, find_tiny,     make_clusters, sum_up,        place_members,
};

static spsh_status run_all(const spsh_dedup_sources *sources, const spsh_dedupe_options *options,
                           spsh_dedupe_result **ret_result, spsh_error *err)
{
    run r = {.sources = sources};
    spsh_status rc = take_options(&r, options, err);
    if (rc != SPSH_OK)
        return rc;
    r.d = calloc(1, sizeof(*r.d));
    rc = r.d == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; rc == SPSH_OK && i < sizeof(stages) / sizeof(stages[0]); i++)
        rc = stages[i](&r, err);
    if (rc == SPSH_OK) {
        fill_facts(r.d);
        rc = write_files(&r, err);
    }
    if (rc != SPSH_OK && has_flag(&r, SPSH_DEDUPE_DISCARD_WORK))
        (void)spsh__copies_remove(r.options.work_path, r.options.io, NULL);
    if (rc == SPSH_OK)
        *ret_result = r.d;
    else
        spsh_dedupe_result_free(r.d);
    return rc;
}

spsh_status spsh_dedupe_run(const spsh_dedup_sources *sources, const spsh_dedupe_options *options,
                            spsh_dedupe_result **ret_result, spsh_error *err)
{
    spsh_error local = SPSH_ERROR_INIT; /* stages also write to it for missing files, which is not a
                                           failure */
    return spsh__fail_again(run_all(sources, options, ret_result, &local), &local, err);
}

spsh_status spsh_dedupe_estimate(const spsh_dedup_sources *sources,
                                 const spsh_dedupe_options *options, spsh_dedup_cost *ret_cost,
                                 spsh_error *err)
{
    run r = {.sources = sources};
    spsh_dedup_cost cost = {0};
    spsh_status rc = take_options(&r, options, err);
    if (rc == SPSH_OK)
        rc = spsh_result_check(ret_cost, sizeof(cost), err);
    if (rc == SPSH_OK)
        rc = spsh__source_prints_estimate(sources->items, sources->count, r.options.io, &cost, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t print_count = cost.key_count / KEYS_PER_PRINT;
    const spsh__search_choice choice =
        spsh__search_choice_of(r.options.search, cost.key_count, print_count, print_count);
    cost.temporary_bytes = space_for(&r.options, &choice, cost.key_count, print_count);
    spsh_result_give(ret_cost, &cost, sizeof(cost));
    return SPSH_OK;
}

/* ---- the result ---- */

const spsh_dedupe_facts *spsh_dedupe_result_facts(const spsh_dedupe_result *result)
{
    return &result->facts;
}

const spsh_dataset *spsh_dedupe_result_dataset(const spsh_dedupe_result *result, size_t index)
{
    return spsh__print_set_dataset(result->set, index);
}

uint64_t spsh_dedupe_result_matches(const spsh_dedupe_result *result, spsh_copy_tier tier,
                                    spsh_copy_class kind)
{
    return result->plan.common.by_tier_class[tier][kind];
}

const spsh_dedupe_sum *spsh_dedupe_result_dropped(const spsh_dedupe_result *result,
                                                  spsh_copy_tier tier)
{
    return &result->by_tier[tier];
}

uint64_t spsh_dedupe_result_decisions(const spsh_dedupe_result *result, spsh_copy_decision decision)
{
    return result->decisions[decision];
}

const spsh_copy_cluster *spsh_dedupe_result_cluster(const spsh_dedupe_result *result,
                                                    uint64_t index)
{
    return &result->clusters.clusters[index];
}

const spsh_copy_member *spsh_dedupe_result_member(const spsh_dedupe_result *result, uint64_t index)
{
    return &result->members[index];
}

const spsh_boilerplate *spsh_dedupe_result_boilerplate(const spsh_dedupe_result *result,
                                                       size_t index)
{
    return &result->boilerplate[index];
}

void spsh_dedupe_result_free(spsh_dedupe_result *result)
{
    if (result == NULL)
        return;
    spsh__clusters_free(&result->clusters);
    free(result->matches.items);
    free(result->short_pairs.items);
    free(result->members);
    free(result->boilerplate);
    spsh__print_set_close(result->set);
    free(result);
}
