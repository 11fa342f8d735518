/* unit_real_fft.c: transforms are compared with plain sums, and several threads open the first
 * ones at the same time. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "fingerprint/real_fft.h"
#include "spsh_test.h"

enum { SIZE = 1024, THREADS = 4 };
static const double tolerance = 1e-6; /* single precision, relative to the norm */

static double random_sample(uint64_t *state)
{
    return (double)(int16_t)test_random(state);
}

static double norm_of(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void check_size(size_t size, uint64_t *state)
{
    const double turn = 6.283185307179586 / (double)size;
    spsh__real_fft fft = {0};
    double *x = calloc(size, sizeof(*x));
    REQUIRE(x != NULL && spsh__real_fft_open(size, &fft, NULL) == SPSH_OK);
    for (size_t i = 0; i < size; i++)
        x[i] = fft.samples[i] = random_sample(state);
    const double norm = norm_of(x, size);
    spsh__real_fft_forward(&fft);
    for (size_t k = 0; k <= size / 2; k += 1 + size / 64) {
        double re = 0;
        double im = 0;
        for (size_t i = 0; i < size; i++) {
            re += x[i] * cos(turn * (double)(i * k % size));
            im -= x[i] * sin(turn * (double)(i * k % size));
        }
        CHECK(hypot(fft.bins[k].re - re, fft.bins[k].im - im) <= tolerance * norm);
    }
    spsh__real_fft_inverse(&fft);
    double worst = 0;
    for (size_t i = 0; i < size; i++)
        worst = fmax(worst, fabs(fft.samples[i] / (double)size - x[i]));
    CHECK(worst <= tolerance * norm);
    free(x);
    spsh__real_fft_close(&fft);
    spsh__real_fft_close(&fft); /* an object of zeros */
}

static void test_plain_sums(void)
{
    static const size_t sizes[] = {2, 1024, 2048, 8192};
    uint64_t state = test_seed(25);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_size(sizes[i], &state);
}

/* Transform the same signal. */
static void *transform_in_thread(void *user)
{
    double *bin = user;
    spsh__real_fft fft = {0};
    uint64_t state = 1;
    if (spsh__real_fft_open(SIZE, &fft, NULL) != SPSH_OK)
        return NULL;
    for (size_t i = 0; i < SIZE; i++)
        fft.samples[i] = random_sample(&state);
    spsh__real_fft_forward(&fft);
    *bin = fft.bins[7].re;
    spsh__real_fft_close(&fft);
    return NULL;
}

static void test_threads_get_equal_bits(void)
{
    pthread_t threads[THREADS];
    double bins[THREADS] = {0};
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, transform_in_thread, &bins[i]) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK(bins[0] != 0);
    for (size_t i = 1; i < THREADS; i++)
        CHECK(bins[0] == bins[i]);
}

static void test_library_has_a_name(void)
{
    CHECK(strlen(spsh__real_fft_library()) > 0);
}

TEST_MAIN(unit_real_fft)
{
    RUN(test_threads_get_equal_bits);
    RUN(test_plain_sums);
    RUN(test_library_has_a_name);
    return TEST_RESULT();
}
