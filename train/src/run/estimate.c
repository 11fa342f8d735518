/* estimate.c: estimate a run without training. Opens everything that the run would open, so that it
 * fails with the same errors as the run.
 */
#include "estimate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/whole_numbers.h"
#include "run_setup.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

/* ---- opening ---- */

static spsh_status open_config(spsh__estimating *e, const spsh_train_estimate_options *o,
                               spsh_error *err)
{
    spsh_status rc = spsh__launch_find(NULL, NULL, &e->launch, err);
    if (rc == SPSH_OK)
        rc = spsh__config_read(o->config_path, o->overrides, e->io, &e->config, err);
    if (rc == SPSH_OK)
        rc = spsh__run_check(e->config, e->launch.world_size, err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh__run_alignments(e->config, &e->alignments, err);
    if (rc != SPSH_OK || e->alignments != NULL)
        return rc;
    return spsh__run_vocabulary(e->config, o->config_path, e->io, &e->vocabulary, err);
}

/* Open the feed as rank 0 of the world, the rank with the most batches. */
static spsh_status open_feed(const spsh__estimating *e, const char *const *names, bool is_training,
                             spsh__feed **ret, spsh_error *err)
{
    const spsh__feed_options options = {.config = e->config,
                                        .vocabulary = e->vocabulary,
                                        .alignments = e->alignments,
                                        .names = names,
                                        .weights = is_training ? e->config->train_weights : NULL,
                                        .is_training = is_training,
                                        .world_size = e->launch.world_size,
                                        .cuda = spsh__run_lent_device(&e->compute, e->alignments),
                                        .device = e->compute.backend->device,
                                        .io = e->io};
    return spsh__feed_open(&options, ret, err);
}

static spsh_status open_training(spsh__estimating *e, spsh_error *err)
{
    spsh_status rc = open_feed(e, (const char *const *)e->config->train, true, &e->feed, err);
    if (rc == SPSH_OK)
        rc = spsh__config_resolve(e->config, spsh__feed_epoch_utterances(e->feed), err);
    if (rc != SPSH_OK)
        return rc;
    e->limits = spsh__feed_limits(e->feed);
    e->out->config = spsh__config_text(e->config);
    return e->out->config == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status open_dev(spsh__estimating *e, const char *name, spsh_error *err)
{
    const char *const names[] = {name, NULL};
    spsh_train_set *set = &e->out->dev[e->out->dev_count++];
    spsh__feed *feed = NULL;
    set->name = strdup(name);
    if (set->name == NULL)
        return SPSH_NO_MEMORY(err);
    const spsh_status rc = open_feed(e, names, false, &feed, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh_plan_info *info = spsh_plan_info_get(spsh__feed_plan(feed));
    const spsh__model_limits limits = spsh__feed_limits(feed);
    const uint64_t device_bytes = spsh__feed_device_bytes(feed);
    set->utterances = info->utterance_count;
    set->seconds = (double)info->microseconds * 1e-6;
    spsh__run_widen(&e->dev_limits, &limits);
    if (device_bytes > e->dev_device_bytes)
        e->dev_device_bytes = device_bytes;
    spsh__feed_close(feed);
    return SPSH_OK;
}

static spsh_status open_devs(spsh__estimating *e, spsh_error *err)
{
    char **names = e->config->dev;
    uint32_t count = 0;
    spsh_status rc = SPSH_OK;
    while (names != NULL && names[count] != NULL)
        count++;
    e->out->dev = calloc((size_t)count + 1, sizeof(*e->out->dev));
    if (e->out->dev == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = open_dev(e, names[i], err);
    return rc;
}

/* ---- results that follow from the plan and the configuration ---- */

static spsh_status take_domain(spsh__estimating *e, uint32_t number, spsh_error *err)
{
    spsh_train_domain *to = &e->out->domains[e->out->domain_count++];
    spsh_plan_domain domain = SPSH_PLAN_DOMAIN_INIT;
    const spsh_status rc = spsh_plan_domain_get(spsh__feed_plan(e->feed), number, &domain, err);
    if (rc != SPSH_OK)
        return rc;
    to->dataset = strdup(e->config->train[domain.dataset]);
    to->name = calloc(domain.name.size_bytes + 1, 1);
    if (to->dataset == NULL || to->name == NULL)
        return SPSH_NO_MEMORY(err);
    if (domain.name.size_bytes > 0)
        memcpy(to->name, domain.name.data, domain.name.size_bytes);
    to->utterances = domain.utterance_count;
    to->seconds = (double)domain.microseconds * 1e-6;
    to->share = domain.share;
    to->passes = domain.passes;
    return SPSH_OK;
}

static spsh_status take_plan(spsh__estimating *e, spsh_error *err)
{
    const spsh_plan_info *info = spsh_plan_info_get(spsh__feed_plan(e->feed));
    spsh_train_estimate *out = e->out;
    spsh_status rc = SPSH_OK;
    out->longest_seconds = (double)info->longest_microseconds * 1e-6;
    out->skipped = info->skipped_count;
    out->filtered = info->filtered_count;
    out->out_of_range = info->duration_count;
    out->too_long = info->too_long_count;
    out->domains = calloc((size_t)info->domain_count + 1, sizeof(*out->domains));
    if (out->domains == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t d = 0; d < info->domain_count && rc == SPSH_OK; d++)
        rc = take_domain(e, d, err);
    return rc;
}

static void take_config(spsh__estimating *e)
{
    const spsh__config *c = e->config;
    spsh_train_estimate *out = e->out;
    out->inputs = spsh__feed_dim(e->feed);
    out->symbols = e->alignments != NULL ? 0 : spsh__vocabulary_size(e->vocabulary);
    out->states = e->alignments != NULL ? c->model.outputs : 0;
    out->world_size = e->launch.world_size;
    out->threads = spsh__run_threads(c, e->launch.local_size);
    out->virtual_world = spsh__feed_leaves(e->feed);
    out->accumulate = c->accumulate;
    out->loader_bytes = spsh__feed_memory_bytes(e->feed);
    out->checkpoint_count = c->keep_checkpoints > 0 ? c->keep_checkpoints + 1 : 0;
}

/* Count the steps of the first epoch, after it is walked. A run ends by epochs or by samples,
 * whichever comes first. */
static void count_steps(spsh__estimating *e)
{
    const spsh__config *c = e->config;
    spsh_train_estimate *out = e->out;
    const uint64_t loader_steps = spsh__divide_up(out->batches, out->virtual_world);
    uint64_t done = 0;
    for (out->steps = 0; done < loader_steps; out->steps++)
        done += spsh__schedule_accumulate(
            c, (uint64_t)((double)done * (double)out->utterances / (double)loader_steps));
    out->epochs = c->epochs;
    out->samples = out->utterances * c->epochs;
    if (c->samples_max > 0 && (c->epochs == 0 || c->samples_max < out->samples)) {
        out->samples = c->samples_max;
        out->epochs = spsh__divide_up(c->samples_max, out->utterances > 0 ? out->utterances : 1);
    }
}

/* Open the run's backend: the device may be missing. */
static spsh_status open_compute(spsh__estimating *e, spsh_error *err)
{
    const spsh__compute_options options = {.config = e->config,
                                           .threads = 1,
                                           .local_rank = e->launch.local_rank,
                                           .allocator = spsh_allocator_default()};
    const spsh_status rc = spsh__compute_open(&options, &e->compute, err);
    if (rc == SPSH_OK)
        (void)snprintf(e->out->compute, sizeof(e->out->compute), "%s", e->compute.text);
    return rc;
}

/* ---- the estimate ---- */

static spsh_status estimate(spsh__estimating *e, const spsh_train_estimate_options *o,
                            spsh_error *err)
{
    spsh_status rc = open_config(e, o, err);
    if (rc == SPSH_OK)
        rc = open_compute(e, err);
    if (rc == SPSH_OK)
        rc = open_training(e, err);
    if (rc == SPSH_OK)
        rc = open_devs(e, err);
    if (rc == SPSH_OK)
        rc = take_plan(e, err);
    if (rc != SPSH_OK)
        return rc;
    take_config(e);
    rc = spsh__estimate_epoch(e, err);
    if (rc == SPSH_OK)
        rc = spsh__estimate_memory(e, err);
    if (rc == SPSH_OK) {
        spsh__estimate_fit(e);
        count_steps(e);
    }
    return rc;
}

spsh_status spsh_train_estimate_make(const spsh_train_estimate_options *options,
                                     spsh_train_estimate **ret, spsh_error *err)
{
    spsh_train_estimate_options known = SPSH_TRAIN_ESTIMATE_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &known, sizeof(known), err);
    if (rc != SPSH_OK)
        return rc;
    if (known.config_path == NULL)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "config_path is NULL: an estimate needs a configuration");
    spsh__estimating e = {.io = known.io != NULL ? known.io : spsh_io_default()};
    e.out = calloc(1, sizeof(*e.out));
    rc = e.out == NULL ? SPSH_NO_MEMORY(err) : estimate(&e, &known, err);
    spsh__feed_close(e.feed);
    spsh__vocabulary_free(e.vocabulary);
    spsh__alignments_free(e.alignments);
    spsh__compute_close(&e.compute);
    spsh__config_free(e.config);
    if (rc == SPSH_OK) {
        *ret = e.out;
        e.out = NULL;
    }
    spsh_train_estimate_free(e.out);
    return rc;
}

void spsh_train_estimate_free(spsh_train_estimate *estimate)
{
    if (estimate == NULL)
        return;
    for (uint32_t i = 0; i < estimate->domain_count; i++) {
        free(estimate->domains[i].dataset);
        free(estimate->domains[i].name);
    }
    for (uint32_t i = 0; i < estimate->dev_count; i++)
        free(estimate->dev[i].name);
    free(estimate->domains);
    free(estimate->dev);
    free(estimate->config);
    free(estimate);
}
