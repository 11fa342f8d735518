/* estimate.h: the parts of spsh_train_estimate_make: estimate.c opens what a run would open,
 * estimate_epoch.c goes through an epoch and its transcripts, estimate_memory.c adds up memory.
 */
#ifndef SPSH_TRAIN_ESTIMATE_H
#define SPSH_TRAIN_ESTIMATE_H

#include "compute.h"
#include "config.h"
#include "feed.h"
#include "launch.h"
#include "speechshard/train.h"
#include "vocabulary.h"

typedef struct spsh__estimating {
    const spsh_io *io;
    spsh__launch launch;
    spsh__config *config;
    spsh__vocabulary *vocabulary;          /* NULL: a model of frames */
    spsh__alignments *alignments;          /* NULL: one of transcripts */
    spsh__feed *feed;                      /* of training */
    spsh__model_limits limits, dev_limits; /* 0: there is no dev set */
    uint64_t dev_device_bytes;             /* of the dev set whose batches take most of a device */
    spsh__compute compute;                 /* of a run, borrowed; or the estimate's own */
    spsh_train_estimate *out;
} spsh__estimating;

/* Epoch 0 as the sampler deals it, and transcripts of it. */
spsh_status spsh__estimate_epoch(spsh__estimating *e, spsh_error *err);
/* The model and what surrounds it, opened with memory that is only counted. */
spsh_status spsh__estimate_memory(spsh__estimating *e, spsh_error *err);

/* In place of a device's failure to give memory: how much the run takes of it, part by part, and
 * how much there is. Needs configuration, feed, limits, compute and out. Returns status. */
spsh_status spsh__estimate_explain(spsh__estimating *e, spsh_status status, spsh_error *err);
#endif
