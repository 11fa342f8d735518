/* run_setup.h: checks, threads, and alignments that depend on a configuration and need no run. The
 * estimate of a run (estimate.h) uses the same functions.
 */
#ifndef SPSH_TRAIN_RUN_SETUP_H
#define SPSH_TRAIN_RUN_SETUP_H

#include <string.h>

#include "config/choose_backend.h"
#include "config/config.h"
#include "labels/alignments.h"
#include "labels/vocabulary.h"
#include "model/model.h"

/* The configuration of a run, and the objects that it names. */
typedef struct spsh__run_setup {
    spsh__config *config;
    struct { /* original values of settings that the world overrides */
        uint32_t threads;
        spsh__backend_choice backend;
    } given;
    char *config_text; /* original text: stored in the run's folder and in checkpoints */
    char *vocabulary_text;
    spsh__vocabulary *vocabulary; /* NULL: a model of frames, which has alignments */
    spsh__alignments *alignments;
} spsh__run_setup;
void spsh__setup_close(spsh__run_setup *s); /* accepts an all-zero struct */
/* Return the original configuration, without overrides by the world. malloc'd; NULL: out of memory.
 */
char *spsh__setup_text(const spsh__run_setup *s);
/* Return the configuration for a record. It stores the number of ranks per node, because a replay
 * has no launcher. */
char *spsh__setup_record_text(const spsh__run_setup *s, uint32_t local_size);

/* Reject a configuration that world_size processes cannot train. */
spsh_status spsh__run_check(const spsh__config *config, uint32_t world_size, spsh_error *err);
/* Reject train.backend cuda, and set `auto` to the host: for a run that is recorded or repeated. */
spsh_status spsh__run_stay_on_host(spsh__config *config, spsh_error *err);
/* Threads of the model per process if local_size processes share the node. */
uint32_t spsh__run_threads(const spsh__config *config, uint32_t local_size);
/* Return the device for the loader's batches. NULL: batches stay on the host. alignments: NULL, or
 * the alignments of a model of frames, whose chunks are cut on the host. */
const spsh_cuda *spsh__run_lent_device(const spsh__compute *compute,
                                       const spsh__alignments *alignments);
/* Read the alignments of a model of frames, and set its outputs unless the configuration does.
 * Other models have no alignments. */
spsh_status spsh__run_alignments(spsh__config *config, spsh__alignments **ret, spsh_error *err);
/* Read the vocabulary that the configuration, which was read from config_path, names. */
spsh_status spsh__run_vocabulary(const spsh__config *config, const char *config_path,
                                 const spsh_io *io, spsh__vocabulary **ret, spsh_error *err);
/* Make limits also cover `by`. */
void spsh__run_widen(spsh__model_limits *limits, const spsh__model_limits *by);
/* True if the strategy's learners are asynchronous. */
bool spsh__run_is_asynchronous(const spsh__config *config);
/* True if each rank has one stage of the model. */
static inline bool spsh__run_is_staged(const spsh__config *c)
{
    return strcmp(c->strategy, "pipeline") == 0;
}
/* Learners per node that are synchronous; 1 unless the strategy has nodes. */
uint32_t spsh__run_node_size(const spsh__config *config, uint32_t local_size);

#endif
