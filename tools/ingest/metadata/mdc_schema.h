/* mdc_schema.h: schema.yaml, by which the Mozilla Data Collective says what a dataset's tables
 * mean.
 *
 *     dataset_id: cmj2rze7r00j5ny07uhs85go2
 *     task: TTS
 *     index_file: text.tsv
 *     base_audio_path: clips/
 *     columns:
 *       audio_path:
 *         source_column: clip_filename
 *         dtype: file_path
 */
#ifndef SPSH_INGEST_MDC_SCHEMA_H
#define SPSH_INGEST_MDC_SCHEMA_H

#include <stdbool.h>

#include "ingest/view/view.h"

#define SPSH__MDC_SCHEMA_FILE      "schema.yaml"
#define SPSH__MDC_SCHEMA_BYTES_MAX ((size_t)262144)
#define SPSH__MDC_COLUMNS_MAX      ((size_t)128)
#define SPSH__MDC_LIST_MAX         ((size_t)64)

typedef enum spsh__mdc_strategy {
    SPSH__MDC_INDEX,    /* one table */
    SPSH__MDC_SECTIONS, /* one in each of some folders */
    SPSH__MDC_OTHER,    /* tables of splits, or files that are paired by their names */
} spsh__mdc_strategy;

typedef struct spsh__mdc_column {
    const char *name;      /* what it means: "audio_path", "transcription" ... */
    const char *source;    /* what the table calls it, or its number where there is no header */
    const char *dtype;     /* "file_path", "file_content", "string" ... */
    const char *extension; /* to add to a path that lacks it; "" */
    const char *path;      /* to build the path from, with ${column}; "" */
} spsh__mdc_column;

typedef struct spsh__mdc_list {
    const char *items[SPSH__MDC_LIST_MAX];
    size_t count;
} spsh__mdc_list;

/** A schema; texts are never NULL. All zero is empty; free with spsh__mdc_schema_free. */
typedef struct spsh__mdc_schema {
    spsh__mdc_strategy strategy;
    const char *dataset_id, *task, *index_file, *format, *separator, *section_root;
    bool has_header;
    spsh__mdc_list audio_folders; /* relative to the dataset, with ${column} */
    spsh__mdc_list sections;
    spsh__mdc_column columns[SPSH__MDC_COLUMNS_MAX];
    size_t column_count;
    struct spsh__mdc_text *kept; /* that the others point into */
} spsh__mdc_schema;

/* Read schema.yaml in the root of a view. SPSH_E_NOT_FOUND when there is none; SPSH_E_SYNTAX when
 * it is not understood (settings.h), SPSH_E_CORRUPT when it is no schema of a dataset; SPSH_E_LIMIT
 * when it is longer than any. */
SPSH_NODISCARD spsh_status spsh__mdc_schema_read(const spsh__view *folder,
                                                 spsh__mdc_schema *ret_schema, spsh_error *err);
void spsh__mdc_schema_free(spsh__mdc_schema *schema);

#endif
