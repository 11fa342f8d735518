/* train_kit.h: runs of a model of a few thousand weights on noise, for tests of failures.
 *
 *     train_kit_make("");            // dataset, vocabulary, base/run.yaml
 *     kit_run run = {.folder = "whole"};
 *     CHECK_I64(train_kit_run(&run), SPSH_OK);
 *     CHECK_U64(train_kit_weights("whole"), ...);
 *
 * Two epochs of 96 utterances, some without a transcript or with too few frames for it; two batches
 * per step, accumulated twice. For one source file of a program, which must link talk_dataset.c.
 */
#ifndef TRAIN_KIT_H
#define TRAIN_KIT_H

#include "checkpoint/checkpoint.h"
#include "speechshard/train.h"
#include "talk_dataset.h"
#include "test_file.h"
#include "test_tree.h"

enum { KIT_TEXT_BYTES = 4096, KIT_OVERRIDES = 24 };

static char kit_config[600];

/* more: settings after those of `train`. */
static inline void train_kit_make(const char *more)
{
    char text[KIT_TEXT_BYTES];
    talk_dataset_make(at("talk.spsh"), TALK_PLAIN);
    (void)snprintf(kit_config, sizeof(kit_config), "%s/run.yaml", base);
    (void)snprintf(
        text, sizeof(text),
        "vocabulary: %s/letters\nfeatures: kaldi-fbank,mel_count=20,hop_us=2500\n"
        "data:\n  train: [\"%s/talk.spsh\"]\n  dev: [\"%s/talk.spsh\"]\n"
        "  max_padded_seconds: 0.8\n  virtual_world: 2\n"
        "model:\n  preset: ds2-tiny\n  hidden: 8\n  layers: 1\n  conv_channels: 2\n"
        "train:\n  backend: cpu\n  threads: 1\n  optimiser: adamw\n  rate: 1e-3\n  epochs: 2\n"
        "  accumulate: 2\n%s",
        base, base, base, more);
    test_file_write_text(kit_config, text);
    spsh_vocabulary_options options = SPSH_VOCABULARY_OPTIONS_INIT;
    char *path = NULL;
    uint32_t symbols = 0;
    options.config_path = kit_config;
    REQUIRE(spsh_vocabulary_make(&options, &path, &symbols, NULL) == SPSH_OK);
    CHECK_STR(path, at("letters"));
    CHECK(symbols > 10);
    free(path);
}

typedef struct kit_run {
    const char *folder;   /* in base */
    const char *simulate; /* NULL: this process is the learner */
    bool resume, has_no_config;
    const spsh_io *io;
    const char *overrides[KIT_OVERRIDES + 1];
    uint64_t stop_at;                                    /* step after which a stop is requested */
    void (*step_fn)(struct kit_run *run, uint64_t step); /* step: counted from 1 since this start */
    void (*log_fn)(struct kit_run *run, const char *text);
    void (*end_fn)(void *run, const char *stopped);
    /* results */
    uint64_t steps; /* steps of this start */
    volatile int stop;
    spsh_train_result result;
    spsh_error err;
    char log[KIT_TEXT_BYTES]; /* log messages, as far as they fit */
} kit_run;

static inline void kit_on_progress(void *user, uint64_t step, const char *line)
{
    kit_run *run = (kit_run *)user;
    (void)step, (void)line;
    run->steps++;
    if (run->steps == run->stop_at)
        run->stop = 1;
    if (run->step_fn != NULL)
        run->step_fn(run, run->steps);
}

static inline void kit_on_log(void *user, spsh_log_level level, const char *text)
{
    kit_run *run = (kit_run *)user;
    const size_t length = strlen(run->log);
    (void)level;
    (void)snprintf(run->log + length, sizeof(run->log) - length, "%s\n", text);
    if (run->log_fn != NULL)
        run->log_fn(run, text);
}

/* A killed process loses no written data; only a machine failure does. */
static inline int kit_no_sync(void *user, int fd)
{
    (void)user, (void)fd;
    return 0;
}

static inline spsh_status train_kit_run(kit_run *run)
{
    spsh_io io = *spsh_io_default();
    io.fsync_fn = kit_no_sync;
    spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
    options.config_path = run->has_no_config ? NULL : kit_config;
    options.overrides = run->overrides;
    options.run = at(run->folder);
    options.resume = run->resume;
    options.io = run->io != NULL ? run->io : &io;
    options.log_fn = kit_on_log;
    options.log_user = run;
    options.progress_fn = kit_on_progress;
    options.progress_user = run;
    options.end_fn = run->end_fn;
    options.end_user = run;
    options.stop = &run->stop;
    options.simulate = run->simulate;
    run->stop = 0;
    run->steps = 0;
    run->log[0] = '\0';
    run->result = (spsh_train_result)SPSH_TRAIN_RESULT_INIT;
    run->err = (spsh_error)SPSH_ERROR_INIT;
    return spsh_train(&options, &run->result, &run->err);
}

/* The newest good checkpoint, and the file to close; the test stops without one. */
static inline spsh__checkpoint kit_newest_state(const char *folder, spsh__checkpoint_file **ret)
{
    spsh__checkpoint state;
    REQUIRE(spsh__checkpoint_open(at(folder), NULL, NULL, NULL, ret, &state, NULL) == SPSH_OK);
    return state;
}

/* A hash of the newest checkpoint's weights, moments and statistics. */
static inline uint64_t train_kit_weights(const char *folder)
{
    spsh__checkpoint_file *file = NULL;
    const spsh__checkpoint c = kit_newest_state(folder, &file);
    uint64_t hash = c.weights_hash + 3 * spsh__checkpoint_hash(c.statistics, c.statistics_elements);
    for (int m = 0; m < 2 && c.moments[m] != NULL; m++)
        hash = 31 * hash + spsh__checkpoint_hash(c.moments[m], c.arena_elements);
    spsh__checkpoint_close(file);
    return hash;
}

#endif
