/* checkpoint_internal.h: one checkpoint file, and the folder of all of them. */
#ifndef SPSH_TRAIN_CHECKPOINT_INTERNAL_H
#define SPSH_TRAIN_CHECKPOINT_INTERNAL_H

#include "checkpoint.h"

enum { SPSH__CHECKPOINT_NAME_BYTES = 64 };

/* ---- checkpoint_file.c ---- */

/* Return SPSH_E_INVALID_ARG if the checkpoint cannot be stored: parameters overlap or exceed the
 * arena, or strings are missing. */
spsh_status spsh__checkpoint_check(const spsh__checkpoint *c, spsh_error *err);
/* c: checked, with its generation and weights_hash. Replaces a file of that name. */
spsh_status spsh__checkpoint_write(const char *folder, const spsh__checkpoint *c, const spsh_io *io,
                                   const spsh_allocator *allocator, spsh_error *err);
/* Check every byte and every rule of FORMAT.md 10. */
spsh_status spsh__checkpoint_read(const char *path, const spsh_io *io,
                                  const spsh_allocator *allocator, spsh__checkpoint_file **ret_file,
                                  spsh__checkpoint *ret, spsh_error *err);

/* ---- checkpoint_folder.c ---- */

/* The fields of a file name. Preferred first: the highest generation, then the most samples. */
typedef struct spsh__checkpoint_place {
    uint32_t generation;
    uint64_t samples;
} spsh__checkpoint_place;

void spsh__checkpoint_name(spsh__checkpoint_place place, char name[SPSH__CHECKPOINT_NAME_BYTES]);
/* Return DIRECTORY/NAME, or NULL if out of memory. */
char *spsh__checkpoint_join(const spsh_allocator *allocator, const char *directory,
                            const char *name);

typedef struct spsh__checkpoint_list {
    spsh__checkpoint_place *places; /* the most preferred first */
    size_t count, capacity;
    uint32_t generation; /* highest generation that was claimed or has a file; 0: none */
} spsh__checkpoint_list;

/* SPSH_E_NOT_FOUND: no such folder. places: allocated from allocator, freed by the caller. */
spsh_status spsh__checkpoint_list_read(const char *folder, const spsh_allocator *allocator,
                                       spsh__checkpoint_list *ret, spsh_error *err);
/* Claim a generation above all others, exclusively. */
spsh_status spsh__checkpoint_claim(const char *folder, const spsh_io *io,
                                   const spsh_allocator *allocator, uint32_t *ret_generation,
                                   spsh_error *err);
/* Remove claims and temporary files of generations below `generation`, and temporary files of
 * `latest`. Files that cannot be removed stay. */
void spsh__checkpoint_sweep(const char *folder, uint32_t generation, const spsh_io *io,
                            const spsh_allocator *allocator);
/* Remove all checkpoints except the first `keep` and the best. */
spsh_status spsh__checkpoint_prune(const char *folder, uint32_t keep, uint64_t best_samples,
                                   const spsh_io *io, const spsh_allocator *allocator,
                                   spsh_error *err);
#endif
