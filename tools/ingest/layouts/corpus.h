/* corpus.h: what a person points at, taken apart into sources, each of one layout. */
#ifndef SPSH_INGEST_CORPUS_H
#define SPSH_INGEST_CORPUS_H

#include "ingest/scan/ingest.h"

/** A folder that one layout packs, seen by spsh__view_below. */
typedef struct spsh__corpus_source {
    char *below; /* relative to the corpus: "" for the corpus itself */
    const spsh_layout *layout;
    spsh_layout_probe probe;
} spsh__corpus_source;

/** A folder that looks like speech and belongs to no source. */
typedef struct spsh__corpus_leftover {
    char *below;        /* relative to the corpus, "." for the corpus itself */
    const char *detail; /* why, one line of English */
} spsh__corpus_leftover;

/** Free with spsh__corpus_free; all zero is empty. */
typedef struct spsh__corpus {
    spsh__corpus_source *sources; /* in the order of their paths */
    size_t source_count, source_capacity;
    spsh__corpus_leftover *leftovers;
    size_t leftover_count, leftover_capacity;
    bool cut_short; /* there were more folders than are looked at */
} spsh__corpus;

/**
 * Find the sources of a corpus.
 *
 * @return SPSH_E_NOT_FOUND when nothing is recognised; SPSH_E_INVALID_ARG when two layouts fit
 * equally well
 */
spsh_status spsh__corpus_find(const spsh__view *view, spsh__corpus *ret_corpus, spsh_error *err);
void spsh__corpus_free(spsh__corpus *corpus);

#endif
