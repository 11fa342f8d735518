/* loader.h: batches of decoded speech from packed datasets, at the speed of the disk.
 *
 *     const spsh_dataset *datasets[] = {dataset};
 *     spsh_plan_options plan = SPSH_PLAN_OPTIONS_INIT;
 *     plan.seed = 1;
 *     plan.batch_seconds_max = 600;
 *     spsh_loader_options opt = SPSH_LOADER_OPTIONS_INIT;
 *     opt.plan = &plan;
 *     if (spsh_loader_open(datasets, 1, &opt, &loader, &err) != SPSH_OK) ...
 *     while (spsh_loader_next(loader, &batch, &err) == SPSH_OK) {    // SPSH_E_END: the epoch's end
 *         ... batch->i16, batch->utterances[0 ... batch->utterance_count) ...
 *         spsh_loader_release(loader, batch);
 *     }
 *     spsh_loader_close(loader);
 *
 * One thread plans and reads; the decode threads write their output directly to its final position
 * in a batch. The order of the utterances depends only on datasets, options, and seed (sampler.h).
 * Threads, prefetch depth, read engine, and world size do not change it. Every record is verified
 * when it is read.
 *
 * A loader belongs to the process that opened it. In a forked child, functions that return a status
 * return SPSH_E_INVALID_ARG, the other functions return zeros, and a release has no effect. A host
 * batch that was borrowed before the fork stays readable in the child until the child closes the
 * loader. Open a new loader in the child instead; datasets may be used there (dataset.h).
 */
#ifndef SPEECHSHARD_LOADER_H
#define SPEECHSHARD_LOADER_H

#include "speechshard/augment.h"
#include "speechshard/cuda.h"
#include "speechshard/featgen.h"
#include "speechshard/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_LOADER_THREADS_MAX    UINT32_C(256)
#define SPSH_LOADER_SLOTS_MAX      UINT32_C(256)
#define SPSH_LOADER_MEMORY_DEFAULT (UINT64_C(1) << 30)
#define SPSH_LOADER_ROOM_SECONDS   2

/** Form of the audio in a batch. */
typedef enum spsh_output {
    SPSH_OUTPUT_INT16 = 0,    /* ragged: the utterances one after another */
    SPSH_OUTPUT_FLOAT32 = 1,  /* padded with zeros to the longest utterance; full scale is 1. If
                                 neither batch_utterances_max nor batch_padded_seconds_max limits a
                                 batch, batch_seconds_max limits its length after padding */
    SPSH_OUTPUT_FEATURES = 2, /* frames of features (featgen.h), padded like FLOAT32; computed from
                                 audio, or read from a feature dataset */
} spsh_output;

typedef enum spsh_engine {
    SPSH_ENGINE_AUTO = 0,  /* io_uring if the kernel allows it, else pread; logged */
    SPSH_ENGINE_URING = 1, /* fail without io_uring */
    SPSH_ENGINE_PREAD = 2,
} spsh_engine;

/** Policy for a record that cannot be read or verified, or whose audio is damaged. */
typedef enum spsh_on_error {
    SPSH_ON_ERROR_FAIL = 0,       /* spsh_loader_next fails and names the record and the reason */
    SPSH_ON_ERROR_SKIP = 1,       /* the batch omits the record */
    SPSH_ON_ERROR_SUBSTITUTE = 2, /* serve another utterance of the same domain and window, drawn
                                     from the seed; after 8 failed attempts, skip */
} spsh_on_error;

/** Policy for a record that pack marked as undecodable (SPSH_RECORD_UNDECODABLE): its bytes are
 * intact, but no decoder in this build reads them. */
typedef enum spsh_undecodable {
    SPSH_UNDECODABLE_SKIP = 0, /* omit it, or substitute it under SUBSTITUTE. The first one is
                                  logged; all are counted; they are not quarantined */
    SPSH_UNDECODABLE_FAIL = 1, /* spsh_loader_next fails, under any on_error */
} spsh_undecodable;

/** Where `pcm` payloads are decoded if batches go to a device. The host decodes other codecs. */
typedef enum spsh_decode {
    SPSH_DECODE_HOST = 0,
    SPSH_DECODE_DEVICE = 1, /* the host verifies and copies the compressed bytes only. Applies if
                               the device serves the samples unchanged or computes features from
                               them unchanged */
} spsh_decode;

/* Channels that are served. N >= 1: only channel N; an utterance without it is unreadable. */
#define SPSH_CHANNEL_MIX INT32_C(0)  /* mean of all channels, rounded half up, before resampling */
#define SPSH_CHANNEL_ALL INT32_C(-1) /* interleaved; all utterances of a batch have one count */

/**
 * Allocator of the slots' memory, for example memory that a device can read. The loader allocates
 * one block at open. alloc_fn returns memory aligned to 4096 bytes, or NULL on failure.
 */
typedef struct spsh_arena {
    void *(*alloc_fn)(void *user, size_t size_bytes);
    void (*free_fn)(void *user, void *memory, size_t size_bytes);
    void *user;
} spsh_arena;

typedef struct spsh_loader_options {
    size_t struct_size;
    const spsh_plan_options *plan; /* NULL: defaults; copied. The loader uses its allocator, too */
    spsh_log_fn log_fn;            /* NULL: no log; called from the loader's threads */
    void *log_user;
    const spsh_io *io; /* the same as for the datasets; NULL: the operating system; borrowed until
                          close */
    const spsh_arena *arena;   /* NULL: anonymous memory, in huge pages if available; copied */
    uint32_t rank, world_size; /* 0, 0: rank 0 of 1 */
    spsh_output output;
    int32_t channel; /* SPSH_CHANNEL_*, or a channel number from 1 */
    spsh_engine engine;
    spsh_on_error on_error;
    uint64_t quarantine_max;   /* maximum number of quarantined records; more are an error and are
                                  not logged one by one. 0: the larger of 16 and 0.01 % of the
                                  epoch */
    uint32_t decode_threads;   /* 0: one per core */
    uint32_t slots;            /* batches that are decoded ahead or borrowed; 0: 6; minimum 2 */
    uint64_t memory_bytes;     /* limit for slots and reads together; 0: SPSH_LOADER_MEMORY_DEFAULT.
                                  The loader uses fewer slots to stay below it, and fails below 2 */
    uint32_t slow_read_ms;     /* log and count a read that takes longer; 0: 5,000 */
    uint32_t read_deadline_ms; /* fail spsh_loader_next if a read takes longer; 0: 60,000 */
    uint32_t flags;            /* SPSH_LOADER_* */
    const spsh_feature_options *features; /* for SPSH_OUTPUT_FEATURES; copied. SPSH_NORM_SPEAKER and
                                             _DATASET use the dataset's stored statistics. For a
                                             feature dataset: NULL, or the options it was made
                                             with */
    spsh_feature_dtype feature_dtype;
    float feature_padding;               /* value of the frames after an utterance's last one */
    const spsh_augment_options *augment; /* NULL: none; copied. Drawn from plan->seed, the epoch,
                                            and the utterance's id. The plan counts lengths before a
                                            change of speed, which may make a batch longer */
    const spsh_dataset *const *noises;   /* datasets to draw noise from; borrowed until close. Each
                                            draw selects one of all their utterances, by dataset
                                            number and position; several channels are averaged.
                                            An unreadable noise fails next under FAIL; otherwise it
                                            is omitted, logged, and counted */
    uint32_t noise_count;
    const spsh_dataset *const *rooms; /* the same for room impulse responses (RIRs), of which the
                                         first SPSH_LOADER_ROOM_SECONDS are used */
    uint32_t room_count;
    const spsh_cuda *cuda; /* NULL: batches are in host memory. Else batches are in the memory of
                              `device`, where features are computed if possible
                              (docs/reference/LOADER.md, section 11). Borrowed until close */
    uint32_t device;
    spsh_decode decode;
    bool is_asked; /* serve batches in the order of spsh_loader_ask instead of the plan's order; for
                      one rank and one virtual rank only */
    spsh_undecodable undecodable;
} spsh_loader_options;

/* Flags. With neither CACHED nor DIRECT, the loader reads through the page cache if all shards fit
 * into half of the available memory, and with O_DIRECT otherwise. */
#define SPSH_LOADER_CACHED  UINT32_C(1) /* read through the page cache */
#define SPSH_LOADER_DIRECT  UINT32_C(2) /* read with O_DIRECT */
#define SPSH_LOADER_NO_TEXT UINT32_C(4) /* leave ids, texts, and names empty; saves reading them */
#define SPSH_LOADER_SQPOLL  UINT32_C(8) /* io_uring: a kernel thread takes requests */

/* clang-format off */
#define SPSH_LOADER_OPTIONS_INIT {sizeof(spsh_loader_options), NULL, NULL, NULL, \
    NULL, NULL, 0, 0, SPSH_OUTPUT_INT16, SPSH_CHANNEL_MIX, SPSH_ENGINE_AUTO, SPSH_ON_ERROR_FAIL, \
    0, 0, 0, 0, 0, 0, 0, NULL, SPSH_FLOAT32, 0, NULL, NULL, 0, NULL, 0, NULL, 0, SPSH_DECODE_HOST, \
    false, SPSH_UNDECODABLE_SKIP}
/* clang-format on */

/** One utterance of a batch. Strings are borrowed until the batch is released. */
typedef struct spsh_batch_utterance {
    spsh_bytes id, text, speaker, language; /* empty when absent, or under SPSH_LOADER_NO_TEXT */
    uint64_t offset;  /* index of its first value in the batch's audio or features */
    uint64_t samples; /* per channel, after resampling and a change of speed */
    uint64_t frames;  /* number of feature frames; 0 for other outputs */
    spsh_item item;   /* source of the utterance */
    bool substitute;  /* replaces an utterance that could not be read */
} spsh_batch_utterance;

/**
 * A batch, borrowed until it is released. Until then the borrower may write to its audio, in the
 * arena's memory.
 *
 * int16: utterance u has utterances[u].samples * channels interleaved values from offset on; the
 * utterances follow one another. float32: the same, with offset = u * padded_samples * channels and
 * zeros after each utterance. features: frames of feature_dim values, with offset = u *
 * padded_frames * feature_dim.
 */
typedef struct spsh_batch {
    uint64_t epoch, step, number; /* as in spsh_planned_batch */
    uint32_t flags;               /* SPSH_BATCH_* */
    uint32_t utterance_count;
    uint32_t sample_rate_hz; /* 0 in an empty batch, like channels */
    uint32_t channels;
    spsh_output output;
    uint64_t padded_samples; /* samples of the longest utterance */
    const int16_t *i16;      /* output selects i16, f32, or features; the other two are NULL */
    const float *f32;
    const void *features; /* feature_dtype: float or IEEE 754 binary16 */
    spsh_feature_dtype feature_dtype;
    uint32_t feature_dim;
    uint64_t padded_frames; /* frames of the longest utterance */
    uint64_t value_count;   /* in i16, f32, or features */
    const spsh_batch_utterance *utterances;
    void *stream; /* NULL: i16, f32, or features are in host memory. Else they are in device memory,
                     and this is the loader's cudaStream_t that writes them */
    void *ready;  /* cudaEvent_t recorded after the last write to the batch: wait for it
                     (spsh_cuda_event_wait) */
} spsh_batch;

/** Counters since open. */
typedef struct spsh_loader_stats {
    size_t struct_size;
    char engine[16]; /* "io_uring" or "pread" */
    bool direct;     /* O_DIRECT is in use */
    uint32_t slots;  /* slots in use: those requested, or as many as fit into memory_bytes */
    uint32_t decode_threads;
    uint64_t memory_bytes; /* slots, reads, and tables; a cache of texts adds at most 1/16 */
    uint64_t device_bytes; /* slots in device memory */
    uint64_t copied_bytes; /* bytes whose copy to the device has been enqueued */
    bool pinned;           /* host slots are pinned: copies to the device use no CPU time */
    uint64_t batches, empty_batches, utterances;
    uint64_t microseconds;        /* audio served */
    uint64_t padded_microseconds; /* audio and padding: padding is 1 - microseconds / this */
    uint64_t reads, read_bytes;   /* requests to the read engine */
    uint64_t needed_bytes;        /* bytes of records */
    uint64_t coalesced_reads;     /* records read together with an adjacent one */
    uint64_t range_reads;         /* utterances cut from longer recordings */
    uint64_t slow_reads;
    uint64_t retries;        /* records read again after a failed check */
    uint64_t bad_records;    /* records in batches that were skipped or substituted */
    uint64_t bad_sounds;     /* unreadable noises and RIRs that were omitted */
    uint64_t decode_cpu_ns;  /* CPU time of the decode threads, without feature_cpu_ns */
    uint64_t feature_cpu_ns; /* CPU time of augmentation and features */
    uint64_t io_cpu_ns;      /* CPU time of the thread that plans and reads */
    uint64_t wait_ns;        /* time that spsh_loader_next waited */
    uint64_t stalls;         /* calls of spsh_loader_next that waited more than one millisecond */
    uint64_t gap_p50_ns, gap_p99_ns, gap_max_ns; /* between the ends of consecutive next calls */
    uint64_t undecodable_records; /* found so far, also in batches that next has not returned yet */
} spsh_loader_stats;
/* clang-format off */
#define SPSH_LOADER_STATS_INIT {sizeof(spsh_loader_stats), {0}, false, 0, 0, 0, 0, 0, false, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/** A skipped record. */
typedef struct spsh_bad_record {
    uint32_t dataset;
    uint64_t position;
    uint64_t epoch;
    spsh_error error; /* names dataset, shard, utterance, offset; SPSH_E_CANCELED: a restored cursor
                         had it in quarantine */
} spsh_bad_record;

typedef struct spsh_loader spsh_loader;

/**
 * Open a loader over datasets and start its threads.
 *
 * @param datasets    borrowed until close
 * @param options     NULL for defaults; copied
 * @return SPSH_OK; any status of spsh_plan_open; SPSH_E_LIMIT (memory_bytes is too small; the
 * message states the minimum); SPSH_E_UNSUPPORTED (the requested engine is unavailable)
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_open(const spsh_dataset *const *datasets,
                                                     uint32_t dataset_count,
                                                     const spsh_loader_options *options,
                                                     spsh_loader **ret_loader, spsh_error *err);

/** Close from any thread; NULL is fine. Waits for reads in flight. A next that is waiting returns
 * SPSH_E_CANCELED at once. Borrowed batches become invalid.
 *
 * In a forked child, close waits for nothing: it unmaps the slots and closes the read engine's
 * descriptors, and does not affect the parent's reads or device. Shards that the loader's threads
 * had open are closed with the dataset. Small tables and the caller's arena stay allocated until
 * the child exits. */
SPSH_API void spsh_loader_close(spsh_loader *loader);

/** Return the plan that the loader opened; borrowed until close. Do not call it in a forked child:
 * a thread of the loader may have held the plan's mutex. */
SPSH_API const spsh_plan *spsh_loader_plan(const spsh_loader *loader);

/**
 * Return the next batch of this rank. One thread at a time.
 *
 * @param ret_batch  borrowed until release; written on success only
 * @return SPSH_OK; SPSH_E_END once at the end of each epoch: the next call starts the next epoch;
 * SPSH_E_LIMIT (all slots are borrowed, or too many bad records); SPSH_E_CANCELED (close was
 * called); SPSH_E_INVALID_ARG (in a forked child); the status of a record (SPSH_E_CORRUPT,
 * _TRUNCATED, _IO, _AUDIO, ...); SPSH_E_IO (a read took too long, or the device failed).
 *
 * A failure persists: until spsh_loader_seek or spsh_loader_cursor_restore succeeds, each call
 * returns the same status and message, even if batches have become ready. These do not persist:
 * END, TIMEOUT, CANCELED, LIMIT for borrowed slots, INVALID_ARG for a step that the epoch does not
 * have or that was not requested.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_next(spsh_loader *loader,
                                                     const spsh_batch **ret_batch, spsh_error *err);

/** Like spsh_loader_next, but wait at most timeout_ms (0: do not wait). SPSH_E_TIMEOUT: nothing has
 * changed, call again. For callers with other work to do in the meantime. */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_next_for(spsh_loader *loader, uint32_t timeout_ms,
                                                         const spsh_batch **ret_batch,
                                                         spsh_error *err);

/**
 * Request the batch of one step; needs is_asked. Batches are returned in the order of the requests.
 * The batch equals the one that a loader without is_asked serves at that step: the same utterances,
 * in the same order, with the same augmentation. Ascending steps, with or without gaps, are fast. A
 * step before the previous one, or in another epoch, is searched from the epoch's beginning. Any
 * thread.
 *
 * Without a request such a loader prepares nothing, and next returns SPSH_E_INVALID_ARG. It never
 * returns SPSH_E_END. Cursor and seek return SPSH_E_INVALID_ARG, because the caller knows which
 * steps it requested.
 *
 * @return SPSH_OK; SPSH_E_LIMIT (the outstanding requests equal the number of slots);
 * SPSH_E_INVALID_ARG (is_asked is not set); SPSH_E_CANCELED (close was called). If the epoch does
 * not have the step, the next call whose turn it is returns SPSH_E_INVALID_ARG once.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_ask(spsh_loader *loader, uint64_t epoch,
                                                    uint64_t step, spsh_error *err);

/** Return a batch to the loader. Any thread, in any order. */
SPSH_API void spsh_loader_release(spsh_loader *loader, const spsh_batch *batch);

/** Release a batch in device memory that a stream still uses. The loader reuses its memory after
 * `event`, which the caller recorded after that use. The event may be recorded again after the
 * return. NULL: like spsh_loader_release, which waits only for the copy to the device. The event is
 * ignored for a batch in host memory. */
SPSH_API void spsh_loader_release_after(spsh_loader *loader, const spsh_batch *batch, void *event);

/** Number of batches that could still be borrowed without a release. Any thread. */
SPSH_API uint32_t spsh_loader_slots_free(const spsh_loader *loader);

/**
 * Save the position after the last batch that spsh_loader_next returned; after SPSH_E_END, the
 * beginning of the next epoch. The bytes are spsh_cursor_encode's. If records are in quarantine, 12
 * bytes follow for each (u32 dataset, u64 position), and then a u64 XXH3-64 of them.
 *
 * @param cursor    buffer of capacity_bytes; NULL asks for the size only
 * @param ret_size  always written
 * @return SPSH_OK; SPSH_E_LIMIT (cursor is not NULL and capacity_bytes is too small). Only on the
 * thread that calls next.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_cursor_save(const spsh_loader *loader, void *cursor,
                                                            size_t capacity_bytes, size_t *ret_size,
                                                            spsh_error *err);

/**
 * Continue where any rank of any world size stopped, with the same datasets and plan options.
 * Quarantined records count as bad without being read. Batches that were decoded ahead are dropped.
 * Only on the thread that calls next.
 *
 * @return SPSH_OK, or a status of spsh_cursor_decode; then nothing has changed
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_cursor_restore(spsh_loader *loader,
                                                               const void *cursor,
                                                               size_t size_bytes, spsh_error *err);

/** Go to the beginning of a step. Only on the thread that calls next. SPSH_E_INVALID_ARG past the
 * epoch's end. */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_seek(spsh_loader *loader, uint64_t epoch,
                                                     uint64_t step, spsh_error *err);

/** Number of next calls in an epoch, without SPSH_E_END; costs what spsh_plan_batch_count costs.
 * Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_call_count(const spsh_loader *loader,
                                                           uint64_t epoch, uint64_t *ret_calls,
                                                           spsh_error *err);

/** Copy the counters. Set struct_size first; without it nothing is written. Any thread. */
SPSH_API void spsh_loader_stats_get(const spsh_loader *loader, spsh_loader_stats *ret_stats);

/** Write the counters as one JSON object, with the served seconds per domain. The string ends with
 * NUL and is truncated to capacity_bytes. Returns the full length without the NUL. Any thread. */
SPSH_API size_t spsh_loader_stats_json(const spsh_loader *loader, char *text,
                                       size_t capacity_bytes);

/** Units served from a domain of the plan. Any thread. */
SPSH_API uint64_t spsh_loader_domain_units(const spsh_loader *loader, uint32_t domain);

/** The number of quarantined records, and one of them. Any thread. */
SPSH_API uint64_t spsh_loader_bad_count(const spsh_loader *loader);
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_bad_get(const spsh_loader *loader, uint64_t number,
                                                        spsh_bad_record *ret_bad, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
