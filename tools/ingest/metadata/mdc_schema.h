/* mdc_schema.h: schema.yaml, in which the Mozilla Data Collective describes a dataset's tables.
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
    SPSH__MDC_SECTIONS, /* one table per section folder */
    SPSH__MDC_OTHER,    /* tables of splits, or files paired by their names */
} spsh__mdc_strategy;

typedef struct spsh__mdc_column {
    const char *name;      /* meaning: "audio_path", "transcription", ... */
    const char *source;    /* name of the column in the table, or its number if the table has no
                              header */
    const char *dtype;     /* "file_path", "file_content", "string", ... */
    const char *extension; /* appended to a path that lacks it; may be "" */
    const char *path;      /* template of the path with ${column}; may be "" */
} spsh__mdc_column;

typedef struct spsh__mdc_list {
    const char *items[SPSH__MDC_LIST_MAX];
    size_t count;
} spsh__mdc_list;

/** A schema. Strings are never NULL after a read. All zero is empty. Free with
 * spsh__mdc_schema_free. */
typedef struct spsh__mdc_schema {
    spsh__mdc_strategy strategy;
    const char *dataset_id, *task, *index_file, *format, *separator, *section_root;
    bool has_header;
    spsh__mdc_list audio_folders; /* paths relative to the dataset, with ${column} */
    spsh__mdc_list sections;
    spsh__mdc_column columns[SPSH__MDC_COLUMNS_MAX];
    size_t column_count;
    struct spsh__mdc_text *kept; /* owns the strings of the other fields */
} spsh__mdc_schema;

/* Read schema.yaml in the root of a view. SPSH_E_NOT_FOUND if it does not exist; SPSH_E_SYNTAX if
 * settings.h cannot parse it; SPSH_E_CORRUPT if it is not a dataset schema; SPSH_E_LIMIT above
 * SPSH__MDC_SCHEMA_BYTES_MAX. */
SPSH_NODISCARD spsh_status spsh__mdc_schema_read(const spsh__view *folder,
                                                 spsh__mdc_schema *ret_schema, spsh_error *err);
void spsh__mdc_schema_free(spsh__mdc_schema *schema);

#endif
