/* unit_train_frames.c: runs of lstm-hybrid. After some seconds of training, the model recognizes
 * tones frame by frame. Stopped, killed, and resumed runs end with identical bits. Utterances
 * without an alignment, or with one of another length, are skipped and counted. States follow a
 * change of speed. */
#include <math.h>
#include <sys/wait.h>

#include "checkpoint/checkpoint.h"
#include "feed/feed.h"
#include "feed/frame_batch.h"
#include "speechshard/train.h"
#include "spsh_test.h"
#include "tone_dataset.h"

enum { TRAINED = TONE_UTTERANCES - TONE_DEV };

static char folder[512], config[600], log_text[8192];
static volatile int stop;
static uint64_t stop_at, kill_at, steps;

static void set_up(void)
{
    char data[600], alignments[600];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(data, sizeof(data), "%s/tones.spsh", folder);
    (void)snprintf(alignments, sizeof(alignments), "%s/ali", folder);
    tone_dataset_make(data, alignments);
    (void)snprintf(config, sizeof(config), "%s/run.yaml", folder);
    FILE *file = fopen(config, "wb");
    REQUIRE(file != NULL);
    fprintf(
        file,
        "features: kaldi-fbank,mel_count=20\n"
        "data:\n  train: [\"%s:train\"]\n  dev: [\"%s:dev\"]\n  alignments: [\"%s\"]\n"
        "  max_padded_seconds: 6\n  virtual_world: 2\n"
        "model:\n  preset: lstm-hybrid\n  hidden: 16\n  layers: 1\n  bottleneck: 8\n"
        "train:\n  backend: cpu\n  threads: 1\n  rate: 2e-2\n  epochs: 12\n  schedule: constant\n",
        data, data, alignments);
    REQUIRE(fclose(file) == 0);
}

static void on_log(void *user, spsh_log_level level, const char *text)
{
    (void)user, (void)level;
    const size_t size = strlen(log_text);
    (void)snprintf(log_text + size, sizeof(log_text) - size, "%s\n", text);
}

static void on_progress(void *user, uint64_t step, const char *line)
{
    (void)user, (void)step, (void)line;
    steps++;
    if (steps == stop_at)
        stop = 1;
    if (steps == kill_at)
        _exit(9);
}

static char message[480];

static spsh_status run(const char *name, bool resume, const char *const *overrides,
                       spsh_train_result *result)
{
    char path[600];
    spsh_train_options options = SPSH_TRAIN_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    options.config_path = config;
    options.overrides = overrides;
    options.run = path;
    options.resume = resume;
    options.log_fn = on_log;
    options.progress_fn = on_progress;
    options.stop = &stop;
    stop = 0;
    steps = 0;
    log_text[0] = '\0';
    const spsh_status rc = spsh_train(&options, result, &err);
    (void)snprintf(message, sizeof(message), "%s", rc == SPSH_OK ? "" : err.message);
    return rc;
}

/* Best metric in the newest checkpoint. */
static double best_metric(const char *name)
{
    char path[600];
    spsh__checkpoint_file *file = NULL;
    spsh__checkpoint state;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    REQUIRE(spsh__checkpoint_open(path, NULL, NULL, NULL, &file, &state, NULL) == SPSH_OK);
    spsh__checkpoint_close(file);
    return state.best_metric;
}

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

static void check_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fprintf(stderr, "'%s' is not in '%s'\n", part, text);
    CHECK(strstr(text, part) != NULL);
}

static spsh_train_result whole = SPSH_TRAIN_RESULT_INIT;

static void test_learns(void)
{
    stop_at = kill_at = 0;
    REQUIRE(run("whole", false, NULL, &whole) == SPSH_OK);
    printf("%.4f of the frames wrong after %d steps\n", whole.frame_error, (int)whole.steps);
    CHECK(whole.frame_error < 0.05); /* frames between two tones contain both */
    CHECK(whole.loss < 0.3);
    CHECK(isnan(whole.wer) && isnan(whole.cer));
    CHECK_U64(whole.samples, 12 * TRAINED);
    CHECK(best_metric("whole") > 0 && best_metric("whole") <= whole.frame_error);
    check_contains(log_text, "alignments: 40 utterances");
    check_contains(log_text, "5 states");
    check_contains(log_text,
                   "40 of them are in data.train, and 0 in no dataset"); /* in any split */
    check_contains(log_text, "frames wrong");
    check_contains(log_text, " per frame over 32 utterances");
}

static spsh_status evaluate(const char *const *alignments, spsh_evaluation *result)
{
    char path[600], data[600];
    const char *const names[] = {data, NULL};
    spsh_evaluate_options options = SPSH_EVALUATE_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    (void)snprintf(path, sizeof(path), "%s/whole", folder);
    (void)snprintf(data, sizeof(data), "%s/tones.spsh:dev", folder);
    options.checkpoint = path;
    options.datasets = names;
    options.alignments = alignments;
    const spsh_status rc = spsh_evaluate(&options, result, &err);
    (void)snprintf(message, sizeof(message), "%s", rc == SPSH_OK ? "" : err.message);
    return rc;
}

/* Write the alignments again, without the first utterance, with ten more frames in the second, and
 * with one that no dataset has. greatest: a state at its end. */
static const char *other_alignments(uint32_t first, const char *greatest)
{
    static char path[600];
    char from[600], line[4096];
    (void)snprintf(from, sizeof(from), "%s/ali", folder);
    (void)snprintf(path, sizeof(path), "%s/other-ali", folder);
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(path, "wb");
    REQUIRE(in != NULL && out != NULL);
    for (uint32_t n = 0; fgets(line, sizeof(line), in) != NULL; n++) {
        line[strcspn(line, "\n")] = '\0';
        if (n == first + 1)
            fprintf(out, "%s 0 0 0 0 0 0 0 0 0 0\n", line);
        else if (n != first)
            fprintf(out, "%s\n", line);
    }
    fprintf(out, "nobody 0 %s\n", greatest);
    (void)fclose(in);
    REQUIRE(fclose(out) == 0);
    return path;
}

static void test_evaluates(void)
{
    spsh_evaluation result = SPSH_EVALUATION_INIT;
    const char *const other[] = {other_alignments(TRAINED, "4"), NULL};
    REQUIRE(evaluate(NULL, &result) == SPSH_OK);
    CHECK(result.is_of_frames);
    CHECK_U64(result.utterances, TONE_DEV);
    CHECK(result.frames > 300);
    CHECK_U64(result.without_alignment + result.other_length, 0);
    CHECK(result.frame_error == whole.frame_error);
    const uint64_t frames = result.frames;
    REQUIRE(evaluate(other, &result) == SPSH_OK);
    CHECK_U64(result.utterances, TONE_DEV - 2);
    CHECK_U64(result.without_alignment, 1);
    CHECK_U64(result.other_length, 1);
    CHECK(result.frames < frames);
    const char *const greater[] = {other_alignments(TRAINED, "5"), NULL};
    CHECK_I64(evaluate(greater, &result), SPSH_E_INVALID_ARG);
    check_contains(message, "the highest state is 5, but the model has 5 states");
}

static void test_does_not_transcribe(void)
{
    char path[600];
    spsh_recogniser *recogniser = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_recogniser_options options = SPSH_RECOGNISER_OPTIONS_INIT;
    (void)snprintf(path, sizeof(path), "%s/whole", folder);
    options.checkpoint = path;
    CHECK_I64(spsh_recogniser_open(&options, &recogniser, &err), SPSH_E_UNSUPPORTED);
    check_contains(err.message, "decoding graph");
}

static void test_stopped_and_killed(void)
{
    spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
    stop_at = whole.steps / 3;
    CHECK_I64(run("stopped", false, NULL, &result), SPSH_E_CANCELED);
    stop_at = 0;
    CHECK_I64(run("stopped", true, NULL, &result), SPSH_OK);
    CHECK_U64(result.steps, whole.steps);
    CHECK_U64(weights_hash("stopped"), weights_hash("whole"));
    kill_at = whole.steps / 2;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        (void)run("killed", false, NULL, &result);
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_I64(WEXITSTATUS(status), 9);
    kill_at = 0;
    CHECK_I64(run("killed", true, NULL, &result), SPSH_OK);
    CHECK_U64(weights_hash("killed"), weights_hash("whole"));
}

static bool is_small;

/* Whole utterances, several layers, one direction, GRU. The models learn the task, unless they have
 * only two epochs. */
static void test_other_shapes(void)
{
    static const char *const shapes[][4] = {
        {"model.chunk_frames=0", "train.epochs=40", NULL                      },
        {"model.layers=3",       "train.rate=1e-2", "model.cell=gru",           NULL},
        {"model.bidirectional=false",                      "train.epochs=40",             NULL},
        {"model.outputs=9",                      "train.epochs=8",                       NULL           },
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char name[32];
        spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
        (void)snprintf(name, sizeof(name), "shape%d", (int)i);
        const char *overrides[6] = {NULL};
        size_t count = 0;
        for (; shapes[i][count] != NULL; count++)
            overrides[count] = shapes[i][count];
        if (is_small)
            overrides[count] = "train.epochs=2";
        REQUIRE(run(name, false, overrides, &result) == SPSH_OK);
        printf("%s: %.4f of the frames wrong\n", shapes[i][0], result.frame_error);
        CHECK(is_small || result.frame_error < 0.12);
    }
}

static void test_counted(void)
{
    char override[700];
    const char *const overrides[] = {override, "train.epochs=1", NULL};
    spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
    (void)snprintf(override, sizeof(override), "data.alignments=[\"%s\"]",
                   other_alignments(0, "4"));
    REQUIRE(run("counted", false, overrides, &result) == SPSH_OK);
    check_contains(log_text, "and 1 in no dataset");
    check_contains(log_text,
                   "2 of 32 utterances are not trained on: 1 have no alignment, 1 have one "
                   "of a different length");
}

static void test_refused(void)
{
    char path[600], override[700];
    spsh_train_result result = SPSH_TRAIN_RESULT_INIT;
    (void)snprintf(path, sizeof(path), "%s/nobody", folder);
    FILE *file = fopen(path, "wb");
    REQUIRE(file != NULL && fputs("nobody 1 2 3\n", file) >= 0 && fclose(file) == 0);
    (void)snprintf(override, sizeof(override), "data.alignments=[\"%s\"]", path);
    const char *const nobody[] = {override, NULL};
    CHECK_I64(run("refused", false, nobody, &result), SPSH_E_NOT_FOUND);
    check_contains(message,
                   "none of the 1 aligned utterances is in data.train; the first is 'nobody'");
    const char *const few[] = {"model.outputs=4", NULL};
    CHECK_I64(run("refused", false, few, &result), SPSH_E_INVALID_ARG);
    check_contains(message, "the highest state is 4, but model.outputs is 4");
    const char *const none[] = {"data.alignments=[\"/nowhere/ali\"]", NULL};
    CHECK_I64(run("refused", false, none, &result), SPSH_E_NOT_FOUND);
    check_contains(message, "/nowhere/ali");
}

/* At half and double speed, each frame has the state of its position. At the borders of tones, half
 * a frame decides. */
static void test_speeds(void)
{
    char text[2048], path[600];
    const char *const paths[] = {path, NULL};
    spsh__config *c = NULL;
    spsh__alignments *alignments = NULL;
    spsh__feed *feed = NULL;
    const spsh__feed_batch *b = NULL;
    uint64_t right = 0, frames = 0, changed = 0;
    (void)snprintf(path, sizeof(path), "%s/ali", folder);
    (void)snprintf(
        text, 1500,
        "features: kaldi-fbank,mel_count=20\naugment: \"speeds=0.5:1:2\"\ndata:\n"
        "  train: [\"%s/tones.spsh\"]\n  alignments: [a]\nmodel: {preset: lstm-hybrid}\n",
        folder);
    REQUIRE(spsh__config_parse(text, strlen(text), NULL, &c, NULL) == SPSH_OK);
    REQUIRE(spsh__alignments_read(paths, &alignments, NULL) == SPSH_OK);
    const spsh__feed_options options = {.config = c,
                                        .alignments = alignments,
                                        .names = (const char *const *)c->train,
                                        .is_training = true,
                                        .world_size = 1};
    REQUIRE(spsh__feed_open(&options, &feed, NULL) == SPSH_OK);
    while (spsh__feed_next(feed, &b, NULL) == SPSH_OK) {
        CHECK_U64(b->other_length + b->without_alignment, 0);
        for (uint32_t n = 0; n < b->batch; n++) {
            const spsh_batch_utterance *u = &b->source->utterances[n];
            const double speed = (double)u->item.samples / (double)u->samples;
            REQUIRE(b->label_offsets[n + 1] - b->label_offsets[n] == b->lengths[n]);
            changed += speed < 0.6 || speed > 1.9;
            for (uint32_t t = 0; t < b->lengths[n]; t++, frames++)
                right += b->labels[b->label_offsets[n] + t] ==
                         tone_dataset_state((uint32_t)u->item.position,
                                            (uint64_t)((t * 160 + 200) * speed));
        }
    }
    printf("%.4f of the states where they lie\n", (double)right / (double)frames);
    CHECK(changed > TONE_UTTERANCES / 3);
    CHECK((double)right > 0.93 * (double)frames);
    spsh__feed_close(feed);
    spsh__alignments_free(alignments);
    spsh__config_free(c);
}

/* Chunks of three frames: features, lengths, and states of each. The cutter omits utterances of
 * weight 0. */
static void test_cut(void)
{
    enum { T = 7, D = 2 };
    float features[3 * T * D];
    for (int i = 0; i < 3 * T * D; i++)
        features[i] = (float)i;
    const uint32_t lengths[] = {7, 2, 0}, labels[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const uint32_t offsets[] = {0, 7, 9, 9};
    const double weights[] = {1, 1, 0};
    const spsh__feed_batch b = {.batch = 3,
                                .frames = T,
                                .features = features,
                                .lengths = lengths,
                                .labels = labels,
                                .label_offsets = offsets,
                                .weights = weights};
    const spsh__model_limits limits = {3, T, 3 * T};
    const spsh__model_limits cut_limits = spsh__frame_limits(&limits, 3);
    spsh__frame_cutter *cutter = NULL;
    REQUIRE(spsh__frame_cutter_open(&limits, D, 3, &cutter, NULL) == SPSH_OK);
    const spsh__frame_batch *cut = spsh__frame_cut(cutter, &b);
    CHECK_U64(cut->batch.batch, 4);
    CHECK_U64(cut->batch.frames, 3);
    CHECK(cut->batch.batch <= cut_limits.batch_max && cut_limits.frames_max == 3);
    CHECK_U64(cut->counted, 9);
    static const uint32_t want_lengths[] = {3, 3, 1, 2}, want_owners[] = {0, 0, 0, 1};
    static const uint32_t want[] = {1, 4, 7, 8, 2, 5, UINT32_MAX, 9, 3, 6, UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_U64(cut->batch.lengths[i], want_lengths[i]);
        CHECK_U64(cut->owners[i], want_owners[i]);
    }
    for (uint32_t i = 0; i < 12; i++)
        CHECK_U64(cut->states[i], want[i]);
    CHECK(cut->batch.features[1 * 3 * D] == 3 * D);         /* frame 3 of the first utterance */
    CHECK(cut->batch.features[3 * 3 * D + 1] == T * D + 1); /* frame 0 of the second */
    spsh__frame_cutter_close(cutter);
    REQUIRE(spsh__frame_cutter_open(&limits, D, 0, &cutter, NULL) == SPSH_OK);
    cut = spsh__frame_cut(cutter, &b);
    CHECK_U64(cut->batch.batch, 3);
    CHECK_U64(cut->batch.frames, T);
    CHECK(cut->batch.features == features);
    CHECK_U64(cut->states[1 * 3 + 1], 9);
    CHECK_U64(cut->states[2 * 3 + 1], UINT32_MAX);
    CHECK_U64(cut->states[2], UINT32_MAX);
    spsh__frame_cutter_close(cutter);
}

TEST_MAIN(unit_train_frames)
{
    is_small = test_wants_fewer(argc, argv);
    set_up();
    RUN(test_cut);
    RUN(test_speeds);
    RUN(test_learns);
    RUN(test_evaluates);
    RUN(test_does_not_transcribe);
    RUN(test_stopped_and_killed);
    RUN(test_other_shapes);
    RUN(test_counted);
    RUN(test_refused);
    test_remove_tree(folder);
    return TEST_RESULT();
}
