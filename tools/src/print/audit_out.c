/* audit_out.c: tables and messages of an audit. */
#include "audit_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/source_fail.h"
#include "estimate_out.h"

#define FRAMES_HZ 62.5

enum { CELL_BYTES = 64, LINE_BYTES = 160 };

/* ---- tables ---- */

static void print_split_head(const spsh__audit_run *run, size_t split)
{
    const spsh__leak_split *facts = &run->facts.test[split];
    char count[SPSH_HUMAN_BYTES], duration[SPSH_HUMAN_BYTES];
    if (split > 0)
        putchar('\n');
    spsh__text_print(stdout, (spsh_bytes){(const uint8_t *)facts->name, strlen(facts->name)}, 0);
    printf("  %s utterances, %s\n", spsh__human_count(facts->utterances, count),
           spsh__human_duration(facts->seconds, duration));
}

static int print_split(const spsh__audit_run *run, size_t split)
{
    const spsh__leak_cell *cell = &run->facts.totals[split];
    const uint64_t whole = run->facts.test[split].utterances;
    spsh_table *table = spsh__table_new("lrrrrr");
    if (table == NULL)
        return spsh__cli_fail_memory();
    spsh__table_row(table, "kind", "utterances", "share", "95 % interval", "minutes", "limit");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        char count[SPSH_HUMAN_BYTES], share[CELL_BYTES], interval[CELL_BYTES];
        char minutes[CELL_BYTES], limit[CELL_BYTES] = "";
        double low = 0;
        double high = 0;
        spsh__leak_interval(cell->utterances[k], whole, &low, &high);
        snprintf(share, sizeof(share), "%.2f %%",
                 100 * (double)cell->utterances[k] / (double)whole);
        snprintf(interval, sizeof(interval), "%.2f to %.2f %%", 100 * low, 100 * high);
        snprintf(minutes, sizeof(minutes), "%.1f", cell->seconds[k] / 60);
        if (run->facts.fail_limits[k] <= 1)
            snprintf(limit, sizeof(limit), "%g %%", 100 * run->facts.fail_limits[k]);
        spsh__table_row(table, spsh_leak_text((spsh_leak)k),
                        spsh__human_count(cell->utterances[k], count), share, interval, minutes,
                        limit);
    }
    print_split_head(run, split);
    const bool printed = spsh__table_print(table, stdout, "  ", 0);
    spsh__table_free(table);
    return printed ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

/* ---- examples ---- */

/* The test utterance of a split with the strongest evidence of a kind; SPSH_NONE_U64: none. */
static uint64_t find_example(const spsh__audit_run *run, size_t split, unsigned leak)
{
    const spsh__audit_roster *roster = &run->sides->roster;
    const spsh__leaks *leaks = &run->leaks;
    uint64_t best = SPSH_NONE_U64;
    for (uint64_t i = 0; i < roster->test_utterance_count; i++) {
        const uint64_t match = leaks->evidence[i * SPSH_LEAK_COUNT + leak].match;
        if (roster->test_splits[i] != split || match == SPSH_NONE_U64)
            continue;
        if (best == SPSH_NONE_U64 ||
            spsh__leak_compare(
                &leaks->matches[match],
                &leaks->matches[leaks->evidence[best * SPSH_LEAK_COUNT + leak].match]) < 0)
            best = i;
    }
    return best;
}

static void describe(const spsh__match *match, char dst[LINE_BYTES])
{
    if (match->tier > SPSH_TIER_SCALED) {
        if (match->tier == SPSH_TIER_TEXT_NEAR)
            snprintf(dst, LINE_BYTES, "%s, %.0f %% alike", spsh_copy_tier_text(match->tier),
                     100 * match->similarity);
        else
            snprintf(dst, LINE_BYTES, "%s", spsh_copy_tier_text(match->tier));
        return;
    }
    const int used = snprintf(dst, LINE_BYTES, "%s, %s", spsh_copy_tier_text(match->tier),
                              spsh_copy_class_text(match->kind));
    if (used < 0 || match->rate_hz == 0)
        return;
    const double seconds = (double)match->count / match->rate_hz;
    if (match->tier < SPSH_TIER_ACOUSTIC)
        snprintf(dst + used, LINE_BYTES - (size_t)used, ", %.2f s", seconds);
    else
        snprintf(dst + used, LINE_BYTES - (size_t)used, ", %.2f s, ncc %.3f, ber %.3f", seconds,
                 match->ncc, match->ber);
}

static spsh_status print_example(const spsh__audit_run *run, const spsh__audit_names *names,
                                 uint64_t number, unsigned leak, spsh_error *err)
{
    const spsh__leak_evidence *evidence = &run->leaks.evidence[number * SPSH_LEAK_COUNT + leak];
    const spsh__match match =
        spsh__audit_train_first(&run->sides->roster, &run->leaks.matches[evidence->match]);
    char how[LINE_BYTES];
    size_t dataset = 0;
    uint64_t position = 0;
    spsh_bytes corpus;
    spsh_utterance utterance;
    spsh_status rc =
        spsh__audit_names_get(names, run->sides->roster.test_ordinals[number], &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    printf("  %-13s  ", spsh_leak_text((spsh_leak)leak));
    spsh__text_print(stdout, utterance.id, 0);
    rc = spsh__audit_names_get(names, match.a, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__print_set_place(run->set, match.a, &dataset, &position);
    corpus.data = (const uint8_t *)run->sides->corpora[dataset];
    corpus.size_bytes = strlen(run->sides->corpora[dataset]);
    printf("  with ");
    spsh__text_print(stdout, corpus, 0);
    printf(": ");
    spsh__text_print(stdout, utterance.id, 0);
    describe(&match, how);
    printf("  (%s)\n", how);
    return SPSH_OK;
}

static int print_examples(const spsh__audit_run *run, const spsh__audit_names *names, size_t split)
{
    spsh_error err = SPSH_ERROR_INIT;
    bool is_first = true;
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        const uint64_t number = find_example(run, split, k);
        if (number == SPSH_NONE_U64)
            continue;
        if (is_first)
            printf("  strongest of each kind:\n");
        is_first = false;
        if (print_example(run, names, number, k, &err) != SPSH_OK)
            return spsh__cli_fail(NULL, &err);
    }
    const uint64_t dirty = spsh__audit_dirty_count(&run->report, split);
    char clean_count[SPSH_HUMAN_BYTES], dirty_count[SPSH_HUMAN_BYTES];
    printf("  clean %s, dirty %s (recording, segment, performance or sentence)\n",
           spsh__human_count(run->facts.test[split].utterances - dirty, clean_count),
           spsh__human_count(dirty, dirty_count));
    return SPSH_EXIT_DONE;
}

int spsh__audit_print(const spsh__audit_run *run)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__audit_names names = {0};
    int rc = SPSH_EXIT_DONE;
    if (spsh__audit_names_open(run->sides, &names, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    for (size_t i = 0; i < run->facts.test_count && rc == SPSH_EXIT_DONE; i++) {
        rc = print_split(run, i);
        if (rc == SPSH_EXIT_DONE)
            rc = print_examples(run, &names, i);
    }
    spsh__audit_names_close(&names);
    return rc;
}

/* ---- messages ---- */

void spsh__audit_tell(const spsh__audit_run *run)
{
    static const char *const shared[SPSH_LEAK_COUNT] = {
        [SPSH_LEAK_RECORDING] = "recording",
        [SPSH_LEAK_SEGMENT] = "stretch of a second and more",
        [SPSH_LEAK_PERFORMANCE] = "performance",
        [SPSH_LEAK_SENTENCE] = "sentence",
        [SPSH_LEAK_SENTENCE_NEAR] = "sentence, nearly,",
        [SPSH_LEAK_DOCUMENT] = "document",
        [SPSH_LEAK_SOURCE] = "source",
        [SPSH_LEAK_SPEAKER] = "speaker",
    };
    char warnings[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES];
    const size_t warning_count = spsh__audit_warnings(&run->report, warnings);
    const size_t failure_count = spsh__audit_failures(&run->facts, NULL);
    spsh__audit_failure *failures = calloc(failure_count + 1, sizeof(*failures));
    for (size_t i = 0; i < warning_count; i++)
        spsh__cli_message("note: %s", warnings[i]);
    if (failures == NULL) {
        (void)spsh__cli_fail_memory();
        return;
    }
    spsh__audit_failures(&run->facts, failures);
    for (size_t i = 0; i < failure_count; i++) {
        const spsh__audit_failure *f = &failures[i];
        char part[SPSH_HUMAN_BYTES], whole[SPSH_HUMAN_BYTES];
        spsh__cli_error("leak: %s: %s of %s utterances (%.2f %%) share a %s with train; the "
                        "limit of %g %% is passed by %.2f %%",
                        run->facts.test[f->split].name, spsh__human_count(f->utterances, part),
                        spsh__human_count(run->facts.test[f->split].utterances, whole), f->percent,
                        shared[f->leak], f->limit_percent, f->percent - f->limit_percent);
    }
    free(failures);
}

/* ---- what it would take ---- */

int spsh__audit_estimate(const spsh__audit_options *options, bool json)
{
    spsh__source_estimate all = {0};
    spsh_error err = SPSH_ERROR_INIT;
    char text[SPSH_HUMAN_BYTES];
    if (spsh__source_prints_estimate(options->sources->items, options->sources->count, options->io,
                                     &all, &err) != SPSH_OK)
        return spsh__source_fail(NULL, options->sources->items, options->sources->count, &err);
    const spsh__disk_room room = {options->work_path,
                                  spsh__audit_space(options,
                                                    (uint64_t)(all.train_s * SPSH__KEYS_HZ),
                                                    (uint64_t)(all.test_s * FRAMES_HZ)),
                                  options->memory_bytes, "200 bytes a match"};
    if (!json) {
        spsh__estimate_print_line("train", "%s", spsh__human_duration(all.train_s, text));
        spsh__estimate_print_line("test", "%s", spsh__human_duration(all.test_s, text));
        spsh__estimate_print_prints(&all);
        spsh__estimate_print_room(&room);
        return SPSH_EXIT_DONE;
    }
    spsh_json *line = spsh__json_new();
    if (line == NULL)
        return spsh__cli_fail_memory();
    spsh__json_put_real(line, "train_hours", all.train_s / 3600);
    spsh__json_put_real(line, "test_hours", all.test_s / 3600);
    spsh__estimate_put_prints(line, &all);
    spsh__estimate_put_room(line, &room);
    const spsh_status rc = spsh__json_write_line(line, stdout, &err);
    spsh__json_free(line);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}
