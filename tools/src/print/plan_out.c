/* plan_out.c: one plan as lines and a table of domains, several as a table, or as JSON. */
#include "plan_out.h"

#include <stdlib.h>
#include <string.h>

enum { NOTE_BYTES = 256 };

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

/* In the plan's unit, of the windows looked at. */
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
        {"skipped by an overlay",                "skipped",    info->skipped_count  },
        {"of another split, domain or language", "filtered",   info->filtered_count },
        {"too short or too long",                "duration",   info->duration_count },
        {"copies",                               "duplicates", info->duplicate_count},
        {"over the limit of a speaker",          "speaker",    info->speaker_count  },
        {"longer than a batch",                  "too_long",   info->too_long_count },
    };
    memcpy(ret_reasons, reasons, sizeof(reasons));
}

static void row_count(spsh_table *table, const char *name, uint64_t count, const char *note)
{
    char number[SPSH_HUMAN_BYTES];
    spsh__table_row(table, name, spsh__human_count(count, number), note);
}

static void add_utterances(spsh_table *table, const spsh__plan_summary *s)
{
    const spsh_plan_info *info = spsh_plan_info_get(s->plan);
    char number[SPSH_HUMAN_BYTES], other[SPSH_HUMAN_BYTES], note[NOTE_BYTES];
    reason reasons[REASONS];
    snprintf(note, sizeof(note), "%s served, %s skipped by overlays",
             spsh__human_count(all_utterances(s) - info->skipped_count, number),
             spsh__human_count(info->skipped_count, other));
    row_count(table, "in the datasets", all_utterances(s), note);
    snprintf(note, sizeof(note), "%s; the longest %s",
             spsh__human_duration(seconds_of(info->microseconds), number),
             spsh__human_duration(seconds_of(info->longest_microseconds), other));
    row_count(table, "utterances", info->utterance_count, note);
    list_reasons(info, reasons);
    for (size_t i = 0; i < REASONS; i++) {
        if (reasons[i].count != 0)
            row_count(table, "left out", reasons[i].count, reasons[i].why);
    }
}

static void add_batches(spsh_table *table, const spsh__plan_summary *s)
{
    char number[SPSH_HUMAN_BYTES], other[SPSH_HUMAN_BYTES], note[NOTE_BYTES];
    snprintf(note, sizeof(note), "%.1f utterances each, at most %s", mean_utterances(&s->report),
             spsh__human_count(s->report.batch_items_max, other));
    row_count(table, "batches", s->batch_count, note);
    int used = snprintf(note, sizeof(note), "of %s %s", spsh__human_count(s->step_batches, number),
                        s->step_batches == 1 ? "batch" : "batches");
    if (s->dropped_batches != 0)
        snprintf(note + used, sizeof(note) - (size_t)used, "; %s are dropped",
                 spsh__human_count(s->dropped_batches, other));
    else if (s->missing_batches != 0)
        snprintf(note + used, sizeof(note) - (size_t)used, "; the last one lacks %s",
                 spsh__human_count(s->missing_batches, other));
    row_count(table, "steps", s->step_count, note);
    spsh__human_percent(padding(&s->report), 1, number);
    snprintf(note, sizeof(note), "of padded batches");
    spsh__table_row(table, "padding", number, note);
    snprintf(note, sizeof(note), "int16; %s as padded float32",
             spsh__human_bytes(s->float32_bytes, other));
    spsh__table_row(table, "largest batch", spsh__human_bytes(s->int16_bytes, number), note);
    snprintf(number, sizeof(number), "%.3f", s->report.shuffle_quality);
    spsh__table_row(table, "shuffle quality", number,
                    "1: neighbours in storage meet by chance alone");
    snprintf(number, sizeof(number), "%.3f", s->report.read_amplification);
    spsh__table_row(table, "read amplification", number, "bytes read for each byte needed");
    if (s->seconds < 1)
        snprintf(number, sizeof(number), "%.1f ms", s->seconds * 1e3);
    else
        spsh__human_duration(s->seconds, number);
    spsh__table_row(table, "took", number, "");
}

/* "train", or where there are several datasets "corpus.spsh: train"; from malloc. */
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
    char count[SPSH_HUMAN_BYTES], duration[SPSH_HUMAN_BYTES], wanted[SPSH_HUMAN_BYTES];
    char realised[SPSH_HUMAN_BYTES], passes[SPSH_HUMAN_BYTES];
    spsh_error err = SPSH_ERROR_INIT;
    spsh_plan_domain domain;
    if (spsh_plan_domain_get(s->plan, number, &domain, &err) != SPSH_OK)
        return false;
    char *text = domain_text(s, &domain);
    if (text == NULL)
        return false;
    snprintf(passes, sizeof(passes), "%.2f", domain.passes);
    spsh__table_row(
        table, text, spsh__human_count(domain.utterance_count, count),
        spsh__human_duration(seconds_of(domain.microseconds), duration),
        spsh__human_percent(domain.share, 1, wanted),
        spsh__human_percent((double)s->domains[number].units, (double)units_served(s), realised),
        passes);
    free(text);
    return true;
}

static int print_table(spsh_table *table, bool good)
{
    good = good && spsh__table_print(table, stdout, "", 0);
    spsh__table_free(table);
    return good ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

static void print_estimated(const spsh__plan_summary *s)
{
    char number[SPSH_HUMAN_BYTES], other[SPSH_HUMAN_BYTES];
    if (s->estimated)
        printf("estimated from the first %s of %s windows; --whole goes through all\n",
               spsh__human_count(s->report.window_count, number),
               spsh__human_count(s->report.windows_total, other));
}

int spsh__plan_print(const spsh__plan_summary *s)
{
    spsh_table *table = spsh__table_new("lrl");
    if (table != NULL) {
        add_utterances(table, s);
        add_batches(table, s);
    }
    int rc = print_table(table, table != NULL);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    print_estimated(s);
    putchar('\n');
    table = spsh__table_new("lrrrrr");
    bool good = table != NULL;
    if (good)
        spsh__table_row(table, "domain", "utterances", "duration", "share", "realised", "passes");
    for (uint32_t i = 0; good && i < spsh_plan_info_get(s->plan)->domain_count; i++)
        good = add_domain(table, s, i);
    return print_table(table, good);
}

/* ---- several ---- */

static void add_compared(spsh_table *table, const spsh__plan_summary *s)
{
    char utterances[SPSH_HUMAN_BYTES], batches[SPSH_HUMAN_BYTES], steps[SPSH_HUMAN_BYTES];
    char mean[SPSH_HUMAN_BYTES], percent[SPSH_HUMAN_BYTES], bytes[SPSH_HUMAN_BYTES];
    char quality[SPSH_HUMAN_BYTES], amplification[SPSH_HUMAN_BYTES];
    const bool is_float = s->words->output == SPSH_OUTPUT_FLOAT32;
    snprintf(mean, sizeof(mean), "%.1f", mean_utterances(&s->report));
    snprintf(quality, sizeof(quality), "%.3f", s->report.shuffle_quality);
    snprintf(amplification, sizeof(amplification), "%.3f", s->report.read_amplification);
    spsh__table_row(table, s->label[0] == '\0' ? "(none)" : s->label,
                    spsh__human_count(spsh_plan_info_get(s->plan)->utterance_count, utterances),
                    spsh__human_count(s->batch_count, batches),
                    spsh__human_count(s->step_count, steps), mean,
                    spsh__human_percent(padding(&s->report), 1, percent),
                    spsh__human_bytes(is_float ? s->float32_bytes : s->int16_bytes, bytes), quality,
                    amplification);
}

int spsh__plan_print_compared(const spsh__plan_summary *summaries, size_t count)
{
    spsh_table *table = spsh__table_new("lrrrrrrrr");
    if (table != NULL)
        spsh__table_row(table, "options", "utterances", "batches", "steps", "a batch", "padding",
                        "largest", "shuffle", "read");
    for (size_t i = 0; table != NULL && i < count; i++)
        add_compared(table, &summaries[i]);
    int rc = print_table(table, table != NULL);
    for (size_t i = 0; i < count && rc == SPSH_EXIT_DONE; i++) {
        if (summaries[i].estimated) {
            print_estimated(&summaries[i]);
            break;
        }
    }
    return rc;
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
    spsh_plan_domain domain;
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
