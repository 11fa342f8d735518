/* cmd_featgen.c: `speechshard featgen`: a dataset of features, or statistics of them. */

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
    const char *text; /* of the features, as given */
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
    spsh__cli_message("left out: %s", why);
}

/* Where the result is. */
static const char *target(const featgen_command *c)
{
    return c->stats ? c->run.source : c->run.output;
}

/* ---- results ---- */

static spsh_status put_json(const featgen_command *c, const spsh__feature_run_facts *facts,
                            double took_s, spsh_error *err)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    spsh_json *json = spsh__json_new();
    if (json == NULL) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
        return SPSH_E_NO_MEMORY;
    }
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
    const spsh_status rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

static void print_published(const featgen_command *c, const spsh__feature_run_facts *facts)
{
    char utterances[SPSH_HUMAN_BYTES], bytes[SPSH_HUMAN_BYTES], shards[SPSH_HUMAN_BYTES];
    if (c->stats)
        (void)printf("%s: statistics of its features are in %s/statistics\n", c->run.source,
                     c->run.source);
    else
        (void)printf("%s: features of %s utterances in %s shard%s, %s\n", c->run.output,
                     spsh__human_count(facts->info.utterance_count, utterances),
                     spsh__human_count(facts->info.shard_count, shards),
                     facts->info.shard_count == 1 ? "" : "s",
                     spsh__human_bytes(facts->info.shard_bytes, bytes));
}

static void print_facts(const featgen_command *c, const spsh__feature_run_facts *facts,
                        double took_s)
{
    char made[SPSH_HUMAN_BYTES], missing[SPSH_HUMAN_BYTES], audio[SPSH_HUMAN_BYTES];
    char took[SPSH_HUMAN_BYTES], speed[SPSH_HUMAN_BYTES], left[SPSH_HUMAN_BYTES];
    char resampled[SPSH_HUMAN_BYTES], all[SPSH_HUMAN_BYTES];
    if (facts->already_there) {
        spsh__cli_message("%s: made already; nothing to do", target(c));
        return;
    }
    if (facts->published)
        print_published(c, facts);
    else
        (void)printf("%s: %s shard%s of this part made; %s of other parts missing: the run that "
                     "finds all of them finishes\n",
                     target(c), spsh__human_count(facts->made_count, made),
                     facts->made_count == 1 ? "" : "s",
                     spsh__human_count(facts->missing_count, missing));
    if (facts->left_out_count > 0)
        spsh__cli_message("%s damaged utterance%s left out",
                          spsh__human_count(facts->left_out_count, left),
                          facts->left_out_count == 1 ? " was" : "s were");
    if (facts->undecodable_count > 0)
        spsh__cli_message("%s undecodable utterance%s left out; the first one: %s",
                          spsh__human_count(facts->undecodable_count, left),
                          facts->undecodable_count == 1 ? " was" : "s were",
                          facts->undecodable.message);
    if (facts->resampled_count > 0)
        spsh__cli_message("%s of %s utterances were resampled to %u Hz, the first one from %u Hz; "
                          "sample_rate_hz=%u in --features keeps that rate",
                          spsh__human_count(facts->resampled_count, resampled),
                          spsh__human_count(facts->utterance_count, all),
                          c->run.features.sample_rate_hz, facts->resampled_from_hz,
                          facts->resampled_from_hz);
    if (facts->made_count > 0 && took_s > 0.0)
        spsh__cli_message("%s of audio in %s, %s times real time",
                          spsh__human_duration(facts->seconds, audio),
                          spsh__human_duration(took_s, took),
                          spsh__human_count((uint64_t)(facts->seconds / took_s), speed));
}

static int make(featgen_command *c)
{
    spsh__feature_run_facts facts = {0};
    spsh_error err = SPSH_ERROR_INIT;
    const double begin_s = spsh__cli_now_s();
    spsh__progress_begin(&c->progress, "featgen", "utterances", 0);
    spsh_status rc = c->stats ? spsh__statistics_run(&c->run, &facts, &err)
                              : spsh__feature_run(&c->run, &facts, &err);
    spsh__progress_end(&c->progress);
    if (rc == SPSH_E_CANCELED) {
        spsh__cli_error("%s: stopped; the shards that are done stay, and the same command goes on",
                        target(c));
        return SPSH_EXIT_FAILED;
    }
    if (rc == SPSH_OK && c->json)
        rc = put_json(c, &facts, spsh__cli_now_s() - begin_s, &err);
    else if (rc == SPSH_OK)
        print_facts(c, &facts, spsh__cli_now_s() - begin_s);
    if (rc == SPSH_OK)
        return SPSH_EXIT_DONE;
    spsh__cli_fail(NULL, &err);
    if (c->run.fail_on_undecodable && rc == SPSH_E_AUDIO)
        spsh__cli_message("without --undecodable fail, undecodable records are left out");
    else if ((rc == SPSH_E_AUDIO || rc == SPSH_E_CORRUPT || rc == SPSH_E_TRUNCATED) &&
             !c->run.leave_out_damaged)
        spsh__cli_message("--skip-damaged leaves out what is damaged; 'speechshard verify' lists "
                          "all of it");
    return SPSH_EXIT_FAILED;
}

/* ---- estimates ---- */

static spsh_status put_estimate_json(const featgen_command *c,
                                     const spsh__feature_estimate *estimate, spsh_error *err)
{
    spsh_json *json = spsh__json_new();
    if (json == NULL) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
        return SPSH_E_NO_MEMORY;
    }
    spsh__json_put_string(json, "dataset", c->run.source);
    spsh__json_put_u64(json, "shards", estimate->shard_count);
    spsh__json_put_u64(json, "to_make", estimate->to_do_count);
    spsh__json_put_u64(json, "utterances", estimate->utterance_count);
    spsh__json_put_real(json, "audio_hours", estimate->seconds / 3600.0);
    spsh__json_put_real(json, "core_hours", estimate->core_seconds / 3600.0);
    spsh__json_put_u64(json, "bytes", estimate->feature_bytes);
    spsh__json_put_u64(json, "measured_utterances", estimate->sample_count);
    spsh__json_put_real(json, "measured_audio_seconds", estimate->sample_seconds);
    const spsh_status rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

static void print_estimate(const featgen_command *c, const spsh__feature_estimate *estimate)
{
    char shards[SPSH_HUMAN_BYTES], to_do[SPSH_HUMAN_BYTES], utterances[SPSH_HUMAN_BYTES];
    char audio[SPSH_HUMAN_BYTES], core[SPSH_HUMAN_BYTES], bytes[SPSH_HUMAN_BYTES];
    char sample[SPSH_HUMAN_BYTES], sample_audio[SPSH_HUMAN_BYTES];
    (void)printf("%s: %s of %s shards to make: %s utterances, %s of audio\n", c->run.source,
                 spsh__human_count(estimate->to_do_count, to_do),
                 spsh__human_count(estimate->shard_count, shards),
                 spsh__human_count(estimate->utterance_count, utterances),
                 spsh__human_duration(estimate->seconds, audio));
    if (estimate->to_do_count > 0)
        (void)printf("  about %s of one core (%s utterances measured, %s), %s on disk\n",
                     spsh__human_duration(estimate->core_seconds, core),
                     spsh__human_count(estimate->sample_count, sample),
                     spsh__human_duration(estimate->sample_seconds, sample_audio),
                     spsh__human_bytes(estimate->feature_bytes, bytes));
}

static int tell_estimate(featgen_command *c)
{
    spsh__feature_estimate estimate = {0};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh__feature_estimate_make(&c->run, measure_s, &estimate, &err);
    if (rc == SPSH_OK && c->json)
        rc = put_estimate_json(c, &estimate, &err);
    else if (rc == SPSH_OK)
        print_estimate(c, &estimate);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

/* ---- the command ---- */

typedef struct featgen_arguments {
    const char *part;
    uint64_t jobs;
    int dtype, by; /* -1: not given */
    int undecodable;
    bool estimate;
} featgen_arguments;

/* Powers as they are leave the range of halves, logarithms never. */
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

/* Options that depend on each other; SPSH_CLI_RUN when they agree. */
static int settle(featgen_command *c, const featgen_arguments *a)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (c->stats && (c->run.output != NULL || a->dtype >= 0 || a->estimate))
        return spsh__cli_usage("featgen", "--stats writes to the dataset itself and needs no "
                                          "--output, --dtype or --estimate");
    if (!c->stats && a->by >= 0)
        return spsh__cli_usage("featgen", "--by goes with --stats");
    if (!c->stats && !a->estimate && c->run.output == NULL)
        return spsh__cli_usage("featgen", "the output is missing: -o FEATURES");
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
        {"output",       'o', SPSH_CLI_TEXT,   "FEATURES",        "the dataset that is made",     &c.run.output,            0, 0       },
        {"features",     0,   SPSH_CLI_TEXT,   "TEXT",
         "a preset and changes to it: kaldi-fbank (default), kaldi-mfcc,\n"
         "whisper-logmel, deepspeech, spectrogram; such as\n"
         "kaldi-fbank,mel_count=40,sample_rate_hz=8000",                                          &c.text,                  0, 0       },
        {"dtype",        0,   SPSH_CLI_CHOICE, "float16|float32",
         "of the values; default: float16, with log=none\nfloat32",                               &a.dtype,                 0, 0       },
        {"stats",        0,   SPSH_CLI_FLAG,   NULL,
         "make no dataset, but the sums that norm=speaker and norm=dataset need,\n"
         "in DATASET/statistics",                                                                 &c.stats,                 0, 0       },
        {"by",           0,   SPSH_CLI_CHOICE, "speaker|dataset",
         "--stats: of each speaker and of the whole (default), or of the whole",                  &a.by,                    0, 0       },
        {"skip-damaged", 0,   SPSH_CLI_FLAG,   NULL,
         "leave out utterances that are damaged; else the first one ends it",                     &c.run.leave_out_damaged, 0, 0       },
        {"undecodable",  0,   SPSH_CLI_CHOICE, "skip|fail",
         "leave out records that pack marked undecodable, or fail (default: skip)",               &a.undecodable,
         0,                                                                                                                    0       },
        {"jobs",         'j', SPSH_CLI_COUNT,  "N",               "threads; default: one a core", &a.jobs,                  1, JOBS_MAX},
        {"part",         0,   SPSH_CLI_TEXT,   "I/N",
         "only every N-th shard, from shard I on (0 to N-1): for several machines\n"
         "that share the work",                                                                   &a.part,                  0, 0       },
        {"estimate",     0,   SPSH_CLI_FLAG,   NULL,
         "make nothing; measure a few utterances and say what it would take",                     &a.estimate,              0, 0       },
        {"json",         0,   SPSH_CLI_FLAG,   NULL,              "print JSON",                   &c.json,                  0, 0       },
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "featgen",
        "DATASET",
        "DATASET -o FEATURES [options]\nDATASET --stats [options]",
        "make a dataset of features, or statistics of them",
        "Computes every utterance's features and stores them as a dataset like any other, with "
        "the\n"
        "same ids, texts and durations: a shard for each shard. What is there is left alone, so "
        "an\n"
        "interrupted run goes on when the same command is given again; the bytes depend on the\n"
        "dataset and the options alone. The run that finds all shards writes index and manifest.\n",
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
    return spsh__cli_finish(a.estimate ? tell_estimate(&c) : make(&c));
}
