/* fuzz_yaml.c: schema.yaml as text: every value that is given lies in the text, with its keys, in
 * the order of the lines; a text with a NUL in it ends there.
 */
#include <stdlib.h>
#include <string.h>

#include "yaml_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seen {
    const char *begin, *end; /* of the text, with its NUL */
    uint64_t line;
} seen;

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_text(const seen *s, const char *text)
{
    must(text >= s->begin && text < s->end && strlen(text) < (size_t)(s->end - text));
}

static spsh_status check_value(void *user, const spsh__yaml_value *value, spsh_error *err)
{
    seen *s = user;
    (void)err;
    must(value->keys[0] != NULL && value->text[0] != '\0' && strchr(value->text, '\n') == NULL);
    check_text(s, value->text);
    for (size_t i = 0; i < SPSH__YAML_DEPTH_MAX && value->keys[i] != NULL; i++)
        check_text(s, value->keys[i]);
    must(value->line > s->line);
    s->line = value->line;
    return SPSH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    seen s = {text, text + size + 1, 0};
    const spsh_status rc = spsh__yaml_read(text, "fuzz", check_value, &s, NULL);
    must(rc == SPSH_OK || rc == SPSH_E_CORRUPT);
    free(text);
    return 0;
}
