/* settings.h: read settings from YAML text, key by key (libyaml).
 *
 *     vocabulary: digits.yaml           keys "vocabulary", one value
 *     data:
 *       train: [a.spsh:train, b.spsh]   keys "data", "train", a list of two
 *
 *     rc = spsh_settings_read(text, size_bytes, "digits.yaml", visit, user, &err);
 *
 * YAML features that settings do not need are errors with their line: aliases (a few lines of them
 * can expand to billions of values), tags, several documents, lists of anything but scalars, and
 * keys nested deeper than SPSH_SETTINGS_DEPTH_MAX.
 */
#ifndef SPEECHSHARD_SETTINGS_H
#define SPEECHSHARD_SETTINGS_H

#include <stdbool.h>

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPSH_SETTINGS_BYTES_MAX  ((size_t)8 << 20)
#define SPSH_SETTINGS_VALUES_MAX ((size_t)1 << 18) /* per list */
#define SPSH_SETTINGS_DEPTH_MAX  3                 /* nested keys */
#define SPSH_SETTINGS_KEY_BYTES  256               /* including the NUL */

/** One setting, borrowed by the visitor during the call. Strings are UTF-8 and end with NUL. */
typedef struct spsh_setting {
    const char *name;                          /* name of the file, for messages */
    const char *keys[SPSH_SETTINGS_DEPTH_MAX]; /* from the outermost; NULL after the last */
    const char *const *texts;                  /* [count]; "" for an empty or null value */
    size_t count;                              /* 1 unless it is a list */
    bool is_list;
    uint64_t line; /* line of the key, from 1 */
} spsh_setting;

/** Handle one setting. Any status but SPSH_OK stops the reading. */
typedef spsh_status (*spsh_setting_fn)(void *user, const spsh_setting *setting, spsh_error *err);

/**
 * Visit each key that has a value or a list, in the order of the text. A repeated key is visited
 * again.
 *
 * @param text  size_bytes of UTF-8, borrowed during the call
 * @param name  name of the file, for messages
 * @return SPSH_OK; SPSH_E_SYNTAX with the line of the error; SPSH_E_LIMIT: the text or a list
 * exceeds the limits above; SPSH_E_NO_MEMORY; any status of visit_fn. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_settings_read(const char *text, size_t size_bytes,
                                                       const char *name, spsh_setting_fn visit_fn,
                                                       void *user, spsh_error *err);

#ifdef __cplusplus
}
#endif

#endif
