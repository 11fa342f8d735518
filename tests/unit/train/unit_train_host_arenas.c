/* unit_train_host_arenas.c PLUGIN: the copy of a device's model for a checkpoint. The host does not
 * wait, and the learner overwrites its arenas at once: statistics after read, and the rest after
 * hold. The copy has the values at read. PLUGIN is the host emulation, which stops the program if
 * two uses of memory are not ordered. */
#include "device_test.h"
#include "doubles.h"
#include "run/host_arenas.h"
#include "spsh_test.h"

enum { INPUTS = 20, FRAMES = 50, ROUNDS = 3 };

static spsh_cuda *cuda;
static twin_controls *twin;
static spsh_error err;

static const spsh__model_shape shape = {.inputs = INPUTS,
                                        .conv_channels = 1,
                                        .layers = 1,
                                        .cell = SPSH__CELL_LSTM,
                                        .hidden = 4,
                                        .is_bidirectional = true,
                                        .outputs = 5};

static float value(uint32_t round, size_t arena, uint64_t i)
{
    return (float)(i % 1009) + (float)(arena + 10 * round) / 64;
}

static void fill(const spsh__arena *a, uint32_t round, size_t arena, spsh__backend *b)
{
    float *values = malloc(a->elements * sizeof(*values));
    REQUIRE(values != NULL);
    for (uint64_t i = 0; i < a->elements; i++)
        values[i] = value(round, arena, i);
    b->ops->write_f32_fn(b, a->buffer, values, a->elements);
    free(values);
}

static void check_round(spsh__host_arenas *h, const spsh__learner *l, uint32_t round)
{
    spsh__backend *b = l->backend;
    spsh__arena all[SPSH__ARENAS];
    spsh__learner_arenas(l, all);
    for (size_t a = 0; a < SPSH__ARENAS; a++)
        fill(&all[a], round, a, b);
    const uint64_t waits = twin->waits, down = twin->down_bytes;
    REQUIRE(spsh__host_arenas_read(h, l, &err) == SPSH_OK);
    b->ops->zero_fn(b, l->statistics, l->statistics_elements);
    REQUIRE(spsh__host_arenas_hold(h, l, &err) == SPSH_OK);
    for (size_t a = 0; a < SPSH__ARENAS; a++)
        b->ops->zero_fn(b, all[a].buffer, all[a].elements);
    CHECK_U64(twin->waits, waits);
    CHECK_U64(twin->down_bytes - down, (3 * l->arena_elements + l->statistics_elements) * 4);
    REQUIRE(spsh__host_arenas_land(h, &err) == SPSH_OK);
    const float *const copies[SPSH__ARENAS] = {h->weights, h->moments[0], h->moments[1],
                                               h->statistics};
    for (size_t a = 0; a < SPSH__ARENAS; a++)
        for (uint64_t i = 0; i < all[a].elements; i++)
            REQUIRE(copies[a][i] == value(round, a, i));
}

static void test_copies_while_the_learner_goes_on(void)
{
    const spsh__backend_options options = {.name = "cuda", .cuda = cuda, .threads = 1};
    const spsh__model_limits limits = {2, FRAMES, 2 * FRAMES};
    const bool has_moments[2] = {true, true};
    spsh__backend *b = NULL;
    spsh__model *model = NULL;
    spsh__host_arenas h = {0};
    REQUIRE(spsh__backend_open_with(&options, NULL, &b, &err) == SPSH_OK);
    REQUIRE(spsh__model_open(b, &shape, &limits, &model, &err) == SPSH_OK);
    spsh__learner l = {.backend = b,
                       .weights = spsh__model_weights(model),
                       .arena_elements = spsh__model_arena_elements(model)};
    l.statistics = spsh__model_statistics(model, &l.statistics_elements);
    REQUIRE(l.statistics_elements > 0);
    for (int m = 0; m < 2; m++)
        REQUIRE(b->ops->alloc_fn(b, l.arena_elements, &l.moments[m], &err) == SPSH_OK);
    REQUIRE(spsh__host_arenas_open(b, model, has_moments, &h, &err) == SPSH_OK);
    for (uint32_t round = 0; round < ROUNDS; round++)
        check_round(&h, &l, round);
    spsh__host_arenas_close(&h);
    CHECK(b->ops->status_fn(b, &err) == SPSH_OK);
    for (int m = 0; m < 2; m++)
        b->ops->free_fn(b, l.moments[m]);
    spsh__model_close(model);
    spsh__backend_close(b);
    CHECK_U64(twin->open_memory + twin->open_pinned + twin->open_streams + twin->open_events, 0);
}

TEST_MAIN(unit_train_host_arenas)
{
    REQUIRE(argc == 2);
    const int refused = device_test_open(argv[1], &cuda, &twin);
    if (refused != 0)
        return refused;
    REQUIRE(twin != NULL);
    (void)test_seed(1);
    RUN(test_copies_while_the_learner_goes_on);
    spsh_cuda_close(cuda);
    return TEST_RESULT();
}
