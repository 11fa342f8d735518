/* report.c: pack.json, rejects.jsonl, and the table on the terminal. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "fail.h"
#include "hash.h"
#include "json_text.h"
#include "names.h"

#define COPY_BYTES ((size_t)1 << 16)

static void open_object(spsh__builder *json, const char *key)
{
    if (json->size_bytes > 0 && json->data[json->size_bytes - 1] != '{')
        spsh__builder_append_text(json, ",");
    spsh__json_string(json, spsh__bytes_of(key));
    spsh__builder_append_text(json, ":");
}

static void member_number(spsh__builder *json, const char *key, uint64_t value)
{
    char text[24];
    int length = snprintf(text, sizeof(text), "%" PRIu64, value);
    open_object(json, key);
    spsh__builder_append(json, text, (size_t)length);
}

static void append_counts(spsh__builder *json, const spsh__pack_result *result)
{
    const spsh__pack_counts *c = &result->counts;

    member_number(json, "rows_in", result->row_count);
    member_number(json, "packed", c->packed);
    member_number(json, "rejected", spsh__reject_rows(&result->rejects));
    member_number(json, "without_text", c->text_missing);
    member_number(json, "payloads", c->records);
    member_number(json, "copies_in_units", c->copies);
    member_number(json, "duplicates", result->info.duplicate_count);
    member_number(json, "audio_ms", c->audio_ms);
    member_number(json, "source_bytes", c->source_bytes);
    member_number(json, "pcm_bytes", c->pcm_bytes);
    member_number(json, "payload_bytes", c->payload_bytes);
    member_number(json, "unused_payload_bytes", result->info.unused_payload_bytes);
    member_number(json, "shards", result->info.shard_count);
    member_number(json, "shard_bytes", result->info.shard_bytes);
    member_number(json, "decoder_limit", c->undecodable);
    member_number(json, "unverified", c->unverified);
    member_number(json, "headers_trusted", c->decode_unjudged);
    member_number(json, "kept_as_is", c->kept_as_is);
    member_number(json, "resampled", c->resampled);
    member_number(json, "segments_clamped", c->segments_clamped);
}

static void append_reasons(spsh__builder *json, const spsh__reject_counts *rejects)
{
    open_object(json, "rejects");
    spsh__builder_append_text(json, "{");
    for (int i = 0; i < SPSH_REJECT_COUNT; i++) {
        if (rejects->events[i] == 0)
            continue;
        open_object(json, spsh__reject_reason_text((spsh_reject_reason)i));
        spsh__builder_append_text(json, "{");
        member_number(json, "events", rejects->events[i]);
        member_number(json, "rows", rejects->rows[i]);
        spsh__builder_append_text(json, "}");
    }
    spsh__builder_append_text(json, "}");
}

spsh_status spsh__report_write(const spsh__pack_options *options, const char *report_directory,
                               const spsh__plan *plan, const spsh__pack_result *result,
                               spsh_error *err)
{
    spsh__builder json = {0};
    spsh_file_writer *file = NULL;
    char id[33];
    spsh_status rc = SPSH_OK;

    spsh__hex128(plan->dataset_id, id);
    spsh__builder_append_text(&json, "{");
    open_object(&json, "dataset_id");
    spsh__json_string(&json, spsh__bytes_of(id));
    open_object(&json, "options");
    spsh__builder_append_bytes(&json, spsh__builder_bytes(&plan->options));
    append_counts(&json, result);
    append_reasons(&json, &result->rejects);
    spsh__builder_append_text(&json, "}\n");
    if (json.failed)
        rc = SPSH_PACK_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_open(options->io, report_directory, "pack.json", 0, NULL, &file, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_write(file, json.data, json.size_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(file);
    spsh__builder_free(&json);
    return rc;
}

/* Reject files are as large as the corpus is bad: they are copied in pieces. */
static spsh_status copy_file(const spsh_io *io, const char *directory, const char *name,
                             spsh_file_writer *to, spsh_error *err)
{
    spsh__builder path = {0};
    uint8_t piece[COPY_BYTES];
    uint64_t offset = 0;
    spsh_status rc = SPSH_OK;

    spsh__builder_append_text(&path, directory);
    spsh__builder_append_text(&path, "/");
    spsh__builder_append_text(&path, name);
    if (spsh__builder_text(&path) == NULL)
        return SPSH_PACK_NO_MEMORY(err);
    int fd = io->open_fn(io->user, spsh__builder_text(&path), O_RDONLY | O_CLOEXEC, 0);
    int64_t got = fd;
    while (fd >= 0 && rc == SPSH_OK) {
        got = io->pread_fn(io->user, fd, piece, sizeof(piece), offset);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            break;
        offset += (uint64_t)got;
        rc = spsh_file_writer_write(to, piece, (size_t)got, err);
    }
    if (fd >= 0)
        (void)io->close_fn(io->user, fd);
    if (rc == SPSH_OK && got < 0) {
        rc = spsh_io_status((int)-got);
        spsh_error_set(err, rc, (int)-got, SPSH_OFFSET_NONE, "%s: %s", spsh__builder_text(&path),
                       strerror((int)-got));
    }
    spsh__builder_free(&path);
    return rc;
}

spsh_status spsh__report_write_rejects(const spsh__pack_options *options,
                                       const char *work_directory, const char *report_directory,
                                       const spsh__packed *packed, spsh_error *err)
{
    spsh_file_writer *file = NULL;
    spsh_status rc =
        spsh_file_writer_open(options->io, report_directory, "rejects.jsonl", 0, NULL, &file, err);

    if (rc == SPSH_OK)
        rc = copy_file(options->io, work_directory, "plan.rejects", file, err);
    for (uint64_t i = 0; rc == SPSH_OK && i < packed->reject_file_count; i++)
        rc = copy_file(options->io, work_directory, packed->reject_files[i], file, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(file);
    return rc;
}

/* ---- for people ---- */

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

    (void)snprintf(note, sizeof(note), "of %s rows", spsh__human_count(result->row_count, whole));
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

void spsh__report_print(FILE *stream, const spsh__pack_options *options,
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
    row_count(table, "without text", c->text_missing, "");
    row_count(table, "resampled", c->resampled, "recordings");
    row_count(table, "kept as they are", c->kept_as_is, "recordings that the codec does not fit");
    row_count(table, "headers trusted", c->decode_unjudged, "recordings; not decoded");
    row_count(table, "unverified", c->unverified, "recordings state no length to compare with");
    row_count(table, "decoder limit", c->undecodable,
              "intact recordings that the decoder fails on; kept");
    row_count(table, "segments clamped", c->segments_clamped,
              "ended up to 10 ms behind their recording");
    for (int i = 0; i < SPSH_REJECT_COUNT; i++) {
        char name[64];
        char note[64];
        char rows[SPSH_HUMAN_BYTES];
        if (i == SPSH_REJECT_DECODER_LIMIT)
            continue;
        (void)snprintf(name, sizeof(name), "rejected: %s",
                       spsh__reject_reason_text((spsh_reject_reason)i));
        (void)snprintf(note, sizeof(note), "cost %s rows",
                       spsh__human_count(result->rejects.rows[i], rows));
        row_count(table, name, result->rejects.events[i], note);
    }
    (void)spsh__table_print(table, stream, "  ", 0);
    spsh__table_free(table);
}

void spsh__report_print_json(FILE *stream, const char *dataset)
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
