/* settings.h: a text of settings in YAML, read key by key (libyaml).
 *
 *     vocabulary: digits.yaml           keys "vocabulary", one value
 *     data:
 *       train: [a.spsh:train, b.spsh]   keys "data", "train", a list of two
 *
 *     rc = spsh_settings_read(text, size_bytes, "digits.yaml", visit, user, &err);
 *
 * What no settings need is refused with the line where it stands: aliases (a few lines of them name
 * billions of values), tags, several documents, lists of anything but scalars, more levels of keys
 * than there are below. A value that is read wrong is worse than none.
 */
#ifndef SPEECHSHARD_SETTINGS_H
#define SPEECHSHARD_SETTINGS_H

#include <stdbool.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_SETTINGS_BYTES_MAX  ((size_t)8 << 20)
#define SPSH_SETTINGS_VALUES_MAX ((size_t)1 << 18) /* of a list */
#define SPSH_SETTINGS_DEPTH_MAX  3                 /* keys, one below the other */
#define SPSH_SETTINGS_KEY_BYTES  256               /* with the NUL */

/** Lent to the visitor during the call. Texts are UTF-8, NUL-terminated. */
typedef struct spsh_setting {
    const char *name;                          /* of the file, for messages */
    const char *keys[SPSH_SETTINGS_DEPTH_MAX]; /* from the outermost; NULL behind the last */
    const char *const *texts;                  /* one that is empty or null is "" */
    size_t count;                              /* 1, but for a list */
    bool is_list;
    uint64_t line; /* of the key; 1-based */
} spsh_setting;

/** What is not SPSH_OK ends the reading. */
typedef spsh_status (*spsh_setting_fn)(void *user, const spsh_setting *setting, spsh_error *err);

/**
 * Visit each key that has a value or a list, in the text's order; one that stands there again,
 * again.
 *
 * @param text  size_bytes of UTF-8, borrowed during the call
 * @param name  of the file, for messages
 * @return SPSH_OK; SPSH_E_SYNTAX with the line that is not understood; SPSH_E_LIMIT: the text is
 * longer, or a list has more values, than above; SPSH_E_NO_MEMORY; what visit_fn says. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_settings_read(const char *text, size_t size_bytes,
                                                       const char *name, spsh_setting_fn visit_fn,
                                                       void *user, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
