/* run_evaluate.c: the dev sets between steps. Each has a separate feed, opened when needed. */
#include <math.h>
#include <stdlib.h>

#include "run_internal.h"
#include "speechshard/inside.h"

enum { EXAMPLES_MAX = 10 };

/* The first utterances of rank 0, for the report. */
typedef struct examples {
    spsh__example items[EXAMPLES_MAX];
    char *texts[3 * EXAMPLES_MAX];
    size_t count;
} examples;

static void take_example(void *user, spsh_bytes id, const char *reference, const char *found)
{
    examples *e = (examples *)user;
    if (e->count == EXAMPLES_MAX)
        return;
    char **texts = e->texts + 3 * e->count;
    texts[0] = strndup((const char *)id.data, id.size_bytes);
    texts[1] = strdup(reference);
    texts[2] = strdup(found);
    e->items[e->count++] = (spsh__example){texts[0], texts[1], texts[2]};
}

static void free_examples(examples *e)
{
    for (size_t i = 0; i < 3 * e->count; i++)
        free(e->texts[i]);
    e->count = 0;
}

static spsh_status open_feed(spsh__run *r, const char *name, spsh__feed **ret, spsh_error *err)
{
    const char *const names[] = {name, NULL};
    const spsh__feed_options options = spsh__run_feed_options(r, names);
    return spsh__feed_open(&options, ret, err);
}

/* Log how many utterances of the alignments are in the datasets. Fail if no utterance of data.train
 * has an alignment. */
static spsh_status log_alignments(const spsh__run *r, const uint8_t *of_train,
                                  const uint8_t *of_any, spsh_error *err)
{
    const uint32_t count = spsh__alignments_count(r->setup.alignments);
    uint32_t train = 0, any = 0;
    for (uint32_t i = 0; i < count; i++) {
        train += of_train[i];
        any += of_any[i];
    }
    if (train == 0) {
        const spsh_bytes id = count > 0 ? spsh__alignments_id(r->setup.alignments, 0)
                                        : (spsh_bytes){(const uint8_t *)"", 0};
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "data.alignments: none of the %u aligned utterances is in data.train; the "
                         "first is '%.*s'",
                         count, (int)(id.size_bytes < 80 ? id.size_bytes : 80),
                         (const char *)id.data);
    }
    spsh__run_log(r, SPSH_LOG_INFO,
                  "alignments: %u utterances, %llu frames, %u states, %.1f MB; %u of them are in "
                  "data.train, and %u in no dataset",
                  count, (unsigned long long)spsh__alignments_frame_count(r->setup.alignments),
                  r->setup.config->model.outputs,
                  (double)spsh__alignments_bytes(r->setup.alignments) * 1e-6, train, count - any);
    return SPSH_OK;
}

static spsh_status check_dev(spsh__run *r, uint8_t *marks, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (char **name = r->setup.config->dev; name != NULL && *name != NULL && rc == SPSH_OK;
         name++) {
        spsh__feed *feed = NULL;
        rc = open_feed(r, *name, &feed, err);
        if (rc == SPSH_OK && marks != NULL)
            rc = spsh__feed_mark_aligned(feed, marks, err);
        spsh__feed_close(feed);
    }
    return rc;
}

spsh_status spsh__run_check_dev(spsh__run *r, spsh_error *err)
{
    if (r->setup.alignments == NULL)
        return check_dev(r, NULL, err);
    const size_t count = spsh__alignments_count(r->setup.alignments);
    uint8_t *marks = calloc(2, count + 1); /* marks of data.train, then of any dataset */
    if (marks == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__feed_mark_aligned(r->feed, marks, err);
    memcpy(marks + count, marks, count);
    if (rc == SPSH_OK)
        rc = check_dev(r, marks + count, err);
    if (rc == SPSH_OK)
        rc = log_alignments(r, marks, marks + count, err);
    free(marks);
    return rc;
}

/* Open a forward-only model with the same weights. If a dev utterance is longer than all training
 * utterances, its memory is needed only during the evaluation, and not for backward. */
static spsh_status open_reader(spsh__run *r, const spsh__feed *feed, spsh__model **ret,
                               spsh_error *err)
{
    spsh__model_limits limits = spsh__feed_limits(feed);
    if (r->setup.alignments != NULL)
        limits = spsh__frame_limits(&limits, r->model.shape.chunk_frames);
    const spsh__model *lender = r->model.stages == NULL ? r->model.own : NULL;
    const spsh_status rc =
        spsh__model_open_forward(r->backend, &r->model.shape, &limits, lender, ret, err);
    return rc == SPSH_OK && r->model.stages != NULL ? spsh__run_share_stages(&r->learner, *ret, err)
                                                    : rc;
}

static spsh_status evaluate_one(spsh__run *r, const char *name, examples *e, spsh_error *err)
{
    spsh__evaluator_options options = {
        .backend = r->backend,
        .vocabulary = r->setup.vocabulary,
        .chunk_frames = r->model.shape.chunk_frames,
        .inputs = r->model.shape.inputs,
        .comm = r->world->comm,
        .stop = r->o->record ? NULL : r->o->stop, /* a replay could not repeat it */
        .symbols = r->model.shape.outputs,
        .beam_width = r->setup.config->beam_width,
        .heard_fn = take_example,
        .heard_user = e,
    };
    spsh__evaluator *evaluator = NULL;
    spsh__feed *feed = NULL;
    spsh__model *reader = NULL;
    spsh_status rc = open_feed(r, name, &feed, err);
    if (rc == SPSH_OK)
        rc = open_reader(r, feed, &reader, err);
    if (rc == SPSH_OK) {
        options.model = reader;
        options.limits = spsh__feed_limits(feed);
        rc = spsh__evaluator_open(&options, &evaluator, err);
    }
    if (rc == SPSH_OK)
        rc = spsh__evaluate(evaluator, feed, &r->evaluation.last, err);
    spsh__evaluator_close(evaluator);
    spsh__model_close(reader);
    spsh__feed_close(feed);
    return rc;
}

static void log_examples(spsh__run *r, const char *name, const examples *e)
{
    const spsh__evaluation *s = &r->evaluation.last;
    const spsh__evaluation_facts facts = {
        .step = r->progress.step,
        .samples = r->progress.samples,
        .set = name,
        .loss = s->loss_count > 0 ? s->loss_sum / (double)s->loss_count : (double)NAN,
        .wer = spsh__error_rate(s, &s->words),
        .cer = spsh__error_rate(s, &s->letters),
        .cer_letters = spsh__error_rate(s, &s->letters_alone),
        .seconds = spsh__world_passed_s(r->world, s->took_s),
        .is_of_frames = r->setup.alignments != NULL,
        .frame_error = spsh__frame_error(s),
        .frames = s->loss_count,
        .without_alignment = s->without_alignment,
        .other_length = s->other_length,
        .utterances = r->setup.alignments != NULL ? s->utterances : s->words.utterances,
        .words = s->words.reference_count,
        .examples = e->items,
        .example_count = e->count,
    };
    spsh_error failed = SPSH_ERROR_INIT;
    if (r->setup.alignments != NULL)
        spsh__run_log(r, SPSH_LOG_INFO,
                      "%s: %.2f %% of %llu frames wrong, loss %.4g; %llu utterances have no "
                      "alignment, %llu have one of a different length",
                      name, 100 * facts.frame_error, (unsigned long long)facts.frames, facts.loss,
                      (unsigned long long)facts.without_alignment,
                      (unsigned long long)facts.other_length);
    else
        spsh__run_log(r, SPSH_LOG_INFO, "%s: WER %.2f %%, CER %.2f %%, loss %.4g", name,
                      100 * facts.wer, 100 * facts.cer, facts.loss);
    if (r->report.metrics != NULL &&
        spsh__metrics_evaluation(r->report.metrics, &facts, &failed) != SPSH_OK)
        spsh__run_log(r, SPSH_LOG_ERROR, "%s", failed.message);
}

/* The first set decides which model is the best one. */
static spsh_status evaluate(spsh__run *r, spsh_error *err)
{
    spsh__evaluation first = {0};
    spsh_status rc = spsh__run_meet(r, false, err);
    for (char **name = r->setup.config->dev; *name != NULL && rc == SPSH_OK; name++) {
        examples e = {.count = 0};
        rc = evaluate_one(r, *name, &e, err);
        if (rc == SPSH_OK)
            log_examples(r, *name, &e);
        if (rc == SPSH_OK && name == r->setup.config->dev)
            first = r->evaluation.last;
        free_examples(&e);
    }
    if (rc != SPSH_OK)
        return rc;
    r->evaluation.last = first;
    r->evaluation.has_last = true;
    r->progress.evaluated_step = r->progress.step;
    r->evaluation.ended_s = spsh__world_now_s(r->world);
    const double wrong =
        r->setup.alignments != NULL ? spsh__frame_error(&first) : spsh__errors_rate(&first.words);
    if (wrong < r->progress.best_metric) {
        r->progress.best_metric = wrong;
        r->progress.best_samples = r->progress.samples;
    }
    return SPSH_OK;
}

spsh_status spsh__run_evaluate(spsh__run *r, spsh_error *err)
{
    if (r->setup.config->dev == NULL || r->setup.config->dev[0] == NULL)
        return SPSH_OK;
    spsh__world_rest(r->world, true);
    const spsh_status rc = evaluate(r, err);
    spsh__world_rest(r->world, false);
    return rc;
}
