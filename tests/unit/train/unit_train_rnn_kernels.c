/* unit_train_rnn_kernels.c: the emulated product of a warp, and the order of lanes and warps. */
#include "cuda/device_mma.h"
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

TEST_MAIN(unit_train_rnn_kernels)
{
    (void)argc, (void)argv;
    seed = test_seed(20261128);
    for (int i = 0; i < 20; i++) {
        test_product(SPSH__DEVICE_BF16);
        test_product(SPSH__DEVICE_FP16);
    }
    test_orders();
    return TEST_RESULT();
}
