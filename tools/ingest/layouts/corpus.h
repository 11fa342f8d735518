/* corpus.h: split the user's input folder into sources, each with one layout. */
#ifndef SPSH_INGEST_CORPUS_H
#define SPSH_INGEST_CORPUS_H

#include "ingest/scan/ingest.h"

/** A folder that one layout packs, opened by spsh__view_below. */
typedef struct spsh__corpus_source {
    char *below; /* path relative to the corpus: "" for the corpus itself */
    const spsh_layout *layout;
    spsh_layout_probe probe;
} spsh__corpus_source;

/** A folder that seems to contain speech but belongs to no source. */
typedef struct spsh__corpus_leftover {
    char *below;        /* path relative to the corpus; "." for the corpus itself */
    const char *detail; /* the reason, as one line of English */
} spsh__corpus_leftover;

/** All zero is empty. Free with spsh__corpus_free. */
typedef struct spsh__corpus {
    spsh__corpus_source *sources; /* sorted by path */
    size_t source_count, source_capacity;
    spsh__corpus_leftover *leftovers;
    size_t leftover_count, leftover_capacity;
    bool cut_short; /* the search reached its limit of folders */
} spsh__corpus;

/**
 * Find the sources of a corpus.
 *
 * @return SPSH_E_NOT_FOUND if no layout matches; SPSH_E_INVALID_ARG if two layouts match equally
 * well
 */
spsh_status spsh__corpus_find(const spsh__view *view, spsh__corpus *ret_corpus, spsh_error *err);
void spsh__corpus_free(spsh__corpus *corpus);

#endif
