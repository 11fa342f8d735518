/* dedupe_out.c: print the result for people and for programs. */
#include "dedupe_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/source_fail.h"
#include "common/file_names.h"
#include "estimate_out.h"
#include "speechshard/inside.h"

enum { CLUSTERS_SHOWN = 10, TEXTS_SHOWN = 5, BOILERPLATE_SHOWN = 5 };

#define KEY_BYTES       16
#define JOIN_KEYS_PER_S 8e5 /* join rate of one core: docs/BENCHMARKS.md */

/* ---- names ---- */

static spsh_status read_id(const spsh_dataset *from, uint64_t position, char *dst,
                           size_t size_bytes)
{
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    spsh_status rc = spsh_reader_open(from, &reader, NULL);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(reader, position, &utterance, NULL);
    if (rc == SPSH_OK) {
        (void)snprintf(dst, size_bytes, "%s %.*s", spsh__base_name(spsh_dataset_path(from)),
                       (int)utterance.id.size_bytes, (const char *)utterance.id.data);
    }
    spsh_reader_close(reader);
    return rc;
}

static void print_id(const spsh_dedupe_result *d, size_t dataset, uint64_t position)
{
    char name[1024];
    if (read_id(spsh_dedupe_result_dataset(d, dataset), position, name, sizeof(name)) != SPSH_OK)
        (void)snprintf(name, sizeof(name), "(cannot be read)");
    spsh__text_print(stdout, spsh__bytes_of(name), 0);
}

/* ---- the table ---- */

static void print_pairs(const spsh_dedupe_result *d)
{
    spsh_table *table = spsh__table_new("llr");
    bool any = false;
    for (int kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++) {
        for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
            const uint64_t matches =
                spsh_dedupe_result_matches(d, (spsh_copy_tier)tier, (spsh_copy_class)kind);
            if (matches == 0)
                continue;
            spsh__table_row(table, spsh_copy_class_text((spsh_copy_class)kind),
                            spsh_copy_tier_text((spsh_copy_tier)tier), SPSH_SHOW_COUNT(matches));
            any = true;
        }
    }
    if (any) {
        printf("\npairs found, by class and evidence\n");
        (void)spsh__table_print(table, stdout, "  ", 0);
    }
    spsh__table_free(table);
}

static void print_sum(const char *name, const spsh_dedupe_sum *sum, double total_seconds)
{
    printf("  %-10s %s utterances, %s (%s), %s\n", name, SPSH_SHOW_COUNT(sum->utterance_count),
           SPSH_SHOW_DURATION(sum->seconds), SPSH_SHOW_PERCENT(sum->seconds, total_seconds),
           SPSH_SHOW_BYTES(sum->bytes));
}

static spsh_dedupe_sum add_up(const spsh_dedupe_result *d, spsh_copy_tier first,
                              spsh_copy_tier last)
{
    spsh_dedupe_sum sum = {0};
    for (int tier = (int)first; tier <= (int)last; tier++) {
        const spsh_dedupe_sum *one = spsh_dedupe_result_dropped(d, (spsh_copy_tier)tier);
        sum.utterance_count += one->utterance_count;
        sum.seconds += one->seconds;
        sum.bytes += one->bytes;
    }
    return sum;
}

static void print_decisions(const spsh_dedupe_result *d)
{
    const spsh_dedupe_sum exact = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_CHUNKS);
    const spsh_dedupe_sum sound = add_up(d, SPSH_TIER_ACOUSTIC, SPSH_TIER_ACOUSTIC);
    const spsh_dedupe_sum all = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_ACOUSTIC);
    const spsh_dedupe_facts *facts = spsh_dedupe_result_facts(d);
    const struct {
        spsh_copy_decision decision;
        const char *text;
    } others[] = {
        {SPSH_DECISION_TAG, "partial copies, or copies of a kind that is never dropped"},
        {SPSH_DECISION_PROTECTED, "copies in splits that --drop-from protects"},
        {SPSH_DECISION_UNPROVEN, "linked to the kept utterance only through other copies"},
    };
    printf("\nthe plan drops copies of %s cluster%s\n", SPSH_SHOW_COUNT(facts->cluster_count),
           facts->cluster_count == 1 ? "" : "s");
    print_sum("exact", &exact, facts->seconds);
    print_sum("acoustic", &sound, facts->seconds);
    print_sum("together", &all, facts->seconds);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const uint64_t members = spsh_dedupe_result_decisions(d, others[i].decision);
        if (members > 0)
            printf("  %s: %s kept\n", others[i].text, SPSH_SHOW_COUNT(members));
    }
}

static int compare_clusters(const void *left, const void *right)
{
    const spsh_copy_cluster *const *l = left;
    const spsh_copy_cluster *const *r = right;
    if ((*l)->saved_seconds != (*r)->saved_seconds)
        return (*l)->saved_seconds > (*r)->saved_seconds ? -1 : 1;
    return (*l)->first_member < (*r)->first_member ? -1 : 1;
}

static void print_largest(const spsh_dedupe_result *d)
{
    const uint64_t count = spsh_dedupe_result_facts(d)->cluster_count;
    const spsh_copy_cluster **order =
        (const spsh_copy_cluster **)calloc((size_t)count + 1, sizeof(spsh_copy_cluster *));
    if (order == NULL || count == 0) {
        free((void *)order);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        order[i] = spsh_dedupe_result_cluster(d, i);
    qsort((void *)order, (size_t)count, sizeof(spsh_copy_cluster *), compare_clusters);
    printf("\nlargest clusters: the kept utterance and the reason\n");
    for (uint64_t i = 0; i < count && i < CLUSTERS_SHOWN; i++) {
        const spsh_copy_member *kept = spsh_dedupe_result_member(d, order[i]->first_member);
        printf("  %s members, %s saved: ", SPSH_SHOW_COUNT(order[i]->member_count),
               SPSH_SHOW_DURATION(order[i]->saved_seconds));
        print_id(d, kept->dataset, kept->position);
        printf(" (%s)\n", kept->reason);
    }
    free((void *)order);
}

static void print_texts(const spsh_dedupe_result *d)
{
    const spsh_dedupe_facts *facts = spsh_dedupe_result_facts(d);
    uint64_t shown = 0;
    if (facts->texts_differ_count == 0)
        return;
    printf("\ntranscripts of copies that disagree, in %s clusters: one of them is wrong\n",
           SPSH_SHOW_COUNT(facts->texts_differ_count));
    for (uint64_t i = 0; i < facts->cluster_count && shown < TEXTS_SHOWN; i++) {
        const spsh_copy_cluster *cluster = spsh_dedupe_result_cluster(d, i);
        if (!cluster->texts_differ)
            continue;
        const spsh_copy_member *kept = spsh_dedupe_result_member(d, cluster->first_member);
        printf("  ");
        print_id(d, kept->dataset, kept->position);
        printf("\n");
        shown++;
    }
}

static void print_boilerplate(const spsh_dedupe_result *d)
{
    const size_t count = spsh_dedupe_result_facts(d)->boilerplate_count;
    if (count == 0)
        return;
    printf("\nsegments that many utterances share (jingles, disclaimers); not a reason to drop\n");
    for (size_t i = 0; i < count && i < BOILERPLATE_SHOWN; i++) {
        const spsh_boilerplate *b = spsh_dedupe_result_boilerplate(d, i);
        printf("  %s utterances share %.1f s: ", SPSH_SHOW_COUNT(b->utterance_count), b->seconds);
        print_id(d, b->dataset, b->position);
        printf(" from %.1f s on\n", b->start_s);
    }
}

/* Name the search, its reason, and the copies that it may miss. */
static void print_search(const spsh_dedupe_options *options, const spsh_dedupe_facts *facts)
{
    static const char *const names[] = {"mild", "deep", "auto"};
    printf("search %s: keys of %u bits", names[options->search], (unsigned)facts->key_bits);
    if (facts->contour_bits > 0)
        printf(" and loudness contours with %u weak bits", (unsigned)facts->contour_bits);
    printf("; ");
    printf("narrowband or below 40 kbit/s: %s of %s utterances\n",
           SPSH_SHOW_COUNT(facts->telephone_count), SPSH_SHOW_COUNT(facts->utterance_count));
    if (facts->is_limited)
        printf("  this search misses some of their copies: `speechshard dedupe --search "
               "%s` finds more\n",
               options->search == SPSH_SEARCH_MILD ? "auto" : "deep");
}

void spsh__dedupe_print(const spsh_dedupe_options *options, const spsh_dedupe_result *d)
{
    const spsh_dedupe_facts *facts = spsh_dedupe_result_facts(d);
    printf("%s utterances, %s, of %zu dataset%s\n", SPSH_SHOW_COUNT(facts->utterance_count),
           SPSH_SHOW_DURATION(facts->seconds), facts->dataset_count,
           facts->dataset_count == 1 ? "" : "s");
    if ((options->flags & SPSH_DEDUPE_EXACT_ONLY) == 0) {
        print_search(options, facts);
        printf("%s keys; %s candidate pairs, of which the audio of %s was compared\n",
               SPSH_SHOW_COUNT(facts->key_count), SPSH_SHOW_COUNT(facts->candidate_count),
               SPSH_SHOW_COUNT(facts->decoded_count));
    }
    if (facts->undecoded_count > 0)
        printf("%s utterances cannot be decoded; only copies with equal bytes are found\n",
               SPSH_SHOW_COUNT(facts->undecoded_count));
    print_pairs(d);
    if (facts->short_pair_count > 0)
        printf("  too short to prove: %s pairs of clips below 0.5 s with equal texts or names%s\n",
               SPSH_SHOW_COUNT(facts->short_pair_count),
               options->plan_path == NULL ? "" : ", listed in the plan");
    print_decisions(d);
    print_largest(d);
    print_texts(d);
    print_boilerplate(d);
    if (options->plan_path == NULL)
        printf("\nNothing was changed. To write a plan, add -o PLAN.jsonl\n");
    else if (facts->dropped_count == 0)
        printf("\nNothing to drop; the plan is %s\n", options->plan_path);
    else
        printf("\nNothing was changed yet: `speechshard apply %s` skips the copies\n",
               options->plan_path);
}

/* ---- JSON ---- */

static void put_sum(spsh_json *json, const char *key, const spsh_dedupe_sum *sum)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_u64(json, "utterances", sum->utterance_count);
    spsh__json_put_real(json, "seconds", sum->seconds);
    spsh__json_put_u64(json, "bytes", sum->bytes);
    spsh__json_end(json);
}

static void put_matches(spsh_json *json, const spsh_dedupe_result *d)
{
    spsh__json_begin_array(json, "matches");
    for (int kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++) {
        for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
            const uint64_t count =
                spsh_dedupe_result_matches(d, (spsh_copy_tier)tier, (spsh_copy_class)kind);
            if (count == 0)
                continue;
            spsh__json_begin_object(json, NULL);
            spsh__json_put_string(json, "class", spsh_copy_class_text((spsh_copy_class)kind));
            spsh__json_put_string(json, "tier", spsh_copy_tier_text((spsh_copy_tier)tier));
            spsh__json_put_u64(json, "count", count);
            spsh__json_end(json);
        }
    }
    spsh__json_end(json);
}

int spsh__dedupe_print_json(const spsh_dedupe_options *options, const spsh_dedupe_result *d)
{
    const spsh_dedupe_sum exact = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_CHUNKS);
    const spsh_dedupe_sum sound = add_up(d, SPSH_TIER_ACOUSTIC, SPSH_TIER_ACOUSTIC);
    const spsh_dedupe_sum all = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_ACOUSTIC);
    const spsh_dedupe_facts *facts = spsh_dedupe_result_facts(d);
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "plan", options->plan_path);
    if (options->plan_path != NULL)
        spsh__json_put_hex(json, "plan_hash", facts->plan_hash, 16);
    spsh__json_put_u64(json, "datasets", facts->dataset_count);
    spsh__json_put_u64(json, "utterances", facts->utterance_count);
    spsh__json_put_real(json, "seconds", facts->seconds);
    spsh__json_put_u64(json, "undecodable", facts->undecoded_count);
    spsh__json_put_u64(json, "keys", facts->key_count);
    spsh__json_put_u64(json, "key_bits", facts->key_bits);
    spsh__json_put_u64(json, "contour_bits", facts->contour_bits);
    spsh__json_put_u64(json, "telephone_utterances", facts->telephone_count);
    spsh__json_put_bool(json, "is_limited", facts->is_limited);
    spsh__json_put_u64(json, "short_pairs", facts->short_pair_count);
    spsh__json_put_u64(json, "candidates", facts->candidate_count);
    spsh__json_put_u64(json, "decoded", facts->decoded_count);
    put_matches(json, d);
    spsh__json_put_u64(json, "clusters", facts->cluster_count);
    spsh__json_begin_object(json, "members");
    for (int i = 0; i <= SPSH_DECISION_UNPROVEN; i++)
        spsh__json_put_u64(json, spsh_copy_decision_text((spsh_copy_decision)i),
                           spsh_dedupe_result_decisions(d, (spsh_copy_decision)i));
    spsh__json_end(json);
    spsh__json_begin_object(json, "drop");
    put_sum(json, "exact", &exact);
    put_sum(json, "acoustic", &sound);
    put_sum(json, "together", &all);
    spsh__json_end(json);
    spsh__json_put_u64(json, "clusters_with_different_texts", facts->texts_differ_count);
    spsh__json_put_u64(json, "boilerplate", facts->boilerplate_count);
    return spsh__cli_json(json);
}

/* ---- estimates ---- */

static void print_estimate(const spsh_dedupe_options *options, const spsh_dedup_cost *cost,
                           double join_s)
{
    spsh__estimate_print_line("audio", "%s", SPSH_SHOW_DURATION(cost->train_seconds));
    spsh__estimate_print_prints(cost);
    if ((options->flags & SPSH_DEDUPE_EXACT_ONLY) != 0)
        return;
    spsh__estimate_print_line("keys", "%s, %s", SPSH_SHOW_COUNT(cost->key_count),
                              SPSH_SHOW_BYTES(cost->key_count * KEY_BYTES));
    spsh__estimate_print_line("join", "about %s on %u threads", SPSH_SHOW_DURATION(join_s),
                              options->threads);
    spsh__estimate_print_line("listening", "a few ms of one core per pair of copies");
}

int spsh__dedupe_print_estimate(const spsh_dedup_sources *sources,
                                const spsh_dedupe_options *options, bool json)
{
    spsh_dedup_cost cost = SPSH_DEDUP_COST_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_dedupe_estimate(sources, options, &cost, &err) != SPSH_OK)
        return spsh__source_fail(NULL, sources, &err);
    const double join_s = (options->flags & SPSH_DEDUPE_EXACT_ONLY) != 0
                              ? 0
                              : (double)cost.key_count / JOIN_KEYS_PER_S / options->threads;
    const spsh__disk_space space = {options->work_path, cost.temporary_bytes, options->memory_bytes,
                                    "about 1 kB per copy"};
    if (!json) {
        print_estimate(options, &cost, join_s);
        spsh__estimate_print_space(&space);
        return SPSH_EXIT_DONE;
    }
    spsh_json *line = spsh__json_new();
    spsh__json_put_real(line, "audio_hours", cost.train_seconds / 3600);
    spsh__estimate_put_prints(line, &cost);
    spsh__json_put_u64(line, "keys", cost.key_count);
    spsh__json_put_u64(line, "key_bytes", cost.key_count * KEY_BYTES);
    spsh__json_put_real(line, "join_hours", join_s / 3600);
    spsh__estimate_put_space(line, &space);
    return spsh__cli_json(line);
}
