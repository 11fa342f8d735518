/* options.h: structures that may grow. Their first field is their size as the caller knew it.
 *
 * Options: a smaller structure comes from an older caller, and the fields that it lacks keep their
 * defaults. A larger one comes from a newer caller, and is accepted if the fields that this library
 * does not know are zero.
 *
 * Results: an older caller gets the fields that it knows. A newer caller gets zeros in the fields
 * that this library does not know.
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
 * @param taken        contains the defaults (known_bytes) and receives the options; keeps its
 * struct_size; unchanged on failure
 * @return SPSH_OK or SPSH_E_INVALID_ARG. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_options_take(const void *options, void *taken,
                                                      size_t known_bytes, spsh_error *err);

/**
 * Check a caller's structure for results before the work that fills it.
 *
 * @param ret_result   begins with a size_t struct_size that its INIT macro has set
 * @param known_bytes  size of the structure in this library
 * @return SPSH_OK or SPSH_E_INVALID_ARG. Thread-safe.
 */
SPSH_API SPSH_NODISCARD spsh_status spsh_result_check(const void *ret_result, size_t known_bytes,
                                                      spsh_error *err);

/**
 * Fill a caller's structure.
 *
 * @param ret_result  its struct_size stays. Nothing is written if spsh_result_check rejects it
 * @param result      known_bytes; its struct_size is not read. Thread-safe.
 */
SPSH_API void spsh_result_give(void *ret_result, const void *result, size_t known_bytes);

/** Name of an option's field, and the name under which a program shows the option to its users. */
typedef struct spsh_option_name {
    const char *field; /* "batch_seconds_max" */
    const char *shown; /* "--max-seconds" */
} spsh_option_name;

/**
 * Replace field names in a message by the names of the program's options.
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
