/* json_elements.h: read the elements of one array in a JSON object that does not fit into memory.
 *
 *     {"dataset": "GigaSpeech", ..., "audios": [{...}, {...}, ...]}
 *
 *     rc = spsh__json_elements_new(&input, "audios", &elements, err);
 *     while ((rc = spsh__json_elements_next(elements, &element, err)) == SPSH_OK)
 *         if (element.problem == NULL) problem = spsh__json_pick(element.raw, ...);
 *     spsh__json_elements_free(elements);         -- rc is SPSH_E_END after the last element
 *
 * The reader loads windows of the text and holds one element of at most
 * SPSH__JSON_ELEMENT_BYTES_MAX bytes. It delimits an element only by brackets and quotes.
 * spsh__json_pick checks the content, so a broken element does not affect others.
 */
#ifndef SPSH_INGEST_JSON_ELEMENTS_H
#define SPSH_INGEST_JSON_ELEMENTS_H

#include "common/row_reader.h"

#define SPSH__JSON_ELEMENT_BYTES_MAX ((size_t)64 << 20)

/** One element. Borrowed until the next call with the same reader. */
typedef struct spsh__json_element {
    spsh_bytes raw;        /* empty if there is a problem */
    uint64_t line;         /* 1-based line of the first byte */
    uint64_t offset_bytes; /* offset of the first byte in the file */
    const char *problem;   /* NULL, or why raw is empty */
} spsh__json_element;

typedef struct spsh__json_elements spsh__json_elements;

/**
 * Find the array. input and its pointers are borrowed until free.
 *
 * @return SPSH_E_NOT_FOUND: the text is not an object with an array under that key
 */
SPSH_NODISCARD spsh_status spsh__json_elements_new(const spsh__text_input *input, const char *key,
                                                   spsh__json_elements **ret_elements,
                                                   spsh_error *err);

/* Return the next element. SPSH_E_END at the end of the array; SPSH_E_CORRUPT if the text is broken
 * or ends inside the array, and nothing after it can be read; any code of read_at_fn;
 * SPSH_E_NO_MEMORY. */
SPSH_NODISCARD spsh_status spsh__json_elements_next(spsh__json_elements *elements,
                                                    spsh__json_element *ret_element,
                                                    spsh_error *err);
void spsh__json_elements_free(spsh__json_elements *elements);

#endif
