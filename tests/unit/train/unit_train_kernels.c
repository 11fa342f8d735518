/* unit_train_kernels.c: the kernels of kernels_rows.h, kernels_norm.h, and kernels_update.h, and
 * the operators of backend_cuda_rows.c, _norm.c, and _update.c that use them, run in host memory.
 * The tests compare them with loops in double, for several orders and numbers of threads and
 * blocks. All of these must give identical bits.
 *
 * All memory that operators see is one arena. During a launch, the memory that it did not declare
 * holds NaNs, and they must still be there afterwards. Shared memory begins as NaNs, and has
 * exactly the size that the launch requested.
 */
#undef NDEBUG /* device_values.h asserts alignment */
#include <math.h>
#include <stdlib.h>

#include "backend_cuda/backend_cuda.h"
#include "spsh_test.h"

enum { ARENA_BYTES = 1 << 23, DATA_BYTES = ARENA_BYTES / 2, BATCH_MAX = 16 };

static bool has_fewer; /* run with a sanitizer */

/* ------------------------------------------------------------------- the emulated device */

typedef struct way {
    uint32_t order;      /* order of the threads */
    uint32_t blocks_max; /* maximum number along x, if the device's size decides */
    bool are_backwards;  /* order of the blocks */
} way;

static const way ways[] = {
    {0,  1000, false},
    {1,  1,    true },
    {37, 3,    false},
    {91, 7,    true }
};

enum { UNUSED, READ, WRITTEN };

static struct {
    way way;
    _Alignas(256) unsigned char arena[ARENA_BYTES], before[ARENA_BYTES], result[ARENA_BYTES];
    unsigned char use[ARENA_BYTES]; /* declared use by the current launch */
    size_t used_bytes;              /* bytes of the data, which begin at 0 */
    size_t scratch_bytes;           /* bytes of the operator's scratch, after DATA_BYTES */
    uint64_t random;
    uint32_t launches, events;
} device = {.random = 1};

uint32_t spsh__cuda_blocks(const spsh__backend *b, uint64_t count)
{
    (void)b;
    const uint64_t blocks = (count + SPSH__DEVICE_THREADS - 1) / SPSH__DEVICE_THREADS;
    const uint64_t least = blocks < device.way.blocks_max ? blocks : device.way.blocks_max;
    return least == 0 ? 1 : (uint32_t)least;
}

void *spsh__cuda_scratch(spsh__backend *b, uint32_t number, size_t size_bytes)
{
    (void)b, (void)number;
    void *memory = device.arena + DATA_BYTES + device.scratch_bytes;
    device.scratch_bytes += (size_bytes + 255) / 256 * 256;
    REQUIRE(DATA_BYTES + device.scratch_bytes <= ARENA_BYTES);
    return memory;
}

static uint32_t batch_size; /* utterances of the rows of a sum */

uint32_t spsh__cuda_batch_size(const spsh__backend *b)
{
    (void)b;
    return batch_size;
}

const uint32_t *spsh__cuda_lengths(spsh__backend *b, const uint32_t *lengths)
{
    (void)b;
    return lengths;
}

void spsh__cuda_fetch(spsh__backend *b, void *to, const void *from, size_t size_bytes)
{
    (void)b;
    memcpy(to, from, size_bytes);
}

void spsh__cuda_download(spsh__backend *b, const void *from, size_t size_bytes,
                         void (*take_fn)(const void *user, const void *bytes), const void *user,
                         size_t user_bytes)
{
    (void)b, (void)size_bytes, (void)user_bytes;
    take_fn(user, from);
}

void spsh__cuda_failed(spsh__backend *b, spsh_status rc, const spsh_error *err)
{
    (void)b, (void)err;
    REQUIRE(rc == SPSH_OK);
}

bool spsh__cuda_has_failed(const spsh__backend *b)
{
    (void)b;
    return false;
}

void *spsh__cuda_stream(spsh__backend *b)
{
    return b;
}

static spsh_status take_event(void *event, void *stream, spsh_error *err)
{
    (void)stream, (void)err;
    device.events = device.events * 10 + *(const uint32_t *)event;
    return SPSH_OK;
}

const spsh__cuda_plugin *spsh_cuda_plugin_of(const spsh_cuda *cuda)
{
    static const spsh__cuda_plugin plugin = {.event_wait_fn = take_event,
                                             .event_record_fn = take_event};
    (void)cuda;
    return &plugin;
}

static void run_block(const spsh__kernel_launch *l, const void *job,
                      const spsh__kernel_block *block)
{
    switch (l->kernel) {
#define SPSH_X(number_, name_, job_)                                                               \
    case SPSH__KERNEL_##number_:                                                                   \
        REQUIRE(l->job_bytes == sizeof(job_));                                                     \
        spsh__kernel_##name_((const job_ *)job, block);                                            \
        break;
        SPSH__KERNELS_ROWS(SPSH_X)
        SPSH__KERNELS_NORM(SPSH_X)
        SPSH__KERNELS_UPDATE(SPSH_X)
#undef SPSH_X
    default: REQUIRE(false);
    }
}

static void run_grid(const spsh__kernel_launch *l)
{
    const uint64_t count = (uint64_t)l->blocks_x * l->blocks_y;
    spsh__kernel_block block = {.blocks_x = l->blocks_x, .blocks_y = l->blocks_y};
    void *shared = aligned_alloc(16, l->shared_bytes == 0 ? 16 : l->shared_bytes);
    REQUIRE(shared != NULL && count > 0 && l->blocks_y <= 65535);
    block.order = device.way.order;
    block.shared = l->shared_bytes == 0 ? NULL : shared;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = device.way.are_backwards ? count - 1 - i : i;
        block.x = (uint32_t)(number % l->blocks_x);
        block.y = (uint32_t)(number / l->blocks_x);
        memset(shared, 0xff, l->shared_bytes);
        run_block(l, l->job, &block);
    }
    free(shared);
}

/* Call fn for both parts of the arena that operators use. */
static void each_range(void (*fn)(size_t first, size_t end))
{
    fn(0, device.used_bytes);
    fn(DATA_BYTES, DATA_BYTES + device.scratch_bytes);
}

static void hide_range(size_t first, size_t end)
{
    memcpy(device.before + first, device.arena + first, end - first);
    for (size_t i = first; i < end; i++)
        device.arena[i] = device.use[i] == UNUSED ? 0xff : device.arena[i];
}

static void show_range(size_t first, size_t end)
{
    uint32_t wrong = 0;
    for (size_t i = first; i < end; i++) {
        const unsigned char was = device.use[i] == UNUSED ? 0xff : device.before[i];
        wrong += device.use[i] != WRITTEN && device.arena[i] != was;
        device.arena[i] = device.use[i] == UNUSED ? device.before[i] : device.arena[i];
    }
    CHECK_U64(wrong, 0); /* bytes that were written without a declaration */
}

static void forget_range(size_t first, size_t end)
{
    memset(device.use + first, UNUSED, end - first);
}

static void mark_uses(const spsh__kernel_launch *l, bool are_writes)
{
    for (uint32_t u = 0; u < l->use_count; u++) {
        const uintptr_t at = (uintptr_t)l->uses[u].begin - (uintptr_t)device.arena;
        if (at >= ARENA_BYTES || (l->uses[u].is_write != 0) != are_writes) /* or lengths */
            continue;
        REQUIRE(l->uses[u].size_bytes <= ARENA_BYTES - at);
        memset(device.use + at, are_writes ? WRITTEN : READ, l->uses[u].size_bytes);
    }
}

spsh_status spsh__cuda_launch_on(spsh__backend *b, void *stream, const spsh__kernel_launch *l,
                                 spsh_error *err)
{
    (void)err;
    REQUIRE(stream == &device);
    spsh__cuda_launch(b, l);
    return SPSH_OK;
}

void spsh__cuda_launch(spsh__backend *b, const spsh__kernel_launch *l)
{
    (void)b;
    device.launches++;
    each_range(forget_range);
    mark_uses(l, false);
    mark_uses(l, true);
    each_range(hide_range);
    run_grid(l);
    each_range(show_range);
}

/* ------------------------------------------------------------------------------------- arrays */

typedef struct array {
    spsh__backend *b;
    spsh__backend_buffer buffer;
    size_t count;
} array;

static void arena_reset(void)
{
    memset(device.arena, 0xff, device.used_bytes);
    device.used_bytes = 0;
    device.scratch_bytes = 0;
}

/* Make an array of NaNs that begins `skip` elements after a 256-byte boundary. */
static array array_new(spsh__backend *b, size_t count, bool is_half, uint32_t skip)
{
    const size_t element_bytes = is_half ? sizeof(uint16_t) : sizeof(float);
    const array a = {
        b, {device.arena + device.used_bytes + skip * element_bytes, is_half},
         count
    };
    device.used_bytes += ((count + skip) * element_bytes + 511) / 256 * 256;
    REQUIRE(device.used_bytes <= DATA_BYTES);
    return a;
}

static void put(const array *a, size_t i, double value)
{
    const spsh__device_array x = spsh__cuda_array(a->b, a->buffer);
    spsh__device_set(&x, i, (float)value);
}

static double get(const array *a, size_t i)
{
    const spsh__device_array x = spsh__cuda_array(a->b, a->buffer);
    return (double)spsh__device_get(&x, i);
}

/* From -range to range. */
static double random_number(double range)
{
    return ((double)(test_random(&device.random) >> 11) * 0x1p-53 * 2 - 1) * range;
}

static array array_random(spsh__backend *b, size_t count, bool is_half, uint32_t skip, double range)
{
    const array a = array_new(b, count, is_half, skip);
    for (size_t i = 0; i < count; i++)
        put(&a, i, random_number(range));
    return a;
}

static double *values_of(const array *a)
{
    double *values = calloc(a->count + 1, sizeof(*values));
    REQUIRE(values != NULL);
    for (size_t i = 0; i < a->count; i++)
        values[i] = get(a, i);
    return values;
}

/* Compare within the rounding of the stored type plus `slack`. NaNs and infinities must be the
 * same. */
static bool is_near(const array *a, size_t i, double want, double slack)
{
    const double got = get(a, i);
    double unit = a->buffer.is_half ? (a->b->precision == SPSH__BF16 ? 0x1p-8 : 0x1p-11) : 0x1p-23;
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    if (a->buffer.is_half && a->b->precision == SPSH__FP16)
        slack += 0x1p-25; /* half a step of a subnormal */
    return fabs(got - want) <= unit * fabs(want) + slack;
}

/* Frees want. */
static void check_values(const array *a, double *want, double slack, const char *what)
{
    size_t wrong = 0;
    for (size_t i = 0; i < a->count; i++) {
        if (is_near(a, i, want[i], slack))
            continue;
        if (wrong++ == 0)
            fprintf(stderr, "%s: element %zu of %zu: got %.9g, want %.9g\n", what, i, a->count,
                    get(a, i), want[i]);
    }
    CHECK(wrong == 0);
    free(want);
}

/* ------------------------------------------------------------------- an operator, in all ways */

typedef void (*run_fn)(spsh__backend *b, const void *arguments);

/* Run the operator in all ways. All must leave the same arena. */
static void run_all_ways(spsh__backend *b, run_fn run, const void *arguments)
{
    static unsigned char start[DATA_BYTES];
    memcpy(start, device.arena, device.used_bytes);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        memcpy(device.arena, start, device.used_bytes);
        memset(device.arena + DATA_BYTES, 0xff, device.scratch_bytes);
        device.scratch_bytes = 0;
        device.way = ways[w];
        run(b, arguments);
        if (w == 0)
            memcpy(device.result, device.arena, device.used_bytes);
        CHECK(memcmp(device.result, device.arena, device.used_bytes) == 0);
    }
}

static spsh__backend backends[] = {
    {.precision = SPSH__BF16, .has_half = true},
    {.precision = SPSH__FP16, .has_half = true}
};

/* Call case_fn for both types of float16 memory. halves has a bit for each of the `arrays` arrays.
 */
static void each_kind(uint32_t arrays, void (*case_fn)(spsh__backend *b, uint32_t halves))
{
    for (size_t p = 0; p < 2; p++) {
        for (uint32_t halves = p == 0 ? 0 : 1; halves < 1U << arrays; halves++)
            case_fn(&backends[p], halves);
    }
}

/* ------------------------------------------------------------------------------- conversions */

/* Round to the nearest number with `bits` fraction bits and an exponent from least to most. */
static double rounded(double value, int bits, int least, int most)
{
    if (value == 0 || isnan(value) || isinf(value))
        return value;
    const int exponent = ilogb(value) < least ? least : ilogb(value);
    const double step = ldexp(1, exponent - bits);
    const double near = rint(value / step) * step;
    return fabs(near) >= ldexp(1, most + 1) ? copysign((double)INFINITY, value) : near;
}

static bool are_same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void check_rounding(float value, bool is_bf16)
{
    const double want =
        is_bf16 ? rounded((double)value, 7, -126, 127) : rounded((double)value, 10, -14, 15);
    const uint16_t bits = spsh__half_of_f32(value, is_bf16);
    if (!are_same((double)spsh__f32_of_half(bits, is_bf16), want)) {
        fprintf(stderr, "%a became %04x, want %a\n", (double)value, bits, want);
        CHECK(false);
    }
}

static double half_value(uint16_t bits, bool is_bf16)
{
    const int width = is_bf16 ? 7 : 10, bias = is_bf16 ? 127 : 15;
    const int exponent = bits >> width & (2 * bias + 1);
    const double fraction = ldexp(bits & ((1 << width) - 1), -width);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 2 * bias + 1)
        return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    return exponent == 0 ? sign * ldexp(fraction, 1 - bias)
                         : sign * ldexp(1 + fraction, exponent - bias);
}

static void test_halves_are_what_their_bits_say(void)
{
    for (uint32_t i = 0; i < 2 * 65536; i++) {
        const bool is_bf16 = i % 2 != 0;
        const uint16_t bits = (uint16_t)(i / 2);
        const float value = spsh__f32_of_half(bits, is_bf16);
        CHECK(are_same((double)value, half_value(bits, is_bf16)));
        CHECK(isnan((double)value) ? spsh__half_of_f32(value, is_bf16) == 0x7fff
                                   : spsh__half_of_f32(value, is_bf16) == bits);
    }
}

/* Check the midpoint of two neighbors, and the next float on each side of it. */
static void test_rounding_is_to_nearest_even(void)
{
    for (uint32_t i = 0; i < 2 * 65536; i++) {
        const bool is_bf16 = i % 2 != 0;
        const double low = half_value((uint16_t)(i / 2), is_bf16);
        double high = half_value((uint16_t)(i / 2 + 1), is_bf16);
        if (isnan(low) || isinf(low) || isnan(high))
            continue;
        if (isinf(high))
            high = copysign(ldexp(1, is_bf16 ? 128 : 16), low);
        const float middle = (float)((low + high) / 2);
        check_rounding(middle, is_bf16);
        check_rounding(nextafterf(middle, INFINITY), is_bf16);
        check_rounding(nextafterf(middle, -INFINITY), is_bf16);
    }
    for (uint32_t i = 0; i < 200000; i++) {
        const float value = spsh__f32_of_bits((uint32_t)test_random(&device.random));
        if (!isnan((double)value))
            check_rounding(value, i % 2 != 0);
    }
}

/* ---------------------------------------------------------------------------------- elements */

typedef struct elements {
    array x, dy, to;
    double factor;
} elements;

static const size_t sizes[] = {1, 2, 31, 257, 1024, 1030, 4100};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void run_clip_forward(spsh__backend *b, const void *arguments)
{
    const elements *e = arguments;
    spsh__cuda_clip_forward(b, e->factor, e->x.count, e->x.buffer, e->to.buffer);
}

static void run_clip_backward(spsh__backend *b, const void *arguments)
{
    const elements *e = arguments;
    spsh__cuda_clip_backward(b, e->factor, e->x.count, e->x.buffer, e->dy.buffer, e->to.buffer);
}

static void clip_case(spsh__backend *b, uint32_t halves)
{
    for (uint32_t i = 0; i < SIZES; i++) {
        const size_t count = sizes[i];
        const double limit = i % 3 == 0 ? 20 : i % 3 == 1 ? 0.7 : 0.1; /* float16 rounds it down */
        const double kept = !(halves & 1) ? (double)(float)limit
                            : b->precision == SPSH__BF16
                                ? rounded((double)(float)limit, 7, -126, 127)
                                : rounded((double)(float)limit, 10, -14, 15);
        arena_reset();
        elements e = {.factor = limit};
        e.x = array_random(b, count, halves & 1, i % 3, 2 * limit);
        e.dy = array_random(b, count, halves & 2, i % 2, 3);
        e.to = array_new(b, count, halves & 4, 0);
        const double specials[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, limit, 0,
                                   -0.0};
        for (size_t k = 0; k < 6 && k < count; k++)
            put(&e.x, k * 5 % count, specials[k]);
        double *want = values_of(&e.x), *want_dx = values_of(&e.dy);
        for (size_t k = 0; k < count; k++) {
            const double y = want[k];
            want[k] = isnan(y) ? y : fmin(fmax(y, 0), (double)(float)limit);
            want_dx[k] = y > 0 && y < kept ? want_dx[k] : 0;
        }
        run_all_ways(b, run_clip_forward, &e);
        check_values(&e.to, want, 0, "clip");
        run_all_ways(b, run_clip_backward, &e);
        check_values(&e.to, want_dx, 0, "clip's gradient");
    }
}

static void run_scale(spsh__backend *b, const void *arguments)
{
    const elements *e = arguments;
    spsh__cuda_scale(b, e->factor, e->to.buffer, e->to.count);
}

static void run_axpy(spsh__backend *b, const void *arguments)
{
    const elements *e = arguments;
    spsh__cuda_axpy(b, e->factor, e->x.buffer, e->to.buffer, e->to.count);
}

static void run_mix(spsh__backend *b, const void *arguments)
{
    const elements *e = arguments;
    spsh__cuda_mix(b, e->factor, e->x.buffer, e->dy.buffer, e->to.buffer, e->to.count);
}

static void run_convert(spsh__backend *b, const void *arguments)
{
    const elements *e = arguments;
    spsh__cuda_convert(b, e->to.buffer, e->x.buffer, e->to.count);
}

static void linear_case(spsh__backend *b, uint32_t halves)
{
    for (uint32_t i = 0; i < SIZES; i++) {
        const size_t count = sizes[i];
        arena_reset();
        elements e = {.factor = 0.75};
        e.x = array_random(b, count, halves & 1, i % 3, 2);
        e.to = array_random(b, count, halves & 2, (i + 1) % 2, 2);
        double *x = values_of(&e.x), *want = values_of(&e.to);
        for (size_t k = 0; k < count; k++)
            want[k] += 0.75 * x[k];
        run_all_ways(b, run_axpy, &e);
        check_values(&e.to, want, 1e-6, "axpy");

        e.dy = array_random(b, count, halves & 2, i % 2, 2);
        double *mine = values_of(&e.dy);
        want = values_of(&e.to);
        for (size_t k = 0; k < count; k++)
            want[k] += 0.75 * (x[k] - mine[k]);
        run_all_ways(b, run_mix, &e);
        check_values(&e.to, want, 1e-6, "mix");
        free(mine);

        e.dy = e.to;
        want = values_of(&e.to);
        for (size_t k = 0; k < count; k++)
            want[k] += 0.75 * (x[k] - want[k]);
        run_all_ways(b, run_mix, &e);
        check_values(&e.to, want, 1e-6, "mix in place");

        want = values_of(&e.to);
        for (size_t k = 0; k < count; k++)
            want[k] *= 0.75;
        run_all_ways(b, run_scale, &e);
        check_values(&e.to, want, 0, "scale");

        run_all_ways(b, run_convert, &e);
        check_values(&e.to, x, 0, "convert");
    }
}

static void run_add_rows(spsh__backend *b, const void *arguments)
{
    CHECK(spsh__cuda_add_rows(b, arguments, NULL) == SPSH_OK);
}

/* Sums of rows of halves: into floats, and into a row of the halves, as NCCL's sums use them. */
static void rows_case(spsh__backend *b, uint32_t halves)
{
    const uint32_t rows = 3;
    for (uint32_t i = 0; i < SIZES; i++) {
        const size_t count = sizes[i];
        arena_reset();
        array from = array_random(b, rows * count, halves & 1, i % 3, 2);
        const array to = array_new(b, count, halves & 2, i % 2);
        double *want = calloc(rows * count, sizeof(*want)), *x = values_of(&from);
        REQUIRE(want != NULL);
        for (size_t k = 0; k < count; k++) {
            float sum = (float)x[k]; /* in the order of rows */
            sum += (float)x[count + k];
            sum += (float)x[2 * count + k];
            want[k] = (double)sum;
        }
        spsh__add_rows a = {.stream = &device,
                            .half = b->precision,
                            .from = from.buffer,
                            .to = to.buffer,
                            .rows = rows,
                            .count = count};
        run_all_ways(b, run_add_rows, &a);
        for (size_t k = 0; k < count; k++)
            CHECK(!(halves & 2) ? get(&to, k) == want[k] : is_near(&to, k, want[k], 0));

        memcpy(x + count, want, count * sizeof(*x));
        a.to.data = (char *)from.buffer.data + count * (halves & 1 ? 2 : 4);
        a.to.is_half = from.buffer.is_half;
        run_all_ways(b, run_add_rows, &a);
        check_values(&from, x, 0, "sum of rows, in place");
        free(want);
    }
}

/* The type of 16 bits is the job's, not the backend's. */
static void test_rows_of_another_type(void)
{
    arena_reset();
    const array from = array_random(&backends[0], 300, false, 0, 2);
    const array to = array_new(&backends[1], 300, true, 0);
    const spsh__add_rows a = {.stream = &device,
                              .half = SPSH__FP16,
                              .from = from.buffer,
                              .to = to.buffer,
                              .rows = 1,
                              .count = 300};
    run_all_ways(&backends[0], run_add_rows, &a);
    check_values(&to, values_of(&from), 0, "float16 on a backend of bfloat16");
}

static void test_elements(void)
{
    each_kind(2, rows_case);
    each_kind(3, clip_case);
    each_kind(2, linear_case);
}

/* In place, as the model uses it. */
static void test_clip_is_in_place(void)
{
    spsh__backend *b = &backends[0];
    arena_reset();
    elements e = {.x = array_random(b, 1500, true, 0, 40), .factor = 20};
    e.to = e.x;
    double *want = values_of(&e.x);
    for (size_t k = 0; k < e.x.count; k++)
        want[k] = fmin(fmax(want[k], 0), 20);
    run_all_ways(b, run_clip_forward, &e);
    check_values(&e.to, want, 0, "clip in place");
}

/* ------------------------------------------------------------------------------------- lines */

typedef struct shape {
    uint32_t frames, batch, width; /* in a convolution, width is channels * bins */
    uint32_t channels;
} shape;

static const shape shapes[] = {
    {1,   1,  1,   1 },
    {7,   3,  5,   1 },
    {31,  2,  33,  3 },
    {12,  5,  128, 32},
    {65,  9,  36,  4 },
    {9,   16, 132, 2 },
    {5,   3,  131, 1 },
    {133, 2,  6,   2 }
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static uint32_t lengths[BATCH_MAX];

/* One utterance has all frames, and one is empty if there are more than two. */
static void draw_lengths(const shape *s)
{
    for (uint32_t n = 0; n < s->batch; n++)
        lengths[n] = (uint32_t)(test_random(&device.random) % (s->frames + 1));
    if (s->batch > 2)
        lengths[0] = 0;
    lengths[s->batch - 1] = s->frames;
}

static size_t elements_of(const shape *s)
{
    return (size_t)s->frames * s->batch * s->width;
}

static spsh__rows rows_of(const shape *s)
{
    return (spsh__rows){s->frames, s->batch, s->width};
}

static spsh__conv_shape conv_of(const shape *s)
{
    return (spsh__conv_shape){.batch = s->batch,
                              .out_channels = s->channels,
                              .out_bins = s->width / s->channels,
                              .out_frames = s->frames};
}

typedef struct lines {
    const shape *s;
    array from, to, also;
    spsh__columns columns;
    spsh__arrange arrange;
} lines;

static void run_bias_forward(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    spsh__cuda_bias_forward(b, (size_t)l->s->frames * l->s->batch, l->s->width, l->from.buffer,
                            l->to.buffer);
}

static void run_bias_backward(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    batch_size = l->s->batch; /* rows are grouped as if the batch was padded */
    spsh__cuda_bias_backward(b, (size_t)l->s->frames * l->s->batch, l->s->width, l->to.buffer,
                             l->from.buffer);
}

/* As in a recurrent layer: two biases, the second without the last columns. */
static void run_two_sums(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    batch_size = 0; /* there is no batch */
    const spsh__cuda_sums sums = {.rows = (size_t)l->s->frames * l->s->batch,
                                  .width = l->s->width,
                                  .also_width = l->s->width - l->s->width / 3,
                                  .x = l->to.buffer,
                                  .to = l->from.buffer,
                                  .also = l->also.buffer};
    spsh__cuda_add_sums(b, &sums);
}

static void check_two_sums(spsh__backend *b, lines *l)
{
    const size_t width = l->s->width;
    l->also = array_random(b, width, false, 1, 2);
    double *sums = values_of(&l->from), *also = values_of(&l->also);
    for (size_t i = 0; i < l->to.count; i++) {
        sums[i % width] += get(&l->to, i);
        if (i % width < width - width / 3)
            also[i % width] += get(&l->to, i);
    }
    run_all_ways(b, run_two_sums, l);
    check_values(&l->from, sums, 1e-5, "sums of columns");
    check_values(&l->also, also, 1e-5, "sums of the first columns");
}

static void bias_case(spsh__backend *b, uint32_t halves)
{
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        arena_reset();
        const size_t count = elements_of(s), width = s->width;
        REQUIRE(width > 0);
        const uint32_t skip = width % 3 == 0 ? 1 : 0;
        lines l = {.s = s};
        l.from = array_random(b, width, halves & 2, 0, 2);
        l.to = array_random(b, count, halves & 1, skip, 2);
        double *sums = values_of(&l.from), *biases = values_of(&l.from);
        double *want = values_of(&l.to);
        for (size_t i = 0; i < count; i++)
            sums[i % width] += want[i];
        for (size_t i = 0; i < count; i++)
            want[i] += get(&l.from, i % width);
        if (!(halves & 2)) {
            check_two_sums(b, &l);
            for (size_t i = 0; i < width; i++)
                sums[i] += get(&l.from, i) - biases[i];
            run_all_ways(b, run_bias_backward, &l);
            for (size_t i = 0; i < width; i++)
                CHECK(is_near(&l.from, i, sums[i], 1e-5));
            for (size_t i = 0; i < count; i++)
                want[i] += get(&l.from, i % width) - biases[i % width];
        }
        run_all_ways(b, run_bias_forward, &l);
        check_values(&l.to, want, 1e-5, "bias");
        free(sums);
        free(biases);
    }
}

static void run_copy_columns(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    spsh__cuda_copy_columns(b, &l->columns);
}

/* Copy the right half out of a matrix of two halves, then back into the left half. The other half
 * must not change. */
static void columns_case(spsh__backend *b, uint32_t halves)
{
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        arena_reset();
        const size_t rows = (size_t)s->frames * s->batch, width = s->width;
        lines l = {.s = s};
        l.from = array_random(b, rows * width * 2, halves & 1, 0, 2);
        l.to = array_random(b, rows * width, halves & 2, 0, 2);
        const size_t element_bytes = halves & 1 ? 2 : 4;
        spsh__backend_buffer right = {(char *)l.from.buffer.data + width * element_bytes,
                                      halves & 1};
        l.columns = (spsh__columns){rows, s->width, right, l.to.buffer, 2 * width, width};
        double *want = values_of(&l.to), *both = values_of(&l.from);
        for (size_t i = 0; i < rows * width; i++)
            want[i] = both[i / width * 2 * width + width + i % width];
        run_all_ways(b, run_copy_columns, &l);
        check_values(&l.to, want, 0, "columns out");
        l.columns = (spsh__columns){rows, s->width, l.to.buffer, l.from.buffer, width, 2 * width};
        for (size_t i = 0; i < rows * width; i++)
            both[i / width * 2 * width + i % width] = get(&l.to, i);
        run_all_ways(b, run_copy_columns, &l);
        check_values(&l.from, both, 0, "columns back");
    }
}

static void run_mask_rows(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    const spsh__rows rows = rows_of(l->s);
    spsh__cuda_mask_rows(b, &rows, lengths, l->to.buffer);
}

static void run_reverse(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    const spsh__rows rows = rows_of(l->s);
    spsh__cuda_reverse(b, &rows, lengths, l->from.buffer, l->to.buffer);
}

static void lengths_case(spsh__backend *b, uint32_t halves)
{
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        arena_reset();
        draw_lengths(s);
        const size_t count = elements_of(s);
        lines l = {.s = s};
        l.from = array_random(b, count, halves & 1, 0, 2);
        l.to = array_new(b, count, halves & 2, s->width == 36 ? 2 : 0);
        double *want = values_of(&l.from);
        for (size_t i = 0; i < count; i++) {
            const size_t n = i / s->width % s->batch, t = i / s->width / s->batch;
            const size_t other = t < lengths[n] ? lengths[n] - 1 - t : t;
            want[i] = get(&l.from, (other * s->batch + n) * s->width + i % s->width);
        }
        run_all_ways(b, run_reverse, &l);
        check_values(&l.to, want, 0, "reverse");

        want = values_of(&l.to);
        for (size_t i = 0; i < count; i++)
            want[i] = i / s->width / s->batch < lengths[i / s->width % s->batch] ? want[i] : 0;
        run_all_ways(b, run_mask_rows, &l);
        check_values(&l.to, want, 0, "mask of rows");
    }
}

static void run_rows_from_conv(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    const spsh__conv_shape conv = conv_of(l->s);
    spsh__cuda_rows_from_conv(b, &conv, l->from.buffer, l->to.buffer);
}

static void run_conv_from_rows(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    const spsh__conv_shape conv = conv_of(l->s);
    spsh__cuda_conv_from_rows(b, &conv, l->from.buffer, l->to.buffer);
}

static void turn_case(spsh__backend *b, uint32_t halves)
{
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        arena_reset();
        const size_t count = elements_of(s);
        lines l = {.s = s};
        l.from = array_random(b, count, halves & 1, 0, 2);
        l.to = array_new(b, count, halves & 2, 0);
        double *to_rows = values_of(&l.from), *to_conv = values_of(&l.from);
        for (size_t t = 0; t < s->frames; t++) {
            for (size_t i = 0; i < (size_t)s->batch * s->width; i++) {
                const size_t n = i / s->width, p = i % s->width;
                const size_t row = (t * s->batch + n) * s->width + p;
                const size_t conv = (n * s->width + p) * s->frames + t;
                to_rows[row] = get(&l.from, conv);
                to_conv[conv] = get(&l.from, row);
            }
        }
        run_all_ways(b, run_rows_from_conv, &l);
        check_values(&l.to, to_rows, 0, "rows from a convolution");
        run_all_ways(b, run_conv_from_rows, &l);
        check_values(&l.to, to_conv, 0, "a convolution from rows");
    }
}

static void run_arrange(spsh__backend *b, const void *arguments)
{
    const lines *l = arguments;
    device.events = 0;
    spsh__cuda_arrange(b, &l->arrange);
    CHECK_U64(device.events, l->arrange.ready != NULL ? 12 : 2);
}

/* Features have fewer frames than the input, and NaNs in the padding. */
static void arrange_case(spsh__backend *b, uint32_t halves)
{
    static uint32_t ready = 1, done = 2;
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        const uint32_t frames = s->frames + s->width % 7;
        for (uint32_t is_conv = 0; is_conv < 2; is_conv++) {
            arena_reset();
            draw_lengths(s);
            lines l = {.s = s, .from = array_new(b, elements_of(s), false, 0)};
            l.to = array_new(b, (size_t)frames * s->batch * s->width, halves & 1, 0);
            double *want = calloc(l.to.count, sizeof(*want));
            REQUIRE(want != NULL);
            for (size_t i = 0; i < l.from.count; i++) {
                const size_t w = i % s->width, t = i / s->width % s->frames;
                const size_t n = i / s->width / s->frames;
                if (t >= lengths[n])
                    continue;
                put(&l.from, i, random_number(3));
                want[is_conv != 0 ? (n * s->width + w) * frames + t
                                  : (t * s->batch + n) * s->width + w] = get(&l.from, i);
            }
            l.arrange = (spsh__arrange){.batch = s->batch,
                                        .feature_batch = s->batch,
                                        .frames = frames,
                                        .width = s->width,
                                        .is_conv = is_conv != 0,
                                        .features = l.from.buffer.data,
                                        .feature_frames = s->frames,
                                        .lengths = lengths,
                                        .to = l.to.buffer,
                                        .ready = s->width == 1 ? NULL : &ready,
                                        .done = &done};
            run_all_ways(b, run_arrange, &l);
            check_values(&l.to, want, 0, is_conv != 0 ? "features to conv" : "features to rows");
        }
    }
}

static void test_lines(void)
{
    each_kind(2, bias_case);
    each_kind(2, columns_case);
    each_kind(2, lengths_case);
    each_kind(2, turn_case);
    each_kind(1, arrange_case);
}

/* -------------------------------------------------------------------------------- look-ahead */

typedef struct ahead {
    spsh__lookahead l;
    array x, dy, to, dweight;
} ahead;

static void run_lookahead(spsh__backend *b, const void *arguments)
{
    const ahead *a = arguments;
    spsh__cuda_lookahead_forward(b, &a->l, a->x.buffer, a->to.buffer);
}

static void run_lookahead_back(spsh__backend *b, const void *arguments)
{
    const ahead *a = arguments;
    const spsh__lookahead_grad g = {a->x.buffer, a->dy.buffer, a->to.buffer, a->dweight.buffer};
    spsh__cuda_lookahead_backward(b, &a->l, &g);
}

static void lookahead_case_of(spsh__backend *b, uint32_t halves, const shape *s, uint32_t context)
{
    const size_t count = elements_of(s), row = (size_t)s->batch * s->width;
    arena_reset();
    ahead a = {.x = array_random(b, count, halves & 1, 0, 1)};
    a.dy = array_random(b, count, halves & 1, 0, 1);
    a.to = array_new(b, count, halves & 1, 0);
    a.dweight = array_random(b, (size_t)s->width * context, false, 0, 1);
    const array weight = array_random(b, (size_t)s->width * context, false, 0, 1);
    a.l = (spsh__lookahead){s->frames, s->batch, s->width, context, weight.buffer};
    double *y = calloc(count, sizeof(*y)), *dx = calloc(count, sizeof(*dx));
    double *dweight = values_of(&a.dweight);
    REQUIRE(y != NULL && dx != NULL);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < context && i / row + j < s->frames; j++) {
            const size_t w = i % s->width * context + j;
            y[i] += get(&weight, w) * get(&a.x, i + j * row);
            dx[i + j * row] += get(&weight, w) * get(&a.dy, i);
            dweight[w] += get(&a.dy, i) * get(&a.x, i + j * row);
        }
    }
    run_all_ways(b, run_lookahead, &a);
    check_values(&a.to, y, 1e-5, "look-ahead");
    run_all_ways(b, run_lookahead_back, &a);
    check_values(&a.to, dx, 1e-5, "look-ahead's dx");
    check_values(&a.dweight, dweight, 1e-4, "look-ahead's dweight");
}

static void lookahead_case(spsh__backend *b, uint32_t halves)
{
    const uint32_t contexts[] = {1, 3, 20, 77};
    for (const shape *s = shapes; s < shapes + SHAPES; s++) {
        for (size_t c = 0; c < (has_fewer ? 3 : 4); c++) {
            if (s->width < 100 || c == 2)
                lookahead_case_of(b, halves, s, contexts[c]);
        }
    }
    const shape is_long = {200, 3, 5, 1}; /* several parts */
    lookahead_case_of(b, halves, &is_long, 20);
}

static void test_lookahead(void)
{
    each_kind(1, lookahead_case);
}

/* -------------------------------------------------------------------------------------- norms */

typedef struct norm {
    spsh__norm_shape s;
    const uint32_t *lengths;
    bool is_training;
    double slack; /* tolerance for a mean far from 0 in float */
    array x, y, dy, dx, weight, bias, running[2], batch[2], dweight, dbias;
    array conv_bias, dconv_bias; /* only of convolutions */
} norm;

static spsh__norm_state state_of(const norm *m)
{
    return (spsh__norm_state){.weight = m->weight.buffer,
                              .bias = m->bias.buffer,
                              .running_mean = m->running[0].buffer,
                              .running_variance = m->running[1].buffer,
                              .batch_mean = m->batch[0].buffer,
                              .batch_scale = m->batch[1].buffer,
                              .conv_bias = m->conv_bias.buffer};
}

static void run_norm(spsh__backend *b, const void *arguments)
{
    const norm *m = arguments;
    const spsh__norm_state state = state_of(m);
    const spsh__norm_io io = {m->x.buffer, m->y.buffer};
    spsh__cuda_norm_forward(b, &m->s, m->lengths, m->is_training, &state, &io);
}

static void run_norm_back(spsh__backend *b, const void *arguments)
{
    const norm *m = arguments;
    const spsh__norm_state state = state_of(m);
    const spsh__norm_grad g = {.x = m->x.buffer,
                               .dy = m->dy.buffer,
                               .dx = m->dx.buffer,
                               .dweight = m->dweight.buffer,
                               .dbias = m->dbias.buffer,
                               .dconv_bias = m->dconv_bias.buffer};
    spsh__cuda_norm_backward(b, &m->s, m->lengths, &state, &g);
}

typedef struct place { /* where an element is */
    uint32_t channel;
    bool counts, is_masked; /* masked: y and dx are 0 */
} place;

static place place_of(const norm *m, size_t i)
{
    const size_t channels = m->s.channels;
    const size_t plane = (size_t)m->s.bins * m->s.frames;
    REQUIRE(channels > 0 && plane > 0 && m->s.batch > 0);
    const size_t t = m->s.is_conv ? i % m->s.frames : i / channels / m->s.batch;
    const size_t n = m->s.is_conv ? i / plane / channels : i / channels % m->s.batch;
    const bool is_padding = m->lengths != NULL && t >= m->lengths[n];
    return (place){.channel = (uint32_t)(m->s.is_conv ? i / plane % channels : i % channels),
                   .counts = m->s.counts_padding || !is_padding,
                   .is_masked = is_padding && (m->s.is_conv || !m->s.counts_padding)};
}

/* x with the convolution's bias, and with the mask. */
static double input_of(const norm *m, size_t i)
{
    const place p = place_of(m, i);
    if (p.is_masked)
        return 0;
    return get(&m->x, i) + (m->s.is_conv ? get(&m->conv_bias, p.channel) : 0);
}

typedef struct channel {
    double count, mean, variance, dy, dy_xhat;
} channel;

static void channels_of(const norm *m, channel *channels)
{
    memset(channels, 0, m->s.channels * sizeof(*channels));
    for (size_t i = 0; i < m->x.count; i++) {
        const place p = place_of(m, i);
        channels[p.channel].count += p.counts;
        channels[p.channel].mean += p.counts ? input_of(m, i) : 0;
    }
    for (size_t k = 0; k < m->s.channels; k++)
        channels[k].mean /= channels[k].count > 0 ? channels[k].count : 1;
    for (size_t i = 0; i < m->x.count; i++) {
        const place p = place_of(m, i);
        channel *c = &channels[p.channel];
        const double d = input_of(m, i) - c->mean;
        c->variance += p.counts ? d * d / c->count : 0;
    }
}

/* y before the clip. */
static double output_of(const norm *m, size_t i, double mean, double variance)
{
    const uint32_t k = place_of(m, i).channel;
    return (input_of(m, i) - mean) / sqrt(variance + 1e-5) * get(&m->weight, k) + get(&m->bias, k);
}

/* dy before the clip, from dy. */
static double unclipped(const norm *m, size_t i, const channel *c, double dy)
{
    const double y = output_of(m, i, c->mean, c->variance);
    return m->s.clip > 0 && (y <= 0 || y >= m->s.clip) ? 0 : dy;
}

/* If y is close to a limit of the clip, rounding decides whether it is clipped. Its dy is set to 0.
 */
static void gradients_of(const norm *m, channel *channels)
{
    for (size_t i = 0; i < m->x.count; i++) {
        const place p = place_of(m, i);
        channel *c = &channels[p.channel];
        if (p.is_masked)
            continue;
        const double y = output_of(m, i, c->mean, c->variance);
        if (m->s.clip > 0 && (fabs(y) < 1e-4 || fabs(y - m->s.clip) < 1e-4))
            put(&m->dy, i, 0);
        const double dy = unclipped(m, i, c, get(&m->dy, i));
        c->dy += dy;
        c->dy_xhat += dy * (input_of(m, i) - c->mean);
    }
}

static void check_forward(const norm *m, const channel *channels, const double *running)
{
    const size_t count = m->s.channels;
    double *want = values_of(&m->x);
    for (size_t i = 0; i < m->x.count; i++) {
        const place p = place_of(m, i);
        const double mean = m->is_training ? channels[p.channel].mean : running[p.channel];
        const double variance =
            m->is_training ? channels[p.channel].variance : running[count + p.channel];
        want[i] = p.is_masked ? 0 : output_of(m, i, mean, variance);
        want[i] = m->s.clip > 0 ? fmin(fmax(want[i], 0), m->s.clip) : want[i];
    }
    check_values(&m->y, want, 2e-5 + m->slack, "norm");
    for (uint32_t k = 0; k < count && m->is_training; k++) {
        const channel *c = &channels[k];
        const double unbiased = c->variance * (c->count > 1 ? c->count / (c->count - 1) : 1);
        const double rate = c->count > 0 ? 0.1 : 0;
        const double bias = m->s.is_conv && c->count > 0 ? get(&m->conv_bias, k) : 0;
        CHECK(is_near(&m->batch[0], k, c->mean - bias, 1e-6));
        CHECK(is_near(&m->batch[1], k, 1 / sqrt(c->variance + 1e-5), 1e-5));
        CHECK(is_near(&m->running[0], k, running[k] + rate * (c->mean - running[k]), 1e-6));
        CHECK(is_near(&m->running[1], k,
                      running[count + k] + rate * (unbiased - running[count + k]), 1e-5));
    }
}

static void check_sums(const norm *m, const channel *channels, const double *conv_bias)
{
    for (uint32_t k = 0; k < m->s.channels; k++) {
        const channel *c = &channels[k];
        CHECK(is_near(&m->dbias, k, 1 + c->dy, 2e-5));
        CHECK(is_near(&m->dweight, k, 1 + c->dy_xhat / sqrt(c->variance + 1e-5),
                      1e-4 + 100 * m->slack));
        CHECK(!m->s.is_conv || is_near(&m->dconv_bias, k, 1 + conv_bias[k], 1e-4 + 100 * m->slack));
    }
}

static void check_backward(const norm *m, const channel *channels, const double *old)
{
    double *want = values_of(&m->x), *conv_bias = calloc(m->s.channels, sizeof(*conv_bias));
    REQUIRE(conv_bias != NULL);
    for (size_t i = 0; i < m->x.count; i++) {
        const place p = place_of(m, i);
        const channel *c = &channels[p.channel];
        const double scale = 1 / sqrt(c->variance + 1e-5);
        const double xhat = (input_of(m, i) - c->mean) * scale;
        want[i] = p.is_masked ? 0
                              : get(&m->weight, p.channel) * scale *
                                    (unclipped(m, i, c, old[i]) - c->dy / c->count -
                                     xhat * c->dy_xhat * scale / c->count);
        conv_bias[p.channel] += want[i];
    }
    check_values(&m->dx, want, 2e-5 + m->slack, "norm's dx");
    check_sums(m, channels, conv_bias);
    free(conv_bias);
}

static array filled(spsh__backend *b, size_t count, double value)
{
    const array a = array_new(b, count, false, 0);
    for (size_t i = 0; i < count; i++)
        put(&a, i, value);
    return a;
}

/* halves: bits for x, y, and dx, dy. Padding that is not read is NaN. */
static norm norm_of(spsh__backend *b, uint32_t halves, const spsh__norm_shape *s, double mean)
{
    const size_t count = (size_t)s->batch * s->channels * s->frames * (s->is_conv ? s->bins : 1);
    norm m = {.s = *s, .lengths = lengths, .is_training = true, .slack = mean * 1e-6};
    arena_reset();
    m.x = array_random(b, count, halves & 1, 0, 1);
    m.y = array_new(b, count, halves & 2, 0);
    m.dy = array_random(b, count, halves & 4, 0, 1);
    m.dx = array_new(b, count, halves & 2, 0);
    for (size_t i = 0; i < count; i++) {
        const bool is_masked = place_of(&m, i).is_masked;
        put(&m.x, i, is_masked ? (double)NAN : get(&m.x, i) + mean);
        put(&m.dy, i, is_masked ? (double)NAN : get(&m.dy, i));
    }
    if (s->is_conv) {
        m.conv_bias = array_random(b, s->channels, false, 0, 2);
        m.dconv_bias = filled(b, s->channels, 1);
    }
    m.weight = array_random(b, s->channels, false, 0, 2);
    m.bias = array_random(b, s->channels, false, 0, 2);
    m.running[0] = array_random(b, s->channels, false, 0, 1);
    m.running[1] = filled(b, s->channels, 0.7);
    m.batch[0] = array_new(b, s->channels, false, 0);
    m.batch[1] = array_new(b, s->channels, false, 0);
    m.dweight = filled(b, s->channels, 1);
    m.dbias = filled(b, s->channels, 1);
    return m;
}

static void norm_case_of(spsh__backend *b, uint32_t halves, const spsh__norm_shape *s, double mean)
{
    norm m = norm_of(b, halves, s, mean);
    channel *channels = calloc(s->channels, sizeof(*channels));
    double *running = calloc(2 * (size_t)s->channels, sizeof(*running));
    REQUIRE(channels != NULL && running != NULL);
    for (uint32_t k = 0; k < 2 * s->channels; k++)
        running[k] = get(&m.running[k / s->channels], k % s->channels);
    channels_of(&m, channels);
    run_all_ways(b, run_norm, &m);
    check_forward(&m, channels, running);

    gradients_of(&m, channels);
    double *dy = values_of(&m.dy);
    if (((halves & 2) != 0) == ((halves & 4) != 0))
        m.dx = m.dy;
    run_all_ways(b, run_norm_back, &m);
    check_backward(&m, channels, dy);

    m.is_training = false;
    for (uint32_t k = 0; k < 2 * s->channels; k++)
        running[k] = get(&m.running[k / s->channels], k % s->channels);
    run_all_ways(b, run_norm, &m);
    check_forward(&m, channels, running);
    free(channels);
    free(running);
    free(dy);
}

static void norm_case(spsh__backend *b, uint32_t halves)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const shape *s = &shapes[i];
        draw_lengths(s);
        spsh__norm_shape rows = {false, s->batch, s->width, 1, s->frames, i == 1, 0};
        norm_case_of(b, halves, &rows, 0);
        spsh__norm_shape conv = {
            true,      s->batch,   s->channels,          s->width / s->channels,
            s->frames, i % 2 == 1, i % 3 == 2 ? 0 : 0.75};
        norm_case_of(b, halves, &conv, 0);
    }
    if (halves != 0 && halves != 7)
        return;
    /* Parts of bins, of rows; a mean far from 0. */
    const shape is_wide = {640, 2, 36, 1};
    draw_lengths(&is_wide);
    spsh__norm_shape large = {true, 2, 1, 36, 640, true, 0};
    norm_case_of(b, halves, &large, halves == 0 ? 300 : 2);
    large = (spsh__norm_shape){false, 2, 36, 1, 640, false, 0};
    norm_case_of(b, halves, &large, halves == 0 ? 300 : 2);
}

static void test_norms(void)
{
    each_kind(has_fewer ? 1 : 3, norm_case);
}

/* The bias, the masks, and the clip of a convolution need no launches. */
static void test_norms_are_three_launches(void)
{
    spsh__backend *b = &backends[0];
    const spsh__norm_shape s = {true, 2, 5, 3, 9, true, 0.75};
    lengths[0] = 9;
    lengths[1] = 4;
    const norm m = norm_of(b, 7, &s, 0);
    device.way = ways[0];
    device.scratch_bytes = 0;
    device.launches = 0;
    run_norm(b, &m);
    CHECK_U64(device.launches, 3);
    run_norm_back(b, &m);
    CHECK_U64(device.launches, 6);
}

/* If all is padding, mean and variance are 0, and the running values stay. They also stay if values
 * are not finite. */
static void test_norms_leave_nothing_behind(void)
{
    spsh__backend *b = &backends[0];
    for (uint32_t i = 0; i < 4; i++) {
        const bool is_conv = i % 2 != 0;
        spsh__norm_shape s = {is_conv, 2, 5, is_conv ? 3 : 1, 9, false, 0};
        lengths[0] = i < 2 ? 0 : 9;
        lengths[1] = i < 2 ? 0 : 4;
        norm m = norm_of(b, 0, &s, 0);
        if (i >= 2) {
            for (size_t k = 0; k < 5; k++)
                put(&m.x, is_conv ? k * 3 * 9 + 7 : 2 * 5 * 2 + k,
                    k % 2 == 0 ? (double)INFINITY : (double)NAN);
        }
        double *mean = values_of(&m.running[0]), *variance = values_of(&m.running[1]);
        run_all_ways(b, run_norm, &m);
        check_values(&m.running[0], mean, 0, "the running mean");
        check_values(&m.running[1], variance, 0, "the running variance");
        for (size_t k = 0; k < 5; k++) {
            CHECK(i >= 2 || get(&m.batch[0], k) == 0);
            CHECK(i >= 2 ? !isfinite(get(&m.batch[0], k)) : get(&m.y, k) == 0);
        }
        run_all_ways(b, run_norm_back, &m);
        CHECK(i >= 2 || (get(&m.dx, 0) == 0 && get(&m.dweight, 0) == 1));
    }
}

/* ------------------------------------------------------------------------------------ updates */

static double last_sum;

static void run_square_sum(spsh__backend *b, const void *arguments)
{
    const array *x = arguments;
    last_sum = spsh__cuda_square_sum(b, x->buffer, x->count);
}

static void square_case(spsh__backend *b, uint32_t halves)
{
    const size_t many[] = {1, 3, 1027, 8192, 70001};
    for (uint32_t i = 0; i < 5; i++) {
        arena_reset();
        const array x = array_random(b, many[i], halves & 1, i % 2, 3);
        double want = 0, first = 0;
        if (!(halves & 1) && i == 2)
            put(&x, 5, 1e30); /* its square exceeds float */
        for (size_t k = 0; k < x.count; k++)
            want += get(&x, k) * get(&x, k);
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
            device.way = ways[w];
            device.scratch_bytes = 0;
            run_square_sum(b, &x);
            first = w == 0 ? last_sum : first;
            CHECK(first == last_sum);
        }
        CHECK(fabs(last_sum - want) <= 1e-13 * want);
    }
    CHECK(spsh__cuda_square_sum(b, (spsh__backend_buffer){NULL, false}, 0) == 0);
}

/* A decision declares its memory, and has the sum of squares and the scale of the host. */
static void test_decisions(void)
{
    static const spsh__step_rule rules[] = {
        {4, 0  },
        {4, 0.5},
        {0, 0  }
    };
    spsh__backend *b = &backends[0];
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        arena_reset();
        const array x = array_random(b, 70001, false, 0, 3);
        const array decision = array_new(b, SPSH__DECISION_ELEMENTS, false, 0);
        double sum = -1;
        spsh__cuda_decide(b, &(spsh__decide){x.buffer, x.count, rules[i], decision.buffer, &sum});
        device.scratch_bytes = 0;
        CHECK(sum == spsh__cuda_square_sum(b, x.buffer, x.count));
        const spsh__step_scale step = spsh__step_rule_apply(&rules[i], sum);
        CHECK((float)get(&decision, 0) == (float)step.scale);
        CHECK(get(&decision, 1) == (step.is_finite ? 1 : 0) && step.is_finite == (i < 2));
    }
}

typedef struct update {
    spsh__update u;
    spsh__sgd sgd;
    spsh__adamw adamw;
    bool is_adamw;
} update;

static void run_update(spsh__backend *b, const void *arguments)
{
    const update *u = arguments;
    if (u->is_adamw)
        spsh__cuda_adamw(b, &u->adamw, &u->u);
    else
        spsh__cuda_sgd(b, &u->sgd, &u->u);
}

static void want_sgd(const update *u, size_t count, double *w, const double *g, double *m)
{
    for (size_t i = 0; i < count; i++) {
        double step = g[i] * u->u.gradient_scale + (u->u.decays ? u->sgd.weight_decay * w[i] : 0);
        if (u->sgd.momentum > 0) {
            m[i] = u->sgd.momentum * m[i] + step;
            step = u->sgd.is_nesterov ? step + u->sgd.momentum * m[i] : m[i];
        }
        w[i] -= u->sgd.rate * step;
    }
}

static void want_adamw(const update *u, size_t count, double *w, const double *g,
                       double *const m[2])
{
    const spsh__adamw *o = &u->adamw;
    for (size_t i = 0; i < count; i++) {
        const double step = g[i] * u->u.gradient_scale;
        if (u->u.decays)
            w[i] -= o->rate * o->weight_decay * w[i];
        m[0][i] = o->beta1 * m[0][i] + (1 - o->beta1) * step;
        m[1][i] = o->beta2 * m[1][i] + (1 - o->beta2) * step * step;
        w[i] -= o->rate * (m[0][i] / (1 - pow(o->beta1, (double)o->step))) /
                (sqrt(m[1][i] / (1 - pow(o->beta2, (double)o->step))) + o->epsilon);
    }
}

static void update_case(size_t count, uint32_t skip, uint32_t number)
{
    spsh__backend *b = &backends[0];
    arena_reset();
    const array w = array_random(b, count, false, skip, 1);
    const array g = array_random(b, count, false, skip, 1);
    const array m0 = array_random(b, count, false, skip, 1);
    const array m1 = array_random(b, count, false, skip, 1);
    update u = {
        .is_adamw = number % 2 != 0,
        .sgd = {0.1,   number % 4 == 0 ? 0 : 0.9, 0.01, number > 3},
        .adamw = { 0.01, 0.9,                      0.99, 1e-8,     0.02, number}
    };
    u.u = (spsh__update){
        .weights = w.buffer,
        .gradients = g.buffer,
        .moments = {m0.buffer, m1.buffer},
        .count = count,
        .decays = number > 2,
        .gradient_scale = 0.5
    };
    for (size_t i = 0; i < count; i++)
        put(&m1, i, fabs(get(&m1, i)));
    double *want[4] = {values_of(&w), values_of(&g), values_of(&m0), values_of(&m1)};
    if (u.is_adamw)
        want_adamw(&u, count, want[0], want[1], &want[2]);
    else
        want_sgd(&u, count, want[0], want[1], want[2]);
    run_all_ways(b, run_update, &u);
    check_values(&w, want[0], 1e-6, "weights");
    check_values(&g, want[1], 0, "gradients");
    check_values(&m0, want[2], 1e-6, "the first moment");
    check_values(&m1, want[3], 1e-6, "the second moment");
}

static void test_updates(void)
{
    each_kind(1, square_case);
    for (uint32_t i = 0; i < SIZES; i++) {
        for (uint32_t number = 1; number < 9; number++)
            update_case(sizes[i], i % 2, number);
    }
}

/* No kernel is launched if there is no work. */
static void test_zeros_are_no_work(void)
{
    spsh__backend *b = &backends[0];
    const spsh__rows rows = {0, 2, 3};
    const spsh__conv_shape conv = {.batch = 2, .out_channels = 2, .out_bins = 0, .out_frames = 4};
    const spsh__backend_buffer none = {NULL, false};
    const spsh__update u = {.weights = none};
    const spsh__sgd sgd = {0};
    const spsh__adamw adamw = {.step = 1};
    const spsh__lookahead none_ahead = {0, 1, 1, 1, none};
    const spsh__lookahead_grad g = {none, none, none, none};
    device.launches = 0;
    spsh__cuda_bias_forward(b, 0, 4, none, none);
    spsh__cuda_bias_backward(b, 0, 4, none, none);
    spsh__cuda_copy_columns(b, &(spsh__columns){.rows = 0, .width = 3});
    spsh__cuda_clip_forward(b, 1, 0, none, none);
    spsh__cuda_clip_backward(b, 1, 0, none, none, none);
    spsh__cuda_mask_rows(b, &rows, lengths, none);
    spsh__cuda_rows_from_conv(b, &conv, none, none);
    spsh__cuda_conv_from_rows(b, &conv, none, none);
    spsh__cuda_reverse(b, &rows, lengths, none, none);
    spsh__cuda_lookahead_forward(b, &none_ahead, none, none);
    spsh__cuda_lookahead_backward(b, &none_ahead, &g);
    spsh__cuda_sgd(b, &sgd, &u);
    spsh__cuda_adamw(b, &adamw, &u);
    CHECK_U64(device.launches, 0);
}

TEST_MAIN(unit_train_kernels)
{
    has_fewer = test_wants_fewer(argc, argv);
    device.random = test_seed(20261122);
    RUN(test_halves_are_what_their_bits_say);
    RUN(test_rounding_is_to_nearest_even);
    RUN(test_elements);
    RUN(test_rows_of_another_type);
    RUN(test_clip_is_in_place);
    RUN(test_lines);
    RUN(test_lookahead);
    RUN(test_norms);
    RUN(test_norms_are_three_launches);
    RUN(test_norms_leave_nothing_behind);
    RUN(test_updates);
    RUN(test_decisions);
    RUN(test_zeros_are_no_work);
    return TEST_RESULT();
}
