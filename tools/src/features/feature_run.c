/* feature_run.c: find the existing shards of features, make the others, and publish the dataset
 * when all exist.
 *
 * Only sealed shards are kept between runs. The dataset's id is a hash of everything that
 * determines its bytes (source, edits of the source, options, versions). A shard's file id is
 * derived from the dataset's id, so a run can tell whether an existing shard is the right one.
 */
#include "feature_run.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/file_names.h"
#include "common/hash.h"
#include "common/json_text.h"
#include "common/stored_table.h"
#include "feature_work.h"
#include "speechshard/features.h"
#include "speechshard/inside.h"

#define UNITS_MAX UINT64_C(1000000) /* a file name has six digits for it */

typedef struct run {
    spsh__feature_work work;
    uint8_t dataset_id[16];
    spsh__builder json; /* the manifest's options */
    spsh__builder shard_directory;
} run;

static size_t value_bytes(const spsh__feature_work *w)
{
    return w->options->dtype == SPSH_FLOAT16 ? 2 : 4;
}

/* ---- identity ---- */

static void member(spsh__builder *json, const char *key, const char *value)
{
    spsh__json_member(json, 0, spsh__bytes_of(key), spsh__bytes_of(value));
}

/* Write the manifest's options. Their beginning is specified in format-features.md, section 3. */
static void write_json(run *r)
{
    const spsh__feature_work *w = &r->work;
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    char source[33];
    (void)spsh_feature_options_text(&w->features, text, sizeof(text));
    spsh__hex128(spsh_dataset_info_get(w->source)->dataset_id, source);
    member(&r->json, "features", text);
    member(&r->json, "dtype", value_bytes(w) == 2 ? "float16" : "float32");
    member(&r->json, "source", source);
    member(&r->json, "tool", "speechshard " SPSH_VERSION_STRING);
    member(&r->json, "decoders", spsh_audio_versions());
    member(&r->json, "dedupe", "bytes");
    if (w->options->leave_out_damaged)
        member(&r->json, "damaged", "left-out");
    spsh__json_close(&r->json, 0);
}

/* Add the overlays of the source to the hash. Type, count, and name are enough, because a name is
 * never reused for other content. */
static spsh_status add_overlays(const run *r, spsh__pack_hasher *hasher, spsh_error *err)
{
    const spsh_dataset *source = r->work.source;
    const uint64_t count = spsh_dataset_info_get(source)->overlay_count;
    spsh_status rc = SPSH_OK;
    for (uint64_t n = 0; n < count && rc == SPSH_OK; n++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        char numbers[64];
        rc = spsh_dataset_overlay(source, n, &overlay, err);
        if (rc != SPSH_OK)
            break;
        (void)snprintf(numbers, sizeof(numbers), "|%d|%" PRIu64 "|%zu|", (int)overlay.type,
                       overlay.entry_count, overlay.name.size_bytes);
        spsh__pack_hasher_add(hasher, spsh__bytes_of(numbers));
        spsh__pack_hasher_add(hasher, overlay.name);
    }
    return rc;
}

/* Statistics need no hash: they are a function of the data hashed here. */
static spsh_status make_identity(run *r, spsh_error *err)
{
    const spsh_dataset_info *info = spsh_dataset_info_get(r->work.source);
    spsh__pack_hasher *hasher = spsh__pack_hasher_new();
    write_json(r);
    if (hasher == NULL || r->json.failed) {
        spsh__pack_hasher_free(hasher);
        return SPSH_NO_MEMORY(err);
    }
    spsh__pack_hasher_add(hasher, spsh__builder_bytes(&r->json));
    spsh__pack_hasher_add(hasher, (spsh_bytes){info->index_hash, sizeof(info->index_hash)});
    const spsh_status rc = add_overlays(r, hasher, err);
    spsh__pack_hasher_digest(hasher, r->dataset_id);
    spsh__pack_hasher_free(hasher);
    return rc;
}

static void shard_file_id(const run *r, uint64_t unit, uint8_t ret_id[16])
{
    uint8_t bytes[32] = {0};
    memcpy(bytes, r->dataset_id, 16);
    spsh__store_u64le(bytes + 16, unit);
    spsh__pack_hash128((spsh_bytes){bytes, sizeof(bytes)}, ret_id);
}

/* Hash the identity of an utterance's samples, as specified in format-features.md, section 3. */
static void view_of(const spsh__feature_work *w, const spsh_row *row, uint8_t ret_source[16])
{
    uint8_t bytes[40];
    memcpy(bytes, spsh_dataset_info_get(w->source)->dataset_id, 16);
    spsh__store_u32le(bytes + 16, row->payload_shard);
    spsh__store_u32le(bytes + 20, row->payload_record);
    spsh__store_u64le(bytes + 24, row->start_sample);
    spsh__store_u64le(bytes + 32, row->samples);
    spsh__pack_hash128((spsh_bytes){bytes, sizeof(bytes)}, ret_source);
}

/* ---- the output directory ---- */

/* Reject an existing folder that contains other files. */
static spsh_status check_output(const run *r, spsh_error *err)
{
    const char *output = r->work.options->output;
    DIR *open = opendir(output);
    const struct dirent *entry = NULL;
    bool foreign = false;
    while (open != NULL && (entry = readdir(open)) != NULL)
        foreign = foreign ||
                  (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                   strcmp(entry->d_name, "shards") != 0 && strstr(entry->d_name, ".spsh") == NULL);
    if (open != NULL)
        (void)closedir(open);
    return foreign
               ? SPSH_FAIL(
                     err, SPSH_E_EXISTS,
                     "%s: the directory is not empty and holds no features; choose another output",
                     output)
               : SPSH_OK;
}

/* Check whether the output is already this dataset. Another dataset is an error. */
static spsh_status check_published(run *r, bool *ret_there, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *dataset = NULL;
    const char *output = r->work.options->output;
    spsh_error why = SPSH_ERROR_INIT;
    opt.io = r->work.io;
    *ret_there = false;
    spsh_status rc = spsh_dataset_open(output, &opt, &dataset, &why);
    if (rc == SPSH_E_NOT_FOUND)
        return check_output(r, err);
    if (rc != SPSH_OK)
        return spsh__fail_again(rc, &why, err);
    r->work.facts.info = *spsh_dataset_info_get(dataset);
    spsh_dataset_close(dataset);
    if (memcmp(r->work.facts.info.dataset_id, r->dataset_id, 16) != 0)
        return SPSH_FAIL(err, SPSH_E_EXISTS,
                         "%s: already holds a dataset that was made from other input or with other "
                         "options; choose another output, or remove this one",
                         output);
    *ret_there = true;
    return SPSH_OK;
}

/* Check the sealed shard of a unit. SPSH_E_NOT_FOUND: not made yet. */
static spsh_status inspect_shard(run *r, uint64_t unit, spsh_shard_seal *ret_seal, spsh_error *err)
{
    spsh_shard_options opt = SPSH_SHARD_OPTIONS_INIT;
    spsh__builder path = {0};
    spsh_shard *shard = NULL;
    uint8_t file_id[16];
    char name[32];
    opt.io = r->work.io;
    spsh_shard_file_name(unit, 0, name);
    spsh_status rc =
        spsh__builder_path(&path, spsh__builder_text(&r->shard_directory), name) == NULL
            ? SPSH_NO_MEMORY(err)
            : spsh_shard_open((const char *)path.data, &opt, &shard, err);
    if (rc == SPSH_OK) {
        *ret_seal = *spsh_shard_info(shard);
        shard_file_id(r, unit, file_id);
        if (memcmp(file_id, ret_seal->file_id, sizeof(file_id)) != 0)
            rc = SPSH_FAIL(err, SPSH_E_EXISTS,
                           "%s: holds shards that were made from another dataset or with other "
                           "options; choose another output, or remove this one",
                           r->work.options->output);
    }
    spsh_shard_close(shard);
    spsh__builder_free(&path);
    return rc;
}

/* Check the shards of all parts. seals may be NULL. */
static spsh_status inspect_shards(run *r, spsh_shard_seal *seals, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    r->work.facts.missing_count = 0;
    for (uint64_t n = 0; n < r->work.shard_count && rc == SPSH_OK; n++) {
        spsh_shard_seal seal = {0};
        spsh_error why = SPSH_ERROR_INIT;
        rc = inspect_shard(r, n, &seal, &why);
        r->work.shards[n].is_made = rc == SPSH_OK;
        if (rc == SPSH_E_NOT_FOUND) {
            r->work.facts.missing_count++;
            rc = SPSH_OK;
        } else if (rc != SPSH_OK) {
            rc = spsh__fail_again(rc, &why, err);
        }
        if (seals != NULL)
            seals[n] = seal;
    }
    return rc;
}

/* ---- computing ---- */

/* On a worker thread: convert rows to their stored form, hash them, and compress them. */
static spsh_status encode_entry(const spsh__feature_work *w, spsh__feature_entry *entry,
                                const float *rows, spsh__feature_bytes *scratch, spsh_error *err)
{
    spsh_features_info info = {.dim = spsh_featgen_dim(w->featgen),
                               .value_bytes = (uint32_t)value_bytes(w),
                               .frame_count = entry->frame_count};
    const size_t values = (size_t)info.frame_count * info.dim;
    const size_t bound = spsh_features_bound(info.frame_count, info.dim, info.value_bytes);
    const void *stored = rows;
    view_of(w, &entry->row, info.source);
    if (bound == SIZE_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "utterance number %" PRIu64 ": %" PRIu64 " frames of %u values "
                         "are more than a record holds",
                         entry->position, info.frame_count, info.dim);
    spsh_status rc = spsh__feature_bytes_take(&entry->bytes, bound, 1, err);
    if (rc == SPSH_OK && info.value_bytes == 2) {
        rc = spsh__feature_bytes_take(scratch, values, 2, err);
        if (rc == SPSH_OK)
            spsh_half_from_float((uint16_t *)(void *)scratch->data, rows, values);
        stored = scratch->data;
    }
    if (rc != SPSH_OK)
        return rc;
    spsh_features_hash(&info, stored, entry->hash);
    memcpy(entry->source, info.source, sizeof(info.source));
    return spsh_features_encode(&info, stored, entry->bytes.data, bound, &entry->bytes.size_bytes,
                                err);
}

/* The shard being written. */
typedef struct placer {
    run *run;
    spsh_reader *reader; /* reader for transcripts */
    spsh_shard_writer *writer;
    spsh__stored stored; /* records in the shard so far, to which copies refer */
} placer;

/* Key of copies: equal samples and equal rows, because a norm may depend on the speaker. */
static void copy_key(const spsh__feature_entry *entry, uint8_t ret_key[16])
{
    uint8_t both[32];
    memcpy(both, entry->source, 16);
    memcpy(both + 16, entry->hash, 16);
    spsh__pack_hash128((spsh_bytes){both, sizeof(both)}, ret_key);
}

static spsh_status put_record(placer *p, const spsh__feature_entry *entry,
                              const spsh_utterance *utterance, uint64_t *ret_record,
                              spsh_error *err)
{
    const spsh_row *row = &entry->row;
    spsh_record record = {.id = utterance->id,
                          .payload_bytes = entry->bytes.size_bytes,
                          .samples = row->samples,
                          .sample_rate_hz = row->sample_rate_hz,
                          .nominal_rate_hz = row->sample_rate_hz,
                          .channels = row->channels,
                          .codec = SPSH_CODEC_FEATURES,
                          .format = SPSH_SAMPLE_F32,
                          .bits_per_sample = (uint32_t)(8 * value_bytes(&p->run->work)),
                          .flags = SPSH_RECORD_PCM_HASH | SPSH_RECORD_TRANSCODED};
    spsh__stored_entry stored = {.job = 0};
    const spsh__stored_entry *found = NULL;
    size_t at = 0;
    copy_key(entry, stored.key);
    if (spsh__stored_find(&p->stored, stored.key, &at, &found)) {
        *ret_record = found->record;
        return SPSH_OK;
    }
    memcpy(record.pcm_hash, entry->hash, sizeof(record.pcm_hash));
    spsh_status rc =
        spsh_shard_writer_add_record(p->writer, &record, entry->bytes.data, ret_record, err);
    stored.record = *ret_record;
    return rc == SPSH_OK ? spsh__stored_add(&p->stored, &stored, err) : rc;
}

static spsh_status put_entry(void *user, const spsh__feature_entry *entry, spsh_error *err)
{
    placer *p = user;
    spsh_utterance utterance;
    spsh_status rc = spsh_reader_metadata(p->reader, entry->position, &utterance, err);
    if (rc == SPSH_OK)
        rc = put_record(p, entry, &utterance, &utterance.record, err);
    utterance.start_sample = 0;
    return rc == SPSH_OK ? spsh_shard_writer_add_utterance(p->writer, &utterance, err) : rc;
}

static spsh_status make_shard(run *r, spsh__ordered_work *ordered, uint64_t unit,
                              spsh_reader *reader, spsh_error *err)
{
    spsh_shard_writer_options opt = SPSH_SHARD_WRITER_OPTIONS_INIT;
    placer p = {.run = r, .reader = reader};
    spsh_shard_seal seal;
    opt.io = r->work.io;
    opt.directory = spsh__builder_text(&r->shard_directory);
    memcpy(opt.dataset_id, r->dataset_id, sizeof(opt.dataset_id));
    opt.unit = unit;
    spsh_status rc = spsh_shard_writer_open(&opt, &p.writer, err);
    if (rc == SPSH_OK)
        rc = spsh__feature_work_shard(&r->work, ordered, unit, put_entry, &p, err);
    if (rc == SPSH_OK)
        rc = spsh_shard_writer_seal(p.writer, &seal, err);
    if (rc == SPSH_OK)
        r->work.facts.made_count++;
    spsh_shard_writer_free(p.writer);
    spsh__stored_free(&p.stored);
    return rc;
}

static spsh_status make_all(run *r, spsh_error *err)
{
    spsh__ordered_work *ordered = NULL;
    spsh_reader *reader = NULL;
    spsh_status rc = spsh__feature_work_open_featgen(&r->work, err);
    r->work.finish_fn = encode_entry;
    if (rc == SPSH_OK)
        rc = spsh_reader_open(r->work.source, &reader, err);
    if (rc == SPSH_OK)
        rc = spsh__feature_work_start(&r->work, &ordered, err);
    for (uint64_t n = 0; n < r->work.shard_count && rc == SPSH_OK; n++)
        if (r->work.shards[n].is_to_do)
            rc = make_shard(r, ordered, n, reader, err);
    spsh__ordered_work_stop(ordered);
    spsh_reader_close(reader);
    return rc;
}

/* ---- the dataset ---- */

/* True for temporaries of this part's shards that are still to be made. Other parts may be writing
 * other shards. */
static bool is_to_do(void *user, const char *name, size_t name_bytes)
{
    const run *r = user;
    char file[32];
    const char *digits = name;
    uint64_t unit = 0;
    if (!spsh__take_digits(&digits, UINT64_MAX, &unit) || unit >= r->work.shard_count ||
        !r->work.shards[unit].is_to_do)
        return false;
    spsh_shard_file_name(unit, 0, file);
    return strlen(file) == name_bytes && memcmp(file, name, name_bytes) == 0;
}

static spsh_status publish(run *r, spsh_error *err)
{
    spsh_publish_options opt = SPSH_PUBLISH_OPTIONS_INIT;
    const uint64_t source_rows =
        spsh_dataset_info_get(r->work.source)->utterance_count - r->work.skipped_count;
    spsh_shard_seal *seals = calloc((size_t)r->work.shard_count + 1, sizeof(*seals));
    if (seals == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = inspect_shards(r, seals, err);
    if (rc == SPSH_OK && r->work.facts.missing_count == 0) {
        uint64_t rows = 0;
        for (uint64_t n = 0; n < r->work.shard_count; n++)
            rows += seals[n].utterance_count;
        opt.io = r->work.io;
        opt.path = r->work.options->output;
        memcpy(opt.dataset_id, r->dataset_id, sizeof(opt.dataset_id));
        opt.seals = seals;
        opt.seal_count = r->work.shard_count;
        opt.dedupe = SPSH_DEDUPE_BYTES;
        opt.options_json = spsh__builder_bytes(&r->json);
        opt.reject_count = source_rows - rows;
        opt.source_row_count = source_rows;
        r->work.facts.info = (spsh_dataset_info)SPSH_DATASET_INFO_INIT;
        rc = spsh_dataset_publish(&opt, &r->work.facts.info, err);
        r->work.facts.published = rc == SPSH_OK;
    }
    free(seals);
    return rc;
}

static spsh_status prepare(run *r, const spsh__feature_run_options *options, spsh_error *err)
{
    spsh_status rc = spsh__feature_work_open(&r->work, options, false, err);
    if (rc == SPSH_OK)
        rc = make_identity(r, err);
    if (rc == SPSH_OK && r->work.shard_count > UNITS_MAX)
        rc = SPSH_FAIL(err, SPSH_E_LIMIT,
                       "%s: has more than a million shards, the limit of a dataset",
                       options->source);
    if (rc == SPSH_OK && options->output != NULL &&
        spsh__builder_path(&r->shard_directory, options->output, "shards") == NULL)
        rc = SPSH_NO_MEMORY(err);
    return rc;
}

static void finish(run *r)
{
    spsh__builder_free(&r->json);
    spsh__builder_free(&r->shard_directory);
    spsh__feature_work_close(&r->work);
}

static spsh_status run_all(run *r, spsh_error *err)
{
    /* Files of a killed run would make the output look like another program's folder. */
    spsh_dataset_leftovers_remove(r->work.options->output, r->work.io);
    spsh_status rc = check_published(r, &r->work.facts.already_there, err);
    if (rc != SPSH_OK || r->work.facts.already_there)
        return rc;
    rc = inspect_shards(r, NULL, err);
    if (rc == SPSH_OK)
        rc = spsh_io_make_directory(r->work.io, r->work.options->output, err);
    if (rc == SPSH_OK)
        rc = spsh_io_make_directory(r->work.io, spsh__builder_text(&r->shard_directory), err);
    spsh__feature_work_number_jobs(&r->work);
    if (rc == SPSH_OK && r->work.utterances_to_do > 0)
        spsh_stale_files_remove(r->work.io, spsh__builder_text(&r->shard_directory), is_to_do, r);
    if (rc == SPSH_OK)
        rc = make_all(r, err);
    return rc == SPSH_OK ? publish(r, err) : rc;
}

spsh_status spsh__feature_run(const spsh__feature_run_options *options,
                              spsh__feature_run_facts *ret_facts, spsh_error *err)
{
    run r = {.json = {0}};
    spsh_status rc = prepare(&r, options, err);
    if (rc == SPSH_OK)
        rc = run_all(&r, err);
    if (rc == SPSH_OK)
        *ret_facts = r.work.facts;
    finish(&r);
    return rc;
}

/* ---- estimates ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Return the position of the n-th utterance of the shards to do. */
static uint64_t to_do_position(const spsh__feature_work *w, uint64_t n)
{
    const spsh__feature_shard *shard = w->shards;
    while (!shard->is_to_do || n >= shard->seal.utterance_count) {
        n -= shard->is_to_do ? shard->seal.utterance_count : 0;
        shard++;
    }
    return shard->first + n;
}

static spsh_status add_audio(const spsh__feature_work *w, const spsh__feature_shard *shard,
                             double *seconds, spsh_error *err)
{
    spsh_row rows[64];
    const uint64_t capacity = sizeof(rows) / sizeof(rows[0]);
    const uint64_t total = shard->seal.utterance_count;
    for (uint64_t at = 0; at < total; at += capacity) {
        const uint64_t count = total - at < capacity ? total - at : capacity;
        const spsh_status rc = spsh_dataset_rows(w->source, shard->first + at, count, rows, err);
        if (rc != SPSH_OK)
            return rc;
        for (uint64_t i = 0; i < count; i++)
            if (!spsh__feature_is_skipped(w, shard->first + at + i))
                *seconds += (double)rows[i].samples / (double)rows[i].sample_rate_hz;
    }
    return SPSH_OK;
}

/* Measure utterances spread over all jobs until the time is up. Each next utterance falls between
 * the earlier ones. */
static spsh_status measure(spsh__feature_work *w, double measure_s,
                           spsh__feature_estimate *estimate, spsh_error *err)
{
    const spsh__feature_setup setup = {w->source, w->featgen, w->statistics};
    const double golden = 0.6180339887498949;
    spsh__feature_maker *maker = NULL;
    spsh__feature_entry entry = {.position = 0};
    spsh__feature_bytes scratch = {NULL, 0, 0};
    double place = 0.0;
    spsh_status rc = spsh__feature_maker_open(&setup, &maker, err);
    const double begin = cpu_seconds();
    while (rc == SPSH_OK && estimate->core_seconds < measure_s &&
           estimate->sample_count < w->utterances_to_do) {
        const float *rows = NULL;
        entry.position = to_do_position(w, (uint64_t)(place * (double)w->utterances_to_do));
        rc = spsh_dataset_rows(w->source, entry.position, 1, &entry.row, err);
        if (rc == SPSH_OK)
            rc = spsh__feature_maker_run(maker, entry.position, &entry.row, &rows,
                                         &entry.frame_count, err);
        if (rc == SPSH_OK)
            rc = encode_entry(w, &entry, rows, &scratch, err);
        if (rc == SPSH_OK) {
            estimate->feature_bytes += entry.bytes.size_bytes;
            estimate->sample_seconds +=
                (double)entry.row.samples / (double)entry.row.sample_rate_hz;
        }
        if (spsh__feature_is_damage(rc))
            rc = SPSH_OK; /* the run itself reports damage */
        estimate->sample_count++;
        place = place + golden >= 1.0 ? place + golden - 1.0 : place + golden;
        estimate->core_seconds = cpu_seconds() - begin;
    }
    spsh__feature_maker_close(maker);
    free(entry.bytes.data);
    free(scratch.data);
    return rc;
}

static spsh_status estimate_all(run *r, double measure_s, spsh__feature_estimate *estimate,
                                spsh_error *err)
{
    spsh__feature_work *w = &r->work;
    spsh_status rc = spsh__feature_work_open_featgen(w, err);
    if (rc == SPSH_OK && w->options->output != NULL)
        rc = inspect_shards(r, NULL, err);
    spsh__feature_work_number_jobs(w);
    for (uint64_t n = 0; n < w->shard_count && rc == SPSH_OK; n++) {
        if (!w->shards[n].is_to_do)
            continue;
        estimate->to_do_count++;
        rc = add_audio(w, &w->shards[n], &estimate->seconds, err);
    }
    if (rc == SPSH_OK)
        rc = measure(w, measure_s, estimate, err);
    const double factor =
        estimate->sample_seconds > 0.0 ? estimate->seconds / estimate->sample_seconds : 0.0;
    estimate->feature_bytes = (uint64_t)((double)estimate->feature_bytes * factor);
    estimate->core_seconds *= factor;
    estimate->shard_count = w->facts.shard_count;
    estimate->utterance_count = w->utterances_to_do;
    return rc;
}

spsh_status spsh__feature_estimate_make(const spsh__feature_run_options *options, double measure_s,
                                        spsh__feature_estimate *ret_estimate, spsh_error *err)
{
    run r = {.json = {0}};
    spsh__feature_estimate estimate = {0};
    spsh_status rc = prepare(&r, options, err);
    if (rc == SPSH_OK)
        rc = estimate_all(&r, measure_s, &estimate, err);
    if (rc == SPSH_OK)
        *ret_estimate = estimate;
    finish(&r);
    return rc;
}
