/* run_replayed.c: replay a recorded run. All its learners run in one process, each the whole of
 * spsh__run_in on a fiber of runtime_replay.h, which resumes them in the recorded order. The
 * computation is repeated from the same data, so it produces identical bits.
 */
#include <stdlib.h>

#include "base/new_text.h"
#include "run_one_process.h"
#include "run_setup.h"
#include "runtime/runtime_replay.h"
#include "speechshard/inside.h"

enum { LEARNERS_MAX = 1024 };

typedef struct stage {
    spsh__run_outcome all;      /* SPSH_E_CANCELED: the recorded run was stopped, and saved */
    spsh_train_options options; /* options of a learner, with the record's configuration */
    char *folder, *config;      /* strings that record and options point to */
    spsh__record_options record;
    uint32_t learners;
    spsh__replay *replay;
    bool is_cut; /* a record ends before its learner does */
} stage;

/* ---- the world of a learner ---- */

static spsh__launch launch_of(const stage *s, uint32_t learner)
{
    return (spsh__launch){.launcher = "replay",
                          .rank = learner,
                          .world_size = s->learners,
                          .local_rank = learner,
                          .local_size = s->learners,
                          .node_count = 1};
}

static bool was_stopped(const stage *s)
{
    return s->all.o->stop != NULL && *s->all.o->stop != 0;
}

static spsh_status configure(spsh__run_world *w, const spsh_train_options *o, spsh__config *c,
                             spsh_error *err)
{
    (void)w, (void)o;
    return spsh__run_stay_on_host(c, err);
}

static spsh_status open_runtime(spsh__run_world *w, uint64_t run, const spsh_allocator *allocator,
                                spsh__runtime **ret, spsh_error *err)
{
    const stage *s = (const stage *)w->state;
    (void)allocator;
    *ret = spsh__replay_runtime(s->replay, w->launch.rank);
    (*ret)->deadline_ms = w->comm->deadline_ms;
    if (s->record.run == run)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "%s/record: the record has another configuration, vocabulary, or number of "
                     "utterances than the run folder",
                     s->all.o->replay);
}

/* A learner takes part in a stop only if its record contains the stop. A stop request here ends all
 * learners. */
static spsh_status begin_batch(spsh__run_world *w, spsh_error *err)
{
    if (was_stopped((const stage *)w->state))
        spsh__comm_fail(w->comm);
    return spsh__one_process_check(w, err);
}

static const spsh__run_world_ops replayed = {
    .no_loss = SPSH__ONE_PROCESS_NO_LOSS,
    .configure_fn = configure,
    .opened_fn = spsh__one_process_opened,
    .runtime_fn = open_runtime,
    .begin_batch_fn = begin_batch,
};

/* ---- all of them ---- */

static spsh_status learn(void *user, uint32_t learner, spsh_error *err)
{
    stage *s = (stage *)user;
    spsh__run_world world = {.ops = &replayed,
                             .launch = launch_of(s, learner),
                             .comm = spsh__replay_comm(s->replay, learner),
                             .state = s};
    spsh_error failed = SPSH_ERROR_INIT;
    const spsh_status rc = spsh__run_in_turn(&s->all, &s->options, &world, &failed);
    const bool is_cut =
        rc == SPSH_E_CANCELED && spsh__comm_has_failed(world.comm) && !was_stopped(s);
    s->is_cut = s->is_cut || is_cut;
    if (!is_cut)
        spsh__run_take_failure(&s->all, rc, &failed);
    return spsh__fail_again(rc, &failed, err);
}

static spsh_status name_files(stage *s, spsh_error *err)
{
    s->folder = spsh__new_text("%s/record", s->all.o->replay);
    s->config = spsh__new_text("%s/record/config.yaml", s->all.o->replay);
    if (s->folder == NULL || s->config == NULL)
        return SPSH_NO_MEMORY(err);
    s->options.config_path = s->config;
    s->options.stop = NULL; /* begin_batch reads the caller's flag */
    s->record = (spsh__record_options){spsh_allocator_default(),
                                       s->options.io != NULL ? s->options.io : spsh_io_default(),
                                       s->folder, 0};
    return SPSH_OK;
}

static spsh_status check(const spsh_train_options *o, spsh_error *err)
{
    if (o->config_path != NULL || (o->overrides != NULL && o->overrides[0] != NULL) || o->resume ||
        o->record || o->simulate != NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "a replay repeats the recorded run, so it takes no configuration, "
                         "overrides, resume, record, or simulate");
    return spsh__run_check_undisturbed(
        o,
        "a replay takes no slow, freeze, kill, link, or rendezvous: their effects are in the "
        "record, and there are no other processes",
        err);
}

static spsh_status open_record(stage *s, spsh_error *err)
{
    spsh_status rc = name_files(s, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__record_find(&s->record, &s->record.run, &s->learners, err);
    if (rc == SPSH_E_NOT_FOUND)
        return SPSH_FAIL(err, rc, "%s: no record found; a run writes one if record is set",
                         s->folder);
    if (rc == SPSH_OK && (s->learners == 0 || s->learners > LEARNERS_MAX))
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: a record of %u learners cannot be replayed",
                       s->folder, s->learners);
    return rc != SPSH_OK ? rc : spsh__replay_open(&s->record, s->learners, &s->replay, err);
}

/* Return the outcome of all learners. */
static spsh_status judge(const stage *s, spsh_status rc, spsh_error *err)
{
    if (s->all.status == SPSH_E_CANCELED && was_stopped(s))
        return SPSH_FAIL(err, SPSH_E_IO,
                         "the replay was stopped and nothing was saved; start it again");
    if (s->all.status != SPSH_OK)
        return spsh__fail_again(s->all.status, &s->all.error, err);
    if (rc != SPSH_OK && rc != SPSH_E_CANCELED)
        return rc;
    if (!s->is_cut)
        return SPSH_OK;
    for (uint32_t i = 0; i < s->learners; i++)
        if (!spsh__replay_is_whole(s->replay, i))
            return SPSH_FAIL(
                err, SPSH_E_TRUNCATED,
                "%s/learner-%05u.marks: the record ends before the run, because the file was cut "
                "or the process was killed; the run was replayed up to there",
                s->folder, i);
    return SPSH_FAIL(err, SPSH_E_TRUNCATED,
                     "%s: the recorded run failed; it was replayed up to there", s->folder);
}

spsh_status spsh__run_replayed(const spsh_train_options *o, spsh_train_result *ret, spsh_error *err)
{
    stage s = {
        .all = {.o = o, .result = ret, .error = SPSH_ERROR_INIT},
          .options = *o
    };
    spsh_status rc = check(o, err);
    if (rc == SPSH_OK)
        rc = spsh__run_check_alone("a replay", err);
    if (rc == SPSH_OK)
        rc = open_record(&s, err);
    if (rc == SPSH_OK)
        rc = judge(&s, spsh__replay_run(s.replay, learn, &s, err), err);
    spsh__replay_close(s.replay);
    free(s.folder);
    free(s.config);
    return rc;
}
