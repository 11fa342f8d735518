/* recogniser.c: implements the public header of a trained model. It turns samples into text, and a
 * dataset into error rates.
 *
 * Utterances of one call are sorted by length and cut into batches of up to BATCH_MAX utterances
 * and ROWS_MAX frames, including padding. The model's memory fits such a batch and the longest
 * utterance so far. A longer utterance reopens the model with half as many frames again, so that a
 * stream of utterances rarely causes another reopening.
 */
#include "speechshard/train.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "evaluate.h"
#include "speechshard/audio.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"
#include "trained.h"

enum { FRAMES_AT_FIRST = 2000, ROWS_MAX = 8000, BATCH_MAX = 32 };

struct spsh_recogniser {
    spsh__trained *trained;
    spsh__evaluator *evaluator; /* NULL before the first utterance */
    spsh_featgen *featgen;
    spsh_featgen_worker *worker;
    uint32_t beam_width;
    float *features;
    int16_t *resampled;
    uint64_t resampled_capacity;
};

spsh_status spsh_recogniser_open(const spsh_recogniser_options *options, spsh_recogniser **ret,
                                 spsh_error *err)
{
    spsh_recogniser_options known = SPSH_RECOGNISER_OPTIONS_INIT;
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    if (known.checkpoint == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "checkpoint is NULL: a recogniser needs a checkpoint");
    spsh_recogniser *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return SPSH_NO_MEMORY(err);
    r->beam_width = known.beam_width;
    rc =
        spsh__trained_open(&(spsh__trained_options){known.checkpoint, known.threads,
                                                    known.io != NULL ? known.io : spsh_io_default(),
                                                    known.log_fn, known.log_user},
                           &r->trained, err);
    if (rc == SPSH_OK && r->trained->vocabulary == NULL)
        rc = SPSH_FAIL(
            err, SPSH_E_UNSUPPORTED,
            "%s: cannot transcribe with an lstm-hybrid: it knows states of an HMM, not words, and "
            "speechshard has no decoding graph; 'speechshard eval' measures its frame error",
            known.checkpoint);
    if (rc == SPSH_OK)
        rc = spsh_feature_options_parse(r->trained->config->features, &features, err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_open(&features, NULL, &r->featgen, err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_worker_open(r->featgen, &r->worker, err);
    if (rc == SPSH_OK) {
        *ret = r;
        r = NULL;
    }
    spsh_recogniser_close(r);
    return rc;
}

void spsh_recogniser_close(spsh_recogniser *r)
{
    if (r == NULL)
        return;
    spsh__evaluator_close(r->evaluator);
    spsh_featgen_worker_close(r->worker);
    spsh_featgen_close(r->featgen);
    spsh__trained_close(r->trained);
    free(r->features);
    free(r->resampled);
    free(r);
}

/* Ensure capacity for a batch whose longest utterance has `frames` frames. */
static spsh_status ensure_capacity(spsh_recogniser *r, uint32_t frames, spsh_error *err)
{
    const uint32_t dim = spsh_featgen_dim(r->featgen);
    if (r->evaluator != NULL && frames <= r->trained->limits.frames_max)
        return SPSH_OK;
    const uint32_t frames_max = frames < FRAMES_AT_FIRST ? FRAMES_AT_FIRST : frames + frames / 2;
    const uint32_t rows_max = frames_max < ROWS_MAX ? ROWS_MAX : frames_max;
    const spsh__model_limits limits = {BATCH_MAX, frames_max, rows_max};
    float *features = realloc(r->features, (size_t)rows_max * dim * sizeof(*features));
    if (features == NULL)
        return SPSH_NO_MEMORY(err);
    r->features = features;
    spsh__evaluator_close(r->evaluator);
    r->evaluator = NULL;
    const spsh_status rc = spsh__trained_size(r->trained, dim, &limits, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__evaluator_options options = {
        .backend = r->trained->backend,
        .model = r->trained->model,
        .vocabulary = r->trained->vocabulary,
        .symbols = spsh__vocabulary_size(r->trained->vocabulary),
        .beam_width = r->beam_width,
        .limits = limits,
    };
    return spsh__evaluator_open(&options, &r->evaluator, err);
}

/* Resample to the rate of the model's features. If the rates differ, *samples and *count change. */
static spsh_status resample(spsh_recogniser *r, const int16_t **samples, uint64_t *count,
                            uint32_t sample_rate_hz, spsh_error *err)
{
    const uint32_t wanted_hz = spsh_featgen_features(r->featgen)->sample_rate_hz;
    if (sample_rate_hz == wanted_hz)
        return SPSH_OK;
    const uint64_t capacity = *count * wanted_hz / sample_rate_hz + 1;
    if (capacity > r->resampled_capacity) {
        int16_t *more = realloc(r->resampled, capacity * sizeof(*more));
        if (more == NULL)
            return SPSH_NO_MEMORY(err);
        r->resampled = more;
        r->resampled_capacity = capacity;
    }
    const spsh_status rc = spsh_resample_i16(*samples, *count, 1, sample_rate_hz, wanted_hz,
                                             r->resampled, capacity, count, err);
    if (rc == SPSH_OK)
        *samples = r->resampled;
    return rc;
}

/* An utterance in the list that is sorted by length. */
typedef struct heard {
    size_t number;
    uint32_t frames; /* upper bound */
} heard;

static int compare_heard(const void *left, const void *right)
{
    const heard *a = (const heard *)left, *b = (const heard *)right;
    if (a->frames != b->frames)
        return a->frames < b->frames ? 1 : -1;
    return a->number < b->number ? -1 : 1;
}

/* List all utterances, the longest first. */
static spsh_status put_in_order(spsh_recogniser *r, const spsh_speech *speech, size_t count,
                                heard *order, spsh_error *err)
{
    const uint32_t wanted_hz = spsh_featgen_features(r->featgen)->sample_rate_hz;
    for (size_t n = 0; n < count; n++) {
        const uint32_t rate_hz = speech[n].sample_rate_hz;
        if (rate_hz == 0 || speech[n].sample_count > UINT64_MAX / 2 / wanted_hz)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "invalid speech: %llu samples at %u Hz",
                             (unsigned long long)speech[n].sample_count, rate_hz);
        const uint64_t samples = speech[n].sample_count * wanted_hz / rate_hz + 1;
        const uint64_t frames = spsh_featgen_frame_count(
            r->featgen, rate_hz == wanted_hz ? speech[n].sample_count : samples);
        if (frames > INT32_MAX / 2)
            return SPSH_FAIL(err, SPSH_E_LIMIT, "an utterance has too many frames");
        order[n] = (heard){n, (uint32_t)frames};
    }
    qsort(order, count, sizeof(*order), compare_heard);
    return SPSH_OK;
}

/* Size of the batch that begins here: the number of utterances that fit if each is as long as the
 * first, the longest. */
static uint32_t batch_of(const heard *order, size_t count)
{
    const uint32_t fit = ROWS_MAX / order[0].frames;
    const size_t most = fit < 1 ? 1 : fit < BATCH_MAX ? fit : BATCH_MAX;
    size_t batch = 1;
    while (batch < most && batch < count && order[batch].frames > 0)
        batch++;
    return (uint32_t)batch;
}

/* Compute the features of an utterance, and fill the remaining frames with zeros. */
static spsh_status compute(spsh_recogniser *r, const spsh_speech *speech, float *to,
                           uint32_t frames, uint32_t *ret_frames, spsh_error *err)
{
    const uint32_t dim = spsh_featgen_dim(r->featgen);
    const int16_t *samples = speech->samples;
    uint64_t count = speech->sample_count;
    spsh_status rc = resample(r, &samples, &count, speech->sample_rate_hz, err);
    if (rc != SPSH_OK)
        return rc;
    const uint64_t found = spsh_featgen_frame_count(r->featgen, count);
    assert(found <= frames); /* put_in_order computes an upper bound */
    if (found > 0)
        rc = spsh_featgen_compute(
            r->worker, &(spsh_feature_input){.i16 = samples, .sample_count = count}, to, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_frames = (uint32_t)found;
    memset(to + found * dim, 0, (frames - found) * dim * sizeof(*to));
    return SPSH_OK;
}

static spsh_status hear_batch(spsh_recogniser *r, const spsh_speech *speech, const heard *order,
                              uint32_t batch, char **ret_texts, spsh_error *err)
{
    const uint32_t frames = order[0].frames;
    const size_t stride = (size_t)frames * spsh_featgen_dim(r->featgen);
    uint32_t lengths[BATCH_MAX];
    const char *text = NULL;
    spsh_status rc = ensure_capacity(r, frames, err);
    for (uint32_t n = 0; n < batch && rc == SPSH_OK; n++)
        rc = compute(r, &speech[order[n].number], r->features + n * stride, frames, &lengths[n],
                     err);
    if (rc == SPSH_OK)
        rc = spsh__evaluator_read(
            r->evaluator,
            &(spsh__feed_batch){
                .batch = batch, .frames = frames, .features = r->features, .lengths = lengths},
            err);
    for (uint32_t n = 0; n < batch && rc == SPSH_OK; n++) {
        rc = spsh__evaluator_text(r->evaluator, n, &text, err);
        if (rc != SPSH_OK)
            break;
        ret_texts[order[n].number] = strdup(text);
        if (ret_texts[order[n].number] == NULL)
            rc = SPSH_NO_MEMORY(err);
    }
    return rc;
}

spsh_status spsh_recogniser_transcribe_all(spsh_recogniser *r, const spsh_speech *speech,
                                           size_t count, char **ret_texts, spsh_error *err)
{
    heard *order = calloc(count + 1, sizeof(*order));
    if (order == NULL)
        return SPSH_NO_MEMORY(err);
    memset(ret_texts, 0, count * sizeof(*ret_texts));
    spsh_status rc = put_in_order(r, speech, count, order, err);
    for (size_t n = 0; n < count && rc == SPSH_OK;) {
        if (order[n].frames == 0) { /* all following utterances are empty, too */
            ret_texts[order[n].number] = strdup("");
            rc = ret_texts[order[n].number] == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
            n++;
            continue;
        }
        const uint32_t batch = batch_of(order + n, count - n);
        rc = hear_batch(r, speech, order + n, batch, ret_texts, err);
        n += batch;
    }
    for (size_t n = 0; n < count && rc != SPSH_OK; n++) {
        free(ret_texts[n]);
        ret_texts[n] = NULL;
    }
    free(order);
    return rc;
}

spsh_status spsh_recogniser_transcribe(spsh_recogniser *r, const int16_t *samples,
                                       uint64_t sample_count, uint32_t sample_rate_hz,
                                       char **ret_text, spsh_error *err)
{
    const spsh_speech speech = {samples, sample_count, sample_rate_hz};
    return spsh_recogniser_transcribe_all(r, &speech, 1, ret_text, err);
}

/* ---- datasets ---- */

static void give_result(const spsh__evaluation *sums, bool is_of_frames, spsh_evaluation *ret)
{
    spsh_evaluation result = {
        .utterances = sums->words.utterances,
        .wrong_utterances = sums->words.wrong_utterances,
        .words = sums->words.reference_count,
        .letters = sums->letters.reference_count,
        .infeasible = sums->infeasible,
        .loss = sums->loss_count > 0 ? sums->loss_sum / (double)sums->loss_count : (double)NAN,
        .wer = spsh__error_rate(sums, &sums->words),
        .cer = spsh__error_rate(sums, &sums->letters),
        .cer_letters = spsh__error_rate(sums, &sums->letters_alone),
        .audio_seconds = sums->audio_s,
        .seconds = sums->took_s,
    };
    if (is_of_frames) {
        result.is_of_frames = true;
        result.utterances = sums->utterances;
        result.frames = sums->loss_count;
        result.frame_error = spsh__frame_error(sums);
        result.without_alignment = sums->without_alignment;
        result.other_length = sums->other_length;
    }
    spsh_result_give(ret, &result, sizeof(result));
}

/* Objects that spsh_evaluate opens. */
typedef struct evaluation {
    spsh__trained *trained;
    spsh__alignments *alignments; /* only for a model of frames */
    spsh__feed *feed;
    spsh__evaluator *evaluator;
} evaluation;

static void close_evaluation(evaluation *e)
{
    spsh__evaluator_close(e->evaluator);
    spsh__feed_close(e->feed);
    spsh__alignments_free(e->alignments);
    spsh__trained_close(e->trained);
}

static spsh_status read_alignments(evaluation *e, const spsh_evaluate_options *o, spsh_error *err)
{
    const spsh__config *config = e->trained->config;
    const char *const *own = (const char *const *)config->alignments;
    if (e->trained->vocabulary != NULL && o->alignments != NULL)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "%s: alignments are given, but this model is not an lstm-hybrid and needs none",
            o->checkpoint);
    if (e->trained->vocabulary != NULL)
        return SPSH_OK;
    const spsh_status rc =
        spsh__alignments_read(o->alignments != NULL ? o->alignments : own, &e->alignments, err);
    if (rc == SPSH_OK && spsh__alignments_greatest(e->alignments) >= config->model.outputs)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "alignments: the highest state is %u, but the model has %u states",
                         spsh__alignments_greatest(e->alignments), config->model.outputs);
    return rc;
}

static spsh_status open_feed(evaluation *e, const spsh_evaluate_options *o, spsh_error *err)
{
    const spsh__feed_options options = {.config = e->trained->config,
                                        .vocabulary = e->trained->vocabulary,
                                        .alignments = e->alignments,
                                        .names = o->datasets,
                                        .world_size = 1,
                                        .cuda =
                                            e->alignments == NULL ? e->trained->compute.cuda : NULL,
                                        .device = e->trained->backend->device,
                                        .io = o->io,
                                        .log_fn = o->log_fn,
                                        .log_user = o->log_user};
    e->trained->config->virtual_world = 0; /* set by the training run */
    return spsh__feed_open(&options, &e->feed, err);
}

static spsh_status open_evaluator(evaluation *e, const spsh_evaluate_options *o, spsh_error *err)
{
    spsh__trained *t = e->trained;
    const spsh__model_limits limits = spsh__feed_limits(e->feed);
    const uint32_t chunk_frames = t->config->model.chunk_frames, dim = spsh__feed_dim(e->feed);
    const spsh__model_limits of_model =
        t->vocabulary != NULL ? limits : spsh__frame_limits(&limits, chunk_frames);
    const spsh_status rc = spsh__trained_size(t, dim, &of_model, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__evaluator_options options = {
        .backend = t->backend,
        .model = t->model,
        .vocabulary = t->vocabulary,
        .chunk_frames = chunk_frames,
        .inputs = dim,
        .symbols =
            t->vocabulary != NULL ? spsh__vocabulary_size(t->vocabulary) : t->config->model.outputs,
        .beam_width = o->beam_width,
        .limits = limits,
        .heard_fn = o->heard_fn,
        .heard_user = o->heard_user,
    };
    return spsh__evaluator_open(&options, &e->evaluator, err);
}

spsh_status spsh_evaluate(const spsh_evaluate_options *options, spsh_evaluation *ret_result,
                          spsh_error *err)
{
    spsh_evaluate_options known = SPSH_EVALUATE_OPTIONS_INIT;
    evaluation e = {.trained = NULL};
    spsh__evaluation sums = {0};
    spsh_status rc = spsh_result_check(ret_result, sizeof(*ret_result), err);
    if (rc == SPSH_OK)
        rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    if (known.checkpoint == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "checkpoint is NULL: an evaluation needs a checkpoint");
    rc = spsh__trained_open(&(spsh__trained_options){known.checkpoint, known.threads, known.io,
                                                     known.log_fn, known.log_user},
                            &e.trained, err);
    if (rc == SPSH_OK)
        rc = read_alignments(&e, &known, err);
    if (rc == SPSH_OK)
        rc = open_feed(&e, &known, err);
    if (rc == SPSH_OK)
        rc = open_evaluator(&e, &known, err);
    if (rc == SPSH_OK)
        rc = spsh__evaluate(e.evaluator, e.feed, &sums, err);
    if (rc == SPSH_OK)
        give_result(&sums, e.alignments != NULL, ret_result);
    close_evaluation(&e);
    return rc;
}
