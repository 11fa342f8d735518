/* options.h: the rule for option structs, whose first field is their size as the caller knew it.
 *
 * A smaller struct is an older caller: what it lacks stays the default. A larger one is a newer
 * caller, accepted as long as what this library does not know is zero.
 */
#ifndef SPEECHSHARD_OPTIONS_H
#define SPEECHSHARD_OPTIONS_H

#include "speechshard/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Lay a caller's options over the defaults.
 *
 *     spsh_sorter_options opt = SPSH_SORTER_OPTIONS_INIT;
 *     rc = spsh_options_take(options, &opt, sizeof(opt), &err);
 *
 * @param options      begins with a size_t struct_size; NULL: nothing changes
 * @param taken        the defaults, known_bytes of them; untouched on failure
 * @return SPSH_OK or SPSH_E_INVALID_ARG. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_options_take(const void *options, void *taken,
                                                      size_t known_bytes, spsh_error *err);

/** Name of an option's field, and the name under which a program shows the option to its users. */
typedef struct spsh_option_name {
    const char *field; /* "batch_seconds_max" */
    const char *shown; /* "--max-seconds" */
} spsh_option_name;

/**
 * Replace field names in a message by those of the program's own options.
 *
 * Only whole words are replaced. A message that grows too long is cut. Thread-safe.
 *
 * @param err  may be NULL
 */
SPSH_API void spsh_options_rename(spsh_error *err, const spsh_option_name *names, size_t count);

#ifdef __cplusplus
}
#endif

#endif
