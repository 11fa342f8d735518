/* publish.h: turn sealed shards into a dataset, and edit a dataset by overlays.
 *
 * Both end in a new generation of the manifest; nothing that is sealed changes.
 */
#ifndef SPEECHSHARD_PUBLISH_H
#define SPEECHSHARD_PUBLISH_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum spsh_dedupe {
    SPSH_DEDUPE_NONE = 0,
    SPSH_DEDUPE_BYTES = 1, /* equal payload bytes */
    SPSH_DEDUPE_PCM = 2,   /* equal decoded PCM, rate and channels */
} spsh_dedupe;

typedef struct spsh_publish_options {
    size_t struct_size;
    const spsh_allocator *allocator;
    const spsh_io *io;
    const char *path; /* the dataset's directory; its shards/ holds every shard of seals */
    uint8_t dataset_id[16];
    const spsh_shard_seal *seals; /* ascending (unit, number); borrowed during the call */
    uint64_t seal_count;
    spsh_dedupe dedupe;      /* across units; each match is compared in full */
    spsh_bytes options_json; /* into the manifest */
    uint64_t reject_count;
    uint64_t source_row_count;
    uint64_t memory_bytes; /* for sorting; 0: 256 MiB */
    spsh_log_fn log_fn;    /* NULL: silent */
    void *log_user;
    bool is_locked; /* the caller holds the dataset's writer lock; false: publish takes it */
    spsh_progress_fn progress_fn; /* NULL: none. A canceled call leaves no files */
    void *progress_user;
} spsh_publish_options;

/* clang-format off */
#define SPSH_PUBLISH_OPTIONS_INIT \
    {sizeof(spsh_publish_options), NULL, NULL, NULL, {0}, NULL, 0, SPSH_DEDUPE_NONE, {NULL, 0}, 0, 0, 0, NULL, NULL, false, NULL, NULL}
/* clang-format on */

/**
 * Write index-00000001.spsh and manifest.spsh (generation 1) for sealed shards.
 *
 * The output is a pure function of the arguments and the shards: every call writes the same bytes.
 * Data are streamed: memory stays within memory_bytes, plus names. Temporary files for sorting live
 * in the dataset's directory and are unlinked at once.
 *
 * @param ret_info  may be NULL
 * Additional memory: one bit per utterance, 16 bytes per shard, and 44 bytes per copied record of
 * the current unit.
 * Waits for an edit in progress; publishers share the writer lock.
 * @return SPSH_OK; SPSH_E_EXISTS when another dataset is published there; SPSH_E_SYNTAX when two
 * utterances have one id; SPSH_E_INVALID_ARG (seals); SPSH_E_MISMATCH (a shard does not match its
 * seal); SPSH_E_CANCELED (by progress_fn); reader's and writer's codes.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_publish(const spsh_publish_options *options,
                                                         spsh_dataset_info *ret_info,
                                                         spsh_error *err);

typedef enum spsh_overlay_type {
    SPSH_OVERLAY_SKIP = 1,       /* value: a reason, may be empty */
    SPSH_OVERLAY_TRANSCRIPT = 2, /* value: the text */
} spsh_overlay_type;

typedef struct spsh_overlay_entry {
    spsh_bytes id;
    spsh_bytes value;
} spsh_overlay_entry;

/**
 * Write overlays/NAME.spsh and a manifest that lists it last. Takes the writer lock.
 *
 * The name of a removed overlay can be given again. If the content differs, the file is named
 * NAME..2.spsh, NAME..3.spsh, and so on, because older generations list the earlier file.
 *
 * @param name     1 to 128 letters, digits, '.', '_', '-'; does not begin with '.', nor end with
 * ".." and a number; must not be in force
 * @param entries  any order; an id given twice is SPSH_E_INVALID_ARG
 * @return SPSH_OK; SPSH_E_EXISTS if the name is in force, or another writer is at work
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_overlay_add(const char *dataset_path, const char *name,
                                                     spsh_overlay_type type,
                                                     const spsh_overlay_entry *entries,
                                                     uint64_t entry_count, const spsh_io *io,
                                                     spsh_error *err);

/** Publish a manifest without that overlay, which restores the exact view before it. The overlay's
 * file stays. Takes the writer lock. SPSH_E_NOT_FOUND; SPSH_E_EXISTS if another writer is at work.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_overlay_remove(const char *dataset_path, const char *name,
                                                        const spsh_io *io, spsh_error *err);

/** An overlay of an open dataset, by its position in the list. Names are borrowed until close. */
typedef struct spsh_overlay_info {
    size_t struct_size;
    spsh_bytes name; /* name of its file; never reused for other contents */
    spsh_overlay_type type;
    uint64_t entry_count;
    spsh_bytes given_name; /* passed to spsh_overlay_add; unique among the overlays in force */
} spsh_overlay_info;
/* clang-format off */
#define SPSH_OVERLAY_INFO_INIT {sizeof(spsh_overlay_info), {NULL, 0}, SPSH_OVERLAY_SKIP, 0, \
    {NULL, 0}}
/* clang-format on */
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_overlay(const spsh_dataset *dataset,
                                                         uint64_t overlay,
                                                         spsh_overlay_info *ret_info,
                                                         spsh_error *err);

/**
 * Writer lock of a dataset: one editor at a time, on all machines where the file system has locks.
 * The system releases it when the process ends.
 *
 * Opening it removes leftovers of killed writers: temporary files of manifests, indexes, and
 * overlays, and repair.tmp/. On a file system without locks, opening succeeds and removes nothing.
 *
 * @param io  NULL: default; borrowed until close
 * @return SPSH_OK; SPSH_E_EXISTS if another writer is at work; codes of spsh_io_status
 */
typedef struct spsh_dataset_lock spsh_dataset_lock;
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_lock_open(const char *dataset_path,
                                                           const spsh_io *io,
                                                           spsh_dataset_lock **ret_lock,
                                                           spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_dataset_lock_close(spsh_dataset_lock *lock);

/**
 * Call found_fn with the name, relative to the dataset, of each file that the next writer will
 * remove. No calls while a writer is active. Changes nothing.
 *
 * @param found_fn  non-zero: stop
 */
SPSH_API void spsh_dataset_leftovers(const char *dataset_path,
                                     int (*found_fn)(void *user, const char *name), void *user);
/** Remove these files if no writer is active. io: NULL: default */
SPSH_API void spsh_dataset_leftovers_remove(const char *dataset_path, const spsh_io *io);

#ifdef __cplusplus
}
#endif

#endif
