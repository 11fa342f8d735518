/* plan_out.c: one plan as lines and a table of domains, several as a table, or as JSON. */
#include "plan_out.h"

#include <stdlib.h>
#include <string.h>

static double seconds_of(uint64_t microseconds)
{
    return (double)microseconds / 1e6;
}

static double padding(const spsh_epoch_report *report)
{
    if (report->padded_microseconds == 0)
        return 0;
    return 1 - (double)report->microseconds / (double)report->padded_microseconds;
}

static double mean_utterances(const spsh_epoch_report *report)
{
    return report->batch_count == 0 ? 0 : (double)report->item_count / (double)report->batch_count;
}

/* Return the count of served units (the plan's unit) in the windows that were read. */
static uint64_t units_served(const spsh__plan_summary *s)
{
    uint64_t units = 0;
    for (uint32_t i = 0; i < spsh_plan_info_get(s->plan)->domain_count; i++)
        units += s->domains[i].units;
    return units;
}

/* Number of utterances of the datasets, before skips and filters. */
static uint64_t all_utterances(const spsh__plan_summary *s)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->datasets->count; i++)
        count += spsh_dataset_info_get(s->datasets->items[i])->utterance_count;
    return count;
}

/* ---- one plan ---- */

typedef struct reason {
    const char *why, *key;
    uint64_t count;
} reason;

enum { REASONS = 6 };

static void list_reasons(const spsh_plan_info *info, reason ret_reasons[REASONS])
{
    const reason reasons[REASONS] = {
        {"skipped by an overlay", "skipped", info->skipped_count},
        {"excluded by split, domain, or language", "filtered", info->filtered_count},
        {"too short or too long", "duration", info->duration_count},
        {"copies", "duplicates", info->duplicate_count},
        {"over the limit of a speaker", "speaker", info->speaker_count},
        {"longer than a batch", "too_long", info->too_long_count},
    };
    memcpy(ret_reasons, reasons, sizeof(reasons));
}

static void row_count(spsh_table *table, const char *name, uint64_t count, const char *note)
{
    spsh__table_row(table, name, SPSH_SHOW_COUNT(count), note);
}

static void add_utterances(spsh_table *table, const spsh__plan_summary *s)
{
    const spsh_plan_info *info = spsh_plan_info_get(s->plan);
    reason reasons[REASONS];
    row_count(table, "in the datasets", all_utterances(s),
              SPSH_SHOW("%s served, %s skipped by overlays",
                        SPSH_SHOW_COUNT(all_utterances(s) - info->skipped_count),
                        SPSH_SHOW_COUNT(info->skipped_count)));
    row_count(table, "utterances", info->utterance_count,
              SPSH_SHOW("%s; the longest %s", SPSH_SHOW_DURATION(seconds_of(info->microseconds)),
                        SPSH_SHOW_DURATION(seconds_of(info->longest_microseconds))));
    list_reasons(info, reasons);
    for (size_t i = 0; i < REASONS; i++) {
        if (reasons[i].count != 0)
            row_count(table, "not served", reasons[i].count, reasons[i].why);
    }
}

static void add_batches(spsh_table *table, const spsh__plan_summary *s)
{
    row_count(table, "batches", s->batch_count,
              SPSH_SHOW("%.1f utterances each, at most %s", mean_utterances(&s->report),
                        SPSH_SHOW_COUNT(s->report.batch_items_max)));
    const char *rest =
        s->dropped_batches != 0 ? SPSH_SHOW("; %s are dropped", SPSH_SHOW_COUNT(s->dropped_batches))
        : s->missing_batches != 0
            ? SPSH_SHOW("; the last one lacks %s", SPSH_SHOW_COUNT(s->missing_batches))
            : "";
    row_count(table, "steps", s->step_count,
              SPSH_SHOW("of %s %s%s", SPSH_SHOW_COUNT(s->step_batches),
                        s->step_batches == 1 ? "batch" : "batches", rest));
    spsh__table_row(table, "padding", SPSH_SHOW_PERCENT(padding(&s->report), 1),
                    "share of a padded batch");
    spsh__table_row(table, "largest batch", SPSH_SHOW_BYTES(s->int16_bytes),
                    SPSH_SHOW("int16; %s as padded float32", SPSH_SHOW_BYTES(s->float32_bytes)));
    spsh__table_row(table, "shuffle quality", SPSH_SHOW("%.3f", s->report.shuffle_quality),
                    "1: utterances stored together share a batch only by chance");
    spsh__table_row(table, "read amplification", SPSH_SHOW("%.3f", s->report.read_amplification),
                    "bytes read per byte needed");
    spsh__table_row(table, "took",
                    s->seconds < 1 ? SPSH_SHOW("%.1f ms", s->seconds * 1e3)
                                   : SPSH_SHOW_DURATION(s->seconds),
                    "");
}

/* Return the domain's name, from malloc: "train", or "corpus.spsh: train" for several datasets. */
static char *domain_text(const spsh__plan_summary *s, const spsh_plan_domain *domain)
{
    const char *path = spsh_dataset_path(s->datasets->items[domain->dataset]);
    const bool several = s->datasets->count > 1;
    const spsh_bytes none = {(const uint8_t *)"(none)", 6};
    const spsh_bytes name = domain->name.size_bytes == 0 ? none : domain->name;
    size_t size_bytes = strlen(path) + name.size_bytes + 3;
    char *text = (char *)malloc(size_bytes);
    if (text != NULL)
        snprintf(text, size_bytes, "%s%s%.*s", several ? path : "", several ? ": " : "",
                 (int)name.size_bytes, (const char *)name.data);
    return text;
}

static bool add_domain(spsh_table *table, const spsh__plan_summary *s, uint32_t number)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
    if (spsh_plan_domain_get(s->plan, number, &domain, &err) != SPSH_OK)
        return false;
    char *text = domain_text(s, &domain);
    if (text == NULL)
        return false;
    spsh__table_row(table, text, SPSH_SHOW_COUNT(domain.utterance_count),
                    SPSH_SHOW_DURATION(seconds_of(domain.microseconds)),
                    SPSH_SHOW_PERCENT(domain.share, 1),
                    SPSH_SHOW_PERCENT((double)s->domains[number].units, (double)units_served(s)),
                    SPSH_SHOW("%.2f", domain.passes));
    free(text);
    return true;
}

static void print_estimated(const spsh__plan_summary *s)
{
    if (s->estimated)
        printf("estimated from the first %s of %s windows; --whole plans all of them\n",
               SPSH_SHOW_COUNT(s->report.window_count), SPSH_SHOW_COUNT(s->report.windows_total));
}

int spsh__plan_print(const spsh__plan_summary *s)
{
    spsh_table *table = spsh__table_new("lrl");
    add_utterances(table, s);
    add_batches(table, s);
    if (!spsh__table_finish(table))
        return spsh__cli_fail_memory();
    print_estimated(s);
    putchar('\n');
    table = spsh__table_new("lrrrrr");
    bool good = true;
    spsh__table_row(table, "domain", "utterances", "duration", "share", "actual", "passes");
    for (uint32_t i = 0; good && i < spsh_plan_info_get(s->plan)->domain_count; i++)
        good = add_domain(table, s, i);
    if (!good) {
        spsh__table_free(table);
        table = NULL;
    }
    return spsh__table_finish(table) ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

/* ---- several ---- */

static void add_compared(spsh_table *table, const spsh__plan_summary *s)
{
    const bool is_float = s->words->output == SPSH_OUTPUT_FLOAT32;
    spsh__table_row(table, s->label[0] == '\0' ? "(baseline)" : s->label,
                    SPSH_SHOW_COUNT(spsh_plan_info_get(s->plan)->utterance_count),
                    SPSH_SHOW_COUNT(s->batch_count), SPSH_SHOW_COUNT(s->step_count),
                    SPSH_SHOW("%.1f", mean_utterances(&s->report)),
                    SPSH_SHOW_PERCENT(padding(&s->report), 1),
                    SPSH_SHOW_BYTES(is_float ? s->float32_bytes : s->int16_bytes),
                    SPSH_SHOW("%.3f", s->report.shuffle_quality),
                    SPSH_SHOW("%.3f", s->report.read_amplification));
}

int spsh__plan_print_compared(const spsh__plan_summary *summaries, size_t count)
{
    spsh_table *table = spsh__table_new("lrrrrrrrr");
    size_t estimated = 0;
    spsh__table_row(table, "options", "utterances", "batches", "steps", "a batch", "padding",
                    "largest", "shuffle", "read");
    for (size_t i = 0; i < count; i++)
        add_compared(table, &summaries[i]);
    if (!spsh__table_finish(table))
        return spsh__cli_fail_memory();
    while (estimated < count && !summaries[estimated].estimated)
        estimated++;
    if (estimated < count)
        print_estimated(&summaries[estimated]);
    return SPSH_EXIT_DONE;
}

/* ---- JSON ---- */

static void put_left_out(spsh_json *json, const spsh_plan_info *info)
{
    reason reasons[REASONS];
    list_reasons(info, reasons);
    spsh__json_begin_object(json, "left_out");
    for (size_t i = 0; i < REASONS; i++)
        spsh__json_put_u64(json, reasons[i].key, reasons[i].count);
    spsh__json_end(json);
}

static void put_epoch(spsh_json *json, const spsh__plan_summary *s)
{
    spsh__json_put_u64(json, "epoch", s->epoch);
    spsh__json_put_u64(json, "windows", s->report.windows_total);
    spsh__json_put_u64(json, "windows_looked_at", s->report.window_count);
    spsh__json_put_bool(json, "estimated", s->estimated);
    spsh__json_put_u64(json, "batches", s->batch_count);
    spsh__json_put_u64(json, "steps", s->step_count);
    spsh__json_put_u64(json, "batches_per_step", s->step_batches);
    spsh__json_put_u64(json, "missing_batches", s->missing_batches);
    spsh__json_put_u64(json, "dropped_batches", s->dropped_batches);
    spsh__json_put_real(json, "utterances_per_batch", mean_utterances(&s->report));
    spsh__json_put_u64(json, "utterances_per_batch_max", s->report.batch_items_max);
    spsh__json_put_real(json, "batch_seconds_max", seconds_of(s->report.batch_microseconds_max));
    spsh__json_put_real(json, "batch_padded_seconds_max",
                        seconds_of(s->report.batch_padded_microseconds_max));
    spsh__json_put_u64(json, "batch_bytes_max_int16", s->int16_bytes);
    spsh__json_put_u64(json, "batch_bytes_max_float32", s->float32_bytes);
    spsh__json_put_real(json, "padding", padding(&s->report));
    spsh__json_put_real(json, "shuffle_quality", s->report.shuffle_quality);
    spsh__json_put_real(json, "read_amplification", s->report.read_amplification);
    spsh__json_put_real(json, "took_seconds", s->seconds);
}

static spsh_status put_domain(spsh_json *json, const spsh__plan_summary *s, uint32_t number,
                              spsh_error *err)
{
    spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
    const spsh_domain_report *found = &s->domains[number];
    const uint64_t units = units_served(s);
    spsh_status rc = spsh_plan_domain_get(s->plan, number, &domain, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "dataset", spsh_dataset_path(s->datasets->items[domain.dataset]));
    spsh__json_put_text_or_null(json, "name", domain.name);
    spsh__json_put_u64(json, "utterances", domain.utterance_count);
    spsh__json_put_real(json, "seconds", seconds_of(domain.microseconds));
    spsh__json_put_u64(json, "units", domain.units);
    spsh__json_put_real(json, "share", domain.share);
    spsh__json_put_real(json, "share_realised",
                        units == 0 ? 0 : (double)found->units / (double)units);
    spsh__json_put_u64(json, "items", found->item_count);
    spsh__json_put_real(json, "passes", domain.passes);
    spsh__json_end(json);
    return SPSH_OK;
}

spsh_status spsh__plan_put(spsh_json *json, const spsh__plan_summary *s, spsh_error *err)
{
    const spsh_plan_info *info = spsh_plan_info_get(s->plan);
    spsh_status rc = SPSH_OK;
    if (s->label != NULL)
        spsh__json_put_string(json, "options", s->label);
    spsh__json_put_u64(json, "all", all_utterances(s));
    spsh__json_put_u64(json, "served", all_utterances(s) - info->skipped_count);
    spsh__json_put_u64(json, "skipped", info->skipped_count);
    spsh__json_put_u64(json, "utterances", info->utterance_count);
    spsh__json_put_real(json, "seconds", seconds_of(info->microseconds));
    spsh__json_put_real(json, "longest_seconds", seconds_of(info->longest_microseconds));
    spsh__json_put_u64(json, "sample_rate_hz_max", info->sample_rate_hz_max);
    spsh__json_put_u64(json, "channels_max", info->channels_max);
    put_left_out(json, info);
    put_epoch(json, s);
    spsh__json_begin_array(json, "domains");
    for (uint32_t i = 0; i < info->domain_count && rc == SPSH_OK; i++)
        rc = put_domain(json, s, i, err);
    spsh__json_end(json);
    return rc;
}
