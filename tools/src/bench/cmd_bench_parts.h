/* cmd_bench_parts.h: the measurements of `speechshard bench`, part by part.
 *
 *     spsh__bench_sample_take(plan, &datasets, &sample)   first utterances of an epoch
 *     spsh__bench_disk_read                               only read them
 *     spsh__bench_sample_load, spsh__bench_decode         only decode them, from memory
 *     spsh__bench_device_open, _copy                      copy to a device
 *     spsh__bench_load                                    run the whole loader, in batches
 *
 * Each part works as in the loader: the same files, record sizes, engine, and number of threads.
 * The functions report failures and return an exit status.
 */
#ifndef SPSH_CMD_BENCH_PARTS_H
#define SPSH_CMD_BENCH_PARTS_H

#include "cli/plan_words.h"
#include "common/json_out.h"

/** One utterance of the sample. */
typedef struct spsh__bench_record {
    uint32_t file; /* index of the file in the sample */
    uint32_t record_bytes;
    uint64_t offset_bytes;
    uint64_t first_sample, samples; /* range of the recording */
    uint64_t microseconds;
    uint32_t channels, sample_rate_hz;
    spsh_codec codec;
    spsh_bytes payload;  /* in memory; borrowed from the sample; empty: not loaded */
    bool is_undecodable; /* marked undecodable by pack: not measured */
} spsh__bench_record;

typedef struct spsh__bench_file {
    uint32_t dataset, shard;
    uint8_t id[16];
    char *path;
} spsh__bench_file;

typedef struct spsh__bench_sample {
    spsh__bench_record *records;
    size_t count, loaded; /* loaded: number of records in memory, from the first on */
    spsh__bench_file *files;
    uint32_t file_count;
    uint64_t record_bytes; /* size of all records */
    uint64_t left_out;     /* records that are too long, or in too many shards */
    uint8_t *memory;
} spsh__bench_sample;

/** Take utterances of rank 0 of world_size, in the order of epoch 0. */
int spsh__bench_sample_take(const spsh_plan *plan, const spsh__datasets *datasets,
                            uint32_t world_size, spsh__bench_sample *ret_sample);
/** Read and check as many records as memory allows. */
int spsh__bench_sample_load(spsh__bench_sample *sample, uint32_t read_flags);
void spsh__bench_sample_free(spsh__bench_sample *sample);

/** Result of only reading. */
typedef struct spsh__bench_disk {
    char engine[16];
    bool direct;
    uint64_t bytes, reads;
    double seconds, cpu_seconds;
} spsh__bench_disk;

/** Read files from end to end, or records in the order of the epoch. */
int spsh__bench_disk_read(const spsh__bench_sample *sample, uint32_t read_flags, bool sequential,
                          double seconds, spsh__bench_disk *ret_disk);

/** Result of only decoding: threads decode the records in memory, one after the other. */
typedef struct spsh__bench_decoded {
    uint32_t threads;
    uint64_t utterances, microseconds, payload_bytes;
    double seconds, cpu_seconds;
} spsh__bench_decoded;

int spsh__bench_decode(const spsh__bench_sample *sample, const spsh__plan_words *words,
                       uint32_t threads, double seconds, spsh__bench_decoded *ret_decoded);

/** A device that batches are copied to. */
typedef struct spsh__bench_device {
    spsh_cuda *cuda; /* NULL: batches stay on the host */
    uint32_t number;
    spsh_cuda_device is;
    uint64_t copy_bytes; /* size of one plain copy; size and time of all copies: */
    uint64_t bytes;
    double seconds;
} spsh__bench_device;

/** Open a device, or report why it is unavailable. */
int spsh__bench_device_open(uint64_t number, spsh__bench_device *ret_device);
/** Measure copies of the size of a batch. */
int spsh__bench_device_copy(uint64_t batch_bytes, double seconds, spsh__bench_device *device);
void spsh__bench_device_close(spsh__bench_device *device);

/** Result of the loader, measured after its start-up. */
typedef struct spsh__bench_loaded {
    spsh_loader_stats stats; /* counters of the measured time; gaps and names since open */
    double first_batch_seconds;
    double seconds, cpu_seconds;
} spsh__bench_loaded;

int spsh__bench_load(const spsh__datasets *datasets, const spsh_loader_options *options,
                     double seconds, spsh__bench_loaded *ret_loaded);

/** Drop the shards of all datasets from the page cache. *ret_resident: the share that is still
 * resident, according to mincore. */
int spsh__bench_cache_drop(const spsh__datasets *datasets, double *ret_resident);

typedef struct spsh__bench_clock {
    double wall, cpu; /* seconds; cpu: sum over all threads of the process */
} spsh__bench_clock;
spsh__bench_clock spsh__bench_now(void);

/* ---- the result ---- */

typedef struct spsh__bench_result {
    const spsh__datasets *datasets;
    const spsh_plan *plan;
    spsh__bench_sample sample;
    spsh__bench_disk sequential, random;
    spsh__bench_decoded decoded;
    spsh__bench_device device;
    spsh__bench_loaded loaded;
    bool dropped;    /* dropped from the page cache */
    double resident; /* largest share that stayed resident */
} spsh__bench_result;

int spsh__bench_print(const spsh__bench_result *result);
void spsh__bench_put(spsh_json *json, const spsh__bench_result *result);

#endif
