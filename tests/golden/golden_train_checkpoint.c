/* golden_train_checkpoint.c: a checkpoint that was written once is read, and written again with the
 * same bytes.
 *
 *     test_train_checkpoint dump PATH     prints its contents like spsh_checkpoint.py
 *     test_train_checkpoint write PATH    makes the golden file
 */
#include <xxhash.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint_kit.h"

enum { ELEMENTS = 192, SAMPLES = 123456, FILE_BYTES_MAX = 65536 };

static void write_golden(const char *path)
{
    size_t size = 0;
    uint8_t *data = kit_file(ELEMENTS, SAMPLES, &size);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL);
    REQUIRE(fwrite(data, 1, size, file) == size);
    REQUIRE(fclose(file) == 0);
    free(data);
}

static void dump_bytes(const char *name, const void *bytes, size_t size)
{
    printf("%s %zu %016" PRIx64 "\n", name, size, (uint64_t)XXH3_64bits(bytes, size));
}

static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void dump(const char *path)
{
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    REQUIRE(spsh__checkpoint_open(path, NULL, NULL, NULL, &file, &c, NULL) == SPSH_OK);
    const uint64_t counters[] = {c.samples,
                                 c.step,
                                 c.epoch,
                                 c.generation,
                                 c.best_samples,
                                 bits_of(c.best_metric),
                                 c.world_size,
                                 c.virtual_world,
                                 c.next_batch_hash,
                                 c.weights_hash,
                                 bits_of(c.wall_seconds),
                                 bits_of(c.audio_seconds),
                                 c.restarts};
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        printf("%016" PRIx64 "\n", counters[i]);
    dump_bytes("config", c.config, strlen(c.config));
    dump_bytes("vocabulary", c.vocabulary, strlen(c.vocabulary));
    for (uint32_t i = 0; i < c.parameter_count; i++) {
        const spsh__parameter *p = &c.parameters[i];
        printf("parameter %s %" PRIu64 " %" PRIu64 " %d", p->name, p->offset, p->count, p->decays);
        for (uint32_t k = 0; k < p->rank; k++)
            printf(" %u", p->shape[k]);
        printf("\n");
    }
    const size_t arena = (size_t)c.arena_elements * sizeof(float);
    dump_bytes("weights", c.weights, arena);
    dump_bytes("moments", c.moments[0], c.moments[0] == NULL ? 0 : arena);
    dump_bytes("moments", c.moments[1], c.moments[1] == NULL ? 0 : arena);
    dump_bytes("statistics", c.statistics, (size_t)c.statistics_elements * sizeof(float));
    dump_bytes("cursor", c.cursor, c.cursor_size);
    dump_bytes("strategy", c.strategy, c.strategy_size);
    spsh__checkpoint_close(file);
}

static void test_the_golden_file(void)
{
    char golden[512];
    char again[300];
    char folder[256];
    uint8_t *data[2] = {NULL, NULL};
    size_t size[2] = {0, 0};
    spsh__checkpoint c;
    spsh__checkpoint_file *file = NULL;
    test_source_path(golden, sizeof(golden), "tests/golden/checkpoint.spsh");
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(again, sizeof(again), "%s/again.spsh", folder);
    write_golden(again);
    const char *const paths[2] = {golden, again};
    for (int i = 0; i < 2; i++)
        REQUIRE(spsh_io_read_file(spsh_io_default(), paths[i], FILE_BYTES_MAX, NULL, &data[i],
                                  &size[i], NULL) == SPSH_OK);
    CHECK(size[0] == size[1] && memcmp(data[0], data[1], size[0]) == 0);
    REQUIRE(spsh__checkpoint_open(golden, NULL, NULL, NULL, &file, &c, NULL) == SPSH_OK);
    CHECK(kit_is_whole(&c));
    CHECK_U64(c.generation, 1);
    spsh__checkpoint_close(file);
    free(data[0]);
    free(data[1]);
    test_remove_tree(folder);
}

TEST_MAIN(golden_train_checkpoint)
{
    if (argc == 3 && strcmp(argv[1], "dump") == 0) {
        dump(argv[2]);
        return TEST_RESULT();
    }
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_golden(argv[2]);
        return TEST_RESULT();
    }
    RUN(test_the_golden_file);
    return TEST_RESULT();
}
