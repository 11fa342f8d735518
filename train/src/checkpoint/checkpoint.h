/* checkpoint.h: a run's whole state in one file of checksummed sections (FORMAT.md 10, container
 * kind 7).
 *
 *     RUN/checkpoints/000003-000000012000.spsh     generation, samples seen
 *     RUN/checkpoints/000003.generation            empty: claimed by the run's third start
 *     RUN/latest                                   the newest one's name, for people and hooks
 *
 *     rc = spsh__checkpoint_writer_open(run, 3, NULL, NULL, &writer, &err);      // rank 0 alone
 *     rc = spsh__checkpoint_put(writer, &state, &err);                 // copies; a thread writes
 *     rc = spsh__checkpoint_flush(writer, &err);                       // on the disk, or why not
 *     spsh__checkpoint_writer_close(writer);
 *
 *     rc = spsh__checkpoint_open(run, NULL, log_fn, user, &file, &state, &err);
 *     rc = spsh__checkpoint_match(&state, parameters, count, elements, statistics, &err);
 *     ... copy from state ...
 *     spsh__checkpoint_close(file);
 *
 * Written by a thread of its own from a snapshot: temporary name, fsync, rename, fsync of the
 * folder; then it is read back and all of it checked; then `latest` is written and older ones
 * beyond keep are removed. A crash at any moment leaves the checkpoint before or the new one.
 *
 * Each start of a run claims the next generation by an exclusive create. An old process that comes
 * back to life writes under names of its own generation, which no reader prefers, and learns at its
 * next save (SPSH_E_MISMATCH) that it has been replaced; it touches nothing of its successor's.
 */
#ifndef SPSH_TRAIN_CHECKPOINT_H
#define SPSH_TRAIN_CHECKPOINT_H

#include "model/model.h"
#include "speechshard/io.h"

typedef struct spsh__checkpoint {
    uint64_t samples, step, epoch;
    uint64_t generation; /* put: not looked at, the writer's is stored */
    double best_metric;
    uint64_t best_samples; /* the checkpoint with so many samples is kept beside the newest */
    uint32_t world_size, virtual_world;
    const char *config, *vocabulary;                /* texts */
    const float *weights, *moments[2], *statistics; /* arena-shaped; moments may be NULL */
    uint64_t arena_elements, statistics_elements;
    const spsh__parameter *parameters; /* ascending offsets; bucket is not stored: 0 when read */
    uint32_t parameter_count;
    const uint8_t *cursor, *strategy; /* bytes */
    size_t cursor_size, strategy_size;
    uint64_t next_batch_hash;           /* of spsh__feed_next_hash: to prove a resume exact */
    uint64_t weights_hash;              /* put: not looked at, the writer's thread takes it */
    double wall_seconds, audio_seconds; /* so far */
    uint64_t restarts;
} spsh__checkpoint;

/* XXH3-64 of an arena, gaps included: weights_hash. */
uint64_t spsh__checkpoint_hash(const float *elements, uint64_t count);

/* One thread per object. */
typedef struct spsh__checkpoint_writer spsh__checkpoint_writer;

/* Makes the run's folders, claims the next generation, removes what killed writers of earlier ones
 * left half-written. keep: so many newest files, and the best; 0: all. io, allocator: NULL:
 * defaults; io is borrowed. Memory: taken by the first put, as large as what is put. */
spsh_status spsh__checkpoint_writer_open(const char *run, uint32_t keep, const spsh_io *io,
                                         const spsh_allocator *allocator,
                                         spsh__checkpoint_writer **ret, spsh_error *err);
uint64_t spsh__checkpoint_writer_generation(const spsh__checkpoint_writer *w);
/* Copies everything and returns; waits only where the one before is still being written. A failure
 * of the one before is returned here, once, and then nothing is taken: calling again is a new
 * attempt. SPSH_E_NO_SPACE, _IO: the checkpoints before are as they were. SPSH_E_MISMATCH: a newer
 * start of the run has taken over. */
spsh_status spsh__checkpoint_put(spsh__checkpoint_writer *w, const spsh__checkpoint *c,
                                 spsh_error *err);
/* As flush, but SPSH_OK while it is still being written. */
spsh_status spsh__checkpoint_poll(spsh__checkpoint_writer *w, spsh_error *err);
/* Looks at the folder. SPSH_E_MISMATCH as above, _IO, _NO_MEMORY. */
spsh_status spsh__checkpoint_writer_check(const spsh__checkpoint_writer *w, spsh_error *err);
/* Waits until what was put is on the disk and read back, or returns why it is not. */
spsh_status spsh__checkpoint_flush(spsh__checkpoint_writer *w, spsh_error *err);
/* Waits for what is being written; who wants to know its outcome calls flush first. NULL is fine.
 */
void spsh__checkpoint_writer_close(spsh__checkpoint_writer *w);

/* The newest good one of a run (highest generation, then samples), or a file. Everything in it is
 * checked before this returns; *ret is borrowed from *ret_file. log_fn (may be NULL) hears of those
 * that were passed over and why.
 * SPSH_E_NOT_FOUND: there is none. SPSH_E_CORRUPT: there are some, and none is good. */
typedef struct spsh__checkpoint_file spsh__checkpoint_file;
spsh_status spsh__checkpoint_open(const char *path, const spsh_io *io, spsh_log_fn log_fn,
                                  void *log_user, spsh__checkpoint_file **ret_file,
                                  spsh__checkpoint *ret, spsh_error *err);
void spsh__checkpoint_close(spsh__checkpoint_file *file);

/* SPSH_E_MISMATCH, with the first difference, unless the checkpoint is of a model with these names,
 * shapes and places. */
spsh_status spsh__checkpoint_match(const spsh__checkpoint *c, const spsh__parameter *parameters,
                                   uint32_t count, uint64_t arena_elements,
                                   uint64_t statistics_elements, spsh_error *err);
#endif
