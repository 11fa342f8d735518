/* verify_internal.h: what the parts of verify share.
 *
 * verify.c makes the list of files and drives; verify_older.c adds older generations; verify_file.c
 * checks what every file has (header, footers, page table, sections); verify_shard.c blocks,
 * records and the index that they must give; verify_damage.c names what a damaged block costs;
 * verify_dataset.c holds files against each other.
 */
#ifndef SPSH_VERIFY_INTERNAL_H
#define SPSH_VERIFY_INTERNAL_H

#include "base/string_table.h"
#include "dataset/manifest.h"
#include "format/container.h"
#include "speechshard/read_engine.h"
#include "speechshard/verify.h"

typedef struct spsh__verify {
    const spsh_allocator *allocator;
    const spsh_io *io;
    spsh_verify_options opt;
    spsh_verify_result result;
    spsh_read_engine *engine;
    const char *directory;          /* of the dataset; NULL: a single file */
    const spsh__manifest *manifest; /* NULL as long as there is none */
    const spsh__container *index;   /* the dataset's; NULL when there is none or it is damaged */
    spsh__names *overlays;          /* file id, root hash, size, name of each that was checked */
    uint64_t shard_damage_count;    /* the part of result.damage_count that is in shards */
    uint64_t total_bytes;
} spsh__verify;

/* A file on the list, and what was found of it. */
typedef struct spsh__verify_file {
    const char *name; /* as reports call it */
    const char *path;
    uint32_t kind;                  /* 0: any */
    const spsh__file_ref *expected; /* NULL: whatever it is */
    uint64_t damage_before;         /* count when it was begun */
    uint32_t file;                  /* the engine's; valid when opened is set */
    bool opened;
    uint64_t file_bytes;
    uint64_t sealed_bytes; /* size that it should have, as far as known */
    bool header_ok, footer_ok, sections_ok, id_known;
    bool foreign; /* not the file that was sealed under this name: its content proves nothing */
    spsh__header header;
    uint64_t header_checksum;
    spsh__footer footer;
    uint8_t file_id[16]; /* from header, footer or expectation */
    uint64_t shard;      /* number in the manifest; meaningless without expected */
    uint8_t *area;       /* shards: the section area, when all its pages are good; else NULL */
} spsh__verify_file;

/* Report; SPSH_E_CANCELED when the caller wants to stop. */
spsh_status spsh__verify_damage(spsh__verify *v, const spsh_damage *damage, spsh_error *err);
/* Report a part of a file that a check refused, with the message of that check. */
spsh_status spsh__verify_refused(spsh__verify *v, const spsh__verify_file *file, const char *part,
                                 uint64_t size_bytes, const spsh_error *why, spsh_error *err);
/* So many bytes more were read. */
spsh_status spsh__verify_progress(spsh__verify *v, uint64_t bytes, spsh_error *err);

/* Open and check what every container has. Findings are reported; the status tells only what ends
 * the run. Close with spsh__verify_file_end. */
spsh_status spsh__verify_file_begin(spsh__verify *v, spsh__verify_file *file, spsh_error *err);
void spsh__verify_file_end(spsh__verify *v, spsh__verify_file *file);

/* The blocks of a shard: between begin and end. */
spsh_status spsh__verify_shard(spsh__verify *v, spsh__verify_file *file, spsh_error *err);

/* A file of the dataset by its name there. ret_container: the opened file, if nothing was found;
 * may be NULL. */
spsh_status spsh__verify_named(spsh__verify *v, const char *name, spsh__verify_file *file,
                               spsh__container **ret_container, spsh_error *err);
/* A shard, or the overlays, that a manifest lists. Overlays that were checked before are skipped.
 */
spsh_status spsh__verify_listed_shard(spsh__verify *v, const spsh__manifest *manifest,
                                      uint64_t number, spsh_error *err);
spsh_status spsh__verify_overlays(spsh__verify *v, const spsh__manifest *manifest, spsh_error *err);

/* Check the files of each older generation whose manifest is still there, and that it opens. */
spsh_status spsh__verify_older(spsh__verify *v, spsh_error *err);

/* Open a generation as a reader does; 0: the newest. Report a refusal if no damage was found that
 * may be its cause: a dataset without damage opens. */
spsh_status spsh__verify_opens(spsh__verify *v, uint64_t generation, spsh_error *err);

/* The dataset's index and the manifest's sums against all shards. */
spsh_status spsh__verify_dataset(spsh__verify *v, spsh_error *err);

#endif
