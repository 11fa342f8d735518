/* json_out.h: JSON objects for standard output and reports, and small documents read. json_out.c
 * alone includes jansson. jsonl.h reads corpora.
 *
 *     spsh_json *json = spsh__json_new();
 *     spsh__json_put_text(json, "id", utterance.id);
 *     spsh__json_begin_object(json, "codec");
 *     spsh__json_put_u64(json, "flac", 12);
 *     spsh__json_end(json);
 *     rc = spsh__json_write_line(json, stdout, &err);   // and empty again, for the next line
 *     spsh__json_free(json);
 *
 * Members go to the innermost open object or array; in an array the key is NULL. A failure (no
 * memory, text that is not UTF-8) is remembered and reported when the object is written, so that
 * the calls between need no checks. One thread per object.
 */
#ifndef SPSH_JSON_OUT_H
#define SPSH_JSON_OUT_H

#include <stdbool.h>
#include <stdio.h>

#include "speechshard/base.h"

typedef struct spsh_json spsh_json;

/** An empty object. NULL: no memory; the other functions take NULL, and writing reports it. */
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

/** A count whose key is text from a file. */
void spsh__json_put_u64_named(spsh_json *json, spsh_bytes key, uint64_t value);

/** The string under a key of an object's text, for the caller to free. NULL: there is none. */
char *spsh__json_find_text(spsh_bytes object, const char *key);

/** A value that is JSON already, such as an utterance's extras; it must parse. Empty: {}. */
void spsh__json_put_parsed(spsh_json *json, const char *key, spsh_bytes text);

/** The member of that name of an object's text; it must be there. */
void spsh__json_put_member(spsh_json *json, const char *key, const char *object);

/** Containers nest to a depth of 8; each begin has an end. */
void spsh__json_begin_object(spsh_json *json, const char *key);
void spsh__json_begin_array(spsh_json *json, const char *key);
void spsh__json_end(spsh_json *json);

/** One line and a line end; the object is empty afterwards. SPSH_E_NO_MEMORY, _SYNTAX, _IO. */
SPSH_NODISCARD spsh_status spsh__json_write_line(spsh_json *json, FILE *stream, spsh_error *err);

/** Indented, for a file or a person; the object is empty afterwards. */
SPSH_NODISCARD spsh_status spsh__json_write_pretty(spsh_json *json, FILE *stream, spsh_error *err);

/** As a compact string without a line end, from malloc; the object is empty afterwards. */
SPSH_NODISCARD spsh_status spsh__json_take_text(spsh_json *json, char **ret_text, spsh_error *err);

/** The same, indented. */
SPSH_NODISCARD spsh_status spsh__json_take_indented(spsh_json *json, char **ret_text,
                                                    spsh_error *err);

/* ---- reading ---- */

/** A value of a document; what is below the root is borrowed from it. The functions take NULL as a
 * value of no kind. */
typedef struct json_t spsh__json_node;

/** NULL: not an object or array with keys of its own each, or no memory. */
spsh__json_node *spsh__json_node_read(spsh_bytes text);
void spsh__json_node_free(spsh__json_node *root);

/** NULL: no object, or none of that name. */
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
