/* checkpoint.h: a run's whole state in one file of checksummed sections (FORMAT.md, container kind
 * 7).
 *
 *     RUN/checkpoints/000000012000.spsh     named by samples seen; RUN/latest: which, written last
 *
 * Written by a thread of its own from a snapshot: temporary name, fsync, rename, fsync of the
 * folder, `latest`; older ones beyond keep are removed after the new one reads back. A generation
 * number, raised at each start of a run in RUN/generation, fences: an old process that comes back
 * to life does not write over a newer one's. Resume takes the newest that verifies, and says which
 * were damaged.
 */
#ifndef SPSH_TRAIN_CHECKPOINT_H
#define SPSH_TRAIN_CHECKPOINT_H

#include "model.h"
#include "speechshard/io.h"

typedef struct spsh__checkpoint {
    uint64_t samples, step, epoch, generation;
    double best_metric;
    uint64_t best_samples;
    uint32_t world_size, virtual_world;
    const char *config, *vocabulary;                /* texts */
    const float *weights, *moments[2], *statistics; /* arena-shaped; moments may be NULL */
    uint64_t arena_elements, statistics_elements;
    const spsh__parameter *parameters; /* names and shapes are checked on reading */
    uint32_t parameter_count;
    const uint8_t *cursor, *strategy; /* bytes */
    size_t cursor_size, strategy_size;
    uint64_t next_batch_hash, weights_hash; /* to prove a resume exact */
    double wall_seconds, audio_seconds;     /* so far */
    uint64_t restarts;
} spsh__checkpoint;

typedef struct spsh__checkpoint_writer spsh__checkpoint_writer;
spsh_status spsh__checkpoint_writer_open(const char *run, uint32_t keep, const spsh_io *io,
                                         const spsh_allocator *allocator,
                                         spsh__checkpoint_writer **ret, spsh_error *err);
/* Copies everything and returns; waits only where the one before is still being written. A failure
 * of the one before is returned here. */
spsh_status spsh__checkpoint_put(spsh__checkpoint_writer *w, const spsh__checkpoint *c,
                                 spsh_error *err);
spsh_status spsh__checkpoint_flush(spsh__checkpoint_writer *w, spsh_error *err);
void spsh__checkpoint_writer_close(spsh__checkpoint_writer *w);

/* The newest good one of a run, or a file. Borrowed from *ret_file. SPSH_E_NOT_FOUND: there is
 * none. */
typedef struct spsh__checkpoint_file spsh__checkpoint_file;
spsh_status spsh__checkpoint_open(const char *path, const spsh_io *io, spsh_log_fn log_fn,
                                  void *log_user, spsh__checkpoint_file **ret_file,
                                  spsh__checkpoint *ret, spsh_error *err);
void spsh__checkpoint_close(spsh__checkpoint_file *file);
#endif
