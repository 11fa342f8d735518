/* cmd_audit.c: `speechshard audit`: find utterances of test sets that are in training sets. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "speechshard/decimal.h"
#include "speechshard/io.h"
#include "speechshard/nearest_word.h"
#include "speechshard/options.h"

#include "cli/cli.h"
#include "cli/part.h"
#include "cli/source_fail.h"
#include "commands.h"
#include "common/byte_builder.h"
#include "print/audit_out.h"

/* Values from the command line. */
typedef struct audit_command {
    spsh_cli_texts train, test, limits;
    const char *folder, *alias_path, *work_path, *statement_path, *part;
    int profile;
    bool speed_grid, estimate, json;
    uint64_t memory_bytes, jobs;
    spsh_dedup_sources *sources;
    spsh__builder line; /* command line for the report, see build_line */
    spsh__builder work; /* REPORT.work */
    spsh_progress progress;
} audit_command;

/* ---- limits ---- */

static int unknown_kind(const char *text, size_t bytes)
{
    const char *names[SPSH_LEAK_COUNT + 2] = {NULL};
    char *name = strndup(text, bytes);
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
        names[k] = spsh_leak_text((spsh_leak)k);
    names[SPSH_LEAK_COUNT] = "none";
    if (name == NULL)
        return spsh__cli_fail_memory();
    const char *nearest = spsh_nearest_word(name, strlen(name), names);
    const int rc =
        spsh__cli_usage("audit",
                        "--fail-on %s: kinds are recording, segment, performance, sentence, "
                        "sentence_near, document, source, speaker, none%s%s%s",
                        text, nearest != NULL ? "; did you mean '" : "",
                        nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    free(name);
    return rc;
}

/* KIND[=PERCENT] */
static int take_limit(const char *text, double limits[SPSH_LEAK_COUNT])
{
    const char *equals = strchr(text, '=');
    const size_t bytes = equals != NULL ? (size_t)(equals - text) : strlen(text);
    double percent = 0;
    if (equals != NULL) {
        const size_t size = strlen(equals + 1);
        if (size == 0 || spsh_decimal_scan(equals + 1, size, &percent) != size || percent < 0 ||
            percent > 100)
            return spsh__cli_usage("audit", "--fail-on %s: a percentage is from 0 to 100", text);
    }
    if (equals == NULL && strcmp(text, "none") == 0) {
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
            limits[k] = 2;
        return SPSH_EXIT_DONE;
    }
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        const char *kind = spsh_leak_text((spsh_leak)k);
        if (strlen(kind) == bytes && memcmp(kind, text, bytes) == 0) {
            limits[k] = percent / 100;
            return SPSH_EXIT_DONE;
        }
    }
    return unknown_kind(text, bytes);
}

static int take_limits(const spsh_cli_texts *texts, double limits[SPSH_LEAK_COUNT])
{
    int rc = SPSH_EXIT_DONE;
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++)
        limits[k] = k == SPSH_LEAK_RECORDING || k == SPSH_LEAK_SEGMENT ? 0 : 2;
    for (size_t i = 0; i < texts->count && rc == SPSH_EXIT_DONE; i++)
        rc = take_limit(texts->items[i], limits);
    return rc;
}

/* ---- operands ---- */

static int take_sources(audit_command *c, const spsh_cli_texts *texts, spsh_side side)
{
    spsh_error err = SPSH_ERROR_INIT;
    for (size_t i = 0; i < texts->count; i++) {
        const spsh_status rc =
            spsh_dedup_sources_add(c->sources, texts->items[i], side, NULL, &err);
        if (rc == SPSH_E_INVALID_ARG)
            return spsh__cli_usage("audit", "%s", err.message);
        if (rc != SPSH_OK)
            return spsh__cli_fail(NULL, &err);
    }
    return SPSH_EXIT_DONE;
}

static int compare_texts(const void *left, const void *right)
{
    const char *const *l = left;
    const char *const *r = right;
    return strcmp(*l, *r);
}

static void append_option(spsh__builder *line, const char *name, const spsh_cli_texts *texts)
{
    spsh_cli_texts sorted = *texts;
    qsort(sorted.items, sorted.count, sizeof(sorted.items[0]), compare_texts);
    for (size_t i = 0; i < sorted.count; i++) {
        spsh__builder_append_text(line, " --");
        spsh__builder_append_text(line, name);
        spsh__builder_append_text(line, " ");
        spsh__builder_append_text(line, sorted.items[i]);
    }
}

/* Build the command line for the report: without options that do not affect the result, and with
 * sorted datasets. */
static const char *build_line(audit_command *c)
{
    static const char *const profiles[] = {"default", "cjk", "marks"};
    spsh__builder_append_text(&c->line, "speechshard audit");
    append_option(&c->line, "train", &c->train);
    append_option(&c->line, "test", &c->test);
    for (size_t i = 0; i < c->limits.count; i++) {
        spsh__builder_append_text(&c->line, " --fail-on ");
        spsh__builder_append_text(&c->line, c->limits.items[i]);
    }
    spsh__builder_append_text(&c->line, " --profile ");
    spsh__builder_append_text(&c->line, profiles[c->profile]);
    if (c->alias_path != NULL) {
        spsh__builder_append_text(&c->line, " --aliases ");
        spsh__builder_append_text(&c->line, c->alias_path);
    }
    if (c->speed_grid)
        spsh__builder_append_text(&c->line, " --speed-grid");
    return spsh__builder_text(&c->line);
}

/* Default: REPORT.work, with or without a slash after REPORT. */
static const char *default_work(audit_command *c)
{
    size_t bytes = strlen(c->folder);
    while (bytes > 1 && c->folder[bytes - 1] == '/')
        bytes--;
    spsh__builder_append(&c->work, c->folder, bytes);
    spsh__builder_append_text(&c->work, ".work");
    return spsh__builder_text(&c->work);
}

/* ---- running ---- */

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    audit_command *c = (audit_command *)user;
    spsh__progress_stage(&c->progress, stage, done, total);
    return *spsh__cli_interrupted();
}

static void on_space(void *user, uint64_t temporary_bytes)
{
    const audit_command *c = (const audit_command *)user;
    if (temporary_bytes > 0)
        spsh__cli_message("temporary space: at most %s in %s", SPSH_SHOW_BYTES(temporary_bytes),
                          c->work_path);
}

/* With --json, print only summary.json. */
static int print_summary(const audit_command *c)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__builder path = {0};
    uint8_t *data = NULL;
    size_t bytes = 0;
    spsh__builder_append_text(&path, c->folder);
    spsh__builder_append_part(&path, "summary.json");
    const char *text = spsh__builder_text(&path);
    int rc = SPSH_EXIT_DONE;
    if (text == NULL)
        rc = spsh__cli_fail_memory();
    else if (spsh_io_read_file(spsh_io_default(), text, SIZE_MAX, NULL, &data, &bytes, &err) !=
             SPSH_OK)
        rc = spsh__cli_fail(NULL, &err);
    else
        (void)fwrite(data, 1, bytes, stdout); /* spsh__cli_finish reports a failure */
    free(data);
    spsh__builder_free(&path);
    return rc;
}

static int print_audit(const audit_command *c, const spsh_audit *audit)
{
    int rc = c->json ? print_summary(c) : spsh__audit_print(audit);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    rc = spsh__audit_display(audit);
    spsh__cli_message("report: %s/report.html", c->folder);
    return rc;
}

static int part_done(const spsh_error *err)
{
    spsh__cli_message("%s", err->message);
    return SPSH_EXIT_DONE;
}

static int run_audit(audit_command *c, const spsh_audit_options *options)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_audit *audit = NULL;
    spsh__cli_watch_signals();
    const spsh_status status = spsh_audit_run(c->sources, options, &audit, &err);
    int rc = SPSH_EXIT_FAILED;
    spsh__progress_end(&c->progress);
    if (status == SPSH_OK)
        rc = print_audit(c, audit);
    else if (status == SPSH_E_CANCELED)
        spsh__cli_error("stopped; the finished work is kept, and the same command continues");
    else if (status == SPSH_E_END)
        rc = part_done(&err);
    else
        rc = spsh__source_fail(NULL, c->sources, &err);
    spsh_audit_free(audit);
    return rc;
}

/* ---- checking ---- */

static int check(audit_command *c)
{
    static const spsh_option_name sides[] = {
        {"SPSH_SIDE_TRAIN", "--train"},
        {"SPSH_SIDE_TEST", "--test"},
    };
    const bool has_sources = spsh_dedup_sources_count(c->sources) > 0;
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t files = 0;
    if (spsh_audit_check(c->statement_path, has_sources ? c->sources : NULL, NULL, &files, &err) !=
        SPSH_OK) {
        spsh_options_rename(&err, sides, sizeof(sides) / sizeof(sides[0]));
        return spsh__cli_fail(NULL, &err);
    }
    printf("%s: unchanged, as are %" PRIu64 " files next to it%s\n", c->statement_path, files,
           has_sources ? "; the given datasets are the audited ones"
                       : "; use --train and --test to check the datasets, too");
    return SPSH_EXIT_DONE;
}

static int take_operands(audit_command *c, double limits[SPSH_LEAK_COUNT])
{
    int rc = take_limits(&c->limits, limits);
    if (rc == SPSH_EXIT_DONE && spsh_dedup_sources_new(&c->sources, NULL) != SPSH_OK)
        rc = spsh__cli_fail_memory();
    if (rc == SPSH_EXIT_DONE)
        rc = take_sources(c, &c->train, SPSH_SIDE_TRAIN);
    if (rc == SPSH_EXIT_DONE)
        rc = take_sources(c, &c->test, SPSH_SIDE_TEST);
    return rc;
}

static int run(audit_command *c)
{
    double limits[SPSH_LEAK_COUNT];
    spsh_audit_options options = SPSH_AUDIT_OPTIONS_INIT;
    int rc = spsh__part_take("audit", c->part, &options.part, &options.part_count);
    if (rc == SPSH_EXIT_DONE)
        rc = take_operands(c, limits);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    if (c->statement_path != NULL)
        return check(c);
    if (c->train.count == 0 || c->test.count == 0 || c->folder == NULL)
        return spsh__cli_usage("audit", "%s is missing",
                               c->train.count == 0  ? "--train DATASET[:SPLITS]"
                               : c->test.count == 0 ? "--test DATASET[:SPLITS]"
                                                    : "-o REPORT");
    if (c->work_path == NULL)
        c->work_path = default_work(c);
    options.progress_fn = on_progress;
    options.space_fn = on_space;
    options.user = c;
    options.folder = c->folder;
    options.work_path = c->work_path;
    options.alias_path = c->alias_path;
    options.command = build_line(c);
    options.limits = limits;
    options.limit_count = SPSH_LEAK_COUNT;
    options.memory_bytes = c->memory_bytes;
    options.threads = (uint32_t)c->jobs;
    options.flags = c->speed_grid ? SPSH_AUDIT_SPEED_GRID : 0;
    options.profile = (spsh_text_profile)c->profile;
    if (options.command == NULL || options.work_path == NULL)
        return spsh__cli_fail_memory();
    return c->estimate ? spsh__audit_print_estimate(c->sources, &options, c->json)
                       : run_audit(c, &options);
}

int spsh__cmd_audit(int argc, char **argv)
{
    audit_command c = {.memory_bytes = SPSH_DEDUP_MEMORY_BYTES_DEFAULT};
    const spsh_cli_option options[] = {
        {"train", 0, SPSH_CLI_TEXTS, "DATASET[:SPLITS]",
         "training data; SPLITS are separated by commas (default: all); may be repeated", &c.train,
         0, 0},
        {"test", 0, SPSH_CLI_TEXTS, "DATASET[:SPLITS]",
         "test data; may be repeated, and may be a split of the same dataset", &c.test, 0, 0},
        {"output", 'o', SPSH_CLI_TEXT, "REPORT",
         "directory of the report; an earlier report is replaced", &c.folder, 0, 0},
        {"fail-on", 0, SPSH_CLI_TEXTS, "KIND[=PERCENT]",
         "exit 1 if more than PERCENT (default: 0) of a test split has this kind of leak; 'none' "
         "removes all limits before it; may be repeated (default: recording=0 and segment=0)",
         &c.limits, 0, 0},
        {"profile", 0, SPSH_CLI_CHOICE, "default|cjk|marks",
         "normalization of texts: cjk makes each ideograph a word, marks drops diacritics",
         &c.profile, 0, 0},
        {"aliases", 0, SPSH_CLI_TEXT, "FILE",
         "other names of speakers and documents: lines of a name, a tab, and the name that it "
         "stands for",
         &c.alias_path, 0, 0},
        {"speed-grid", 0, SPSH_CLI_FLAG, NULL,
         "also find audio with a changed speed (0.9, 1.1, ...)", &c.speed_grid, 0, 0},
        {"check", 0, SPSH_CLI_TEXT, "STATEMENT",
         "instead of an audit, check the hashes in a statement.json and, with --train and --test, "
         "that it describes these data",
         &c.statement_path, 0, 0},
        {"memory", 0, SPSH_CLI_SIZE, "SIZE", "memory for joins (default: 4G)", &c.memory_bytes,
         SPSH_DEDUP_MEMORY_BYTES_MIN, 0},
        {"work", 0, SPSH_CLI_TEXT, "DIR",
         "directory for intermediate files, removed at the end (default: REPORT.work)",
         &c.work_path, 0, 0},
        {"jobs", 'j', SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &c.jobs, 1,
         SPSH_DEDUP_THREADS_MAX},
        {"part", 0, SPSH_CLI_TEXT, "I/N",
         "do the share of machine I (from 0) of N machines that share DIR; the same command "
         "without --part then writes the report" SPSH_PART_AUTO_HELP,
         &c.part, 0, 0},
        {"estimate", 0, SPSH_CLI_FLAG, NULL,
         "print the estimated time and space, and write nothing", &c.estimate, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print summary.json instead of tables", &c.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "audit",
        "",
        "--train DATASET[:SPLITS]... --test DATASET[:SPLITS]... -o REPORT [options]\n"
        "--check STATEMENT [--train ... --test ...]\n",
        "find test data in the training data",
        "Compares every test utterance with all of train: audio (the same recording, a part of "
        "one, the same performance), sentences, documents, sources, and speakers. Prints how much "
        "of each test split leaks, and writes a report with the ids of the utterances that do not "
        "leak. Changes no dataset. Exit status: 0 within all limits, 1 a limit is exceeded or the "
        "audit failed.",
        "speechshard audit --train a.spsh:train --train b.spsh --test a.spsh:test,dev -o audit\n"
        "speechshard audit --train a.spsh:train --test a.spsh:test -o audit --fail-on sentence=5\n"
        "speechshard audit --check audit/statement.json --train a.spsh:train --test a.spsh:test\n",
        options,
    };
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    rc = run(&c);
    spsh_dedup_sources_free(c.sources);
    spsh__builder_free(&c.line);
    spsh__builder_free(&c.work);
    return spsh__cli_finish(rc);
}
