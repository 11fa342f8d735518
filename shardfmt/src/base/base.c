/* base.c: status strings, the error record, and the only calls of malloc. */
#include "base_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Size of the last failed allocation on this thread, until an error reports it; 0: none. */
static _Thread_local size_t failed_bytes;

static void *default_alloc(void *user, size_t size_bytes)
{
    (void)user;
    void *memory = malloc(size_bytes == 0 ? 1 : size_bytes);
    if (memory == NULL)
        failed_bytes = size_bytes;
    return memory;
}

static void default_free(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static const spsh_allocator default_allocator = {default_alloc, default_free, NULL};

const char *spsh_status_name(spsh_status status)
{
    switch (status) {
#define SPSH_X(name_, value_, text_)                                                               \
    case SPSH_##name_: return "SPSH_" #name_;
        SPSH_STATUS_MAP(SPSH_X)
#undef SPSH_X
    }
    return "SPSH_E_?";
}

const char *spsh_status_text(spsh_status status)
{
    switch (status) {
#define SPSH_X(name_, value_, text_)                                                               \
    case SPSH_##name_: return text_;
        SPSH_STATUS_MAP(SPSH_X)
#undef SPSH_X
    }
    return "unknown status";
}

const char *spsh_version(void)
{
    return SPSH_VERSION_STRING;
}

const spsh_allocator *spsh_allocator_default(void)
{
    return &default_allocator;
}

/* Messages name the object that was to be allocated. The cause is added here, once for all. */
static void add_out_of_memory(char *message, size_t capacity)
{
    const char *cause = spsh_status_text(SPSH_E_NO_MEMORY);
    char text[64];
    const int length =
        failed_bytes == 0
            ? snprintf(text, sizeof(text), ": %s", cause)
            : snprintf(text, sizeof(text), ": %s (%zu bytes were requested)", cause, failed_bytes);
    failed_bytes = 0;
    if (strstr(message, cause) != NULL || length < 0)
        return;
    const size_t space_bytes = capacity - (size_t)length - 1;
    const size_t used = strlen(message);
    (void)snprintf(message + (used < space_bytes ? used : space_bytes), (size_t)length + 1, "%s",
                   text);
}

void spsh_error_set(spsh_error *err, spsh_status status, int os_errno, uint64_t offset_bytes,
                    const char *format, ...)
{
    if (err == NULL)
        return;
    err->status = status;
    err->os_errno = os_errno;
    err->offset_bytes = offset_bytes;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    if (status == SPSH_E_NO_MEMORY)
        add_out_of_memory(err->message, sizeof(err->message));
}

const char *spsh__os_text(int os_errno)
{
#if defined(__GLIBC__)
    const char *text =
        strerrordesc_np(os_errno); /* strerror may translate and is not thread-safe */
    return text == NULL ? "unknown error" : text;
#else
    return strerror(os_errno);
#endif
}
