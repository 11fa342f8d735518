/* settings_text.h: write settings as YAML that settings.h reads. */
#ifndef SPSH_TRAIN_SETTINGS_TEXT_H
#define SPSH_TRAIN_SETTINGS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A growing string. A failed allocation is recorded: later appends do nothing. */
typedef struct spsh__settings_text {
    char *data;
    size_t size_bytes, capacity_bytes;
    bool has_failed;
} spsh__settings_text;

void spsh__settings_append(spsh__settings_text *to, const char *text);
/* Append a string in double quotes. Escapes unprintable characters and characters that would not
 * survive a round trip. text is UTF-8. */
void spsh__settings_append_quoted(spsh__settings_text *to, const char *text);
/* Return the string, NUL-terminated. The caller frees it. NULL if an append failed. */
char *spsh__settings_take(spsh__settings_text *to);

#endif
