/* options.h: the rule for option structs, whose first field is their size as the caller knew it.
 *
 * A smaller struct is an older caller: what it lacks is zero, which means the default. A larger one
 * is a newer caller, accepted as long as what this library does not know is zero.
 */
#ifndef SPSH_OPTIONS_H
#define SPSH_OPTIONS_H

#include "base_internal.h"

/* Copies *options into the struct at ret_options, which has known_bytes. options may be NULL: all
 * defaults. */
static inline spsh_status spsh__options_take(const void *options, void *ret_options,
                                             size_t known_bytes, spsh_error *err)
{
    size_t struct_size = 0;
    memset(ret_options, 0, known_bytes);
    if (options == NULL)
        return SPSH_OK;
    memcpy(&struct_size, options, sizeof(struct_size));
    if (struct_size < sizeof(struct_size))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "options: struct_size is %zu, want %zu", struct_size, known_bytes);
    const uint8_t *bytes = (const uint8_t *)options;
    for (size_t i = known_bytes; i < struct_size; i++)
        if (bytes[i] != 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                             "options: byte %zu is set, this library knows %zu", i, known_bytes);
    memcpy(ret_options, options, struct_size < known_bytes ? struct_size : known_bytes);
    return SPSH_OK;
}

#endif
