/* cmd_pack.c: `speechshard pack`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "commands.h"
#include "ingest/layouts/layouts.h"
#include "ingest/metadata/table.h"
#include "pack_run.h"
#include "report/pack_report.h"
#include "speechshard/cores.h"
#include "speechshard/decimal.h"
#include "speechshard/nearest_word.h"

#define SHARD_BYTES_DEFAULT  (UINT64_C(1) << 30)
#define SHARD_BYTES_MIN      (UINT64_C(64) << 10)
#define SHARD_BYTES_MAX      (UINT64_C(1) << 40)
#define MEMORY_BYTES_DEFAULT (UINT64_C(256) << 20)
#define MEMORY_BYTES_MIN     (UINT64_C(16) << 20)
#define REJECTS_MAX_PPM      UINT64_C(10000)
#define JOBS_MAX             1024U
#define LAYOUTS_MAX          ((size_t)64)

/* The progress line follows the phases. */
typedef struct pack_view {
    spsh_progress line;
    const char *phase;
} pack_view;

static int on_progress(void *user, const spsh__pack_progress *progress)
{
    pack_view *view = (pack_view *)user;
    char text[96];
    char done[SPSH_HUMAN_BYTES];
    char rejects[SPSH_HUMAN_BYTES];

    if (view->phase == NULL || strcmp(view->phase, progress->phase) != 0) {
        if (view->phase != NULL)
            spsh__progress_end(&view->line);
        view->phase = progress->phase;
        bool bytes = progress->total_bytes != 0;
        spsh__progress_begin(&view->line, progress->phase, bytes ? "B" : "files",
                             progress->total_bytes);
    }
    (void)snprintf(text, sizeof(text), "%s utterances, %s rejected",
                   spsh__human_count(progress->done_items, done),
                   spsh__human_count(progress->reject_rows, rejects));
    bool in_bytes = progress->total_bytes != 0;
    spsh__progress_update(&view->line, in_bytes ? progress->done_bytes : progress->done_items,
                          in_bytes && progress->total_items != 0 ? text : NULL);
    return *spsh__cli_interrupted();
}

/* "5%", "0.5 %", "5": percent, as millionths. */
static bool parse_percent(const char *text, uint64_t *ret_ppm)
{
    double percent = 0;
    const char *end = text + spsh_decimal_scan(text, strlen(text), &percent);
    if (end == text)
        return false;
    while (*end == ' ' || *end == '%')
        end++;
    if (*end != '\0' || !(percent >= 0 && percent <= 100))
        return false;
    *ret_ppm = (uint64_t)(percent * 1e4 + 0.5);
    return true;
}

typedef struct pack_arguments {
    const char *output;
    const char *layout;
    const char *domain;
    const char *split;
    const char *rejects_max;
    spsh_cli_texts columns;
    int split_from; /* 0: names, 1: none */
    int codec;      /* -1: not given */
    int dedupe;     /* -1: not given */
    int order;
    int wds_key;
    uint64_t rate_hz;
    uint64_t shard_bytes;
    uint64_t memory_bytes;
    uint64_t jobs;
    bool trust_headers;
    bool follow_links;
    bool strict;
    bool json;
} pack_arguments;

/* Options that depend on each other; SPSH_CLI_RUN when they agree. */
static int settle(const pack_arguments *a, spsh__pack_options *options)
{
    options->rejects_max_ppm = REJECTS_MAX_PPM;
    if (a->output == NULL)
        return spsh__cli_usage("pack", "the output is missing: -o DATASET");
    if (a->rejects_max != NULL && !parse_percent(a->rejects_max, &options->rejects_max_ppm))
        return spsh__cli_usage(
            "pack", "--max-rejects %s: a percentage from 0 to 100, such as 2.5%%", a->rejects_max);
    if (a->rate_hz != 0 && a->codec == SPSH__PACK_KEEP)
        return spsh__cli_usage("pack", "--rate changes the audio, --codec keep keeps the files; "
                                       "use --codec pcm or --codec flac");
    if (a->trust_headers && (a->rate_hz != 0 || a->codec > SPSH__PACK_KEEP))
        return spsh__cli_usage("pack", "--trust-headers does not decode, so it goes with --codec "
                                       "keep only");
    if (a->layout != NULL && spsh__layout_find(a->layout) == NULL) {
        const char *names[LAYOUTS_MAX] = {NULL};
        for (size_t i = 0; spsh__layouts[i] != NULL && i + 1 < LAYOUTS_MAX; i++)
            names[i] = spsh__layouts[i]->name;
        const char *near = spsh_nearest_word(a->layout, strlen(a->layout), names);
        return spsh__cli_usage("pack", "--layout %s: no such layout; %s%s%s", a->layout,
                               near != NULL ? "did you mean " : "`--layout list` prints them",
                               near != NULL ? near : "", near != NULL ? "?" : "");
    }
    for (size_t i = 0; i < a->columns.count; i++) {
        spsh__column_role role;
        const char *name;
        if (!spsh__column_rule_parse(a->columns.items[i], &role, &name))
            return spsh__cli_usage("pack",
                                   "--column %s: write FIELD=NAME, such as text=class; "
                                   "FIELD is audio, text, id, speaker, language, domain, "
                                   "split, start, end or duration",
                                   a->columns.items[i]);
    }
    if (a->codec >= 0)
        options->codec = (spsh__pack_codec)a->codec;
    else
        options->codec = a->rate_hz != 0 ? SPSH__PACK_PCM : SPSH__PACK_KEEP;
    if (a->dedupe >= 0)
        options->dedupe = (spsh_dedupe)a->dedupe;
    else /* `keep` promises every source's bytes: only equal bytes may share them */
        options->dedupe = options->codec == SPSH__PACK_KEEP ? SPSH_DEDUPE_BYTES : SPSH_DEDUPE_PCM;
    return SPSH_CLI_RUN;
}

static void fill(const pack_arguments *a, spsh__pack_options *options)
{
    options->output = a->output;
    options->layout = a->layout;
    options->domain_rule = a->domain;
    options->split_filter = a->split;
    options->columns = a->columns.items;
    options->column_count = a->columns.count;
    options->no_split_names = a->split_from == 1;
    options->source_order = a->order == 1;
    options->trust_headers = a->trust_headers;
    options->follow_links = a->follow_links;
    options->key_to_last_dot = a->wds_key == 1;
    options->rate_hz = (uint32_t)a->rate_hz;
    options->shard_bytes = a->shard_bytes;
    options->memory_bytes = a->memory_bytes;
    options->jobs = a->jobs != 0 ? (uint32_t)a->jobs : spsh_core_count(64);
    options->strict = a->strict;
    options->io = spsh_io_default();
    options->log_fn = spsh__cli_log;
    options->progress_fn = on_progress;
}

static int tell_result(const spsh__pack_options *options, const spsh__pack_result *result,
                       bool json)
{
    char rows[SPSH_HUMAN_BYTES];
    uint64_t rejected = spsh__reject_rows(&result->rejects);

    if (result->already_packed) {
        spsh__cli_message("%s: packed already from the same list of files with the same options; "
                          "nothing to do",
                          options->output);
        return SPSH_EXIT_DONE;
    }
    if (json && !result->withheld)
        spsh__report_print_json(stdout, options->output);
    else
        spsh__report_print(stdout, options, result);
    if (rejected > 0)
        spsh__cli_message("%s %s left out: %s/reports/rejects.jsonl says which and why",
                          spsh__human_count(rejected, rows),
                          rejected == 1 ? "row was" : "rows were", options->output);
    if (result->withheld)
        spsh__cli_error("%s: not published, since --strict allows no rejects; without it the same "
                        "command publishes what is packed; after mending the corpus, remove %s "
                        "first",
                        options->output, options->output);
    else if (result->too_many_rejects)
        spsh__cli_error("%s: published, but more rows were left out than --max-rejects allows",
                        options->output);
    return result->withheld || result->too_many_rejects ? SPSH_EXIT_FAILED : SPSH_EXIT_DONE;
}

/* Corpora as absolute paths, so that an interrupted pack can go on from any directory. */
static int resolve_corpora(const spsh_cli_args *args, char **ret_paths)
{
    for (int i = 0; i < args->operand_count; i++) {
        bool is_stdin = strcmp(args->operands[i], "-") == 0;
        if (is_stdin && args->operand_count > 1)
            return spsh__cli_usage("pack", "\"-\" is packed by itself");
        ret_paths[i] = is_stdin ? strdup("-") : realpath(args->operands[i], NULL);
        if (ret_paths[i] == NULL) {
            spsh__cli_error("%s: %s", args->operands[i], strerror(errno));
            return SPSH_EXIT_FAILED;
        }
    }
    return SPSH_CLI_RUN;
}

static int run(const spsh_cli_args *args, const pack_arguments *a, spsh__pack_options *options)
{
    pack_view view = {.phase = NULL};
    spsh__pack_result result = {0};
    spsh_error err = SPSH_ERROR_INIT;
    char **corpora = (char **)calloc((size_t)args->operand_count + 1, sizeof(*corpora));
    int rc = corpora == NULL ? spsh__cli_fail_memory() : resolve_corpora(args, corpora);

    if (rc == SPSH_CLI_RUN) {
        fill(a, options);
        options->corpora = (const char *const *)corpora;
        options->corpus_count = (size_t)args->operand_count;
        options->user = &view;
        spsh__cli_watch_signals();
        spsh_status status = spsh__pack(options, &result, &err);
        if (view.phase != NULL)
            spsh__progress_end(&view.line);
        rc =
            status == SPSH_OK ? tell_result(options, &result, a->json) : spsh__cli_fail(NULL, &err);
    }
    spsh__pack_result_free(&result);
    for (int i = 0; corpora != NULL && i < args->operand_count; i++)
        free(corpora[i]);
    free(corpora);
    return spsh__cli_finish(rc);
}

static int list_layouts(void)
{
    for (size_t i = 0; spsh__layouts[i] != NULL; i++)
        (void)printf("%-26s %s\n", spsh__layouts[i]->name, spsh__layouts[i]->summary);
    return spsh__cli_finish(SPSH_EXIT_DONE);
}

static int start(const pack_arguments *a, const spsh_cli_args *args)
{
    spsh__pack_options pack = {0};
    if (a->layout != NULL && strcmp(a->layout, "list") == 0)
        return list_layouts();
    if (args->operand_count == 0)
        return spsh__cli_usage("pack", "a corpus is missing: a folder, an archive or a manifest");
    const int rc = settle(a, &pack);
    return rc != SPSH_CLI_RUN ? rc : run(args, a, &pack);
}

int spsh__cmd_pack(int argc, char **argv)
{
    pack_arguments a = {.codec = -1,
                        .dedupe = -1,
                        .shard_bytes = SHARD_BYTES_DEFAULT,
                        .memory_bytes = MEMORY_BYTES_DEFAULT};
    const spsh_cli_option options[] = {
        {"output",        'o', SPSH_CLI_TEXT,   "DATASET",            "the directory to make",                           &a.output,        0,                0              },
        {"layout",        0,   SPSH_CLI_TEXT,   "LAYOUT",             "do not detect; `--layout list` prints the names",
         &a.layout,                                                                                                                        0,                0              },
        {"codec",         0,   SPSH_CLI_CHOICE, "keep|flac|pcm",
         "keep: the files as they are (default); flac: encode what is not;\n"
         "pcm: lossless int16, decodes over ten times faster than flac",                                                 &a.codec,         0,                0              },
        {"dedupe",        0,   SPSH_CLI_CHOICE, "none|bytes|pcm",
         "store equal files (bytes), or equal audio (pcm), once; default: bytes\n"
         "with --codec keep, else pcm",                                                                                  &a.dedupe,        0,                0              },
        {"rate",          0,   SPSH_CLI_COUNT,  "HZ",                 "resample everything; implies --codec pcm",        &a.rate_hz,
         1000,                                                                                                                                               768000         },
        {"order",         0,   SPSH_CLI_CHOICE, "hash|source",
         "hash: neighbours in a shard are strangers (default); source: as found",                                        &a.order,         0,                0              },
        {"domain",        0,   SPSH_CLI_TEXT,   "RULE",
         "NAME, dir:N (N-th directory, -1 is the file's own) or column:NAME",                                            &a.domain,        0,                0              },
        {"column",        0,   SPSH_CLI_TEXTS,  "FIELD=NAME",
         "read FIELD of a table from the column NAME; FIELD is audio, text, id,\n"
         "speaker, language, domain, split, start, end or duration; may be repeated",                                    &a.columns,       0,                0              },
        {"split-from",    0,   SPSH_CLI_CHOICE, "name|none",
         "name: several tables called like splits (train.csv, test.csv) give their\n"
         "rows these splits unless one has a split column (default); none: no split",                                    &a.split_from,    0,                0              },
        {"split",         0,   SPSH_CLI_TEXT,   "S,...",              "pack these splits only",                          &a.split,         0,                0              },
        {"shard-size",    0,   SPSH_CLI_SIZE,   "SIZE",               "of a shard file; default 1G",                     &a.shard_bytes,
         SHARD_BYTES_MIN,                                                                                                                                    SHARD_BYTES_MAX},
        {"trust-headers", 0,   SPSH_CLI_FLAG,   NULL,
         "believe lengths in file headers instead of decoding; faster, checks less",                                     &a.trust_headers, 0,                0              },
        {"wds-key",       0,   SPSH_CLI_CHOICE, "first-dot|last-dot",
         "of WebDataset, a member's key ends at the first dot of its name (default)\n"
         "or at the last",                                                                                               &a.wds_key,       0,                0              },
        {"follow-links",  0,   SPSH_CLI_FLAG,   NULL,                 "enter symbolic links to directories",
         &a.follow_links,                                                                                                                  0,                0              },
        {"strict",        0,   SPSH_CLI_FLAG,   NULL,                 "publish nothing if a row is left out",            &a.strict,        0,                0              },
        {"max-rejects",   0,   SPSH_CLI_TEXT,   "PERCENT",
         "more rows left out make the exit status 1; default 1% (20% for audio\n"
         "that is not there), and never fewer than 17",                                                                  &a.rejects_max,   0,                0              },
        {"jobs",          'j', SPSH_CLI_COUNT,  "N",                  "threads; default: one a core",                    &a.jobs,          1,                JOBS_MAX       },
        {"memory",        0,   SPSH_CLI_SIZE,   "SIZE",               "for audio in flight and sorting; default 256M",
         &a.memory_bytes,                                                                                                                  MEMORY_BYTES_MIN, 0              },
        {"json",          0,   SPSH_CLI_FLAG,   NULL,                 "print the report as JSON",                        &a.json,          0,                0              },
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "pack",
        "[CORPUS...]",
        "CORPUS... -o DATASET [options]",
        "pack speech corpora into a dataset of checksummed shards",
        "CORPUS is a folder, an archive (tar, tar.gz, tar.xz, zip ...), a manifest, or '-' for an\n"
        "archive on standard input. Of a manifest's folder, pack takes only what the manifest\n"
        "names. What CORPUS is - Common Voice, MLS, Kaldi, Lhotse, a table, plain audio with\n"
        "texts ... - is found out and said; several corpora in one folder are packed together.\n"
        "The same input and options give the same bytes. A pack that was interrupted goes on\n"
        "when the command is repeated.",
        "speechshard pack LibriSpeech/ -o libri.spsh\n"
        "speechshard pack cv-corpus-25.0-2026-03-09-de.tar.gz -o cv-de.spsh\n"
        "speechshard pack manifest.tsv -o corpus.spsh --codec pcm --rate 16000\n"
        "speechshard pack de/ fr/ it/ -o three.spsh --domain dir:-1\n",
        options};
    spsh_cli_args args;

    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc != SPSH_CLI_RUN ? rc : start(&a, &args);
}
