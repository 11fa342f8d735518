/* frame_batch.c: see frame_batch.h. */
#include "frame_batch.h"

#include <stdlib.h>

#include "speechshard/inside.h"

struct spsh__frame_cutter {
    uint32_t dim, chunk_frames;
    float *features; /* features of chunks; NULL: utterances are not cut */
    uint32_t *lengths, *owners, *out_lengths, *states;
    double *row_losses;
    spsh__frame_batch cut;
};

spsh__model_limits spsh__frame_limits(const spsh__model_limits *limits, uint32_t chunk_frames)
{
    spsh__model_limits cut = *limits;
    if (chunk_frames == 0)
        return cut;
    /* A chunk that is not full is the last of its utterance. */
    uint64_t chunks = limits->rows_max / chunk_frames + limits->batch_max;
    chunks = chunks < UINT32_MAX ? chunks : UINT32_MAX;
    cut.batch_max = (uint32_t)chunks;
    cut.frames_max = chunk_frames < limits->frames_max ? chunk_frames : limits->frames_max;
    cut.rows_max = chunks * cut.frames_max;
    return cut;
}

spsh_status spsh__frame_cutter_open(const spsh__model_limits *limits, uint32_t dim,
                                    uint32_t chunk_frames, spsh__frame_cutter **ret,
                                    spsh_error *err)
{
    const spsh__model_limits cut = spsh__frame_limits(limits, chunk_frames);
    spsh__frame_cutter *c = calloc(1, sizeof(*c));
    bool is_there = c != NULL;
    if (is_there) {
        c->dim = dim;
        c->chunk_frames = chunk_frames;
        c->lengths = calloc(cut.batch_max, sizeof(*c->lengths));
        c->owners = calloc(cut.batch_max, sizeof(*c->owners));
        c->out_lengths = calloc(cut.batch_max, sizeof(*c->out_lengths));
        c->states = calloc(cut.rows_max, sizeof(*c->states));
        c->row_losses = calloc(cut.rows_max, sizeof(*c->row_losses));
        if (chunk_frames > 0)
            c->features = calloc(cut.rows_max, dim * sizeof(*c->features));
        is_there = c->lengths != NULL && c->owners != NULL && c->out_lengths != NULL &&
                   c->states != NULL && c->row_losses != NULL &&
                   (chunk_frames == 0 || c->features != NULL);
    }
    if (!is_there) {
        spsh__frame_cutter_close(c);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "frames of a batch: out of memory");
    }
    *ret = c;
    return SPSH_OK;
}

void spsh__frame_cutter_close(spsh__frame_cutter *c)
{
    if (c == NULL)
        return;
    free(c->features);
    free(c->lengths);
    free(c->owners);
    free(c->out_lengths);
    free(c->states);
    free(c->row_losses);
    free(c);
}

/* The chunk of utterance n from frame `first` on: its features, length and owner. */
static void put_chunk(spsh__frame_cutter *c, const spsh__feed_batch *b, uint32_t chunk, uint32_t n,
                      uint32_t first)
{
    const uint32_t frames = c->cut.batch.frames;
    const uint32_t left = b->lengths[n] - first;
    const uint32_t length = left < frames ? left : frames;
    c->lengths[chunk] = length;
    c->owners[chunk] = n;
    if (c->features != NULL)
        memcpy(c->features + (size_t)chunk * frames * c->dim,
               b->features + ((size_t)n * b->frames + first) * c->dim,
               (size_t)length * c->dim * sizeof(*c->features));
}

static void put_states(spsh__frame_cutter *c, const spsh__feed_batch *b, uint32_t chunk,
                       uint32_t first)
{
    const uint32_t frames = c->cut.batch.frames, chunks = c->cut.batch.batch;
    const uint32_t n = c->owners[chunk];
    const bool is_learnt = b->weights[n] > 0;
    const uint32_t *labels = b->labels + b->label_offsets[n] + first;
    for (uint32_t t = 0; t < frames; t++) {
        const bool is_there = is_learnt && t < c->lengths[chunk];
        c->states[(size_t)t * chunks + chunk] = is_there ? labels[t] : UINT32_MAX;
        c->cut.counted += is_there;
    }
}

static uint32_t chunk_count(const spsh__feed_batch *b, uint32_t frames)
{
    uint32_t chunks = 0;
    for (uint32_t n = 0; n < b->batch; n++)
        chunks += b->lengths[n] / frames + (b->lengths[n] % frames > 0);
    return chunks;
}

const spsh__frame_batch *spsh__frame_cut(spsh__frame_cutter *c, const spsh__feed_batch *b)
{
    const bool is_cut = c->chunk_frames > 0;
    const uint32_t frames = is_cut && c->chunk_frames < b->frames ? c->chunk_frames : b->frames;
    uint32_t chunk = 0;
    c->cut = (spsh__frame_batch){
        .batch = {.features = is_cut ? c->features : b->features,
                  .lengths = c->lengths,
                  .batch = is_cut ? chunk_count(b, frames) : b->batch,
                  .frames = frames},
        .states = c->states,
        .owners = c->owners,
        .row_losses = c->row_losses,
        .out_lengths = c->out_lengths,
    };
    for (uint32_t n = 0; n < b->batch; n++) {
        uint32_t first = 0;
        do { /* without chunks, an utterance without frames still counts as one */
            if (is_cut && b->lengths[n] == 0)
                break;
            put_chunk(c, b, chunk, n, first);
            put_states(c, b, chunk, first);
            first += frames;
            chunk++;
        } while (first < b->lengths[n]);
    }
    return &c->cut;
}
