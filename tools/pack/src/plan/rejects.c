/* rejects.c: a reject as a JSON line. */
#include "rejects.h"

#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/json_text.h"

uint64_t spsh__reject_rows(const spsh__reject_counts *counts)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < SPSH_REJECT_COUNT; i++)
        rows += counts->rows[i];
    return rows;
}

void spsh__reject_counts_add(spsh__reject_counts *sum, const spsh__reject_counts *more)
{
    for (size_t i = 0; i < SPSH_REJECT_COUNT; i++) {
        sum->events[i] += more->events[i];
        sum->rows[i] += more->rows[i];
    }
}

static void member_name(spsh__builder *lines, size_t start, const char *key, spsh_bytes name)
{
    spsh__builder text = {0};
    if (name.size_bytes == 0)
        return;
    spsh__name_append(&text, name);
    spsh__json_member(lines, start, spsh__bytes_of(key), spsh__builder_bytes(&text));
    lines->failed = lines->failed || text.failed;
    spsh__builder_free(&text);
}

void spsh__reject_append(spsh__builder *lines, spsh__reject_counts *counts,
                         const spsh_reject *reject)
{
    size_t start = lines->size_bytes;

    spsh__json_member(lines, start, spsh__bytes_of("reason"),
                      spsh__bytes_of(spsh__reject_reason_text(reject->reason)));
    member_name(lines, start, "source", reject->source);
    member_name(lines, start, "id", reject->id);
    if (reject->detail != NULL && reject->detail[0] != '\0')
        spsh__json_member(lines, start, spsh__bytes_of("detail"), spsh__bytes_of(reject->detail));
    member_name(lines, start, "excerpt", reject->excerpt);
    if (reject->line != 0)
        spsh__json_member_number(lines, start, "line", reject->line);
    if (reject->offset_bytes != SPSH_OFFSET_NONE)
        spsh__json_member_number(lines, start, "offset_bytes", reject->offset_bytes);
    spsh__json_member_number(lines, start, "rows", reject->rows);
    spsh__json_close(lines, start);
    spsh__builder_append(lines, "\n", 1);
    counts->events[reject->reason]++;
    counts->rows[reject->reason] += reject->rows;
}

/* ---- examples ---- */

#define LINE_START "{\"reason\":\"" /* as spsh__reject_append writes it */

static bool keep_line(spsh__examples *examples)
{
    const char *line = spsh__builder_text(&examples->line);
    const size_t start = strlen(LINE_START);
    if (line == NULL)
        return false;
    for (int i = 0; i < SPSH_REJECT_COUNT && strncmp(line, LINE_START, start) == 0; i++) {
        const char *reason = spsh__reject_reason_text((spsh_reject_reason)i);
        const size_t length = strlen(reason);
        if (strncmp(line + start, reason, length) != 0 || line[start + length] != '"')
            continue;
        char **lines = examples->lines[i];
        size_t at = 0;
        while (at < SPSH__EXAMPLES_MAX && lines[at] != NULL)
            at++;
        if (at == SPSH__EXAMPLES_MAX)
            return true;
        lines[at] = strdup(line);
        return lines[at] != NULL;
    }
    return true;
}

bool spsh__examples_watch(spsh__examples *examples, spsh_bytes piece)
{
    bool good = true;
    while (piece.size_bytes > 0 && good) {
        const uint8_t *end = memchr(piece.data, '\n', piece.size_bytes);
        const size_t length = end == NULL ? piece.size_bytes : (size_t)(end - piece.data);
        spsh__builder_append(&examples->line, piece.data, length);
        if (end != NULL) {
            good = keep_line(examples);
            spsh__builder_clear(&examples->line);
        }
        const size_t taken = length + (end != NULL);
        piece = (spsh_bytes){piece.data + taken, piece.size_bytes - taken};
    }
    return good && !examples->line.failed;
}

void spsh__examples_free(spsh__examples *examples)
{
    for (int i = 0; i < SPSH_REJECT_COUNT; i++) {
        for (size_t k = 0; k < SPSH__EXAMPLES_MAX; k++)
            free(examples->lines[i][k]);
    }
    spsh__builder_free(&examples->line);
    *examples = (spsh__examples){0};
}
