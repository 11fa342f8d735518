/* fuzz_yaml.c: settings in YAML: within the limits every value has its text, its first key and a
 * line of the text, in the order of the lines; another reading gives as many.
 */
#include <stdlib.h>
#include <string.h>

#include "yaml_values.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_values(const spsh__yaml *yaml, size_t size)
{
    uint64_t line = 1;
    must(yaml->value_count <= SPSH__YAML_VALUES_MAX);
    for (size_t i = 0; i < yaml->value_count; i++) {
        const spsh__yaml_value *value = &yaml->values[i];
        bool ends = false;
        must(value->keys[0] != NULL && value->text[0] != '\0' && strlen(value->text) <= 2 * size);
        for (size_t k = 0; k < SPSH__YAML_DEPTH_MAX; k++) {
            must(!ends || value->keys[k] == NULL);
            ends = value->keys[k] == NULL;
            must(ends || strlen(value->keys[k]) <= 2 * size);
        }
        must(value->line >= line && value->line <= size + 1);
        line = value->line;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    spsh__yaml yaml = {0};
    spsh__yaml again = {0};
    const char *text = size == 0 ? "" : (const char *)data;
    const spsh_status rc = spsh__yaml_read(text, size, "fuzz", &yaml, NULL);
    must(rc == SPSH_OK || rc == SPSH_E_CORRUPT || rc == SPSH_E_LIMIT);
    if (rc != SPSH_OK) {
        must(yaml.values == NULL && yaml.texts == NULL);
        return 0;
    }
    check_values(&yaml, size);
    must(spsh__yaml_read(text, size, "fuzz", &again, NULL) == rc);
    must(again.value_count == yaml.value_count);
    spsh__yaml_free(&again);
    spsh__yaml_free(&yaml);
    return 0;
}
