/* cmd_overlay.c: `speechshard overlay`: edits of a sealed dataset that can be undone.
 *
 * The edits come as a table with one line per utterance: `id<TAB>value`. Its bytes are not
 * converted. The table is kept in one buffer. The entries refer to it by offset, because the buffer
 * moves while it grows.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "commands.h"
#include "common/byte_builder.h"
#include "common/file_names.h"
#include "common/json_out.h"
#include "common/plain_file.h"
#include "speechshard/inside.h"
#include "speechshard/nearest_word.h"
#include "speechshard/publish.h"

enum { UNKNOWN_SHOWN_MAX = 10 };

typedef struct request {
    const char *dataset_path;
    const char *name; /* name of the overlay */
    const char *skip_path, *transcript_path;
    bool json;
} request;

/* Position of an entry in the text. */
typedef struct entry_place {
    size_t id, id_bytes, value, value_bytes;
} entry_place;

typedef struct edits {
    spsh__builder text;
    spsh__builder places; /* entry_place each */
    spsh_overlay_entry *entries;
    uint64_t count;
} edits;

static void edits_free(edits *e)
{
    spsh__builder_free(&e->text);
    spsh__builder_free(&e->places);
    free(e->entries);
}

/* ---- reading the table ---- */

static spsh_status fail_row(const char *path, const spsh__row *row, const char *why,
                            spsh_error *err)
{
    spsh_error_set(err, SPSH_E_SYNTAX, 0, row->offset_bytes, "%s: line %" PRIu64 ": %s", path,
                   row->line, why);
    return SPSH_E_SYNTAX;
}

static spsh_status add_row(edits *e, const char *path, spsh_overlay_type type, const spsh__row *row,
                           spsh_error *err)
{
    const spsh_bytes none = {NULL, 0};
    if (row->problem != NULL)
        return fail_row(path, row, row->problem, err);
    if (row->field_count == 1 && row->fields[0].size_bytes == 0)
        return SPSH_OK;
    if (row->field_count > 2)
        return fail_row(path, row, "more than two fields; a line is id, TAB, value", err);
    if (row->field_count == 1 && type == SPSH_OVERLAY_TRANSCRIPT)
        return fail_row(path, row, "the transcript is missing; a line is id, TAB, text", err);
    spsh_bytes id = row->fields[0];
    spsh_bytes value = row->field_count == 2 ? row->fields[1] : none;
    if (id.size_bytes == 0)
        return fail_row(path, row, "the id is empty", err);
    if (!spsh__utf8_valid(id) || !spsh__utf8_valid(value))
        return fail_row(path, row, "not UTF-8", err);
    const entry_place place = {e->text.size_bytes, id.size_bytes,
                               e->text.size_bytes + id.size_bytes, value.size_bytes};
    spsh__builder_append_bytes(&e->text, id);
    spsh__builder_append_bytes(&e->text, value);
    spsh__builder_append(&e->places, &place, sizeof(place));
    e->count++;
    return SPSH_OK;
}

static spsh_status make_entries(edits *e, spsh_error *err)
{
    e->entries = (spsh_overlay_entry *)calloc((size_t)e->count + 1, sizeof(*e->entries));
    if (e->entries == NULL || e->text.failed || e->places.failed)
        return SPSH_NO_MEMORY(err);
    for (uint64_t i = 0; i < e->count; i++) {
        entry_place place;
        memcpy(&place, e->places.data + i * sizeof(place), sizeof(place));
        e->entries[i].id = (spsh_bytes){e->text.data + place.id, place.id_bytes};
        e->entries[i].value = (spsh_bytes){e->text.data + place.value, place.value_bytes};
    }
    return SPSH_OK;
}

static spsh_status read_edits(const char *path, spsh_overlay_type type, edits *e, spsh_error *err)
{
    const spsh__dialect dialect = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'};
    spsh__row_reader *rows = NULL;
    spsh__plain_file file;
    spsh__row row;
    spsh_status rc = spsh__plain_file_open(path, path, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__plain_file_input(&file);
    rc = spsh__row_reader_new(&input, &dialect, &rows, err);
    while (rc == SPSH_OK) {
        rc = spsh__row_reader_next(rows, &row, err);
        if (rc == SPSH_OK)
            rc = add_row(e, path, type, &row, err);
    }
    spsh__row_reader_free(rows);
    spsh__plain_file_close(&file);
    if (rc != SPSH_E_END)
        return rc;
    if (e->count == 0)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: no line with an id", path);
    return make_entries(e, err);
}

/* ---- actions ---- */

/* The format allows keys that no utterance has: the list may be one of several datasets. If none of
 * the ids exists, it is more likely the wrong list or the wrong dataset. */
static spsh_status check_ids(const request *r, const edits *e, spsh_error *err)
{
    spsh_dataset *dataset = NULL;
    spsh_reader *reader = NULL;
    uint64_t unknown = 0;
    spsh_status rc = spsh_dataset_open(r->dataset_path, NULL, &dataset, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_open(dataset, &reader, err);
    for (uint64_t i = 0; i < e->count && rc == SPSH_OK; i++) {
        uint64_t position = 0;
        rc = spsh_reader_find(reader, e->entries[i].id, &position, err);
        if (rc != SPSH_E_NOT_FOUND || err->os_errno != 0) /* with an errno: a shard is missing */
            continue;
        rc = SPSH_OK;
        if (++unknown <= UNKNOWN_SHOWN_MAX)
            spsh__cli_message("%s has no utterance '%.*s'", r->dataset_path,
                              (int)e->entries[i].id.size_bytes,
                              (const char *)e->entries[i].id.data);
    }
    if (rc == SPSH_OK && unknown == e->count) {
        rc = SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                       "%s: none of the %" PRIu64 " ids is in the dataset; nothing was added",
                       r->dataset_path, unknown);
    } else if (rc == SPSH_OK && unknown > 0) {
        spsh__cli_message("%" PRIu64 " of %" PRIu64 " ids are not in %s", unknown, e->count,
                          r->dataset_path);
    }
    spsh_reader_close(reader);
    spsh_dataset_close(dataset);
    return rc;
}

static int add_overlay(const request *r)
{
    spsh_error err = SPSH_ERROR_INIT;
    edits e = {0};
    bool skip = r->skip_path != NULL;
    const char *path = skip ? r->skip_path : r->transcript_path;
    spsh_overlay_type type = skip ? SPSH_OVERLAY_SKIP : SPSH_OVERLAY_TRANSCRIPT;
    spsh_status rc = read_edits(path, type, &e, &err);
    if (rc == SPSH_OK)
        rc = check_ids(r, &e, &err);
    if (rc == SPSH_OK)
        rc = spsh_overlay_add(r->dataset_path, r->name, type, e.entries, e.count, NULL, &err);
    if (rc == SPSH_OK)
        spsh__cli_message("added overlay %s: %s of %" PRIu64 " utterances", r->name,
                          skip ? "skips" : "transcripts", e.count);
    edits_free(&e);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

static int remove_overlay(const request *r)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_overlay_remove(r->dataset_path, r->name, NULL, &err) != SPSH_OK)
        return spsh__cli_fail(NULL, &err);
    spsh__cli_message("removed overlay %s", r->name);
    return SPSH_EXIT_DONE;
}

static spsh_status print_overlay(const spsh_overlay_info *overlay, spsh_json *json, spsh_error *err)
{
    const char *type = overlay->type == SPSH_OVERLAY_SKIP ? "skip" : "transcript";
    if (json == NULL) {
        spsh__text_print_field(stdout, overlay->given_name);
        printf("\t%s\t%" PRIu64 "\n", type, overlay->entry_count);
        return SPSH_OK;
    }
    spsh__json_put_text(json, "name", overlay->given_name);
    spsh__json_put_string(json, "type", type);
    spsh__json_put_u64(json, "entries", overlay->entry_count);
    return spsh__json_write_line(json, stdout, err);
}

static int list_overlays(const request *r)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_dataset *dataset = NULL;
    spsh_json *json = r->json ? spsh__json_new() : NULL;
    spsh_status status = SPSH_OK;
    if (r->json && json == NULL)
        return spsh__cli_fail_memory();
    int rc = spsh__dataset_open_or_report(r->dataset_path, 0, &dataset);
    uint64_t count = rc == SPSH_EXIT_DONE ? spsh_dataset_info_get(dataset)->overlay_count : 0;
    for (uint64_t i = 0; i < count && status == SPSH_OK; i++) {
        spsh_overlay_info overlay = SPSH_OVERLAY_INFO_INIT;
        status = spsh_dataset_overlay(dataset, i, &overlay, &err);
        if (status == SPSH_OK)
            status = print_overlay(&overlay, json, &err);
    }
    if (status != SPSH_OK && !spsh__cli_output_failed())
        rc = spsh__cli_fail(NULL, &err);
    spsh_dataset_close(dataset);
    spsh__json_free(json);
    return rc;
}

/* ---- the command ---- */

static int run(const request *r, const spsh_cli_args *args)
{
    static const char *const actions[] = {"list", "add", "remove", NULL};
    const char *action = args->operand_count > 1 ? args->operands[1] : "list";
    bool adds = strcmp(action, "add") == 0;
    bool has_file = r->skip_path != NULL || r->transcript_path != NULL;
    if (!adds && has_file)
        return spsh__cli_usage("overlay", "--skip and --transcript belong to 'add NAME'");
    if (strcmp(action, "list") == 0) {
        if (r->name != NULL)
            return spsh__cli_usage("overlay", "unexpected argument '%s' after list", r->name);
        return list_overlays(r);
    }
    if (!adds && strcmp(action, "remove") != 0) {
        const char *nearest = spsh_nearest_word(action, strlen(action), actions);
        if (nearest != NULL)
            return spsh__cli_usage("overlay", "unknown action '%s'; did you mean '%s'?", action,
                                   nearest);
        return spsh__cli_usage("overlay", "unknown action '%s'; it is list, add, or remove",
                               action);
    }
    if (r->name == NULL)
        return spsh__cli_usage("overlay", "%s needs the NAME of an overlay", action);
    if (!adds)
        return remove_overlay(r);
    if (!has_file || (r->skip_path != NULL && r->transcript_path != NULL))
        return spsh__cli_usage("overlay", "add needs either --skip FILE or --transcript FILE");
    return add_overlay(r);
}

int spsh__cmd_overlay(int argc, char **argv)
{
    request r = {NULL, NULL, NULL, NULL, false};
    const spsh_cli_option options[] = {
        {"skip", 0, SPSH_CLI_TEXT, "FILE",
         "add: utterances to skip; lines of id, or id, TAB, reason", &r.skip_path, 0, 0},
        {"transcript", 0, SPSH_CLI_TEXT, "FILE",
         "add: transcripts that replace the packed ones; lines of id, TAB, text",
         &r.transcript_path, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "list: print one JSON object per line", &r.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "overlay",
        "DATASET [ACTION] [NAME]",
        "DATASET [list] [--json]\n"
        "DATASET add NAME --skip FILE\n"
        "DATASET add NAME --transcript FILE\n"
        "DATASET remove NAME\n",
        "edit a dataset without changing its sealed files",
        "An overlay applies from the next time that the dataset is opened. A skipped utterance "
        "stays skipped while any such overlay is in force; of several transcripts the newest wins. "
        "Removing an overlay restores the previous view.",
        "speechshard overlay corpus.spsh add bad-audio --skip bad.tsv\n"
        "speechshard overlay corpus.spsh add review-1 --transcript corrected.tsv\n"
        "speechshard overlay corpus.spsh\n"
        "speechshard overlay corpus.spsh remove bad-audio\n",
        options,
    };
    spsh_cli_args args;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    r.dataset_path = args.operands[0];
    r.name = args.operand_count > 2 ? args.operands[2] : NULL;
    return spsh__cli_finish(run(&r, &args));
}
