/* show_augment.c: see show_augment.h. Nothing is decoded: the index, the options,
 * the seed, and the epoch determine the draws.
 */
#include "show_augment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/selection.h"
#include "common/file_names.h"
#include "common/json_out.h"
#include "speechshard/inside.h"

enum { JSON_BYTES_MAX = 1 << 20 /* ids are far shorter */ };

static int find(const spsh__show_request *show, const spsh__datasets *datasets,
                const spsh_dataset **ret_dataset, uint64_t *ret_position)
{
    spsh_error err = SPSH_ERROR_INIT;
    for (uint32_t i = 0; i < datasets->count; i++) {
        spsh_reader *reader = NULL;
        spsh_status rc = spsh_reader_open(datasets->items[i], &reader, &err);
        if (rc == SPSH_OK)
            rc = spsh_reader_find(reader, spsh__bytes_of(show->id), ret_position, &err);
        const bool is_unknown = rc == SPSH_E_NOT_FOUND && err.os_errno == 0;
        if (is_unknown && datasets->count == 1)
            (void)spsh__utterance_missing(datasets->items[i], reader, show->id);
        spsh_reader_close(reader);
        if (is_unknown && datasets->count == 1)
            return SPSH_EXIT_FAILED;
        if (rc == SPSH_OK) {
            *ret_dataset = datasets->items[i];
            return SPSH_EXIT_DONE;
        }
        if (!is_unknown)
            return spsh__cli_fail(NULL, &err);
    }
    spsh__cli_error("there is no utterance '%s' ('speechshard ls' lists them)", show->id);
    return SPSH_EXIT_FAILED;
}

/* ---- words ---- */

static void print_head(const spsh__show_request *show, const spsh_dataset *dataset,
                       const spsh_hearing *hearing, const spsh_augment_options *augment)
{
    char text[SPSH_FEATURE_TEXT_BYTES_MAX];
    spsh__text_print(stdout, spsh__bytes_of(show->id), 0);
    printf(" of ");
    spsh__text_print(stdout, spsh__bytes_of(spsh_dataset_path(dataset)), 0);
    printf(", seed %" PRIu64 ", %u Hz\n", show->words.seed,
           spsh_hearing_features(hearing)->sample_rate_hz);
    (void)spsh_augment_options_text(augment, text, sizeof(text));
    printf("  augment   %s\n", text);
    (void)spsh_feature_options_text(spsh_hearing_features(hearing), text, sizeof(text));
    printf("  features  %s\n", text);
}

static spsh_status print_words(uint64_t epoch, const spsh_augment_draw *draw,
                               const spsh_augment_subject *subject, spsh_error *err)
{
    spsh__builder words = {0};
    spsh__hear_print(&words, draw, subject);
    if (spsh__builder_text(&words) == NULL) {
        spsh__builder_free(&words);
        return SPSH_NO_MEMORY(err);
    }
    printf("epoch %" PRIu64 ": ", epoch);
    spsh__text_print(stdout, spsh__builder_bytes(&words), 0);
    putchar('\n');
    spsh__builder_free(&words);
    return SPSH_OK;
}

/* ---- JSON ---- */

typedef struct json_line {
    spsh_json *json;
    char *draw; /* JSON_BYTES_MAX */
    const spsh_dataset *dataset;
    const spsh_hearing *hearing;
} json_line;

static spsh_status print_json(const spsh__show_request *show, const json_line *line, uint64_t epoch,
                              const spsh_augment_draw *draw, const spsh_augment_subject *subject,
                              spsh_error *err)
{
    const size_t size_bytes = spsh_augment_draw_json(draw, subject, line->draw, JSON_BYTES_MAX);
    if (size_bytes >= JSON_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a draw of %zu bytes", size_bytes);
    spsh__json_put_string(line->json, "dataset", spsh_dataset_path(line->dataset));
    spsh__json_put_string(line->json, "id", show->id);
    spsh__json_put_u64(line->json, "seed", show->words.seed);
    spsh__json_put_u64(line->json, "epoch", epoch);
    spsh__json_put_u64(line->json, "sample_rate_hz",
                       spsh_hearing_features(line->hearing)->sample_rate_hz);
    spsh__json_put_parsed(line->json, "augment",
                          (spsh_bytes){(const uint8_t *)line->draw, size_bytes});
    return spsh__json_write_line(line->json, stdout, err);
}

/* ---- epochs ---- */

static spsh_status print_epochs(const spsh__show_request *show, const json_line *line,
                                spsh_hearing *hearing, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint64_t i = 0; rc == SPSH_OK && i < show->epoch_count; i++) {
        const uint64_t epoch = show->first_epoch + i;
        spsh_augment_draw draw;
        spsh_augment_subject subject;
        rc = spsh_hearing_draw(hearing, epoch, &draw, &subject, err);
        if (rc == SPSH_OK && line->json != NULL)
            rc = print_json(show, line, epoch, &draw, &subject, err);
        else if (rc == SPSH_OK)
            rc = print_words(epoch, &draw, &subject, err);
        if (spsh__cli_output_failed())
            break;
    }
    return rc;
}

static int show_one(const spsh__show_request *show, const spsh_dataset *dataset, uint64_t position,
                    spsh__hear_request *request)
{
    spsh_error err = SPSH_ERROR_INIT;
    spsh_hearing *hearing = NULL;
    request->plan.sample_rate_hz = show->sample_rate_hz;
    spsh_status rc = spsh_hearing_open(dataset, position, &request->loader, &hearing, &err);
    if (rc != SPSH_OK)
        return spsh__plan_fail("plan", &err);
    json_line line = {NULL, NULL, dataset, hearing};
    if (show->json) {
        line.json = spsh__json_new();
        line.draw = (char *)malloc(JSON_BYTES_MAX);
    } else {
        print_head(show, dataset, hearing, &request->augment);
    }
    if (show->json && (line.json == NULL || line.draw == NULL))
        rc = SPSH_NO_MEMORY(&err);
    if (rc == SPSH_OK)
        rc = print_epochs(show, &line, hearing, &err);
    spsh__json_free(line.json);
    free(line.draw);
    spsh_hearing_close(hearing);
    if (rc == SPSH_OK || spsh__cli_output_failed())
        return SPSH_EXIT_DONE;
    return spsh__cli_fail(NULL, &err);
}

int spsh__show_augment(const spsh__show_request *show, const spsh__datasets *datasets)
{
    spsh__hear_request request;
    const spsh_dataset *dataset = NULL;
    uint64_t position = 0;
    int rc = spsh__hear_request_make("plan", &show->words, &request);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    rc = find(show, datasets, &dataset, &position);
    if (rc == SPSH_EXIT_DONE)
        rc = show_one(show, dataset, position, &request);
    spsh__hear_request_free(&request);
    return rc;
}
