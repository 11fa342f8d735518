/* unit_train_rnn_kernels.c GPU.md: the parts of the persistent recurrence that need no device: the
 * emulated product of a warp, the order of lanes and warps, and the layers that fit on a device,
 * which the document has as a table.
 */
#include <stdio.h>

#include "backend_cuda/backend_cuda_rnn_state.h"
#include "cuda/device_mma.h"
#include "cuda/device_nccl.h"
#include "spsh_test.h"

static uint64_t seed;

/* ------------------------------------------------------------------------------ the warp's product
 */

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };

static void put_half(uint32_t *of_lane, uint32_t i, float value, uint32_t kind)
{
    const uint32_t bits = spsh__half_of_f32(value, kind == SPSH__DEVICE_BF16);
    of_lane[i / 2] |= bits << i % 2 * 16;
}

/* Small whole numbers: all sums are exact, in any order. */
static float small(void)
{
    return (float)(test_random(&seed) % 17) - 8;
}

/* Give each element to its lane, by the figures of "Matrix Fragments for mma.m16n8k16 with floating
 * point type" in the manual of PTX, and compare with the product of the matrices. */
static void test_product(uint32_t kind)
{
    float a[ROWS][DEPTH], b[DEPTH][COLUMNS], c[ROWS][COLUMNS];
    spsh__mma lanes[32];
    memset(lanes, 0, sizeof(lanes));
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t k = 0; k < DEPTH; k++) {
            a[row][k] = small();
            put_half(lanes[row % 8 * 4 + k % 8 / 2].a, k / 8 * 4 + row / 8 * 2 + k % 2, a[row][k],
                     kind);
        }
    }
    for (uint32_t k = 0; k < DEPTH; k++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            b[k][column] = small();
            put_half(lanes[column * 4 + k % 8 / 2].b, k / 8 * 2 + k % 2, b[k][column], kind);
        }
    }
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            c[row][column] = small();
            lanes[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2] = c[row][column];
        }
    }
    spsh__warp_mma(kind, lanes);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            float want = c[row][column];
            for (uint32_t k = 0; k < DEPTH; k++)
                want += a[row][k] * b[k][column];
            const float got = lanes[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2];
            CHECK(spsh__bits_of_f32(got) == spsh__bits_of_f32(want));
        }
    }
}

/* Every order has each number once. */
static void test_orders(void)
{
    for (uint32_t count = 8; count <= 32; count *= 4) {
        for (uint32_t order = 0; order < 200; order++) {
            uint64_t seen = 0;
            for (uint32_t i = 0; i < count; i++)
                seen |= UINT64_C(1) << spsh__own_turn(order, i, count);
            CHECK_U64(seen, (UINT64_C(1) << count) - 1);
        }
    }
}

/* -------------------------------------------------------------------------------------- the table
 */

static spsh__rnn_limits device;

static spsh__rnn_limits limits_of(void *state)
{
    (void)state;
    return device;
}

static uint32_t resident_of(void *state, spsh__rnn_kernel kernel, spsh__device_kind kind,
                            uint32_t shared_bytes)
{
    (void)state, (void)kernel, (void)kind, (void)shared_bytes;
    return device.blocks;
}

/* Units per block of a bidirectional layer, with 64 utterances of 16-bit elements. */
static void describe(const spsh__rnn_shape *s, uint32_t spared, char *text, size_t size_bytes)
{
    static const spsh__device_rnn_entry entry = {.limits_fn = limits_of,
                                                 .resident_fn = resident_of};
    const spsh__rnn_state state = {.entry = &entry};
    spsh__rnn_choice c = {.shape = *s, .passes = 2, .spared = spared};
    if (spsh__rnn_fit_persistent(&state, &c, SPSH__DEVICE_BF16, NULL) != SPSH_OK)
        (void)snprintf(text, size_bytes, "no");
    else
        (void)snprintf(text, size_bytes, "%u%s", c.job.units, c.at_once == 1 ? ", in turn" : "");
    if (text[0] != 'n') { /* what the kernel relies on */
        CHECK(c.blocks * c.at_once + spared <= device.blocks && c.blocks % c.job.gates == 0);
        CHECK(c.job.layout.bytes <= device.shared_bytes && c.job.units <= SPSH__DEVICE_THREADS);
        CHECK((uint64_t)c.blocks * c.job.units >= s->hidden);
    }
}

static const struct gpu_row {
    const char *name;
    uint32_t blocks, shared_kib;
} devices[] = {
    {"A100",                   108, 163},
    {"A100, MIG 1g",           14,  163},
    {"A100, MIG 2g",           28,  163},
    {"A100, MIG 3g",           42,  163},
    {"A100, MIG 4g",           56,  163},
    {"A100, MIG 7g",           98,  163},
    {"H100 PCIe",              114, 227},
    {"H100 SXM, H200",         132, 227},
    {"H100 SXM, H200, MIG 1g", 16,  227},
    {"H100 SXM, H200, MIG 2g", 32,  227},
    {"H100 SXM, H200, MIG 3g", 60,  227},
    {"H100 SXM, H200, MIG 4g", 64,  227},
    {"B200",                   148, 227},
    {"A10",                    72,  99 },
    {"RTX 4090",               128, 99 },
    {"L40S",                   142, 99 },
};

static void add(char *line, size_t size_bytes, const char *text)
{
    const size_t used = strlen(line);
    (void)snprintf(line + used, size_bytes - used, " %s |", text);
}

static void print_row(const struct gpu_row *row, char *line, size_t size_bytes)
{
    static const uint32_t sizes[] = {512, 760, 800, 1024, 1280};
    char text[64];
    device = (spsh__rnn_limits){row->blocks, row->shared_kib * 1024};
    (void)snprintf(line, size_bytes, "| %s | %u | %u |", row->name, row->blocks, row->shared_kib);
    for (uint32_t i = 0; i < 10; i++) {
        const spsh__rnn_shape s = {i < 5 ? SPSH__CELL_LSTM : SPSH__CELL_GRU, 1000, 64, 8,
                                   sizes[i % 5]};
        describe(&s, 0, text, sizeof(text));
        add(line, size_bytes, text);
    }
}

/* How the directions of a layer run: the first word, or "both" if there is a number. */
static const char *kind_of(const char *text)
{
    return text[0] == 'n' ? "no" : strstr(text, "in turn") != NULL ? "in turn" : "both";
}

/* Layers that run differently if NCCL is in use: rows of a second table. */
static void check_spared(const struct gpu_row *row, const char *document)
{
    static const uint32_t sizes[] = {512, 760, 800, 1024, 1280};
    for (uint32_t i = 0; i < 10; i++) {
        const spsh__rnn_shape s = {i < 5 ? SPSH__CELL_LSTM : SPSH__CELL_GRU, 1000, 64, 8,
                                   sizes[i % 5]};
        char alone[64], spared[64], line[200];
        describe(&s, 0, alone, sizeof(alone));
        describe(&s, SPSH__NCCL_MULTIPROCESSORS, spared, sizeof(spared));
        (void)snprintf(line, sizeof(line), "| %s | %s %u | %s | %s |\n", row->name,
                       i < 5 ? "LSTM" : "GRU", s.hidden, kind_of(alone), kind_of(spared));
        const bool is_same = strcmp(kind_of(alone), kind_of(spared)) == 0;
        if ((strstr(document, line) == NULL) != is_same) {
            (void)fprintf(stderr, "%s: %s", is_same ? "not so" : "missing", line);
            CHECK(false);
        }
    }
}

static char *read_document(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "rb");
    REQUIRE(text != NULL && file != NULL);
    REQUIRE(fread(text, 1, (1 << 20) - 1, file) > 0);
    (void)fclose(file);
    return text;
}

static void test_table(const char *path)
{
    char *document = read_document(path);
    for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
        char line[400];
        print_row(&devices[i], line, sizeof(line));
        if (strstr(document, line) == NULL) {
            (void)fprintf(stderr, "not in %s:\n%s\n", path, line);
            CHECK(false);
        }
        check_spared(&devices[i], document);
    }
    free(document);
}

TEST_MAIN(unit_train_rnn_kernels)
{
    REQUIRE(argc == 2);
    seed = test_seed(20261128);
    for (int i = 0; i < 20; i++) {
        test_product(SPSH__DEVICE_BF16);
        test_product(SPSH__DEVICE_FP16);
    }
    test_orders();
    test_table(argv[1]);
    return TEST_RESULT();
}
