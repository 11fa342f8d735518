/* run_lost.c: lost learners in runs that continue without them (train.on_lost: shrink).
 *
 * Each process detects a broken connection at its own time (runtime.h). Its strategy then continues
 * without the lost process, and rank 0 gives the open leases to other learners. At the next
 * barrier, rank 0 sends the list of lost ranks (lease.h). Collectives there, and at later barriers,
 * include only the other ranks. A process that disconnects between that message and the end of the
 * barrier is missing from a collective. The run then ends, as it does without rank 0, or without
 * `shrink`.
 */
#include <stdlib.h>

#include "run_internal.h"
#include "runtime/comm_sub.h"
#include "speechshard/inside.h"

static spsh_status check(const spsh__run *r, spsh_error *err)
{
    const spsh__strategy_ops *ops = r->strategy->ops;
    const spsh__comm_ops *comm = r->world->comm->ops;
    if (!ops->outlives)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "train.on_lost is shrink, but with %s a lost process ends the run; set train.strategy "
            "to adpsgd-fixed, adpsgd-random, or ps-async, or train.on_lost to end",
            ops->name);
    if (ops->push_fn != NULL && r->setup.config->servers != 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "train.on_lost is shrink, but with %s a lost server would lose its part "
                         "of the model; set train.servers to 1, so that process 0 has all parts",
                         ops->name);
    if (r->world->ops->no_loss != NULL)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "%s", r->world->ops->no_loss);
    if (comm->has_gone_fn == NULL)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.on_lost is shrink, which needs messages over TCP and no link "
                         "option; over %s, all processes end if one does; set SPEECHSHARD_COMM=tcp",
                         comm->name);
    return SPSH_OK;
}

spsh_status spsh__run_open_lost(spsh__run *r, spsh_error *err)
{
    if (!r->setup.config->shrinks || r->world->comm->world_size == 1)
        return SPSH_OK;
    const spsh_status rc = check(r, err);
    r->world->comm->outlives = rc == SPSH_OK;
    r->rounds.learners = r->world->comm->world_size;
    return rc;
}

spsh_status spsh__run_poll_lost(spsh__run *r, spsh_error *err)
{
    spsh__lease_state state = {.learners = 0};
    if (r->rounds.learners == 0)
        return SPSH_OK;
    const spsh_status rc = spsh__leases_state(spsh__draw_leases(r->rounds.draw), &state, err);
    if (rc != SPSH_OK)
        return rc;
    if (state.learners < r->rounds.learners)
        spsh__run_log(r, SPSH_LOG_WARNING,
                      "%u of %u processes disconnected; the others continue, and repeat their "
                      "unfinished work",
                      r->learner.comm->world_size - state.learners, r->learner.comm->world_size);
    r->rounds.learners = r->step.facts.learners = state.learners;
    return SPSH_OK;
}

/* Open a communicator of the ranks that are not lost. */
static spsh_status open_living(spsh__run *r, spsh__comm **ret, spsh_error *err)
{
    spsh__comm *all = r->learner.comm;
    const spsh__leases *leases = spsh__draw_leases(r->rounds.draw);
    uint32_t count = 0;
    uint32_t *list = calloc(all->world_size, sizeof(*list));
    if (list == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t rank = 0; rank < all->world_size; rank++)
        if (!spsh__leases_is_lost(leases, rank))
            list[count++] = rank;
    const spsh_status rc = count == r->world->comm->world_size
                               ? SPSH_OK
                               : spsh__comm_list_open(all, list, count, ret, err);
    free(list);
    return rc;
}

spsh_status spsh__run_shrink(spsh__run *r, spsh_error *err)
{
    spsh__comm *living = NULL;
    if (r->rounds.learners == 0)
        return SPSH_OK;
    const spsh_status rc = open_living(r, &living, err);
    if (rc != SPSH_OK || living == NULL)
        return rc;
    if (r->learner.living != NULL)
        spsh__comm_close(r->world->comm);
    r->world->comm = r->learner.living = living;
    return SPSH_OK;
}

/* Call after the strategy is closed, and before comm is closed. */
void spsh__run_close_lost(spsh__run *r)
{
    if (r->learner.living == NULL)
        return;
    spsh__comm_close(r->world->comm);
    r->world->comm = r->learner.comm;
    r->learner.living = NULL;
}
