/* yaml_values.h: settings in YAML as a list of values, each with the keys above it (libyaml).
 *
 *     index_file: metadata.csv          keys {"index_file"}
 *     base_audio_path: [wav]            keys {"base_audio_path"}, an item
 *     columns:
 *       text:
 *         source_column: "Spoken text"  keys {"columns", "text", "source_column"}
 *
 * What no settings need is refused with the line where it stands: aliases (a few lines of them name
 * billions of values), tags, several documents, lists of anything but scalars, keys below more than
 * three. A value that is read wrong is worse than none.
 */
#ifndef SPSH_INGEST_YAML_VALUES_H
#define SPSH_INGEST_YAML_VALUES_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__YAML_BYTES_MAX  ((size_t)262144)
#define SPSH__YAML_VALUES_MAX ((size_t)4096)
#define SPSH__YAML_DEPTH_MAX  ((size_t)3)

typedef struct spsh__yaml_value {
    const char *keys[SPSH__YAML_DEPTH_MAX]; /* from the outermost; NULL behind the last */
    bool is_item;                           /* one of the list that the last key holds */
    const char *text;                       /* UTF-8, not empty */
    uint64_t line;                          /* 1-based */
} spsh__yaml_value;

/** All zero is empty; free with spsh__yaml_free. */
typedef struct spsh__yaml {
    spsh__yaml_value *values; /* in the order of the text */
    size_t value_count, value_capacity;
    struct spsh__yaml_text *texts; /* that the values point to */
} spsh__yaml;

/**
 * Read a text in UTF-8. Keys without a value, or with an empty one or null, give nothing.
 *
 * @param name      for messages
 * @param ret_yaml  written on success only
 * @return SPSH_E_CORRUPT with the line that is not understood; SPSH_E_LIMIT when the text is
 * longer, or has more values, than the limits above; SPSH_E_NO_MEMORY
 */
SPSH_NODISCARD spsh_status spsh__yaml_read(const char *text, size_t size_bytes, const char *name,
                                           spsh__yaml *ret_yaml, spsh_error *err);
void spsh__yaml_free(spsh__yaml *yaml);

#endif
