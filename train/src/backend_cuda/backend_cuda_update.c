/* backend_cuda_update.c: sums of squares, and the optimizers, on a device (kernels_update.h). */
#include <math.h>

#include "backend_cuda.h"

enum { SQUARE_PARTS_MAX = 1024, SQUARE_PART = 8192 /* minimum elements per part */ };

static uint32_t four_blocks(const spsh__backend *b, size_t count)
{
    return spsh__cuda_blocks(b, (count + 3) / 4);
}

/* Enqueue the sum of squares of x. decide: its decision is made, too; NULL: none. Return the sum's
 * address on the device, or NULL after a failure. */
static const double *put_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count,
                                    const spsh__decide *decide)
{
    const size_t parts = (count + SQUARE_PART - 1) / SQUARE_PART;
    spsh__square_job job = {.x = spsh__cuda_array(b, x), .count = count};
    job.parts = (uint32_t)(parts < SQUARE_PARTS_MAX ? parts : SQUARE_PARTS_MAX);
    job.is_wide = spsh__is_aligned(&job.x, 0);
    if (decide != NULL) {
        job.rule = decide->rule;
        job.decision = decide->decision.data;
    }
    const size_t size_bytes = job.parts * sizeof(double);
    job.partial = spsh__cuda_scratch(b, 0, size_bytes);
    job.sum = spsh__cuda_scratch(b, 1, sizeof(double));
    if (job.partial == NULL || job.sum == NULL)
        return NULL;
    const spsh__device_use squares[] = {
        spsh__cuda_reads(x, count), {job.partial, size_bytes, 1}
    };
    const spsh__device_use adds[] = {
        {job.partial,  size_bytes,                              0},
        {job.sum,      sizeof(double),                          1},
        {job.decision, SPSH__DECISION_ELEMENTS * sizeof(float), 1}
    };
    spsh__kernel_launch l = {.kernel = SPSH__KERNEL_SQUARE_SUM,
                             .blocks_x = job.parts,
                             .blocks_y = 1,
                             .shared_bytes = SPSH__SQUARE_SHARED,
                             SPSH__CUDA_JOB(&job, squares, 2)};
    spsh__cuda_launch(b, &l);
    l.kernel = SPSH__KERNEL_SUM_PARTS;
    l.blocks_x = 1;
    l.uses = adds;
    l.use_count = decide != NULL ? 3 : 2;
    spsh__cuda_launch(b, &l);
    return job.sum;
}

double spsh__cuda_square_sum(spsh__backend *b, spsh__backend_buffer x, size_t count)
{
    double sum = 0;
    const double *there = count > 0 ? put_square_sum(b, x, count, NULL) : NULL;
    if (there != NULL)
        spsh__cuda_fetch(b, &sum, there, sizeof(sum));
    return sum;
}

static void take_sum(const void *user, const void *bytes)
{
    double *const *ret = user;
    memcpy(*ret, bytes, sizeof(**ret));
}

void spsh__cuda_decide(spsh__backend *b, const spsh__decide *d)
{
    const double *sum = put_square_sum(b, d->gradients, d->count, d);
    *d->ret_square_sum = 0;
    if (sum != NULL)
        spsh__cuda_download(b, sum, sizeof(*sum), take_sum, &d->ret_square_sum,
                            sizeof(d->ret_square_sum));
}

static spsh__decay_map map_of(const spsh__update *u)
{
    spsh__decay_map map = {.offset = u->offset, .count = u->toggle_count};
    if (u->toggle_count > 0)
        memcpy(map.toggles, u->toggles, u->toggle_count * sizeof(*u->toggles));
    return map;
}

static bool may_decay(const spsh__update *u)
{
    return u->decays || u->toggle_count > 0;
}

void spsh__cuda_sgd(spsh__backend *b, const spsh__sgd *o, const spsh__update *u)
{
    spsh__sgd_job job = {.weights = spsh__cuda_array(b, u->weights),
                         .gradients = spsh__cuda_array(b, u->gradients),
                         .count = u->count,
                         .rate = (float)o->rate,
                         .momentum = (float)o->momentum,
                         .decay = may_decay(u) ? (float)o->weight_decay : 0,
                         .gradient_scale = (float)u->gradient_scale,
                         .is_nesterov = o->is_nesterov,
                         .decision = u->decision.data,
                         .map = map_of(u)};
    spsh__device_use uses[4] = {spsh__cuda_writes(u->weights, u->count),
                                spsh__cuda_reads(u->gradients, u->count)};
    uint32_t use_count = 2;
    if (u->count == 0)
        return;
    if (o->momentum > 0) {
        job.moment = spsh__cuda_array(b, u->moments[0]);
        uses[use_count++] = spsh__cuda_writes(u->moments[0], u->count);
    }
    if (u->decision.data != NULL)
        uses[use_count++] = spsh__cuda_reads(u->decision, SPSH__DECISION_ELEMENTS);
    job.is_wide = spsh__is_aligned(&job.weights, 0) && spsh__is_aligned(&job.gradients, 0) &&
                  spsh__is_aligned(&job.moment, 0);
    spsh__cuda_launch(b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_SGD,
                                                .blocks_x = four_blocks(b, u->count),
                                                .blocks_y = 1,
                                                SPSH__CUDA_JOB(&job, uses, use_count)});
}

void spsh__cuda_adamw(spsh__backend *b, const spsh__adamw *o, const spsh__update *u)
{
    const double t = (double)o->step;
    spsh__adamw_job job = {
        .weights = spsh__cuda_array(b, u->weights),
        .gradients = spsh__cuda_array(b, u->gradients),
        .moments = {spsh__cuda_array(b, u->moments[0]), spsh__cuda_array(b, u->moments[1])},
        .decision = u->decision.data,
        .count = u->count,
        .keep = (float)(may_decay(u) ? 1 - o->rate * o->weight_decay : 1),
        .beta1 = (float)o->beta1,
        .beta2 = (float)o->beta2,
        .gain1 = (float)(1 - o->beta1),
        .gain2 = (float)(1 - o->beta2),
        .epsilon = (float)o->epsilon,
        .gradient_scale = (float)u->gradient_scale,
        .step = (float)(o->rate / (1 - pow(o->beta1, t))),
        .root = (float)(1 / sqrt(1 - pow(o->beta2, t))),
        .map = map_of(u)
    };
    const spsh__device_use uses[] = {
        spsh__cuda_writes(u->weights, u->count), spsh__cuda_reads(u->gradients, u->count),
        spsh__cuda_writes(u->moments[0], u->count), spsh__cuda_writes(u->moments[1], u->count),
        spsh__cuda_reads(u->decision, SPSH__DECISION_ELEMENTS)};
    if (u->count == 0)
        return;
    job.is_wide = spsh__is_aligned(&job.weights, 0) && spsh__is_aligned(&job.gradients, 0) &&
                  spsh__is_aligned(&job.moments[0], 0) && spsh__is_aligned(&job.moments[1], 0);
    spsh__cuda_launch(
        b, &(spsh__kernel_launch){.kernel = SPSH__KERNEL_ADAMW,
                                  .blocks_x = four_blocks(b, u->count),
                                  .blocks_y = 1,
                                  SPSH__CUDA_JOB(&job, uses, job.decision != NULL ? 5 : 4)});
}
