/* options.c: see options.h. */
#include "speechshard/options.h"

#include <stdio.h>

#include "base_internal.h"

/* Maximum growth of a result struct in newer callers. A larger struct_size was not initialized. */
enum { RESULT_GROWTH_BYTES_MAX = 65536 };

spsh_status spsh_options_take(const void *options, void *taken, size_t known_bytes, spsh_error *err)
{
    const uint8_t *bytes = (const uint8_t *)options;
    size_t struct_size = 0;
    if (options == NULL)
        return SPSH_OK;
    memcpy(&struct_size, options, sizeof(struct_size));
    if (struct_size < sizeof(struct_size))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "options: struct_size is %zu, expected %zu",
                         struct_size, known_bytes);
    for (size_t i = known_bytes; i < struct_size; i++)
        if (bytes[i] != 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "options: byte %zu is set, but this library knows only %zu bytes; use "
                             "a newer library",
                             i, known_bytes);
    const size_t both_bytes = struct_size < known_bytes ? struct_size : known_bytes;
    memcpy((uint8_t *)taken + sizeof(size_t), bytes + sizeof(size_t), both_bytes - sizeof(size_t));
    return SPSH_OK;
}

spsh_status spsh_result_check(const void *ret_result, size_t known_bytes, spsh_error *err)
{
    size_t struct_size = 0;
    if (ret_result != NULL)
        memcpy(&struct_size, ret_result, sizeof(struct_size));
    if (struct_size < sizeof(struct_size) || struct_size > known_bytes + RESULT_GROWTH_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "result: struct_size is %zu, expected %zu",
                         struct_size, known_bytes);
    return SPSH_OK;
}

void spsh_result_give(void *ret_result, const void *result, size_t known_bytes)
{
    uint8_t *bytes = (uint8_t *)ret_result;
    size_t struct_size = 0;
    if (spsh_result_check(ret_result, known_bytes, NULL) != SPSH_OK)
        return;
    memcpy(&struct_size, ret_result, sizeof(struct_size));
    const size_t both_bytes = struct_size < known_bytes ? struct_size : known_bytes;
    memcpy(bytes + sizeof(size_t), (const uint8_t *)result + sizeof(size_t),
           both_bytes - sizeof(size_t));
    memset(bytes + both_bytes, 0, struct_size - both_bytes);
}

/* Find the name that equals the word of word_bytes bytes, or return NULL. */
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
