/* audit_out.c: tables and messages of an audit. */
#include "audit_out.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/source_fail.h"
#include "estimate_out.h"

enum { CELL_BYTES = 64, LINE_BYTES = 160 };

/* ---- tables ---- */

static void print_split_head(const spsh_audit_split *s, bool is_first)
{
    char count[SPSH_HUMAN_BYTES], duration[SPSH_HUMAN_BYTES];
    if (!is_first)
        putchar('\n');
    spsh__text_print(stdout, (spsh_bytes){(const uint8_t *)s->name, strlen(s->name)}, 0);
    printf("  %s utterances, %s\n", spsh__human_count(s->utterance_count, count),
           spsh__human_duration(s->seconds, duration));
}

static int print_split(const spsh_audit *audit, size_t split)
{
    const spsh_audit_split *s = spsh_audit_split_get(audit, split);
    spsh_table *table = spsh__table_new("lrrrrr");
    if (table == NULL)
        return spsh__cli_fail_memory();
    spsh__table_row(table, "kind", "utterances", "share", "95 % interval", "minutes", "limit");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        const spsh_audit_leak *leak = spsh_audit_leak_get(audit, split, (spsh_leak)k);
        char count[SPSH_HUMAN_BYTES], share[CELL_BYTES], interval[CELL_BYTES];
        char minutes[CELL_BYTES], limit[CELL_BYTES] = "";
        snprintf(share, sizeof(share), "%.2f %%",
                 100 * (double)leak->utterance_count / (double)s->utterance_count);
        snprintf(interval, sizeof(interval), "%.2f to %.2f %%", 100 * leak->share_low,
                 100 * leak->share_high);
        snprintf(minutes, sizeof(minutes), "%.1f", leak->seconds / 60);
        if (leak->limit <= 1)
            snprintf(limit, sizeof(limit), "%g %%", 100 * leak->limit);
        spsh__table_row(table, spsh_leak_text((spsh_leak)k),
                        spsh__human_count(leak->utterance_count, count), share, interval, minutes,
                        limit);
    }
    print_split_head(s, split == 0);
    const bool printed = spsh__table_print(table, stdout, "  ", 0);
    spsh__table_free(table);
    return printed ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

/* ---- examples ---- */

static void describe(const spsh_copy_match *match, char dst[LINE_BYTES])
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
    if (match->tier < SPSH_TIER_ACOUSTIC)
        snprintf(dst + used, LINE_BYTES - (size_t)used, ", %.2f s", match->a_seconds);
    else
        snprintf(dst + used, LINE_BYTES - (size_t)used, ", %.2f s, ncc %.3f, ber %.3f",
                 match->a_seconds, match->ncc, match->ber);
}

static void print_example(const spsh_audit_example *e, spsh_leak leak)
{
    const spsh_bytes corpus = {(const uint8_t *)e->train_corpus, strlen(e->train_corpus)};
    char how[LINE_BYTES];
    printf("  %-13s  ", spsh_leak_text(leak));
    spsh__text_print(stdout, e->test_id, 0);
    printf("  with ");
    spsh__text_print(stdout, corpus, 0);
    printf(": ");
    spsh__text_print(stdout, e->train_id, 0);
    describe(e->match, how);
    printf("  (%s)\n", how);
}

static void print_examples(const spsh_audit *audit, size_t split)
{
    const spsh_audit_split *s = spsh_audit_split_get(audit, split);
    char clean_count[SPSH_HUMAN_BYTES], dirty_count[SPSH_HUMAN_BYTES];
    bool is_first = true;
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        const spsh_audit_leak *leak = spsh_audit_leak_get(audit, split, (spsh_leak)k);
        if (leak->example == NULL)
            continue;
        if (is_first)
            printf("  strongest of each kind:\n");
        is_first = false;
        print_example(leak->example, (spsh_leak)k);
    }
    printf("  clean %s, dirty %s (recording, segment, performance or sentence)\n",
           spsh__human_count(s->utterance_count - s->dirty_count, clean_count),
           spsh__human_count(s->dirty_count, dirty_count));
}

int spsh__audit_print(const spsh_audit *audit)
{
    int rc = SPSH_EXIT_DONE;
    for (size_t i = 0; i < spsh_audit_split_count(audit) && rc == SPSH_EXIT_DONE; i++) {
        rc = print_split(audit, i);
        if (rc == SPSH_EXIT_DONE)
            print_examples(audit, i);
    }
    return rc;
}

/* ---- messages ---- */

static void tell_failure(const spsh_audit_split *s, const spsh_audit_leak *leak, spsh_leak kind)
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
    char part[SPSH_HUMAN_BYTES], whole[SPSH_HUMAN_BYTES];
    const double percent = 100 * (double)leak->utterance_count / (double)s->utterance_count;
    const double limit_percent = 100 * leak->limit;
    spsh__cli_error("leak: %s: %s of %s utterances (%.2f %%) share a %s with train; the "
                    "limit of %g %% is passed by %.2f %%",
                    s->name, spsh__human_count(leak->utterance_count, part),
                    spsh__human_count(s->utterance_count, whole), percent, shared[kind],
                    limit_percent, percent - limit_percent);
}

int spsh__audit_tell(const spsh_audit *audit)
{
    int rc = SPSH_EXIT_DONE;
    for (size_t i = 0; i < spsh_audit_warning_count(audit); i++)
        spsh__cli_message("note: %s", spsh_audit_warning(audit, i));
    for (size_t i = 0; i < spsh_audit_split_count(audit); i++) {
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
            const spsh_audit_leak *leak = spsh_audit_leak_get(audit, i, (spsh_leak)k);
            if (!leak->is_failure)
                continue;
            tell_failure(spsh_audit_split_get(audit, i), leak, (spsh_leak)k);
            rc = SPSH_EXIT_FAILED;
        }
    }
    return rc;
}

/* ---- what it would take ---- */

int spsh__audit_print_estimate(const spsh_dedup_sources *sources, const spsh_audit_options *options,
                               bool json)
{
    spsh_dedup_cost cost = SPSH_DEDUP_COST_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    char text[SPSH_HUMAN_BYTES];
    if (spsh_audit_estimate(sources, options, &cost, &err) != SPSH_OK)
        return spsh__source_fail(NULL, sources, &err);
    const spsh__disk_room room = {options->work_path, cost.temporary_bytes, options->memory_bytes,
                                  "200 bytes a match"};
    if (!json) {
        spsh__estimate_print_line("train", "%s", spsh__human_duration(cost.train_seconds, text));
        spsh__estimate_print_line("test", "%s", spsh__human_duration(cost.test_seconds, text));
        spsh__estimate_print_prints(&cost);
        spsh__estimate_print_room(&room);
        return SPSH_EXIT_DONE;
    }
    spsh_json *line = spsh__json_new();
    if (line == NULL)
        return spsh__cli_fail_memory();
    spsh__json_put_real(line, "train_hours", cost.train_seconds / 3600);
    spsh__json_put_real(line, "test_hours", cost.test_seconds / 3600);
    spsh__estimate_put_prints(line, &cost);
    spsh__estimate_put_room(line, &room);
    const spsh_status rc = spsh__json_write_line(line, stdout, &err);
    spsh__json_free(line);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}
