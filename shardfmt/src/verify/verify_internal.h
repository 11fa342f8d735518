/* verify_internal.h: declarations shared by the parts of verify.
 *
 * verify.c makes the list of files and runs the checks. verify_older.c adds older generations.
 * verify_file.c checks the common parts of all files (header, footers, page table, sections).
 * verify_shard.c checks blocks, records, and the index that they must give. verify_damage.c reports
 * the cost of a damaged block. verify_dataset.c compares files with each other.
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
    const char *directory;          /* folder of the dataset; NULL: a single file */
    const spsh__manifest *manifest; /* NULL until one is opened */
    const spsh__container *index;   /* index of the dataset; NULL if it is missing or damaged */
    spsh__names *overlays;          /* file id, root hash, size, and name of each checked overlay */
    uint64_t shard_damage_count;    /* damage in shards, including damage that was not reported */
    uint64_t total_bytes;
    bool is_muted;     /* another part reports the damage that is found now */
    bool has_searched; /* spsh__verify_shards_damaged has read the shards of other parts */
} spsh__verify;

/* A file on the list, and the findings about it. */
typedef struct spsh__verify_file {
    const char *name; /* name in reports */
    const char *path;
    uint32_t kind;                  /* 0: any */
    const spsh__file_ref *expected; /* NULL: any file */
    uint64_t damage_before;         /* damage count at the begin of this file */
    uint32_t file;                  /* file number in the engine; valid if opened is set */
    bool opened;
    uint64_t file_bytes;
    uint64_t sealed_bytes; /* expected size, as far as known */
    bool header_ok, footer_ok, sections_ok, id_known;
    bool foreign; /* not the file that was sealed under this name: its content proves nothing */
    spsh__header header;
    uint64_t header_checksum;
    spsh__footer footer;
    uint8_t file_id[16]; /* id from header, footer, or expectation */
    uint64_t shard;      /* number in the manifest; undefined without expected */
    uint8_t *area;       /* shards: the section area if all its pages are good; else NULL */
} spsh__verify_file;

/* Report damage unless v->is_muted, and count it. SPSH_E_CANCELED if the caller cancels. */
spsh_status spsh__verify_damage(spsh__verify *v, const spsh_damage *damage, spsh_error *err);
/* Report a part of a file that a check rejected, with the message of that check. */
spsh_status spsh__verify_refused(spsh__verify *v, const spsh__verify_file *file, const char *part,
                                 uint64_t size_bytes, const spsh_error *why, spsh_error *err);
/* Report that `bytes` more bytes were read. */
spsh_status spsh__verify_progress(spsh__verify *v, uint64_t bytes, spsh_error *err);

/* Open a file and check the parts that every container has. Findings are reported; the status is
 * only an error that ends the run. Close with spsh__verify_file_end. */
spsh_status spsh__verify_file_begin(spsh__verify *v, spsh__verify_file *file, spsh_error *err);
void spsh__verify_file_end(spsh__verify *v, spsh__verify_file *file);

/* Check the blocks of a shard. Call between begin and end. */
spsh_status spsh__verify_shard(spsh__verify *v, spsh__verify_file *file, spsh_error *err);

/* Check a file by its name in the dataset. ret_container: the opened file if no damage was found;
 * may be NULL. */
spsh_status spsh__verify_named(spsh__verify *v, const char *name, spsh__verify_file *file,
                               spsh__container **ret_container, spsh_error *err);
/* Check a shard, or the overlays, that a manifest lists. Overlays checked before are skipped. */
spsh_status spsh__verify_listed_shard(spsh__verify *v, const spsh__manifest *manifest,
                                      uint64_t number, spsh_error *err);
spsh_status spsh__verify_overlays(spsh__verify *v, const spsh__manifest *manifest, spsh_error *err);

/* Find out whether any shard is damaged. Part 0 reads the shards of the other parts for this, up to
 * the first damage. Call after the part's own shards were checked. */
spsh_status spsh__verify_shards_damaged(spsh__verify *v, bool *ret_is_damaged, spsh_error *err);

/* Check the files of each older generation whose manifest still exists, and that it opens. */
spsh_status spsh__verify_older(spsh__verify *v, spsh_error *err);

/* Open a generation as a reader does; 0 is the newest. Report a failure unless damage was found
 * that may be its cause: a dataset without damage must open. */
spsh_status spsh__verify_opens(spsh__verify *v, uint64_t generation, spsh_error *err);

/* Check the dataset's index and the manifest's sums against all shards. */
spsh_status spsh__verify_dataset(spsh__verify *v, spsh_error *err);

#endif
