/* manifest.h: section numbers of manifest, dataset index and overlay (FORMAT.md 4 and 5), names of
 * files in a dataset, opening a manifest and publishing the next generation. */
#ifndef SPSH_MANIFEST_H
#define SPSH_MANIFEST_H

#include "base/buffer.h"
#include "format/container.h"
#include "speechshard/publish.h"

enum {
    SPSH__MANIFEST_SHARD_FILE_ID = 1,
    SPSH__MANIFEST_SHARD_ROOT_HASH = 2,
    SPSH__MANIFEST_SHARD_BYTES = 3,
    SPSH__MANIFEST_SHARD_UNIT = 4,
    SPSH__MANIFEST_SHARD_NUMBER = 5,
    SPSH__MANIFEST_UTTERANCE_BEGIN = 6,
    SPSH__MANIFEST_RECORD_BEGIN = 7,
    SPSH__MANIFEST_GROUP_DOMAIN = 16,
    SPSH__MANIFEST_GROUP_SPLIT = 17,
    SPSH__MANIFEST_GROUP_SAMPLE_RATE_HZ = 18,
    SPSH__MANIFEST_GROUP_UTTERANCES = 19,
    SPSH__MANIFEST_GROUP_SAMPLES = 20,
    SPSH__MANIFEST_TOTALS = 24,
    SPSH__MANIFEST_INDEX_FILE_ID = 32,
    SPSH__MANIFEST_INDEX_ROOT_HASH = 33,
    SPSH__MANIFEST_INDEX_BYTES = 34,
    SPSH__MANIFEST_INDEX_GENERATION = 35,
    SPSH__MANIFEST_OVERLAY_FILE_ID = 48,
    SPSH__MANIFEST_OVERLAY_ROOT_HASH = 49,
    SPSH__MANIFEST_OVERLAY_BYTES = 50,
    SPSH__MANIFEST_OVERLAY_NAME_ENDS = 51,
    SPSH__MANIFEST_OVERLAY_NAMES = 52,
    SPSH__MANIFEST_OPTIONS = 64,
    SPSH__MANIFEST_DOMAIN_ENDS = 80,
    SPSH__MANIFEST_DOMAINS = 81,
    SPSH__MANIFEST_SPLIT_ENDS = 82,
    SPSH__MANIFEST_SPLITS = 83,
};

enum {
    SPSH__INDEX_ID_HASH = 32,
    SPSH__INDEX_BY_ID = 33,
    SPSH__INDEX_PAYLOAD_SHARD = 34,
    SPSH__INDEX_PAYLOAD_RECORD = 35,
    SPSH__INDEX_RECORD_OFFSET = 36,
    SPSH__INDEX_RECORD_BYTES = 37,
    SPSH__INDEX_START_SAMPLE = 38,
    SPSH__INDEX_SAMPLES = 39,
    SPSH__INDEX_SAMPLE_RATE_HZ = 40,
    SPSH__INDEX_CHANNELS = 41,
    SPSH__INDEX_CODEC = 42,
    SPSH__INDEX_FLAGS = 43,
    SPSH__INDEX_DUPLICATE_OF = 44,
    SPSH__INDEX_DOMAIN =
        45, /* split, speaker, language, document follow: SPSH_NAME_* is the distance */
    SPSH__INDEX_TEXT_BYTES = 50,
    SPSH__INDEX_COLUMN_FIRST = SPSH__INDEX_ID_HASH,
    SPSH__INDEX_COLUMN_LAST = SPSH__INDEX_TEXT_BYTES,
    SPSH__INDEX_NAME_ENDS = 80, /* ends of kind k: 80 + 2 k; bytes: 81 + 2 k */
};

enum { SPSH__TOTALS = 8 };

/* Return the width of an index column; 0 if no such column exists. */
uint32_t spsh__index_element_bytes(uint32_t column);

/* Write "manifest-00000012.spsh" for "manifest" and 12. */
void spsh__generation_name(const char *word, uint64_t generation, char dst[40]);

/* XXH3-128 of dataset_id || generation || word. */
void spsh__generation_file_id(const uint8_t dataset_id[16], uint64_t generation, const char *word,
                              uint8_t ret_file_id[16]);

/* Return whether the name has only letters, digits, '.', '_', '-', does not start with a dot, and
 * has at most 128 bytes. Such a name cannot leave its directory. */
bool spsh__overlay_name_ok(spsh_bytes name);

/* ---- reading ---- */

/* A file that the manifest refers to. */
typedef struct spsh__file_ref {
    uint8_t file_id[16];
    uint8_t root_hash[16];
    uint64_t file_bytes;
} spsh__file_ref;

typedef struct spsh__manifest {
    spsh__container *container;
    spsh_dataset_info info;
    uint64_t group_count;
    spsh__file_ref index;
    uint64_t index_generation;
} spsh__manifest;

/* generation 0 is the newest. *ret_manifest is written only on success. */
spsh_status spsh__manifest_open(const spsh_io *io, const spsh_allocator *allocator,
                                const char *dataset_path, uint64_t generation,
                                spsh__manifest *ret_manifest, spsh_error *err);
void spsh__manifest_close(spsh__manifest *manifest);

/* Make the checks that opening postpones: every page, and each reference to a shard or an overlay.
 */
spsh_status spsh__manifest_check(const spsh__manifest *manifest, spsh_error *err);

/* The numbers of the manifest-<g>.spsh files, ascending, as u64 elements of *ret_numbers. The
 * caller frees the buffer. For verify and repair only: readers never list a directory. */
spsh_status spsh__manifest_generations(const spsh_allocator *allocator, const char *dataset_path,
                                       spsh__buffer *ret_numbers, spsh_error *err);

spsh_status spsh__manifest_seal(const spsh__manifest *manifest, uint64_t shard,
                                spsh_shard_seal *ret_seal, spsh_error *err);
spsh_status spsh__manifest_overlay(const spsh__manifest *manifest, uint64_t overlay,
                                   spsh__file_ref *ret_file, spsh_bytes *ret_name, spsh_error *err);

/* Return SPSH_E_MISMATCH unless the opened file is the one in the manifest. */
spsh_status spsh__manifest_check_file(const spsh__manifest *manifest,
                                      const spsh__container *container,
                                      const spsh__file_ref *expected, spsh_error *err);

/* ---- writing ---- */

/* A section in memory, little-endian. */
typedef struct spsh__column {
    uint32_t id;
    uint32_t element_bytes;
    uint64_t count;
    const void *elements;
} spsh__column;

enum { SPSH__COLUMNS_MAX = 32 };

/* A container without blocks, written from columns. */
typedef struct spsh__columns_file {
    const char *directory;
    const char *name;
    spsh__header header;
    const spsh__column *columns; /* ascending ids */
    uint32_t column_count;       /* at most SPSH__COLUMNS_MAX */
    uint64_t utterance_count;
    spsh_publish_mode mode;
    bool is_reserved; /* reserve space first: for large files on full disks */
} spsh__columns_file;

spsh_status spsh__columns_publish(const spsh_io *io, const spsh_allocator *allocator,
                                  const spsh__columns_file *file, spsh__footer *ret_footer,
                                  spsh_error *err);

/* An overlay entry of the next manifest. */
typedef struct spsh__overlay_entry_ref {
    spsh__file_ref file;
    spsh_bytes name;
} spsh__overlay_entry_ref;

/* Publish the generation after manifest's, equal except for its list of overlays. */
spsh_status spsh__manifest_publish_overlays(const spsh_io *io, const spsh_allocator *allocator,
                                            const char *dataset_path,
                                            const spsh__manifest *manifest,
                                            const spsh__overlay_entry_ref *overlays,
                                            uint64_t overlay_count, spsh_error *err);

#endif
