/* maker.c: an utterance's samples become its part of a batch.
 *
 *     float32 features    pcm ----------> rows in the slot
 *     float16 features    pcm -> rows ---> halves in the slot
 *
 * Buffers are as long as the longest utterance of the plan, and are taken at open: nothing grows
 * later.
 */
#include "maker.h"

#include "stats.h"

#define ULL(value_) ((unsigned long long)(value_))
#define NONE        SPSH_OFFSET_NONE

enum { PADDING_VALUES = 256 };

/* ---- memory ---- */

static uint64_t rows_max(const spsh__recipe *recipe, uint64_t samples_max)
{
    if (recipe->featgen == NULL || recipe->dtype == SPSH_FLOAT32)
        return 0;
    return spsh_featgen_frame_count(recipe->featgen, samples_max) * recipe->dim;
}

uint64_t spsh__maker_bytes(const spsh__recipe *recipe, const spsh_plan_info *info)
{
    const uint64_t samples = spsh__recipe_samples_max(info);
    if (!spsh__recipe_makes(recipe))
        return 0;
    return samples * sizeof(int16_t) + rows_max(recipe, samples) * sizeof(float);
}

spsh_status spsh__maker_open(spsh__maker *maker, const spsh__recipe *recipe,
                             const spsh_plan_info *info, spsh__budget *budget, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    *maker = (spsh__maker){.budget = budget};
    if (!spsh__recipe_makes(recipe))
        return SPSH_OK;
    maker->recipe = recipe;
    maker->samples_max = spsh__recipe_samples_max(info);
    maker->row_values_max = rows_max(recipe, maker->samples_max);
    maker->pcm = (int16_t *)spsh__budget_take(budget, maker->samples_max * sizeof(*maker->pcm));
    if (maker->row_values_max > 0)
        maker->rows =
            (float *)spsh__budget_take(budget, maker->row_values_max * sizeof(*maker->rows));
    if (maker->pcm == NULL || (maker->row_values_max > 0 && maker->rows == NULL))
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, NONE, "loader: %llu bytes for features of a thread",
                         ULL(spsh__maker_bytes(recipe, info)));
    if (recipe->featgen != NULL)
        rc = spsh_featgen_worker_open(recipe->featgen, &maker->worker, err);
    return rc;
}

void spsh__maker_close(spsh__maker *maker)
{
    if (maker->recipe == NULL)
        return;
    spsh_featgen_worker_close(maker->worker);
    spsh__budget_give(maker->budget, maker->pcm, maker->samples_max * sizeof(*maker->pcm));
    spsh__budget_give(maker->budget, maker->rows, maker->row_values_max * sizeof(*maker->rows));
    maker->recipe = NULL;
}

/* ---- features ---- */

/* Behind the last frame, to the end of the row of the batch. */
static void pad_features(const spsh__recipe *recipe, const spsh__job *job)
{
    const spsh__slot *slot = job->slot;
    const uint64_t values = job->frames * recipe->dim;
    uint8_t *to = slot->audio + (job->place + values) * recipe->value_bytes;
    uint64_t left = slot->stride - values;
    float some[PADDING_VALUES];
    uint16_t halves[PADDING_VALUES];
    const void *from = some;
    if (left == 0)
        return;
    for (uint32_t n = 0; n < PADDING_VALUES; n++)
        some[n] = recipe->padding;
    if (recipe->dtype == SPSH_FLOAT16) {
        spsh_half_from_float(halves, some, PADDING_VALUES);
        from = halves;
    }
    while (left > 0) {
        const uint64_t now = left < PADDING_VALUES ? left : PADDING_VALUES;
        memcpy(to, from, now * recipe->value_bytes);
        to += now * recipe->value_bytes;
        left -= now;
    }
}

static spsh_status make_features(spsh__maker *maker, const spsh__job *job, spsh_error *err)
{
    const spsh__recipe *recipe = maker->recipe;
    const uint64_t values = job->frames * recipe->dim;
    const spsh_feature_input input = {.i16 = maker->pcm, .sample_count = job->out_samples};
    uint8_t *place = job->slot->audio + job->place * recipe->value_bytes;
    float *rows = maker->rows != NULL ? maker->rows : (float *)(void *)place;
    spsh_status rc = spsh_featgen_compute(maker->worker, &input, rows, err);
    if (rc != SPSH_OK)
        return rc;
    if (recipe->dtype == SPSH_FLOAT16)
        spsh_half_from_float((uint16_t *)(void *)place, rows, values);
    pad_features(recipe, job);
    return SPSH_OK;
}

spsh_status spsh__maker_run(spsh__maker *maker, spsh__job *job, spsh_error *err)
{
    const uint64_t begin = spsh__thread_cpu_ns(pthread_self());
    const spsh_status rc = make_features(maker, job, err);
    atomic_fetch_add_explicit(&maker->cpu_ns, spsh__thread_cpu_ns(pthread_self()) - begin,
                              memory_order_relaxed);
    return rc;
}
