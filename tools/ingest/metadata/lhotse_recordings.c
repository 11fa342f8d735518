/* lhotse_recordings.c: see lhotse_recordings.h. */
#include "lhotse_recordings.h"

#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "ingest/view/name_index.h"
#include "ingest/view/text_file.h"
#include "speechshard/inside.h"

#define WINDOW_BYTES ((size_t)64 << 10)
#define STATE_KNOWN  UINT32_C(1)
#define STATE_ASKED  UINT32_C(2)
#define FILE_SHIFT   8

struct spsh__lhotse_recordings {
    spsh__scan *scan;
    const char *const *names;
    size_t count;
    spsh__text_file files[SPSH__LHOTSE_FILES_MAX];
    spsh__name_index index; /* value: offset of the line */
    uint8_t *window;        /* bytes of the file with index window_file */
    size_t window_bytes, window_capacity, window_file;
    uint64_t window_offset;
    spsh__builder id;
};

typedef spsh_status (*line_fn)(spsh__lhotse_recordings *r, size_t file,
                               const spsh__jsonl_line *line, spsh_error *err);

/* Call line_fn for all lines of all manifests. */
static spsh_status each_line(spsh__lhotse_recordings *r, line_fn fn, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < r->count && rc == SPSH_OK; i++) {
        const spsh__text_input input = spsh__text_input_file(&r->files[i]);
        spsh__jsonl_reader *reader = NULL;
        spsh__jsonl_line line;
        rc = spsh__jsonl_reader_new(&input, spsh__lhotse_recording_names, SPSH__LHOTSE_NAMES_MAX,
                                    &reader, err);
        while (rc == SPSH_OK && (rc = spsh__jsonl_reader_next(reader, &line, err)) == SPSH_OK)
            rc = fn(r, i, &line, err);
        spsh__jsonl_reader_free(reader);
        rc = rc == SPSH_E_END ? SPSH_OK : rc;
    }
    return rc;
}

static spsh_status report(spsh__lhotse_recordings *r, size_t file, const spsh__jsonl_line *line,
                          const spsh_reject *reject, spsh_error *err)
{
    const spsh__row_place place = {spsh__bytes_of(r->names[file]), line->line, line->offset_bytes,
                                   line->raw};
    return spsh__scan_reject(r->scan, reject, &place, err);
}

static spsh_bytes id_of(spsh__lhotse_recordings *r, const spsh__jsonl_line *line)
{
    spsh__builder_clear(&r->id);
    return spsh__json_text(&line->values[0], &r->id);
}

/* NULL, or why a line is not a JSON object or not a recording. */
static const char *problem_of(const spsh__jsonl_line *line,
                              char buffer[SPSH__JSON_KIND_PROBLEM_BYTES])
{
    return line->problem != NULL
               ? line->problem
               : spsh__lhotse_kind_problem(SPSH__LHOTSE_RECORDINGS, line->values, buffer);
}

/* A broken recording loses no rows here: its supervisions are rejected later because their
 * recording is missing. */
static spsh_status enter_line(spsh__lhotse_recordings *r, size_t file, const spsh__jsonl_line *line,
                              spsh_error *err)
{
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    spsh_reject reject = {.reason = SPSH_REJECT_ROW_SYNTAX, .detail = problem_of(line, buffer)};
    if (reject.detail != NULL)
        return report(r, file, line, &reject, err);
    const spsh_bytes id = id_of(r, line);
    const size_t before = r->index.count;
    spsh__name_slot *slot =
        r->id.failed
            ? NULL
            : spsh__name_index_add(&r->index, id, STATE_KNOWN | (uint32_t)file << FILE_SHIFT);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    if (r->index.count > before) {
        slot->value = line->offset_bytes;
        return SPSH_OK;
    }
    reject = (spsh_reject){.reason = SPSH_REJECT_DUP_ID,
                           .id = id,
                           .detail = "an earlier recording has this id and is used"};
    return report(r, file, line, &reject, err);
}

static spsh_status report_unused(spsh__lhotse_recordings *r, size_t file,
                                 const spsh__jsonl_line *line, spsh_error *err)
{
    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES];
    if (problem_of(line, buffer) != NULL)
        return SPSH_OK;
    const spsh_bytes id = id_of(r, line);
    const spsh__name_slot *slot = r->id.failed ? NULL : spsh__name_index_find(&r->index, id);
    if (slot == NULL)
        return SPSH_NO_MEMORY(err);
    if ((slot->state & STATE_ASKED) != 0)
        return SPSH_OK;
    const spsh_reject reject = {.reason = SPSH_REJECT_ORPHAN_AUDIO,
                                .id = id,
                                .detail = "no supervision has this recording"};
    return report(r, file, line, &reject, err);
}

spsh_status spsh__lhotse_recordings_end(spsh__lhotse_recordings *recordings, spsh_error *err)
{
    if (!spsh__name_index_any(&recordings->index, STATE_KNOWN, STATE_ASKED))
        return SPSH_OK;
    return each_line(recordings, report_unused, err);
}

spsh_status spsh__lhotse_recordings_new(spsh__scan *scan, const char *const *names, size_t count,
                                        spsh__lhotse_recordings **ret_recordings, spsh_error *err)
{
    if (count > SPSH__LHOTSE_FILES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%s: more than %zu manifests of recordings for one of supervisions",
                         spsh__view_root(scan->options->view), SPSH__LHOTSE_FILES_MAX);
    spsh__lhotse_recordings *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return SPSH_NO_MEMORY(err);
    *r = (spsh__lhotse_recordings){.scan = scan, .names = names};
    spsh_status rc = SPSH_OK;
    while (r->count < count && rc == SPSH_OK) {
        rc = spsh__text_file_open(scan->options->view, names[r->count], &r->files[r->count], err);
        r->count += rc == SPSH_OK;
    }
    if (rc == SPSH_OK)
        rc = each_line(r, enter_line, err);
    if (rc != SPSH_OK) {
        spsh__lhotse_recordings_free(r);
        return rc;
    }
    *ret_recordings = r;
    return SPSH_OK;
}

/* Load want_bytes into the window, from the start of a line. */
static spsh_status read_window(spsh__lhotse_recordings *r, size_t file, uint64_t offset,
                               size_t want_bytes, spsh_error *err)
{
    const spsh__text_input input = spsh__text_input_file(&r->files[file]);
    if (want_bytes > r->window_capacity) {
        uint8_t *grown = realloc(r->window, want_bytes);
        if (grown == NULL)
            return SPSH_NO_MEMORY(err);
        r->window = grown;
        r->window_capacity = want_bytes;
    }
    r->window_bytes = 0;
    r->window_file = file;
    r->window_offset = offset;
    return input.read_at_fn(input.user, offset, r->window, want_bytes, &r->window_bytes, err);
}

/* Return the line that begins at offset. It was read before, so it ends within SPSH__ROW_BYTES_MAX.
 */
static spsh_status line_at(spsh__lhotse_recordings *r, size_t file, uint64_t offset,
                           spsh_bytes *ret_line, spsh_error *err)
{
    for (size_t want = WINDOW_BYTES;; want *= 2) {
        if (file == r->window_file && offset >= r->window_offset &&
            offset - r->window_offset < r->window_bytes) {
            const size_t at = (size_t)(offset - r->window_offset);
            const size_t left = r->window_bytes - at;
            const uint8_t *end = memchr(r->window + at, '\n', left);
            const bool at_end = offset + left >= r->files[file].size_bytes;
            if (end != NULL || at_end || want > 2 * SPSH__ROW_BYTES_MAX) {
                *ret_line = (spsh_bytes){r->window + at,
                                         end == NULL ? left : (size_t)(end - r->window) - at};
                return SPSH_OK;
            }
        }
        spsh_status rc = read_window(r, file, offset, want, err);
        if (rc != SPSH_OK)
            return rc;
        if (r->window_bytes == 0) {
            *ret_line = (spsh_bytes){0};
            return SPSH_OK;
        }
    }
}

spsh_status spsh__lhotse_recordings_find(spsh__lhotse_recordings *recordings, spsh_bytes id,
                                         bool *ret_found, spsh__json_value *values, spsh_error *err)
{
    spsh__lhotse_recordings *r = recordings;
    spsh__name_slot *slot = spsh__name_index_find(&r->index, id);
    spsh_bytes line = {0};
    size_t offset = 0;
    *ret_found = false;
    if (slot == NULL)
        return SPSH_OK;
    slot->state |= STATE_ASKED;
    spsh_status rc = line_at(r, slot->state >> FILE_SHIFT, slot->value, &line, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_found = spsh__json_pick(spsh__without_mark(line), spsh__lhotse_recording_names,
                                 SPSH__LHOTSE_NAMES_MAX, values, NULL, &offset) == NULL;
    return SPSH_OK;
}

void spsh__lhotse_recordings_free(spsh__lhotse_recordings *recordings)
{
    if (recordings == NULL)
        return;
    for (size_t i = 0; i < recordings->count; i++)
        spsh__text_file_close(&recordings->files[i]);
    spsh__name_index_free(&recordings->index);
    spsh__builder_free(&recordings->id);
    free(recordings->window);
    free(recordings);
}
