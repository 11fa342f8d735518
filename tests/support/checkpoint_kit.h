/* checkpoint_kit.h: a small trainer's state for tests of checkpoints. Every number in it follows
 * from `samples`, so tests can check a state without storing a copy.
 */
#ifndef CHECKPOINT_KIT_H
#define CHECKPOINT_KIT_H

#include "checkpoint/checkpoint.h"
#include "spsh_test.h"

enum {
    KIT_PARAMETERS = 3,
    KIT_STATISTICS = 12,
    KIT_CURSOR_BYTES = 88,
    KIT_STRATEGY_BYTES = 40,
};

typedef struct kit_state {
    spsh__checkpoint c;
    uint64_t elements;
    float *arenas[3]; /* weights, moments */
    float statistics[KIT_STATISTICS];
    spsh__parameter parameters[KIT_PARAMETERS];
    uint8_t cursor[KIT_CURSOR_BYTES], strategy[KIT_STRATEGY_BYTES];
    char config[64];
} kit_state;

static inline float kit_value(uint64_t samples, uint64_t arena, uint64_t element)
{
    uint64_t seed = samples * 1000003 + arena * 7919 + element;
    return (float)(int64_t)(test_random(&seed) >> 40) * 1e-6F;
}

/* One tensor of 30, one of 24, the rest of the arena; gaps between them. */
static inline void kit_parameters(kit_state *s)
{
    static const char *const names[KIT_PARAMETERS] = {"head.weight", "head.bias", "rnn0.w_hh"};
    const uint64_t rest = s->elements - 128;
    memset(s->parameters, 0, sizeof(s->parameters));
    for (size_t i = 0; i < KIT_PARAMETERS; i++) {
        spsh__parameter *p = &s->parameters[i];
        (void)snprintf(p->name, sizeof(p->name), "%s", names[i]);
        p->offset = 64 * i;
        p->rank = i == 0 ? 3 : 1;
        p->decays = i != 1;
        p->bucket = (uint32_t)i;
    }
    s->parameters[0].shape[0] = 2, s->parameters[0].shape[1] = 3, s->parameters[0].shape[2] = 5;
    s->parameters[0].count = 30;
    s->parameters[1].shape[0] = 24, s->parameters[1].count = 24;
    s->parameters[2].shape[0] = (uint32_t)rest, s->parameters[2].count = rest;
}

/* Fill the state after this many samples. elements: at least 192. */
static inline void kit_fill(kit_state *s, uint64_t samples)
{
    for (uint64_t a = 0; a < 3; a++)
        for (uint64_t e = 0; e < s->elements; e++)
            s->arenas[a][e] = kit_value(samples, a, e);
    for (uint64_t e = 0; e < KIT_STATISTICS; e++)
        s->statistics[e] = kit_value(samples, 3, e);
    memset(s->cursor, (int)(samples % 251), sizeof(s->cursor));
    memset(s->strategy, (int)(samples % 241), sizeof(s->strategy));
    (void)snprintf(s->config, sizeof(s->config), "train:\n  samples: %" PRIu64 "\n", samples);
    s->c.samples = samples;
    s->c.step = samples / 8;
    s->c.epoch = samples / 1000;
    s->c.best_metric = (double)samples * 0.25;
    s->c.next_batch_hash = samples * 3;
    s->c.wall_seconds = (double)samples * 0.01;
    s->c.audio_seconds = (double)samples * 2.5;
}

static inline void kit_make(kit_state *s, uint64_t elements, uint64_t samples)
{
    memset(s, 0, sizeof(*s));
    s->elements = elements;
    for (size_t a = 0; a < 3; a++) {
        s->arenas[a] = (float *)malloc((size_t)elements * sizeof(float));
        REQUIRE(s->arenas[a] != NULL);
    }
    kit_parameters(s);
    s->c = (spsh__checkpoint){
        .world_size = 2,
        .virtual_world = 4,
        .config = s->config,
        .vocabulary = "characters\n|'abc\n",
        .weights = s->arenas[0],
        .moments = {s->arenas[1], s->arenas[2]},
        .statistics = s->statistics,
        .arena_elements = elements,
        .statistics_elements = KIT_STATISTICS,
        .parameters = s->parameters,
        .parameter_count = KIT_PARAMETERS,
        .cursor = s->cursor,
        .strategy = s->strategy,
        .cursor_size = KIT_CURSOR_BYTES,
        .strategy_size = KIT_STRATEGY_BYTES,
        .restarts = 6,
    };
    kit_fill(s, samples);
}

static inline void kit_free(kit_state *s)
{
    for (size_t a = 0; a < 3; a++)
        free(s->arenas[a]);
}

/* Bit for bit: a NaN equals itself here, and 0 does not equal -0. */
static inline bool kit_same(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

static inline bool kit_same_numbers(const spsh__checkpoint *c, const spsh__checkpoint *w)
{
    return c->samples == w->samples && c->step == w->step && c->epoch == w->epoch &&
           kit_same(&c->best_metric, &w->best_metric, 8) && c->best_samples == w->best_samples &&
           c->world_size == w->world_size && c->virtual_world == w->virtual_world &&
           c->next_batch_hash == w->next_batch_hash &&
           kit_same(&c->wall_seconds, &w->wall_seconds, 8) &&
           kit_same(&c->audio_seconds, &w->audio_seconds, 8) && c->restarts == w->restarts &&
           c->arena_elements == w->arena_elements &&
           c->statistics_elements == w->statistics_elements && c->cursor_size == w->cursor_size &&
           c->strategy_size == w->strategy_size;
}

/* Whether a state that was read equals the state of kit_fill for its samples, bit for bit. */
static inline bool kit_is_whole(const spsh__checkpoint *c)
{
    kit_state s;
    kit_make(&s, c->arena_elements, c->samples);
    const spsh__checkpoint *w = &s.c;
    const size_t bytes = (size_t)s.elements * sizeof(float);
    bool same = kit_same_numbers(c, w) && strcmp(c->config, w->config) == 0 &&
                strcmp(c->vocabulary, w->vocabulary) == 0 &&
                kit_same(c->weights, w->weights, bytes) &&
                kit_same(c->statistics, w->statistics, sizeof(s.statistics)) &&
                kit_same(c->cursor, w->cursor, c->cursor_size) &&
                kit_same(c->strategy, w->strategy, c->strategy_size) &&
                c->weights_hash == spsh__checkpoint_hash(w->weights, s.elements);
    for (size_t a = 0; a < 2 && same; a++)
        same = c->moments[a] != NULL && kit_same(c->moments[a], w->moments[a], bytes);
    same = same && spsh__checkpoint_match(c, s.parameters, KIT_PARAMETERS, s.elements,
                                          KIT_STATISTICS, NULL) == SPSH_OK;
    kit_free(&s);
    return same;
}

/* Samples of the newest good checkpoint of a run, which must be complete; 0 without a checkpoint.
 */
static inline uint64_t kit_newest(const char *run)
{
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    const spsh_status rc = spsh__checkpoint_open(run, NULL, NULL, NULL, &file, &c, NULL);
    if (rc == SPSH_E_NOT_FOUND)
        return 0;
    CHECK_I64(rc, SPSH_OK);
    if (rc != SPSH_OK)
        return UINT64_MAX;
    CHECK(kit_is_whole(&c));
    const uint64_t samples = c.samples;
    spsh__checkpoint_close(file);
    return samples;
}

/* Write the checkpoint after this many samples, and wait until it is on the disk. */
static inline void kit_put(spsh__checkpoint_writer *writer, kit_state *s, uint64_t samples)
{
    spsh_error err = SPSH_ERROR_INIT;
    kit_fill(s, samples);
    spsh_status rc = spsh__checkpoint_put(writer, &s->c, &err);
    if (rc == SPSH_OK)
        rc = spsh__checkpoint_flush(writer, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    CHECK_I64(rc, SPSH_OK);
}

static inline spsh__checkpoint_writer *kit_writer(const char *run, uint32_t keep, const spsh_io *io)
{
    spsh__checkpoint_writer *writer = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    const spsh_status rc = spsh__checkpoint_writer_open(run, keep, io, NULL, &writer, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    return writer;
}

/* The bytes of a checkpoint file from a writer. The caller frees them. */
static inline uint8_t *kit_file(uint64_t elements, uint64_t samples, size_t *ret_size)
{
    char folder[256];
    char path[400];
    uint8_t *data = NULL;
    kit_state s;
    kit_make(&s, elements, samples);
    test_temp_dir(folder, sizeof(folder));
    spsh__checkpoint_writer *writer = kit_writer(folder, 1, NULL);
    kit_put(writer, &s, samples);
    spsh__checkpoint_writer_close(writer);
    kit_free(&s);
    (void)snprintf(path, sizeof(path), "%s/checkpoints/000001-%012" PRIu64 ".spsh", folder,
                   samples);
    REQUIRE(spsh_io_read_file(spsh_io_default(), path, SIZE_MAX, NULL, &data, ret_size, NULL) ==
            SPSH_OK);
    test_remove_tree(folder);
    return data;
}

#endif
