/* simulate_all.c: spsh_train_simulate: read the simulation's inputs from the cluster description, a
 * configuration, and a run's metrics. Then simulate each strategy for each number of learners.
 */
#include "simulate_all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "speechshard/cores.h"
#include "speechshard/decimal.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"
#include "strategy/simulate_strategy.h"
#include "strategy/strategy.h"

enum { DEADLINE_MS = 600000, STEPS_MOST = 200, STEPS_LEAST = 10, BATCHES = 1200, THREADS_MAX = 16 };

#define METRICS_BYTES_MAX ((uint64_t)1 << 32)
#define MEASURED_MAX      100000u
#define STEP_NS_MAX       UINT64_C(1000000000000)

typedef struct planning {
    spsh_train_simulate_options o;
    const spsh_io *io;
    spsh__cluster cluster;
    uint64_t weights, steps;
    uint32_t buckets;
    const char *names[SPSH__CLUSTER_NAMES_MAX];
    uint32_t name_count;
} planning;

/* ---- the time of a measured step ---- */

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Read "compute_s" from each line that has it. */
static uint32_t read_measured(const char *text, size_t size, double *to)
{
    static const char key[] = "\"compute_s\":";
    uint32_t count = 0;
    for (const char *at = text; count < MEASURED_MAX && size > 0;) {
        at = memmem(at, (size_t)(text + size - at), key, sizeof(key) - 1);
        if (at == NULL)
            break;
        at += sizeof(key) - 1;
        double s = 0;
        if (spsh_decimal_scan(at, (size_t)(text + size - at), &s) > 0 && s > 0 && s < 1e9)
            to[count++] = s;
    }
    return count;
}

static spsh_status measure(const spsh_io *io, const char *run, uint64_t *ret_ns, spsh_error *err)
{
    char path[SPSH__CLUSTER_PATH_BYTES + 32];
    const size_t size = strlen(run);
    const bool is_file = size > 6 && strcmp(run + size - 6, ".jsonl") == 0;
    uint8_t *bytes = NULL;
    size_t byte_count = 0;
    (void)snprintf(path, sizeof(path), "%s%s", run, is_file ? "" : "/metrics.jsonl");
    spsh_status rc = spsh_io_read_file(io, path, METRICS_BYTES_MAX, spsh_allocator_default(),
                                       &bytes, &byte_count, err);
    if (rc == SPSH_E_NOT_FOUND || rc == SPSH_E_IO)
        return SPSH_FAIL(err, rc,
                         "step=%s: expected a time, such as 250ms, or the folder of a run with "
                         "measured steps; cannot read %s",
                         run, path);
    if (rc != SPSH_OK)
        return rc;
    double *measured = calloc(MEASURED_MAX, sizeof(*measured));
    if (measured != NULL) {
        const uint32_t count = read_measured((const char *)bytes, byte_count, measured);
        qsort(measured, count, sizeof(*measured), compare);
        *ret_ns = count > 0 ? (uint64_t)(measured[count / 2] * 1e9) : 0;
    } else {
        rc = SPSH_NO_MEMORY(err);
    }
    free(measured);
    spsh__free(spsh_allocator_default(), bytes);
    if (rc == SPSH_OK && *ret_ns == 0)
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s: the run has no measured steps yet", path);
    return rc;
}

spsh_status spsh__cluster_find_step(const spsh_io *io, spsh__cluster *c, spsh_error *err)
{
    if (c->step_ns == 0 && c->step_of[0] == '\0')
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "step is missing: set step=250ms, the time of one batch on one learner, "
                         "or step=RUN, a run that measured it on such a computer");
    const spsh_status rc = c->step_ns > 0 ? SPSH_OK : measure(io, c->step_of, &c->step_ns, err);
    if (rc == SPSH_OK && c->step_ns > STEP_NS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "step: the time of one batch must be at most 1000 s, not %.6g s",
                         (double)c->step_ns * 1e-9);
    return rc;
}

/* ---- the model and the strategies ---- */

static spsh_status find_model(planning *p, spsh_error *err)
{
    spsh_train_estimate_options options = SPSH_TRAIN_ESTIMATE_OPTIONS_INIT;
    spsh_train_estimate *estimate = NULL;
    p->weights = p->cluster.weights;
    if (p->weights > 0 && p->o.config_path != NULL)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "weights= is set, but the model comes from the configuration %s; remove one of them",
            p->o.config_path);
    if (p->weights > 0)
        return SPSH_OK;
    if (p->o.config_path == NULL)
        return SPSH_FAIL(
            err, SPSH_E_INVALID_ARG,
            "weights is missing: set it, such as weights=100M, or give a configuration");
    options.config_path = p->o.config_path;
    options.overrides = p->o.overrides;
    options.io = p->io;
    const spsh_status rc = spsh_train_estimate_make(&options, &estimate, err);
    if (rc != SPSH_OK)
        return rc;
    p->weights = estimate->weights;
    p->buckets = estimate->buckets;
    spsh_train_estimate_free(estimate);
    return SPSH_OK;
}

static spsh_status check_name(const char *name, spsh_error *err)
{
    spsh__strategy *strategy = NULL;
    for (uint32_t i = 0; spsh__strategy_name(i) != NULL; i++)
        if (strcmp(spsh__strategy_name(i), name) == 0)
            return SPSH_OK;
    const spsh_status rc =
        spsh__strategy_open(name, spsh_allocator_default(), &strategy, err); /* names it */
    spsh__strategy_close(strategy);
    return rc;
}

static spsh_status find_names(planning *p, spsh_error *err)
{
    const spsh__cluster *c = &p->cluster;
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && !c->has_all_names && i < c->name_count; i++) {
        p->names[p->name_count++] = c->names[i];
        rc = check_name(c->names[i], err);
    }
    for (uint32_t i = 0; p->name_count < SPSH__CLUSTER_NAMES_MAX && spsh__strategy_name(i) != NULL;
         i++)
        if (c->has_all_names || c->name_count == 0)
            p->names[p->name_count++] = spsh__strategy_name(i);
    return rc;
}

/* ---- all simulations, each on its own, with one thread per core ---- */

typedef struct job {
    const spsh__cluster *cluster;
    uint32_t learners;
    const char *strategy;
    spsh_status status;
    spsh_error error;
} job;

typedef struct jobs {
    const planning *p;
    spsh_train_simulated *runs;
    job *jobs;
    uint32_t count;
    _Atomic uint32_t next;
} jobs;

static void *work(void *user)
{
    jobs *all = (jobs *)user;
    for (;;) {
        const uint32_t i = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed);
        if (i >= all->count)
            return NULL;
        job *one = &all->jobs[i];
        const spsh__simulate_options o = {.cluster = one->cluster,
                                          .learners = one->learners,
                                          .strategy = one->strategy,
                                          .weights = all->p->weights,
                                          .buckets = all->p->buckets};
        one->status = spsh__simulate(&o, &all->runs[i], &one->error);
    }
}

static void work_all(jobs *all)
{
    pthread_t threads[THREADS_MAX];
    uint32_t count = spsh_core_count(THREADS_MAX), begun = 0;
    count = count > all->count ? all->count : count;
    while (begun + 1 < count && pthread_create(&threads[begun], NULL, work, all) == 0)
        begun++;
    (void)work(all);
    for (uint32_t i = 0; i < begun; i++)
        (void)pthread_join(threads[i], NULL);
}

/* Return the cluster with `learners` learners. */
static spsh__cluster of_size(const spsh__cluster *given, uint32_t learners)
{
    spsh__cluster c = *given;
    const uint64_t steps = BATCHES / learners;
    if (c.steps == 0)
        c.steps = steps < STEPS_LEAST ? STEPS_LEAST : steps > STEPS_MOST ? STEPS_MOST : steps;
    if (c.deadline_ms == 0)
        c.deadline_ms = DEADLINE_MS;
    return c;
}

static spsh_status simulate_all(const planning *p, spsh_train_simulation *out, spsh_error *err)
{
    const spsh__cluster *given = &p->cluster;
    jobs all = {.p = p, .runs = out->runs, .count = given->size_count * p->name_count};
    spsh__cluster *clusters = calloc(given->size_count, sizeof(*clusters));
    all.jobs = calloc(all.count, sizeof(*all.jobs));
    spsh_status rc = clusters == NULL || all.jobs == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (uint32_t i = 0; rc == SPSH_OK && i < all.count; i++) {
        const uint32_t size = i / p->name_count;
        clusters[size] = of_size(given, given->sizes[size]);
        all.jobs[i] = (job){.cluster = &clusters[size],
                            .learners = given->sizes[size],
                            .strategy = p->names[i % p->name_count],
                            .error = SPSH_ERROR_INIT};
    }
    if (rc == SPSH_OK) {
        out->run_count = all.count;
        work_all(&all);
    }
    for (uint32_t i = 0; rc == SPSH_OK && i < all.count; i++)
        rc = spsh__fail_again(all.jobs[i].status, &all.jobs[i].error, err);
    free(all.jobs);
    free(clusters);
    return rc;
}

spsh_status spsh_train_simulate(const spsh_train_simulate_options *options,
                                spsh_train_simulation **ret, spsh_error *err)
{
    planning p = {.o = SPSH_TRAIN_SIMULATE_OPTIONS_INIT};
    spsh_status rc = spsh_options_take(options, &p.o, sizeof(p.o), err);
    if (rc != SPSH_OK)
        return rc;
    if (p.o.cluster == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "cluster is NULL: a simulation needs a cluster");
    p.io = p.o.io != NULL ? p.o.io : spsh_io_default();
    rc = spsh__cluster_read(p.o.cluster, &p.cluster, err);
    if (rc == SPSH_OK)
        rc = find_names(&p, err);
    if (rc == SPSH_OK)
        rc = spsh__cluster_find_step(p.io, &p.cluster, err);
    if (rc == SPSH_OK)
        rc = find_model(&p, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_train_simulation *out = calloc(1, sizeof(*out));
    if (out == NULL)
        return SPSH_NO_MEMORY(err);
    const size_t most = (size_t)p.cluster.size_count * p.name_count;
    out->runs = calloc(most, sizeof(*out->runs));
    out->weights = p.weights;
    out->step_s = (double)p.cluster.step_ns * 1e-9;
    out->name_count = p.name_count;
    rc = out->runs == NULL ? SPSH_NO_MEMORY(err) : simulate_all(&p, out, err);
    if (rc == SPSH_OK) {
        *ret = out;
        out = NULL;
    }
    spsh_train_simulation_free(out);
    return rc;
}

void spsh_train_simulation_free(spsh_train_simulation *simulation)
{
    if (simulation == NULL)
        return;
    for (uint32_t i = 0; i < simulation->run_count; i++)
        free(simulation->runs[i].speeds);
    free(simulation->runs);
    free(simulation);
}
