/* json_out.h: write JSON objects for standard output and reports, and read small documents. Only
 * json_out.c includes jansson. Corpora are read with jsonl.h.
 *
 *     spsh_json *json = spsh__json_new();
 *     spsh__json_put_text(json, "id", utterance.id);
 *     spsh__json_begin_object(json, "codec");
 *     spsh__json_put_u64(json, "flac", 12);
 *     spsh__json_end(json);
 *     rc = spsh__json_write_line(json, stdout, &err);   // and empty again, for the next line
 *     spsh__json_free(json);
 *
 * Members go to the innermost open object or array. In an array the key is NULL. A failure (no
 * memory, text that is not UTF-8) is stored and reported when the object is written, so the calls
 * between need no checks. One thread per object.
 */
#ifndef SPSH_JSON_OUT_H
#define SPSH_JSON_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "speechshard/base.h"

typedef struct spsh_json spsh_json;

/** Create an empty object. NULL: no memory. The other functions accept NULL, and writing reports
 * it. */
spsh_json *spsh__json_new(void);
void spsh__json_free(spsh_json *json);

void spsh__json_put_text(spsh_json *json, const char *key, spsh_bytes text); /* data NULL: "" */
void spsh__json_put_text_or_null(spsh_json *json, const char *key,
                                 spsh_bytes text);                              /* empty: null */
void spsh__json_put_string(spsh_json *json, const char *key, const char *text); /* NULL: null */
void spsh__json_put_u64(spsh_json *json, const char *key, uint64_t value);      /* to 2^63 - 1 */
void spsh__json_put_real(spsh_json *json, const char *key, double value); /* not finite: null */
void spsh__json_put_bool(spsh_json *json, const char *key, bool value);
void spsh__json_put_null(spsh_json *json, const char *key);
void spsh__json_put_hex(spsh_json *json, const char *key, const uint8_t *bytes, size_t size_bytes);

/** Add a count whose key is text from a file. */
void spsh__json_put_u64_named(spsh_json *json, spsh_bytes key, uint64_t value);

/** Return the string under a key of an object's text; the caller frees it. NULL: no such string. */
char *spsh__json_find_text(spsh_bytes object, const char *key);

/** Add a value that is already JSON, such as an utterance's extras. It must parse. Empty: {}. */
void spsh__json_put_parsed(spsh_json *json, const char *key, spsh_bytes text);

/** Add the member of that name from an object's text, where it must exist. */
void spsh__json_put_member(spsh_json *json, const char *key, const char *object);

/** Containers nest to a depth of 8; each begin has an end. */
void spsh__json_begin_object(spsh_json *json, const char *key);
void spsh__json_begin_array(spsh_json *json, const char *key);
void spsh__json_end(spsh_json *json);

/** Write the object as one line. The object is empty afterwards. SPSH_E_NO_MEMORY, _SYNTAX, _IO. */
SPSH_NODISCARD spsh_status spsh__json_write_line(spsh_json *json, FILE *stream, spsh_error *err);

/** Write the object indented, for a file or a person. The object is empty afterwards. */
SPSH_NODISCARD spsh_status spsh__json_write_pretty(spsh_json *json, FILE *stream, spsh_error *err);

/** Return the object as a compact string without a line end, from malloc. The object is empty
 * afterwards. */
SPSH_NODISCARD spsh_status spsh__json_take_text(spsh_json *json, char **ret_text, spsh_error *err);

/** The same, indented. */
SPSH_NODISCARD spsh_status spsh__json_take_indented(spsh_json *json, char **ret_text,
                                                    spsh_error *err);

/* ---- reading ---- */

/** A value of a document. The values below the root are borrowed from it. The functions treat NULL
 * as a value of no kind. */
typedef struct json_t spsh__json_node;

/** Parse a document. NULL: not an object or array, an object with a repeated key, or no memory. */
spsh__json_node *spsh__json_node_read(spsh_bytes text);
void spsh__json_node_free(spsh__json_node *root);

/** Return the member of that name. NULL: not an object, or no such member. */
spsh__json_node *spsh__json_node_member(const spsh__json_node *object, const char *key);

/**
 * Go through the members of an object, in order.
 *
 *     void *at = NULL;
 *     while (spsh__json_node_next(object, &at, &key, &value))
 *         use(key, value);
 */
bool spsh__json_node_next(spsh__json_node *object, void **at, const char **ret_key,
                          spsh__json_node **ret_value);
size_t spsh__json_node_count(const spsh__json_node *array);
spsh__json_node *spsh__json_node_at(const spsh__json_node *array, size_t index); /* NULL: none */
const char *spsh__json_node_string(const spsh__json_node *node);                 /* NULL: none */
double spsh__json_node_number(const spsh__json_node *node);                      /* NAN: none */
bool spsh__json_node_equal(const spsh__json_node *left,
                           const spsh__json_node *right); /* NULL: never */

#endif
