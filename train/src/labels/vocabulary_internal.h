/* vocabulary_internal.h: build a vocabulary from a file or from counts. */
#ifndef SPSH_TRAIN_VOCABULARY_INTERNAL_H
#define SPSH_TRAIN_VOCABULARY_INTERNAL_H

#include "text_form.h"
#include "vocabulary.h"

#define SPSH__ASCII 128

typedef struct spsh__point_symbol {
    int32_t point;
    uint32_t symbol;
} spsh__point_symbol;

typedef struct spsh__merge {
    uint32_t left, right, whole;
    uint32_t rank;
} spsh__merge;

/* vocabulary.c describes the layout. */
struct spsh__vocabulary {
    bool has_pieces;
    spsh__text_form form;
    uint32_t size;
    char *texts;
    uint32_t *offsets; /* `size` offsets */
    spsh__point_symbol *points;
    size_t point_count;
    uint32_t ascii[SPSH__ASCII]; /* symbols; 0: none */
    uint32_t word_begin;         /* symbol of U+2581; 0: none */
    spsh__merge *merges;
    uint32_t merge_count;
};

static inline const char *spsh__symbol_text(const spsh__vocabulary *v, uint32_t symbol)
{
    return v->texts + v->offsets[symbol];
}

/* All borrowed during the call. */
typedef struct spsh__vocabulary_parts {
    const char *name; /* for messages */
    bool has_pieces;
    spsh__text_form form;
    const char *const *symbols; /* symbols from index 1 on */
    size_t symbol_count;
    const char *const *merges; /* "left right", in order of priority; only for pieces */
    size_t merge_count;
} spsh__vocabulary_parts;

/* "characters" or "pieces". SPSH_E_NOT_FOUND. */
spsh_status spsh__vocabulary_kind(const char *name, bool *ret_has_pieces, spsh_error *err);

/* SPSH_E_SYNTAX: describes the invalid symbol or merge; SPSH_E_LIMIT, _NO_MEMORY. */
spsh_status spsh__vocabulary_build(const spsh__vocabulary_parts *parts, spsh__vocabulary **ret,
                                   spsh_error *err);

#endif
