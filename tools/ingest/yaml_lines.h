/* yaml_lines.h: the plain part of YAML that small settings are written in: keys with values or with
 * keys below them, and lists of values.
 *
 *     index_file: metadata.csv          keys {"index_file"}
 *     base_audio_path:
 *       - wav                           keys {"base_audio_path"}, an item
 *     columns:
 *       text:
 *         source_column: "Spoken text"  keys {"columns", "text", "source_column"}
 *
 * Everything else that YAML has (lists in brackets, long texts, anchors, tags, several documents)
 * is refused with the line where it stands: a value that is read wrong is worse than none.
 */
#ifndef SPSH_INGEST_YAML_LINES_H
#define SPSH_INGEST_YAML_LINES_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__YAML_DEPTH_MAX 3U

/** A value. Borrowed from the text, which lives as long as the caller wants. */
typedef struct spsh__yaml_value {
    const char *keys[SPSH__YAML_DEPTH_MAX]; /* from the outermost; NULL behind the last */
    bool is_item;                           /* one of the list that the last key holds */
    const char *text;                       /* without its quotes */
    uint64_t line;                          /* 1-based */
} spsh__yaml_value;

typedef spsh_status (*spsh__yaml_value_fn)(void *user, const spsh__yaml_value *value,
                                           spsh_error *err);

/**
 * Read a text, which ends with a NUL and is taken apart in place. Keys without a value give
 * nothing.
 *
 * @param name  for messages
 * @return SPSH_E_CORRUPT with the line that is not understood; else what value_fn gave
 */
SPSH_NODISCARD spsh_status spsh__yaml_read(char *text, const char *name,
                                           spsh__yaml_value_fn value_fn, void *user,
                                           spsh_error *err);

#endif
