/* settings_text.h: settings as YAML, written: what settings.h reads. */
#ifndef SPSH_TRAIN_SETTINGS_TEXT_H
#define SPSH_TRAIN_SETTINGS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* A text that grows. A failed allocation is remembered: later appends do nothing. */
typedef struct spsh__settings_text {
    char *data;
    size_t size_bytes, capacity_bytes;
    bool has_failed;
} spsh__settings_text;

void spsh__settings_append(spsh__settings_text *to, const char *text);
/* In double quotes, with escapes for what cannot be seen or would not come back. text is UTF-8. */
void spsh__settings_append_quoted(spsh__settings_text *to, const char *text);
/* NUL-terminated, the caller's to free(); NULL when an append failed. */
char *spsh__settings_take(spsh__settings_text *to);

#endif
