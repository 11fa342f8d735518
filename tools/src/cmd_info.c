/* cmd_info.c: `speechshard info`: show the contents of a dataset.
 *
 * Totals, domains, splits, and rates come from the manifest. One pass over the rows of the index
 * counts codecs, languages, transcripts, and recordings. A recording begins at a row that refers to
 * another record than the row before it, and at a duplicate that goes back in the same record
 * (which is a copy). The count equals the number of source files if the utterances of each
 * recording are adjacent, as pack writes them, and no file is listed twice.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "commands.h"
#include "common/file_names.h"
#include "common/grow.h"
#include "common/json_out.h"
#include "print/devices.h"
#include "print/undecodable.h"
#include "speechshard/features.h"
#include "speechshard/publish.h"

#define FORMAT_VERSION "1.0"

enum { CODECS = SPSH_CODEC_FEATURES + 1 };

/* Utterances and duration under one name or rate. */
typedef struct share {
    spsh_bytes name;
    uint32_t rate_hz;
    uint64_t utterances;
    double seconds;
} share;

typedef struct shares {
    share *items;
    size_t count, capacity;
} shares;

typedef struct summary {
    const spsh_dataset *dataset;
    const spsh_dataset_info *info;
    shares domains, splits, rates;
    uint64_t samples;
    double seconds;
    uint64_t codec_utterances[CODECS];
    uint64_t *language_utterances; /* by number; the last one counts missing languages */
    uint64_t language_count;
    uint64_t text_utterances;
    uint64_t recordings;
    uint64_t skipped;
    char **leftovers; /* file names, relative to the dataset */
    size_t leftover_count;
    uint64_t undecodable; /* records that pack has marked undecodable */
} summary;

/* ---- counting ---- */

static bool share_matches(const share *item, spsh_bytes name, uint32_t rate_hz)
{
    return item->rate_hz == rate_hz && spsh__bytes_equal(item->name, name);
}

/* Add a group to its share. Searches backwards, because groups are sorted by domain. */
static bool shares_add(shares *all, spsh_bytes name, uint32_t rate_hz,
                       const spsh_dataset_group *group)
{
    size_t at = all->count;
    while (at > 0 && !share_matches(&all->items[at - 1], name, rate_hz))
        at--;
    if (at == 0) {
        share *items =
            (share *)spsh__grow(all->items, &all->capacity, all->count + 1, sizeof(*items));
        if (items == NULL)
            return false;
        all->items = items;
        all->items[all->count++] = (share){name, rate_hz, 0, 0};
        at = all->count;
    }
    all->items[at - 1].utterances += group->utterance_count;
    all->items[at - 1].seconds += (double)group->samples / group->sample_rate_hz;
    return true;
}

static int count_groups(summary *s)
{
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_bytes no_name = {NULL, 0};
    uint64_t count = spsh_dataset_group_count(s->dataset);
    for (uint64_t i = 0; i < count; i++) {
        spsh_dataset_group group;
        if (spsh_dataset_group_get(s->dataset, i, &group, &err) != SPSH_OK)
            return spsh__cli_fail(NULL, &err);
        if (!shares_add(&s->domains, group.domain, 0, &group) ||
            !shares_add(&s->splits, group.split, 0, &group) ||
            !shares_add(&s->rates, no_name, group.sample_rate_hz, &group))
            return spsh__cli_fail_memory();
        s->samples += group.samples;
        s->seconds += (double)group.samples / group.sample_rate_hz;
    }
    return SPSH_EXIT_DONE;
}

static void count_row(summary *s, const spsh_row *row, const spsh_row *before)
{
    if ((unsigned)row->codec < CODECS)
        s->codec_utterances[row->codec]++;
    uint64_t language = row->language < s->language_count ? row->language : s->language_count;
    s->language_utterances[language]++;
    s->text_utterances += (row->flags & SPSH_UTTERANCE_HAS_TEXT) != 0 ? 1 : 0;
    bool continues =
        before->payload_shard == row->payload_shard &&
        before->payload_record == row->payload_record &&
        (before->start_sample < row->start_sample || (row->flags & SPSH_UTTERANCE_DUPLICATE) == 0);
    s->recordings += continues ? 0 : 1;
}

static int count_rows(summary *s, spsh__selection *selection)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_progress progress;
    const spsh_row *row = NULL;
    spsh_row before = {.payload_shard = SPSH_NONE_U32};
    uint64_t position = 0;
    spsh_status rc;
    spsh__progress_begin(&progress, "info", "utterances", s->info->utterance_count);
    while ((rc = spsh__selection_next(selection, &position, &row, &err)) == SPSH_OK) {
        count_row(s, row, &before);
        before = *row;
        if (position % 65536 == 0)
            spsh__progress_update(&progress, position, NULL);
    }
    spsh__progress_end(&progress);
    return rc == SPSH_E_END ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static int add_leftover(void *user, const char *name)
{
    summary *s = (summary *)user;
    char **grown = (char **)realloc(s->leftovers, (s->leftover_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return 1;
    s->leftovers = grown;
    s->leftovers[s->leftover_count] = strdup(name);
    if (s->leftovers[s->leftover_count] == NULL)
        return 1;
    s->leftover_count++;
    return 0;
}

static int summarize(summary *s)
{
    const spsh__row_filter filter = {.domain = NULL};
    spsh__selection *selection = NULL;
    s->language_count = spsh_dataset_name_count(s->dataset, SPSH_NAME_LANGUAGE);
    s->language_utterances =
        (uint64_t *)calloc((size_t)s->language_count + 1, sizeof(*s->language_utterances));
    if (s->language_utterances == NULL)
        return spsh__cli_fail_memory();
    int rc = count_groups(s);
    if (rc == SPSH_EXIT_DONE)
        rc = spsh__selection_open("info", s->dataset, &filter, &selection);
    if (rc == SPSH_EXIT_DONE) {
        s->skipped = spsh__selection_skipped_count(selection);
        rc = count_rows(s, selection);
    }
    spsh__selection_free(selection);
    spsh_dataset_leftovers(spsh_dataset_path(s->dataset), add_leftover, s);
    s->undecodable = spsh__undecodable_count(s->dataset, NULL, NULL);
    return rc;
}

static const char *overlay_type_name(spsh_overlay_type type)
{
    return type == SPSH_OVERLAY_SKIP ? "skip" : "transcript";
}

/* ---- JSON ---- */

static void put_shares(spsh_json *json, const char *key, const shares *all)
{
    spsh__json_begin_array(json, key);
    for (size_t i = 0; i < all->count; i++) {
        spsh__json_begin_object(json, NULL);
        spsh__json_put_text_or_null(json, "name", all->items[i].name);
        spsh__json_put_u64(json, "utterances", all->items[i].utterances);
        spsh__json_put_real(json, "seconds", all->items[i].seconds);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_totals(spsh_json *json, const summary *s)
{
    const spsh_dataset_info *info = s->info;
    spsh__json_put_string(json, "format_version", FORMAT_VERSION);
    spsh__json_put_hex(json, "dataset_id", info->dataset_id, sizeof(info->dataset_id));
    spsh__json_put_u64(json, "generation", info->generation);
    spsh__json_put_u64(json, "shards", info->shard_count);
    spsh__json_put_u64(json, "utterances", info->utterance_count);
    spsh__json_put_u64(json, "served", info->utterance_count - s->skipped);
    spsh__json_put_u64(json, "skipped", s->skipped);
    spsh__json_put_u64(json, "recordings", s->recordings);
    spsh__json_put_u64(json, "payloads", info->record_count);
    spsh__json_put_u64(json, "duplicates", info->duplicate_count);
    spsh__json_put_u64(json, "undecodable", s->undecodable);
    spsh__json_put_u64(json, "samples", s->samples);
    spsh__json_put_real(json, "seconds", s->seconds);
    spsh__json_put_u64(json, "bytes", info->shard_bytes);
    spsh__json_put_u64(json, "payload_bytes", info->payload_bytes);
    spsh__json_put_u64(json, "unused_payload_bytes", info->unused_payload_bytes);
    spsh__json_put_u64(json, "speakers", info->speaker_count);
    spsh__json_put_u64(json, "with_text", s->text_utterances);
    spsh__json_put_u64(json, "source_rows", info->source_row_count);
    spsh__json_put_u64(json, "rejects", info->reject_count);
}

static spsh_status put_languages(spsh_json *json, const summary *s, spsh_error *err)
{
    spsh__json_begin_object(json, "languages");
    for (uint32_t i = 0; i < s->language_count; i++) {
        spsh_bytes name = {NULL, 0};
        spsh_status rc = spsh_dataset_name(s->dataset, SPSH_NAME_LANGUAGE, i, &name, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__json_put_u64_named(json, name, s->language_utterances[i]);
    }
    spsh__json_end(json);
    return SPSH_OK;
}

static spsh_status put_overlays(spsh_json *json, const summary *s, spsh_error *err)
{
    spsh__json_begin_array(json, "overlays");
    for (uint64_t i = 0; i < s->info->overlay_count; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        spsh_status rc = spsh_dataset_overlay(s->dataset, i, &overlay, err);
        if (rc != SPSH_OK)
            return rc;
        spsh__json_begin_object(json, NULL);
        spsh__json_put_text(json, "name", overlay.given_name);
        spsh__json_put_string(json, "type", overlay_type_name(overlay.type));
        spsh__json_put_u64(json, "entries", overlay.entry_count);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    return SPSH_OK;
}

static spsh_status put_summary(spsh_json *json, const summary *s, spsh_error *err)
{
    spsh_bytes options = {NULL, 0};
    put_totals(json, s);
    put_shares(json, "domains", &s->domains);
    spsh__json_begin_object(json, "splits");
    for (size_t i = 0; i < s->splits.count; i++)
        spsh__json_put_u64_named(json, s->splits.items[i].name, s->splits.items[i].utterances);
    spsh__json_end(json);
    spsh__json_begin_object(json, "codec");
    for (size_t i = 0; i < CODECS; i++) {
        if (s->codec_utterances[i] != 0)
            spsh__json_put_u64(json, spsh_codec_name((spsh_codec)i), s->codec_utterances[i]);
    }
    spsh__json_end(json);
    spsh__json_begin_object(json, "sample_rates");
    for (size_t i = 0; i < s->rates.count; i++)
        spsh__json_put_u64(json, SPSH_SHOW("%" PRIu32, s->rates.items[i].rate_hz),
                           s->rates.items[i].utterances);
    spsh__json_end(json);
    spsh_status rc = put_languages(json, s, err);
    if (rc == SPSH_OK)
        rc = put_overlays(json, s, err);
    spsh__json_begin_array(json, "leftovers");
    for (size_t i = 0; i < s->leftover_count; i++)
        spsh__json_put_string(json, NULL, s->leftovers[i]);
    spsh__json_end(json);
    if (rc == SPSH_OK)
        rc = spsh_dataset_pack_options(s->dataset, &options, err);
    if (rc == SPSH_OK)
        spsh__json_put_parsed(json, "options", options);
    return rc;
}

static int print_json(const summary *s)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_json *json = spsh__json_new();
    const spsh_status rc = put_summary(json, s, &err);
    return spsh__cli_json_indented(json, rc, spsh_dataset_path(s->dataset), &err);
}

/* ---- tables ---- */

static void row_count(spsh_table *table, const char *name, uint64_t count, const char *note)
{
    spsh__table_row(table, name, SPSH_SHOW_COUNT(count), note);
}

static int print_totals(const summary *s)
{
    const spsh_dataset_info *info = s->info;
    const bool is_features = s->codec_utterances[SPSH_CODEC_FEATURES] != 0;
    spsh_table *table = spsh__table_new("lrl");
    spsh__table_row(table, "format", FORMAT_VERSION,
                    SPSH_SHOW("generation %" PRIu64, info->generation));
    row_count(table, "shards", info->shard_count, "");
    row_count(table, "utterances", info->utterance_count,
              SPSH_SHOW("%s with text", SPSH_SHOW_COUNT(s->text_utterances)));
    if (s->skipped != 0) {
        row_count(table, "served", info->utterance_count - s->skipped, "");
        row_count(table, "skipped", s->skipped, "by overlays");
    }
    row_count(table, "recordings", s->recordings,
              SPSH_SHOW("%s stored", SPSH_SHOW_COUNT(info->record_count)));
    row_count(table, "duplicates", info->duplicate_count, "");
    if (s->undecodable != 0)
        row_count(table, "undecodable", s->undecodable, "intact, but not served");
    row_count(table, "speakers", info->speaker_count, "");
    spsh__table_row(table, "duration", SPSH_SHOW_DURATION(s->seconds),
                    SPSH_SHOW("%s samples", SPSH_SHOW_COUNT(s->samples)));
    spsh__table_row(table, "size", SPSH_SHOW_BYTES(info->shard_bytes),
                    SPSH_SHOW("%s of it %s", SPSH_SHOW_BYTES(info->payload_bytes),
                              is_features ? "features" : "audio"));
    if (info->unused_payload_bytes != 0)
        spsh__table_row(table, "unused", SPSH_SHOW_BYTES(info->unused_payload_bytes),
                        "copies without a reference");
    row_count(table, "rejects", info->reject_count,
              SPSH_SHOW("of %s rows", SPSH_SHOW_COUNT(info->source_row_count)));
    return spsh__table_finish(table) ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

static char *text_of(spsh_bytes name)
{
    if (name.size_bytes == 0)
        return strdup("(none)");
    return strndup((const char *)name.data, name.size_bytes);
}

static int print_shares(const summary *s, const char *title, const shares *all)
{
    spsh_table *table = spsh__table_new("lrrr");
    bool good = true;
    spsh__table_row(table, title, "utterances", "duration", "share");
    for (size_t i = 0; i < all->count && good; i++) {
        const share *item = &all->items[i];
        char *name = item->rate_hz != 0 ? strdup(SPSH_SHOW("%" PRIu32 " Hz", item->rate_hz))
                                        : text_of(item->name);
        good = name != NULL;
        if (good)
            spsh__table_row(table, name, SPSH_SHOW_COUNT(item->utterances),
                            SPSH_SHOW_DURATION(item->seconds),
                            SPSH_SHOW_PERCENT(item->seconds, s->seconds));
        free(name);
    }
    putchar('\n');
    return spsh__table_finish(table) && good ? SPSH_EXIT_DONE : spsh__cli_fail_memory();
}

/* Print the feature options of a dataset of features. */
static int print_features(const summary *s)
{
    spsh_features_description d = SPSH_FEATURES_DESCRIPTION_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = spsh_features_dataset(s->dataset, &d, &err);
    if (rc == SPSH_OK)
        printf("\nfeatures   float%u, %s", 8 * d.value_bytes, d.text);
    return rc == SPSH_OK || rc == SPSH_E_NOT_FOUND ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static int print_counts(const summary *s)
{
    spsh_error err = SPSH_ERROR_INIT;
    const char *separator = "\ncodec      ";
    for (size_t i = 0; i < CODECS; i++) {
        if (s->codec_utterances[i] == 0)
            continue;
        printf("%s%s %s", separator, spsh_codec_name((spsh_codec)i),
               SPSH_SHOW_COUNT(s->codec_utterances[i]));
        separator = ", ";
    }
    separator = "\nlanguages  ";
    for (uint32_t i = 0; i < s->language_count; i++) {
        spsh_bytes name = {NULL, 0};
        if (spsh_dataset_name(s->dataset, SPSH_NAME_LANGUAGE, i, &name, &err) != SPSH_OK)
            return spsh__cli_fail(NULL, &err);
        fputs(separator, stdout);
        spsh__text_print(stdout, name, 0);
        printf(" %s", SPSH_SHOW_COUNT(s->language_utterances[i]));
        separator = ", ";
    }
    for (uint64_t i = 0; i < s->info->overlay_count; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        if (spsh_dataset_overlay(s->dataset, i, &overlay, &err) != SPSH_OK)
            return spsh__cli_fail(NULL, &err);
        printf("\noverlay    ");
        spsh__text_print(stdout, overlay.given_name, 0);
        printf(", %s, %s utterances", overlay_type_name(overlay.type),
               SPSH_SHOW_COUNT(overlay.entry_count));
    }
    for (size_t i = 0; i < s->leftover_count; i++) {
        printf("\nleftover   ");
        spsh__text_print(stdout, spsh__bytes_of(s->leftovers[i]), 0);
        printf(", left by a killed command; the next edit removes it");
    }
    const int rc = print_features(s);
    putchar('\n');
    return rc;
}

static int print_human(const summary *s)
{
    int rc = print_totals(s);
    if (rc == SPSH_EXIT_DONE)
        rc = print_shares(s, "domain", &s->domains);
    if (rc == SPSH_EXIT_DONE &&
        (s->splits.count > 1 || (s->splits.count == 1 && s->splits.items[0].name.size_bytes != 0)))
        rc = print_shares(s, "split", &s->splits);
    if (rc == SPSH_EXIT_DONE)
        rc = print_shares(s, "rate", &s->rates);
    if (rc == SPSH_EXIT_DONE)
        rc = print_counts(s);
    return rc;
}

int spsh__cmd_info(int argc, char **argv)
{
    bool json = false;
    bool devices = false;
    const spsh_cli_option options[] = {
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object", &json, 0, 0},
        {"devices", 0, SPSH_CLI_FLAG, NULL, "show the GPUs, or the reason why none can be used",
         &devices, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "info",
        "[DATASET]",
        "DATASET [options]\n--devices [--json]",
        "describe a dataset",
        NULL,
        "speechshard info corpus.spsh\n"
        "speechshard info --json corpus.spsh | jq .domains\n"
        "speechshard info --devices\n",
        options,
    };
    spsh_cli_args args;
    spsh_dataset *dataset = NULL;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (devices && args.operand_count > 0)
        return spsh__cli_usage("info", "--devices takes no dataset");
    if (devices)
        return spsh__cli_finish(spsh__print_devices(json));
    if (args.operand_count == 0)
        return spsh__cli_usage("info", "DATASET is missing");
    rc = spsh__dataset_open_or_report(args.operands[0], 0, &dataset);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    summary s = {.dataset = dataset, .info = spsh_dataset_info_get(dataset)};
    rc = summarize(&s);
    if (rc == SPSH_EXIT_DONE)
        rc = json ? print_json(&s) : print_human(&s);
    free(s.domains.items);
    free(s.splits.items);
    free(s.rates.items);
    free(s.language_utterances);
    for (size_t i = 0; i < s.leftover_count; i++)
        free(s.leftovers[i]);
    free(s.leftovers);
    spsh_dataset_close(dataset);
    return spsh__cli_finish(rc);
}
