/* json_text.h: JSON strings and flat JSON objects, appended to a buffer.
 *
 * Written by hand because a manifest of ten million rows makes ten million objects: nothing is
 * allocated per row. Bytes that are not UTF-8 become U+FFFD, so the result is always valid JSON.
 */
#ifndef SPSH_INGEST_JSON_TEXT_H
#define SPSH_INGEST_JSON_TEXT_H

#include "byte_builder.h"

/* Append text in quotes, escaped. */
void spsh__json_string(spsh__builder *out, spsh_bytes text);

/* Append a member to the object that starts at byte start of out. The first call opens it. */
void spsh__json_member(spsh__builder *out, size_t start, spsh_bytes key, spsh_bytes value);

/* The same with a number. key: plain ASCII. */
void spsh__json_member_number(spsh__builder *out, size_t start, const char *key, uint64_t value);

/* Close the object that starts at byte start. An object without members appends nothing. */
void spsh__json_close(spsh__builder *out, size_t start);

#endif
