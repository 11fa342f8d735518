/* fft_plan.c: see fft_plan.h. Tables are made in double and rounded once; the quarters of the
 * circle are exact. */
#include "fft_plan.h"

#include <math.h>

#include "speechshard/featgen.h"
#include "speechshard/inside.h"

#define PI 3.14159265358979323846

/* The cosine and sine of numerator / denominator of a turn. */
static void turn(uint64_t numerator, uint64_t denominator, double *cosine, double *sine)
{
    const uint64_t fourfold = 4 * (numerator % denominator);
    const uint64_t rest = fourfold % denominator;
    const double angle = PI / 2 * (double)rest / (double)denominator;
    const double c = cos(angle);
    const double s = sin(angle);
    switch (fourfold / denominator) {
    case 0: *cosine = c, *sine = s; break;
    case 1: *cosine = -s, *sine = c; break;
    case 2: *cosine = -c, *sine = -s; break;
    default: *cosine = s, *sine = -c; break;
    }
}

/* Radix 4 first: few operations, and the turns of the long passes count most. */
static uint32_t next_radix(uint32_t points)
{
    if (points % 4 == 0)
        return 4;
    for (uint32_t radix = 2; radix * radix <= points; radix++)
        if (points % radix == 0)
            return radix;
    return points;
}

/* Fill in the factors. Return the number of floats in their tables. */
static size_t factorise(spsh__fft_plan *plan)
{
    size_t float_count = 0;
    uint32_t length = plan->point_count;
    while (length > 1) {
        spsh__fft_pass *pass = &plan->passes[plan->pass_count++];
        *pass = (spsh__fft_pass){.radix = next_radix(length), .length = length};
        pass->step = length / pass->radix;
        float_count += (size_t)2 * (pass->step - 1) * (pass->radix - 1);
        if (pass->radix > 5) {
            float_count += (size_t)2 * pass->radix;
            if (plan->prime_max < pass->radix)
                plan->prime_max = pass->radix;
        }
        length = pass->step;
    }
    return float_count;
}

static float *fill_pass(spsh__fft_pass *pass, float *next)
{
    double cosine = 0;
    double sine = 0;
    pass->twiddles = next;
    for (uint32_t j = 1; j < pass->step; j++) {
        for (uint32_t t = 1; t < pass->radix; t++) {
            turn((uint64_t)j * t, pass->length, &cosine, &sine);
            *next++ = (float)cosine;
            *next++ = (float)-sine;
        }
    }
    if (pass->radix <= 5)
        return next;
    pass->circle = next;
    for (uint32_t i = 0; i < pass->radix; i++) {
        turn(i, pass->radix, &cosine, &sine);
        *next++ = (float)cosine;
        *next++ = (float)sine;
    }
    return next;
}

/* Result k = t1 + radix1 * (t2 + radix2 * ...) is stored at t1 * step1 + t2 * step2 + ... */
static uint32_t place_of(const spsh__fft_plan *plan, uint32_t k)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < plan->pass_count; i++) {
        place += k % plan->passes[i].radix * plan->passes[i].step;
        k /= plan->passes[i].radix;
    }
    return place;
}

spsh_status spsh__fft_plan_open(const spsh_allocator *allocator, uint32_t size,
                                spsh__fft_plan *plan, spsh_error *err)
{
    *plan = (spsh__fft_plan){.size = size, .is_paired = size % 2 == 0};
    plan->point_count = plan->is_paired ? size / 2 : size;
    const size_t float_count = factorise(plan);
    const size_t unpack_count = plan->is_paired ? plan->point_count / 2 + 1 : 0;
    plan->memory = spsh__new(allocator, float_count, sizeof(float));
    plan->unpack = spsh__new(allocator, 2 * unpack_count, sizeof(float));
    plan->places = spsh__new(allocator, plan->point_count, sizeof(uint32_t));
    if (plan->memory == NULL || plan->unpack == NULL || plan->places == NULL) {
        spsh__fft_plan_close(allocator, plan);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "tables of a transform of %u points", size);
    }
    float *next = plan->memory;
    for (uint32_t i = 0; i < plan->pass_count; i++)
        next = fill_pass(&plan->passes[i], next);
    for (uint32_t k = 0; k < unpack_count; k++) {
        double cosine = 0;
        double sine = 0;
        turn(k, size, &cosine, &sine);
        plan->unpack[(size_t)2 * k] = (float)cosine;
        plan->unpack[(size_t)2 * k + 1] = (float)sine;
    }
    for (uint32_t k = 0; k < plan->point_count; k++)
        plan->places[k] = place_of(plan, k);
    return SPSH_OK;
}

void spsh__fft_plan_close(const spsh_allocator *allocator, spsh__fft_plan *plan)
{
    spsh__free(allocator, plan->memory);
    spsh__free(allocator, plan->unpack);
    spsh__free(allocator, plan->places);
    *plan = (spsh__fft_plan){0};
}
