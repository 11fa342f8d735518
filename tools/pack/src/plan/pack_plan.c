/* pack_plan.c: write the plan and load it.
 *
 * A unit ends at the first recording at which it holds UNIT_SHARDS shards' worth of source bytes,
 * or UNIT_ITEMS_MAX items, so unit boundaries depend only on the sorted list. All segments of a
 * recording are in one unit, so the recording is stored once. In source order this holds only if
 * the source keeps the segments together.
 */
#include "pack_plan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "common/json_text.h"
#include "common/page.h"
#include "ingest/view/archive_index.h"
#include "pack_journal.h"
#include "plan_item.h"
#include "speechshard/inside.h"

#define UNIT_SHARDS    4U
#define UNIT_ITEMS_MAX UINT64_C(200000) /* a unit's items are in memory while it is packed */
/* Assumed size of a file whose size the layout does not know. */
#define SOURCE_BYTES_GUESS (UINT64_C(256) << 10)
#define WRITE_BYTES        ((size_t)1 << 20)
#define PLAN_NAME          "plan"
#define PLAN_ITEMS_NAME    "plan.items"
#define PLAN_REJECTS_NAME  "plan.rejects"
#define PLAN_HEAD          "speechshard-plan"
#define PLAN_VERSION       4U
#define UNIT_WORDS         5U
#define COUNT_WORDS        3U
#define POLICY_WORDS       3U

/* The plan being written. */
typedef struct plan_writer {
    const spsh_pack_options *options;
    const char *work_directory;
    spsh_file_writer *file;
    spsh__plan *plan;
    spsh__pack_hasher *identity;
    spsh__builder pending;    /* items of the current unit that are not written yet */
    spsh__builder unit_items; /* all items of the current unit, for its hash */
    spsh__builder recording;  /* id of the last item's recording */
    spsh__plan_unit unit;
    size_t unit_capacity;
    uint64_t offset_bytes;
} plan_writer;

static const char *codec_name(spsh_pack_codec codec)
{
    static const char *const names[] = {"", "keep", "flac", "pcm"};
    return names[codec];
}

static const char *dedupe_name(spsh_pack_dedupe dedupe)
{
    static const char *const names[] = {"", "none", "bytes", "pcm"};
    return names[dedupe];
}

static void member_text(spsh__builder *json, const char *key, const char *value)
{
    spsh__json_member(json, 0, spsh__bytes_of(key), spsh__bytes_of(value));
}

/* Write the options that affect the dataset, and the versions of the decoders, as JSON. Equal JSON
 * means equal bytes. spsh__plan_command lists the same options. */
static bool options_json(const spsh_pack_options *options, spsh__builder *json)
{
    member_text(json, "tool", "speechshard " SPSH_VERSION_STRING);
    member_text(json, "decoders", spsh_audio_versions());
    if (options->ffmpeg != NULL)
        member_text(json, "ffmpeg", spsh_ffmpeg_versions(options->ffmpeg));
    member_text(json, "codec", codec_name(options->codec));
    member_text(json, "dedupe", dedupe_name(options->dedupe));
    member_text(json, "order", options->keeps_source_order ? "source" : "hash");
    member_text(json, "headers", options->trusts_headers ? "trusted" : "decoded");
    if (options->layout_name != NULL)
        member_text(json, "layout", options->layout_name);
    if (options->domain_rule != NULL)
        member_text(json, "domain", options->domain_rule);
    if (options->split_filter != NULL)
        member_text(json, "split", options->split_filter);
    for (size_t i = 0; i < options->column_rule_count; i++)
        member_text(json, "column", options->column_rules[i]);
    if (options->ignores_split_names)
        member_text(json, "split_from", "none");
    if (options->has_keys_to_last_dot)
        member_text(json, "wds_key", "last-dot");
    spsh__json_member_number(json, 0, "rate_hz", options->rate_hz);
    spsh__json_member_number(json, 0, "shard_bytes", options->shard_bytes);
    spsh__json_close(json, 0);
    return !json->failed;
}

static void option_text(spsh__builder *line, const char *name, const char *value)
{
    if (value == NULL)
        return;
    spsh__page_word(line, name);
    spsh__page_word(line, value);
}

static void option_number(spsh__builder *line, const char *name, uint64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    option_text(line, name, value == 0 ? NULL : text);
}

void spsh__plan_command(const spsh_pack_options *options, spsh__builder *line)
{
    spsh__builder_append_text(line, "speechshard pack");
    for (size_t i = 0; i < options->corpus_count; i++)
        spsh__page_word(line, "CORPUS");
    spsh__page_word(line, "-o");
    spsh__page_word(line, "DATASET");
    option_text(line, "--layout", options->layout_name);
    option_text(line, "--codec", codec_name(options->codec));
    option_text(line, "--dedupe", dedupe_name(options->dedupe));
    option_text(line, "--decoder", options->ffmpeg != NULL ? "ffmpeg" : NULL);
    option_number(line, "--rate", options->rate_hz);
    option_text(line, "--order", options->keeps_source_order ? "source" : "hash");
    option_text(line, "--domain", options->domain_rule);
    option_text(line, "--split", options->split_filter);
    for (size_t i = 0; i < options->column_rule_count; i++)
        option_text(line, "--column", options->column_rules[i]);
    option_text(line, "--split-from", options->ignores_split_names ? "none" : NULL);
    option_number(line, "--shard-size", options->shard_bytes);
    option_text(line, "--wds-key", options->has_keys_to_last_dot ? "last-dot" : NULL);
    if (options->trusts_headers)
        spsh__page_word(line, "--trust-headers");
    if (options->follows_links)
        spsh__page_word(line, "--follow-links");
}

static spsh_status flush_pending(plan_writer *writer, size_t keep_below, spsh_error *err)
{
    if (writer->pending.failed || writer->unit_items.failed || writer->recording.failed)
        return SPSH_NO_MEMORY(err);
    if (writer->pending.size_bytes <= keep_below)
        return SPSH_OK;
    spsh_status rc =
        spsh_file_writer_write(writer->file, writer->pending.data, writer->pending.size_bytes, err);
    spsh__builder_clear(&writer->pending);
    return rc;
}

static spsh_status close_unit(plan_writer *writer, spsh_error *err)
{
    spsh__plan *plan = writer->plan;

    if (writer->unit.item_count == 0)
        return SPSH_OK;
    if (!SPSH_GROW(plan->units, writer->unit_capacity, plan->unit_count + 1))
        return SPSH_NO_MEMORY(err);
    writer->unit.hash = spsh__pack_hash64(spsh__builder_bytes(&writer->unit_items));
    plan->units[plan->unit_count++] = writer->unit;
    plan->source_bytes += writer->unit.source_bytes;
    writer->unit = (spsh__plan_unit){.offset_bytes = writer->offset_bytes};
    spsh__builder_clear(&writer->unit_items);
    return SPSH_OK;
}

static spsh_status write_item(plan_writer *writer, spsh_bytes bytes, const spsh_ingest_item *item,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;

    if (!spsh__bytes_equal(spsh__builder_bytes(&writer->recording), item->recording_id)) {
        if (writer->unit.source_bytes >= UNIT_SHARDS * writer->options->shard_bytes ||
            writer->unit.item_count >= UNIT_ITEMS_MAX)
            rc = close_unit(writer, err);
        if (rc != SPSH_OK)
            return rc;
        writer->unit.source_bytes += item->source_bytes == SPSH_SOURCE_BYTES_UNKNOWN
                                         ? SOURCE_BYTES_GUESS
                                         : item->source_bytes;
        spsh__builder_clear(&writer->recording);
        spsh__builder_append_bytes(&writer->recording, item->recording_id);
    }
    spsh__item_hash(writer->identity, item);
    spsh__builder_append_bytes(&writer->pending, bytes);
    spsh__builder_append_bytes(&writer->unit_items, bytes);
    writer->offset_bytes += bytes.size_bytes;
    writer->unit.size_bytes += bytes.size_bytes;
    writer->unit.item_count++;
    writer->plan->item_count++;
    return flush_pending(writer, WRITE_BYTES, err);
}

static spsh_status write_items(plan_writer *writer, spsh__plan_scan *scan, spsh_error *err)
{
    spsh_status rc = spsh_file_writer_open(writer->options->io, writer->work_directory,
                                           PLAN_ITEMS_NAME, 0, NULL, &writer->file, err);
    while (rc == SPSH_OK) {
        spsh_bytes bytes = {NULL, 0};
        spsh_ingest_item item;
        rc = spsh__plan_scan_next(scan, &bytes, &item, err);
        if (rc == SPSH_OK)
            rc = write_item(writer, bytes, &item, err);
    }
    if (rc == SPSH_E_END)
        rc = close_unit(writer, err);
    if (rc == SPSH_OK)
        rc = flush_pending(writer, 0, err);
    if (rc == SPSH_OK)
        rc = spsh_file_writer_publish(writer->file, SPSH_PUBLISH_REPLACE, err);
    return rc;
}

static spsh_status write_rejects(const spsh_io *io, const char *work_directory,
                                 spsh__plan_scan *scan, spsh_error *err)
{
    spsh_file_writer *file = NULL;
    spsh_status rc =
        spsh_file_writer_open(io, work_directory, PLAN_REJECTS_NAME, 0, NULL, &file, err);

    while (rc == SPSH_OK) {
        spsh_bytes line = {NULL, 0};
        rc = spsh__plan_scan_next_reject(scan, &line, err);
        if (rc == SPSH_OK)
            rc = spsh_file_writer_write(file, line.data, line.size_bytes, err);
    }
    if (rc == SPSH_E_END)
        rc = spsh_file_writer_publish(file, SPSH_PUBLISH_REPLACE, err);
    spsh_file_writer_free(file);
    return rc;
}

spsh_status spsh__plan_publish(const spsh_pack_options *options, const char *work_directory,
                               const spsh__plan *plan, spsh_error *err)
{
    spsh__builder out = {0};
    const uint64_t counts[COUNT_WORDS] = {plan->row_count, plan->item_count, plan->source_bytes};
    const uint64_t policy[POLICY_WORDS] = {(uint64_t)options->dedupe, options->is_strict,
                                           options->rejects_max_ppm};
    const uint64_t head[] = {PLAN_VERSION, plan->unit_count};

    spsh__journal_numbers(&out, PLAN_HEAD, head, 2);
    for (size_t i = 0; i < options->corpus_count; i++)
        spsh__journal_text(&out, "corpus", spsh__bytes_of(options->corpora[i]));
    spsh__journal_text(&out, "options", spsh__builder_bytes(&plan->options));
    spsh__journal_text(&out, "folder", spsh__bytes_of(plan->folder));
    spsh__journal_text(&out, "work_directory", spsh__bytes_of(work_directory));
    spsh__journal_text(&out, "command", spsh__builder_bytes(&plan->command));
    spsh__journal_numbers(&out, "policy", policy, POLICY_WORDS);
    spsh__journal_hash(&out, "dataset", plan->dataset_id);
    spsh__journal_numbers(&out, "counts", counts, COUNT_WORDS);
    spsh__journal_numbers(&out, "reject_events", plan->rejects.events, SPSH_REJECT_COUNT);
    spsh__journal_numbers(&out, "reject_rows", plan->rejects.rows, SPSH_REJECT_COUNT);
    spsh__sources_append(&out, &plan->sources);
    spsh__published_append(&out, &plan->published);
    for (uint64_t i = 0; i < plan->unit_count; i++) {
        const spsh__plan_unit *unit = &plan->units[i];
        const uint64_t words[UNIT_WORDS] = {unit->offset_bytes, unit->size_bytes, unit->item_count,
                                            unit->source_bytes, unit->hash};
        spsh__journal_numbers(&out, "unit", words, UNIT_WORDS);
    }
    spsh_status rc =
        spsh__journal_publish(options->io, work_directory, PLAN_NAME, SPSH_PUBLISH_NEW, &out, err);
    spsh__builder_free(&out);
    return rc;
}

static spsh_status fill_plan(plan_writer *writer, spsh__plan_scan *scan, spsh_error *err)
{
    spsh__plan *plan = writer->plan;

    if (!options_json(writer->options, &plan->options))
        return SPSH_NO_MEMORY(err);
    spsh__pack_hasher_add(writer->identity, spsh__builder_bytes(&plan->options));
    spsh__scan_counts *counts = spsh__plan_scan_counts(scan);
    for (size_t i = 0; i < counts->sources.count; i++)
        spsh__pack_hasher_add(writer->identity, spsh__bytes_of(counts->sources.items[i].layout));
    spsh_status rc = write_items(writer, scan, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__pack_hasher_digest(writer->identity, plan->dataset_id);
    plan->sources = counts->sources;
    counts->sources = (spsh__sources){0};
    plan->published = counts->published;
    plan->rejects = counts->rejects;
    plan->row_count = plan->item_count + spsh__reject_rows(&plan->rejects);
    return write_rejects(writer->options->io, writer->work_directory, scan, err);
}

spsh_status spsh__plan_build(const spsh_pack_options *options, const char *work_directory,
                             const char *folder, const spsh__plan_unpacker *unpacker,
                             spsh__plan *ret_plan, spsh_error *err)
{
    spsh__plan_scan *scan = NULL;
    spsh__plan plan = {0};
    spsh__builder directory = {0};
    plan_writer writer = {.options = options, .plan = &plan};
    spsh_status rc = SPSH_OK;

    (void)snprintf(plan.folder, sizeof(plan.folder), "%s", folder);
    spsh__plan_command(options, &plan.command);
    writer.work_directory = spsh__builder_path(&directory, work_directory, folder);
    if (writer.work_directory == NULL || spsh__builder_text(&plan.command) == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    rc = spsh__plan_scan_run(options, writer.work_directory, unpacker, &scan, err);
    if (rc != SPSH_OK)
        goto out;
    writer.identity = spsh__pack_hasher_new();
    rc = writer.identity == NULL ? SPSH_NO_MEMORY(err) : fill_plan(&writer, scan, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_plan = plan;
    plan = (spsh__plan){0};
out:
    spsh_file_writer_free(writer.file);
    spsh__pack_hasher_free(writer.identity);
    SPSH__BUILDERS_FREE(&writer.pending, &writer.unit_items, &writer.recording, &directory);
    spsh__plan_scan_free(scan);
    spsh__plan_free(&plan);
    return rc;
}

spsh_status spsh__plan_options_equal(const spsh_pack_options *options, spsh_bytes json,
                                     bool *ret_equal, spsh_error *err)
{
    spsh__builder own = {0};
    const bool made = options_json(options, &own) && spsh__builder_text(&own) != NULL;

    *ret_equal = made && spsh__bytes_equal(spsh__builder_bytes(&own), json);
    spsh__builder_free(&own);
    return made ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): SPSH_GROW changes it */
static bool add_corpus(spsh__plan *plan, size_t *capacity, const char *corpus)
{
    if (!SPSH_GROW(plan->corpora, *capacity, plan->corpus_count + 1))
        return false;
    plan->corpora[plan->corpus_count] = strdup(corpus);
    return plan->corpora[plan->corpus_count++] != NULL;
}

/* Take the lines up to the options. *ret_same: the run that made the plan had the same corpora and
 * options. */
static spsh_status read_run(const spsh_pack_options *options, spsh__journal *journal,
                            spsh__plan *plan, bool *ret_same, spsh_error *err)
{
    const char *rest = NULL;
    size_t capacity = 0;

    *ret_same = true;
    while (spsh__journal_take(journal, "corpus", &rest)) {
        *ret_same = *ret_same && plan->corpus_count < options->corpus_count &&
                    strcmp(rest, options->corpora[plan->corpus_count]) == 0;
        if (!add_corpus(plan, &capacity, rest))
            return SPSH_NO_MEMORY(err);
    }
    if (!spsh__journal_take(journal, "options", &rest))
        return spsh__journal_malformed(journal, err);
    spsh__builder_append_text(&plan->options, rest);
    bool equal = false;
    spsh_status rc =
        plan->options.failed
            ? SPSH_NO_MEMORY(err)
            : spsh__plan_options_equal(options, spsh__builder_bytes(&plan->options), &equal, err);
    *ret_same = *ret_same && equal && plan->corpus_count == options->corpus_count;
    return rc;
}

/* Check that the run had the same corpora and options. */
static spsh_status check_same_run(const spsh_pack_options *options, spsh__journal *journal,
                                  bool any_options, spsh__plan *plan, spsh_error *err)
{
    bool same = false;
    spsh_status rc = read_run(options, journal, plan, &same, err);

    if (rc == SPSH_OK && !any_options && !same)
        rc = SPSH_FAIL(err, SPSH_E_EXISTS,
                       "%s holds an unfinished pack of other corpora or options; repeat that "
                       "command to finish it, or remove the directory to start again",
                       options->output);
    return rc;
}

static bool exists(const spsh_io *io, const char *directory, const char *folder, const char *name)
{
    spsh__builder path = {0};
    struct stat state;

    if (spsh__builder_path(&path, directory, folder) != NULL)
        spsh__builder_append_part(&path, name);
    const bool found = spsh__builder_text(&path) != NULL &&
                       io->stat_fn(io->user, (const char *)path.data, &state) == 0;
    spsh__builder_free(&path);
    return found;
}

/* Items of compressed archives refer to files in the work directory, by absolute paths. */
static spsh_status check_place(const spsh_pack_options *options, const char *work_directory,
                               const char *planned, const spsh__plan *plan, spsh_error *err)
{
    if (strcmp(planned, work_directory) == 0 ||
        (!exists(options->io, work_directory, ".", SPSH__PLAN_ARCHIVES_NAME) &&
         !exists(options->io, work_directory, plan->folder, SPSH__ARCHIVE_SPOOL_PREFIX "000000")))
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_EXISTS,
                     "%s: its archives were unpacked to %s; the dataset must have that path here, "
                     "too",
                     work_directory, planned);
}

static spsh_status read_policy(const spsh_pack_options *options, const char *work_directory,
                               spsh__journal *journal, spsh__plan *plan, spsh_error *err)
{
    const char *folder = NULL;
    const char *planned = NULL;
    const char *command = NULL;
    uint64_t policy[POLICY_WORDS];

    if (!spsh__journal_take(journal, "folder", &folder) || strlen(folder) >= sizeof(plan->folder) ||
        strchr(folder, '/') != NULL || !spsh__journal_take(journal, "work_directory", &planned) ||
        !spsh__journal_take(journal, "command", &command) ||
        !spsh__journal_take_numbers(journal, "policy", policy, POLICY_WORDS) ||
        policy[0] > SPSH_PACK_DEDUPE_PCM)
        return spsh__journal_malformed(journal, err);
    (void)snprintf(plan->folder, sizeof(plan->folder), "%s", folder);
    spsh__builder_append_text(&plan->command, command);
    plan->dedupe = (spsh_pack_dedupe)policy[0];
    plan->is_strict = policy[1] != 0;
    plan->rejects_max_ppm = policy[2];
    if (spsh__builder_text(&plan->command) == NULL)
        return SPSH_NO_MEMORY(err);
    return check_place(options, work_directory, planned, plan, err);
}

static bool read_units(spsh__journal *journal, spsh__plan *plan, uint64_t unit_count)
{
    if (unit_count > journal->size_bytes) /* each unit takes a line */
        return false;
    plan->units = calloc(unit_count + 1, sizeof(*plan->units));
    journal->no_memory = plan->units == NULL;
    while (plan->units != NULL && plan->unit_count < unit_count) {
        uint64_t w[UNIT_WORDS];
        if (!spsh__journal_take_numbers(journal, "unit", w, UNIT_WORDS))
            return false;
        plan->units[plan->unit_count++] = (spsh__plan_unit){w[0], w[1], w[2], w[3], w[4]};
    }
    return plan->units != NULL && journal->at == journal->size_bytes;
}

static bool read_body(spsh__journal *journal, spsh__plan *plan, uint64_t unit_count)
{
    uint64_t counts[COUNT_WORDS];

    if (!spsh__journal_take_hash(journal, "dataset", plan->dataset_id) ||
        !spsh__journal_take_numbers(journal, "counts", counts, COUNT_WORDS) ||
        !spsh__journal_take_numbers(journal, "reject_events", plan->rejects.events,
                                    SPSH_REJECT_COUNT) ||
        !spsh__journal_take_numbers(journal, "reject_rows", plan->rejects.rows,
                                    SPSH_REJECT_COUNT) ||
        !spsh__sources_take(journal, &plan->sources) || plan->sources.count == 0 ||
        !spsh__published_take(journal, &plan->published))
        return false;
    plan->row_count = counts[0];
    plan->item_count = counts[1];
    plan->source_bytes = counts[2];
    return read_units(journal, plan, unit_count);
}

spsh_status spsh__plan_load(const spsh_pack_options *options, const char *work_directory,
                            bool any_options, spsh__plan *ret_plan, spsh_error *err)
{
    spsh__journal journal = {0};
    spsh__plan plan = {0};
    spsh__builder path = {0};
    uint64_t head[2] = {0, 0};
    spsh_status rc = spsh__builder_path(&path, work_directory, PLAN_NAME) == NULL
                         ? SPSH_NO_MEMORY(err)
                         : spsh__journal_read(options->io, (const char *)path.data, &journal, err);
    if (rc != SPSH_OK)
        goto out;
    if (!spsh__journal_take_numbers(&journal, PLAN_HEAD, head, 2) || head[0] != PLAN_VERSION)
        rc = SPSH_FAIL(err, SPSH_E_EXISTS,
                       "%s holds an unfinished pack of another version of speechshard; remove the "
                       "directory to start again",
                       options->output);
    if (rc == SPSH_OK)
        rc = check_same_run(options, &journal, any_options, &plan, err);
    if (rc == SPSH_OK)
        rc = read_policy(options, work_directory, &journal, &plan, err);
    if (rc == SPSH_OK && !read_body(&journal, &plan, head[1]))
        rc = spsh__journal_malformed(&journal, err);
    if (rc != SPSH_OK)
        goto out;
    *ret_plan = plan;
    plan = (spsh__plan){0};
out:
    spsh__plan_free(&plan);
    spsh__journal_free(&journal);
    spsh__builder_free(&path);
    return rc;
}

static spsh_status read_range(const spsh_io *io, const char *path, const spsh__plan_unit *unit,
                              uint8_t *items, spsh_error *err)
{
    int fd = io->open_fn(io->user, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return SPSH_FAIL_OS(err, spsh_io_status(-fd), -fd, "%s: %s", path, strerror(-fd));
    spsh_status rc =
        spsh_io_read_exact(io, fd, items, unit->size_bytes, unit->offset_bytes, path, err);
    (void)io->close_fn(io->user, fd);
    if (rc == SPSH_OK && spsh__pack_hash64((spsh_bytes){items, unit->size_bytes}) != unit->hash)
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT,
                       "%s: the file is damaged at %" PRIu64
                       "; remove the work directory to start again",
                       path, unit->offset_bytes);
    return rc;
}

spsh_status spsh__plan_read_unit(const spsh_io *io, const char *work_directory,
                                 const spsh__plan *plan, uint64_t unit, uint8_t **ret_items,
                                 spsh_error *err)
{
    const spsh__plan_unit *planned = &plan->units[unit];
    spsh__builder path = {0};
    uint8_t *items = malloc(planned->size_bytes + 1);
    spsh_status rc = SPSH_OK;

    if (spsh__builder_path(&path, work_directory, plan->folder) != NULL)
        spsh__builder_append_part(&path, PLAN_ITEMS_NAME);
    if (items == NULL || spsh__builder_text(&path) == NULL)
        rc = SPSH_NO_MEMORY(err);
    else
        rc = read_range(io, (const char *)path.data, planned, items, err);
    if (rc == SPSH_OK) {
        *ret_items = items;
        items = NULL;
    }
    free(items);
    spsh__builder_free(&path);
    return rc;
}

void spsh__plan_free(spsh__plan *plan)
{
    for (size_t i = 0; i < plan->corpus_count; i++)
        free(plan->corpora[i]);
    free(plan->corpora);
    free(plan->units);
    SPSH__BUILDERS_FREE(&plan->options, &plan->command);
    spsh__sources_free(&plan->sources);
    *plan = (spsh__plan){0};
}
