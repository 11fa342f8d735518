/* cmd_bench_sample.c: the first utterances of an epoch, and their records in memory.
 *
 * The utterances come in the order of the plan, so sizes, codecs, and positions are the same as in
 * the loader. They are few enough to be decoded repeatedly, but too many for a processor's cache.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd_bench_parts.h"
#include "speechshard/inside.h"
#include "speechshard/read_engine.h"

enum { RECORDS_MAX = 32768, FILES_MAX = 64, RECORD_BYTES_MAX = 16 << 20, PATH_BYTES_MAX = 4096 };
#define MEMORY_BYTES_MAX (UINT64_C(128) << 20)

/* ---- choosing ---- */

/* Find or add the file of a shard. *ret_file: its index in the sample; FILES_MAX if there are too
 * many files. */
static spsh_status file_number(spsh__bench_sample *sample, const spsh__datasets *datasets,
                               uint32_t dataset, uint32_t shard, uint32_t *ret_file,
                               spsh_error *err)
{
    char name[32], path[PATH_BYTES_MAX];
    spsh_shard_seal seal;
    uint32_t file = 0;
    while (file < sample->file_count &&
           (sample->files[file].dataset != dataset || sample->files[file].shard != shard))
        file++;
    *ret_file = file;
    if (file < sample->file_count || file == FILES_MAX)
        return SPSH_OK;
    spsh_status rc = spsh_dataset_shard(datasets->items[dataset], shard, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_shard_file_name(seal.unit, seal.number, name);
    snprintf(path, sizeof(path), "%s/shards/%s", spsh_dataset_path(datasets->items[dataset]), name);
    sample->files[file].path = strdup(path);
    if (sample->files[file].path == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "bench: no memory");
    sample->files[file].dataset = dataset;
    sample->files[file].shard = shard;
    memcpy(sample->files[file].id, seal.file_id, sizeof(seal.file_id));
    sample->file_count++;
    return SPSH_OK;
}

static spsh_status add_item(spsh__bench_sample *sample, const spsh__datasets *datasets,
                            const spsh_item *item, spsh_error *err)
{
    spsh_row row;
    uint32_t file = 0;
    spsh_status rc =
        spsh_dataset_rows(datasets->items[item->dataset], item->position, 1, &row, err);
    if (rc == SPSH_OK)
        rc = file_number(sample, datasets, item->dataset, row.payload_shard, &file, err);
    if (rc != SPSH_OK)
        return rc;
    if (file == FILES_MAX || row.record_bytes > RECORD_BYTES_MAX) {
        sample->left_out++;
        return SPSH_OK;
    }
    sample->records[sample->count++] = (spsh__bench_record){
        .file = file,
        .record_bytes = row.record_bytes,
        .offset_bytes = row.record_offset_bytes,
        .first_sample = row.start_sample + item->start_sample,
        .samples = item->samples,
        .microseconds = item->microseconds,
        .channels = row.channels,
        .sample_rate_hz = row.sample_rate_hz,
        .codec = row.codec,
    };
    sample->record_bytes += row.record_bytes;
    return SPSH_OK;
}

static spsh_status add_batches(spsh__bench_sample *sample, const spsh__datasets *datasets,
                               spsh_sampler *sampler, spsh_error *err)
{
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    spsh_status rc = SPSH_OK;
    while (sample->count + sample->left_out < RECORDS_MAX &&
           (rc = spsh_sampler_next(sampler, &batch, err)) == SPSH_OK) {
        for (uint32_t i = 0; i < batch.item_count && sample->count < RECORDS_MAX; i++) {
            rc = add_item(sample, datasets, &batch.items[i], err);
            if (rc != SPSH_OK)
                return rc;
        }
    }
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

int spsh__bench_sample_take(const spsh_plan *plan, const spsh__datasets *datasets,
                            uint32_t world_size, spsh__bench_sample *ret_sample)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_sampler *sampler = NULL;
    spsh__bench_sample sample = {
        .records = (spsh__bench_record *)calloc(RECORDS_MAX, sizeof(spsh__bench_record)),
        .files = (spsh__bench_file *)calloc(FILES_MAX, sizeof(spsh__bench_file)),
    };
    if (sample.records == NULL || sample.files == NULL) {
        spsh__bench_sample_free(&sample);
        return spsh__cli_fail_memory();
    }
    spsh_status rc = spsh_sampler_open(plan, 0, world_size, &sampler, &err);
    if (rc == SPSH_OK)
        rc = add_batches(&sample, datasets, sampler, &err);
    spsh_sampler_close(sampler);
    if (rc != SPSH_OK) {
        spsh__bench_sample_free(&sample);
        return spsh__cli_fail(NULL, &err);
    }
    *ret_sample = sample;
    return SPSH_EXIT_DONE;
}

/* ---- loading ---- */

static spsh_status keep_payload(spsh__bench_sample *sample, spsh__bench_record *r,
                                const spsh_read_completion *done, uint8_t *memory, spsh_error *err)
{
    spsh_record record;
    spsh_bytes payload;
    if (done->status != SPSH_OK) {
        spsh_error_set(err, done->status, done->os_errno, r->offset_bytes, "%s: at %llu: %s",
                       sample->files[r->file].path, (unsigned long long)r->offset_bytes,
                       spsh_status_text(done->status));
        return done->status;
    }
    spsh_status rc = spsh_record_check(sample->files[r->file].id, done->offset_bytes, done->data,
                                       done->got_bytes, &record, &payload, err);
    if (rc != SPSH_OK) {
        const spsh_error why = *err;
        spsh_error_set(err, rc, 0, why.offset_bytes, "%s: %s", sample->files[r->file].path,
                       why.message);
        return rc;
    }
    memcpy(memory, payload.data, payload.size_bytes);
    r->payload = (spsh_bytes){memory, payload.size_bytes};
    r->is_undecodable = (record.flags & SPSH_RECORD_UNDECODABLE) != 0;
    return SPSH_OK;
}

static spsh_status read_payloads(spsh__bench_sample *sample, spsh_read_engine *engine, size_t count,
                                 spsh_error *err)
{
    uint32_t files[FILES_MAX];
    size_t asked = 0, used = 0;
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; i < sample->file_count && rc == SPSH_OK; i++)
        rc = spsh_read_engine_add_file(engine, sample->files[i].path, &files[i], err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++) {
        spsh_read_completion done;
        for (; asked < count && rc == SPSH_OK &&
               spsh_read_has_space(engine, sample->records[asked].record_bytes);
             asked++)
            rc = spsh_read_submit(engine, files[sample->records[asked].file],
                                  sample->records[asked].offset_bytes,
                                  sample->records[asked].record_bytes, asked, err);
        if (rc == SPSH_OK)
            rc = spsh_read_wait(engine, &done, err);
        if (rc != SPSH_OK)
            break;
        rc = keep_payload(sample, &sample->records[i], &done, sample->memory + used, err);
        used += sample->records[i].payload.size_bytes;
        spsh_read_recycle(engine, &done);
    }
    return rc;
}

/* Remove undecodable records. *count: the loaded records, which come first; it is reduced, too. */
static void drop_undecodable(spsh__bench_sample *sample, size_t *count)
{
    size_t kept = 0;
    for (size_t i = 0; i < sample->count; i++)
        if (!sample->records[i].is_undecodable)
            sample->records[kept++] = sample->records[i];
    *count -= sample->count - kept;
    sample->count = kept;
}

int spsh__bench_sample_load(spsh__bench_sample *sample, uint32_t read_flags)
{
    spsh_read_engine_options opt = SPSH_READ_ENGINE_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_read_engine *engine = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    for (; count < sample->count; count++) {
        if (bytes + sample->records[count].record_bytes > MEMORY_BYTES_MAX)
            break;
        bytes += sample->records[count].record_bytes;
    }
    sample->memory = (uint8_t *)malloc((size_t)bytes + 1);
    if (sample->memory == NULL)
        return spsh__cli_fail_memory();
    opt.files_max = FILES_MAX;
    opt.flags = read_flags;
    spsh_status rc = spsh_read_engine_open(&opt, &engine, &err);
    if (rc == SPSH_OK)
        rc = read_payloads(sample, engine, count, &err);
    spsh_read_engine_close(engine);
    if (rc != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    drop_undecodable(sample, &count);
    sample->loaded = count;
    return SPSH_EXIT_DONE;
}

void spsh__bench_sample_free(spsh__bench_sample *sample)
{
    for (uint32_t i = 0; i < sample->file_count; i++)
        free(sample->files[i].path);
    free(sample->files);
    free(sample->records);
    free(sample->memory);
    *sample = (spsh__bench_sample){0};
}
