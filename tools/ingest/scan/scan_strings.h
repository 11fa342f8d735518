/* scan_strings.h: the names, paths, and extras that a layout makes for a row.
 *
 *     item.speaker = SPSH__JOIN(scan, spsh__bytes_of("mls/"), speaker);
 *
 *     spsh__builder *extras = spsh__strings_open(scan);
 *     spsh__json_member(extras, 0, key, value);
 *     item.extras = spsh__strings_close(scan);
 *
 * The strings stay until the row ends (scan_rows.h), or until spsh__strings_release. A NUL follows
 * each. A layout need not check for a failed allocation: the string is empty, and the next
 * spsh__scan_emit, spsh__scan_reject, or spsh__scan_progress returns SPSH_E_NO_MEMORY.
 */
#ifndef SPSH_INGEST_SCAN_STRINGS_H
#define SPSH_INGEST_SCAN_STRINGS_H

#include "common/jsonl.h"
#include "scan.h"

/* Return the parts, joined. */
spsh_bytes spsh__strings_join(spsh__scan *scan, const spsh_bytes *parts, size_t count);
#define SPSH__JOIN(scan_, ...)                                                                     \
    spsh__strings_join(scan_, (const spsh_bytes[]){__VA_ARGS__},                                   \
                       sizeof((const spsh_bytes[]){__VA_ARGS__}) / sizeof(spsh_bytes))

/* Return folder/name. Omits an empty part. */
spsh_bytes spsh__strings_path(spsh__scan *scan, spsh_bytes folder, spsh_bytes name);

/* Return a file name or path as it appears in ids and reports, see spsh__name_append. */
spsh_bytes spsh__strings_name(spsh__scan *scan, spsh_bytes name);

/* Return the content of a JSON string; empty for other kinds. */
spsh_bytes spsh__strings_json_text(spsh__scan *scan, const spsh__json_value *value);

/* The same, or the digits of a number. Empty for a placeholder such as "N/A". */
spsh_bytes spsh__strings_json_name(spsh__scan *scan, const spsh__json_value *value);

/* Return the member that --domain column:NAME names. Empty for a placeholder, or without it. */
spsh_bytes spsh__strings_json_column(spsh__scan *scan, spsh_bytes object);

/* Build a string piece by piece; only one at a time. */
spsh__builder *spsh__strings_open(spsh__scan *scan);
spsh_bytes spsh__strings_close(spsh__scan *scan);

/* Free the strings that were made since the mark. */
spsh__strings_mark spsh__strings_here(const spsh__scan *scan);
void spsh__strings_release(spsh__scan *scan, spsh__strings_mark mark);

/* A string of this file as text. */
static inline const char *spsh__text_of(spsh_bytes string)
{
    return (const char *)string.data;
}

#endif
