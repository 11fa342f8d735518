/* run_state.c: a run's checkpoints: the state that it resumes from, and the state that it saves.
 *
 * Only rank 0 reads and writes files. State that a rank needs to resume (configuration, vocabulary,
 * counters, cursor) is broadcast. The start of the strategy distributes weights, moments, and
 * statistics.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/double_bits.h"
#include "run_internal.h"
#include "speechshard/inside.h"

enum { SETTING_BYTES = 64, NAME_BYTES = 2 * SETTING_BYTES };

/* ---- finding ---- */

/* Copy a string of rank 0 to all ranks. The other ranks allocate *text. */
static spsh_status share_text(const spsh__run_world *w, char **text, spsh_error *err)
{
    assert(!w->is_first || *text != NULL); /* else rank 0 has reported a failure */
    uint64_t size = w->is_first ? strlen(*text) + 1 : 0;
    spsh_status rc = spsh__comm_broadcast(w->comm, &size, sizeof(size), 0, err);
    if (rc == SPSH_OK && !w->is_first) {
        *text = malloc(size);
        rc = *text == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    return rc != SPSH_OK ? rc : spsh__comm_broadcast(w->comm, *text, size, 0, err);
}

static spsh_status find_checkpoint(spsh__run *r, spsh_error *err)
{
    spsh_error found = SPSH_ERROR_INIT;
    struct stat info;
    if (r->io->stat_fn(r->io->user, r->o->run, &info) == 0 && S_ISREG(info.st_mode))
        return SPSH_FAIL(err, SPSH_E_EXISTS, "%s: not a folder; a run is a folder", r->o->run);
    const spsh_status rc =
        spsh__checkpoint_open(r->o->run, r->io, r->o->log_fn, r->o->log_user, &r->saving.resumed,
                              &r->saving.resumed_state, &found);
    if (rc == SPSH_E_NOT_FOUND && r->o->config_path != NULL)
        return SPSH_OK;
    if (rc == SPSH_E_NOT_FOUND)
        return SPSH_FAIL(err, rc,
                         "%s: no checkpoint to resume from; to begin a run, give a configuration",
                         r->o->run);
    if (rc != SPSH_OK)
        return spsh__fail_again(rc, &found, err);
    if (!r->o->resume)
        return SPSH_FAIL(err, SPSH_E_EXISTS,
                         "%s: the folder already has checkpoints; set resume to continue from "
                         "them, or name another folder",
                         r->o->run);
    return SPSH_OK;
}

/* The given configuration. If none was given, the configuration of the checkpoint. */
static spsh_status find_config(spsh__run *r, spsh_error *err)
{
    const char *const *overrides = r->o->overrides;
    const char *text = r->saving.resumed != NULL ? r->saving.resumed_state.config : "";
    const spsh_status rc =
        r->o->config_path != NULL
            ? spsh__config_read(r->o->config_path, overrides, r->io, &r->setup.config, err)
            : spsh__config_parse(text, strlen(text), overrides, &r->setup.config, err);
    if (rc != SPSH_OK)
        return rc;
    /* Keep the original size of a step if the run resumes on fewer processes. */
    if (r->setup.config->virtual_world == 0)
        r->setup.config->virtual_world = r->saving.resumed != NULL
                                             ? r->saving.resumed_state.virtual_world
                                             : r->world->comm->world_size;
    r->setup.config_text = spsh__config_text(r->setup.config);
    return r->setup.config_text == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Return the content of the vocabulary file that the configuration names. */
static spsh_status read_vocabulary(const spsh__run *r, char **ret_text, spsh_error *err)
{
    spsh__vocabulary *v = NULL;
    const spsh_status rc = spsh__run_vocabulary(r->setup.config, r->o->config_path, r->io, &v, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_text = spsh__vocabulary_text(v);
    spsh__vocabulary_free(v);
    return *ret_text == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* Keep the run's vocabulary, even if its file is gone. Fail if the file has another vocabulary. */
static spsh_status keep_vocabulary(spsh__run *r, spsh_error *err)
{
    char *text = NULL;
    r->setup.vocabulary_text = strdup(r->saving.resumed_state.vocabulary);
    if (r->setup.vocabulary_text == NULL)
        return SPSH_NO_MEMORY(err);
    if (read_vocabulary(r, &text, NULL) != SPSH_OK)
        return SPSH_OK;
    const bool is_other = strcmp(text, r->setup.vocabulary_text) != 0;
    free(text);
    if (is_other)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "%s: the vocabulary differs from the one that run %s began with; start "
                         "another run, or restore the old file",
                         r->setup.config->vocabulary, r->o->run);
    return SPSH_OK;
}

static spsh_status find_vocabulary(spsh__run *r, spsh_error *err)
{
    if (r->setup.config->model.kind == SPSH__MODEL_LSTM_HYBRID) { /* this model has no vocabulary */
        r->setup.vocabulary_text = strdup("");
        return r->setup.vocabulary_text == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    return r->saving.resumed != NULL ? keep_vocabulary(r, err)
                                     : read_vocabulary(r, &r->setup.vocabulary_text, err);
}

/* Share rank 0's outcome: no rank waits for a failed one, or takes the failure for a stop. All
 * ranks get the reason, because mpirun ends the job when the first of them exits, in any order. */
spsh_status spsh__run_agree(const spsh__run_world *w, spsh_status own, spsh_error *err)
{
    struct {
        int64_t rc;
        char why[400];
    } outcome = {own, ""};
    if (own != SPSH_OK && err != NULL)
        (void)snprintf(outcome.why, sizeof(outcome.why), "%.399s", err->message);
    const spsh_status sent =
        spsh__comm_broadcast(w->comm, &outcome, sizeof(outcome), 0, w->is_first ? NULL : err);
    if (w->is_first || sent != SPSH_OK)
        return own != SPSH_OK ? own : sent;
    if (outcome.rc != SPSH_OK)
        return SPSH_FAIL(err, (spsh_status)outcome.rc, "rank 0 could not start: %s", outcome.why);
    return SPSH_OK;
}

spsh_status spsh__run_find(spsh__run *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (r->world->is_first) {
        rc = find_checkpoint(r, err);
        if (rc == SPSH_OK)
            rc = find_config(r, err);
        if (rc == SPSH_OK)
            rc = find_vocabulary(r, err);
        if (rc == SPSH_OK)
            rc = spsh__run_check_record(r, err);
    }
    rc = spsh__run_agree(r->world, rc, err);
    if (rc == SPSH_OK)
        rc = share_text(r->world, &r->setup.config_text, err);
    if (rc == SPSH_OK)
        rc = share_text(r->world, &r->setup.vocabulary_text, err);
    if (rc == SPSH_OK && !r->world->is_first)
        rc = spsh__config_parse(r->setup.config_text, strlen(r->setup.config_text), NULL,
                                &r->setup.config, err);
    if (rc == SPSH_OK && r->setup.vocabulary_text[0] != '\0')
        rc = spsh__vocabulary_parse(r->setup.vocabulary_text, strlen(r->setup.vocabulary_text),
                                    r->setup.config->vocabulary, &r->setup.vocabulary, err);
    return rc;
}

/* ---- restoring ---- */

typedef struct setting {
    const char *value;
    int name_size, size;
} setting;

/* Parse a line of a configuration's text, and advance the text past the line. */
static setting next_setting(const char **text)
{
    const char *line = *text;
    const size_t size = strcspn(line, "\n");
    const char *colon = memchr(line, ':', size);
    const size_t name = colon == NULL ? size : (size_t)(colon - line);
    *text = line + size + (line[size] == '\n');
    return (setting){line + name, (int)name, (int)(size - name)};
}

/* "  rate" of section "train": "train.rate". */
static void name_setting(const char *line, const setting *s, char section[SETTING_BYTES],
                         char name[NAME_BYTES])
{
    const bool is_inner = line[0] == ' ';
    const int indent = is_inner ? 2 : 0;
    if (!is_inner)
        (void)snprintf(section, SETTING_BYTES, "%.*s", s->name_size, line);
    if (is_inner)
        (void)snprintf(name, NAME_BYTES, "%s.%.*s", section, s->name_size - indent, line + indent);
    else
        (void)snprintf(name, NAME_BYTES, "%s", section);
}

static bool must_stay(const char *name)
{
    return strcmp(name, "features") == 0 || strncmp(name, "model.", 6) == 0;
}

/* Both texts are canonical: the same keys in the same order. */
static spsh_status log_changes(const spsh__run *r, const char *before, const char *now,
                               spsh_error *err)
{
    char section[SETTING_BYTES] = "", name[NAME_BYTES];
    while (*before != '\0' && *now != '\0') {
        const char *line = now;
        const setting old = next_setting(&before), new = next_setting(&now);
        name_setting(line, &new, section, name);
        if (old.size == new.size && memcmp(old.value, new.value, (size_t) new.size) == 0)
            continue;
        const char *text_old = old.size > 2 ? old.value + 2 : "", *text = new.value + 2;
        if (must_stay(name))
            return SPSH_FAIL(err, SPSH_E_MISMATCH,
                             "%s is %.*s, but run %s began with %.*s, which is a different model; "
                             "name another folder for this run",
                             name, new.size - 2, text, r->o->run, old.size - 2, text_old);
        spsh__run_log(r, SPSH_LOG_INFO, "resuming with %s: %.*s; before, it was %.*s", name,
                      new.size - 2, text, old.size - 2, text_old);
    }
    return SPSH_OK;
}

static spsh_status compare_configs(const spsh__run *r, spsh_error *err)
{
    const char *text = r->saving.resumed_state.config;
    spsh__config *config = NULL;
    spsh_status rc = spsh__config_parse(text, strlen(text), NULL, &config, err);
    if (rc != SPSH_OK)
        return rc;
    char *before = spsh__config_text(config);
    rc = before == NULL ? SPSH_NO_MEMORY(err) : log_changes(r, before, r->setup.config_text, err);
    free(before);
    spsh__config_free(config);
    return rc;
}

static spsh_status other_optimiser(const spsh__run *r, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_MISMATCH,
                     "train.optimiser: run %s began with another optimizer; name another folder",
                     r->o->run);
}

/* Keep the checkpoint's arenas on rank 0 until all stages are open. */
static spsh_status keep_arenas(spsh__run *r, spsh_error *err)
{
    const spsh__checkpoint *c = &r->saving.resumed_state;
    return spsh__host_arenas_take(&r->saving.arenas, c) ? SPSH_OK : other_optimiser(r, err);
}

static spsh_status take_arenas(spsh__run *r, spsh_error *err)
{
    const spsh__backend_ops *ops = r->backend->ops;
    const spsh__checkpoint *c = &r->saving.resumed_state;
    const spsh__model *whole = spsh__run_whole(&r->model);
    uint64_t statistics = 0;
    (void)spsh__model_statistics(whole, &statistics);
    const spsh_status rc =
        spsh__checkpoint_match(c, r->saving.arenas.parameters, spsh__model_parameter_count(whole),
                               spsh__model_arena_elements(whole), statistics, err);
    if (rc != SPSH_OK)
        return rc;
    if (r->model.stages != NULL)
        return keep_arenas(r, err);
    ops->write_f32_fn(r->backend, r->learner.weights, c->weights, c->arena_elements);
    ops->write_f32_fn(r->backend, r->learner.statistics, c->statistics, c->statistics_elements);
    for (int m = 0; m < 2; m++) {
        if ((r->learner.moments[m].data == NULL) != (c->moments[m] == NULL))
            return other_optimiser(r, err);
        if (c->moments[m] != NULL)
            ops->write_f32_fn(r->backend, r->learner.moments[m], c->moments[m], c->arena_elements);
    }
    return ops->status_fn(r->backend, err);
}

/* The checkpoint's `strategy` bytes: updates, skipped_steps, evaluated_step, the loss scale (bits
 * of a double), and the number of good steps with it. Checkpoints from before loss scaling end
 * before the scale. */
enum { EXTRA_BYTES = 40, EXTRA_BYTES_WITHOUT_SCALE = 24, POLL_EVERY_S = 1 };

static spsh__loss_scale load_scale(const spsh__checkpoint *c, spsh__precision precision)
{
    spsh__loss_scale before = {1, 0};
    if (c->strategy_size == EXTRA_BYTES) {
        before.scale = spsh__double_of_bits(spsh__load_u64le(c->strategy + 24));
        before.good_steps = spsh__load_u64le(c->strategy + 32);
    }
    return spsh__loss_scale_resume(&before, precision);
}

static void store_scale(const spsh__loss_scale *s, uint8_t extra[EXTRA_BYTES])
{
    spsh__store_u64le(extra + 24, spsh__bits_of_double(s->scale));
    spsh__store_u64le(extra + 32, s->good_steps);
}

static spsh_status take_counters(spsh__run *r, spsh_error *err)
{
    const spsh__checkpoint *c = &r->saving.resumed_state;
    if (c->strategy_size != EXTRA_BYTES && c->strategy_size != EXTRA_BYTES_WITHOUT_SCALE)
        return SPSH_FAIL(err, SPSH_E_CORRUPT,
                         "the counters in the checkpoint have an unexpected size, %zu bytes",
                         c->strategy_size);
    r->progress = (spsh__progress){
        .samples = c->samples,
        .step = c->step,
        .epoch = c->epoch,
        .updates = spsh__load_u64le(c->strategy),
        .skipped_steps = spsh__load_u64le(c->strategy + 8),
        .evaluated_step = spsh__load_u64le(c->strategy + 16),
        .restarts = c->restarts + 1,
        .best_samples = c->best_samples,
        .best_metric = c->best_metric,
        .audio_s = c->audio_seconds,
        .wall_s = c->wall_seconds,
        .loss_scale = load_scale(c, r->backend->precision),
    };
    r->saving.cursor = malloc(c->cursor_size);
    if (r->saving.cursor == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(r->saving.cursor, c->cursor, c->cursor_size);
    r->saving.cursor_size = c->cursor_size;
    uint64_t hash = 0;
    const spsh_status rc =
        spsh__feed_next_hash(r->feed, r->saving.cursor, r->saving.cursor_size, &hash, err);
    if (rc == SPSH_OK && hash != c->next_batch_hash)
        return SPSH_FAIL(err, SPSH_E_MISMATCH,
                         "%s: the next batch is not the one that was next when the checkpoint was "
                         "written; did another version of the program write it?",
                         r->o->run);
    return rc;
}

static spsh_status share_cursor(spsh__run *r, spsh_error *err)
{
    uint64_t size = r->saving.cursor_size;
    spsh_status rc = spsh__comm_broadcast(r->world->comm, &size, sizeof(size), 0, err);
    if (rc != SPSH_OK || size == 0)
        return rc;
    if (!r->world->is_first) {
        r->saving.cursor = malloc(size);
        r->saving.cursor_size = size;
        if (r->saving.cursor == NULL)
            return SPSH_NO_MEMORY(err);
    }
    rc = spsh__comm_broadcast(r->world->comm, r->saving.cursor, size, 0, err);
    if (rc != SPSH_OK)
        return rc;
    return r->rounds.has_own_model ? spsh__feed_find(r->feed, r->saving.cursor, size,
                                                     &r->rounds.epoch, &r->rounds.step, err)
                                   : spsh__feed_restore(r->feed, r->saving.cursor, size, err);
}

spsh_status spsh__run_restore(spsh__run *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    const spsh__backend_buffer *moments = r->learner.moments;
    const bool has_moments[2] = {moments[0].data != NULL, moments[1].data != NULL};
    r->progress.best_metric = (double)INFINITY;
    if (r->world->is_first) {
        rc = spsh__host_arenas_open(r->backend, spsh__run_whole(&r->model), has_moments,
                                    &r->saving.arenas, err);
        if (rc == SPSH_OK && r->saving.resumed != NULL)
            rc = compare_configs(r, err);
        if (rc == SPSH_OK && r->saving.resumed != NULL)
            rc = take_arenas(r, err);
        if (rc == SPSH_OK && r->saving.resumed != NULL)
            rc = take_counters(r, err);
        if (rc == SPSH_OK)
            rc = spsh__checkpoint_writer_open(r->o->run, r->setup.config->keep_checkpoints, r->io,
                                              NULL, &r->saving.writer, err);
        spsh__checkpoint_close(r->saving.resumed);
        r->saving.resumed = NULL;
    }
    rc = spsh__run_agree(r->world, rc, err);
    if (rc == SPSH_OK)
        rc = spsh__comm_broadcast(r->world->comm, &r->progress, sizeof(r->progress), 0, err);
    r->world->earlier_s = r->progress.wall_s;
    r->served.base = r->progress.updates;
    if (rc == SPSH_OK && r->model.stages != NULL && r->progress.restarts > 0)
        rc = spsh__run_scatter_stages(&r->learner, &r->saving.arenas, err);
    return rc != SPSH_OK ? rc : share_cursor(r, err);
}

/* ---- saving ---- */

/* After an epoch's end, the position is the beginning of the next epoch. */
static spsh_status write_cursor(const spsh__run *r, uint8_t *bytes, size_t capacity,
                                size_t *ret_size, spsh_error *err)
{
    const bool is_next = r->rounds.epoch < r->progress.epoch;
    if (!r->rounds.has_own_model)
        return spsh__feed_save(r->feed, bytes, capacity, ret_size, err);
    return spsh__feed_save_at(r->feed, is_next ? r->progress.epoch : r->rounds.epoch,
                              is_next ? 0 : r->rounds.step, bytes, capacity, ret_size, err);
}

static spsh_status save_cursor(spsh__run *r, spsh_error *err)
{
    size_t size = 0;
    if (r->step.pending != NULL || (r->rounds.has_own_model && !r->world->is_first))
        return SPSH_OK; /* the restored cursor is before the pending batch */
    const spsh_status asked = write_cursor(r, NULL, 0, &size, err);
    if (asked != SPSH_OK)
        return asked;
    uint8_t *cursor = realloc(r->saving.cursor, size);
    if (cursor == NULL)
        return SPSH_NO_MEMORY(err);
    r->saving.cursor = cursor;
    r->saving.cursor_size = size;
    return write_cursor(r, cursor, size, &size, err);
}

static spsh_status await_arenas(void *user, spsh_error *err)
{
    return spsh__host_arenas_land((const spsh__host_arenas *)user, err);
}

/* Begin to copy the arenas of this rank. In the next round, the serving task of a parameter server
 * changes the moments, with a separate backend, which therefore follows the copies. No round is in
 * progress now, so no other task uses that backend. */
static spsh_status read_arenas(spsh__run *r, spsh_error *err)
{
    spsh_status rc = spsh__host_arenas_read(&r->saving.arenas, &r->learner, err);
    if (rc != SPSH_OK || r->strategy->ops->push_fn == NULL)
        return rc;
    rc = spsh__host_arenas_hold(&r->saving.arenas, &r->learner, err);
    spsh__backend_follow(r->served.backend, r->backend);
    return rc;
}

static spsh_status put(spsh__run *r, spsh_error *err)
{
    const spsh__model *whole = spsh__run_whole(&r->model);
    uint64_t statistics = 0;
    (void)spsh__model_statistics(whole, &statistics);
    uint8_t extra[EXTRA_BYTES];
    spsh__store_u64le(extra, r->progress.updates);
    spsh__store_u64le(extra + 8, r->progress.skipped_steps);
    spsh__store_u64le(extra + 16, r->progress.evaluated_step);
    store_scale(&r->progress.loss_scale, extra);
    const spsh_status rc = r->model.stages == NULL ? read_arenas(r, err) : SPSH_OK;
    if (rc != SPSH_OK)
        return rc;
    const spsh__checkpoint c = {
        .samples = r->progress.samples,
        .step = r->progress.step,
        .epoch = r->progress.epoch,
        .best_metric = r->progress.best_metric,
        .best_samples = r->progress.best_samples,
        .world_size = r->world->comm->world_size,
        .virtual_world = r->setup.config->virtual_world,
        .config = r->setup.config_text,
        .vocabulary = r->setup.vocabulary_text,
        .weights = r->saving.arenas.weights,
        .moments = {r->saving.arenas.moments[0], r->saving.arenas.moments[1]},
        .statistics = r->saving.arenas.statistics,
        .arena_elements = spsh__model_arena_elements(whole),
        .statistics_elements = statistics,
        .parameters = r->saving.arenas.parameters,
        .parameter_count = spsh__model_parameter_count(whole),
        .cursor = r->saving.cursor,
        .cursor_size = r->saving.cursor_size,
        .strategy = extra,
        .strategy_size = sizeof(extra),
        .next_batch_hash = r->saving.next_batch_hash,
        .wall_seconds = r->progress.wall_s + spsh__world_now_s(r->world) - r->report.begin_s,
        .audio_seconds = r->progress.audio_s,
        .restarts = r->progress.restarts,
        .ready_fn = await_arenas,
        .ready_user = &r->saving.arenas,
    };
    return spsh__checkpoint_put(r->saving.writer, &c, err);
}

/* Log a failed checkpoint and continue: the disk may have space for the next one. Errors that a
 * later checkpoint cannot avoid are returned. */
static spsh_status judge(const spsh__run *r, spsh_status rc, const spsh_error *failed,
                         spsh_error *err)
{
    if (rc == SPSH_OK)
        return rc;
    if (rc == SPSH_E_MISMATCH || rc == SPSH_E_NO_MEMORY || rc == SPSH_E_INVALID_ARG)
        return spsh__fail_again(rc, failed, err);
    spsh__run_log(
        r, SPSH_LOG_ERROR,
        "cannot write a checkpoint: %s; earlier checkpoints are intact, and the run continues",
        failed->message);
    return SPSH_OK;
}

static spsh_status save(spsh__run *r, spsh_error *err)
{
    spsh_error failed = SPSH_ERROR_INIT;
    spsh_status rc = spsh__run_meet(r, true, err);
    if (rc == SPSH_OK)
        rc = save_cursor(r, err);
    if (rc == SPSH_OK)
        rc = r->strategy->ops->gather_fn(r->strategy, err);
    if (rc == SPSH_OK && r->world->is_first)
        rc = spsh__feed_next_hash(r->feed, r->saving.cursor, r->saving.cursor_size,
                                  &r->saving.next_batch_hash, err);
    if (rc == SPSH_OK && !r->world->is_first && r->model.stages != NULL)
        rc = spsh__run_gather_stages(&r->learner, &r->saving.arenas, err);
    if (rc != SPSH_OK || !r->world->is_first)
        return rc;
    r->saving.saved_s = spsh__world_now_s(r->world);
    rc = judge(r, spsh__checkpoint_flush(r->saving.writer, &failed), &failed,
               err);                              /* outcome of the previous checkpoint */
    if (rc == SPSH_OK && r->model.stages != NULL) /* the arenas are free again */
        rc = spsh__run_gather_stages(&r->learner, &r->saving.arenas, err);
    return rc != SPSH_OK ? rc : put(r, err);
}

spsh_status spsh__run_save(spsh__run *r, spsh_error *err)
{
    const double begin_s = spsh__world_now_s(r->world);
    spsh__world_rest(r->world, true);
    const spsh_status rc = save(r, err);
    spsh__world_rest(r->world, false);
    r->saving.save_s += spsh__world_now_s(r->world) - begin_s;
    return rc;
}

spsh_status spsh__run_save_last(spsh__run *r, spsh_error *err)
{
    const spsh_status rc = spsh__run_save(r, err);
    return rc != SPSH_OK || !r->world->is_first ? rc
                                                : spsh__checkpoint_flush(r->saving.writer, err);
}

spsh_status spsh__run_poll(spsh__run *r, spsh_error *err)
{
    spsh_error failed = SPSH_ERROR_INIT;
    if (!r->world->is_first)
        return SPSH_OK;
    const double now_s = spsh__world_now_s(r->world);
    spsh_status rc = judge(r, spsh__checkpoint_poll(r->saving.writer, &failed), &failed, err);
    if (rc != SPSH_OK || now_s - r->saving.looked_s < POLL_EVERY_S)
        return rc;
    r->saving.looked_s = now_s;
    rc = spsh__checkpoint_writer_check(r->saving.writer, &failed);
    return rc == SPSH_E_MISMATCH ? judge(r, rc, &failed, err) : SPSH_OK;
}

void spsh__run_close_saving(spsh__run_saving *s)
{
    spsh__checkpoint_writer_close(s->writer);
    spsh__checkpoint_close(s->resumed);
    spsh__host_arenas_close(&s->arenas);
    free(s->cursor);
}
