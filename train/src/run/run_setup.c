/* run_setup.c: see run_setup.h. */
#include "run_setup.h"

#include <stdlib.h>
#include <unistd.h>

#include "speechshard/cores.h"
#include "speechshard/inside.h"
#include "strategy/strategy.h"

spsh_status spsh__run_check(const spsh__config *c, uint32_t world_size, spsh_error *err)
{
    if (c->virtual_world != 0 && c->virtual_world < world_size && !spsh__run_is_asynchronous(c) &&
        !spsh__run_is_staged(c))
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "data.virtual_world is %u, but there are %u processes, and each needs a batch of every "
            "step; start fewer processes, or raise data.virtual_world, which changes the steps",
            c->virtual_world, world_size);
    if (c->accumulate_samples > 0 && spsh__run_is_asynchronous(c))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.accumulate_samples is set, but train.accumulate can grow only with "
                         "a synchronous strategy, and %s is asynchronous",
                         c->strategy);
    return SPSH_OK;
}

spsh_status spsh__run_stay_on_host(spsh__config *c, spsh_error *err)
{
    if (c->backend == SPSH__BACKEND_CUDA)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.backend is cuda, but recorded runs compute on the host; set "
                         "train.backend=cpu");
    if (c->backend == SPSH__BACKEND_AUTO)
        c->backend = SPSH__BACKEND_CPU;
    return SPSH_OK;
}

/* The ranks of a node share its cores, and a launcher may have bound each to a few of them. */
uint32_t spsh__run_threads(const spsh__config *config, uint32_t local_size)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t ranks = local_size > 0 ? local_size : 1;
    if (config->threads > 0)
        return config->threads;
    return spsh_core_count(cores > (long)ranks ? (uint32_t)cores / ranks : 1);
}

spsh_status spsh__run_alignments(spsh__config *c, spsh__alignments **ret, spsh_error *err)
{
    if (c->model.kind != SPSH__MODEL_LSTM_HYBRID)
        return SPSH_OK;
    const spsh_status rc = spsh__alignments_read((const char *const *)c->alignments, ret, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t greatest = spsh__alignments_greatest(*ret);
    if (c->model.outputs == 0)
        c->model.outputs = greatest > 0 ? greatest + 1 : 2;
    if (greatest >= c->model.outputs)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "data.alignments: the highest state is %u, but model.outputs is %u",
                         greatest, c->model.outputs);
    return SPSH_OK;
}

spsh_status spsh__run_vocabulary(const spsh__config *config, const char *config_path,
                                 const spsh_io *io, spsh__vocabulary **ret, spsh_error *err)
{
    if (config->vocabulary[0] == '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s: the key vocabulary is not set; 'speechshard train CONFIG "
                         "--make-vocab' makes the vocabulary that CONFIG names",
                         config_path);
    return spsh__vocabulary_read(config->vocabulary, io, ret, err);
}

const spsh_cuda *spsh__run_lent_device(const spsh__compute *compute,
                                       const spsh__alignments *alignments)
{
    return alignments == NULL ? compute->cuda : NULL;
}

void spsh__run_widen(spsh__model_limits *limits, const spsh__model_limits *by)
{
    if (by->batch_max > limits->batch_max)
        limits->batch_max = by->batch_max;
    if (by->frames_max > limits->frames_max)
        limits->frames_max = by->frames_max;
    if (by->rows_max > limits->rows_max)
        limits->rows_max = by->rows_max;
}

bool spsh__run_is_asynchronous(const spsh__config *config)
{
    const spsh__strategy_options options = {.outer = config->outer};
    return !spsh__strategy_goes_in_step(config->strategy, &options);
}

char *spsh__setup_text(const spsh__run_setup *s)
{
    spsh__config c = *s->config;
    c.threads = s->given.threads;
    c.backend = s->given.backend;
    return spsh__config_text(&c);
}

char *spsh__setup_record_text(const spsh__run_setup *s, uint32_t local_size)
{
    spsh__config c = *s->config;
    c.threads = s->given.threads;
    c.backend = s->given.backend;
    if (c.node_size == 0)
        c.node_size = spsh__run_node_size(&c, local_size);
    return spsh__config_text(&c);
}

void spsh__setup_close(spsh__run_setup *s)
{
    spsh__vocabulary_free(s->vocabulary);
    spsh__alignments_free(s->alignments);
    spsh__config_free(s->config);
    free(s->config_text);
    free(s->vocabulary_text);
}

uint32_t spsh__run_node_size(const spsh__config *config, uint32_t local_size)
{
    if (strcmp(config->strategy, "hierarchical") != 0)
        return 1;
    if (config->node_size > 0)
        return config->node_size;
    return local_size > 0 ? local_size : 1;
}
