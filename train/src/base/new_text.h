/* new_text.h: a text as long as what is printed into it. */
#ifndef SPSH_TRAIN_NEW_TEXT_H
#define SPSH_TRAIN_NEW_TEXT_H

#include <stdarg.h>
#include <stdio.h>

/* The caller's to free(); NULL: out of memory. */
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
