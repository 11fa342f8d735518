/* audit_out.c: tables and messages of an audit. */
#include "audit_out.h"

#include <stdio.h>

#include "cli/cli.h"
#include "cli/source_fail.h"
#include "common/file_names.h"
#include "estimate_out.h"

/* ---- tables ---- */

static void print_split_head(const spsh_audit_split *s, bool is_first)
{
    if (!is_first)
        putchar('\n');
    spsh__text_print(stdout, spsh__bytes_of(s->name), 0);
    printf("  %s utterances, %s\n", SPSH_SHOW_COUNT(s->utterance_count),
           SPSH_SHOW_DURATION(s->seconds));
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
        const double share = (double)leak->utterance_count / (double)s->utterance_count;
        spsh__table_row(table, spsh_leak_text((spsh_leak)k), SPSH_SHOW_COUNT(leak->utterance_count),
                        SPSH_SHOW("%.2f %%", 100 * share),
                        SPSH_SHOW("%.2f to %.2f %%", 100 * leak->share_low, 100 * leak->share_high),
                        SPSH_SHOW("%.1f", leak->seconds / 60),
                        leak->limit <= 1 ? SPSH_SHOW("%g %%", 100 * leak->limit) : "");
    }
    print_split_head(s, split == 0);
    const bool printed = spsh__table_print(table, stdout, "  ", 0);
    spsh__table_free(table);
    return printed ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

/* ---- examples ---- */

static void print_match(const spsh_copy_match *match)
{
    printf("  (%s", spsh_copy_tier_text(match->tier));
    if (match->tier == SPSH_TIER_TEXT_NEAR)
        printf(", %.0f %% alike", 100 * match->similarity);
    if (match->tier <= SPSH_TIER_SCALED)
        printf(", %s", spsh_copy_class_text(match->kind));
    if (match->tier <= SPSH_TIER_SCALED && match->rate_hz != 0)
        printf(", %.2f s", match->a_seconds);
    if (match->tier == SPSH_TIER_ACOUSTIC || match->tier == SPSH_TIER_SCALED)
        printf(", ncc %.3f, ber %.3f", match->ncc, match->ber);
    printf(")\n");
}

static void print_example(const spsh_audit_example *e, spsh_leak leak)
{
    printf("  %-13s  ", spsh_leak_text(leak));
    spsh__text_print(stdout, e->test_id, 0);
    printf("  with ");
    spsh__text_print(stdout, spsh__bytes_of(e->train_corpus), 0);
    printf(": ");
    spsh__text_print(stdout, e->train_id, 0);
    print_match(e->match);
}

static void print_examples(const spsh_audit *audit, size_t split)
{
    const spsh_audit_split *s = spsh_audit_split_get(audit, split);
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
           SPSH_SHOW_COUNT(s->utterance_count - s->dirty_count), SPSH_SHOW_COUNT(s->dirty_count));
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

static void print_failure(const spsh_audit_split *s, const spsh_audit_leak *leak, spsh_leak kind)
{
    static const char *const shared[SPSH_LEAK_COUNT] = {
        [SPSH_LEAK_RECORDING] = "recording",
        [SPSH_LEAK_SEGMENT] = "segment of a second or more",
        [SPSH_LEAK_PERFORMANCE] = "performance",
        [SPSH_LEAK_SENTENCE] = "sentence",
        [SPSH_LEAK_SENTENCE_NEAR] = "similar sentence",
        [SPSH_LEAK_DOCUMENT] = "document",
        [SPSH_LEAK_SOURCE] = "source",
        [SPSH_LEAK_SPEAKER] = "speaker",
    };
    const double percent = 100 * (double)leak->utterance_count / (double)s->utterance_count;
    const double limit_percent = 100 * leak->limit;
    spsh__cli_error("leak: %s: %s of %s utterances (%.2f %%) share a %s with train; this exceeds "
                    "the limit of %g %% by %.2f %%",
                    s->name, SPSH_SHOW_COUNT(leak->utterance_count),
                    SPSH_SHOW_COUNT(s->utterance_count), percent, shared[kind], limit_percent,
                    percent - limit_percent);
}

int spsh__audit_display(const spsh_audit *audit)
{
    int rc = SPSH_EXIT_DONE;
    for (size_t i = 0; i < spsh_audit_warning_count(audit); i++)
        spsh__cli_message("note: %s", spsh_audit_warning(audit, i));
    for (size_t i = 0; i < spsh_audit_split_count(audit); i++) {
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
            const spsh_audit_leak *leak = spsh_audit_leak_get(audit, i, (spsh_leak)k);
            if (!leak->is_failure)
                continue;
            print_failure(spsh_audit_split_get(audit, i), leak, (spsh_leak)k);
            rc = SPSH_EXIT_FAILED;
        }
    }
    return rc;
}

/* ---- estimates ---- */

int spsh__audit_print_estimate(const spsh_dedup_sources *sources, const spsh_audit_options *options,
                               bool json)
{
    spsh_dedup_cost cost = SPSH_DEDUP_COST_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_audit_estimate(sources, options, &cost, &err) != SPSH_OK)
        return spsh__source_fail(NULL, sources, &err);
    const spsh__disk_space space = {options->work_path, cost.temporary_bytes, options->memory_bytes,
                                    "200 bytes per match"};
    if (!json) {
        spsh__estimate_print_line("train", "%s", SPSH_SHOW_DURATION(cost.train_seconds));
        spsh__estimate_print_line("test", "%s", SPSH_SHOW_DURATION(cost.test_seconds));
        spsh__estimate_print_prints(&cost);
        spsh__estimate_print_space(&space);
        return SPSH_EXIT_DONE;
    }
    spsh_json *line = spsh__json_new();
    spsh__json_put_real(line, "train_hours", cost.train_seconds / 3600);
    spsh__json_put_real(line, "test_hours", cost.test_seconds / 3600);
    spsh__estimate_put_prints(line, &cost);
    spsh__estimate_put_space(line, &space);
    return spsh__cli_json(line);
}
