/* cmd_export.c: `speechshard export`: write a dataset in a form that other programs read. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "commands.h"
#include "export/export.h"
#include "speechshard/inside.h"
#include "speechshard/io.h"

typedef enum export_kind {
    KIND_NONE = -1,
    KIND_WAV = 0,
    KIND_FILES = 1,
    KIND_WEBDATASET = 2
} export_kind;

typedef struct request {
    int kind; /* export_kind */
    const char *dataset_path;
    const char *output;
    spsh__row_filter filter;
    uint64_t shard_bytes;
    bool json;
} request;

typedef struct run_state {
    const request *request;
    const spsh_dataset *dataset;
    const spsh__export_form *form;
    spsh__export *target;
    spsh__selection *selection;
    spsh_reader *audio_reader;
    spsh_reader *text_reader; /* its strings stay valid while audio_reader is used */
    uint64_t exported, skipped, failed, bytes;
} run_state;

/* ---- the output directory ---- */

/* Return 1 if the directory is empty, 0 if not, -1 if it cannot be read. */
static int is_empty_directory(const char *path)
{
    int empty = 1;
    DIR *directory = opendir(path);
    if (directory == NULL)
        return -1;
    for (const struct dirent *entry; empty == 1 && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = 0;
    }
    closedir(directory);
    return empty;
}

static int prepare_output(const char *path)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_io_make_directory(spsh_io_default(), path, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    int empty = is_empty_directory(path);
    if (empty < 0) {
        spsh__cli_error("%s: %s", path, strerror(errno));
        return SPSH_EXIT_FAILED;
    }
    if (empty == 0) {
        spsh__cli_error("%s is not empty; export writes to a new or an empty directory", path);
        return SPSH_EXIT_FAILED;
    }
    return SPSH_EXIT_DONE;
}

/* ---- utterances ---- */

static spsh_status export_one(run_state *s, spsh__export_utterance *u, spsh_error *err)
{
    bool skipped = false, can_continue = false;
    uint64_t bytes = 0;
    spsh_status rc = spsh_reader_metadata(s->text_reader, u->position, &u->metadata, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_skipped(s->dataset, u->metadata.id, &skipped, NULL, err);
    if (rc == SPSH_OK && skipped) {
        s->skipped++;
        return SPSH_OK;
    }
    if (rc != SPSH_OK)
        return rc;
    rc = spsh_reader_record(s->audio_reader, u->position, &u->record, err);
    if (rc == SPSH_OK)
        rc = s->form->add_fn(s->target, u, &bytes, &can_continue, err);
    else
        can_continue = spsh__export_is_damage(rc);
    if (rc != SPSH_OK && can_continue) {
        s->failed++;
        spsh__cli_fail("omitted", err);
        return SPSH_OK;
    }
    s->exported += rc == SPSH_OK ? 1 : 0;
    s->bytes += bytes;
    return rc;
}

static spsh_status export_all(run_state *s, spsh_error *err)
{
    spsh_progress progress;
    spsh__export_utterance u = {.reader = s->audio_reader};
    spsh_status rc;
    spsh__progress_begin(&progress, "export", "utterances",
                         spsh_dataset_info_get(s->dataset)->utterance_count);
    while ((rc = spsh__selection_next(s->selection, &u.position, &u.row, err)) == SPSH_OK) {
        rc = export_one(s, &u, err);
        if (rc == SPSH_OK && *spsh__cli_interrupted())
            rc = SPSH_FAIL(err, SPSH_E_CANCELED, "stopped: %s contains a part of the utterances",
                           s->request->output);
        if (rc != SPSH_OK)
            break;
        spsh__progress_update(&progress, u.position + 1, SPSH_SHOW_BYTES(s->bytes));
    }
    spsh__progress_end(&progress);
    return rc == SPSH_E_END ? s->form->finish_fn(s->target, err) : rc;
}

static int report_json(const run_state *s)
{
    static const char *const kinds[] = {"wav", "files", "webdataset"};
    spsh_json *json = spsh__json_new();
    spsh__json_put_string(json, "dataset", s->request->dataset_path);
    spsh__json_put_string(json, "output", s->request->output);
    spsh__json_put_string(json, "to", kinds[s->request->kind]);
    spsh__json_put_u64(json, "exported", s->exported);
    spsh__json_put_u64(json, "bytes", s->bytes);
    spsh__json_put_u64(json, "skipped", s->skipped);
    spsh__json_put_u64(json, "failed", s->failed);
    const int rc = spsh__cli_json(json);
    return s->failed == 0 ? rc : SPSH_EXIT_FAILED;
}

static int report(const run_state *s)
{
    if (s->request->json)
        return report_json(s);
    spsh__cli_message("exported %s utterances, %s of audio, to %s", SPSH_SHOW_COUNT(s->exported),
                      SPSH_SHOW_BYTES(s->bytes), s->request->output);
    if (s->skipped != 0)
        spsh__cli_message("%s are skipped by an overlay and were omitted",
                          SPSH_SHOW_COUNT(s->skipped));
    if (s->failed == 0)
        return SPSH_EXIT_DONE;
    spsh__cli_error("%s utterances could not be exported", SPSH_SHOW_COUNT(s->failed));
    return SPSH_EXIT_FAILED;
}

static int run(const request *r, const spsh_dataset *dataset)
{
    spsh_error err = SPSH_ERROR_INIT;
    const spsh__export_options options = {r->output, r->shard_bytes, r->kind == KIND_FILES};
    run_state s = {.request = r, .dataset = dataset};
    spsh_status status;
    s.form = r->kind == KIND_WEBDATASET ? &spsh__export_webdataset : &spsh__export_tree;
    int rc = spsh__selection_open("export", dataset, &r->filter, &s.selection);
    spsh__cli_watch_signals(); /* before the first file: only this process removes it */
    if (rc == SPSH_EXIT_DONE)
        rc = prepare_output(r->output);
    if (rc != SPSH_EXIT_DONE)
        goto out;
    status = spsh_reader_open(dataset, &s.audio_reader, &err);
    if (status == SPSH_OK)
        status = spsh_reader_open(dataset, &s.text_reader, &err);
    if (status == SPSH_OK)
        status = s.form->open_fn(&options, &s.target, &err);
    if (status == SPSH_OK)
        status = export_all(&s, &err);
    rc = status == SPSH_OK ? report(&s) : spsh__cli_fail(NULL, &err);
out:
    s.form->free_fn(s.target);
    spsh_reader_close(s.text_reader);
    spsh_reader_close(s.audio_reader);
    spsh__selection_free(s.selection);
    return rc;
}

int spsh__cmd_export(int argc, char **argv)
{
    request r = {.kind = KIND_NONE, .shard_bytes = UINT64_C(1) << 30};
    const spsh_cli_option options[] = {
        {"to", 't', SPSH_CLI_CHOICE, "wav|files|webdataset",
         "wav: one WAV file per utterance, with manifest.csv; files: stored recordings, with "
         "manifest.csv; webdataset: tar files of audio, .txt, and .json",
         &r.kind, 0, 0},
        {"output", 'o', SPSH_CLI_TEXT, "DIRECTORY", "directory to write; new or empty", &r.output,
         0, 0},
        {"domain", 'd', SPSH_CLI_TEXT, "DOMAIN", "export only utterances of this domain",
         &r.filter.domain, 0, 0},
        {"split", 's', SPSH_CLI_TEXT, "SPLIT", "export only utterances of this split",
         &r.filter.split, 0, 0},
        {"shard-size", 0, SPSH_CLI_SIZE, "BYTES", "webdataset: size of a tar file (default: 1G)",
         &r.shard_bytes, UINT64_C(1) << 16, UINT64_C(1) << 40},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object instead of a message", &r.json, 0,
         0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "export",
        "DATASET",
        "DATASET --to wav|files|webdataset -o DIRECTORY [options]\n",
        "write the utterances in a form that other programs read",
        "Identifiers become file names; unsafe characters are written as %XX. 'pack' can read "
        "manifest.csv.",
        "speechshard export corpus.spsh --to wav -o wav/\n"
        "speechshard export corpus.spsh --to files --split test -o test/\n"
        "speechshard export corpus.spsh --to webdataset --shard-size 512M -o tars/\n",
        options,
    };
    spsh_cli_args args;
    spsh_dataset *dataset = NULL;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    if (r.kind == KIND_NONE)
        return spsh__cli_usage("export", "--to is missing; it is wav, files, or webdataset");
    if (r.output == NULL)
        return spsh__cli_usage("export", "-o DIRECTORY is missing");
    r.dataset_path = args.operands[0];
    rc = spsh__dataset_open_or_report(r.dataset_path, 0, &dataset);
    if (rc == SPSH_EXIT_DONE)
        rc = run(&r, dataset);
    spsh_dataset_close(dataset);
    return spsh__cli_finish(rc);
}
