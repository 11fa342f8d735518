/* mdc_schema.c: see mdc_schema.h. Keys that do not matter here (checksum, encoding ...) are passed
 * over.
 */
#include "mdc_schema.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "text_file.h"

static spsh_status refuse(const spsh__yaml_value *value, const char *what, spsh_error *err)
{
    return SPSH_INGEST_FAIL(err, SPSH_E_CORRUPT, SPSH__MDC_SCHEMA_FILE ": line %llu: %s",
                            (unsigned long long)value->line, what);
}

static spsh_status add_to(spsh__mdc_list *list, const spsh__yaml_value *value, spsh_error *err)
{
    if (list->count == SPSH__MDC_LIST_MAX)
        return refuse(value, "the list is longer than any known one", err);
    list->items[list->count++] = value->text;
    return SPSH_OK;
}

/* The column of that name, which is the last one or a new one. */
static spsh_status take_column(spsh__mdc_schema *s, const spsh__yaml_value *value, spsh_error *err)
{
    spsh__mdc_column *column = s->column_count > 0 ? &s->columns[s->column_count - 1] : NULL;
    if (value->keys[1] == NULL || value->keys[2] == NULL || value->is_item)
        return refuse(value, "a column has a name and values below it", err);
    if (column == NULL || strcmp(column->name, value->keys[1]) != 0) {
        if (s->column_count == SPSH__MDC_COLUMNS_MAX)
            return refuse(value, "there are more columns than in any known schema", err);
        column = &s->columns[s->column_count++];
        *column = (spsh__mdc_column){value->keys[1], "", "", "", ""};
    }
    const char *key = value->keys[2];
    if (strcmp(key, "source_column") == 0)
        column->source = value->text;
    else if (strcmp(key, "dtype") == 0)
        column->dtype = value->text;
    else if (strcmp(key, "file_extension") == 0)
        column->extension = value->text;
    else if (strcmp(key, "path_template") == 0)
        column->path = value->text;
    return SPSH_OK;
}

static spsh_status take_value(spsh__mdc_schema *s, const spsh__yaml_value *value, spsh_error *err)
{
    const struct {
        const char *key, **text;
    } texts[] = {
        {"dataset_id",   &s->dataset_id  },
        {"task",         &s->task        },
        {"index_file",   &s->index_file  },
        {"format",       &s->format      },
        {"separator",    &s->separator   },
        {"section_root", &s->section_root},
    };
    const char *key = value->keys[0];
    if (strcmp(key, "columns") == 0)
        return take_column(s, value, err);
    if (value->keys[1] != NULL)
        return SPSH_OK;
    if (strcmp(key, "base_audio_path") == 0)
        return add_to(&s->audio_folders, value, err);
    if (strcmp(key, "sections") == 0)
        return add_to(&s->sections, value, err);
    if (strcmp(key, "has_header") == 0)
        s->has_header = strcmp(value->text, "false") != 0;
    if (strcmp(key, "root_strategy") == 0)
        s->strategy =
            strcmp(value->text, "multi_sections") == 0 ? SPSH__MDC_SECTIONS : SPSH__MDC_OTHER;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(key, texts[i].key) == 0 && !value->is_item)
            *texts[i].text = value->text;
    }
    return SPSH_OK;
}

static spsh_status read_yaml(const spsh__view *folder, spsh__yaml *ret_yaml, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    size_t text_bytes = 0;
    spsh_status rc = spsh__text_file_open(folder, SPSH__MDC_SCHEMA_FILE, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    /* One byte more than is read tells that the text is too long. */
    char *text = malloc(SPSH__YAML_BYTES_MAX + 1);
    rc = text == NULL
             ? SPSH_INGEST_FAIL(err, SPSH_E_NO_MEMORY, "no memory for a schema")
             : input.read_at_fn(input.user, 0, text, SPSH__YAML_BYTES_MAX + 1, &text_bytes, err);
    if (rc == SPSH_OK)
        rc = spsh__yaml_read(text, text_bytes, SPSH__MDC_SCHEMA_FILE, ret_yaml, err);
    free(text);
    spsh__text_file_close(&file);
    return rc;
}

spsh_status spsh__mdc_schema_read(const spsh__view *folder, spsh__mdc_schema *ret_schema,
                                  spsh_error *err)
{
    spsh__mdc_schema s = {.dataset_id = "",
                          .task = "",
                          .index_file = "",
                          .format = "",
                          .separator = "",
                          .section_root = "",
                          .has_header = true};
    spsh_status rc = read_yaml(folder, &s.yaml, err);
    for (size_t i = 0; rc == SPSH_OK && i < s.yaml.value_count; i++)
        rc = take_value(&s, &s.yaml.values[i], err);
    if (rc == SPSH_OK && (s.dataset_id[0] == '\0' || s.task[0] == '\0'))
        rc = SPSH_INGEST_FAIL(err, SPSH_E_CORRUPT, "%s: has no dataset_id and task",
                              SPSH__MDC_SCHEMA_FILE);
    if (rc == SPSH_OK)
        *ret_schema = s;
    else
        spsh__yaml_free(&s.yaml);
    return rc;
}

void spsh__mdc_schema_free(spsh__mdc_schema *schema)
{
    spsh__yaml_free(&schema->yaml);
    *schema = (spsh__mdc_schema){0};
}
