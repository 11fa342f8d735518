/* pack_out.c: the table at the end of a pack, for terminals of 80 columns and more. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/byte_builder.h"
#include "common/json_out.h"
#include "pack_out.h"

/* ---- results of the run ---- */

static void row_count(spsh_table *table, const char *name, uint64_t value, const char *note)
{
    if (value > 0)
        spsh__table_row(table, name, SPSH_SHOW_COUNT(value), note);
}

static void rows_of_audio(spsh_table *table, const spsh_pack_facts *f)
{
    spsh__table_row(
        table, "utterances", SPSH_SHOW_COUNT(f->packed),
        SPSH_SHOW("of %s row%s", SPSH_SHOW_COUNT(f->rows_in), f->rows_in == 1 ? "" : "s"));
    spsh__table_row(table, "audio", SPSH_SHOW_DURATION((double)f->audio_ms / 1000.0), "");
    spsh__table_row(table, "stored", SPSH_SHOW_BYTES(f->payload_bytes),
                    SPSH_SHOW("from %s of source files, %s of their PCM",
                              SPSH_SHOW_BYTES(f->source_bytes),
                              SPSH_SHOW_PERCENT((double)f->payload_bytes, (double)f->pcm_bytes)));
}

/* Print the decoding speed that this pack measured: the price in training for the disk space that
 * the codec saves. */
static void row_trade(spsh_table *table, const spsh_pack_facts *f, bool is_pcm)
{
    if (f->decode_ns == 0)
        return;
    uint64_t times = (uint64_t)((double)f->decode_audio_ms * 1e6 / (double)f->decode_ns);
    spsh__table_row(table, "decoding", SPSH_SHOW("%sx", SPSH_SHOW_COUNT(times)),
                    is_pcm ? "real time on one core"
                           : "real time on one core; --codec pcm trades disk for cores");
}

static void rows_of_rejects(spsh_table *table, const spsh_pack_report *report)
{
    for (size_t i = 0; i < spsh_pack_report_facts(report)->reject_count; i++) {
        const spsh_pack_reject *reject = spsh_pack_report_reject(report, i);
        if (strcmp(reject->reason, "decoder_limit") == 0 ||
            strcmp(reject->reason, "no_end_flag") == 0)
            continue; /* these recordings were kept */
        row_count(
            table, SPSH_SHOW("rejected: %s", reject->reason), reject->lines,
            SPSH_SHOW("%s row%s", SPSH_SHOW_COUNT(reject->rows), reject->rows == 1 ? "" : "s"));
    }
}

static void print_counts(FILE *stream, const spsh_pack_report *report, bool is_pcm)
{
    const spsh_pack_facts *f = spsh_pack_report_facts(report);
    spsh_table *table = spsh__table_new("lrl");

    rows_of_audio(table, f);
    row_trade(table, f, is_pcm);
    row_count(table, "shards", f->shard_count, "");
    row_count(table, "duplicates", f->duplicate_count, "refer to audio that is stored once");
    row_count(table, "merged", f->merged, "rows for the same utterance as another row");
    row_count(table, "excluded", f->excluded, "rows excluded by an option");
    row_count(table, "without text", f->without_text, "");
    row_count(table, "resampled", f->resampled, "recordings");
    row_count(table, "kept unchanged", f->kept_as_is, "recordings that the codec does not fit");
    row_count(table, "headers trusted", f->headers_trusted,
              "recordings, whose audio was not decoded");
    row_count(table, "unverified", f->unverified, "recordings, which state no length to check");
    row_count(table, "decoder limit", f->undecodable,
              "recordings, intact but undecodable: stored, not served");
    row_count(table, "segments clamped", f->segments_clamped,
              "segments, which ended up to 10 ms past their recording");
    rows_of_rejects(table, report);
    (void)spsh__table_print(table, stream, "  ", 0);
    spsh__table_free(table);
}

/* ---- the contents of the dataset ---- */

#define NAME_COLUMNS 34U
#define ROWS_SHOWN   20U /* visible rows of a table */

/* Cut a name from a corpus to the width of its column. The caller frees it. NULL: no memory. */
static char *cut_name(spsh_bytes name)
{
    char *text = NULL;
    size_t size = 0;
    if (name.size_bytes == 0)
        return strdup("(none)");
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    spsh__text_print(stream, name, NAME_COLUMNS);
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

static void print_more(FILE *stream, size_t count, size_t shown)
{
    if (count > shown)
        fprintf(stream, "  and %s more\n", SPSH_SHOW_COUNT(count - shown));
}

static size_t shown_of(size_t count)
{
    return count <= ROWS_SHOWN + ROWS_SHOWN / 4 ? count : ROWS_SHOWN;
}

static void print_table(FILE *stream, spsh_table *table, size_t count)
{
    fputc('\n', stream);
    (void)spsh__table_print(table, stream, "  ", 0);
    spsh__table_free(table);
    print_more(stream, count, shown_of(count));
}

/* Return the last part of the corpus's path and the source's path in it. The caller frees it. NULL:
 * no memory. */
static char *source_name(const spsh_pack_source *source)
{
    spsh__builder path = {0};
    const char *slash = strrchr(source->corpus, '/');
    spsh__builder_append_text(&path,
                              slash == NULL || slash[1] == '\0' ? source->corpus : slash + 1);
    if (strcmp(source->root, ".") != 0)
        spsh__builder_append_part(&path, source->root);
    char *name = path.failed ? NULL : cut_name(spsh__builder_bytes(&path));
    spsh__builder_free(&path);
    return name;
}

static void print_sources(FILE *stream, const spsh_pack_report *report, size_t count)
{
    spsh_table *table = spsh__table_new("llrrrrr");
    spsh__table_row(table, "source", "layout", "rows in", "packed", "rejected", "merged",
                    "excluded");
    for (size_t i = 0; i < shown_of(count); i++) {
        const spsh_pack_source *source = spsh_pack_report_source(report, i);
        char *name = source_name(source);
        spsh__table_row(table, name == NULL ? "?" : name, source->layout,
                        SPSH_SHOW_COUNT(source->rows_in), SPSH_SHOW_COUNT(source->packed),
                        SPSH_SHOW_COUNT(source->rejected), SPSH_SHOW_COUNT(source->merged),
                        SPSH_SHOW_COUNT(source->excluded));
        free(name);
    }
    print_table(stream, table, count);
}

typedef const spsh_pack_part *part_fn(const spsh_pack_report *report, size_t index);

static void print_parts(FILE *stream, const spsh_pack_report *report, const char *title,
                        part_fn *part_of, size_t count)
{
    const double seconds = spsh_pack_report_facts(report)->seconds;
    spsh_table *table = spsh__table_new("lrrrr");
    spsh__table_row(table, title, "audio", "share", "utterances", "copies");
    for (size_t i = 0; i < shown_of(count); i++) {
        const spsh_pack_part *part = part_of(report, i);
        char *name = cut_name(part->name);
        spsh__table_row(table, name == NULL ? "?" : name, SPSH_SHOW_DURATION(part->seconds),
                        SPSH_SHOW_PERCENT(part->seconds, seconds),
                        SPSH_SHOW_COUNT(part->utterances), SPSH_SHOW_COUNT(part->copies));
        free(name);
    }
    print_table(stream, table, count);
}

static void print_kinds(FILE *stream, const spsh_pack_report *report)
{
    const spsh_pack_facts *f = spsh_pack_report_facts(report);
    spsh_table *table = spsh__table_new("lrrrrr");
    spsh__table_row(table, "codec", "rate", "channels", "audio", "share", "utterances");
    for (size_t i = 0; i < shown_of(f->kind_count); i++) {
        const spsh_pack_kind *kind = spsh_pack_report_kind(report, i);
        const bool others = kind->sample_rate_hz == 0;
        spsh__table_row(
            table, others ? "others" : spsh_codec_name(kind->codec),
            others ? "" : SPSH_SHOW("%" PRIu32 " Hz", kind->sample_rate_hz),
            others ? "" : SPSH_SHOW("%" PRIu32, kind->channels), SPSH_SHOW_DURATION(kind->seconds),
            SPSH_SHOW_PERCENT(kind->seconds, f->seconds), SPSH_SHOW_COUNT(kind->utterances));
    }
    print_table(stream, table, f->kind_count);
}

/* Print the shortest, percentile, and longest durations: names above, numbers below. */
static void print_durations(FILE *stream, const spsh_pack_facts *f)
{
    spsh_table *table = spsh__table_new("lrrrrrrr");
    spsh__table_row(table, "durations", "shortest", "1 %", "25 %", "50 %", "75 %", "99 %",
                    "longest");
    spsh__table_row(
        table, "", SPSH_SHOW_DURATION(f->min_seconds), SPSH_SHOW_DURATION(f->percent_1_seconds),
        SPSH_SHOW_DURATION(f->percent_25_seconds), SPSH_SHOW_DURATION(f->percent_50_seconds),
        SPSH_SHOW_DURATION(f->percent_75_seconds), SPSH_SHOW_DURATION(f->percent_99_seconds),
        SPSH_SHOW_DURATION(f->max_seconds));
    print_table(stream, table, 0);
}

void spsh__pack_print(FILE *stream, const spsh_pack_report *report, bool is_pcm)
{
    const spsh_pack_facts *f = spsh_pack_report_facts(report);
    print_counts(stream, report, is_pcm);
    print_sources(stream, report, f->source_count);
    if (!f->is_withheld) {
        print_parts(stream, report, "domain", spsh_pack_report_domain, f->domain_count);
        print_parts(stream, report, "split", spsh_pack_report_split, f->split_count);
        print_kinds(stream, report);
        print_durations(stream, f);
    }
    if (f->warning_count > 0)
        fputs("\n  worth a look\n", stream);
    for (size_t i = 0; i < f->warning_count; i++)
        fprintf(stream, "  - %s\n", spsh_pack_report_warning(report, i));
}

void spsh__pack_print_json(FILE *stream, const char *dataset)
{
    spsh__builder path = {0};
    char piece[4096];
    size_t got = 0;

    spsh__builder_append_text(&path, dataset);
    spsh__builder_append_text(&path, "/reports/pack.json");
    FILE *file = spsh__builder_text(&path) == NULL ? NULL : fopen(spsh__builder_text(&path), "re");
    while (file != NULL && (got = fread(piece, 1, sizeof(piece), file)) > 0)
        (void)fwrite(piece, 1, got, stream);
    if (file != NULL)
        (void)fclose(file);
    spsh__builder_free(&path);
}

/* ---- a share ---- */

static int print_share_json(const spsh_pack_facts *f)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_u64(json, "utterances", f->planned);
    spsh__json_put_u64(json, "units", f->unit_count);
    spsh__json_put_u64(json, "units_packed", f->units_packed);
    spsh__json_put_u64(json, "units_taken_over", f->units_taken_over);
    spsh__json_put_u64(json, "units_left", f->units_left);
    return spsh__cli_json(json);
}

static void print_share(const char *output, const spsh_pack_facts *f)
{
    const char *plural = f->unit_count == 1 ? "" : "s";

    if (f->is_plan_only) {
        (void)printf("%s utterance%s in %s unit%s\n", SPSH_SHOW_COUNT(f->planned),
                     f->planned == 1 ? "" : "s", SPSH_SHOW_COUNT(f->unit_count), plural);
        return;
    }
    (void)printf("packed %s of %s unit%s", SPSH_SHOW_COUNT(f->units_packed),
                 SPSH_SHOW_COUNT(f->unit_count), plural);
    if (f->units_taken_over > 0)
        (void)printf(", %s taken over", SPSH_SHOW_COUNT(f->units_taken_over));
    (void)putchar('\n');
    if (f->units_left == 0)
        spsh__cli_message("all units are packed; `speechshard merge %s` publishes the dataset",
                          output);
    else
        spsh__cli_message("other processes are packing %s unit%s; `speechshard merge %s` publishes "
                          "the dataset after they end",
                          SPSH_SHOW_COUNT(f->units_left), f->units_left == 1 ? "" : "s", output);
}

int spsh__pack_print_result(const char *output, const spsh_pack_report *report, bool is_pcm,
                            bool json)
{
    const spsh_pack_facts *facts = spsh_pack_report_facts(report);

    if (facts->is_already_packed) {
        spsh__cli_message("%s: packed already; nothing to do", output);
        return SPSH_EXIT_DONE;
    }
    if (facts->is_share) {
        if (json)
            return print_share_json(facts);
        print_share(output, facts);
        return SPSH_EXIT_DONE;
    }
    if (json && !facts->is_withheld)
        spsh__pack_print_json(stdout, output);
    else
        spsh__pack_print(stdout, report, is_pcm);
    if (facts->rejected > 0)
        spsh__cli_message("%s %s rejected: %s/reports/rejects.jsonl has the reasons",
                          SPSH_SHOW_COUNT(facts->rejected),
                          facts->rejected == 1 ? "row was" : "rows were", output);
    if (facts->is_withheld)
        spsh__cli_error(
            "%s: not published, since --strict allows no rejects; without it the same command "
            "publishes the packed utterances; after repairing the corpus, remove %s first",
            output, output);
    else if (facts->has_too_many_rejects)
        spsh__cli_error("%s: published, but more rows were rejected than --max-rejects allows",
                        output);
    return facts->is_withheld || facts->has_too_many_rejects ? SPSH_EXIT_FAILED : SPSH_EXIT_DONE;
}
