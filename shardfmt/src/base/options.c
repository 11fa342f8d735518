/* options.c: see options.h. */
#include "speechshard/options.h"

#include <stdio.h>

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

/* The name that is the word of so many bytes, or NULL. */
static const spsh_option_name *find_name(const char *word, size_t word_bytes,
                                         const spsh_option_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i].field) == word_bytes && memcmp(names[i].field, word, word_bytes) == 0)
            return &names[i];
    return NULL;
}

void spsh_options_rename(spsh_error *err, const spsh_option_name *names, size_t count)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char message[sizeof(err->message)];
    if (err == NULL)
        return;
    size_t used = 0;
    for (const char *at = err->message; *at != '\0' && used + 1 < sizeof(message);) {
        const size_t word_bytes = strspn(at, letters);
        const size_t size_bytes = word_bytes > 0 ? word_bytes : 1;
        const spsh_option_name *name = find_name(at, word_bytes, names, count);
        const int length =
            name != NULL
                ? snprintf(message + used, sizeof(message) - used, "%s", name->shown)
                : snprintf(message + used, sizeof(message) - used, "%.*s", (int)size_bytes, at);
        used += (size_t)length;
        at += size_bytes;
    }
    message[used < sizeof(message) ? used : sizeof(message) - 1] = '\0';
    memcpy(err->message, message, sizeof(message));
}
