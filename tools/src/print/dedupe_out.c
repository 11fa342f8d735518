/* dedupe_out.c: numbers for people, and the same for programs. */
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
#define JOIN_KEYS_PER_S 8e5 /* of one core: docs/BENCHMARKS.md */

/* ---- names ---- */

static spsh_status read_id(const spsh__dedupe *d, uint64_t ordinal, char *dst, size_t size_bytes)
{
    spsh_reader *reader = NULL;
    spsh_utterance utterance;
    size_t dataset = 0;
    uint64_t position = 0;
    spsh__print_set_place(d->set, ordinal, &dataset, &position);
    const spsh_dataset *from = spsh__print_set_dataset(d->set, dataset);
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

static void print_id(const spsh__dedupe *d, uint64_t ordinal)
{
    char name[1024];
    if (read_id(d, ordinal, name, sizeof(name)) != SPSH_OK)
        (void)snprintf(name, sizeof(name), "(cannot be read)");
    spsh__text_print(stdout, (spsh_bytes){(const uint8_t *)name, strlen(name)}, 0);
}

/* ---- the table ---- */

static void print_pairs(const spsh__dedupe *d)
{
    spsh_table *table = spsh__table_new("llr");
    bool any = false;
    for (int kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++) {
        for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
            char count[SPSH_HUMAN_BYTES];
            const uint64_t matches = d->facts.common.by_tier_class[tier][kind];
            if (matches == 0)
                continue;
            spsh__table_row(table, spsh_copy_class_text((spsh_copy_class)kind),
                            spsh_copy_tier_text((spsh_copy_tier)tier),
                            spsh__human_count(matches, count));
            any = true;
        }
    }
    if (any) {
        printf("\nwhat was found, and by what\n");
        (void)spsh__table_print(table, stdout, "  ", 0);
    }
    spsh__table_free(table);
}

static void print_sum(const char *name, const spsh__dedupe_sum *sum, double total_seconds)
{
    char utterances[SPSH_HUMAN_BYTES];
    char seconds[SPSH_HUMAN_BYTES];
    char bytes[SPSH_HUMAN_BYTES];
    char percent[SPSH_HUMAN_BYTES];
    printf("  %-10s %s utterances, %s (%s), %s\n", name,
           spsh__human_count(sum->utterances, utterances),
           spsh__human_duration(sum->seconds, seconds),
           spsh__human_percent(sum->seconds, total_seconds, percent),
           spsh__human_bytes(sum->bytes, bytes));
}

static spsh__dedupe_sum add_up(const spsh__dedupe *d, spsh_copy_tier first, spsh_copy_tier last)
{
    spsh__dedupe_sum sum = {0};
    for (int tier = (int)first; tier <= (int)last; tier++) {
        sum.utterances += d->by_tier[tier].utterances;
        sum.seconds += d->by_tier[tier].seconds;
        sum.bytes += d->by_tier[tier].bytes;
    }
    return sum;
}

static void print_decisions(const spsh__dedupe *d)
{
    const spsh__dedupe_sum exact = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_CHUNKS);
    const spsh__dedupe_sum sound = add_up(d, SPSH_TIER_ACOUSTIC, SPSH_TIER_ACOUSTIC);
    const spsh__dedupe_sum all = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_ACOUSTIC);
    const struct {
        spsh_copy_decision decision;
        const char *text;
    } others[] = {
        {SPSH_DECISION_TAG,       "copies in part, or of a kind that never goes" },
        {SPSH_DECISION_PROTECTED, "copies of splits that nothing is dropped from"},
        {SPSH_DECISION_UNPROVEN,  "linked, but not proven against the kept one"  },
    };
    char count[SPSH_HUMAN_BYTES];
    printf("\nwhat the plan drops, of %s cluster%s\n",
           spsh__human_count(d->clusters.cluster_count, count),
           d->clusters.cluster_count == 1 ? "" : "s");
    print_sum("exact", &exact, d->facts.total_seconds);
    print_sum("acoustic", &sound, d->facts.total_seconds);
    print_sum("together", &all, d->facts.total_seconds);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (d->decisions[others[i].decision] > 0)
            printf("  %s: %s stay\n", others[i].text,
                   spsh__human_count(d->decisions[others[i].decision], count));
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

static void print_largest(const spsh__dedupe *d)
{
    const uint64_t count = d->clusters.cluster_count;
    const spsh_copy_cluster **order =
        (const spsh_copy_cluster **)calloc((size_t)count + 1, sizeof(spsh_copy_cluster *));
    if (order == NULL || count == 0) {
        free((void *)order);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        order[i] = &d->clusters.clusters[i];
    qsort((void *)order, (size_t)count, sizeof(spsh_copy_cluster *), compare_clusters);
    printf("\nlargest clusters: the one that is kept, and why\n");
    for (uint64_t i = 0; i < count && i < CLUSTERS_SHOWN; i++) {
        const spsh__member *kept = &d->clusters.members[order[i]->first_member];
        char members[SPSH_HUMAN_BYTES];
        char seconds[SPSH_HUMAN_BYTES];
        printf("  %s members, %s saved: ", spsh__human_count(order[i]->member_count, members),
               spsh__human_duration(order[i]->saved_seconds, seconds));
        print_id(d, kept->ordinal);
        printf(" (%s)\n", kept->reason);
    }
    free((void *)order);
}

static uint64_t count_texts(const spsh__dedupe *d)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < d->clusters.cluster_count; i++)
        count += d->clusters.clusters[i].texts_differ;
    return count;
}

static void print_texts(const spsh__dedupe *d)
{
    char count[SPSH_HUMAN_BYTES];
    uint64_t shown = 0;
    if (count_texts(d) == 0)
        return;
    printf("\ntranscripts of copies that disagree, in %s clusters: one of them is wrong\n",
           spsh__human_count(count_texts(d), count));
    for (uint64_t i = 0; i < d->clusters.cluster_count && shown < TEXTS_SHOWN; i++) {
        if (!d->clusters.clusters[i].texts_differ)
            continue;
        printf("  ");
        print_id(d, d->clusters.members[d->clusters.clusters[i].first_member].ordinal);
        printf("\n");
        shown++;
    }
}

static void print_boilerplate(const spsh__dedupe *d)
{
    if (d->clusters.boilerplate_count == 0)
        return;
    printf("\nstretches that many share (jingles, disclaimers); no reason to drop anything\n");
    for (size_t i = 0; i < d->clusters.boilerplate_count && i < BOILERPLATE_SHOWN; i++) {
        const spsh__boilerplate *b = &d->clusters.boilerplate[i];
        char count[SPSH_HUMAN_BYTES];
        printf("  %s utterances share %.1f s: ", spsh__human_count(b->utterance_count, count),
               b->seconds);
        print_id(d, b->ordinal);
        printf(" from %.1f s on\n", b->start_s);
    }
}

void spsh__dedupe_print(const spsh__dedupe_options *options, const spsh__dedupe *d)
{
    char utterances[SPSH_HUMAN_BYTES];
    char seconds[SPSH_HUMAN_BYTES];
    char number[SPSH_HUMAN_BYTES];
    printf("%s utterances, %s, of %zu dataset%s\n",
           spsh__human_count(spsh__print_set_side_count(d->set, SPSH_SIDE_TRAIN), utterances),
           spsh__human_duration(d->facts.total_seconds, seconds),
           spsh__print_set_dataset_count(d->set),
           spsh__print_set_dataset_count(d->set) == 1 ? "" : "s");
    if (!options->exact_only) {
        printf("%s keys; %s pairs to listen to",
               spsh__human_count(d->copies.join.key_count, number),
               spsh__human_count(d->copies.join.candidate_count, utterances));
        printf(", %s decoded\n", spsh__human_count(d->copies.judge.decoded_count, number));
    }
    if (d->copies.undecoded_count > 0)
        printf("%s utterances cannot be decoded: unknown, but for equal bytes\n",
               spsh__human_count(d->copies.undecoded_count, number));
    print_pairs(d);
    print_decisions(d);
    print_largest(d);
    print_texts(d);
    print_boilerplate(d);
    if (options->plan_path == NULL)
        printf("\nNothing is changed. For a plan: -o PLAN.jsonl\n");
    else if (d->facts.dropped_count == 0)
        printf("\nNothing to drop; the plan is %s\n", options->plan_path);
    else
        printf("\nNothing is changed yet: `speechshard apply %s` leaves the copies out\n",
               options->plan_path);
}

/* ---- JSON ---- */

static void put_sum(spsh_json *json, const char *key, const spsh__dedupe_sum *sum)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_u64(json, "utterances", sum->utterances);
    spsh__json_put_real(json, "seconds", sum->seconds);
    spsh__json_put_u64(json, "bytes", sum->bytes);
    spsh__json_end(json);
}

static void put_matches(spsh_json *json, const spsh__dedupe *d)
{
    spsh__json_begin_array(json, "matches");
    for (int kind = 0; kind < SPSH_COPY_CLASS_COUNT; kind++) {
        for (int tier = 0; tier < SPSH_TIER_COUNT; tier++) {
            if (d->facts.common.by_tier_class[tier][kind] == 0)
                continue;
            spsh__json_begin_object(json, NULL);
            spsh__json_put_string(json, "class", spsh_copy_class_text((spsh_copy_class)kind));
            spsh__json_put_string(json, "tier", spsh_copy_tier_text((spsh_copy_tier)tier));
            spsh__json_put_u64(json, "count", d->facts.common.by_tier_class[tier][kind]);
            spsh__json_end(json);
        }
    }
    spsh__json_end(json);
}

spsh_status spsh__dedupe_print_json(const spsh__dedupe_options *options, const spsh__dedupe *d,
                                    spsh_error *err)
{
    const spsh__dedupe_sum exact = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_CHUNKS);
    const spsh__dedupe_sum sound = add_up(d, SPSH_TIER_ACOUSTIC, SPSH_TIER_ACOUSTIC);
    const spsh__dedupe_sum all = add_up(d, SPSH_TIER_BYTES, SPSH_TIER_ACOUSTIC);
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__json_put_string(json, "plan", options->plan_path);
    if (options->plan_path != NULL)
        spsh__json_put_hex(json, "plan_hash", d->plan_hash, 16);
    spsh__json_put_u64(json, "datasets", spsh__print_set_dataset_count(d->set));
    spsh__json_put_u64(json, "utterances", spsh__print_set_side_count(d->set, SPSH_SIDE_TRAIN));
    spsh__json_put_real(json, "seconds", d->facts.total_seconds);
    spsh__json_put_u64(json, "undecodable", d->copies.undecoded_count);
    spsh__json_put_u64(json, "keys", d->copies.join.key_count);
    spsh__json_put_u64(json, "candidates", d->copies.join.candidate_count);
    spsh__json_put_u64(json, "decoded", d->copies.judge.decoded_count);
    put_matches(json, d);
    spsh__json_put_u64(json, "clusters", d->clusters.cluster_count);
    spsh__json_begin_object(json, "members");
    for (int i = 0; i <= SPSH_DECISION_UNPROVEN; i++)
        spsh__json_put_u64(json, spsh_copy_decision_text((spsh_copy_decision)i), d->decisions[i]);
    spsh__json_end(json);
    spsh__json_begin_object(json, "drop");
    put_sum(json, "exact", &exact);
    put_sum(json, "acoustic", &sound);
    put_sum(json, "together", &all);
    spsh__json_end(json);
    spsh__json_put_u64(json, "clusters_with_different_texts", count_texts(d));
    spsh__json_put_u64(json, "boilerplate", d->clusters.boilerplate_count);
    spsh_status rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

/* ---- what it would take ---- */

static void print_estimate(const spsh__dedupe_options *options, const spsh__source_estimate *all,
                           uint64_t keys, double join_s)
{
    char text[SPSH_HUMAN_BYTES];
    char bytes[SPSH_HUMAN_BYTES];
    spsh__estimate_print_line("audio", "%s", spsh__human_duration(all->train_s, text));
    spsh__estimate_print_prints(all);
    if (options->exact_only)
        return;
    printf("%-20s%s, %s\n", "keys", spsh__human_count(keys, text),
           spsh__human_bytes(keys * KEY_BYTES, bytes));
    printf("%-20sabout %s on %u threads\n", "join", spsh__human_duration(join_s, text),
           options->threads);
    spsh__estimate_print_line("listening", "some ms of one core a pair of copies");
}

int spsh__dedupe_estimate(const spsh__dedupe_options *options, bool json)
{
    spsh__source_estimate all = {0};
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__source_prints_estimate(options->sources->items, options->sources->count, options->io,
                                     &all, &err) != SPSH_OK)
        return spsh__source_fail(NULL, options->sources->items, options->sources->count, &err);
    const uint64_t keys = (uint64_t)(all.train_s * SPSH__KEYS_HZ);
    const double join_s =
        options->exact_only ? 0 : (double)keys / JOIN_KEYS_PER_S / options->threads;
    const spsh__disk_room room = {options->work_path, spsh__dedupe_space(options, keys),
                                  options->memory_bytes, "about 1 kB a copy"};
    if (!json) {
        print_estimate(options, &all, keys, join_s);
        spsh__estimate_print_room(&room);
        return SPSH_EXIT_DONE;
    }
    spsh_json *line = spsh__json_new();
    if (line == NULL)
        return spsh__cli_fail_memory();
    spsh__json_put_real(line, "audio_hours", all.train_s / 3600);
    spsh__estimate_put_prints(line, &all);
    spsh__json_put_u64(line, "keys", keys);
    spsh__json_put_u64(line, "key_bytes", keys * KEY_BYTES);
    spsh__json_put_real(line, "join_hours", join_s / 3600);
    spsh__estimate_put_room(line, &room);
    const spsh_status rc = spsh__json_write_line(line, stdout, &err);
    spsh__json_free(line);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}
