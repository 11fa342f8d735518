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
 * One thread plans and reads, others decode, each straight into its place in a batch. What comes in
 * which order follows from datasets, options and seed alone (sampler.h): threads, depth of
 * prefetching, engine and world size cannot change it. Every record is verified as it is read.
 *
 * A loader belongs to the process that opened it. In a child that was forked, functions that return
 * a status return SPSH_E_INVALID_ARG, the others return zeros, and a release has no effect. A batch
 * in the host's memory that was lent before the fork can be read in the child until the child
 * closes the loader. Open a loader in the child instead: datasets may be used there (dataset.h).
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

/** What a batch's audio is. */
typedef enum spsh_output {
    SPSH_OUTPUT_INT16 = 0,    /* ragged: utterance after utterance */
    SPSH_OUTPUT_FLOAT32 = 1,  /* padded with zeros to the longest; full scale is 1. Where neither
                                 batch_utterances_max nor batch_padded_seconds_max bounds a batch,
                                 batch_seconds_max bounds it after padding */
    SPSH_OUTPUT_FEATURES = 2, /* frames of features (featgen.h), padded as FLOAT32 is: computed from
                                 audio, or as a feature dataset stores them */
} spsh_output;

typedef enum spsh_engine {
    SPSH_ENGINE_AUTO = 0,  /* io_uring where the kernel allows it, else pread; logged */
    SPSH_ENGINE_URING = 1, /* or fail */
    SPSH_ENGINE_PREAD = 2,
} spsh_engine;

/** Policy for a record that cannot be read or verified, or whose audio is damaged. */
typedef enum spsh_on_error {
    SPSH_ON_ERROR_FAIL = 0,       /* spsh_loader_next fails, and says which record and why */
    SPSH_ON_ERROR_SKIP = 1,       /* the batch comes without it */
    SPSH_ON_ERROR_SUBSTITUTE = 2, /* another utterance of the domain and window, drawn from the
                                     seed; after 8 in vain, as SKIP */
} spsh_on_error;

/** Policy for a record that pack has marked undecodable (SPSH_RECORD_UNDECODABLE): its bytes are
 * intact, but no decoder here reads them. */
typedef enum spsh_undecodable {
    SPSH_UNDECODABLE_SKIP = 0, /* serve the batch without it, under SUBSTITUTE with another one. The
                                  first is logged, all are counted, none is in quarantine */
    SPSH_UNDECODABLE_FAIL = 1, /* spsh_loader_next fails, under any on_error */
} spsh_undecodable;

/** Where `pcm` payloads are decoded when batches go to a device. Others always by the host. */
typedef enum spsh_decode {
    SPSH_DECODE_HOST = 0,
    SPSH_DECODE_DEVICE = 1, /* the host verifies and moves the compressed bytes alone, where the
                               samples are served, or made features of by the device, as they are */
} spsh_decode;

/* Which channels of a recording are served. Numbers 1, 2, ... : that one alone; an utterance that
 * does not have it cannot be read. */
#define SPSH_CHANNEL_MIX INT32_C(0)  /* their mean, halves up, before resampling */
#define SPSH_CHANNEL_ALL INT32_C(-1) /* interleaved; a batch holds one channel count */

/**
 * Where the slots' memory comes from: one block, taken at open. For memory that a device can read.
 * alloc_fn returns NULL on failure; its result is aligned to 4096 bytes.
 */
typedef struct spsh_arena {
    void *(*alloc_fn)(void *user, size_t size_bytes);
    void (*free_fn)(void *user, void *memory, size_t size_bytes);
    void *user;
} spsh_arena;

typedef struct spsh_loader_options {
    size_t struct_size;
    const spsh_plan_options *plan; /* NULL: defaults; copied. Its allocator is the loader's */
    spsh_log_fn log_fn;            /* NULL: nothing is said; called from the loader's threads */
    void *log_user;
    const spsh_io *io; /* as the datasets'; NULL: the operating system; borrowed until close */
    const spsh_arena *arena;   /* NULL: anonymous memory, in huge pages where the kernel has them;
                                  copied */
    uint32_t rank, world_size; /* 0, 0: rank 0 of 1 */
    spsh_output output;
    int32_t channel; /* SPSH_CHANNEL_* or a number from 1 */
    spsh_engine engine;
    spsh_on_error on_error;
    uint64_t quarantine_max;   /* more records in quarantine are an error, and are not logged one
                                  by one; 0: 16, or 0.01 % of the epoch where that is more */
    uint32_t decode_threads;   /* 0: as many as there are cores */
    uint32_t slots;            /* batches decoded ahead or lent; 0: 6; at least 2 */
    uint64_t memory_bytes;     /* of slots and reads together; 0: SPSH_LOADER_MEMORY_DEFAULT. When
                                  they do not fit, there are fewer slots; fewer than 2 fail */
    uint32_t slow_read_ms;     /* a read that takes longer is logged and counted; 0: 5,000 */
    uint32_t read_deadline_ms; /* a read that takes longer fails spsh_loader_next; 0: 60,000 */
    uint32_t flags;            /* SPSH_LOADER_* */
    const spsh_feature_options *features; /* for SPSH_OUTPUT_FEATURES: copied; SPSH_NORM_SPEAKER and
                                             _DATASET take the dataset's stored statistics. Of a
                                             feature dataset: NULL, or what it was made with */
    spsh_feature_dtype feature_dtype;
    float feature_padding;               /* value behind an utterance's frames */
    const spsh_augment_options *augment; /* NULL: none; copied. Drawn from plan->seed, the epoch and
                                            the utterance's id. Lengths of the plan are those before
                                            a change of speed; a batch may get longer by it */
    const spsh_dataset *const *noises;   /* datasets to draw noise from; borrowed until close. One
                                            of all utterances is drawn, by the number of the dataset
                                            and the position; of several channels, their mean. One
                                            that cannot be read fails next under on_error = FAIL;
                                            else it is left out, logged and counted */
    uint32_t noise_count;
    const spsh_dataset *const *rooms; /* ... and room responses, of which the first
                                         SPSH_LOADER_ROOM_SECONDS are used */
    uint32_t room_count;
    const spsh_cuda *cuda; /* NULL: batches are in the host's memory; else in that of `device`:
                              samples go there, features are computed there where they can be
                              (docs/LOADER.md, section 11). Borrowed until close */
    uint32_t device;
    spsh_decode decode;
    bool is_asked; /* batches come in the order of spsh_loader_ask, not of the plan, of which there
                      is one rank and one virtual one */
    spsh_undecodable undecodable;
} spsh_loader_options;

#define SPSH_LOADER_CACHED UINT32_C(1) /* read through the page cache */
#define SPSH_LOADER_DIRECT                                                                         \
    UINT32_C(                                                                                      \
        2) /* O_DIRECT. Neither: cached where all shards fit into half                        \
                   of the memory that is available, else direct */
#define SPSH_LOADER_NO_TEXT UINT32_C(4) /* ids, texts and names stay empty: saves reading them */
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
    uint64_t offset;  /* of its first value in the batch's audio or features */
    uint64_t samples; /* per channel, after resampling and a change of speed */
    uint64_t frames;  /* of features; else 0 */
    spsh_item item;   /* where it comes from */
    bool substitute;  /* stands in for another that could not be read */
} spsh_batch_utterance;

/**
 * A batch, lent until it is released. Its audio is the borrower's until then: it may be written to,
 * in the arena's memory, without harm to others.
 *
 * int16: utterance u has utterances[u].samples * channels values from offset on, interleaved, one
 * utterance right after the other. float32: the same, with offset = u * padded_samples * channels
 * and zeros behind. features: frames of feature_dim values, offset = u * padded_frames *
 * feature_dim.
 */
typedef struct spsh_batch {
    uint64_t epoch, step, number; /* as spsh_planned_batch */
    uint32_t flags;               /* SPSH_BATCH_* */
    uint32_t utterance_count;
    uint32_t sample_rate_hz; /* 0 when empty; as channels */
    uint32_t channels;
    spsh_output output;
    uint64_t padded_samples; /* of the longest utterance */
    const int16_t *i16;      /* one of the three, by output; the others are NULL */
    const float *f32;
    const void *features; /* feature_dtype: float or IEEE 754 binary16; NULL but for features */
    spsh_feature_dtype feature_dtype;
    uint32_t feature_dim;
    uint64_t padded_frames; /* of the longest utterance */
    uint64_t value_count;   /* in i16, f32 or features */
    const spsh_batch_utterance *utterances;
    void *stream; /* NULL: i16, f32 or features are in the host's memory. Else in the device's:
                     cudaStream_t of the loader, on which they come there ... */
    void *ready;  /* ... and the cudaEvent_t behind that: wait for it (spsh_cuda_event_wait) */
} spsh_batch;

/** Counters since open. Times in nanoseconds. */
typedef struct spsh_loader_stats {
    size_t struct_size;
    char engine[16]; /* "io_uring" or "pread" */
    bool direct;     /* O_DIRECT is in use */
    uint32_t slots;  /* as they fit */
    uint32_t decode_threads;
    uint64_t memory_bytes; /* of slots, reads and tables; texts' cache: a sixteenth more at most */
    uint64_t device_bytes; /* of slots in a device's memory */
    uint64_t copied_bytes; /* put on their way to it */
    bool pinned;           /* slots of the host are: copies to the device need no processor */
    uint64_t batches, empty_batches, utterances;
    uint64_t microseconds;        /* of audio served */
    uint64_t padded_microseconds; /* of slots filled: padding % = 1 - the first / the second */
    uint64_t reads, read_bytes;   /* of the engine, as asked for */
    uint64_t needed_bytes;        /* of records */
    uint64_t coalesced_reads;     /* records that came with a neighbour's read */
    uint64_t range_reads;         /* utterances cut out of longer recordings */
    uint64_t slow_reads;
    uint64_t retries;        /* records read a second time after a failed check */
    uint64_t bad_records;    /* met in batches: skipped or substituted */
    uint64_t bad_sounds;     /* noises and rooms that could not be read, and were left out */
    uint64_t decode_cpu_ns;  /* of the decode threads, without the next */
    uint64_t feature_cpu_ns; /* ... augmentation and features */
    uint64_t io_cpu_ns;      /* of the thread that plans and reads */
    uint64_t wait_ns;        /* that next waited */
    uint64_t stalls;         /* calls of next that waited more than a millisecond */
    uint64_t gap_p50_ns, gap_p99_ns, gap_max_ns; /* between the ends of calls of next */
    uint64_t undecodable_records; /* met so far, also in batches that next has not returned yet */
} spsh_loader_stats;
/* clang-format off */
#define SPSH_LOADER_STATS_INIT {sizeof(spsh_loader_stats), {0}, false, 0, 0, 0, 0, 0, false, 0, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/** A record that was left out. */
typedef struct spsh_bad_record {
    uint32_t dataset;
    uint64_t position;
    uint64_t epoch;
    spsh_error error; /* names dataset, shard, utterance, offset; SPSH_E_CANCELED: it was in the
                         quarantine of a cursor */
} spsh_bad_record;

typedef struct spsh_loader spsh_loader;

/**
 * @param datasets    borrowed until close
 * @param options     NULL for defaults; copied
 * @return SPSH_OK; what spsh_plan_open says; SPSH_E_LIMIT (memory_bytes is too small: the message
 * says what would do); SPSH_E_UNSUPPORTED (the engine that was asked for is not there)
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_open(const spsh_dataset *const *datasets,
                                                     uint32_t dataset_count,
                                                     const spsh_loader_options *options,
                                                     spsh_loader **ret_loader, spsh_error *err);

/** Any thread. A next that is waiting returns SPSH_E_CANCELED at once; lent batches end. NULL is
 * fine. Waits for reads in flight.
 *
 * In a child that was forked, close waits for nothing: it unmaps the slots and closes the
 * descriptors of the read engine, without an effect on the parent's reads or device. Shards that
 * the loader's threads had open are closed with the dataset. Small tables and an arena of the
 * caller's stay until the child exits. */
SPSH_API void spsh_loader_close(spsh_loader *loader);

/** As opened; borrowed until close. Not in a child that was forked: a thread of the loader may have
 * held its mutex. */
SPSH_API const spsh_plan *spsh_loader_plan(const spsh_loader *loader);

/**
 * The next batch of this rank. One thread at a time.
 *
 * @param ret_batch  lent until release; written on success only
 * @return SPSH_OK; SPSH_E_END once at the end of each epoch: the next call begins the next one;
 * SPSH_E_LIMIT (all slots are lent, or too many bad records); SPSH_E_CANCELED (close was called);
 * SPSH_E_INVALID_ARG (in a child that was forked); the status of a record (SPSH_E_CORRUPT,
 * _TRUNCATED, _IO, _AUDIO, ...); SPSH_E_IO (a read takes too long, the device failed).
 *
 * A failure lasts: each later call returns the same status and message, even if batches have become
 * ready, until spsh_loader_seek or spsh_loader_cursor_restore succeeds. These do not last: END,
 * TIMEOUT, CANCELED, LIMIT for lent slots, INVALID_ARG for a step that the epoch does not have or
 * that was not asked for.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_next(spsh_loader *loader,
                                                     const spsh_batch **ret_batch, spsh_error *err);

/** As spsh_loader_next, but waits no longer than timeout_ms (0: not at all). SPSH_E_TIMEOUT:
 * nothing has changed, call again. For callers that must look after something else from time to
 * time. */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_next_for(spsh_loader *loader, uint32_t timeout_ms,
                                                         const spsh_batch **ret_batch,
                                                         spsh_error *err);

/**
 * Of a loader with is_asked: prepare the batch of this step, which next returns behind those that
 * were asked for before. It is what a loader without is_asked serves there: the same utterances, in
 * the same order, augmented alike. Steps that go up, with or without gaps, are quick to find; one
 * before the last, and another epoch, are gone to from the epoch's beginning. Any thread.
 *
 * Such a loader prepares nothing by itself: next without an ask is SPSH_E_INVALID_ARG. It has no
 * SPSH_E_END, and neither cursor nor seek (SPSH_E_INVALID_ARG): what was asked for is the caller's
 * to know.
 *
 * @return SPSH_OK; SPSH_E_LIMIT (as many are asked for, and not returned by next, as there are
 * slots); SPSH_E_INVALID_ARG (is_asked was not set); SPSH_E_CANCELED (close was called). A step
 * that the epoch does not have fails next with SPSH_E_INVALID_ARG, in its turn, once.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_ask(spsh_loader *loader, uint64_t epoch,
                                                    uint64_t step, spsh_error *err);

/** Any thread, in any order. */
SPSH_API void spsh_loader_release(spsh_loader *loader, const spsh_batch *batch);

/** The same, of a batch in a device's memory whose use is still under way: its memory is used again
 * when the event that was recorded behind that use has come. The event may be recorded again after
 * the return. NULL: as spsh_loader_release, for whose use nothing is waited but for what brings the
 * batch there. Of a batch of the host's the event is not looked at. */
SPSH_API void spsh_loader_release_after(spsh_loader *loader, const spsh_batch *batch, void *event);

/** Batches that could still be taken without a release. Any thread. */
SPSH_API uint32_t spsh_loader_slots_free(const spsh_loader *loader);

/**
 * The place behind the last batch that next returned, and after SPSH_E_END the beginning of the
 * next epoch: spsh_cursor_encode, followed by 12 bytes for each record in quarantine (u32 dataset,
 * u64 position) and a u64 XXH3-64 of them, if there are any.
 *
 * @param cursor    room for capacity_bytes; NULL asks for the size only
 * @param ret_size  always written
 * @return SPSH_OK; SPSH_E_LIMIT (cursor is not NULL and capacity_bytes too small). Thread of next.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_cursor_save(const spsh_loader *loader, void *cursor,
                                                            size_t capacity_bytes, size_t *ret_size,
                                                            spsh_error *err);

/**
 * Continue where any rank of any world size stopped, with the same datasets and plan options.
 * Records in its quarantine are treated as bad without being read. What was decoded ahead is
 * dropped. Thread of next.
 *
 * @return SPSH_OK, or as spsh_cursor_decode; then nothing has changed
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_cursor_restore(spsh_loader *loader,
                                                               const void *cursor,
                                                               size_t size_bytes, spsh_error *err);

/** Go to the beginning of a step. Thread of next. SPSH_E_INVALID_ARG past the epoch's end. */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_seek(spsh_loader *loader, uint64_t epoch,
                                                     uint64_t step, spsh_error *err);

/** Calls of next in an epoch, SPSH_E_END not counted; as spsh_plan_batch_count. Thread-safe. */
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_call_count(const spsh_loader *loader,
                                                           uint64_t epoch, uint64_t *ret_calls,
                                                           spsh_error *err);

/** Nothing is written if struct_size is not set. Any thread. */
SPSH_API void spsh_loader_stats_get(const spsh_loader *loader, spsh_loader_stats *ret_stats);

/** The same as one JSON object, with served seconds by domain; NUL-terminated, cut to capacity.
 * Returns its full length without the NUL. Any thread. */
SPSH_API size_t spsh_loader_stats_json(const spsh_loader *loader, char *text,
                                       size_t capacity_bytes);

/** Units served of a domain of the plan. Any thread. */
SPSH_API uint64_t spsh_loader_domain_units(const spsh_loader *loader, uint32_t domain);

/** Records in quarantine, and one of them. Any thread. */
SPSH_API uint64_t spsh_loader_bad_count(const spsh_loader *loader);
SPSH_API SPSH_NODISCARD spsh_status spsh_loader_bad_get(const spsh_loader *loader, uint64_t number,
                                                        spsh_bad_record *ret_bad, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
