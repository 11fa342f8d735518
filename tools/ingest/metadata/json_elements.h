/* json_elements.h: the elements of one array in a JSON object that is too large to hold.
 *
 *     {"dataset": "GigaSpeech", ..., "audios": [{...}, {...}, ...]}
 *
 *     rc = spsh__json_elements_new(&input, "audios", &elements, err);
 *     while ((rc = spsh__json_elements_next(elements, &element, err)) == SPSH_OK)
 *         if (element.problem == NULL) problem = spsh__json_pick(element.raw, ...);
 *     spsh__json_elements_free(elements);         -- rc is SPSH_E_END after the last element
 *
 * The text is read in windows; what is held is one element, of at most
 * SPSH__JSON_ELEMENT_BYTES_MAX. An element is found by its brackets and quotes alone: what is
 * between them is for spsh__json_pick to check, and a broken element costs itself only.
 */
#ifndef SPSH_INGEST_JSON_ELEMENTS_H
#define SPSH_INGEST_JSON_ELEMENTS_H

#include "common/row_reader.h"

#define SPSH__JSON_ELEMENT_BYTES_MAX ((size_t)64 << 20)

/** One element. Borrowed until the next call with the same reader. */
typedef struct spsh__json_element {
    spsh_bytes raw;        /* empty when there is a problem */
    uint64_t line;         /* 1-based, of its first byte */
    uint64_t offset_bytes; /* of its first byte in the file */
    const char *problem;   /* NULL, or why it is not given */
} spsh__json_element;

typedef struct spsh__json_elements spsh__json_elements;

/**
 * Find the array. input and what it points to are borrowed until free.
 *
 * @return SPSH_E_NOT_FOUND: the text is no object with an array under that key
 */
SPSH_NODISCARD spsh_status spsh__json_elements_new(const spsh__text_input *input, const char *key,
                                                   spsh__json_elements **ret_elements,
                                                   spsh_error *err);

/* SPSH_OK: an element; SPSH_E_END: the array ends; SPSH_E_CORRUPT: the text breaks or ends inside
 * of it, and nothing more can be told; else what read_at_fn returned, or no memory. */
SPSH_NODISCARD spsh_status spsh__json_elements_next(spsh__json_elements *elements,
                                                    spsh__json_element *ret_element,
                                                    spsh_error *err);
void spsh__json_elements_free(spsh__json_elements *elements);

#endif
