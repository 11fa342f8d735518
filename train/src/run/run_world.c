/* run_world.c: see run_world.h. A batch's time passes as it would on a computer of its own:
 *
 *     begin_batch    a third
 *     ...            forward and backward, in no time
 *     pass_bucket    two thirds, in as many parts as there are buckets
 *
 * so that what is sent with a bucket is on its way while the next one is computed.
 */
#include "run_world.h"

#include <stdio.h>

#include "base/train_internal.h"
#include "run_internal.h"
#include "runtime/comm_throttle.h"

enum { START_DEADLINE_MS = 600000 };

/* ---- who the others are ---- */

/* Messages take as long as options say. */
static spsh_status slow_link(spsh__run *r, spsh_error *err)
{
    spsh__link link;
    const spsh_status rc = spsh__link_read(r->o->link, &link, err);
    if (rc != SPSH_OK || r->comm->world_size == 1)
        return rc;
    return spsh__comm_throttle_open(r->comm, &link, &r->comm, err);
}

static spsh_status find_world(spsh__run *r, spsh_error *err)
{
    const spsh__rendezvous_options meeting = {&r->launch, r->o->rendezvous, r->o->run,
                                              START_DEADLINE_MS, r->o->stop};
    spsh_status rc = spsh__launch_find(NULL, NULL, &r->launch, err);
    if (rc == SPSH_OK)
        rc = spsh__faults_read(r->o, r->launch.rank, r->launch.world_size, &r->faults, err);
    if (rc == SPSH_OK) /* the configuration's deadline is known only behind the first messages */
        rc = spsh__comm_open(&meeting, &r->allocator, &r->comm, err);
    if (rc == SPSH_OK && r->o->link != NULL)
        rc = slow_link(r, err);
    if (rc == SPSH_E_CANCELED && r->o->log_fn != NULL) /* of any rank: nobody tells for all */
        r->o->log_fn(r->o->log_user, SPSH_LOG_INFO, err->message);
    return rc;
}

spsh_status spsh__run_open_world(spsh__run *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (r->world != NULL) {
        r->launch = r->world->launch;
        r->comm = r->world->comm;
    } else {
        rc = find_world(r, err);
    }
    r->is_first = rc == SPSH_OK && r->comm->rank == 0;
    return rc;
}

/* ---- all of them in one process ---- */

/* Rank 0 speaks for all; of what it cannot know each. */
static void log_warning(void *user, spsh_log_level level, const char *text)
{
    const spsh__run_outcome *all = (const spsh__run_outcome *)user;
    if (level == SPSH_LOG_WARNING || level == SPSH_LOG_ERROR)
        all->o->log_fn(all->o->log_user, level, text);
}

spsh_status spsh__run_in_turn(spsh__run_outcome *all, const spsh_train_options *options,
                              const spsh__run_world *world, spsh_error *err)
{
    spsh_train_options own = *options;
    spsh_train_result ignored;
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
    return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE, "%s", why);
}

spsh_status spsh__run_check_alone(const char *what, spsh_error *err)
{
    spsh__launch launch;
    const spsh_status rc = spsh__launch_find(NULL, NULL, &launch, err);
    if (rc == SPSH_OK && launch.world_size > 1)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "%s is one process: %s has begun %u", what, launch.launcher,
                         launch.world_size);
    return rc;
}

static spsh_status check_simulated(const spsh__run *r, spsh_error *err)
{
    if (spsh__run_is_staged(r->config))
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, SPSH_OFFSET_NONE,
                         "train.strategy pipeline is not simulated: how long each stage takes of a "
                         "batch is not known");
    return SPSH_OK;
}

spsh_status spsh__run_enter_world(spsh__run *r, spsh_error *err)
{
    spsh__config *c = r->config;
    r->given = (spsh__run_given){c->threads, c->backend};
    r->comm->deadline_ms = c->deadline_ms;
    if (r->world != NULL && r->world->deadline_ms > 0)
        r->comm->deadline_ms = r->world->deadline_ms;
    if (spsh__run_has_clock(r))
        c->threads = 1;
    const spsh_status rc =
        r->world != NULL || r->o->record ? spsh__run_stay_on_host(c, err) : SPSH_OK;
    return rc == SPSH_OK && spsh__run_has_clock(r) ? check_simulated(r, err) : rc;
}

char *spsh__run_config_text(const spsh__run *r, bool of_record)
{
    spsh__config c = *r->config;
    c.threads = r->given.threads;
    c.backend = r->given.backend;
    if (of_record && c.node_size == 0)
        c.node_size = spsh__run_node_size(&c, r->launch.local_size);
    return spsh__config_text(&c);
}

/* ---- what they take ---- */

spsh_status spsh__run_tell_memory(spsh__run *r, spsh_error *err)
{
    spsh_train_estimate out = {.config = NULL};
    spsh__estimating e = spsh__run_estimating(r, &out);
    if (!r->is_first)
        return SPSH_OK;
    const spsh_status rc = spsh__estimate_memory(&e, err);
    if (rc != SPSH_OK)
        return rc;
    const double each =
        1e-9 * (double)(out.weight_bytes + out.gradient_bytes + out.moment_bytes +
                        out.activation_bytes + out.sum_bytes + spsh__feed_memory_bytes(r->feed));
    spsh__run_log(r, SPSH_LOG_INFO,
                  "%u learners in this process: each takes %.3g GB of memory, all together %.3g GB",
                  r->comm->world_size, each, each * r->comm->world_size);
    return SPSH_OK;
}

/* ---- the clock ---- */

bool spsh__run_has_clock(const spsh__run *r)
{
    return r->world != NULL && r->world->batch_ns_fn != NULL;
}

double spsh__run_now_s(const spsh__run *r)
{
    if (!spsh__run_has_clock(r))
        return spsh__now_s();
    return (double)r->world->runtime->ops->now_fn(r->world->runtime) * 1e-9;
}

double spsh__run_told_s(const void *run)
{
    const spsh__run *r = (const spsh__run *)run;
    return r->progress.wall_s + spsh__run_now_s(r);
}

uint64_t spsh__run_feed_wait_ns(const spsh__run *r)
{
    return spsh__run_has_clock(r) ? 0 : spsh__feed_wait_ns(r->feed);
}

void spsh__run_rest(const spsh__run *r)
{
    if (spsh__run_has_clock(r))
        r->world->rest_fn(r->world->user, true);
}

void spsh__run_rest_end(const spsh__run *r)
{
    if (spsh__run_has_clock(r))
        r->world->rest_fn(r->world->user, false);
}

/* Until so much of the batch's time is over. */
static void pass(spsh__run *r, uint64_t until_ns)
{
    spsh__runtime *t = r->world->runtime;
    t->ops->compute_fn(t, until_ns - r->spent_ns);
    r->spent_ns = until_ns;
}

spsh_status spsh__run_begin_batch(spsh__run *r, spsh_error *err)
{
    if (r->world == NULL)
        return SPSH_OK;
    if (spsh__run_has_clock(r)) {
        r->world->begin_fn(r->world->user);
        r->batch_ns = r->world->batch_ns_fn(r->world->user);
        r->spent_ns = 0;
        pass(r, r->batch_ns / 3);
    } else if (r->o->stop != NULL && *r->o->stop != 0) { /* what its record does is done then */
        spsh__comm_fail(r->comm);
    }
    return spsh__comm_has_failed(r->comm)
               ? SPSH_FAIL(err, SPSH_E_CANCELED, SPSH_OFFSET_NONE,
                           "learner %u ends here: killed, stopped, or at the end of its record",
                           r->comm->rank)
               : SPSH_OK;
}

void spsh__run_pass_bucket(spsh__run *r, uint32_t bucket)
{
    const uint64_t count = r->learner.bucket_count;
    if (!spsh__run_has_clock(r))
        return;
    const uint64_t forward_ns = r->batch_ns / 3;
    const uint64_t part_ns = (r->batch_ns - forward_ns) / count;
    pass(r, bucket + 1 == count ? r->batch_ns : forward_ns + part_ns * (bucket + 1));
}
