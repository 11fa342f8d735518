/* trained.h: what a checkpoint holds, open and ready to recognise: configuration, vocabulary,
 * backend, and a model for batches of a given size.
 *
 *     spsh__trained_open(&options, &trained, &err);
 *     spsh__trained_size(trained, inputs, &limits, &err);          // as often as batches grow
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
    spsh__backend *backend; /* compute's */
    spsh__model *model;     /* NULL before the first size */
    spsh__model_limits limits;
} spsh__trained;

typedef struct spsh__trained_options {
    const char *path;   /* a run's folder (its newest good checkpoint), or a file */
    uint32_t threads;   /* 0: as many as there are cores */
    const spsh_io *io;  /* NULL: the operating system */
    spsh_log_fn log_fn; /* damaged checkpoints that are passed over; NULL */
    void *log_user;
} spsh__trained_options;

/* SPSH_E_NOT_FOUND, _CORRUPT, ... */
spsh_status spsh__trained_open(const spsh__trained_options *options, spsh__trained **ret,
                               spsh_error *err);
void spsh__trained_close(spsh__trained *t); /* NULL is fine */

/* A model that takes such batches, with the checkpoint's weights, for forward alone. inputs: values
 * of a frame. SPSH_E_MISMATCH: the checkpoint is of another shape. */
spsh_status spsh__trained_size(spsh__trained *t, uint32_t inputs, const spsh__model_limits *limits,
                               spsh_error *err);

#endif
