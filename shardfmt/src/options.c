/* options.c: see options.h. */
#include "speechshard/options.h"

#include "base_internal.h"

spsh_status spsh_options_take(const void *options, void *taken, size_t known_bytes, spsh_error *err)
{
    const uint8_t *bytes = (const uint8_t *)options;
    size_t struct_size = 0;
    if (options == NULL)
        return SPSH_OK;
    memcpy(&struct_size, options, sizeof(struct_size));
    if (struct_size < sizeof(struct_size))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                         "options: struct_size is %zu, want %zu", struct_size, known_bytes);
    for (size_t i = known_bytes; i < struct_size; i++)
        if (bytes[i] != 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, SPSH_OFFSET_NONE,
                             "options: byte %zu is set, this library knows %zu", i, known_bytes);
    memcpy(taken, options, struct_size < known_bytes ? struct_size : known_bytes);
    return SPSH_OK;
}
