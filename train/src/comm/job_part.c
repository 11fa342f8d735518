/* job_part.c: the part of this process, from the variables of a job array and of a launcher. A table
 * has one row per kind of job array.
 *
 * mpirun, srun, or a PMI launcher inside a task of an array divides the part of that task once more.
 * Variables that cannot be mapped to parts without a gap are rejected, because a wrong guess would
 * silently omit work.
 */
#include <inttypes.h>
#include <stdio.h>

#include "launch.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"
#include "speechshard/train.h"

#define COUNT_MAX UINT64_C(999999999)

/* ---- job arrays ---- */

/* Names of variables; NULL: the scheduler has no such variable. The task with number `number` is
 * part (number - first) / step. */
typedef struct job_array {
    const char *scheduler;
    const char *number, *none; /* none: value of the variable outside an array */
    const char *count, *first, *last, *step;
    uint64_t first_default;
} job_array;

/* clang-format off */
static const job_array arrays[] = {
    {"Slurm array", "SLURM_ARRAY_TASK_ID", NULL, "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
     "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP", 0},
    {"Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", NULL, NULL, NULL, NULL, NULL, 0},
    {"SGE array", "SGE_TASK_ID", "undefined", NULL, "SGE_TASK_FIRST", "SGE_TASK_LAST",
     "SGE_TASK_STEPSIZE", 0},
    {"PBS array", "PBS_ARRAY_INDEX", NULL, NULL, NULL, NULL, NULL, 0},
    {"Torque array", "PBS_ARRAYID", NULL, NULL, NULL, NULL, NULL, 0},
    {"LSF array", "LSB_JOBINDEX", "0", NULL, NULL, "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", 1},
    {"AWS Batch array", "AWS_BATCH_JOB_ARRAY_INDEX", NULL, "AWS_BATCH_JOB_ARRAY_SIZE", NULL, NULL,
     NULL, 0},
    {"Google Batch", "BATCH_TASK_INDEX", NULL, "BATCH_TASK_COUNT", NULL, NULL, NULL, 0},
};
/* clang-format on */

static const char *variable(const char *name)
{
    const char *text = name == NULL ? NULL : spsh__launch_environment(NULL, name);
    return text == NULL || *text == '\0' ? NULL : text;
}

/* Read a variable that must be a number. If it is not set, *ret does not change. */
static spsh_status number_of(const char *name, uint64_t *ret, spsh_error *err)
{
    const char *text = variable(name);
    const char *end = text;
    if (text == NULL)
        return SPSH_OK;
    if (!spsh__take_digits(&end, COUNT_MAX, ret) || *end != '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s is '%.40s', not a number up to %" PRIu64,
                         name, text, COUNT_MAX);
    return SPSH_OK;
}

static bool is_set(const job_array *a)
{
    const char *number = variable(a->number);
    return number != NULL && (a->none == NULL || strcmp(number, a->none) != 0);
}

/* Find the part of a task whose array is a full range. */
static spsh_status read_array(const job_array *a, spsh_job_part *part, spsh_error *err)
{
    uint64_t number = 0, count = 0, first = a->first_default, last = SPSH_NONE_U64, step = 1;
    spsh_status rc = number_of(a->number, &number, err);
    if (rc == SPSH_OK)
        rc = number_of(a->count, &count, err);
    if (rc == SPSH_OK)
        rc = number_of(a->first, &first, err);
    if (rc == SPSH_OK)
        rc = number_of(a->last, &last, err);
    if (rc == SPSH_OK)
        rc = number_of(a->step, &step, err);
    if (rc != SPSH_OK)
        return rc;
    if (step == 0 || number < first || (number - first) % step != 0 ||
        (last != SPSH_NONE_U64 && number > last))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%s is %" PRIu64 ", but the tasks of the %s are %" PRIu64 ", %" PRIu64
                         ", ...: give the part as I/N",
                         a->number, number, a->scheduler, first, first + step);
    const uint64_t range = last == SPSH_NONE_U64 ? 0 : (last - first) / step + 1;
    if (range != 0 && count != 0 && range != count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the %s has %" PRIu64 " tasks from %" PRIu64 " to %" PRIu64
                         ", so some numbers are missing: submit a full range, or give the part as "
                         "I/N",
                         a->scheduler, count, first, last);
    part->index = (number - first) / step;
    part->count = count != 0 ? count : range;
    (void)snprintf(part->source, sizeof(part->source), "%s", a->scheduler);
    return SPSH_OK;
}

/* Find the array; part->source is empty without one. Two schedulers may set the same number, such
 * as Slurm with the variables of PBS. */
static spsh_status find_array(spsh_job_part *part, spsh_error *err)
{
    const job_array *found = NULL;
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        if (!is_set(&arrays[i]))
            continue;
        if (found != NULL && strcmp(variable(found->number), variable(arrays[i].number)) != 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "%s is %.40s, but %s is %.40s: unset the wrong one, or give the part "
                             "as I/N",
                             found->number, variable(found->number), arrays[i].number,
                             variable(arrays[i].number));
        found = found == NULL ? &arrays[i] : found;
    }
    return found == NULL ? SPSH_OK : read_array(found, part, err);
}

/* ---- arrays and launchers ---- */

/* A launcher that starts its processes within one task of an array. Other worlds may span it. */
static bool is_nested(const spsh__launch *launch)
{
    return strcmp(launch->launcher, "mpirun") == 0 || strcmp(launch->launcher, "srun") == 0 ||
           strcmp(launch->launcher, "pmi") == 0;
}

/* Combine the array in *part, if there is one, with the processes of a launcher. */
static spsh_status add_world(const spsh__launch *launch, spsh_job_part *part, spsh_error *err)
{
    const bool has_array = part->source[0] != '\0';
    if (!has_array) {
        part->index = launch->rank;
        part->count = launch->world_size;
        (void)snprintf(part->source, sizeof(part->source), "%s", launch->launcher);
    } else if (is_nested(launch) && launch->world_size > 1) {
        const size_t used = strlen(part->source);
        part->index = part->index * launch->world_size + launch->rank;
        part->count *= launch->world_size;
        (void)snprintf(part->source + used, sizeof(part->source) - used, " and %s",
                       launch->launcher);
    } else if (launch->world_size > 1 &&
               (launch->rank != part->index ||
                (part->count != 0 && launch->world_size != part->count))) {
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the %s says part %" PRIu64 ", but the variables of %s say rank %" PRIu32
                         " of %" PRIu32 ": give the part as I/N",
                         part->source, part->index, launch->launcher, launch->rank,
                         launch->world_size);
    } else if (launch->world_size > 1) {
        part->count = launch->world_size;
    }
    return SPSH_OK;
}

static spsh_status find(uint64_t count, spsh_job_part *ret_part, spsh_error *err)
{
    spsh__launch launch;
    spsh_job_part part = SPSH_JOB_PART_INIT;
    spsh_status rc = find_array(&part, err);
    if (rc == SPSH_OK)
        rc = spsh__launch_find(NULL, NULL, &launch, err);
    if (rc != SPSH_OK)
        return rc;
    if (strcmp(launch.launcher, "alone") != 0)
        rc = add_world(&launch, &part, err);
    if (rc == SPSH_OK && part.source[0] == '\0')
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "no variables of a job array or of a launcher are set: give the part as "
                       "I/N");
    if (rc != SPSH_OK)
        return rc;
    if (count != 0 && part.count != 0 && part.count != count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "%" PRIu64 " parts are given, but the %s has %" PRIu64, count, part.source,
                         part.count);
    part.count = part.count != 0 ? part.count : count;
    if (part.count > COUNT_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "the %s has %" PRIu64 " parts, and at most %" PRIu64 " are possible",
                         part.source, part.count, COUNT_MAX);
    if (part.count != 0 && part.index >= part.count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "this is part %" PRIu64 " of the %s, but the last of %" PRIu64
                         " parts is %" PRIu64 ": number the tasks from 0 without gaps",
                         part.index, part.source, part.count, part.count - 1);
    *ret_part = part;
    return SPSH_OK;
}

/* ---- the text ---- */

/* Parse "auto" or "auto/N". */
static spsh_status take_auto(const char *text, spsh_job_part *part, spsh_error *err)
{
    const char *at = text + strlen("auto");
    uint64_t count = 0;
    if (*at != '\0' &&
        (*at++ != '/' || !spsh__take_digits(&at, COUNT_MAX, &count) || *at != '\0' || count == 0))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "not auto or auto/N, such as auto/16");
    const spsh_status rc = find(count, part, err);
    if (rc == SPSH_OK && part->count == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "this is part %" PRIu64
                         " of the %s, which does not set the number of parts: give it as auto/N",
                         part->index, part->source);
    return rc;
}

/* Parse "I/N". */
static spsh_status take_given(const char *text, spsh_job_part *part, spsh_error *err)
{
    const char *at = text;
    if (!spsh__take_digits(&at, COUNT_MAX, &part->index) || *at++ != '/' ||
        !spsh__take_digits(&at, COUNT_MAX, &part->count) || *at != '\0' ||
        part->index >= part->count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "not a part: '0/4' is the first of four, '3/4' the last, and 'auto' takes "
                         "it from the scheduler");
    return SPSH_OK;
}

spsh_status spsh_job_part_find(const char *text, spsh_job_part *ret_part, spsh_error *err)
{
    spsh_job_part part = SPSH_JOB_PART_INIT;
    spsh_status rc = spsh_result_check(ret_part, sizeof(*ret_part), err);
    if (rc != SPSH_OK)
        return rc;
    if (text == NULL)
        rc = find(0, &part, err);
    else if (strncmp(text, "auto", strlen("auto")) == 0)
        rc = take_auto(text, &part, err);
    else
        rc = take_given(text, &part, err);
    if (rc == SPSH_OK)
        spsh_result_give(ret_part, &part, sizeof(part));
    return rc;
}
