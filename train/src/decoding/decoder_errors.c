/* decoder_errors.c: error counts of a transcript. Both transcripts are cut into pieces (words, or
 * code points), each a span of bytes. The Wagner-Fischer table is filled row by row. A cell holds
 * the edit counts of its best alignment by kind, so no traceback is needed. Memory holds the pieces
 * and one row. */
#include <math.h>
#include <utf8proc.h>

#include "decoder.h"
#include "speechshard/inside.h"

typedef enum unit { WORDS, LETTERS, LETTERS_WITHOUT_BLANKS } unit;

typedef struct pieces {
    spsh_bytes *items;
    size_t count;
} pieces;

typedef struct cell {
    uint32_t substitutions, insertions, deletions;
} cell;

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Length in bytes of the first code point of the text; 0: not UTF-8. */
static size_t piece_size(spsh_bytes text, unit what)
{
    size_t size = 0;
    do {
        utf8proc_int32_t point = 0;
        const size_t left = text.size_bytes - size;
        const utf8proc_ssize_t step =
            utf8proc_iterate(text.data + size, (utf8proc_ssize_t)left, &point);
        if (step <= 0)
            return 0;
        size += (size_t)step;
    } while (what == WORDS && !is_blank(text.data[0]) && size < text.size_bytes &&
             !is_blank(text.data[size]));
    return size;
}

static spsh_status cut(spsh_bytes text, unit what, pieces *ret, spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    size_t at = 0;
    ret->items = (spsh_bytes *)spsh__new(allocator, text.size_bytes, sizeof(*ret->items));
    if (ret->items == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "a transcript of %zu bytes", text.size_bytes);
    while (at < text.size_bytes) {
        const spsh_bytes rest = {text.data + at, text.size_bytes - at};
        const size_t size = piece_size(rest, what);
        if (size == 0)
            return SPSH_FAIL_AT(err, SPSH_E_SYNTAX, at,
                                "a transcript is not valid UTF-8 at byte %zu", at);
        if (what == LETTERS || !is_blank(rest.data[0]))
            ret->items[ret->count++] = (spsh_bytes){rest.data, size};
        at += size;
    }
    return SPSH_OK;
}

static bool is_same(spsh_bytes a, spsh_bytes b)
{
    return a.size_bytes == b.size_bytes && memcmp(a.data, b.data, a.size_bytes) == 0;
}

static uint64_t edits(cell c)
{
    return (uint64_t)c.substitutions + c.insertions + c.deletions;
}

/* diagonal: without the last pieces of both; above: without the last of the reference; left:
 * without the last of the result. */
static cell next_cell(cell diagonal, cell above, cell left, bool is_equal)
{
    diagonal.substitutions += !is_equal;
    above.deletions++;
    left.insertions++;
    cell best = diagonal;
    if (edits(above) < edits(best))
        best = above;
    if (edits(left) < edits(best))
        best = left;
    return best;
}

/* row: found->count + 1 cells. Returns the best alignment of both transcripts. */
static cell align(const pieces *reference, const pieces *found, cell *row)
{
    for (size_t j = 0; j <= found->count; j++)
        row[j] = (cell){0, (uint32_t)j, 0};
    for (size_t i = 0; i < reference->count; i++) {
        cell diagonal = row[0];
        row[0].deletions++;
        for (size_t j = 0; j < found->count; j++) {
            const cell above = row[j + 1];
            const bool is_equal = is_same(reference->items[i], found->items[j]);
            row[j + 1] = next_cell(diagonal, above, row[j], is_equal);
            diagonal = above;
        }
    }
    return row[found->count];
}

static spsh_status add(spsh__errors *errors, spsh_bytes reference, spsh_bytes found, unit what,
                       spsh_error *err)
{
    const spsh_allocator *allocator = spsh_allocator_default();
    pieces of_reference = {NULL, 0};
    pieces of_found = {NULL, 0};
    cell *row = NULL;
    spsh_status rc = SPSH_OK;
    if (reference.size_bytes > UINT32_MAX / 2 || found.size_bytes > UINT32_MAX / 2)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a transcript is longer than 2 GiB");
    rc = cut(reference, what, &of_reference, err);
    if (rc != SPSH_OK)
        goto out;
    rc = cut(found, what, &of_found, err);
    if (rc != SPSH_OK)
        goto out;
    row = (cell *)spsh__new(allocator, of_found.count + 1, sizeof(*row));
    if (row == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%zu words or characters of a transcript",
                       of_found.count);
        goto out;
    }
    const cell sum = align(&of_reference, &of_found, row);
    errors->substitutions += sum.substitutions;
    errors->insertions += sum.insertions;
    errors->deletions += sum.deletions;
    errors->reference_count += of_reference.count;
    errors->utterances++;
    errors->wrong_utterances += edits(sum) > 0;
out:
    spsh__free(allocator, row);
    spsh__free(allocator, of_found.items);
    spsh__free(allocator, of_reference.items);
    return rc;
}

spsh_status spsh__errors_add_words(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                   spsh_error *err)
{
    return add(errors, reference, found, WORDS, err);
}

spsh_status spsh__errors_add_letters(spsh__errors *errors, spsh_bytes reference, spsh_bytes found,
                                     bool with_blanks, spsh_error *err)
{
    return add(errors, reference, found, with_blanks ? LETTERS : LETTERS_WITHOUT_BLANKS, err);
}

double spsh__errors_rate(const spsh__errors *errors)
{
    const uint64_t wrong = errors->substitutions + errors->insertions + errors->deletions;
    if (errors->reference_count == 0)
        return wrong == 0 ? 0 : (double)INFINITY;
    return (double)wrong / (double)errors->reference_count;
}
