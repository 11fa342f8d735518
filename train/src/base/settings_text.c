/* settings_text.c: see settings_text.h. */
#include "settings_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static void append_bytes(spsh__settings_text *to, const char *bytes, size_t size)
{
    if (to->has_failed)
        return;
    if (size >= to->capacity_bytes - to->size_bytes) {
        const size_t capacity = 2 * to->capacity_bytes + size + 256;
        char *data = realloc(to->data, capacity);
        if (data == NULL) {
            to->has_failed = true;
            return;
        }
        to->data = data;
        to->capacity_bytes = capacity;
    }
    memcpy(to->data + to->size_bytes, bytes, size);
    to->size_bytes += size;
    to->data[to->size_bytes] = '\0';
}

void spsh__settings_append(spsh__settings_text *to, const char *text)
{
    append_bytes(to, text, strlen(text));
}

/* Only letters, digits, punctuation, and symbols are printed unescaped. A mark would combine with
 * the quote before it. Others are blanks, controls, or unassigned. */
static bool is_plain(int32_t point)
{
    const utf8proc_category_t category = utf8proc_category(point);
    if (point < 0x80)
        return point >= 0x20 && point != 0x7f && point != '"' && point != '\\';
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_SO &&
           category != UTF8PROC_CATEGORY_MN && category != UTF8PROC_CATEGORY_MC &&
           category != UTF8PROC_CATEGORY_ME;
}

void spsh__settings_append_quoted(spsh__settings_text *to, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t left = strlen(text);
    append_bytes(to, "\"", 1);
    while (left > 0) {
        int32_t point = 0;
        char escape[16];
        const utf8proc_ssize_t size = utf8proc_iterate(at, (utf8proc_ssize_t)left, &point);
        const size_t taken = size > 0 ? (size_t)size : 1;
        if (size > 0 && is_plain(point)) {
            append_bytes(to, (const char *)at, taken);
        } else {
            (void)snprintf(escape, sizeof(escape), point > 0xffff ? "\\U%08X" : "\\u%04X",
                           size > 0 ? (unsigned)point : 0xfffd);
            append_bytes(to, escape, strlen(escape));
        }
        at += taken;
        left -= taken;
    }
    append_bytes(to, "\"", 1);
}

char *spsh__settings_take(spsh__settings_text *to)
{
    char *data = to->data;
    if (to->has_failed) {
        free(data);
        data = NULL;
    }
    *to = (spsh__settings_text){0};
    return data;
}
