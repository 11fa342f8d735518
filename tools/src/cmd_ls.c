/* cmd_ls.c: `speechshard ls`: print one line per utterance.
 *
 * On a terminal, lines are aligned a page at a time and cut to its width. Otherwise they are
 * TAB-separated. Only --json reads the records' heads (for hash and recording). The other forms
 * need only index and metadata. Only served utterances are listed. With --all, skipped utterances
 * are listed as well, and each line has a field for that.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "commands.h"
#include "common/json_out.h"
#include "print/utterance_out.h"
#include "speechshard/inside.h"

enum { ROWS_A_PAGE = 256 };

typedef struct listing {
    const spsh_dataset *dataset;
    spsh_reader *reader;
    spsh_reader
        *original_reader; /* reader for the originals of duplicates, which are in other blocks */
    spsh_json *json;
    spsh_table *page;
    uint64_t page_rows;
    unsigned columns; /* terminal width; 0: no terminal */
    bool all;
} listing;

static spsh_status list_json(listing *l, uint64_t position, const spsh_row *row, spsh_error *err)
{
    const spsh__utterance_place place = {l->dataset, l->reader, l->original_reader, position, row};
    const spsh_status rc = spsh__utterance_put(l->json, &place, err);
    return rc == SPSH_OK ? spsh__json_write_line(l->json, stdout, err) : rc;
}

/* ---- text ---- */

static void list_fields(const spsh_utterance *u, const spsh_row *row, const char *state)
{
    spsh__text_print_field(stdout, u->id);
    printf("\t%.3f\t%u\t", (double)row->samples / row->sample_rate_hz, row->sample_rate_hz);
    spsh__text_print_field(stdout, u->domain);
    fputc('\t', stdout);
    spsh__text_print_field(stdout, u->split);
    fputc('\t', stdout);
    if (state != NULL)
        printf("%s\t", state);
    spsh__text_print_field(stdout, u->text);
    fputc('\n', stdout);
}

static spsh_status print_page(listing *l, spsh_error *err)
{
    spsh_table *page = l->page;
    if (page == NULL)
        return SPSH_OK;
    l->page = NULL;
    bool good = spsh__table_print(page, stdout, "", l->columns);
    spsh__table_free(page);
    return good ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* state: NULL if lines have no such field. */
static spsh_status add_to_page(listing *l, const spsh_utterance *u, const spsh_row *row,
                               const char *state, spsh_error *err)
{
    const spsh_bytes *fields[] = {&u->id, &u->domain, &u->split, &u->text};
    char *texts[4] = {NULL};
    bool good = true;
    if (l->page == NULL) {
        l->page = spsh__table_new(state != NULL ? "lrrllll" : "lrrlll");
        l->page_rows = 0;
    }
    for (size_t i = 0; i < 4; i++) {
        const char *data = fields[i]->data == NULL ? "" : (const char *)fields[i]->data;
        texts[i] = strndup(data, fields[i]->size_bytes);
        good = good && texts[i] != NULL;
    }
    const char *seconds = SPSH_SHOW("%.2f s", (double)row->samples / row->sample_rate_hz);
    const char *rate = SPSH_SHOW("%u Hz", row->sample_rate_hz);
    good = good && l->page != NULL;
    if (good && state != NULL)
        spsh__table_row(l->page, texts[0], seconds, rate, texts[1], texts[2], state, texts[3]);
    else if (good)
        spsh__table_row(l->page, texts[0], seconds, rate, texts[1], texts[2], texts[3]);
    for (size_t i = 0; i < 4; i++)
        free(texts[i]);
    if (!good)
        return SPSH_NO_MEMORY(err);
    return ++l->page_rows == ROWS_A_PAGE ? print_page(l, err) : SPSH_OK;
}

static spsh_status list_text(listing *l, uint64_t position, const spsh_row *row, bool is_skipped,
                             spsh_error *err)
{
    spsh_utterance u;
    const char *state = !l->all ? NULL : is_skipped ? "skipped" : "";
    spsh_status rc = spsh_reader_metadata(l->reader, position, &u, err);
    if (rc != SPSH_OK)
        return rc;
    if (l->columns != 0)
        return add_to_page(l, &u, row, state, err);
    list_fields(&u, row, state);
    return SPSH_OK;
}

static spsh_status list_rows(listing *l, spsh__selection *selection, uint64_t limit,
                             spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; i < limit && rc == SPSH_OK && !spsh__cli_output_failed(); i++) {
        uint64_t position = 0;
        const spsh_row *row = NULL;
        rc = spsh__selection_next(selection, &position, &row, err);
        if (rc == SPSH_OK)
            rc = l->json != NULL
                     ? list_json(l, position, row, err)
                     : list_text(l, position, row, spsh__selection_is_skipped(selection), err);
    }
    if (rc == SPSH_OK || rc == SPSH_E_END)
        rc = print_page(l, err);
    return rc;
}

/* ---- the command ---- */

typedef struct request {
    bool json, all;
    spsh__row_filter filter;
    uint64_t limit, offset;
} request;

static int list(const spsh_dataset *dataset, const request *r)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh__selection *selection = NULL;
    listing l = {.dataset = dataset, .all = r->all};
    spsh_status status;
    int rc = spsh__selection_open("ls", dataset, &r->filter, &selection);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    l.columns = r->json ? 0 : spsh__terminal_columns(STDOUT_FILENO);
    l.json = r->json ? spsh__json_new() : NULL;
    if (r->json && l.json == NULL) {
        rc = spsh__cli_fail_memory();
        goto out;
    }
    status = spsh_reader_open(dataset, &l.reader, &err);
    if (status == SPSH_OK)
        status = spsh_reader_open(dataset, &l.original_reader, &err);
    if (status == SPSH_OK)
        status = spsh__selection_pass(selection, r->offset, &err);
    if (status == SPSH_OK)
        status = list_rows(&l, selection, r->limit, &err);
    if (status != SPSH_OK && !spsh__cli_output_failed())
        rc = spsh__cli_fail(NULL, &err);
out:
    spsh__table_free(l.page);
    spsh__json_free(l.json);
    spsh_reader_close(l.original_reader);
    spsh_reader_close(l.reader);
    spsh__selection_free(selection);
    return rc;
}

int spsh__cmd_ls(int argc, char **argv)
{
    request r = {.limit = UINT64_MAX};
    const spsh_cli_option options[] = {
        {"all", 0, SPSH_CLI_FLAG, NULL, "list skipped utterances, too, and mark them", &r.all, 0,
         0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print one JSON object per line, with all fields", &r.json,
         0, 0},
        {"domain", 'd', SPSH_CLI_TEXT, "DOMAIN", "list only utterances of this domain",
         &r.filter.domain, 0, 0},
        {"split", 's', SPSH_CLI_TEXT, "SPLIT", "list only utterances of this split",
         &r.filter.split, 0, 0},
        {"limit", 'n', SPSH_CLI_COUNT, "N", "list at most N utterances (default: all)", &r.limit, 0,
         0},
        {"offset", 0, SPSH_CLI_COUNT, "N", "skip the first N utterances (default: 0)", &r.offset, 0,
         0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "ls",
        "DATASET",
        NULL,
        "list the served utterances",
        "A line has id, seconds, sample rate, domain, split, and transcript. Unless it is printed "
        "to a terminal, the fields are complete and separated by tabs. Utterances that an overlay "
        "skips are not listed. With --all they are, and 'skipped' or an empty field precedes the "
        "transcript.",
        "speechshard ls corpus.spsh | head\n"
        "speechshard ls corpus.spsh --split test --limit 20\n"
        "speechshard ls --json corpus.spsh | jq -r 'select(.samples < 8000) | .id'\n",
        options,
    };
    spsh_cli_args args;
    spsh_dataset *dataset = NULL;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    r.filter.served_only = !r.all;
    rc = spsh__dataset_open_or_report(args.operands[0], 0, &dataset);
    if (rc == SPSH_EXIT_DONE)
        rc = list(dataset, &r);
    spsh_dataset_close(dataset);
    return spsh__cli_finish(rc);
}
