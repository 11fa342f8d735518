/* unit.c: the placer. It takes prepared recordings in plan order and decides where each is stored.
 *
 * Only this code determines bytes of the dataset. It runs on one thread in plan order, so the
 * number of workers cannot change the dataset. A shard is closed if the next payload would exceed
 * the shard size.
 */
#include "unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "common/hash.h"
#include "corpus_file.h"
#include "plan/plan_item.h"
#include "prepare_pipeline.h"
#include "speechshard/inside.h"
#include "unit_journal.h"

/* A segment may end up to 10 ms after its recording, because manifests round. */
#define CLAMP_NS          UINT64_C(10000000)
#define NS_PER_SECOND     UINT64_C(1000000000)
#define NS_PER_MS         UINT64_C(1000000)
#define EXPANSION_KEEP    1U  /* memory per job, as a multiple of its source size: only the file, */
#define EXPANSION_ENCODE  16U /* or with lossy audio decoded to int16 and encoded */
#define RECORD_ROOM_BYTES UINT64_C(8192)

typedef struct placer {
    const spsh__unit_context *context;
    spsh__packed *packed;
    spsh__unit_state state;
    spsh__prepare_plan plan;
    spsh_shard_writer *writer; /* the shard being written, or NULL */
    spsh__builder extras; /* of the utterance being placed, if they differ from the item's extras */
    uint64_t done_items;  /* finished items of the whole plan, for progress */
    uint64_t done_bytes;
} placer;

/* ---- jobs ---- */

static bool same_recording(const spsh_ingest_item *a, const spsh_ingest_item *b)
{
    return spsh__bytes_equal(a->recording_id, b->recording_id) &&
           a->audio.offset_bytes == b->audio.offset_bytes &&
           strcmp(a->audio.path, b->audio.path) == 0;
}

static uint64_t cost_of(const spsh_pack_options *options, const spsh_ingest_item *item)
{
    uint64_t bytes =
        item->source_bytes == SPSH_SOURCE_BYTES_UNKNOWN ? UINT64_C(1) << 20 : item->source_bytes;
    return bytes * (options->codec == SPSH_PACK_KEEP ? EXPANSION_KEEP : EXPANSION_ENCODE);
}

/* Group the adjacent items of one recording into one job. */
static spsh_status make_jobs(placer *p, uint64_t item_count, spsh_error *err)
{
    spsh__prepare_plan *plan = &p->plan;
    spsh_ingest_item previous = {0};
    spsh_bytes rest = plan->items;
    size_t capacity = 0;

    for (uint64_t i = 0; i < item_count; i++) {
        const size_t at = plan->items.size_bytes - rest.size_bytes;
        spsh_ingest_item item;
        uint64_t sequence = 0;
        spsh_status rc = spsh__item_take(&rest, &item, &sequence, err);
        if (rc != SPSH_OK)
            return rc;
        if (i > 0 && same_recording(&previous, &item)) {
            plan->jobs[plan->job_count - 1].item_count++;
        } else {
            if (!SPSH_GROW(plan->jobs, capacity, plan->job_count + 1))
                return SPSH_NO_MEMORY(err);
            plan->jobs[plan->job_count++] =
                (spsh__prepare_job){at, 1, cost_of(p->context->options, &item)};
        }
        previous = item;
    }
    return SPSH_OK;
}

/* ---- rejects ---- */

static spsh__source_tally *tally_of(placer *p, uint64_t sequence)
{
    return &p->state.tallies[spsh__sources_of(&p->context->plan->sources, sequence)];
}

/* Add a line to the report of rejects. With 0 rows it only notes something about packed audio. */
static void report(placer *p, spsh_reject reject)
{
    reject.offset_bytes = SPSH_OFFSET_NONE;
    spsh__reject_append(&p->state.reject_lines, &p->state.rejects, &reject);
}

static void reject_item(placer *p, const spsh_ingest_item *item, spsh_reject_reason reason,
                        const char *detail)
{
    report(
        p,
        (spsh_reject){
            .reason = reason, .source = item->source, .id = item->id, .detail = detail, .rows = 1});
}

/* Add a note if the audio is longer or shorter than its metadata state. The length of the audio is
 * used. */
static void note_length(placer *p, const spsh_ingest_item *item, uint64_t audio_ns)
{
    const uint64_t expected_ms = (item->expected_ns + NS_PER_MS / 2) / NS_PER_MS;
    const uint64_t audio_ms = (audio_ns + NS_PER_MS / 2) / NS_PER_MS;
    char detail[160];

    if (!spsh__item_length_is_off(item, audio_ns))
        return;
    (void)snprintf(detail, sizeof(detail),
                   "the metadata state %" PRIu64 ".%03" PRIu64 " s, but the audio has %" PRIu64
                   ".%03" PRIu64 " s",
                   expected_ms / 1000, expected_ms % 1000, audio_ms / 1000, audio_ms % 1000);
    report(p, (spsh_reject){.reason = SPSH_REJECT_DURATION_MISMATCH,
                            .source = item->source,
                            .id = item->id,
                            .detail = detail});
}

/* ---- shards ---- */

static spsh_status seal_shard(placer *p, spsh_error *err)
{
    spsh_shard_seal seal;
    const bool is_open = p->writer != NULL;

    if (!is_open && !p->state.last)
        return SPSH_OK;
    if (is_open) {
        spsh_status rc = spsh_shard_writer_seal(p->writer, &seal, err);
        if (rc != SPSH_OK)
            return rc;
        spsh_shard_writer_free(p->writer);
        p->writer = NULL;
        p->state.shard_number++;
    }
    return spsh__unit_journal_write(p->context, &p->state, is_open ? &seal : NULL, p->packed, err);
}

static spsh_status open_shard(placer *p, spsh_error *err)
{
    spsh_shard_writer_options options = SPSH_SHARD_WRITER_OPTIONS_INIT;

    options.io = p->context->options->io;
    options.directory = p->context->directory;
    memcpy(options.dataset_id, p->context->plan->dataset_id, sizeof(options.dataset_id));
    options.unit = p->state.unit;
    options.number = p->state.shard_number;
    options.first_record = p->state.next_record;
    options.first_utterance = p->state.next_utterance;
    return spsh_shard_writer_open(&options, &p->writer, err);
}

/* Open a shard that has space for payload_bytes: keep the open shard, or seal it and open the next
 * one. */
static spsh_status ensure_shard(placer *p, size_t job_index, uint64_t payload_bytes,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;

    if (p->writer != NULL && spsh_shard_writer_size(p->writer) + payload_bytes + RECORD_ROOM_BYTES >
                                 p->context->options->shard_bytes) {
        p->state.next_job = job_index;
        rc = seal_shard(p, err);
    }
    if (rc == SPSH_OK && p->writer == NULL)
        rc = open_shard(p, err);
    return rc;
}

/* ---- copies ---- */

/* Whether the two files are equal byte for byte. Most copies are, and then nothing has to be
 * decoded. Different files may have the same stored bytes, e.g. a WAV file and a SPHERE file with
 * its samples. */
static spsh_status is_same_file(placer *p, const spsh__prepared *prepared,
                                const spsh_ingest_item *item, bool *ret_same, spsh_error *err)
{
    spsh__pack_source source = {0};

    *ret_same = false;
    if (item->audio.size_bytes != prepared->source_bytes &&
        item->audio.size_bytes != SPSH_SOURCE_BYTES_UNKNOWN)
        return SPSH_OK;
    spsh_status rc = spsh__pack_source_read(p->context->options->io, &item->audio,
                                            prepared->source_bytes, &source, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_same = !source.rejected && source.size_bytes == prepared->source_bytes &&
                memcmp(source.data, prepared->file, (size_t)prepared->source_bytes) == 0;
    free(source.data);
    return SPSH_OK;
}

/* Whether the audio of a recording equals the audio of an earlier job. Reads the source of the
 * earlier job again. */
static spsh_status is_copy_of(placer *p, const spsh__prepared *prepared, uint64_t job,
                              bool *ret_same, spsh_error *err)
{
    const spsh_pack_options *options = p->context->options;
    spsh_bytes rest = spsh__job_items(&p->plan, job);
    spsh__prepared earlier = {0};
    spsh_ingest_item item;
    uint64_t sequence = 0;

    spsh_status rc = spsh__item_take(&rest, &item, &sequence, err);
    if (rc == SPSH_OK)
        rc = is_same_file(p, prepared, &item, ret_same, err);
    if (rc != SPSH_OK || *ret_same)
        return rc;
    rc = spsh__prepare(options, &item, &earlier, err);
    if (rc == SPSH_OK)
        rc = spsh__prepared_equal(prepared, &earlier, options->dedupe, ret_same, err);
    spsh__prepared_free(&earlier);
    return rc;
}

static spsh_status find_copy(placer *p, const spsh__prepared *prepared, uint64_t *ret_record,
                             bool *ret_found, spsh_error *err)
{
    const spsh__stored_entry *entry = NULL;
    size_t at = 0;

    *ret_found = false;
    if (p->context->options->dedupe == SPSH_PACK_DEDUPE_NONE)
        return SPSH_OK;
    while (!*ret_found && spsh__stored_find(&p->state.stored, prepared->key, &at, &entry)) {
        spsh_status rc = is_copy_of(p, prepared, entry->job, ret_found, err);
        if (rc != SPSH_OK)
            return rc;
        *ret_record = entry->record;
    }
    return SPSH_OK;
}

/* ---- records and utterances ---- */

/* Return the nearest sample. Seconds and their remainder are converted separately to avoid an
 * overflow. */
static uint64_t samples_at(uint64_t time_ns, uint32_t rate_hz)
{
    uint64_t rest_ns = time_ns % NS_PER_SECOND;
    return time_ns / NS_PER_SECOND * rate_hz +
           (rest_ns * rate_hz + NS_PER_SECOND / 2) / NS_PER_SECOND;
}

static uint64_t time_of(uint64_t samples, uint32_t rate_hz)
{
    return samples / rate_hz * NS_PER_SECOND + samples % rate_hz * NS_PER_SECOND / rate_hz;
}

/* Convert an item's segment to samples. False, with the reason, if the recording does not contain
 * the segment. */
static bool segment_of(const spsh_ingest_item *item, const spsh_record *record,
                       spsh_utterance *utterance, bool *ret_clamped, char detail[160])
{
    uint64_t start = samples_at(item->start_ns, record->sample_rate_hz);
    uint64_t end = record->samples;

    *ret_clamped = false;
    if (item->end_ns != SPSH_SEGMENT_END) {
        end = samples_at(item->end_ns, record->sample_rate_hz);
        uint64_t tolerance = samples_at(CLAMP_NS, record->sample_rate_hz);
        if (end > record->samples && end - record->samples <= tolerance) {
            end = record->samples;
            *ret_clamped = true;
        }
    }
    if (start >= end || end > record->samples) {
        (void)snprintf(detail, 160,
                       "segment %" PRIu64 " ... %" PRIu64 " of a recording with %" PRIu64
                       " samples",
                       start, end, record->samples);
        return false;
    }
    utterance->start_sample = start;
    utterance->samples = end - start;
    return true;
}

/* Set the text of item number `at` of a job from its row, or from the sidecar that the worker read.
 * Returns false if the sidecar is rejected. */
static bool text_of(const spsh_ingest_item *item, const spsh__job_result *result, uint32_t at,
                    spsh_utterance *utterance)
{
    if (item->has_text) {
        utterance->text = item->text;
        utterance->flags = SPSH_UTTERANCE_HAS_TEXT;
    } else if (item->sidecar.path != NULL) {
        if (result->texts[at].detail != NULL)
            return false;
        utterance->text = spsh__builder_bytes(&result->texts[at].text);
        utterance->flags = SPSH_UTTERANCE_HAS_TEXT;
    }
    return true;
}

/* Whether any item of a job will be an utterance. Nothing is counted or reported. */
static bool has_utterance(const placer *p, const spsh__job_result *result)
{
    spsh_bytes rest = spsh__job_items(&p->plan, result->job);
    if (result->prepared.rejected)
        return false;
    for (uint32_t i = 0; i < p->plan.jobs[result->job].item_count; i++) {
        spsh_ingest_item item;
        spsh_utterance utterance;
        uint64_t sequence = 0;
        char detail[160];
        bool clamped = false;
        if (spsh__item_take(&rest, &item, &sequence, NULL) != SPSH_OK)
            return false;
        if (segment_of(&item, &result->prepared.record, &utterance, &clamped, detail) &&
            text_of(&item, result, i, &utterance))
            return true;
    }
    return false;
}

static bool make_utterance(placer *p, const spsh_ingest_item *item, const spsh__job_result *result,
                           uint32_t at, spsh_utterance *utterance)
{
    char detail[160];
    bool clamped = false;

    *utterance = (spsh_utterance){.id = item->id,
                                  .domain = item->domain,
                                  .split = item->split,
                                  .speaker = item->speaker,
                                  .language = item->language,
                                  .document = item->document,
                                  .source = item->source,
                                  .extras = item->extras};
    if (!segment_of(item, &result->prepared.record, utterance, &clamped, detail)) {
        reject_item(p, item, SPSH_REJECT_SEGMENT_RANGE, detail);
        return false;
    }
    if (!text_of(item, result, at, utterance)) {
        reject_item(p, item, result->texts[at].reason, result->texts[at].detail);
        return false;
    }
    p->state.counts.segments_clamped += clamped ? 1 : 0;
    return true;
}

/* If a source is stored as other bytes, add the hash of the source. The hash identifies the
 * original file. */
static spsh_status add_source_hash(placer *p, const spsh__prepared *prepared,
                                   spsh_utterance *utterance, spsh_error *err)
{
    const spsh_bytes given = utterance->extras;
    char hex[33];
    if (prepared->wrapped == NULL || given.size_bytes > SPSH_TEXT_BYTES_MAX - 64)
        return SPSH_OK;
    spsh__hex128(prepared->source_hash, hex);
    spsh__builder_clear(&p->extras);
    if (given.size_bytes > 2) { /* the object has at least one member */
        spsh__builder_append(&p->extras, given.data, given.size_bytes - 1);
        spsh__builder_append_text(&p->extras, ",");
    } else {
        spsh__builder_append_text(&p->extras, "{");
    }
    spsh__builder_append_text(&p->extras, "\"source_xxh3_128\":\"");
    spsh__builder_append_text(&p->extras, hex);
    spsh__builder_append_text(&p->extras, "\"}");
    if (p->extras.failed)
        return SPSH_NO_MEMORY(err);
    utterance->extras = spsh__builder_bytes(&p->extras);
    return SPSH_OK;
}

static void count_recording(placer *p, const spsh__prepared *prepared, bool copy)
{
    spsh__pack_counts *counts = &p->state.counts;
    const spsh_record *record = &prepared->record;

    counts->source_bytes += prepared->source_bytes;
    counts->pcm_bytes += prepared->pcm_bytes;
    counts->audio_ms += record->samples * 1000 / record->sample_rate_hz;
    counts->copies += copy ? 1 : 0;
    counts->undecodable += (record->flags & SPSH_RECORD_UNDECODABLE) != 0 ? 1 : 0;
    counts->unverified += prepared->unverified ? 1 : 0;
    counts->kept_as_is += prepared->kept_as_is ? 1 : 0;
    counts->resampled += (record->flags & SPSH_RECORD_RESAMPLED) != 0 ? 1 : 0;
    counts->decode_unjudged += (record->flags & SPSH_RECORD_TRUSTED) != 0 ? 1 : 0;
    spsh__level_count(&prepared->level, &p->state.levels);
}

/* Store the recording and set *ret_record to its number. For a copy, only count it: *ret_record is
 * already set. */
static spsh_status place_recording(placer *p, spsh__job_result *result, spsh_bytes recording_id,
                                   bool copy, uint64_t *ret_record, spsh_error *err)
{
    spsh__prepared *prepared = &result->prepared;

    count_recording(p, prepared, copy);
    if (copy)
        return SPSH_OK;
    if ((prepared->record.flags & SPSH_RECORD_UNDECODABLE) != 0)
        report(p, (spsh_reject){.reason = SPSH_REJECT_DECODER_LIMIT,
                                .id = recording_id,
                                .detail = prepared->detail});
    if (prepared->no_end_flag)
        report(p, (spsh_reject){.reason = SPSH_REJECT_NO_END_FLAG,
                                .id = recording_id,
                                .detail = prepared->detail});
    prepared->record.id = recording_id;
    spsh_status rc = spsh_shard_writer_add_record(p->writer, &prepared->record, prepared->payload,
                                                  ret_record, err);
    if (rc != SPSH_OK)
        return rc;
    p->state.next_record++;
    p->state.counts.records++;
    p->state.counts.payload_bytes += prepared->record.payload_bytes;
    if (p->context->options->dedupe == SPSH_PACK_DEDUPE_NONE)
        return SPSH_OK;
    spsh__stored_entry entry = {.record = *ret_record, .job = result->job};
    memcpy(entry.key, prepared->key, sizeof(entry.key));
    return spsh__stored_add(&p->state.stored, &entry, err);
}

/* Seal the shard, if necessary, before anything of the next job is counted. The journal of the
 * shard lists that job as unfinished, and a rerun would count the job again. */
static spsh_status prepare_shard(placer *p, const spsh__job_result *result, uint64_t *ret_record,
                                 bool *ret_copy, spsh_error *err)
{
    *ret_copy = false;
    if (!has_utterance(p, result))
        return SPSH_OK;
    spsh_status rc = find_copy(p, &result->prepared, ret_record, ret_copy, err);
    if (rc != SPSH_OK)
        return rc;
    return ensure_shard(p, result->job, *ret_copy ? 0 : result->prepared.record.payload_bytes, err);
}

static spsh_status place_job(placer *p, spsh__job_result *result, spsh_error *err)
{
    spsh_bytes rest = spsh__job_items(&p->plan, result->job);
    uint64_t record = 0;
    bool placed = false;
    bool copy = false;

    spsh_status rc = prepare_shard(p, result, &record, &copy, err);
    for (uint32_t i = 0; rc == SPSH_OK && i < p->plan.jobs[result->job].item_count; i++) {
        spsh_ingest_item item;
        spsh_utterance utterance;
        uint64_t sequence = 0;

        rc = spsh__item_take(&rest, &item, &sequence, err);
        if (rc != SPSH_OK)
            break;
        spsh__source_tally *tally = tally_of(p, sequence);
        if (result->prepared.rejected)
            reject_item(p, &item, result->prepared.reason, result->prepared.detail);
        if (result->prepared.rejected || !make_utterance(p, &item, result, i, &utterance)) {
            tally->rejected++;
            continue;
        }
        if (!placed)
            rc = place_recording(p, result, item.recording_id, copy, &record, err);
        placed = true;
        utterance.record = record;
        if (rc == SPSH_OK)
            rc = add_source_hash(p, &result->prepared, &utterance, err);
        if (rc == SPSH_OK)
            rc = spsh_shard_writer_add_utterance(p->writer, &utterance, err);
        if (rc != SPSH_OK)
            break;
        p->state.next_utterance++;
        tally->packed++;
        const uint64_t audio_ns =
            time_of(utterance.samples, result->prepared.record.sample_rate_hz);
        tally->audio_ns += audio_ns;
        note_length(p, &item, audio_ns);
        p->state.counts.packed++;
        p->state.counts.text_missing += (utterance.flags & SPSH_UTTERANCE_HAS_TEXT) == 0 ? 1 : 0;
    }
    if (rc == SPSH_OK && p->state.reject_lines.failed)
        rc = SPSH_NO_MEMORY(err);
    return rc;
}

/* ---- the unit ---- */

static spsh_status show_progress(placer *p, const spsh__job_result *result, spsh_error *err)
{
    const spsh_pack_options *options = p->context->options;
    const spsh__plan *plan = p->context->plan;

    p->done_items += p->plan.jobs[result->job].item_count;
    p->done_bytes += result->prepared.source_bytes;
    if (result->prepared.decode_ns > 0 && !result->prepared.rejected) {
        const spsh_record *record = &result->prepared.record;
        p->packed->decode_ns += result->prepared.decode_ns;
        p->packed->decode_audio_ms += record->samples * 1000 / record->sample_rate_hz;
    }
    if (options->counts_fn != NULL)
        options->counts_fn(options->user, p->done_items,
                           spsh__reject_rows(&plan->rejects) +
                               spsh__reject_rows(&p->packed->rejects) +
                               spsh__reject_rows(&p->state.rejects));
    return spsh__pack_progress(options, "pack", p->done_bytes, p->packed->total_bytes, err);
}

static spsh_status place_all(placer *p, spsh_error *err)
{
    spsh__ordered_work *work = NULL;
    spsh_status rc = spsh__prepare_start(&p->plan, &work, err);

    while (rc == SPSH_OK) {
        size_t job = 0;
        void *result = NULL;
        rc = spsh__ordered_work_next(work, &job, &result, err);
        if (rc != SPSH_OK)
            break;
        rc = place_job(p, result, err);
        if (rc == SPSH_OK)
            rc = show_progress(p, result, err);
        spsh__job_result_clear(result);
        spsh__ordered_work_release(work);
    }
    spsh__ordered_work_stop(work);
    if (rc != SPSH_E_END)
        return rc;
    p->state.next_job = p->plan.job_count;
    p->state.last = true;
    return seal_shard(p, err);
}

spsh_status spsh__unit_pack(const spsh__unit_context *context, uint64_t unit, spsh__packed *packed,
                            spsh_error *err)
{
    const spsh__plan_unit *planned = &context->plan->units[unit];
    placer p = {.context = context, .packed = packed, .state = {.unit = unit}};
    uint8_t *items = NULL;
    spsh_status rc = SPSH_OK;

    p.state.tallies = calloc(context->plan->sources.count, sizeof(*p.state.tallies));
    rc = p.state.tallies == NULL ? SPSH_NO_MEMORY(err)
                                 : spsh__unit_journal_resume(context, &p.state, packed, err);
    if (rc != SPSH_OK || p.state.last)
        goto out;
    rc = spsh__plan_read_unit(context->options->io, context->work_directory, context->plan, unit,
                              &items, err);
    if (rc != SPSH_OK)
        goto out;
    p.plan = (spsh__prepare_plan){
        .pack = context->options,
        .items = {items, (size_t)planned->size_bytes},
        .first_job = (size_t)p.state.next_job
    };
    p.done_items =
        packed->other_items + packed->counts.packed + spsh__reject_rows(&packed->rejects);
    p.done_bytes = packed->other_bytes + packed->counts.source_bytes;
    rc = make_jobs(&p, planned->item_count, err);
    if (rc == SPSH_OK)
        rc = place_all(&p, err);
out:
    spsh_shard_writer_free(p.writer);
    spsh__stored_free(&p.state.stored);
    spsh__builder_free(&p.state.reject_lines);
    spsh__builder_free(&p.extras);
    free(p.state.tallies);
    free(p.plan.jobs);
    free(items);
    return rc;
}

spsh_status spsh__unit_load(const spsh__unit_context *context, uint64_t unit, spsh__packed *packed,
                            spsh_error *err)
{
    spsh__unit_state state = {.unit = unit};

    state.tallies = calloc(context->plan->sources.count, sizeof(*state.tallies));
    spsh_status rc = state.tallies == NULL
                         ? SPSH_NO_MEMORY(err)
                         : spsh__unit_journal_resume(context, &state, packed, err);
    if (rc == SPSH_OK && !state.last)
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: journal %" PRIu32 " of the unit is missing",
                       context->directory, state.part);
    spsh__stored_free(&state.stored);
    free(state.tallies);
    return rc;
}

bool spsh__packed_add_rejects(spsh__packed *packed, const char *folder, const char *name)
{
    if (!SPSH_GROW(packed->reject_files, packed->reject_file_capacity,
                   packed->reject_file_count + 1))
        return false;
    (void)snprintf(packed->reject_files[packed->reject_file_count++], SPSH__REJECT_NAME_BYTES,
                   "%.60s/%.30s", folder, name);
    return true;
}

bool spsh__packed_begin(spsh__packed *packed, const spsh__plan *plan)
{
    packed->tallies = calloc(plan->sources.count, sizeof(*packed->tallies));
    return packed->tallies != NULL;
}

void spsh__packed_free(spsh__packed *packed)
{
    free(packed->seals);
    free(packed->reject_files);
    free(packed->tallies);
    *packed = (spsh__packed){0};
}
