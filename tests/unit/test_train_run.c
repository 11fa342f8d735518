/* Runs: stopped, killed, resumed: the same weights to the bit as one that was left alone. */
#include <sys/wait.h>

#include "checkpoint.h"
#include "speechshard/train.h"
#include "spsh_test.h"
#include "talk_dataset.h"

static char folder[512], config[600], vocabulary[600];
static volatile int stop;
static uint64_t stop_at, kill_at, steps;

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void set_up(void)
{
    char text[2048];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(text, sizeof(text), "%s/talk.spsh", folder);
    talk_dataset_make(text, TALK_PLAIN);
    (void)snprintf(vocabulary, sizeof(vocabulary), "%s/letters", folder);
    (void)snprintf(config, sizeof(config), "%s/run.yaml", folder);
    (void)snprintf(text, sizeof(text),
                   "vocabulary: %s\nfeatures: kaldi-fbank,mel_count=20\n"
                   "data:\n  train: [\"%s/talk.spsh\"]\n  dev: [\"%s/talk.spsh\"]\n"
                   "  max_padded_seconds: 2\n  virtual_world: 2\n"
                   "model:\n  preset: ds2-tiny\n  hidden: 8\n  layers: 1\n  conv_channels: 2\n"
                   "train:\n  threads: 1\n  optimiser: adamw\n  rate: 1e-3\n  epochs: 2\n"
                   "  accumulate: 2\n",
                   vocabulary, folder, folder);
    write_text(config, text);
    spsh_vocabulary_options options = SPSH_VOCABULARY_OPTIONS_INIT;
    char *path = NULL;
    uint32_t symbols = 0;
    options.config_path = config;
    REQUIRE(spsh_vocabulary_make(&options, &path, &symbols, NULL) == SPSH_OK);
    CHECK_STR(path, vocabulary);
    CHECK(symbols > 10);
    free(path);
}

static void on_progress(void *user, const char *line)
{
    (void)user, (void)line;
    steps++;
    if (steps == stop_at)
        stop = 1;
    if (steps == kill_at)
        _exit(9);
}

static spsh_status run(const char *name, bool resume, spsh_train_result *result)
{
    char path[600];
    spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    options.config_path = config;
    options.run = path;
    options.resume = resume;
    options.progress_fn = on_progress;
    options.stop = &stop;
    stop = 0;
    steps = 0;
    const spsh_status rc = spsh_train(&options, result, &err);
    if (rc != SPSH_OK && rc != SPSH_E_CANCELED && rc != SPSH_E_EXISTS)
        fprintf(stderr, "%s\n", err.message);
    return rc;
}

/* Of the newest checkpoint. */
static uint64_t weights_hash(const char *name)
{
    char path[600];
    spsh__checkpoint_file *file = NULL;
    spsh__checkpoint state;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    REQUIRE(spsh__checkpoint_open(path, NULL, NULL, NULL, &file, &state, NULL) == SPSH_OK);
    const uint64_t hash = state.weights_hash;
    spsh__checkpoint_close(file);
    return hash;
}

static spsh_train_result whole;

static void test_whole_run(void)
{
    stop_at = kill_at = 0;
    REQUIRE(run("whole", false, &whole) == SPSH_OK);
    CHECK_U64(whole.epochs, 2);
    CHECK_U64(whole.samples, 2 * TALK_UTTERANCES);
    CHECK(whole.steps > 4);
    CHECK(whole.wer >= 0);
    CHECK_I64(run("whole", false, &whole), SPSH_E_EXISTS); /* it has checkpoints */
}

static void test_stopped(void)
{
    spsh_train_result result = {0};
    for (stop_at = 1; stop_at < whole.steps; stop_at += 3) {
        char name[32];
        (void)snprintf(name, sizeof(name), "stopped%d", (int)stop_at);
        CHECK_I64(run(name, false, &result), SPSH_E_CANCELED);
        CHECK_U64(result.steps, stop_at + 1); /* it was asked for behind a step */
        const uint64_t first = stop_at;
        stop_at = 0;
        CHECK_I64(run(name, true, &result), SPSH_OK);
        CHECK_U64(result.steps, whole.steps);
        CHECK_U64(weights_hash(name), weights_hash("whole"));
        stop_at = first;
    }
    stop_at = 0;
}

/* What was done behind the checkpoint of the first epoch is done again, alike. */
static void test_killed(void)
{
    kill_at = whole.steps - 1;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        spsh_train_result unused = {0};
        (void)run("killed", false, &unused);
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_I64(WEXITSTATUS(status), 9);
    kill_at = 0;
    spsh_train_result result = {0};
    CHECK_I64(run("killed", true, &result), SPSH_OK);
    CHECK_U64(result.steps, whole.steps);
    CHECK_U64(weights_hash("killed"), weights_hash("whole"));
}

static void test_recognises(void)
{
    char path[600], data[600];
    const char *const names[] = {data, NULL};
    spsh_evaluate_options options = SPSH_EVALUATE_OPTIONS_INIT;
    spsh_evaluation result = {0};
    (void)snprintf(path, sizeof(path), "%s/whole", folder);
    (void)snprintf(data, sizeof(data), "%s/talk.spsh", folder);
    options.checkpoint = path;
    options.datasets = names;
    CHECK_I64(spsh_evaluate(&options, &result, NULL), SPSH_OK);
    CHECK_U64(result.utterances, TALK_UTTERANCES);
    CHECK(result.wer >= 0.999 * whole.wer && result.wer <= 1.001 * whole.wer);
    static const int16_t quiet[16000];
    spsh_recogniser *recogniser = NULL;
    char *text = NULL;
    REQUIRE(spsh_recogniser_open(path, 1, 4, &recogniser, NULL) == SPSH_OK);
    for (uint64_t count = 0; count <= 16000; count += 4000) { /* none at all, too */
        CHECK_I64(spsh_recogniser_transcribe(recogniser, quiet, count, 8000, &text, NULL), SPSH_OK);
        free(text);
        text = NULL;
    }
    spsh_recogniser_close(recogniser);
}

int main(void)
{
    set_up();
    RUN(test_whole_run);
    RUN(test_stopped);
    RUN(test_killed);
    RUN(test_recognises);
    test_remove_tree(folder);
    return TEST_RESULT();
}
