/* pack_out.c: the table at the end of a pack, for terminals of 80 columns and more. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "common/file_names.h"
#include "report/pack_report.h"

/* ---- what happened ---- */

static void row_count(spsh_table *table, const char *name, uint64_t value, const char *note)
{
    char text[SPSH_HUMAN_BYTES];
    if (value > 0)
        spsh__table_row(table, name, spsh__human_count(value, text), note);
}

static void rows_of_audio(spsh_table *table, const spsh__pack_result *result)
{
    const spsh__pack_counts *c = &result->counts;
    char text[SPSH_HUMAN_BYTES];
    char part[SPSH_HUMAN_BYTES];
    char whole[SPSH_HUMAN_BYTES];
    char note[128];

    const uint64_t rows_in = spsh__source_rows_in(&result->facts->rows);
    (void)snprintf(note, sizeof(note), "of %s row%s", spsh__human_count(rows_in, whole),
                   rows_in == 1 ? "" : "s");
    spsh__table_row(table, "utterances", spsh__human_count(c->packed, text), note);
    spsh__table_row(table, "audio", spsh__human_duration((double)c->audio_ms / 1000.0, text), "");
    (void)snprintf(note, sizeof(note), "from %s of source files, %s of their PCM",
                   spsh__human_bytes(c->source_bytes, whole),
                   spsh__human_percent((double)c->payload_bytes, (double)c->pcm_bytes, part));
    spsh__table_row(table, "stored", spsh__human_bytes(c->payload_bytes, text), note);
}

/* What training will pay for the disk that the codec saves, as this pack measured it. */
static void row_trade(spsh_table *table, const spsh__pack_options *options,
                      const spsh__pack_result *result)
{
    char number[SPSH_HUMAN_BYTES];
    char speed[SPSH_HUMAN_BYTES + 2];

    if (result->decode_ns == 0)
        return;
    uint64_t times = (uint64_t)((double)result->decode_audio_ms * 1e6 / (double)result->decode_ns);
    (void)snprintf(speed, sizeof(speed), "%sx", spsh__human_count(times, number));
    spsh__table_row(table, "decoding", speed,
                    options->codec == SPSH__PACK_PCM
                        ? "real time on one core"
                        : "real time on one core; --codec pcm trades disk for cores");
}

static void print_counts(FILE *stream, const spsh__pack_options *options,
                         const spsh__pack_result *result)
{
    const spsh__pack_counts *c = &result->counts;
    spsh_table *table = spsh__table_new("lrl");

    if (table == NULL)
        return;
    rows_of_audio(table, result);
    row_trade(table, options, result);
    row_count(table, "shards", result->info.shard_count, "");
    row_count(table, "duplicates", result->info.duplicate_count,
              "refer to audio that is stored once");
    row_count(table, "merged", result->facts->rows.merged,
              "rows name what another row gave already");
    row_count(table, "excluded", result->facts->rows.excluded, "rows were not asked for");
    row_count(table, "without text", c->text_missing, "");
    row_count(table, "resampled", c->resampled, "recordings");
    row_count(table, "kept as they are", c->kept_as_is, "recordings that the codec does not fit");
    row_count(table, "headers trusted", c->decode_unjudged, "recordings; not decoded");
    row_count(table, "unverified", c->unverified, "recordings state no length to compare with");
    row_count(table, "decoder limit", c->undecodable,
              "recordings are intact, but undecodable: kept, not served");
    row_count(table, "segments clamped", c->segments_clamped,
              "ended up to 10 ms behind their recording");
    for (int i = 0; i < SPSH_REJECT_COUNT; i++) {
        char name[64];
        char note[64];
        char rows[SPSH_HUMAN_BYTES];
        if (i == SPSH_REJECT_DECODER_LIMIT || i == SPSH_REJECT_NO_END_FLAG)
            continue;
        (void)snprintf(name, sizeof(name), "rejected: %s",
                       spsh__reject_reason_text((spsh_reject_reason)i));
        (void)snprintf(note, sizeof(note), "cost %s row%s",
                       spsh__human_count(result->rejects.rows[i], rows),
                       result->rejects.rows[i] == 1 ? "" : "s");
        row_count(table, name, result->rejects.events[i], note);
    }
    (void)spsh__table_print(table, stream, "  ", 0);
    spsh__table_free(table);
}

/* ---- what is in it ---- */

#define NAME_COLUMNS 34U
#define ROWS_SHOWN   20U /* of a table */

/* A name out of a corpus, cut to its column; from malloc, NULL: no memory. */
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
    char number[SPSH_HUMAN_BYTES];
    if (count > shown)
        fprintf(stream, "  and %s more\n", spsh__human_count(count - shown, number));
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

/* The operand as the user called it, and where in it; from malloc, NULL: no memory. */
static char *source_name(const spsh__pack_options *options, const spsh__source *source)
{
    spsh__builder path = {0};
    const char *operand =
        source->operand < options->corpus_count ? options->corpora[source->operand] : ".";
    const char *slash = strrchr(operand, '/');
    spsh__builder_append_text(&path, slash == NULL || slash[1] == '\0' ? operand : slash + 1);
    if (strcmp(source->root, ".") != 0)
        spsh__builder_append_part(&path, source->root);
    char *name = path.failed ? NULL : cut_name(spsh__builder_bytes(&path));
    spsh__builder_free(&path);
    return name;
}

static void print_sources(FILE *stream, const spsh__pack_options *options, const spsh__facts *f)
{
    char in[SPSH_HUMAN_BYTES], packed[SPSH_HUMAN_BYTES], rejected[SPSH_HUMAN_BYTES];
    char merged[SPSH_HUMAN_BYTES], excluded[SPSH_HUMAN_BYTES];
    spsh_table *table = spsh__table_new("llrrrrr");
    if (table == NULL)
        return;
    spsh__table_row(table, "source", "layout", "rows in", "packed", "rejected", "merged",
                    "excluded");
    for (size_t i = 0; i < shown_of(f->sources.count); i++) {
        const spsh__source *source = &f->sources.items[i];
        const spsh__source_rows *rows = &source->rows;
        char *name = source_name(options, source);
        spsh__table_row(table, name == NULL ? "?" : name, source->layout,
                        spsh__human_count(spsh__source_rows_in(rows), in),
                        spsh__human_count(f->tallies[i].packed, packed),
                        spsh__human_count(spsh__source_rejected(rows, &f->tallies[i]), rejected),
                        spsh__human_count(rows->merged, merged),
                        spsh__human_count(rows->excluded, excluded));
        free(name);
    }
    print_table(stream, table, f->sources.count);
}

static void print_parts(FILE *stream, const spsh__facts *f, const char *title,
                        const spsh__fact_parts *parts)
{
    char audio[SPSH_HUMAN_BYTES], share[SPSH_HUMAN_BYTES];
    char utterances[SPSH_HUMAN_BYTES], copies[SPSH_HUMAN_BYTES];
    spsh_table *table = spsh__table_new("lrrrr");
    if (table == NULL)
        return;
    spsh__table_row(table, title, "audio", "share", "utterances", "copies");
    for (size_t i = 0; i < shown_of(parts->count); i++) {
        const spsh__part *part = &parts->items[i];
        char *name = cut_name(part->name);
        spsh__table_row(table, name == NULL ? "?" : name,
                        spsh__human_duration(part->all.seconds, audio),
                        spsh__human_percent(part->all.seconds, f->all.seconds, share),
                        spsh__human_count(part->all.utterances, utterances),
                        spsh__human_count(part->copies.utterances, copies));
        free(name);
    }
    print_table(stream, table, parts->count);
}

static void print_kinds(FILE *stream, const spsh__facts *f)
{
    char audio[SPSH_HUMAN_BYTES], share[SPSH_HUMAN_BYTES], utterances[SPSH_HUMAN_BYTES];
    spsh_table *table = spsh__table_new("lrrrrr");
    if (table == NULL)
        return;
    spsh__table_row(table, "codec", "rate", "channels", "audio", "share", "utterances");
    for (size_t i = 0; i < shown_of(f->kind_count); i++) {
        const spsh__kind *kind = &f->kinds[i];
        const bool others = kind->sample_rate_hz == 0;
        char rate[SPSH_HUMAN_BYTES], channels[SPSH_HUMAN_BYTES];
        (void)snprintf(rate, sizeof(rate), "%" PRIu32 " Hz", kind->sample_rate_hz);
        (void)snprintf(channels, sizeof(channels), "%" PRIu32, kind->channels);
        spsh__table_row(table, others ? "others" : spsh_codec_name(kind->codec), others ? "" : rate,
                        others ? "" : channels, spsh__human_duration(kind->all.seconds, audio),
                        spsh__human_percent(kind->all.seconds, f->all.seconds, share),
                        spsh__human_count(kind->all.utterances, utterances));
    }
    print_table(stream, table, f->kind_count);
}

/* Shortest, percentiles, longest: names above, numbers below. */
static void print_durations(FILE *stream, const spsh__facts *f)
{
    const spsh__durations *d = &f->durations;
    char head[SPSH__PERCENTILES][SPSH_HUMAN_BYTES];
    char value[SPSH__PERCENTILES][SPSH_HUMAN_BYTES];
    char shortest[SPSH_HUMAN_BYTES], longest[SPSH_HUMAN_BYTES];
    spsh_table *table = spsh__table_new("lrrrrrrr");
    if (table == NULL)
        return;
    for (size_t i = 0; i < SPSH__PERCENTILES; i++) {
        (void)snprintf(head[i], sizeof(head[i]), "%u %%", spsh__percentiles[i]);
        (void)spsh__human_duration(d->percentiles[i], value[i]);
    }
    spsh__table_row(table, "durations", "shortest", head[0], head[2], head[3], head[4], head[6],
                    "longest");
    spsh__table_row(table, "", spsh__human_duration(d->min_seconds, shortest), value[0], value[2],
                    value[3], value[4], value[6], spsh__human_duration(d->max_seconds, longest));
    print_table(stream, table, 0);
}

static void print_notes(FILE *stream, const spsh__facts *f)
{
    if (f->warning_count > 0)
        fputs("\n  worth a look\n", stream);
    for (size_t i = 0; i < f->warning_count; i++)
        fprintf(stream, "  - %s\n", f->warnings[i]);
}

void spsh__report_print(FILE *stream, const spsh__pack_options *options,
                        const spsh__pack_result *result)
{
    const spsh__facts *facts = result->facts;
    print_counts(stream, options, result);
    print_sources(stream, options, facts);
    if (facts->has_dataset) {
        print_parts(stream, facts, "domain", &facts->domains);
        print_parts(stream, facts, "split", &facts->splits);
        print_kinds(stream, facts);
        print_durations(stream, facts);
    }
    print_notes(stream, facts);
}
