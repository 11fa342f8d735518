/* estimate.h: the parts of spsh_train_estimate_make: estimate.c opens what a run would open,
 * estimate_epoch.c goes through an epoch and its transcripts, estimate_memory.c adds up memory,
 * estimate_work.c what operators of a device take.
 */
#ifndef SPSH_TRAIN_ESTIMATE_H
#define SPSH_TRAIN_ESTIMATE_H

#include "comm/launch.h"
#include "config/choose_backend.h"
#include "config/config.h"
#include "feed/feed.h"
#include "labels/vocabulary.h"
#include "model/model.h"
#include "speechshard/train.h"

typedef struct spsh__estimating {
    const spsh_io *io;
    spsh__launch launch;
    spsh__config *config;
    spsh__vocabulary *vocabulary;          /* NULL: a model of frames */
    spsh__alignments *alignments;          /* NULL: one of transcripts */
    spsh__feed *feed;                      /* of training */
    spsh__model_limits limits, dev_limits; /* 0: there is no dev set */
    uint64_t dev_device_bytes;             /* of the dev set whose batches take most of a device */
    uint64_t ctc_pairs;                    /* of a batch: frames * (labels + 1); 0: not known */
    spsh__compute compute;                 /* of a run, borrowed; or the estimate's own */
    spsh_train_estimate *out;
} spsh__estimating;

/* Epoch 0 as the sampler deals it, and transcripts of it. */
spsh_status spsh__estimate_epoch(spsh__estimating *e, spsh_error *err);
/* The model and what surrounds it, opened with memory that is only counted. */
spsh_status spsh__estimate_memory(spsh__estimating *e, spsh_error *err);

/* A model that was opened with memory that is only counted, and its limits. */
typedef struct spsh__estimate_model {
    spsh__model *model;
    spsh__model_shape shape;
    spsh__model_limits limits;
    bool is_forward_only;
} spsh__estimate_model;

/* Between spsh__cuda_count_begin and _end of b: the largest batches go through. */
spsh_status spsh__estimate_work(const spsh__estimating *e, spsh__backend *b,
                                const spsh__estimate_model *m, spsh_error *err);

/* In place of a device's failure to give memory: how much the run takes of it, part by part, and
 * how much there is. Needs configuration, feed, limits, compute and out. Returns status. */
spsh_status spsh__estimate_explain(spsh__estimating *e, spsh_status status, spsh_error *err);
#endif
