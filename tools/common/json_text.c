/* json_text.c: RFC 8259 strings. Only characters that RFC 8259 requires are escaped: quote,
 * backslash, controls. Eight bytes without such a character are passed over at a time.
 */
#include "json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file_names.h"
#include "speechshard/inside.h"

static void append_escape(spsh__builder *out, uint8_t byte)
{
    static const char hex[] = "0123456789abcdef";
    switch (byte) {
    case '"': spsh__builder_append(out, "\\\"", 2); return;
    case '\\': spsh__builder_append(out, "\\\\", 2); return;
    case '\n': spsh__builder_append(out, "\\n", 2); return;
    case '\r': spsh__builder_append(out, "\\r", 2); return;
    case '\t': spsh__builder_append(out, "\\t", 2); return;
    default: break;
    }
    char text[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
    spsh__builder_append(out, text, sizeof(text));
}

/* Whether one of eight bytes is a quote, a backslash, a control character, or not ASCII.
 * A subtraction sets the high bit of such a byte: byte - 0x20 for controls, (byte ^ c) - 1 for a
 * character c. A borrow can only come from a byte that sets its own high bit. */
static bool has_special(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t quotes = word ^ (ones * '"');
    const uint64_t slashes = word ^ (ones * '\\');
    return ((word | (word - ones * 0x20) | (quotes - ones) | (slashes - ones)) & (ones * 0x80)) !=
           0;
}

void spsh__json_string(spsh__builder *out, spsh_bytes text)
{
    spsh__builder_append(out, "\"", 1);
    size_t plain = 0; /* start of the run that needs no change */
    size_t i = 0;
    while (i < text.size_bytes) {
        uint64_t word = 0;
        if (text.size_bytes - i >= sizeof(word)) {
            memcpy(&word, text.data + i, sizeof(word));
            if (!has_special(word)) {
                i += sizeof(word);
                continue;
            }
        }
        uint8_t byte = text.data[i];
        size_t length = 1;
        if (byte >= 0x80)
            length = spsh__utf8_sequence((spsh_bytes){text.data + i, text.size_bytes - i});
        if (length != 0 && byte >= 0x20 && byte != '"' && byte != '\\') {
            i += length;
            continue;
        }
        spsh__builder_append(out, text.data + plain, i - plain);
        if (length == 0)
            spsh__builder_append(out, "\xef\xbf\xbd", 3);
        else
            append_escape(out, byte);
        plain = ++i;
    }
    if (text.size_bytes > plain)
        spsh__builder_append(out, text.data + plain, text.size_bytes - plain);
    spsh__builder_append(out, "\"", 1);
}

void spsh__json_member(spsh__builder *out, size_t start, spsh_bytes key, spsh_bytes value)
{
    spsh__builder_append(out, out->size_bytes == start ? "{" : ",", 1);
    spsh__json_string(out, key);
    spsh__builder_append(out, ":", 1);
    spsh__json_string(out, value);
}

void spsh__json_member_number(spsh__builder *out, size_t start, const char *key, uint64_t value)
{
    char text[64];
    const int length = snprintf(text, sizeof(text), "%c\"%s\":%" PRIu64,
                                out->size_bytes == start ? '{' : ',', key, value);
    spsh__builder_append(out, text, (size_t)length);
}

void spsh__json_close(spsh__builder *out, size_t start)
{
    if (out->size_bytes != start)
        spsh__builder_append(out, "}", 1);
}
