/* verify.h: find and name damage in a dataset, and rebuild lost and damaged parts.
 *
 *     spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
 *     opt.damage_fn = print_line;
 *     rc = spsh_verify("corpus.spsh", &opt, &result, &err);   // rc: could the check run?
 *     ... result.damage_count ...                             // result: the findings
 *
 * Threads that a call starts end before it returns. A child process that a callback forks must exit
 * without returning from the callback.
 */
#ifndef SPEECHSHARD_VERIFY_H
#define SPEECHSHARD_VERIFY_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One damaged part of a file. Strings are borrowed during the call. */
typedef struct spsh_damage {
    const char *file; /* relative to the dataset */
    const char *part; /* "header", "block", "record", "record head", "metadata", "index page", "page
                         table", "footer", "missing", ... */
    uint64_t offset_bytes; /* in the file; SPSH_OFFSET_NONE */
    uint64_t size_bytes;   /* bytes that may be damaged; 0: unknown */
    spsh_bytes id;         /* recording or utterance concerned; may be empty */
    uint64_t utterances;   /* number of lost utterances, as far as known */
    const char *message;   /* one line with the expected and the found value */
} spsh_damage;

typedef struct spsh_verify_options {
    size_t struct_size;
    const spsh_allocator *allocator;
    const spsh_io *io; /* not used for bulk reads through io_uring */
    int (*damage_fn)(void *user, const spsh_damage *damage); /* non-zero: stop */
    spsh_progress_fn progress_fn;                            /* in bytes; one phase, "verify" */
    void *user;
    uint32_t jobs;  /* threads; 0: one per core */
    uint32_t flags; /* SPSH_VERIFY_* */
    /* Check only shards whose number is part modulo part_count, with their fingerprints. Part 0
     * also checks everything else, and is the only part that checks a single file. 0, 0: all */
    uint64_t part, part_count;
} spsh_verify_options;

#define SPSH_VERIFY_DECODE   UINT32_C(1) /* also decode every record: samples, PCM hash, seeks */
#define SPSH_VERIFY_CACHED   UINT32_C(2) /* read through the page cache instead of O_DIRECT */
#define SPSH_VERIFY_NO_URING UINT32_C(4) /* pread only */

/* clang-format off */
#define SPSH_VERIFY_OPTIONS_INIT {sizeof(spsh_verify_options), NULL, NULL, NULL, NULL, NULL, 0, 0, \
    0, 0}
/* clang-format on */

typedef struct spsh_verify_result {
    size_t struct_size;
    uint64_t files;
    uint64_t bytes;
    uint64_t blocks;
    uint64_t records;
    uint64_t utterances;
    uint64_t damage_count;
    char engine[16]; /* "io_uring" or "pread" */
    bool direct;     /* O_DIRECT was in use */
} spsh_verify_result;
/* clang-format off */
#define SPSH_VERIFY_RESULT_INIT {sizeof(spsh_verify_result), 0, 0, 0, 0, 0, 0, {0}, false}
/* clang-format on */

/**
 * Check every byte of every file that a readable manifest names, and of fingerprint segments and
 * statistics next to its shards. Check that the files agree with each other: ids, root hashes,
 * counts, references, overlays. Block checksums are checked with large O_DIRECT reads. In a damaged
 * block each record is checked separately, so that the damaged records are named.
 *
 * The checks include those of readers, and each generation is opened as a reader opens it. A
 * dataset without damage therefore opens, and its records can be read. Only SPSH_VERIFY_DECODE also
 * checks that payloads decode and that FLAC seek points lead to their samples.
 *
 * Several machines can share the work by parts. The parts together report the damage that one call
 * would report, and their results add up to its result. If part 0 finds a contradiction that damage
 * in a shard of another part may explain, it also reads those shards.
 *
 * @param path  a dataset's directory, or a single .spsh file
 * @return SPSH_OK if all files could be checked, with or without damage; else the reason why not
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_verify(const char *path,
                                                const spsh_verify_options *options,
                                                spsh_verify_result *ret_result, spsh_error *err);

/**
 * Record numbers of a unit after the repair of its shards. After a lost record the later records
 * have new numbers, and utterances of later shards must refer to the new ones. To repair a dataset,
 * open one object for each damaged unit and pass it to the repair of all shards of the unit, in
 * ascending order. One thread per object.
 */
typedef struct spsh_repair_unit spsh_repair_unit;
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_unit_open(const spsh_allocator *allocator,
                                                          spsh_repair_unit **ret_unit,
                                                          spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_repair_unit_close(spsh_repair_unit *unit);

typedef struct spsh_repair_options {
    size_t struct_size;
    const spsh_allocator *allocator;
    const spsh_io *io;
    int (*damage_fn)(void *user, const spsh_damage *damage); /* reports a loss; nonzero: stop */
    void *user;
    const spsh_shard_seal *expected; /* the shard's seal from the manifest; may be NULL; borrowed */
    spsh_repair_unit *unit;          /* from the repair of the dataset; NULL: only this shard */
} spsh_repair_options;

/* clang-format off */
#define SPSH_REPAIR_OPTIONS_INIT {sizeof(spsh_repair_options), NULL, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

typedef struct spsh_repair_result {
    size_t struct_size;
    uint64_t records_kept, records_lost; /* lost: number as far as known */
    uint64_t utterances_kept, utterances_lost;
    bool identical; /* a footer or the manifest proves that the output equals the sealed shard */
    spsh_shard_seal seal; /* seal of the output */
} spsh_repair_result;
/* clang-format off */
#define SPSH_REPAIR_RESULT_INIT {sizeof(spsh_repair_result), 0, 0, 0, 0, false, \
    {{0}, {0}, 0, 0, 0, 0, 0}}
/* clang-format on */

/**
 * Rebuild a shard from its blocks into output_directory, under the same file name. Never changes
 * the input.
 *
 * A lost or damaged header, index, page table, or footer is rebuilt byte for byte from intact
 * blocks. If blocks are damaged, intact records and metadata rows are copied to new blocks, and the
 * losses are reported: utterances of lost records, rows of lost metadata blocks, and recordings
 * that were kept but have lost their rows.
 *
 * @param shard_path  damaged shard; its name (unit-number.spsh) and any intact header or footer
 * identify it. It may be missing if options->expected and dataset_id are set: then the output is a
 * shard without records, which preserves the numbers of the other shards.
 * @param dataset_id  from the plan; NULL: from the header, or from the header of a shard next to it
 * @return SPSH_OK, also after losses; SPSH_E_CORRUPT if the shard, or its first record in the unit,
 * cannot be identified; _EXISTS if another file has the output's name. Memory: the index, 16 bytes
 * per record, and one block, or one record if it is larger.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_shard(
    const char *shard_path, const uint8_t *dataset_id, const char *output_directory,
    const spsh_repair_options *options, spsh_repair_result *ret_result, spsh_error *err);

/** Contents of a manifest, read without index and shards. The object owns all of it. */
typedef struct spsh_repair_manifest {
    const spsh_dataset_info *info;
    const spsh_shard_seal *seals; /* [info->shard_count] */
    spsh_bytes options_json;
    bool newest; /* false: manifest.spsh is unreadable; this is an older generation */
} spsh_repair_manifest;

/**
 * Open the newest readable manifest of a dataset.
 *
 * @return SPSH_OK; the status of manifest.spsh if no generation is readable; _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_manifest_open(const char *dataset_path,
                                                              const spsh_io *io,
                                                              spsh_repair_manifest **ret_manifest,
                                                              spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_repair_manifest_close(spsh_repair_manifest *manifest);

/**
 * Copy the overlays in force from a dataset to its repaired copy, and list them there in the same
 * order. The copy has the same id and lists no overlays before. Each overlay is checked completely
 * first.
 *
 * If manifest.spsh is unreadable, the overlays in force are those whose file ids or root hashes it
 * still contains. If that list is incomplete, they are the overlays of the newest readable
 * generation and those that no readable generation lists (docs/reference/FORMAT.md, section 5).
 *
 * options->damage_fn is called for each lost overlay (part "overlay") and for each decision without
 * proof (part "overlay in doubt"). expected and unit are not used.
 *
 * @param options    NULL for defaults
 * @param ret_count  number of overlays that the copy lists now; may be NULL
 * @return SPSH_OK, also if overlays were lost; SPSH_E_MISMATCH for another dataset; _CANCELED; any
 * status of reading or writing
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_overlays(const char *from_path, const char *to_path,
                                                         const spsh_repair_options *options,
                                                         uint64_t *ret_count, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
