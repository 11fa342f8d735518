/* verify.h: find damage in a dataset and name it; rebuild what can be rebuilt.
 *
 *     spsh_verify_options opt = SPSH_VERIFY_OPTIONS_INIT;
 *     opt.damage_fn = print_line;
 *     rc = spsh_verify("corpus.spsh", &opt, &result, &err);     // rc: could it be checked; result:
 * what was found
 *
 * The threads of a call exist only in the process that made it, and end before it returns. A child
 * that a callback forks must exit without returning from the callback.
 */
#ifndef SPEECHSHARD_VERIFY_H
#define SPEECHSHARD_VERIFY_H

#include "speechshard/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One damaged thing. Strings are valid during the call. */
typedef struct spsh_damage {
    const char *file; /* relative to the dataset */
    const char *part; /* "header", "block", "record", "record head", "metadata", "index page", "page
                         table", "footer", "missing", ... */
    uint64_t offset_bytes; /* in the file; SPSH_OFFSET_NONE */
    uint64_t size_bytes;   /* extent that is in doubt; 0: unknown */
    spsh_bytes id;         /* recording or utterance concerned; may be empty */
    uint64_t utterances;   /* utterances that it costs, as far as known */
    const char *message;   /* one line: what was expected and what was found */
} spsh_damage;

typedef struct spsh_verify_options {
    size_t struct_size;
    const spsh_allocator *allocator;
    const spsh_io *io; /* for everything but bulk reads when engine is io_uring */
    int (*damage_fn)(void *user, const spsh_damage *damage); /* non-zero: stop */
    spsh_progress_fn progress_fn;                            /* in bytes; one phase, "verify" */
    void *user;
    uint32_t jobs;  /* threads; 0: one a core */
    uint32_t flags; /* SPSH_VERIFY_* */
} spsh_verify_options;

#define SPSH_VERIFY_DECODE   UINT32_C(1) /* also decode every record: samples, PCM hash, seeks */
#define SPSH_VERIFY_CACHED   UINT32_C(2) /* read through the page cache instead of O_DIRECT */
#define SPSH_VERIFY_NO_URING UINT32_C(4) /* pread only */

/* clang-format off */
#define SPSH_VERIFY_OPTIONS_INIT {sizeof(spsh_verify_options), NULL, NULL, NULL, NULL, NULL, 0, 0}
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
 * Check every byte of every file that a readable manifest names, of fingerprint segments and
 * statistics that lie beside its shards, and that the files agree with each other
 * (ids, root hashes, counts, references, overlays). Block checksums are checked with large O_DIRECT
 * reads; in a damaged block each record is then checked alone, so that the damaged ones are named.
 *
 * Readers' own checks are part of it, and each generation is opened as readers open it. So a
 * dataset without damage opens, and its records can be read. That payloads decode, and that FLAC
 * seek points lead to their samples, is checked with SPSH_VERIFY_DECODE only.
 *
 * @param path  a dataset's directory, or a single .spsh file
 * @return SPSH_OK when everything could be read or its damage reported; else what prevented it.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_verify(const char *path,
                                                const spsh_verify_options *options,
                                                spsh_verify_result *ret_result, spsh_error *err);

/**
 * What became of the records of a unit, shard by shard: where records were lost, later ones have
 * new numbers, and the utterances of later shards that refer to them must follow. The repair of a
 * dataset opens one for each damaged unit and hands it to the repair of all its shards, in order of
 * their numbers. One thread per object.
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
    int (*damage_fn)(void *user, const spsh_damage *damage); /* what is lost; non-zero: stop */
    void *user;
    const spsh_shard_seal
        *expected;          /* what the manifest says of the shard; may be NULL; borrowed */
    spsh_repair_unit *unit; /* of the dataset's repair; NULL: this shard alone */
} spsh_repair_options;

/* clang-format off */
#define SPSH_REPAIR_OPTIONS_INIT {sizeof(spsh_repair_options), NULL, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

typedef struct spsh_repair_result {
    size_t struct_size;
    uint64_t records_kept, records_lost; /* lost: as far as known */
    uint64_t utterances_kept, utterances_lost;
    bool
        identical; /* proven by a footer or the manifest: byte for byte the shard that was sealed */
    spsh_shard_seal seal; /* of the shard that was written */
} spsh_repair_result;
/* clang-format off */
#define SPSH_REPAIR_RESULT_INIT {sizeof(spsh_repair_result), 0, 0, 0, 0, false, \
    {{0}, {0}, 0, 0, 0, 0, 0}}
/* clang-format on */

/**
 * Rebuild a shard from its blocks into output_directory (the file's own name), never touching the
 * input.
 *
 * Lost or damaged header, index, page table and footers are rebuilt byte for byte from intact
 * blocks. Where blocks are damaged, intact records and metadata rows are salvaged into new blocks;
 * what is lost is reported: utterances of lost records, rows of lost metadata blocks, and
 * recordings that were kept but have lost their rows.
 *
 * @param shard_path  damaged shard; its name (unit-number.spsh) and any intact header or footer
 * give its identity. With options->expected and dataset_id it may be missing: the output is then a
 * shard without records, which keeps the others' numbers.
 * @param dataset_id  of the plan; NULL: from the header, or from that of a shard beside it
 * @return SPSH_OK also when something was lost; SPSH_E_CORRUPT when it is not known which shard
 * this is, or where in its unit it begins; _EXISTS when another file has the output's name. Memory:
 * the index, 16 bytes a record, a block, or a record that is larger.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_shard(
    const char *shard_path, const uint8_t *dataset_id, const char *output_directory,
    const spsh_repair_options *options, spsh_repair_result *ret_result, spsh_error *err);

/** What a manifest says, read without index and shards. All of it is owned by the object. */
typedef struct spsh_repair_manifest {
    const spsh_dataset_info *info;
    const spsh_shard_seal *seals; /* info->shard_count */
    spsh_bytes options_json;
    bool newest; /* false: manifest.spsh cannot be read, this is an older generation */
} spsh_repair_manifest;

/**
 * The newest manifest of a dataset that can be read.
 *
 * @return SPSH_OK; the code of manifest.spsh when no generation can be read; _NO_MEMORY
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_manifest_open(const char *dataset_path,
                                                              const spsh_io *io,
                                                              spsh_repair_manifest **ret_manifest,
                                                              spsh_error *err);
/** NULL is fine. */
SPSH_API void spsh_repair_manifest_close(spsh_repair_manifest *manifest);

/**
 * Copy the overlays in force from a dataset to its repaired copy, which has the same id and lists
 * none yet, and list them there in the same order. Each is checked in full first.
 *
 * If manifest.spsh cannot be read, the overlays in force are those whose file ids or root hashes it
 * still holds. If that list is incomplete, they are the overlays of the newest readable generation
 * and those that no readable generation lists. docs/FORMAT.md, section 5, says why.
 *
 * options->damage_fn is called for each overlay that is lost (part "overlay") and for each decision
 * that nothing proves (part "overlay in doubt"). expected and unit are not used.
 *
 * @param options    NULL for defaults
 * @param ret_count  overlays that the copy lists now; may be NULL
 * @return SPSH_OK, also when overlays were lost; SPSH_E_MISMATCH for another dataset; _CANCELED;
 * reader's and writer's codes
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_repair_overlays(const char *from_path, const char *to_path,
                                                         const spsh_repair_options *options,
                                                         uint64_t *ret_count, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
