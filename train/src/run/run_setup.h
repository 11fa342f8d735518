/* run_setup.h: what follows from a configuration before a run exists: checks, threads, alignments.
 * The estimate of a run (estimate.h) decides by the same functions.
 */
#ifndef SPSH_TRAIN_RUN_SETUP_H
#define SPSH_TRAIN_RUN_SETUP_H

#include <string.h>

#include "config/choose_backend.h"
#include "config/config.h"
#include "labels/alignments.h"
#include "labels/vocabulary.h"
#include "model/model.h"

/* The configuration of a run, and what it names. */
typedef struct spsh__run_setup {
    spsh__config *config;
    struct { /* settings that the world decides for itself, as they were before */
        uint32_t threads;
        spsh__backend_choice backend;
    } given;
    char *config_text; /* as it was given: in the run's folder, and in checkpoints */
    char *vocabulary_text;
    spsh__vocabulary *vocabulary; /* NULL: a model of frames, which has alignments */
    spsh__alignments *alignments;
} spsh__run_setup;
void spsh__setup_close(spsh__run_setup *s); /* zeros are fine */
/* The configuration as it was given, without what the world has changed. malloc'd; NULL: no memory.
 */
char *spsh__setup_text(const spsh__run_setup *s);
/* The same for a record: a replay has no launcher that tells it how many ranks share a node. */
char *spsh__setup_record_text(const spsh__run_setup *s, uint32_t local_size);

/* Reject a configuration that world_size processes cannot train. */
spsh_status spsh__run_check(const spsh__config *config, uint32_t world_size, spsh_error *err);
/* Reject train.backend cuda, and make `auto` the host: for a run whose order of sums is recorded or
 * simulated. */
spsh_status spsh__run_stay_on_host(spsh__config *config, spsh_error *err);
/* Threads of the model per process if local_size processes share the node. */
uint32_t spsh__run_threads(const spsh__config *config, uint32_t local_size);
/* The device for the loader's batches; NULL: batches stay on the host. alignments: NULL, or those
 * of a model of frames, of which the host cuts chunks. */
const spsh_cuda *spsh__run_lent_device(const spsh__compute *compute,
                                       const spsh__alignments *alignments);
/* Read the alignments of a model of frames, and set its outputs unless the configuration does.
 * Another model has none. */
spsh_status spsh__run_alignments(spsh__config *config, spsh__alignments **ret, spsh_error *err);
/* Make limits cover those of `by`, too. */
void spsh__run_widen(spsh__model_limits *limits, const spsh__model_limits *by);
/* The strategy's learners do not step together. */
bool spsh__run_runs_free(const spsh__config *config);
/* The strategy needs the host: on a GPU its two tasks would race. */
bool spsh__run_needs_host(const spsh__config *config);
/* Each rank has a stage of the model. */
static inline bool spsh__run_is_staged(const spsh__config *c)
{
    return strcmp(c->strategy, "pipeline") == 0;
}
/* Learners per node that step together; 1 unless the strategy has nodes. */
uint32_t spsh__run_node_size(const spsh__config *config, uint32_t local_size);

#endif
