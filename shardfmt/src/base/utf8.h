/* utf8.h: is it UTF-8? No overlong forms, no surrogates, nothing above U+10FFFF. NUL is a
 * character. */
#ifndef SPSH_UTF8_H
#define SPSH_UTF8_H

#include <stdbool.h>
#include <stddef.h>

bool spsh__utf8_valid(const void *data, size_t size_bytes);

#endif
