/* cmd_featgen.c: `speechshard featgen`: compute a dataset of features, or their statistics. */

#include "cli/cli.h"
#include "cli/part.h"
#include "commands.h"
#include "common/json_out.h"
#include "features/feature_run.h"
#include "speechshard/cores.h"

enum { JOBS_MAX = 1024 };

static const double measure_s = 2.0; /* for an estimate */

typedef struct featgen_command {
    spsh__feature_run_options run;
    spsh_progress progress;
    const char *text; /* text of the feature options, as given */
    bool stats;
    bool json;
} featgen_command;

static void on_progress(void *user, uint64_t done, uint64_t to_do)
{
    featgen_command *c = (featgen_command *)user;
    c->progress.total = to_do;
    spsh__progress_update(&c->progress, done, NULL);
}

static void on_left_out(void *user, const char *why)
{
    (void)user;
    spsh__cli_message("skipped: %s", why);
}

/* Return the path of the result. */
static const char *target(const featgen_command *c)
{
    return c->stats ? c->run.source : c->run.output;
}

/* ---- results ---- */

static int put_json(const featgen_command *c, const spsh__feature_run_facts *facts, double took_s)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    spsh_json *json = spsh__json_new();
    (void)spsh_feature_options_text(&c->run.features, text, sizeof(text));
    spsh__json_put_string(json, "dataset", c->run.source);
    spsh__json_put_string(json, c->stats ? "statistics" : "output", target(c));
    spsh__json_put_string(json, "features", text);
    spsh__json_put_u64(json, "shards", facts->shard_count);
    spsh__json_put_u64(json, "made", facts->made_count);
    spsh__json_put_u64(json, "missing", facts->missing_count);
    spsh__json_put_bool(json, "published", facts->published || facts->already_there);
    spsh__json_put_u64(json, "utterances", facts->utterance_count);
    spsh__json_put_u64(json, "left_out", facts->left_out_count);
    spsh__json_put_u64(json, "undecodable", facts->undecodable_count);
    spsh__json_put_u64(json, "frames", facts->frame_count);
    spsh__json_put_real(json, "audio_seconds", facts->seconds);
    spsh__json_put_real(json, "seconds", took_s);
    return spsh__cli_json(json);
}

static void print_published(const featgen_command *c, const spsh__feature_run_facts *facts)
{
    if (c->stats)
        (void)printf("%s: statistics of its features are in %s/statistics\n", c->run.source,
                     c->run.source);
    else
        (void)printf(
            "%s: features of %s utterances in %s shard%s, %s\n", c->run.output,
            SPSH_SHOW_COUNT(facts->info.utterance_count), SPSH_SHOW_COUNT(facts->info.shard_count),
            facts->info.shard_count == 1 ? "" : "s", SPSH_SHOW_BYTES(facts->info.shard_bytes));
}

static int print_facts(const featgen_command *c, const spsh__feature_run_facts *facts,
                       double took_s)
{
    if (facts->already_there) {
        spsh__cli_message("%s: complete already; nothing to do", target(c));
        return SPSH_EXIT_DONE;
    }
    if (facts->published)
        print_published(c, facts);
    else
        (void)printf("%s: %s shard%s of this part complete; other parts lack %s; the run that "
                     "makes the last shard completes the dataset",
                     target(c), SPSH_SHOW_COUNT(facts->made_count),
                     facts->made_count == 1 ? "" : "s", SPSH_SHOW_COUNT(facts->missing_count));
    if (facts->left_out_count > 0)
        spsh__cli_message("%s damaged utterance%s skipped", SPSH_SHOW_COUNT(facts->left_out_count),
                          facts->left_out_count == 1 ? " was" : "s were");
    if (facts->undecodable_count > 0)
        spsh__cli_message("%s undecodable utterance%s skipped; the first one: %s",
                          SPSH_SHOW_COUNT(facts->undecodable_count),
                          facts->undecodable_count == 1 ? " was" : "s were",
                          facts->undecodable.message);
    if (facts->resampled_count > 0)
        spsh__cli_message("%s of %s utterances were resampled to %u Hz, the first one from %u Hz; "
                          "sample_rate_hz=%u in --features keeps that rate",
                          SPSH_SHOW_COUNT(facts->resampled_count),
                          SPSH_SHOW_COUNT(facts->utterance_count), c->run.features.sample_rate_hz,
                          facts->resampled_from_hz, facts->resampled_from_hz);
    if (facts->made_count > 0 && took_s > 0.0)
        spsh__cli_message("%s of audio in %s, %s times real time",
                          SPSH_SHOW_DURATION(facts->seconds), SPSH_SHOW_DURATION(took_s),
                          SPSH_SHOW_COUNT((uint64_t)(facts->seconds / took_s)));
    return SPSH_EXIT_DONE;
}

static int make(featgen_command *c)
{
    spsh__feature_run_facts facts = {0};
    spsh_error err = SPSH_ERROR_INIT;
    const double begin_s = spsh__cli_now_s();
    spsh__progress_begin(&c->progress, "featgen", "utterances", 0);
    const spsh_status rc = c->stats ? spsh__statistics_run(&c->run, &facts, &err)
                                    : spsh__feature_run(&c->run, &facts, &err);
    spsh__progress_end(&c->progress);
    if (rc == SPSH_E_CANCELED) {
        spsh__cli_error("%s: stopped; the finished shards are kept, and the same command continues",
                        target(c));
        return SPSH_EXIT_FAILED;
    }
    const double took_s = spsh__cli_now_s() - begin_s;
    if (rc == SPSH_OK)
        return c->json ? put_json(c, &facts, took_s) : print_facts(c, &facts, took_s);
    spsh__cli_fail(NULL, &err);
    if (c->run.fail_on_undecodable && rc == SPSH_E_AUDIO)
        spsh__cli_message("without --undecodable fail, undecodable records are skipped");
    else if ((rc == SPSH_E_AUDIO || rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED) &&
             !c->run.leave_out_damaged)
        spsh__cli_message("--skip-damaged skips damaged records; 'speechshard verify' lists them");
    return SPSH_EXIT_FAILED;
}

/* ---- estimates ---- */

static int put_estimate_json(const featgen_command *c, const spsh__feature_estimate *estimate)
{
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "dataset", c->run.source);
    spsh__json_put_u64(json, "shards", estimate->shard_count);
    spsh__json_put_u64(json, "to_make", estimate->to_do_count);
    spsh__json_put_u64(json, "utterances", estimate->utterance_count);
    spsh__json_put_real(json, "audio_hours", estimate->seconds / 3600.0);
    spsh__json_put_real(json, "core_hours", estimate->core_seconds / 3600.0);
    spsh__json_put_u64(json, "bytes", estimate->feature_bytes);
    spsh__json_put_u64(json, "measured_utterances", estimate->sample_count);
    spsh__json_put_real(json, "measured_audio_seconds", estimate->sample_seconds);
    return spsh__cli_json(json);
}

static int print_estimate(const featgen_command *c, const spsh__feature_estimate *estimate)
{
    (void)printf("%s: %s of %s shards to make: %s utterances, %s of audio\n", c->run.source,
                 SPSH_SHOW_COUNT(estimate->to_do_count), SPSH_SHOW_COUNT(estimate->shard_count),
                 SPSH_SHOW_COUNT(estimate->utterance_count), SPSH_SHOW_DURATION(estimate->seconds));
    if (estimate->to_do_count > 0)
        (void)printf(
            "  about %s of one core (%s utterances measured, %s), %s on disk\n",
            SPSH_SHOW_DURATION(estimate->core_seconds), SPSH_SHOW_COUNT(estimate->sample_count),
            SPSH_SHOW_DURATION(estimate->sample_seconds), SPSH_SHOW_BYTES(estimate->feature_bytes));
    return SPSH_EXIT_DONE;
}

static int show_estimate(featgen_command *c)
{
    spsh__feature_estimate estimate = {0};
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__feature_estimate_make(&c->run, measure_s, &estimate, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    return c->json ? put_estimate_json(c, &estimate) : print_estimate(c, &estimate);
}

/* ---- the command ---- */

typedef struct featgen_arguments {
    const char *part;
    uint64_t jobs;
    int dtype, by; /* -1: not given */
    int undecodable;
    bool estimate;
} featgen_arguments;

/* Choose the default type: plain powers can exceed the range of float16, logarithms cannot. */
static spsh_feature_dtype choose_dtype(const featgen_command *c, int dtype)
{
    const bool is_wide = c->run.features.log == SPSH_LOG_NONE &&
                         c->run.features.norm != SPSH_NORM_UTTERANCE &&
                         c->run.features.norm != SPSH_NORM_MEAN_VARIANCE;
    if (dtype == 0 && is_wide)
        spsh__cli_message("log=none: float16 cuts values beyond 65,504; float32 keeps them");
    if (dtype < 0)
        return is_wide ? SPSH_FLOAT32 : SPSH_FLOAT16;
    return dtype == 1 ? SPSH_FLOAT32 : SPSH_FLOAT16;
}

/* Check options that depend on each other. Returns SPSH_CLI_RUN if they are consistent. */
static int settle(featgen_command *c, const featgen_arguments *a)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (c->stats && (c->run.output != NULL || a->dtype >= 0 || a->estimate))
        return spsh__cli_usage(
            "featgen",
            "--stats writes to the dataset itself; omit --output, --dtype, and --estimate");
    if (!c->stats && a->by >= 0)
        return spsh__cli_usage("featgen", "--by needs --stats");
    if (!c->stats && !a->estimate && c->run.output == NULL)
        return spsh__cli_usage("featgen", "the output is missing: -o FEATURES");
    c->run.features = (spsh_feature_options)SPSH_FEATURE_OPTIONS_INIT;
    if (spsh_feature_options_parse(c->text, &c->run.features, &err) != SPSH_OK)
        return spsh__cli_usage("featgen", "--features %s: %s", c->text, err.message);
    c->run.dtype = choose_dtype(c, a->dtype);
    c->run.by_speaker = a->by != 1;
    c->run.fail_on_undecodable = a->undecodable == 1;
    c->run.threads = a->jobs != 0 ? (uint32_t)a->jobs : spsh_core_count(JOBS_MAX);
    const int rc = spsh__part_take("featgen", a->part, &c->run.part, &c->run.part_count);
    return rc == SPSH_EXIT_DONE ? SPSH_CLI_RUN : rc;
}

int spsh__cmd_featgen(int argc, char **argv)
{
    featgen_command c = {
        .run = {.io = spsh_io_default(), .progress_fn = on_progress, .left_out_fn = on_left_out},
        .text = "kaldi-fbank",
    };
    featgen_arguments a = {.dtype = -1, .by = -1};
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "FEATURES", "dataset to write", &c.run.output, 0, 0},
        {"features", 0, SPSH_CLI_TEXT, "TEXT",
         "a preset with changes: kaldi-fbank (default), kaldi-mfcc, whisper-logmel, deepspeech, "
         "spectrogram; such as kaldi-fbank,mel_count=40,sample_rate_hz=8000",
         &c.text, 0, 0},
        {"dtype", 0, SPSH_CLI_CHOICE, "float16|float32",
         "type of the values (default: float16; float32 with log=none)", &a.dtype, 0, 0},
        {"stats", 0, SPSH_CLI_FLAG, NULL,
         "instead of a dataset, write the sums for norm=speaker and norm=dataset to "
         "DATASET/statistics",
         &c.stats, 0, 0},
        {"by", 0, SPSH_CLI_CHOICE, "speaker|dataset",
         "--stats: sum over each speaker and the dataset, or only over the dataset (default: "
         "speaker)",
         &a.by, 0, 0},
        {"skip-damaged", 0, SPSH_CLI_FLAG, NULL,
         "skip damaged utterances (default: fail at the first one)", &c.run.leave_out_damaged, 0,
         0},
        {"undecodable", 0, SPSH_CLI_CHOICE, "skip|fail",
         "skip records that pack marked undecodable, or fail (default: skip)", &a.undecodable, 0,
         0},
        {"jobs", 'j', SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &a.jobs, 1,
         JOBS_MAX},
        {"part", 0, SPSH_CLI_TEXT, "I/N",
         "process only every N-th shard, from shard I (0 to N-1) on, to share the work among "
         "machines" SPSH_PART_AUTO_HELP,
         &a.part, 0, 0},
        {"estimate", 0, SPSH_CLI_FLAG, NULL,
         "measure a few utterances, estimate the work, and write nothing", &a.estimate, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print JSON", &c.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "featgen",
        "DATASET",
        "DATASET -o FEATURES [options]\nDATASET --stats [options]",
        "make a dataset of features, or statistics of them",
        "Computes the features of every utterance and stores them as a dataset with the same ids, "
        "transcripts, and durations, one shard per shard. Existing shards are kept, so the same "
        "command continues after an interruption. The bytes depend only on the dataset and the "
        "options. The run that completes the last shard writes index and manifest.",
        "speechshard featgen corpus.spsh -o fbank.spsh\n"
        "speechshard featgen corpus.spsh -o mel.spsh --features whisper-logmel,mel_count=128\n"
        "speechshard featgen corpus.spsh -o fbank.spsh --estimate\n"
        "speechshard featgen corpus.spsh -o fbank.spsh --part 0/4      # 1/4, 2/4, 3/4 elsewhere\n"
        "speechshard featgen corpus.spsh --stats --features kaldi-fbank\n",
        options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc == SPSH_CLI_RUN)
        rc = settle(&c, &a);
    if (rc != SPSH_CLI_RUN)
        return rc;
    c.run.source = args.operands[0];
    c.run.stop = spsh__cli_interrupted();
    c.run.user = &c;
    spsh__cli_watch_signals();
    return spsh__cli_finish(a.estimate ? show_estimate(&c) : make(&c));
}
