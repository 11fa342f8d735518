/* process_world.c: the world of a run in a separate process. Its launcher gives the other ranks,
 * and its clock is the computer's.
 */
#include "run_setup.h"
#include "run_world.h"
#include "runtime/comm_throttle.h"
#include "runtime/runtime_processes.h"

enum { START_DEADLINE_MS = 600000 };

/* Delay messages as the option says. */
static spsh_status slow_link(spsh__run_world *w, const spsh_train_options *o, spsh_error *err)
{
    spsh__link link;
    const spsh_status rc = spsh__link_read(o->link, &link, err);
    if (rc != SPSH_OK || w->comm->world_size == 1)
        return rc;
    return spsh__comm_throttle_open(w->comm, &link, &w->comm, err);
}

static spsh_status open_process(spsh__run_world *w, const spsh_train_options *o, spsh_error *err)
{
    const spsh__rendezvous_options meeting = {&w->launch, o->rendezvous, o->run, START_DEADLINE_MS,
                                              o->stop};
    spsh_status rc = spsh__launch_find(NULL, NULL, &w->launch, err);
    if (rc == SPSH_OK)
        rc = spsh__faults_read(o, w->launch.rank, w->launch.world_size, &w->faults, err);
    if (rc == SPSH_OK) /* the configuration's deadline is known only after the first messages */
        rc = spsh__comm_open(&meeting, spsh_allocator_default(), &w->comm, err);
    if (rc == SPSH_OK && o->link != NULL)
        rc = slow_link(w, o, err);
    if (rc == SPSH_E_CANCELED && o->log_fn != NULL) /* any rank: rank 0 cannot log yet */
        o->log_fn(o->log_user, SPSH_LOG_INFO, err->message);
    return rc;
}

static spsh_status configure(spsh__run_world *w, const spsh_train_options *o, spsh__config *c,
                             spsh_error *err)
{
    (void)w;
    return o->record ? spsh__run_stay_on_host(c, err) : SPSH_OK;
}

static spsh_status open_runtime(spsh__run_world *w, uint64_t run, const spsh_allocator *allocator,
                                spsh__runtime **ret, spsh_error *err)
{
    (void)run;
    return spsh__runtime_processes_open(w->comm, allocator, ret, err);
}

const spsh__run_world_ops spsh__process_world = {
    .open_fn = open_process,
    .configure_fn = configure,
    .runtime_fn = open_runtime,
};
