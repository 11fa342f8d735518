/* estimate_epoch.c: an epoch as the sampler deals it: batches, lengths, and transcripts.
 *
 * Lengths of audio and of transcripts are in the index, so each utterance costs little. Only some
 * transcripts are read, in the order in which they are stored:
 *
 *     TEXTS_MAX    at most, in evenly spread runs of RUN adjacent utterances: characters, symbols
 *     SUSPECTS_MAX at most, with less than two frames after the model per byte of the transcript
 *
 * CTC needs one frame per label, and one more between equal labels. Normalization hardly ever makes
 * more characters than the transcript has bytes.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "estimate.h"
#include "labels/text_form.h"
#include "speechshard/inside.h"

enum {
    RUN = 64,
    TEXTS_MAX = 1 << 18,
    SUSPECTS_MAX = 1 << 18,
    LABELS_AT_FIRST = 4096,
    LABELS_MAX = 1 << 26,
    POINTS = 0x110000,
    DS2_FRAMES = 2, /* frames of features per output frame of the model, rounded up */
};

typedef struct text {
    uint64_t position;
    uint32_t dataset, frames; /* frames: after the model */
    bool is_spread, is_suspect;
} text;

typedef struct going {
    const spsh__estimating *e;
    spsh_train_estimate *out;
    uint32_t rate_hz;
    spsh_featgen *featgen;
    uint64_t stride; /* distance between the runs that are read */
    uint64_t suspects, suspect_stride, suspects_read, suspects_infeasible;
    text *texts;
    size_t count, capacity;
    uint64_t *points; /* number of unknown characters per code point; POINTS entries */
    uint32_t *labels;
    uint32_t label_capacity;
    double padded_s;
    uint64_t batch_pairs, pairs; /* frames * (labels + 1): of the current batch, and the maximum */
} going;

/* ---- the epoch ---- */

static spsh_status note_text(going *g, const text *t, spsh_error *err)
{
    if (g->count == g->capacity) {
        const size_t capacity = 2 * g->capacity + 1024;
        text *texts = realloc(g->texts, capacity * sizeof(*texts));
        if (texts == NULL)
            return SPSH_NO_MEMORY(err);
        g->texts = texts;
        g->capacity = capacity;
    }
    g->texts[g->count++] = *t;
    return SPSH_OK;
}

/* Return the number of feature frames at the recorded speed. */
static uint32_t frames_of(const going *g, const spsh_item *item)
{
    const double samples =
        (double)item->samples * g->rate_hz / (item->sample_rate_hz > 0 ? item->sample_rate_hz : 1);
    const uint64_t frames = spsh_featgen_frame_count(g->featgen, (uint64_t)(samples + 0.999));
    return frames < UINT32_MAX ? (uint32_t)frames : UINT32_MAX;
}

/* For a model of frames: check for an alignment with a state for each frame. */
static spsh_status take_aligned(going *g, const spsh_item *item, spsh_error *err)
{
    const spsh__alignments *alignments = g->e->alignments;
    const uint32_t frames = frames_of(g, item);
    uint32_t number = 0;
    spsh_row row;
    const spsh_status rc = spsh_dataset_rows(spsh__feed_dataset(g->e->feed, item->dataset),
                                             item->position, 1, &row, err);
    if (rc != SPSH_OK)
        return rc;
    if (frames == 0)
        g->out->without_frames++;
    else if (!spsh__alignments_find_hash(alignments, row.id_hash, &number))
        g->out->without_alignment++;
    else if (!spsh__alignments_states(alignments, number, frames, 0, NULL))
        g->out->other_length++;
    return SPSH_OK;
}

static spsh_status take_item(going *g, const spsh_item *item, spsh_error *err)
{
    const spsh_dataset *dataset = spsh__feed_dataset(g->e->feed, item->dataset);
    const uint64_t behind = ((uint64_t)frames_of(g, item) + DS2_FRAMES - 1) / DS2_FRAMES;
    text t = {item->position, item->dataset, (uint32_t)behind, false, false};
    spsh_bytes bytes = {NULL, 0};
    const spsh_status rc =
        spsh_dataset_column(dataset, SPSH_COLUMN_TEXT_BYTES, item->position, 1, &bytes, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t size = spsh__load_u32le(bytes.data);
    if (t.frames == 0)
        g->out->without_frames++;
    else if (size == 0)
        g->out->without_text++;
    if (t.frames == 0 || size == 0)
        return SPSH_OK;
    g->batch_pairs += behind * ((uint64_t)size + 1);
    t.is_spread = item->position / RUN % g->stride == 0;
    if (t.frames / 2 < size)
        t.is_suspect = g->suspects++ % g->suspect_stride == 0;
    return t.is_spread || t.is_suspect ? note_text(g, &t, err) : SPSH_OK;
}

/* Double the distance between the suspects that are read: drop every other suspect. */
static void thin(going *g)
{
    uint64_t read = 0;
    for (size_t i = 0; i < g->count; i++)
        read += g->texts[i].is_suspect;
    if (read <= SUSPECTS_MAX)
        return;
    read = 0;
    for (size_t i = 0; i < g->count; i++)
        if (g->texts[i].is_suspect)
            g->texts[i].is_suspect = read++ % 2 == 0;
    g->suspect_stride *= 2;
}

static spsh_status take_batch(going *g, const spsh_planned_batch *batch, spsh_error *err)
{
    spsh_train_estimate *out = g->out;
    const double padded_s = (double)batch->padded_microseconds * 1e-6;
    spsh_status rc = SPSH_OK;
    if (batch->item_count == 0)
        return SPSH_OK;
    g->batch_pairs = 0;
    out->batches++;
    out->seconds += (double)batch->microseconds * 1e-6;
    out->utterances += batch->item_count;
    g->padded_s += padded_s;
    if (batch->item_count > out->batch_utterances_max)
        out->batch_utterances_max = batch->item_count;
    if (padded_s > out->batch_padded_seconds_max)
        out->batch_padded_seconds_max = padded_s;
    for (uint32_t i = 0; i < batch->item_count && rc == SPSH_OK; i++)
        rc = g->e->alignments != NULL ? take_aligned(g, &batch->items[i], err)
                                      : take_item(g, &batch->items[i], err);
    g->pairs = g->batch_pairs > g->pairs ? g->batch_pairs : g->pairs;
    return rc;
}

static spsh_status go_through(going *g, const spsh_plan *plan, spsh_error *err)
{
    spsh_sampler *sampler = NULL;
    spsh_planned_batch batch = SPSH_PLANNED_BATCH_INIT;
    spsh_status rc = spsh_sampler_open(plan, 0, 1, &sampler, err);
    if (rc != SPSH_OK)
        return rc;
    while ((rc = spsh_sampler_next(sampler, &batch, err)) == SPSH_OK) {
        rc = take_batch(g, &batch, err);
        if (rc != SPSH_OK)
            break;
        if (g->suspects / g->suspect_stride > SUSPECTS_MAX)
            thin(g);
    }
    spsh_sampler_close(sampler);
    return rc == SPSH_E_END ? SPSH_OK : rc;
}

/* ---- transcripts ---- */

static int by_place(const void *a, const void *b)
{
    const text *left = (const text *)a;
    const text *right = (const text *)b;
    if (left->dataset != right->dataset)
        return left->dataset < right->dataset ? -1 : 1;
    return (left->position > right->position) - (left->position < right->position);
}

static void count_unknown(void *user, int32_t point)
{
    going *g = (going *)user;
    g->out->unknown_characters++;
    if (point >= 0 && point < POINTS)
        g->points[point]++;
}

static spsh_status encode(going *g, spsh_bytes transcript, uint32_t *ret_count, spsh_error *err)
{
    for (;;) {
        uint32_t dropped = 0;
        const spsh_status rc = spsh__vocabulary_encode(g->e->vocabulary, transcript, g->labels,
                                                       g->label_capacity, ret_count, &dropped, err);
        if (rc != SPSH_E_LIMIT || g->label_capacity >= LABELS_MAX)
            return rc;
        const uint32_t capacity = g->label_capacity == 0 ? LABELS_AT_FIRST : 2 * g->label_capacity;
        uint32_t *labels = realloc(g->labels, capacity * sizeof(*labels));
        if (labels == NULL)
            return SPSH_NO_MEMORY(err);
        g->labels = labels;
        g->label_capacity = capacity;
    }
}

static spsh_status take_text(going *g, const text *t, spsh_bytes transcript, spsh_error *err)
{
    uint32_t count = 0, repeats = 0;
    const spsh_status rc = encode(g, transcript, &count, err);
    if (rc != SPSH_OK)
        return rc;
    for (uint32_t i = 1; i < count; i++)
        repeats += g->labels[i] == g->labels[i - 1];
    if (t->is_suspect) {
        g->suspects_read++;
        g->suspects_infeasible += (uint64_t)count + repeats > t->frames;
    }
    if (!t->is_spread)
        return SPSH_OK;
    g->out->texts_read++;
    g->out->without_symbols += count == 0;
    g->out->characters += spsh__vocabulary_unknown(g->e->vocabulary, transcript, count_unknown, g);
    return SPSH_OK;
}

static spsh_status read_texts(going *g, spsh_error *err)
{
    spsh_reader *reader = NULL;
    uint32_t dataset = 0; /* dataset of the reader */
    spsh_status rc = SPSH_OK;
    if (g->count > 0)
        qsort(g->texts, g->count, sizeof(*g->texts), by_place);
    for (size_t i = 0; i < g->count && rc == SPSH_OK; i++) {
        const text *t = &g->texts[i];
        spsh_utterance utterance;
        if (!t->is_spread && !t->is_suspect)
            continue;
        if (reader == NULL || t->dataset != dataset) {
            spsh_reader_close(reader);
            reader = NULL;
            dataset = t->dataset;
            rc = spsh_reader_open(spsh__feed_dataset(g->e->feed, t->dataset), &reader, err);
        }
        if (rc == SPSH_OK)
            rc = spsh_reader_metadata(reader, t->position, &utterance, err);
        if (rc == SPSH_OK)
            rc = take_text(g, t, utterance.text, err);
    }
    spsh_reader_close(reader);
    return rc;
}

static void find_most_frequent(const going *g)
{
    spsh_train_estimate *out = g->out;
    for (int32_t point = 0; point < POINTS; point++) {
        const uint64_t count = g->points[point];
        uint32_t at = out->unknown_count;
        if (count == 0)
            continue;
        out->unknown_kinds++;
        while (at > 0 && out->unknown[at - 1].count < count)
            at--;
        if (at == SPSH_TRAIN_UNKNOWN_MAX)
            continue;
        if (out->unknown_count < SPSH_TRAIN_UNKNOWN_MAX)
            out->unknown_count++;
        for (uint32_t i = out->unknown_count - 1; i > at; i--)
            out->unknown[i] = out->unknown[i - 1];
        out->unknown[at] = (spsh_train_unknown){.point = point, .count = count};
        if (point != SPSH__POINT_BAD)
            (void)utf8proc_encode_char(point, (uint8_t *)out->unknown[at].text);
    }
}

/* ---- the estimate ---- */

static void end_epoch(const going *g)
{
    spsh_train_estimate *out = g->out;
    out->padding = g->padded_s > 0 ? 1 - out->seconds / g->padded_s : 0;
    out->is_infeasible_exact = g->suspects_read == g->suspects;
    out->infeasible = g->suspects_infeasible;
    if (!out->is_infeasible_exact)
        out->infeasible = (uint64_t)((double)g->suspects_infeasible * (double)g->suspects /
                                     (double)(g->suspects_read > 0 ? g->suspects_read : 1));
}

/* Reject a run without any utterance to train on. */
static spsh_status check(const spsh_train_estimate *out, spsh_error *err)
{
    if (out->without_text + out->without_frames == out->utterances)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "nothing to train on: of %llu utterances, %llu have no transcript and "
                         "%llu are shorter than a frame",
                         (unsigned long long)out->utterances, (unsigned long long)out->without_text,
                         (unsigned long long)out->without_frames);
    if (out->without_alignment + out->other_length + out->without_frames == out->utterances)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "nothing to train on: of %llu utterances, %llu have no alignment and %llu "
                         "have an alignment of a different length",
                         (unsigned long long)out->utterances,
                         (unsigned long long)out->without_alignment,
                         (unsigned long long)out->other_length);
    if (out->texts_read > 0 && out->without_symbols == out->texts_read)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "nothing to train on: none of %llu transcripts has a symbol of the "
                         "vocabulary; does the vocabulary have another language or case?",
                         (unsigned long long)out->texts_read);
    if (out->infeasible + out->without_text + out->without_frames >= out->utterances)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "nothing to train on: all %llu transcripts are too long for their audio; "
                         "each label takes one frame of the model, which is %d frames of features",
                         (unsigned long long)out->utterances, (int)DS2_FRAMES);
    return SPSH_OK;
}

spsh_status spsh__estimate_epoch(spsh__estimating *e, spsh_error *err)
{
    const spsh_plan *plan = spsh__feed_plan(e->feed);
    const uint64_t total = spsh_plan_info_get(plan)->utterance_count;
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    going g = {.e = e, .out = e->out, .stride = total / TEXTS_MAX + 1, .suspect_stride = 1};
    spsh_status rc = spsh_feature_options_parse(e->config->features, &features, err);
    if (rc == SPSH_OK)
        rc = spsh_featgen_open(&features, NULL, &g.featgen, err);
    if (rc == SPSH_OK) {
        g.rate_hz = features.sample_rate_hz;
        g.points = calloc(POINTS, sizeof(*g.points));
        rc = g.points == NULL ? SPSH_NO_MEMORY(err) : go_through(&g, plan, err);
    }
    if (rc == SPSH_OK)
        rc = read_texts(&g, err);
    e->ctc_pairs = g.pairs;
    if (rc == SPSH_OK) {
        find_most_frequent(&g);
        end_epoch(&g);
        rc = check(e->out, err);
    }
    spsh_featgen_close(g.featgen);
    free(g.texts);
    free(g.points);
    free(g.labels);
    return rc;
}
