/* cmd_pack.c: `speechshard pack`. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/part.h"
#include "commands.h"
#include "print/launch_out.h"
#include "print/pack_out.h"
#include "print/pack_view.h"
#include "speechshard/decimal.h"
#include "speechshard/nearest_word.h"
#include "speechshard/options.h"

#define LAYOUTS_MAX ((size_t)64)

/* Parse a percentage such as "5%", "0.5 %", or "5" as millionths. */
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

enum { CHOICE_DEFAULT = -1, CODEC_KEEP = 0 };

typedef struct pack_arguments {
    const char *output;
    const char *layout;
    const char *domain;
    const char *split;
    const char *rejects_max;
    spsh_cli_texts columns;
    int split_from; /* 0: names, 1: none */
    int codec;      /* keep, flac, pcm; CHOICE_DEFAULT: not given */
    int dedupe;     /* none, bytes, pcm; CHOICE_DEFAULT: not given */
    int order;
    int wds_key;
    int decoder; /* 0: builtin, 1: ffmpeg */
    int print_launch;
    uint64_t rate_hz;
    uint64_t shard_bytes;
    uint64_t memory_bytes;
    uint64_t jobs;
    const char *part_text;
    uint64_t part;
    uint64_t part_count;
    uint64_t lease_s;
    bool plan_only;
    bool merge;
    bool trust_headers;
    bool follow_links;
    bool strict;
    bool json;
} pack_arguments;

static bool is_layout(const char *name)
{
    for (size_t i = 0; i < spsh_pack_layout_count(); i++)
        if (strcmp(name, spsh_pack_layout_name(i)) == 0)
            return true;
    return false;
}

/* Check the options of a pack on many machines. */
static int settle_part(pack_arguments *a)
{
    if (a->plan_only && a->part_text != NULL)
        return spsh__cli_usage("pack", "--plan-only packs nothing, so it excludes --part");
    if (a->merge && a->part_text == NULL)
        return spsh__cli_usage("pack", "--merge needs --part; without --part a pack always merges");
    if (a->part_text == NULL)
        return SPSH_CLI_RUN;
    const int rc = spsh__part_take("pack", a->part_text, &a->part, &a->part_count);
    return rc == SPSH_EXIT_DONE ? SPSH_CLI_RUN : rc;
}

/* Check options that depend on each other. Returns SPSH_CLI_RUN if they are consistent. */
static int settle(const pack_arguments *a, spsh_pack_options *options)
{
    if (a->output == NULL)
        return spsh__cli_usage("pack", "the output is missing: -o DATASET");
    if (a->rejects_max != NULL && !parse_percent(a->rejects_max, &options->rejects_max_ppm))
        return spsh__cli_usage("pack",
                               "--max-rejects %s: not a percentage from 0 to 100, such as 2.5%%",
                               a->rejects_max);
    if (a->rejects_max != NULL && options->rejects_max_ppm == 0)
        options->rejects_max_ppm = SPSH_PACK_REJECTS_NONE;
    if (a->rate_hz != 0 && a->codec == CODEC_KEEP)
        return spsh__cli_usage("pack", "--rate changes the audio, but --codec keep stores the "
                                       "source files; use --codec pcm or --codec flac");
    if (a->trust_headers && (a->rate_hz != 0 || a->codec > CODEC_KEEP))
        return spsh__cli_usage(
            "pack",
            "--trust-headers does not decode audio, so it needs --codec keep and excludes --rate");
    if (a->layout != NULL && !is_layout(a->layout)) {
        const char *names[LAYOUTS_MAX] = {NULL};
        for (size_t i = 0; i < spsh_pack_layout_count() && i + 1 < LAYOUTS_MAX; i++)
            names[i] = spsh_pack_layout_name(i);
        const char *near = spsh_nearest_word(a->layout, strlen(a->layout), names);
        return spsh__cli_usage("pack", "--layout %s: no such layout; %s%s%s", a->layout,
                               near != NULL ? "did you mean " : "`--layout list` prints them",
                               near != NULL ? near : "", near != NULL ? "?" : "");
    }
    for (size_t i = 0; i < a->columns.count; i++) {
        if (!spsh_pack_column_is_valid(a->columns.items[i]))
            return spsh__cli_usage(
                "pack",
                "--column %s: not FIELD=NAME, such as text=class; FIELD is audio, text, id, "
                "speaker, language, domain, split, start, end, or duration",
                a->columns.items[i]);
    }
    return SPSH_CLI_RUN;
}

static void fill(const pack_arguments *a, spsh_pack_options *options)
{
    options->output = a->output;
    options->layout_name = a->layout;
    options->domain_rule = a->domain;
    options->split_filter = a->split;
    options->column_rules = a->columns.items;
    options->column_rule_count = a->columns.count;
    /* The choices are in the order of the enums, which begin with the default. */
    options->codec = (spsh_pack_codec)(a->codec + 1);
    options->dedupe = (spsh_pack_dedupe)(a->dedupe + 1);
    options->ignores_split_names = a->split_from == 1;
    options->keeps_source_order = a->order == 1;
    options->trusts_headers = a->trust_headers;
    options->follows_links = a->follow_links;
    options->has_keys_to_last_dot = a->wds_key == 1;
    options->is_strict = a->strict;
    options->rate_hz = (uint32_t)a->rate_hz;
    options->shard_bytes = a->shard_bytes;
    options->memory_bytes = a->memory_bytes;
    options->threads = (uint32_t)a->jobs;
    options->is_part = a->part_text != NULL;
    options->is_plan_only = a->plan_only;
    options->merges_parts = a->merge;
    options->part = (uint32_t)a->part;
    options->part_count = (uint32_t)a->part_count;
    options->lease_s = (uint32_t)a->lease_s;
}

/* The library names members of spsh_pack_options. */
static int fail(spsh_error *err)
{
    static const spsh_option_name names[] = {
        {"column_rules", "--column"}, {"follows_links", "--follow-links"},
        {"is_strict", "--strict"},    {"layout_name", "--layout"},
        {"split_filter", "--split"},  {"SPSH_PACK_REJECTS_ALL", "--max-rejects 100%"},
    };
    spsh_options_rename(err, names, sizeof(names) / sizeof(names[0]));
    return spsh__cli_fail_resumable(NULL, err);
}

static int run(const spsh_cli_args *args, const pack_arguments *a, spsh_pack_options *options)
{
    spsh__pack_view view = {.phase = NULL};
    spsh_pack_report *report = NULL;
    spsh_ffmpeg *ffmpeg = NULL;
    spsh_error err = SPSH_ERROR_INIT;

    for (int i = 0; args->operand_count > 1 && i < args->operand_count; i++)
        if (strcmp(args->operands[i], "-") == 0)
            return spsh__cli_usage("pack", "\"-\" is packed by itself");
    if (a->print_launch != CHOICE_DEFAULT)
        return spsh__launch_print((size_t)a->print_launch, args, a->output);
    if (a->decoder == 1 &&
        spsh_ffmpeg_open(getenv("SPEECHSHARD_FFMPEG_PLUGIN"), &ffmpeg, &err) != SPSH_OK)
        return spsh__cli_fail("--decoder ffmpeg", &err);
    fill(a, options);
    options->corpora = (const char *const *)args->operands;
    options->corpus_count = (size_t)args->operand_count;
    options->ffmpeg = ffmpeg;
    spsh__pack_view_begin(&view, options);
    const spsh_status status = spsh_pack(options, &report, &err);
    spsh__pack_view_end(&view);
    const bool is_pcm = a->codec == 2 || (a->codec < 0 && a->rate_hz != 0);
    const int rc = status == SPSH_OK ? spsh__pack_print_result(a->output, report, is_pcm, a->json)
                                     : fail(&err);
    spsh_pack_report_free(report);
    spsh_ffmpeg_close(ffmpeg);
    return spsh__cli_finish(rc);
}

static int list_layouts(void)
{
    for (size_t i = 0; i < spsh_pack_layout_count(); i++)
        (void)printf("%-26s %s\n", spsh_pack_layout_name(i), spsh_pack_layout_summary(i));
    return spsh__cli_finish(SPSH_EXIT_DONE);
}

static int start(pack_arguments *a, const spsh_cli_args *args)
{
    spsh_pack_options pack = SPSH_PACK_OPTIONS_INIT;
    if (a->layout != NULL && strcmp(a->layout, "list") == 0)
        return list_layouts();
    if (args->operand_count == 0)
        return spsh__cli_usage("pack", "a corpus is missing: a folder, an archive, or a manifest");
    int rc = settle(a, &pack);
    if (rc == SPSH_CLI_RUN)
        rc = settle_part(a);
    return rc != SPSH_CLI_RUN ? rc : run(args, a, &pack);
}

static const char about[] =
    "CORPUS is a folder, an archive (tar, tar.gz, tar.xz, zip ...), a manifest, or '-' for an "
    "archive on standard input. For a manifest, pack takes only the files that it names. The "
    "layout (Common Voice, MLS, Kaldi, Lhotse, a table, plain audio with texts ...) is "
    "detected and reported. Several corpora in one folder are packed together. The same input "
    "and options produce the same bytes. After an interruption, the same command continues.";
static const char examples[] =
    "speechshard pack LibriSpeech/ -o libri.spsh\n"
    "speechshard pack cv-corpus-25.0-2026-03-09-de.tar.gz -o cv-de.spsh\n"
    "speechshard pack manifest.tsv -o corpus.spsh --codec pcm --rate 16000\n"
    "speechshard pack de/ fr/ it/ -o three.spsh --domain dir:-1\n"
    "speechshard pack corpus/ -o corpus.spsh --part 3/16   # on each machine, then merge\n";

static pack_arguments given;
static const spsh_cli_option options[] = {
    {"output", 'o', SPSH_CLI_TEXT, "DATASET", "directory to write", &given.output, 0, 0},
    {"layout", 0, SPSH_CLI_TEXT, "LAYOUT",
     "layout of the corpus; `--layout list` prints the names (default: detect it)", &given.layout,
     0, 0},
    {"codec", 0, SPSH_CLI_CHOICE, "keep|flac|pcm",
     "keep: store the source files; flac: encode to FLAC if needed; pcm: store lossless int16, "
     "which decodes over ten times as fast as flac (default: keep)",
     &given.codec, 0, 0},
    {"dedupe", 0, SPSH_CLI_CHOICE, "none|bytes|pcm",
     "store files with equal bytes, or with equal samples, once (default: bytes with --codec "
     "keep, else pcm)",
     &given.dedupe, 0, 0},
    {"decoder", 0, SPSH_CLI_CHOICE, "builtin|ffmpeg",
     "ffmpeg: also decode m4a, webm, wma, amr, and others with a plug-in (default: builtin)",
     &given.decoder, 0, 0},
    {"rate", 0, SPSH_CLI_COUNT, "HZ", "resample all audio; implies --codec pcm", &given.rate_hz,
     SPSH_PACK_RATE_HZ_MIN, SPSH_PACK_RATE_HZ_MAX},
    {"order", 0, SPSH_CLI_CHOICE, "hash|source",
     "hash: adjacent utterances are unrelated; source: the order of the source (default: hash)",
     &given.order, 0, 0},
    {"domain", 0, SPSH_CLI_TEXT, "RULE",
     "domain of an utterance: NAME, dir:N (N-th directory, -1 is the file's), or column:NAME",
     &given.domain, 0, 0},
    {"column", 0, SPSH_CLI_TEXTS, "FIELD=NAME",
     "read FIELD of a table from the column NAME; FIELD is audio, text, id, speaker, language, "
     "domain, split, start, end, or duration; may be repeated",
     &given.columns, 0, 0},
    {"split-from", 0, SPSH_CLI_CHOICE, "name|none",
     "name: tables named after splits (train.csv, test.csv) give their rows these splits, "
     "unless one has a split column; none: no split (default: name)",
     &given.split_from, 0, 0},
    {"split", 0, SPSH_CLI_TEXT, "S,...", "pack only these splits, which must exist", &given.split,
     0, 0},
    {"shard-size", 0, SPSH_CLI_SIZE, "SIZE", "size of a shard file (default: 1G)",
     &given.shard_bytes, SPSH_PACK_SHARD_BYTES_MIN, SPSH_PACK_SHARD_BYTES_MAX},
    {"print-launch", 0, SPSH_CLI_CHOICE, SPSH_LAUNCH_FILES,
     "print a launch file that packs this corpus with these options on many machines, and pack "
     "nothing",
     &given.print_launch, 0, 0},
    {"trust-headers", 0, SPSH_CLI_FLAG, NULL,
     "take lengths from file headers instead of decoding; faster, but checks less",
     &given.trust_headers, 0, 0},
    {"wds-key", 0, SPSH_CLI_CHOICE, "first-dot|last-dot",
     "in WebDataset archives, end a member's key at the first or the last dot of its name "
     "(default: first-dot)",
     &given.wds_key, 0, 0},
    {"follow-links", 0, SPSH_CLI_FLAG, NULL, "enter symbolic links to directories",
     &given.follow_links, 0, 0},
    {"strict", 0, SPSH_CLI_FLAG, NULL, "publish nothing if a row is rejected", &given.strict, 0, 0},
    {"max-rejects", 0, SPSH_CLI_TEXT, "PERCENT",
     "exit 1 if more than PERCENT of the rows, and at least 17 rows, are rejected (default: "
     "1%, 20% for missing audio)",
     &given.rejects_max, 0, 0},
    {"jobs", 'j', SPSH_CLI_COUNT, "N", "number of threads (default: one per core)", &given.jobs, 1,
     SPSH_PACK_THREADS_MAX},
    {"memory", 0, SPSH_CLI_SIZE, "SIZE",
     "memory for audio in flight and for sorting (default: 256M)", &given.memory_bytes,
     SPSH_PACK_MEMORY_BYTES_MIN, 0},
    {"part", 0, SPSH_CLI_TEXT, "I/N",
     "pack the share I of N, counted from 0, and units whose process is lost; see `speechshard "
     "merge` (default: all, then merge)" SPSH_PART_AUTO_HELP,
     &given.part_text, 0, 0},
    {"plan-only", 0, SPSH_CLI_FLAG, NULL, "make the plan for parts, and pack nothing",
     &given.plan_only, 0, 0},
    {"merge", 0, SPSH_CLI_FLAG, NULL,
     "with --part: if this part finds all units packed, publish the dataset", &given.merge, 0, 0},
    {"lease", 0, SPSH_CLI_COUNT, "SECONDS",
     "time without a sign of life after which other parts take over a unit (default: 60)",
     &given.lease_s, 1, SPSH_PACK_LEASE_S_MAX},
    {"json", 0, SPSH_CLI_FLAG, NULL, "print the report as JSON", &given.json, 0, 0},
    SPSH_CLI_OPTIONS_END,
};

int spsh__cmd_pack(int argc, char **argv)
{
    static const spsh_cli_command command = {
        "pack",
        "[CORPUS...]",
        "CORPUS... -o DATASET [options]",
        "pack speech corpora into a dataset of checksummed shards",
        about,
        examples,
        options};
    spsh_cli_args args;
    given = (pack_arguments){
        .codec = CHOICE_DEFAULT, .dedupe = CHOICE_DEFAULT, .print_launch = CHOICE_DEFAULT};
    const int rc = spsh__cli_parse(&command, argc, argv, &args);
    return rc != SPSH_CLI_RUN ? rc : start(&given, &args);
}
