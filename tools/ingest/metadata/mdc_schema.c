/* mdc_schema.c: see mdc_schema.h. Other keys (checksum, encoding, ...) are ignored. */
#include "mdc_schema.h"

#include <stdlib.h>
#include <string.h>

#include "ingest/view/text_file.h"
#include "speechshard/inside.h"
#include "speechshard/settings.h"

/* A list of copies, because the reader's strings are valid only during the visit. */
typedef struct spsh__mdc_text {
    struct spsh__mdc_text *next;
    char bytes[];
} spsh__mdc_text;

static spsh_status refuse(const spsh_setting *setting, const char *what, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_CORRUPT, SPSH__MDC_SCHEMA_FILE ": line %llu: %s",
                     (unsigned long long)setting->line, what);
}

static spsh_status keep(spsh__mdc_schema *s, const char *text, const char **ret_text,
                        spsh_error *err)
{
    const size_t size = strlen(text) + 1;
    spsh__mdc_text *kept = malloc(sizeof(*kept) + size);
    if (kept == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(kept->bytes, text, size);
    kept->next = s->kept;
    s->kept = kept;
    *ret_text = kept->bytes;
    return SPSH_OK;
}

static spsh_status keep_list(spsh__mdc_schema *s, const spsh_setting *setting, spsh__mdc_list *list,
                             spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < setting->count && rc == SPSH_OK; i++) {
        if (setting->texts[i][0] == '\0')
            return refuse(setting, "an item of a list is empty", err);
        if (list->count == SPSH__MDC_LIST_MAX)
            return refuse(setting, "the list is longer than supported", err);
        rc = keep(s, setting->texts[i], &list->items[list->count++], err);
    }
    return rc;
}

/* Find or add the column with that name, which is the last one or a new one. */
static spsh_status take_column(spsh__mdc_schema *s, const spsh_setting *setting, spsh_error *err)
{
    spsh__mdc_column *column = s->column_count > 0 ? &s->columns[s->column_count - 1] : NULL;
    const char *name = setting->keys[1];
    const char *key = setting->keys[2];
    if (name == NULL || key == NULL || setting->is_list)
        return refuse(setting, "a column has a name and values below it", err);
    if (column == NULL || strcmp(column->name, name) != 0) {
        if (s->column_count == SPSH__MDC_COLUMNS_MAX)
            return refuse(setting, "the table has more columns than any known schema", err);
        column = &s->columns[s->column_count];
        *column = (spsh__mdc_column){"", "", "", "", ""};
        const spsh_status rc = keep(s, name, &column->name, err);
        if (rc != SPSH_OK)
            return rc;
        s->column_count++;
    }
    if (strcmp(key, "source_column") == 0)
        return keep(s, setting->texts[0], &column->source, err);
    if (strcmp(key, "dtype") == 0)
        return keep(s, setting->texts[0], &column->dtype, err);
    if (strcmp(key, "file_extension") == 0)
        return keep(s, setting->texts[0], &column->extension, err);
    if (strcmp(key, "path_template") == 0)
        return keep(s, setting->texts[0], &column->path, err);
    return SPSH_OK;
}

static spsh_status take_setting(void *user, const spsh_setting *setting, spsh_error *err)
{
    spsh__mdc_schema *s = (spsh__mdc_schema *)user;
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
    const char *key = setting->keys[0];
    if (!setting->is_list && setting->texts[0][0] == '\0')
        return SPSH_OK; /* empty value */
    if (strcmp(key, "columns") == 0)
        return take_column(s, setting, err);
    if (setting->keys[1] != NULL)
        return SPSH_OK;
    if (strcmp(key, "base_audio_path") == 0)
        return keep_list(s, setting, &s->audio_folders, err);
    if (strcmp(key, "sections") == 0)
        return keep_list(s, setting, &s->sections, err);
    if (setting->is_list)
        return SPSH_OK;
    if (strcmp(key, "has_header") == 0)
        s->has_header = strcmp(setting->texts[0], "false") != 0;
    if (strcmp(key, "root_strategy") == 0)
        s->strategy =
            strcmp(setting->texts[0], "multi_sections") == 0 ? SPSH__MDC_SECTIONS : SPSH__MDC_OTHER;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(key, texts[i].key) == 0)
            return keep(s, setting->texts[0], texts[i].text, err);
    }
    return SPSH_OK;
}

static spsh_status read_settings(const spsh__view *folder, spsh__mdc_schema *s, spsh_error *err)
{
    spsh__text_file file = {.fd = -1};
    size_t text_bytes = 0;
    spsh_status rc = spsh__text_file_open(folder, SPSH__MDC_SCHEMA_FILE, &file, err);
    if (rc != SPSH_OK)
        return rc;
    const spsh__text_input input = spsh__text_input_file(&file);
    /* One extra byte detects a file that is too long. */
    const size_t capacity = SPSH__MDC_SCHEMA_BYTES_MAX + 1;
    char *text = malloc(capacity);
    rc = text == NULL ? SPSH_NO_MEMORY(err)
                      : input.read_at_fn(input.user, 0, text, capacity, &text_bytes, err);
    if (rc == SPSH_OK && text_bytes == capacity)
        rc = SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the file is longer than %zu bytes",
                       SPSH__MDC_SCHEMA_FILE, SPSH__MDC_SCHEMA_BYTES_MAX);
    if (rc == SPSH_OK)
        rc = spsh_settings_read(text, text_bytes, SPSH__MDC_SCHEMA_FILE, take_setting, s, err);
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
    spsh_status rc = read_settings(folder, &s, err);
    if (rc == SPSH_OK && (s.dataset_id[0] == '\0' || s.task[0] == '\0'))
        rc = SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: the keys dataset_id and task are missing",
                       SPSH__MDC_SCHEMA_FILE);
    if (rc == SPSH_OK)
        *ret_schema = s;
    else
        spsh__mdc_schema_free(&s);
    return rc;
}

void spsh__mdc_schema_free(spsh__mdc_schema *schema)
{
    while (schema->kept != NULL) {
        spsh__mdc_text *next = schema->kept->next;
        free(schema->kept);
        schema->kept = next;
    }
    *schema = (spsh__mdc_schema){0};
}
