/* fuzz_settings.c: settings in YAML. Every visit has a key, strings, and a line number; line
 * numbers never decrease. A second reading makes the same visits. fuzz_train_settings.c tests their
 * use. */
#include <stdlib.h>
#include <string.h>

#include "speechshard/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct visits {
    size_t count, text_bytes;
    uint64_t line; /* line of the previous visit */
} visits;

static void must(bool condition)
{
    if (!condition)
        abort();
}

static spsh_status check(void *user, const spsh_setting *s, spsh_error *err)
{
    visits *v = (visits *)user;
    bool ends = false;
    (void)err;
    must(s->keys[0] != NULL && s->count <= SPSH_SETTINGS_VALUES_MAX &&
         (s->is_list || s->count == 1));
    for (size_t k = 0; k < SPSH_SETTINGS_DEPTH_MAX; k++) {
        must(!ends || s->keys[k] == NULL);
        ends = s->keys[k] == NULL;
        must(ends || (s->keys[k][0] != '\0' && strlen(s->keys[k]) < SPSH_SETTINGS_KEY_BYTES));
    }
    for (size_t i = 0; i < s->count; i++)
        v->text_bytes += strlen(s->texts[i]);
    must(s->line >= v->line);
    v->line = s->line;
    v->count++;
    return SPSH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    visits first = {.line = 1};
    visits second = {.line = 1};
    const char *text = size == 0 ? "" : (const char *)data;
    const spsh_status rc = spsh_settings_read(text, size, "fuzz", check, &first, NULL);
    must(rc == SPSH_OK || rc == SPSH_E_SYNTAX || rc == SPSH_E_LIMIT);
    must(first.line <= size + 1 && first.text_bytes <= 2 * size);
    must(spsh_settings_read(text, size, "fuzz", check, &second, NULL) == rc);
    must(second.count == first.count && second.text_bytes == first.text_bytes);
    return 0;
}
