/* trained.h: a checkpoint, opened for recognition: configuration, vocabulary, backend, and a model
 * for batches of a given size.
 *
 *     spsh__trained_open(&options, &trained, &err);
 *     spsh__trained_size(trained, inputs, &limits, &err);          // whenever batches grow
 *     ... trained->model ...
 *     spsh__trained_close(trained);
 */
#ifndef SPSH_TRAIN_TRAINED_H
#define SPSH_TRAIN_TRAINED_H

#include "checkpoint/checkpoint.h"
#include "config/choose_backend.h"
#include "config/config.h"
#include "labels/vocabulary.h"

typedef struct spsh__trained {
    spsh__checkpoint_file *file;
    spsh__checkpoint state; /* borrowed from file */
    spsh__config *config;
    spsh__vocabulary *vocabulary; /* NULL: a model of frames */
    spsh__compute compute;
    spsh__backend *backend; /* backend of `compute` */
    spsh__model *model;     /* NULL before the first spsh__trained_size */
    spsh__model_limits limits;
} spsh__trained;

typedef struct spsh__trained_options {
    const char *path;   /* a run's folder (its newest valid checkpoint), or a file */
    uint32_t threads;   /* 0: one per core */
    const spsh_io *io;  /* NULL: the operating system */
    spsh_log_fn log_fn; /* receives skipped damaged checkpoints; may be NULL */
    void *log_user;
} spsh__trained_options;

/* SPSH_E_NOT_FOUND, _CORRUPT, ... */
spsh_status spsh__trained_open(const spsh__trained_options *options, spsh__trained **ret,
                               spsh_error *err);
void spsh__trained_close(spsh__trained *t); /* NULL is fine */

/* Open a forward-only model for such batches, with the checkpoint's weights. inputs: values per
 * frame. SPSH_E_MISMATCH: the checkpoint has another shape. */
spsh_status spsh__trained_size(spsh__trained *t, uint32_t inputs, const spsh__model_limits *limits,
                               spsh_error *err);

#endif
