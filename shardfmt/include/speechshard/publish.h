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
    spsh_dedupe dedupe;      /* over unit borders; each match is compared in full */
    spsh_bytes options_json; /* into the manifest */
    uint64_t reject_count;
    uint64_t source_row_count;
    uint64_t memory_bytes; /* for sorting; 0: 256 MiB */
    spsh_log_fn log_fn;    /* NULL: silent */
    void *log_user;
} spsh_publish_options;

/* clang-format off */
#define SPSH_PUBLISH_OPTIONS_INIT \
    {sizeof(spsh_publish_options), NULL, NULL, NULL, {0}, NULL, 0, SPSH_DEDUPE_NONE, {NULL, 0}, 0, 0, 0, NULL, NULL}
/* clang-format on */

/**
 * Write index-00000001.spsh and manifest.spsh (generation 1) for sealed shards.
 *
 * A pure function of the arguments and the shards: the same bytes whenever and however often it
 * runs. Streams: memory stays within memory_bytes plus names. Temporary files for sorting live in
 * the dataset's directory and are unlinked at once.
 *
 * @param ret_info  may be NULL
 * Besides names: one bit an utterance, 16 bytes a shard, and 44 bytes a copied record of the unit
 * at hand.
 * @return SPSH_OK; SPSH_E_EXISTS when another dataset is published there; SPSH_E_SYNTAX when two
 * utterances have one id; SPSH_E_INVALID_ARG (seals); SPSH_E_MISMATCH (a shard is not the one of
 * its seal); reader's and writer's codes.
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
 * Write overlays/NAME.spsh and a manifest that lists it last. One editor at a time: of two at once,
 * one edit is lost.
 *
 * @param name     1 to 128 letters, digits, '.', '_', '-', not first a '.'; must not be in use
 * (SPSH_E_EXISTS)
 * @param entries  any order; an id given twice is SPSH_E_INVALID_ARG
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_overlay_add(const char *dataset_path, const char *name,
                                                     spsh_overlay_type type,
                                                     const spsh_overlay_entry *entries,
                                                     uint64_t entry_count, const spsh_io *io,
                                                     spsh_error *err);

/** Publish a manifest without that overlay: the exact view before it. Its file stays.
 * SPSH_E_NOT_FOUND. */
SPSH_API SPSH_NODISCARD spsh_status spsh_overlay_remove(const char *dataset_path, const char *name,
                                                        const spsh_io *io, spsh_error *err);

/** What an opened dataset says of its overlays, in order. Name is borrowed until close. */
typedef struct spsh_overlay_info {
    spsh_bytes name;
    spsh_overlay_type type;
    uint64_t entry_count;
} spsh_overlay_info;
SPSH_API SPSH_NODISCARD spsh_status spsh_dataset_overlay(const spsh_dataset *dataset,
                                                         uint64_t overlay,
                                                         spsh_overlay_info *ret_info,
                                                         spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
