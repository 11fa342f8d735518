/* source_counts.c: see source_counts.h. In a journal:
 *
 *     source 0 0 312 2 0 14 0            operand, first sequence, the rows
 *     source_root mls_polish
 *     source_layout mls
 *     source_evidence it holds train/transcripts.txt and audio/
 *     source_notes
 *     tally 0 310 2 4650000000000        source, packed, rejected, nanoseconds
 */
#include "source_counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/grow.h"

#define SOURCE_WORDS 7U
#define TALLY_WORDS  4U

/* Return a copy of the text as names are reported: one line of UTF-8. */
static char *clean(const char *text)
{
    spsh__builder out = {0};
    spsh__name_append(&out, spsh__bytes_of(text));
    char *copy = spsh__builder_text(&out) == NULL ? NULL : strdup((const char *)out.data);
    spsh__builder_free(&out);
    return copy;
}

static void free_source(spsh__source *source)
{
    free(source->root);
    free(source->layout);
    free(source->evidence);
    free(source->notes);
}

/* Append a source. Takes ownership of its strings. */
static bool push(spsh__sources *sources, spsh__source source)
{
    const bool good = source.root != NULL && source.layout != NULL && source.evidence != NULL &&
                      source.notes != NULL;
    if (!good || !SPSH_GROW(sources->items, sources->capacity, sources->count + 1)) {
        free_source(&source);
        return false;
    }
    sources->items[sources->count++] = source;
    return true;
}

bool spsh__sources_add(spsh__sources *sources, uint64_t operand, const char *root,
                       const char *layout, const char *evidence)
{
    return push(sources, (spsh__source){.root = clean(root[0] == '\0' ? "." : root),
                                        .layout = clean(layout),
                                        .evidence = clean(evidence),
                                        .notes = strdup(""),
                                        .operand = operand});
}

bool spsh__sources_note(spsh__sources *sources, const char *note)
{
    spsh__source *source = &sources->items[sources->count - 1];
    char *added = clean(note);
    char *joined = NULL;
    bool good = added != NULL;
    if (good && strstr(source->notes, added) == NULL) {
        good = asprintf(&joined, "%s%s%s", source->notes, source->notes[0] == '\0' ? "" : "; ",
                        added) >= 0;
        if (good) {
            free(source->notes);
            source->notes = joined;
        }
    }
    free(added);
    return good;
}

void spsh__sources_free(spsh__sources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        free_source(&sources->items[i]);
    free(sources->items);
    *sources = (spsh__sources){0};
}

size_t spsh__sources_of(const spsh__sources *sources, uint64_t sequence)
{
    size_t low = 0;
    size_t high = sources->count;
    while (high - low > 1) { /* items[low] begins at or before sequence, items[high] after it */
        const size_t middle = low + (high - low) / 2;
        if (sources->items[middle].first_sequence <= sequence)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint64_t spsh__source_rows_in(const spsh__source_rows *rows)
{
    return rows->offered + rows->rejected - rows->repeated + rows->merged + rows->excluded;
}

uint64_t spsh__source_rejected(const spsh__source_rows *rows, const spsh__source_tally *tally)
{
    return rows->rejected + tally->rejected;
}

bool spsh__source_balances(const spsh__source_rows *rows, const spsh__source_tally *tally)
{
    return spsh__source_rows_in(rows) ==
           tally->packed + spsh__source_rejected(rows, tally) + rows->merged + rows->excluded;
}

void spsh__sources_append(spsh__builder *out, const spsh__sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        const spsh__source *source = &sources->items[i];
        const uint64_t words[SOURCE_WORDS] = {source->operand,       source->first_sequence,
                                              source->rows.offered,  source->rows.rejected,
                                              source->rows.repeated, source->rows.merged,
                                              source->rows.excluded};
        spsh__journal_numbers(out, "source", words, SOURCE_WORDS);
        spsh__journal_text(out, "source_root", spsh__bytes_of(source->root));
        spsh__journal_text(out, "source_layout", spsh__bytes_of(source->layout));
        spsh__journal_text(out, "source_evidence", spsh__bytes_of(source->evidence));
        spsh__journal_text(out, "source_notes", spsh__bytes_of(source->notes));
    }
}

bool spsh__sources_take(spsh__journal *journal, spsh__sources *ret_sources)
{
    const char *rest = NULL;
    while (spsh__journal_take(journal, "source", &rest)) {
        uint64_t w[SOURCE_WORDS];
        const char *root = NULL;
        const char *layout = NULL;
        const char *evidence = NULL;
        const char *notes = NULL;
        if (!spsh__journal_parse(rest, w, SOURCE_WORDS) ||
            !spsh__journal_take(journal, "source_root", &root) ||
            !spsh__journal_take(journal, "source_layout", &layout) ||
            !spsh__journal_take(journal, "source_evidence", &evidence) ||
            !spsh__journal_take(journal, "source_notes", &notes))
            return false;
        journal->no_memory = !push(ret_sources, (spsh__source){
                                                    .root = strdup(root),
                                                    .layout = strdup(layout),
                                                    .evidence = strdup(evidence),
                                                    .notes = strdup(notes),
                                                    .operand = w[0],
                                                    .first_sequence = w[1],
                                                    .rows = {w[2], w[3], w[4], w[5], w[6]}
        });
        if (journal->no_memory)
            return false;
    }
    return true;
}

void spsh__tallies_append(spsh__builder *out, const spsh__source_tally *tallies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const spsh__source_tally *t = &tallies[i];
        const uint64_t words[TALLY_WORDS] = {i, t->packed, t->rejected, t->audio_ns};
        if (t->packed != 0 || t->rejected != 0)
            spsh__journal_numbers(out, "tally", words, TALLY_WORDS);
    }
}

bool spsh__tallies_take(spsh__journal *journal, spsh__source_tally *tallies, size_t count)
{
    const char *rest = NULL;
    while (spsh__journal_take(journal, "tally", &rest)) {
        uint64_t w[TALLY_WORDS];
        if (!spsh__journal_parse(rest, w, TALLY_WORDS) || w[0] >= count)
            return false;
        tallies[w[0]].packed += w[1];
        tallies[w[0]].rejected += w[2];
        tallies[w[0]].audio_ns += w[3];
    }
    return true;
}
