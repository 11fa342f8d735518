/* cmd_fingerprint.c: `speechshard fingerprint`: compute the segments that a dataset lacks. */

#include "cli/cli.h"
#include "cli/part.h"
#include "cli/source_fail.h"
#include "commands.h"
#include "common/json_out.h"
#include "speechshard/dedup.h"

static const double measure_s = 2.0; /* for an estimate */

typedef struct fingerprint_command {
    spsh_fingerprint_options run;
    spsh_progress progress;
    spsh_json *json; /* NULL: lines for people */
} fingerprint_command;

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    fingerprint_command *c = (fingerprint_command *)user;
    (void)stage;
    c->progress.total = total;
    spsh__progress_update(&c->progress, done, NULL);
    return *spsh__cli_interrupted();
}

static int fail(const char *path, const spsh_error *err)
{
    return spsh__path_fail(NULL, &path, 1, err);
}

/* ---- results ---- */

static spsh_status put_json(fingerprint_command *c, const char *path,
                            const spsh_fingerprint_facts *facts, double took_s, spsh_error *err)
{
    spsh__json_put_string(c->json, "dataset", path);
    spsh__json_put_u64(c->json, "segments", facts->shard_count);
    spsh__json_put_u64(c->json, "made", facts->made_count);
    spsh__json_put_u64(c->json, "utterances", facts->utterance_count);
    spsh__json_put_u64(c->json, "duplicates", facts->alias_count);
    spsh__json_put_u64(c->json, "undecodable", facts->undecoded_count);
    spsh__json_put_u64(c->json, "keys", facts->key_count);
    spsh__json_put_u64(c->json, "chunks", facts->chunk_count);
    spsh__json_put_u64(c->json, "bytes", facts->file_bytes);
    spsh__json_put_real(c->json, "audio_seconds", facts->made_seconds);
    spsh__json_put_real(c->json, "seconds", took_s);
    return spsh__json_write_line(c->json, stdout, err);
}

static void print_facts(const char *path, const spsh_fingerprint_facts *facts, double took_s)
{
    (void)printf("%s: %s utterances in %s segment%s (%s new): %s keys, %s chunks, %s\n", path,
                 SPSH_SHOW_COUNT(facts->utterance_count), SPSH_SHOW_COUNT(facts->shard_count),
                 facts->shard_count == 1 ? "" : "s", SPSH_SHOW_COUNT(facts->made_count),
                 SPSH_SHOW_COUNT(facts->key_count), SPSH_SHOW_COUNT(facts->chunk_count),
                 SPSH_SHOW_BYTES(facts->file_bytes));
    if (facts->undecoded_count > 0)
        spsh__cli_message(
            "%s: %s utterances cannot be decoded; only copies with equal bytes will be found", path,
            SPSH_SHOW_COUNT(facts->undecoded_count));
    if (facts->made_count > 0 && took_s > 0.0)
        spsh__cli_message("%s: %s of audio in %s, %s times real time", path,
                          SPSH_SHOW_DURATION(facts->made_seconds), SPSH_SHOW_DURATION(took_s),
                          SPSH_SHOW_COUNT((uint64_t)(facts->made_seconds / took_s)));
}

static int make(fingerprint_command *c, const char *path)
{
    spsh_fingerprint_facts facts = SPSH_FINGERPRINT_FACTS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    const double begin_s = spsh__cli_now_s();
    spsh__progress_begin(&c->progress, "fingerprint", "utterances", 0);
    spsh_status rc = spsh_fingerprint_run(path, &c->run, &facts, &err);
    spsh__progress_end(&c->progress);
    if (rc == SPSH_E_CANCELED) {
        spsh__cli_error(
            "%s: stopped; the finished segments are kept, and the same command continues", path);
        return SPSH_EXIT_FAILED;
    }
    if (rc == SPSH_OK && c->json != NULL)
        rc = put_json(c, path, &facts, spsh__cli_now_s() - begin_s, &err);
    else if (rc == SPSH_OK)
        print_facts(path, &facts, spsh__cli_now_s() - begin_s);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : fail(path, &err);
}

/* ---- estimates ---- */

static spsh_status put_estimate_json(fingerprint_command *c, const char *path,
                                     const spsh_fingerprint_cost *estimate, spsh_error *err)
{
    spsh__json_put_string(c->json, "dataset", path);
    spsh__json_put_u64(c->json, "segments", estimate->shard_count);
    spsh__json_put_u64(c->json, "to_make", estimate->missing_count);
    spsh__json_put_u64(c->json, "utterances", estimate->utterance_count);
    spsh__json_put_real(c->json, "audio_hours", estimate->seconds / 3600.0);
    spsh__json_put_real(c->json, "core_hours", estimate->core_seconds / 3600.0);
    spsh__json_put_u64(c->json, "bytes", estimate->file_bytes);
    spsh__json_put_u64(c->json, "measured_utterances", estimate->measured_count);
    spsh__json_put_real(c->json, "measured_audio_seconds", estimate->measured_seconds);
    return spsh__json_write_line(c->json, stdout, err);
}

static void print_estimate(const char *path, const spsh_fingerprint_cost *estimate)
{
    (void)printf("%s: %s of %s segments to make: %s utterances, %s of audio\n", path,
                 SPSH_SHOW_COUNT(estimate->missing_count), SPSH_SHOW_COUNT(estimate->shard_count),
                 SPSH_SHOW_COUNT(estimate->utterance_count), SPSH_SHOW_DURATION(estimate->seconds));
    if (estimate->missing_count > 0)
        (void)printf(
            "  about %s of one core (%s utterances measured, %s), %s on disk\n",
            SPSH_SHOW_DURATION(estimate->core_seconds), SPSH_SHOW_COUNT(estimate->measured_count),
            SPSH_SHOW_DURATION(estimate->measured_seconds), SPSH_SHOW_BYTES(estimate->file_bytes));
}

static int show_estimate(fingerprint_command *c, const char *path)
{
    spsh_fingerprint_cost estimate = SPSH_FINGERPRINT_COST_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh_fingerprint_estimate(path, &c->run, measure_s, &estimate, &err);
    if (rc == SPSH_OK && c->json != NULL)
        rc = put_estimate_json(c, path, &estimate, &err);
    else if (rc == SPSH_OK)
        print_estimate(path, &estimate);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : fail(path, &err);
}

/* ---- the command ---- */

static int run_all(fingerprint_command *c, const spsh_cli_args *args, bool estimate)
{
    int rc = SPSH_EXIT_DONE;
    for (int n = 0; n < args->operand_count && !*spsh__cli_interrupted(); n++) {
        const char *path = args->operands[n];
        if ((estimate ? show_estimate(c, path) : make(c, path)) != SPSH_EXIT_DONE)
            rc = SPSH_EXIT_FAILED;
    }
    return rc;
}

int spsh__cmd_fingerprint(int argc, char **argv)
{
    bool json = false, estimate = false;
    uint64_t jobs = 0;
    const char *part = NULL;
    const spsh_cli_option options[] = {
        {"jobs", 'j', SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &jobs, 1,
         SPSH_DEDUP_THREADS_MAX},
        {"part", 0, SPSH_CLI_TEXT, "I/N",
         "process only every N-th shard, from shard I (0 to N-1) on, to share the work among "
         "machines" SPSH_PART_AUTO_HELP,
         &part, 0, 0},
        {"estimate", 0, SPSH_CLI_FLAG, NULL,
         "measure a few utterances, estimate the work, and write nothing", &estimate, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object per dataset", &json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "fingerprint",
        "DATASET...",
        NULL,
        "compute the fingerprints that dedupe and audit use to find copies",
        "Decodes every utterance once and writes digests, chunks of PCM, and an acoustic "
        "fingerprint with its keys to DATASET/fingerprints, one file per shard. Valid files are "
        "kept, so the same command continues after an interruption. The bytes depend only on the "
        "dataset. dedupe and audit make missing fingerprints themselves.",
        "speechshard fingerprint corpus.spsh\n"
        "speechshard fingerprint corpus.spsh --estimate\n"
        "speechshard fingerprint corpus.spsh --part 0/4      # 1/4, 2/4, 3/4 elsewhere\n",
        options};
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    fingerprint_command c = {.run = SPSH_FINGERPRINT_OPTIONS_INIT};
    c.run.progress_fn = on_progress;
    c.run.user = &c;
    c.run.threads = (uint32_t)jobs;
    rc = spsh__part_take("fingerprint", part, &c.run.part, &c.run.part_count);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    c.json = json ? spsh__json_new() : NULL;
    if (json && c.json == NULL)
        return spsh__cli_fail_memory();
    spsh__cli_watch_signals();
    rc = run_all(&c, &args, estimate);
    spsh__json_free(c.json);
    return spsh__cli_finish(rc);
}
