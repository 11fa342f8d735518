/* loader_kit.h: for tests of the loader: calls that must succeed, and opening. Every failure stops
 * the test. */
#ifndef LOADER_KIT_H
#define LOADER_KIT_H

#include "speechshard/loader.h"
#include "spsh_test.h"

static spsh_error err = SPSH_ERROR_INIT;

static inline void require(spsh_status status)
{
    if (status != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_name(status), err.message);
    REQUIRE(status == SPSH_OK);
}

static inline spsh_dataset *open_dataset(const char *path)
{
    spsh_dataset *dataset = NULL;
    require(spsh_dataset_open(path, NULL, &dataset, &err));
    return dataset;
}

static inline spsh_loader *open_loader(const spsh_dataset *dataset, const spsh_loader_options *opt)
{
    spsh_loader *loader = NULL;
    require(spsh_loader_open(&dataset, 1, opt, &loader, &err));
    return loader;
}

static inline spsh_feature_options features_of(const char *text)
{
    spsh_feature_options features = SPSH_FEATURE_OPTIONS_INIT;
    require(spsh_feature_options_parse(text, &features, &err));
    return features;
}

/* The plan of the options that small_options made last. */
static spsh_plan_options kit_plan;

/* Small batches, so that there are many. */
static inline spsh_loader_options small_options(void)
{
    spsh_loader_options opt = SPSH_LOADER_OPTIONS_INIT;
    kit_plan = (spsh_plan_options)SPSH_PLAN_OPTIONS_INIT;
    kit_plan.seed = 7;
    kit_plan.batch_seconds_max = 1.5;
    kit_plan.window_utterances = 40;
    opt.plan = &kit_plan;
    opt.decode_threads = 2;
    opt.memory_bytes = 64 << 20;
    return opt;
}

/* The same with features, which are borrowed until the loader is opened. */
static inline spsh_loader_options feature_options(const spsh_feature_options *features)
{
    spsh_loader_options opt = small_options();
    opt.output = SPSH_OUTPUT_FEATURES;
    opt.features = features;
    return opt;
}

#endif
