/* estimate.h: the parts of spsh_train_estimate_make: estimate.c opens the objects of a run,
 * estimate_epoch.c walks an epoch and its transcripts, estimate_memory.c adds up memory,
 * estimate_work.c counts the memory of a device's operators.
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
    spsh__alignments *alignments;          /* NULL: a model of transcripts */
    spsh__feed *feed;                      /* feed of the training data */
    spsh__model_limits limits, dev_limits; /* dev_limits 0: there is no dev set */
    uint64_t dev_device_bytes;             /* device bytes of the dev set with the largest
                                              batches */
    uint64_t ctc_pairs;                    /* maximum per batch: frames * (labels + 1); 0:
                                              unknown */
    spsh__compute compute;                 /* borrowed from a run, or owned by the estimate */
    spsh_train_estimate *out;
} spsh__estimating;

/* Walk epoch 0 in the sampler's order, and its transcripts. */
spsh_status spsh__estimate_epoch(spsh__estimating *e, spsh_error *err);
/* Open the model and its surroundings with memory that is only counted. */
spsh_status spsh__estimate_memory(spsh__estimating *e, spsh_error *err);

/* Find the largest data.max_padded_seconds that fits in the free memory of the device. Call after
 * spsh__estimate_memory. */
void spsh__estimate_fit(const spsh__estimating *e);

/* A model that was opened with memory that is only counted, and its limits. */
typedef struct spsh__estimate_model {
    spsh__model *model;
    spsh__model_shape shape;
    spsh__model_limits limits;
    bool is_forward_only;
} spsh__estimate_model;

/* Run the largest batches. Call between spsh__cuda_count_begin and _end of b. */
spsh_status spsh__estimate_work(const spsh__estimating *e, spsh__backend *b,
                                const spsh__estimate_model *m, spsh_error *err);

/* Replace a device's out-of-memory message by one that lists the memory of the run, part by part,
 * and the available memory. Needs configuration, feed, limits, compute, and out. Returns status. */
spsh_status spsh__estimate_explain(spsh__estimating *e, spsh_status status, spsh_error *err);
#endif
