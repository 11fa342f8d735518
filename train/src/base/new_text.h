/* new_text.h: allocate a string of the length that printf needs. */
#ifndef SPSH_TRAIN_NEW_TEXT_H
#define SPSH_TRAIN_NEW_TEXT_H

#include <stdarg.h>
#include <stdio.h>

/* The caller frees the result. NULL: out of memory. */
__attribute__((format(printf, 1, 2))) static inline char *spsh__new_text(const char *format, ...)
{
    char *text = NULL;
    va_list values;
    va_start(values, format);
    const int size = vasprintf(&text, format, values);
    va_end(values);
    return size < 0 ? NULL : text;
}

#endif
