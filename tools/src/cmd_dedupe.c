/* cmd_dedupe.c: `speechshard dedupe`: find copies and write a plan. Changes no dataset. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/part.h"
#include "cli/source_fail.h"
#include "commands.h"
#include "common/page.h"
#include "print/dedupe_out.h"
#include "speechshard/cores.h"

typedef struct dedupe_command {
    const char *plan_path, *html_path, *work_path, *drop_from, *part_text;
    spsh_cli_texts prefer;
    int search, keep, contained;
    uint64_t memory_bytes, jobs;
    bool exact_only, speed_grid, confirm, estimate, json;
    spsh_dedup_sources *sources;
    spsh__builder command;   /* command line as typed */
    spsh__builder work;      /* the default path */
    spsh__builder preferred; /* const char * each, from malloc */
    char *temporary;         /* directory that only this run uses, or NULL */
    spsh_progress progress;
} dedupe_command;

/* ---- callbacks of the run ---- */

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    dedupe_command *c = (dedupe_command *)user;
    spsh__progress_stage(&c->progress, stage, done, total);
    return *spsh__cli_interrupted();
}

static void on_space(void *user, uint64_t temporary_bytes)
{
    const dedupe_command *c = (const dedupe_command *)user;
    if (temporary_bytes == 0)
        spsh__cli_message("uses at most %s of memory", SPSH_SHOW_BYTES(c->memory_bytes));
    else
        spsh__cli_message("uses at most %s of memory and, during the run, up to %s of disk in %s",
                          SPSH_SHOW_BYTES(c->memory_bytes), SPSH_SHOW_BYTES(temporary_bytes),
                          c->work_path);
}

/* ---- arguments ---- */

/* Resolve links and dots, so that a plan finds its datasets from any working directory. */
static char *real_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real == NULL)
        spsh__cli_error("%s: %s", path, strerror(errno));
    return real;
}

static int add_real(dedupe_command *c, const spsh_dedup_source *given)
{
    spsh__builder whole = {0};
    spsh_error err = SPSH_ERROR_INIT;
    char *real = real_path(given->path);
    int rc = SPSH_EXIT_DONE;
    if (real == NULL)
        return SPSH_EXIT_FAILED;
    spsh__builder_append_text(&whole, real);
    if (given->splits != NULL) {
        spsh__builder_append_text(&whole, ":");
        spsh__builder_append_text(&whole, given->splits);
    }
    const char *text = spsh__builder_text(&whole);
    if (text == NULL)
        rc = spsh__cli_fail_memory();
    else if (spsh_dedup_sources_add(c->sources, text, SPSH_SIDE_TRAIN, NULL, &err) != SPSH_OK)
        rc = spsh__cli_fail("dedupe", &err);
    free(real);
    spsh__builder_free(&whole);
    return rc;
}

static int take_source(dedupe_command *c, const char *operand)
{
    spsh_dedup_sources *given = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    int rc = SPSH_EXIT_DONE;
    spsh_status status = spsh_dedup_sources_new(&given, &err);
    if (status == SPSH_OK)
        status = spsh_dedup_sources_add(given, operand, SPSH_SIDE_TRAIN, NULL, &err);
    if (status == SPSH_E_INVALID_ARG)
        rc = spsh__cli_usage("dedupe", "%s", err.message);
    else if (status != SPSH_OK)
        rc = spsh__cli_fail("dedupe", &err);
    else
        rc = add_real(c, spsh_dedup_sources_get(given, 0));
    spsh_dedup_sources_free(given);
    return rc;
}

static int take_prefer(dedupe_command *c)
{
    for (size_t i = 0; i < c->prefer.count; i++) {
        bool is_there = false;
        char *real = real_path(c->prefer.items[i]);
        if (real == NULL)
            return SPSH_EXIT_FAILED;
        for (size_t k = 0; k < spsh_dedup_sources_count(c->sources); k++)
            is_there = is_there || strcmp(spsh_dedup_sources_get(c->sources, k)->path, real) == 0;
        spsh__builder_append(&c->preferred, &real, sizeof(real));
        if (c->preferred.failed) {
            free(real);
            return spsh__cli_fail_memory();
        }
        if (!is_there)
            return spsh__cli_usage("dedupe", "--prefer %s: not one of the given datasets",
                                   c->prefer.items[i]);
    }
    if (c->prefer.count > SPSH_DEDUPE_PREFER_MAX)
        return spsh__cli_usage("dedupe", "--prefer is given more than %d times",
                               SPSH_DEDUPE_PREFER_MAX);
    return SPSH_EXIT_DONE;
}

/* Create a work directory that is removed after the run. */
static int make_temporary(dedupe_command *c)
{
    spsh__builder_append_text(&c->work, "/speechshard-XXXXXX");
    const char *text = spsh__builder_text(&c->work);
    char *path = text == NULL ? NULL : strdup(text);
    if (path == NULL)
        return spsh__cli_fail_memory();
    if (mkdtemp(path) == NULL) {
        spsh__cli_error("%s: %s", path, strerror(errno));
        free(path);
        return SPSH_EXIT_FAILED;
    }
    c->temporary = path;
    spsh__builder_clear(&c->work);
    spsh__builder_append_text(&c->work, path);
    spsh__builder_append_text(&c->work, "/work");
    return SPSH_EXIT_DONE;
}

/* Put the work directory next to the plan, or where temporary files go. Estimates only name it. */
static int settle_work(dedupe_command *c)
{
    int rc = SPSH_EXIT_DONE;
    if (c->work_path != NULL)
        return rc;
    if (c->plan_path != NULL) {
        spsh__builder_append_text(&c->work, c->plan_path);
        spsh__builder_append_text(&c->work, ".work");
    } else {
        const char *root = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): before threads */
        spsh__builder_append_text(&c->work, root == NULL || root[0] == '\0' ? "/tmp" : root);
        if (!c->estimate)
            rc = make_temporary(c);
    }
    c->work_path = spsh__builder_text(&c->work);
    return rc == SPSH_EXIT_DONE && c->work_path == NULL ? spsh__cli_fail_memory() : rc;
}

static int check_arguments(const dedupe_command *c)
{
    if (c->part_text != NULL && c->plan_path == NULL && c->work_path == NULL)
        return spsh__cli_usage("dedupe",
                               "--part needs -o PLAN or --work DIR, which the parts share");
    if (c->exact_only && (c->speed_grid || c->search != 0))
        return spsh__cli_usage(
            "dedupe", "--exact-only compares no audio, so it excludes --search and --speed-grid");
    return SPSH_EXIT_DONE;
}

/* ---- the command ---- */

static int print_dedupe(const dedupe_command *c, const spsh_dedupe_options *options,
                        const spsh_dedupe_result *d)
{
    if (c->json)
        return spsh__dedupe_print_json(options, d);
    spsh__dedupe_print(options, d);
    return SPSH_EXIT_DONE;
}

static int find(dedupe_command *c, const spsh_dedupe_options *options)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dedupe_result *d = NULL;
    int rc = SPSH_EXIT_FAILED;
    spsh__cli_watch_signals();
    const spsh_status status = spsh_dedupe_run(c->sources, options, &d, &err);
    spsh__progress_end(&c->progress);
    if (status == SPSH_OK) {
        rc = print_dedupe(c, options, d);
    } else if (status == SPSH_E_CANCELED && c->temporary == NULL) {
        spsh__cli_error("stopped; the finished work is kept in %s, and the same command continues",
                        options->work_path);
    } else if (status == SPSH_E_CANCELED) {
        spsh__cli_error("stopped; with -o PLAN or --work DIR the same command would continue");
    } else if (status == SPSH_E_END) {
        spsh__cli_message("%s", err.message);
        rc = SPSH_EXIT_DONE;
    } else {
        rc = spsh__source_fail("dedupe", c->sources, &err);
    }
    spsh_dedupe_result_free(d);
    if (c->temporary != NULL)
        (void)rmdir(c->temporary);
    return rc;
}

static int take_options(dedupe_command *c, spsh_dedupe_options *o)
{
    static const spsh_dedupe_search searches[] = {SPSH_SEARCH_AUTO, SPSH_SEARCH_MILD,
                                                  SPSH_SEARCH_DEEP};
    o->progress_fn = on_progress;
    o->space_fn = on_space;
    o->user = c;
    o->plan_path = c->plan_path;
    o->html_path = c->html_path;
    o->drop_from = c->drop_from;
    o->memory_bytes = c->memory_bytes;
    o->threads = c->jobs != 0 ? (uint32_t)c->jobs : spsh_core_count(SPSH_DEDUP_THREADS_MAX);
    o->search = searches[c->search];
    o->keep = (spsh_dedupe_keep)c->keep;
    o->contained = (spsh_dedupe_contained)c->contained;
    o->flags = (c->exact_only ? SPSH_DEDUPE_EXACT_ONLY : 0) |
               (c->speed_grid ? SPSH_DEDUPE_SPEED_GRID : 0) |
               (c->confirm ? SPSH_DEDUPE_CONFIRM : 0);
    return spsh__part_take("dedupe", c->part_text, &o->part, &o->part_count);
}

static int run(dedupe_command *c, const spsh_cli_args *args)
{
    spsh_dedupe_options options = SPSH_DEDUPE_OPTIONS_INIT;
    int rc = check_arguments(c);
    if (rc == SPSH_EXIT_DONE)
        rc = take_options(c, &options);
    if (rc == SPSH_EXIT_DONE && spsh_dedup_sources_new(&c->sources, NULL) != SPSH_OK)
        rc = spsh__cli_fail_memory();
    for (int i = 0; i < args->operand_count && rc == SPSH_EXIT_DONE; i++)
        rc = take_source(c, args->operands[i]);
    if (rc == SPSH_EXIT_DONE)
        rc = take_prefer(c);
    if (rc == SPSH_EXIT_DONE)
        rc = settle_work(c);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    options.flags |= c->temporary != NULL ? SPSH_DEDUPE_DISCARD_WORK : 0;
    options.work_path = c->work_path;
    options.command = spsh__builder_text(&c->command);
    options.prefer = (const char *const *)(void *)c->preferred.data;
    options.prefer_count = c->prefer.count;
    if (options.command == NULL)
        return spsh__cli_fail_memory();
    return c->estimate ? spsh__dedupe_print_estimate(c->sources, &options, c->json)
                       : find(c, &options);
}

static void free_command(dedupe_command *c)
{
    char **preferred = (char **)(void *)c->preferred.data;
    for (size_t i = 0; i < c->preferred.size_bytes / sizeof(*preferred); i++)
        free(preferred[i]);
    spsh__builder_free(&c->preferred);
    spsh_dedup_sources_free(c->sources);
    spsh__builder_free(&c->command);
    spsh__builder_free(&c->work);
    free(c->temporary);
}

int spsh__cmd_dedupe(int argc, char **argv)
{
    dedupe_command c = {.memory_bytes = SPSH_DEDUP_MEMORY_BYTES_DEFAULT};
    const spsh_cli_option options[] = {
        {"output", 'o', SPSH_CLI_TEXT, "PLAN",
         "plan to write, as JSON lines (default: only print the result)", &c.plan_path, 0, 0},
        {"html", 0, SPSH_CLI_TEXT, "FILE", "write a page with clusters, pictures, and evidence",
         &c.html_path, 0, 0},
        {"search", 0, SPSH_CLI_CHOICE, "auto|mild|deep",
         "mild: find copies through common codecs, trims, and filters; deep: also short clips and "
         "strong distortions (GSM, Opus at 10 kbit/s), which takes longer; auto: choose by the "
         "material and its size (default: auto)",
         &c.search, 0, 0},
        {"exact-only", 0, SPSH_CLI_FLAG, NULL, "only equal bytes and samples", &c.exact_only, 0, 0},
        {"keep", 0, SPSH_CLI_CHOICE, "best|first|longest",
         "which copy to keep; best: compare losslessness, bandwidth, bit rate, length, transcript, "
         "and clipping, in this order (default: best)",
         &c.keep, 0, 0},
        {"prefer", 0, SPSH_CLI_TEXTS, "DATASET",
         "prefer to keep copies in this dataset; may be repeated", &c.prefer, 0, 0},
        {"drop-from", 0, SPSH_CLI_TEXT, "SPLITS",
         "drop utterances only from these splits, separated by commas (default: all)", &c.drop_from,
         0, 0},
        {"contained", 0, SPSH_CLI_CHOICE, "tag|keep-long|keep-part",
         "for a recording inside a longer one: only report it, drop the part, or drop the whole if "
         "parts contain all of its speech (default: tag)",
         &c.contained, 0, 0},
        {"speed-grid", 0, SPSH_CLI_FLAG, NULL,
         "also find copies at 0.9, 0.95, 1.05, and 1.1 times the speed; they are reported, never "
         "dropped; decodes everything again",
         &c.speed_grid, 0, 0},
        {"confirm", 0, SPSH_CLI_FLAG, NULL, "compare all bytes of exact copies", &c.confirm, 0, 0},
        {"memory", 0, SPSH_CLI_SIZE, "SIZE", "memory for sorting and joining (default: 4G)",
         &c.memory_bytes, SPSH_DEDUP_MEMORY_BYTES_MIN, 0},
        {"work", 0, SPSH_CLI_TEXT, "DIR", "directory for intermediate files (default: PLAN.work)",
         &c.work_path, 0, 0},
        {"jobs", 'j', SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &c.jobs, 1,
         SPSH_DEDUP_THREADS_MAX},
        {"part", 0, SPSH_CLI_TEXT, "I/N",
         "do the share of machine I (from 0) of N machines that share DIR" SPSH_PART_AUTO_HELP,
         &c.part_text, 0, 0},
        {"estimate", 0, SPSH_CLI_FLAG, NULL,
         "print the estimated time and space, and write nothing", &c.estimate, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print the summary as JSON", &c.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "dedupe",
        "DATASET...",
        "DATASET[:SPLITS]... [-o PLAN] [options]\n",
        "find copies, in one dataset or across several",
        "Writes a plan of the utterances to skip, with the reasons; `speechshard apply` applies "
        "it. Makes missing fingerprints first. After an interruption, the same command continues. "
        "It does not find clips below 0.36 s with different samples, copies with other speeds or "
        "pitches, or speech under louder speech or music. Copies through neural codecs are "
        "reported, never dropped.",
        "speechshard dedupe corpus.spsh -o plan.jsonl --html plan.html\n"
        "speechshard dedupe corpus.spsh:train crawl.spsh -o plan.jsonl --prefer corpus.spsh\n"
        "speechshard dedupe corpus.spsh -o plan.jsonl --drop-from train\n"
        "speechshard apply plan.jsonl\n",
        options,
    };
    spsh_cli_args args;
    spsh__builder_append_text(&c.command, "speechshard");
    for (int i = 0; i < argc; i++)
        spsh__page_word(&c.command, argv[i]);
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc == SPSH_CLI_RUN)
        rc = spsh__cli_finish(run(&c, &args));
    free_command(&c);
    return rc;
}
