/* checkpoint.h: a run's whole state in one file of checksummed sections (FORMAT.md 10, container
 * kind 7).
 *
 *     RUN/checkpoints/000003-000000012000.spsh     generation, samples seen
 *     RUN/checkpoints/000003.generation            empty: claimed by the run's third start
 *     RUN/latest                                   the newest checkpoint's name, for people and
 *     hooks
 *
 *     rc = spsh__checkpoint_writer_open(run, 3, NULL, NULL, &writer, &err);      // only on rank 0
 *     rc = spsh__checkpoint_put(writer, &state, &err);                 // a thread writes
 *     rc = spsh__checkpoint_flush(writer, &err);                       // wait for the disk
 *     spsh__checkpoint_writer_close(writer);
 *
 *     rc = spsh__checkpoint_open(run, NULL, log_fn, user, &file, &state, &err);
 *     rc = spsh__checkpoint_match(&state, parameters, count, elements, statistics, &err);
 *     ... copy from state ...
 *     spsh__checkpoint_close(file);
 *
 * A separate thread writes each checkpoint: temporary name, fsync, rename, fsync of
 * the folder. It then reads the file back, checks all of it, writes `latest`, and removes older
 * checkpoints beyond keep. A crash at any moment leaves the previous or the new checkpoint.
 *
 * Each start of a run claims the next generation by an exclusive create. An old process that
 * resumes after a pause writes under names of its generation, which no reader prefers. Its next
 * save returns SPSH_E_MISMATCH: a newer process has replaced it. It does not touch the files of its
 * successor.
 */
#ifndef SPSH_TRAIN_CHECKPOINT_H
#define SPSH_TRAIN_CHECKPOINT_H

#include "model/model.h"
#include "speechshard/io.h"

typedef struct spsh__checkpoint {
    uint64_t samples, step, epoch;
    uint64_t generation; /* put: ignored, the writer's generation is stored */
    double best_metric;
    uint64_t best_samples; /* sample count of the best checkpoint, which is kept in addition to the
                              newest ones */
    uint32_t world_size, virtual_world;
    const char *config, *vocabulary;                /* strings */
    const float *weights, *moments[2], *statistics; /* arena-shaped; moments may be NULL */
    uint64_t arena_elements, statistics_elements;
    const spsh__parameter *parameters; /* ascending offsets; bucket is not stored: 0 when read */
    uint32_t parameter_count;
    const uint8_t *cursor, *strategy; /* bytes */
    size_t cursor_size, strategy_size;
    uint64_t next_batch_hash;           /* hash from spsh__feed_next_hash: to prove that a resume is
                                           exact */
    uint64_t weights_hash;              /* put: ignored, the writer's thread computes it */
    double wall_seconds, audio_seconds; /* totals so far */
    uint64_t restarts;
    /* put: the writer's thread calls it before it reads the arenas. NULL: they are complete. */
    spsh_status (*ready_fn)(void *user, spsh_error *err);
    void *ready_user;
} spsh__checkpoint;

/* Return the XXH3-64 of an arena, including gaps: weights_hash. */
uint64_t spsh__checkpoint_hash(const float *elements, uint64_t count);

/* One thread per object. */
typedef struct spsh__checkpoint_writer spsh__checkpoint_writer;

/* Create the run's folders, claim the next generation, and remove unfinished files of killed
 * writers of earlier generations. keep: number of newest files to keep, in addition to the best; 0:
 * all. io, allocator: NULL: defaults; io is borrowed. put allocates memory for a copy of all but
 * the arenas. */
spsh_status spsh__checkpoint_writer_open(const char *run, uint32_t keep, const spsh_io *io,
                                         const spsh_allocator *allocator,
                                         spsh__checkpoint_writer **ret, spsh_error *err);
uint64_t spsh__checkpoint_writer_generation(const spsh__checkpoint_writer *w);
/* Copy all but the arenas (weights, moments, statistics), which are borrowed until the checkpoint
 * is written, and return. Waits only while the previous checkpoint is still being written. A
 * failure of the previous checkpoint is returned here, once, and nothing is copied then: another
 * call is a new attempt. SPSH_E_NO_SPACE, _IO: earlier checkpoints are intact. SPSH_E_MISMATCH: a
 * newer start of the run has taken over. */
spsh_status spsh__checkpoint_put(spsh__checkpoint_writer *w, const spsh__checkpoint *c,
                                 spsh_error *err);
/* Like flush, but return SPSH_OK while the checkpoint is still being written. */
spsh_status spsh__checkpoint_poll(spsh__checkpoint_writer *w, spsh_error *err);
/* Read the folder. SPSH_E_MISMATCH: a newer start of the run has taken over; _IO, _NO_MEMORY. */
spsh_status spsh__checkpoint_writer_check(const spsh__checkpoint_writer *w, spsh_error *err);
/* Wait until the last checkpoint is on the disk and read back, or return its failure. */
spsh_status spsh__checkpoint_flush(spsh__checkpoint_writer *w, spsh_error *err);
/* Wait for the checkpoint in progress. Call flush first to learn its outcome. NULL is fine. */
void spsh__checkpoint_writer_close(spsh__checkpoint_writer *w);

/* Open a file, or the newest valid checkpoint of a run (highest generation, then samples).
 * Everything in it is checked before the return; *ret is borrowed from *ret_file. log_fn (may be
 * NULL) is called for each skipped file with the reason. SPSH_E_NOT_FOUND: no checkpoints.
 * SPSH_E_CORRUPT: checkpoints exist, but none is valid. */
typedef struct spsh__checkpoint_file spsh__checkpoint_file;
spsh_status spsh__checkpoint_open(const char *path, const spsh_io *io, spsh_log_fn log_fn,
                                  void *log_user, spsh__checkpoint_file **ret_file,
                                  spsh__checkpoint *ret, spsh_error *err);
void spsh__checkpoint_close(spsh__checkpoint_file *file);

/* Return SPSH_E_MISMATCH, with the first difference, unless the checkpoint is of a model with these
 * names, shapes, and offsets. */
spsh_status spsh__checkpoint_match(const spsh__checkpoint *c, const spsh__parameter *parameters,
                                   uint32_t count, uint64_t arena_elements,
                                   uint64_t statistics_elements, spsh_error *err);
#endif
