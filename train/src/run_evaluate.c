/* run_evaluate.c: the dev sets between steps: each a feed of its own, opened when it is needed. */
#include <math.h>
#include <stdlib.h>

#include "run_internal.h"
#include "train_internal.h"

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
    const spsh__feed_options options = {.config = r->config,
                                        .vocabulary = r->vocabulary,
                                        .names = names,
                                        .rank = r->comm->rank,
                                        .world_size = r->comm->world_size,
                                        .io = r->io,
                                        .log_fn = r->o->log_fn,
                                        .log_user = r->o->log_user};
    return spsh__feed_open(&options, ret, err);
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

spsh_status spsh__run_evaluate_limits(spsh__run *r, spsh_error *err)
{
    r->limits = spsh__feed_limits(r->feed);
    for (char **name = r->config->dev; name != NULL && *name != NULL; name++) {
        spsh__feed *feed = NULL;
        const spsh_status rc = open_feed(r, *name, &feed, err);
        if (rc != SPSH_OK)
            return rc;
        const spsh__model_limits limits = spsh__feed_limits(feed);
        spsh__run_widen(&r->limits, &limits);
        spsh__feed_close(feed);
    }
    return SPSH_OK;
}

static spsh_status evaluate_one(spsh__run *r, const char *name, examples *e, spsh_error *err)
{
    const spsh__evaluator_options options = {
        .backend = r->backend,
        .model = r->model,
        .vocabulary = r->vocabulary,
        .comm = r->comm,
        .stop = r->o->stop,
        .symbols = spsh__vocabulary_size(r->vocabulary),
        .beam_width = r->config->beam_width,
        .limits = r->limits,
        .heard_fn = take_example,
        .heard_user = e,
    };
    spsh__evaluator *evaluator = NULL;
    spsh__feed *feed = NULL;
    spsh_status rc = open_feed(r, name, &feed, err);
    if (rc == SPSH_OK)
        rc = spsh__evaluator_open(&options, &evaluator, err);
    if (rc == SPSH_OK)
        rc = spsh__evaluate(evaluator, feed, &r->last, err);
    spsh__evaluator_close(evaluator);
    spsh__feed_close(feed);
    return rc;
}

static void tell(spsh__run *r, const char *name, const examples *e)
{
    const spsh__evaluation *s = &r->last;
    const spsh__evaluation_facts facts = {
        .step = r->progress.step,
        .samples = r->progress.samples,
        .set = name,
        .loss = s->loss_count > 0 ? s->loss_sum / (double)s->loss_count : (double)NAN,
        .wer = spsh__errors_rate(&s->words),
        .cer = spsh__errors_rate(&s->letters),
        .cer_letters = spsh__errors_rate(&s->letters_alone),
        .seconds = s->took_s,
        .utterances = s->words.utterances,
        .words = s->words.reference_count,
        .examples = e->items,
        .example_count = e->count,
    };
    spsh_error failed = SPSH_ERROR_INIT;
    spsh__run_log(r, SPSH_LOG_INFO, "%s: WER %.2f %%, CER %.2f %%, loss %.4g", name,
                  100 * facts.wer, 100 * facts.cer, facts.loss);
    if (r->metrics != NULL && spsh__metrics_evaluation(r->metrics, &facts, &failed) != SPSH_OK)
        spsh__run_log(r, SPSH_LOG_ERROR, "%s", failed.message);
}

/* The first set decides which model is the best one. */
spsh_status spsh__run_evaluate(spsh__run *r, spsh_error *err)
{
    spsh__evaluation first = {0};
    spsh_status rc = SPSH_OK;
    if (r->config->dev == NULL || r->config->dev[0] == NULL)
        return SPSH_OK;
    for (char **name = r->config->dev; *name != NULL && rc == SPSH_OK; name++) {
        examples e = {.count = 0};
        rc = evaluate_one(r, *name, &e, err);
        if (rc == SPSH_OK)
            tell(r, *name, &e);
        if (rc == SPSH_OK && name == r->config->dev)
            first = r->last;
        free_examples(&e);
    }
    if (rc != SPSH_OK)
        return rc;
    r->last = first;
    r->was_evaluated = true;
    r->progress.evaluated_step = r->progress.step;
    r->evaluated_s = spsh__now_s();
    const double wer = spsh__errors_rate(&first.words);
    if (wer < r->progress.best_metric) {
        r->progress.best_metric = wer;
        r->progress.best_samples = r->progress.samples;
    }
    return SPSH_OK;
}
