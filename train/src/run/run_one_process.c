/* run_one_process.c: see run_one_process.h. */
#include "run_one_process.h"

#include <stdio.h>

#include "estimate.h"

enum { LOG_BYTES = 200 };

/* Rank 0 logs for all. Warnings of the other ranks are known only to them. */
static void log_warning(void *user, spsh_log_level level, const char *text)
{
    const spsh__run_outcome *all = (const spsh__run_outcome *)user;
    if (level == SPSH_LOG_WARNING || level == SPSH_LOG_ERROR)
        all->o->log_fn(all->o->log_user, level, text);
}

spsh_status spsh__run_in_turn(spsh__run_outcome *all, const spsh_train_options *options,
                              spsh__run_world *world, spsh_error *err)
{
    spsh_train_options own = *options;
    spsh_train_result ignored = SPSH_TRAIN_RESULT_INIT;
    if (world->launch.rank == 0)
        return spsh__run_in(options, world, all->result, err);
    own.log_fn = options->log_fn != NULL ? log_warning : NULL;
    own.log_user = all;
    return spsh__run_in(&own, world, &ignored, err);
}

void spsh__run_take_failure(spsh__run_outcome *all, spsh_status rc, const spsh_error *failed)
{
    if (rc == SPSH_OK || all->status != SPSH_OK)
        return;
    all->status = rc;
    all->error = *failed;
}

spsh_status spsh__run_check_undisturbed(const spsh_train_options *o, const char *why,
                                        spsh_error *err)
{
    if (o->slow == NULL && o->freeze == NULL && o->kill == NULL && o->link == NULL &&
        o->rendezvous == NULL)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s", why);
}

spsh_status spsh__run_check_alone(const char *what, spsh_error *err)
{
    spsh__launch launch;
    const spsh_status rc = spsh__launch_find(NULL, NULL, &launch, err);
    if (rc == SPSH_OK && launch.world_size > 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s takes one process, but %s started %u", what,
                         launch.launcher, launch.world_size);
    return rc;
}

spsh_status spsh__one_process_opened(spsh__run_world *w, const spsh_train_options *o,
                                     spsh__estimating *e, spsh_error *err)
{
    char text[LOG_BYTES];
    if (!w->is_first)
        return SPSH_OK;
    const spsh_status rc = spsh__estimate_memory(e, err);
    if (rc != SPSH_OK || o->log_fn == NULL)
        return rc;
    const spsh_train_estimate *out = e->out;
    const uint32_t learners = w->comm->world_size;
    const double each =
        1e-9 * (double)(out->weight_bytes + out->gradient_bytes + out->moment_bytes +
                        out->activation_bytes + out->sum_bytes + spsh__feed_memory_bytes(e->feed));
    (void)snprintf(
        text, sizeof(text),
        "%u learners in this process: each takes %.3g GB of memory, together they take %.3g GB",
        learners, each, each * learners);
    o->log_fn(o->log_user, SPSH_LOG_INFO, text);
    return SPSH_OK;
}

spsh_status spsh__one_process_check(const spsh__run_world *w, spsh_error *err)
{
    return spsh__comm_has_failed(w->comm)
               ? SPSH_FAIL(err, SPSH_E_CANCELED,
                           "learner %u was killed, was stopped, or reached the end of its record",
                           w->comm->rank)
               : SPSH_OK;
}
