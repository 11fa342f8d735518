/* run_record.c: the runtime of a run, wrapped by a recorder or read from a record. In addition to
 * messages, a record holds the decisions of a learner that depend on a clock, a signal, or the
 * order of two tasks.
 *
 *     RUN/record/config.yaml             the resolved configuration
 *     RUN/record/learner-00000.marks     of each process (runtime_record.h)
 *
 * The record's run identifier is a hash of configuration, vocabulary, and the number of utterances.
 * A replay with others would compute other values from its first step on.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/new_text.h"
#include "run_internal.h"
#include "runtime/runtime_record.h"
#include "speechshard/inside.h"

enum { MARK_RUN = 64 }; /* kind of mark that neither strategies nor leases use */

static spsh_status name_folder(const char *run, char **ret, spsh_error *err)
{
    *ret = spsh__new_text("%s/record", run);
    return *ret == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Reject a strategy without messages. A record holds only chance that is in the order of
 * messages. */
static spsh_status check_strategy(const char *name, spsh_error *err)
{
    spsh__strategy *strategy = NULL;
    const spsh_status rc = spsh__strategy_open(name, spsh_allocator_default(), &strategy, err);
    if (rc != SPSH_OK)
        return rc;
    const bool has_messages = strategy->ops->needs_runtime,
               has_own_model = strategy->ops->has_own_model;
    spsh__strategy_close(strategy);
    if (has_messages)
        return SPSH_OK;
    return SPSH_FAIL(
        err, SPSH_E_UNSUPPORTED,
        has_own_model
            ? "train.strategy %s cannot be recorded, because learners write to shared memory at "
              "the same time"
            : "train.strategy %s needs no record: the same command gives identical results",
        name);
}

spsh_status spsh__run_check_record(spsh__run *r, spsh_error *err)
{
    struct stat info;
    if (!r->o->record)
        return SPSH_OK;
    if (r->o->resume)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "record and resume are both set, but a record must begin with its run");
    if (r->setup.config->shrinks)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "train.on_lost is shrink, but a record needs all processes until its end; "
                         "set train.on_lost=end");
    spsh_status rc = check_strategy(r->setup.config->strategy, err);
    if (rc == SPSH_OK)
        rc = name_folder(r->o->run, &r->runtime.record_folder, err);
    if (rc == SPSH_OK && r->io->stat_fn(r->io->user, r->runtime.record_folder, &info) == 0)
        rc = SPSH_FAIL(err, SPSH_E_EXISTS,
                       "%s: the folder already has a record; name another run folder",
                       r->runtime.record_folder);
    return rc;
}

/* Same for all learners, and independent of the order in which they start. */
static spsh_status hash_run(const spsh__run *r, uint64_t *ret, spsh_error *err)
{
    char *text = spsh__setup_record_text(&r->setup, r->world->launch.local_size);
    if (text == NULL)
        return SPSH_NO_MEMORY(err);
    const uint64_t parts[3] = {
        XXH3_64bits(text, strlen(text)),
        XXH3_64bits(r->setup.vocabulary_text, strlen(r->setup.vocabulary_text)),
        spsh__feed_epoch_utterances(r->feed)};
    free(text);
    *ret = XXH3_64bits(parts, sizeof(parts));
    return SPSH_OK;
}

static spsh_status open_record(spsh__run *r, uint64_t run, spsh_error *err)
{
    spsh__record_options options = {spsh_allocator_default(), r->io, NULL, run};
    spsh_status rc = r->runtime.record_folder == NULL
                         ? name_folder(r->o->run, &r->runtime.record_folder, err)
                         : SPSH_OK;
    if (rc == SPSH_OK) /* each node may have its own disk */
        rc = spsh_io_make_directory(r->io, r->o->run, err);
    if (rc == SPSH_OK)
        rc = spsh_io_make_directory(r->io, r->runtime.record_folder, err);
    options.folder = r->runtime.record_folder;
    r->runtime.recorded = r->runtime.used;
    if (rc == SPSH_OK)
        rc = spsh__record_open(&options, r->runtime.recorded, &r->runtime.used, err);
    if (rc != SPSH_OK) {
        r->runtime.recorded = NULL;
        if (r->runtime.record_folder != NULL) /* if empty: it would block the next start */
            (void)r->io->rmdir_fn(r->io->user, r->runtime.record_folder);
    }
    return rc;
}

/* Remove a record without any training: it would only make the next start fail. */
static void remove_record(const spsh__run *r)
{
    const spsh__record_options options = {spsh_allocator_default(), r->io, r->runtime.record_folder,
                                          0};
    char *path =
        r->world->is_first ? spsh__new_text("%s/config.yaml", r->runtime.record_folder) : NULL;
    if (path != NULL)
        (void)r->io->unlink_fn(r->io->user, path);
    free(path);
    spsh__record_remove(&options, r->world->comm->rank);
}

spsh_status spsh__run_open_runtime(spsh__run *r, spsh_error *err)
{
    uint64_t run = 0;
    spsh__run_world *w = r->world;
    spsh_status rc = hash_run(r, &run, err);
    if (rc == SPSH_OK)
        rc = w->ops->runtime_fn(w, run, spsh_allocator_default(), &r->runtime.used, err);
    return rc == SPSH_OK && r->o->record ? open_record(r, run, err) : rc;
}

void spsh__run_close_runtime(spsh__run *r)
{
    if (r->runtime.used != NULL)
        r->runtime.used->ops->close_fn(r->runtime.used);
    if (r->runtime.recorded != NULL)
        r->runtime.recorded->ops->close_fn(r->runtime.recorded);
    if (r->runtime.recorded != NULL && !r->runtime.has_begun)
        remove_record(r);
}

spsh_status spsh__run_note(const spsh__run_runtime *t, uint64_t *value, spsh_error *err)
{
    return t->used == NULL ? SPSH_OK : t->used->ops->note_fn(t->used, value, err);
}

spsh_status spsh__run_enter(const spsh__run_runtime *t, uint64_t number, spsh_error *err)
{
    const spsh__mark mark = {MARK_RUN, 0, number};
    return t->used->ops->enter_fn(t->used, &mark, err);
}

void spsh__run_leave(const spsh__run_runtime *t)
{
    t->used->ops->leave_fn(t->used);
}
