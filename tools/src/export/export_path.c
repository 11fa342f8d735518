/* export_path.c: see export.h.
 *
 * Decoding %XX restores the id, and "%n" is not a valid %XX, so two ids never share a path. The id
 * "a" gives the file a.wav, and "a.wav/b" would need a folder a.wav. So the last dot of a folder's
 * name is encoded, too, if the name ends like an audio file.
 */
#include "export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/file_names.h"
#include "speechshard/inside.h"

enum {
    NAME_BYTES_MAX = 240, /* below the limit of 255, with space for an extension */
    NAME_BYTES_CUT = 200,
    PATH_BYTES_MAX = 2000,
};

static bool is_plain(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("._-+=,@#()", c) != NULL);
}

static void append_encoded(spsh__builder *out, uint8_t c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char text[3] = {'%', digits[c >> 4], digits[c & 15]};
    spsh__builder_append(out, text, sizeof(text));
}

void spsh__export_number(spsh__builder *out, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof(text), "%%n%" PRIu64, number);
    spsh__builder_append_text(out, text);
}

/* Return the position of the last dot of a name if an extension of exported audio follows, else the
 * size of the name. */
static size_t extension_dot(spsh_bytes name)
{
    static const char *const extensions[] = {"wav",  "flac", "mp3", "ogg",
                                             "opus", "gsm",  "bin", "spcm"};
    size_t dot = name.size_bytes;
    while (dot > 0 && name.data[dot - 1] != '.')
        dot--;
    if (dot == 0)
        return name.size_bytes;
    for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
        const spsh_bytes end = {name.data + dot, name.size_bytes - dot};
        if (spsh__bytes_equal_nocase(end, spsh__bytes_of(extensions[i])))
            return dot - 1;
    }
    return name.size_bytes;
}

/* Cut the text after begin. Do not split a character or %XX. */
static void cut_name(spsh__builder *out, size_t begin, uint64_t number)
{
    size_t end = begin + NAME_BYTES_CUT;
    while (end > begin && (out->data[end] & 0xc0) == 0x80)
        end--;
    for (size_t back = 1; back <= 2 && end - back > begin; back++) {
        if (out->data[end - back] == '%') {
            end -= back;
            break;
        }
    }
    out->size_bytes = end;
    spsh__export_number(out, number);
}

static void append_name(spsh__builder *out, spsh_bytes name, bool dots, bool is_folder,
                        uint64_t number)
{
    size_t begin = out->size_bytes;
    bool only_dots =
        name.size_bytes <= 2 && name.data[0] == '.' && name.data[name.size_bytes - 1] == '.';
    size_t hidden_dot = is_folder ? extension_dot(name) : name.size_bytes;
    for (size_t at = 0; at < name.size_bytes;) {
        const spsh_bytes rest = {name.data + at, name.size_bytes - at};
        size_t length = rest.data[0] < 0x80 ? 1 : spsh__utf8_sequence(rest);
        uint8_t c = rest.data[0];
        bool dot_is_plain = dots && !only_dots && at != hidden_dot;
        if (length > 1 || (length == 1 && is_plain(c) && (c != '.' || dot_is_plain))) {
            spsh__builder_append(out, rest.data, length);
            at += length;
        } else {
            append_encoded(out, c);
            at++;
        }
    }
    if (!out->failed && out->size_bytes - begin > NAME_BYTES_MAX)
        cut_name(out, begin, number);
}

void spsh__export_path(spsh__builder *out, spsh_bytes id, bool dots, uint64_t number)
{
    size_t begin = out->size_bytes;
    size_t name_begin = 0;
    /* A slash at the begin or end, or after another slash, is part of a name. */
    for (size_t at = 0; at < id.size_bytes; at++) {
        if (id.data[at] != '/' || at == name_begin || at + 1 == id.size_bytes)
            continue;
        const spsh_bytes name = {id.data + name_begin, at - name_begin};
        append_name(out, name, dots, true, number);
        spsh__builder_append(out, "/", 1);
        name_begin = at + 1;
    }
    const spsh_bytes name = {id.data + name_begin, id.size_bytes - name_begin};
    append_name(out, name, dots, false, number);
    if (!out->failed && out->size_bytes - begin > PATH_BYTES_MAX) {
        out->size_bytes = begin;
        spsh__export_number(out, number);
    }
}
