/* settings.h: settings as YAML (libyaml), read key by key, and written.
 *
 *     vocabulary: digits.yaml           section "", key "vocabulary", one value
 *     data:
 *       train: [a.spsh:train, b.spsh]   section "data", key "train", a list of two
 *
 * What no settings need is refused with the line where it stands: aliases (a few lines of them name
 * billions of values), tags, several documents, lists of anything but scalars, sections in
 * sections.
 */
#ifndef SPSH_TRAIN_SETTINGS_H
#define SPSH_TRAIN_SETTINGS_H

#include <stdbool.h>

#include "speechshard/base.h"

#define SPSH__SETTINGS_BYTES_MAX  ((size_t)8 << 20)
#define SPSH__SETTINGS_VALUES_MAX ((size_t)1 << 18) /* of a list */
#define SPSH__SETTING_NAME_BYTES  64                /* of a section or a key, with the NUL */

/* Lent to the visitor. */
typedef struct spsh__setting {
    const char *name;         /* of the file, for messages */
    const char *section;      /* "": outside of sections */
    const char *key;          /* of a section or outside of it */
    const char *const *texts; /* UTF-8; one that is empty or null is "" */
    size_t count;             /* 1, but for a list */
    bool is_list;
    uint64_t line; /* 1-based */
} spsh__setting;

/* The first that is not SPSH_OK ends the reading. */
typedef spsh_status (*spsh__setting_fn)(void *user, const spsh__setting *setting, spsh_error *err);

/*
 * Each key in the text's order, the same one again where it stands there again.
 *
 * @return SPSH_E_SYNTAX with the line that is not understood; SPSH_E_LIMIT when the text is longer,
 * or a list has more values, than the limits above; SPSH_E_NO_MEMORY; what visit_fn says
 */
spsh_status spsh__settings_read(const char *text, size_t size_bytes, const char *name,
                                spsh__setting_fn visit_fn, void *user, spsh_error *err);

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
