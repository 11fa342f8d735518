/* evaluate.c: see evaluate.h.
 *
 *     device    forward, loss 7 | best symbols 7      forward, loss 8 | ...
 *     host                        decode, compare 6                     decode, compare 7
 *
 * The host decodes a batch while the device computes the next one. A batch of the feed is valid only
 * until the next one, so its ids and references are copied.
 */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "speechshard/inside.h"

enum { TEXT_AT_FIRST = 4096, COUNTS = 24 };

typedef struct text_buffer {
    char *text;
    size_t capacity;
} text_buffer;

typedef struct text_sizes {
    size_t id, reference;
} text_sizes;

/* A batch that is being computed, or waits to be decoded. */
typedef struct heard_batch {
    uint32_t batch; /* columns of its rows */
    uint32_t count; /* utterances; 0: none waits */
    uint32_t *out_lengths;
    uint32_t *symbols; /* without a beam: the most probable symbols, [frames][batch] */
    text_buffer texts; /* per utterance: its id, and its normalized reference, each with a NUL */
    text_sizes *sizes; /* per utterance, without the NUL */
} heard_batch;

struct spsh__evaluator {
    spsh__evaluator_options o;
    spsh__beam *beam; /* NULL: greedy */
    float *rows;      /* with a beam: log probabilities of a batch, [frames][batch][symbols] */
    uint32_t *labels; /* labels of one utterance, frames_max entries */
    heard_batch batches[2];
    heard_batch *now, *before; /* the batch that is being computed; the one that is decoded */
    spsh__ctc_result *losses;
    text_buffer found;
    spsh__frame_cutter *cutter; /* NULL: a model with transcripts */
};

static spsh_status grow(text_buffer *b, size_t capacity, spsh_error *err)
{
    if (capacity <= b->capacity)
        return SPSH_OK;
    char *text = realloc(b->text, capacity);
    if (text == NULL)
        return SPSH_NO_MEMORY(err);
    b->text = text;
    b->capacity = capacity;
    return SPSH_OK;
}

static spsh_bytes bytes_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

/* ---- decoding ---- */

static spsh_status forward(spsh__evaluator *e, const spsh__feed_batch *b, uint32_t *ret_frames,
                           spsh__backend_buffer *ret_logits, spsh_error *err)
{
    const spsh__model_batch batch = spsh__feed_for_model(b);
    *ret_frames = spsh__model_out_frames(e->o.model, b->frames);
    e->now->batch = b->batch;
    return spsh__model_forward(e->o.model, &batch, false, ret_logits, e->now->out_lengths, err);
}

/* Enqueue the search for the most probable symbols. With a beam, only compute log probabilities.
 * They overwrite the logits. */
static void start_rows(spsh__evaluator *e, size_t rows, spsh__backend_buffer logits)
{
    const spsh__backend_ops *ops = e->o.backend->ops;
    ops->log_softmax_fn(e->o.backend, rows, e->o.symbols, logits, logits);
    if (e->beam == NULL)
        ops->argmax_fn(e->o.backend, rows, e->o.symbols, logits, e->now->symbols);
}

/* Wait for the batch. */
static spsh_status end_rows(spsh__evaluator *e, size_t rows, spsh__backend_buffer logits,
                            spsh_error *err)
{
    const spsh__backend_ops *ops = e->o.backend->ops;
    spsh__backend_finish(e->o.backend);
    if (e->beam != NULL)
        ops->read_f32_fn(e->o.backend, e->rows, logits, rows * e->o.symbols);
    return ops->status_fn(e->o.backend, err);
}

static uint32_t find_labels(spsh__evaluator *e, const heard_batch *h, uint32_t n)
{
    const uint32_t frames = h->out_lengths[n], symbols = e->o.symbols;
    double score = 0;
    if (e->beam == NULL)
        return spsh__decode_greedy(
            &(spsh__best_symbols){h->symbols + n, frames, h->batch, SPSH__VOCABULARY_BLANK},
            e->labels, e->o.limits.frames_max);
    const spsh__score_rows rows = {e->rows + (size_t)n * symbols, frames, symbols,
                                   (size_t)h->batch * symbols, SPSH__VOCABULARY_BLANK};
    return spsh__decode_beam(e->beam, &rows, e->labels, e->o.limits.frames_max, &score);
}

/* Decode utterance n of a batch into e->found. */
static spsh_status decode(spsh__evaluator *e, const heard_batch *h, uint32_t n, spsh_error *err)
{
    const uint32_t count = find_labels(e, h, n);
    const size_t length = spsh__vocabulary_decode(e->o.vocabulary, e->labels, count, e->found.text,
                                                  e->found.capacity);
    if (length < e->found.capacity)
        return SPSH_OK;
    const spsh_status rc = grow(&e->found, length + 1, err);
    if (rc == SPSH_OK)
        (void)spsh__vocabulary_decode(e->o.vocabulary, e->labels, count, e->found.text,
                                      e->found.capacity);
    return rc;
}

/* Append the id and the normalized reference of an utterance to the texts, at *at. */
static spsh_status keep_utterance(spsh__evaluator *e, const spsh_batch_utterance *u, size_t *at,
                                  spsh_error *err)
{
    text_buffer *texts = &e->now->texts;
    const text_sizes sizes = {u->id.size_bytes,
                              spsh__vocabulary_normalise(e->o.vocabulary, u->text, NULL, 0)};
    const size_t end = *at + sizes.id + 1 + sizes.reference + 1;
    const spsh_status rc = end > texts->capacity ? grow(texts, 2 * end, err) : SPSH_OK;
    if (rc != SPSH_OK)
        return rc;
    if (sizes.id > 0)
        memcpy(texts->text + *at, u->id.data, sizes.id);
    texts->text[*at + sizes.id] = '\0';
    (void)spsh__vocabulary_normalise(e->o.vocabulary, u->text, texts->text + *at + sizes.id + 1,
                                     sizes.reference + 1);
    e->now->sizes[e->now->count++] = sizes;
    *at = end;
    return SPSH_OK;
}

static spsh_status keep_texts(spsh__evaluator *e, const spsh__feed_batch *b, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    size_t at = 0;
    e->now->count = 0;
    for (uint32_t n = 0; n < b->source->utterance_count && rc == SPSH_OK; n++)
        rc = keep_utterance(e, &b->source->utterances[n], &at, err);
    return rc;
}

static spsh_status compare(const spsh__evaluator *e, spsh_bytes reference, spsh__evaluation *sums,
                           spsh_error *err)
{
    const spsh_bytes found = bytes_of(e->found.text);
    spsh_status rc = spsh__errors_add_words(&sums->words, reference, found, err);
    if (rc == SPSH_OK)
        rc = spsh__errors_add_letters(&sums->letters, reference, found, true, err);
    if (rc == SPSH_OK)
        rc = spsh__errors_add_letters(&sums->letters_alone, reference, found, false, err);
    return rc;
}

/* Decode the batch before, if one waits, and compare it with its references. */
static spsh_status end_before(spsh__evaluator *e, spsh__evaluation *sums, spsh_error *err)
{
    heard_batch *h = e->before;
    const char *text = h->texts.text;
    spsh_status rc = SPSH_OK;
    for (uint32_t n = 0; n < h->count && rc == SPSH_OK; n++) {
        const spsh_bytes id = {(const uint8_t *)text, h->sizes[n].id};
        const char *reference = text + id.size_bytes + 1;
        rc = decode(e, h, n, err);
        if (rc == SPSH_OK)
            rc = compare(e, bytes_of(reference), sums, err);
        if (rc == SPSH_OK && e->o.heard_fn != NULL)
            e->o.heard_fn(e->o.heard_user, id, reference, e->found.text);
        text = reference + h->sizes[n].reference + 1;
    }
    h->count = 0;
    return rc;
}

static void start_losses(spsh__evaluator *e, const spsh__feed_batch *b, uint32_t frames,
                         spsh__backend_buffer logits)
{
    const spsh__ctc_shape shape = {frames, b->batch, e->o.symbols, SPSH__VOCABULARY_BLANK, 1};
    const spsh__label_batch labels = {b->labels, b->label_offsets};
    const spsh__ctc_io io = {.logits = logits, .results = e->losses};
    e->o.backend->ops->ctc_fn(e->o.backend, &shape, spsh__model_out_lengths(e->o.model), &labels,
                              &io);
}

static void add_losses(const spsh__evaluator *e, uint32_t batch, spsh__evaluation *sums)
{
    for (uint32_t n = 0; n < batch; n++) {
        sums->infeasible += e->losses[n].is_infeasible;
        if (!isfinite(e->losses[n].loss))
            continue;
        sums->loss_sum += e->losses[n].loss;
        sums->loss_count++;
    }
}

/* No utterance of the batch has frames. Skip the model; all results are empty. */
static void hear_nothing(spsh__evaluator *e, const spsh__feed_batch *b, spsh__evaluation *sums)
{
    for (uint32_t n = 0; n < b->source->utterance_count; n++) {
        e->now->out_lengths[n] = 0;
        sums->infeasible += b->label_offsets[n + 1] > b->label_offsets[n];
    }
}

static spsh_status start_batch(spsh__evaluator *e, const spsh__feed_batch *b, size_t *ret_rows,
                               spsh__backend_buffer *ret_logits, spsh_error *err)
{
    uint32_t frames = 0;
    const spsh_status rc = forward(e, b, &frames, ret_logits, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_rows = (size_t)frames * b->batch;
    start_losses(e, b, frames, *ret_logits);
    start_rows(e, *ret_rows, *ret_logits);
    return SPSH_OK;
}

static spsh_status add_texts(spsh__evaluator *e, const spsh__feed_batch *b, spsh__evaluation *sums,
                             spsh_error *err)
{
    size_t rows = 0;
    spsh__backend_buffer logits = {NULL, false};
    spsh_status rc = b->batch > 0 ? start_batch(e, b, &rows, &logits, err) : SPSH_OK;
    if (rc == SPSH_OK)
        rc = keep_texts(e, b, err);
    if (rc == SPSH_OK)
        rc = end_before(e, sums, err);
    if (rc == SPSH_OK && b->batch > 0)
        rc = end_rows(e, rows, logits, err);
    if (rc != SPSH_OK) {
        spsh__backend_finish(e->o.backend); /* no result may arrive after close */
        return rc;
    }
    if (b->batch > 0)
        add_losses(e, b->batch, sums);
    else
        hear_nothing(e, b, sums);
    heard_batch *const next = e->before;
    e->before = e->now;
    e->now = next;
    return SPSH_OK;
}

static spsh_status add_frames(spsh__evaluator *e, const spsh__feed_batch *b, spsh__evaluation *sums,
                              spsh_error *err)
{
    if (b->batch == 0) /* all utterances of the batch are without frames */
        return SPSH_OK;
    const spsh__frame_batch *cut = spsh__frame_cut(e->cutter, b);
    spsh__cross_entropy entropy = {.rows = (size_t)cut->batch.batch * cut->batch.frames,
                                   .width = e->o.symbols,
                                   .states = cut->states,
                                   .scale = 1};
    const spsh_status rc =
        spsh__model_forward(e->o.model, &cut->batch, false, &entropy.logits, cut->out_lengths, err);
    if (rc != SPSH_OK)
        return rc;
    e->o.backend->ops->cross_entropy_fn(e->o.backend, &entropy);
    spsh__backend_finish(e->o.backend);
    sums->loss_sum += entropy.loss;
    sums->loss_count += cut->counted;
    sums->frames_right += entropy.right;
    sums->utterances += b->samples;
    return e->o.backend->ops->status_fn(e->o.backend, err);
}

static spsh_status add_batch(spsh__evaluator *e, const spsh__feed_batch *b, spsh__evaluation *sums,
                             spsh_error *err)
{
    sums->audio_s += b->seconds;
    sums->without_alignment += b->without_alignment;
    sums->other_length += b->other_length;
    return e->cutter != NULL ? add_frames(e, b, sums, err) : add_texts(e, b, sums, err);
}

/* ---- sums over ranks ---- */

static void list_counts(spsh__evaluation *s, uint64_t *ret[COUNTS])
{
    spsh__errors *const errors[] = {&s->words, &s->letters, &s->letters_alone};
    uint64_t *const own[] = {&s->loss_count, &s->infeasible,        &s->frames_right,
                             &s->utterances, &s->without_alignment, &s->other_length};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        spsh__errors *e = errors[i];
        uint64_t *const fields[] = {&e->substitutions,   &e->insertions, &e->deletions,
                                    &e->reference_count, &e->utterances, &e->wrong_utterances};
        memcpy(ret, fields, sizeof(fields));
        ret += sizeof(fields) / sizeof(fields[0]);
    }
    memcpy(ret, own, sizeof(own));
}

static spsh_status add_ranks(const spsh__evaluator *e, spsh__evaluation *sums, spsh_error *err)
{
    uint64_t counts[COUNTS], *fields[COUNTS];
    double reals[] = {sums->loss_sum, sums->audio_s};
    if (e->o.comm == NULL || e->o.comm->world_size == 1)
        return SPSH_OK;
    list_counts(sums, fields);
    for (size_t i = 0; i < COUNTS; i++)
        counts[i] = *fields[i];
    spsh_status rc =
        spsh__comm_all_reduce(e->o.comm, SPSH__COMM_U64, SPSH__COMM_SUM, counts, COUNTS, err);
    if (rc == SPSH_OK)
        rc = spsh__comm_all_reduce(e->o.comm, SPSH__COMM_F64, SPSH__COMM_SUM, reals, 2, err);
    if (rc != SPSH_OK)
        return rc;
    for (size_t i = 0; i < COUNTS; i++)
        *fields[i] = counts[i];
    sums->loss_sum = reals[0];
    sums->audio_s = reals[1];
    return SPSH_OK;
}

/* All ranks have the same number of batches, and stop after the same one. */
static spsh_status poll_stop(const spsh__evaluator *e, spsh_error *err)
{
    uint64_t stops = e->o.stop != NULL && *e->o.stop != 0;
    spsh_status rc = SPSH_OK;
    if (e->o.stop == NULL)
        return SPSH_OK;
    if (e->o.comm != NULL)
        rc = spsh__comm_all_reduce(e->o.comm, SPSH__COMM_U64, SPSH__COMM_MAX, &stops, 1, err);
    if (rc == SPSH_OK && stops != 0)
        rc = SPSH_FAIL(err, SPSH_E_CANCELED, "the evaluation was stopped");
    return rc;
}

spsh_status spsh__evaluate(spsh__evaluator *e, spsh__feed *feed, spsh__evaluation *ret,
                           spsh_error *err)
{
    const double begin_s = spsh__now_s();
    const spsh__feed_batch *batch = NULL;
    e->before->count = 0;
    spsh__evaluation sums = {0};
    spsh_error failed = SPSH_ERROR_INIT; /* also set at the end of the feed */
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK) {
        rc = spsh__feed_next(feed, &batch, &failed);
        if (rc == SPSH_OK)
            rc = add_batch(e, batch, &sums, &failed);
        if (rc == SPSH_OK)
            rc = poll_stop(e, &failed);
    }
    if (rc != SPSH_E_END)
        return spsh__fail_again(rc, &failed, err);
    rc = end_before(e, &sums, err);
    if (rc == SPSH_OK)
        rc = add_ranks(e, &sums, err);
    if (rc != SPSH_OK)
        return rc;
    sums.took_s = spsh__now_s() - begin_s;
    *ret = sums;
    return SPSH_OK;
}

spsh_status spsh__evaluator_read(spsh__evaluator *e, const spsh__feed_batch *batch, spsh_error *err)
{
    uint32_t out_frames = 0;
    spsh__backend_buffer logits = {NULL, false};
    const spsh_status rc = forward(e, batch, &out_frames, &logits, err);
    const size_t rows = (size_t)out_frames * batch->batch;
    if (rc != SPSH_OK)
        return rc;
    start_rows(e, rows, logits);
    return end_rows(e, rows, logits, err);
}

spsh_status spsh__evaluator_text(spsh__evaluator *e, uint32_t number, const char **ret_text,
                                 spsh_error *err)
{
    const spsh_status rc = decode(e, e->now, number, err);
    if (rc == SPSH_OK)
        *ret_text = e->found.text;
    return rc;
}

/* ---- open and close ---- */

static spsh_status open_batch(const spsh__evaluator *e, uint64_t rows, heard_batch *h,
                              spsh_error *err)
{
    const uint32_t batch_max = e->o.limits.batch_max;
    h->out_lengths = calloc(batch_max, sizeof(*h->out_lengths));
    h->sizes = calloc(batch_max, sizeof(*h->sizes));
    if (e->o.beam_width == 0)
        h->symbols = calloc(rows, sizeof(*h->symbols));
    return h->out_lengths == NULL || h->sizes == NULL ||
                   (e->o.beam_width == 0 && h->symbols == NULL)
               ? SPSH_NO_MEMORY(err)
               : grow(&h->texts, TEXT_AT_FIRST, err);
}

static spsh_status open_for_texts(spsh__evaluator *e, spsh_error *err)
{
    const spsh__model_limits *l = &e->o.limits;
    /* The model returns at most one row per utterance more than its input has. */
    const uint64_t rows = l->rows_max + l->batch_max;
    if (e->o.beam_width > 0)
        e->rows = calloc(rows, e->o.symbols * sizeof(float));
    e->labels = calloc(l->frames_max, sizeof(*e->labels));
    e->losses = calloc(l->batch_max, sizeof(*e->losses));
    spsh_status rc =
        (e->o.beam_width > 0 && e->rows == NULL) || e->labels == NULL || e->losses == NULL
            ? SPSH_NO_MEMORY(err)
            : grow(&e->found, TEXT_AT_FIRST, err);
    for (size_t i = 0; rc == SPSH_OK && i < 2; i++)
        rc = open_batch(e, rows, &e->batches[i], err);
    if (rc == SPSH_OK && e->o.beam_width > 0)
        rc = spsh__beam_open(e->o.beam_width, l->frames_max, spsh_allocator_default(), &e->beam,
                             err);
    return rc;
}

spsh_status spsh__evaluator_open(const spsh__evaluator_options *options, spsh__evaluator **ret,
                                 spsh_error *err)
{
    spsh__evaluator *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return SPSH_NO_MEMORY(err);
    e->o = *options;
    e->now = &e->batches[0];
    e->before = &e->batches[1];
    const spsh_status rc = options->vocabulary != NULL
                               ? open_for_texts(e, err)
                               : spsh__frame_cutter_open(&options->limits, options->inputs,
                                                         options->chunk_frames, &e->cutter, err);
    if (rc == SPSH_OK) {
        *ret = e;
        e = NULL;
    }
    spsh__evaluator_close(e);
    return rc;
}

void spsh__evaluator_close(spsh__evaluator *e)
{
    if (e == NULL)
        return;
    spsh__beam_close(e->beam);
    spsh__frame_cutter_close(e->cutter);
    for (size_t i = 0; i < 2; i++) {
        free(e->batches[i].out_lengths);
        free(e->batches[i].symbols);
        free(e->batches[i].texts.text);
        free(e->batches[i].sizes);
    }
    free(e->rows);
    free(e->labels);
    free(e->losses);
    free(e->found.text);
    free(e);
}
