/* file_names.h: the meaning of file names: UTF-8, ids, audio extensions, ignored names, sidecar
 * texts.
 */
#ifndef SPSH_FILE_NAMES_H
#define SPSH_FILE_NAMES_H

#include <stdbool.h>
#include <string.h>

#include "byte_builder.h"

static inline spsh_bytes spsh__bytes_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static inline bool spsh__bytes_equal(spsh_bytes a, spsh_bytes b)
{
    return a.size_bytes == b.size_bytes &&
           (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

/* True if text ends with suffix and has something before it. */
static inline bool spsh__ends_with(spsh_bytes text, const char *suffix)
{
    const size_t length = strlen(suffix);
    return text.size_bytes > length &&
           memcmp(text.data + text.size_bytes - length, suffix, length) == 0;
}

/* Return the last part of a path. */
static inline const char *spsh__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static inline spsh_bytes spsh__bytes_base_name(spsh_bytes path)
{
    size_t begin = path.size_bytes;
    while (begin > 0 && path.data[begin - 1] != '/')
        begin--;
    return begin == 0 ? path : (spsh_bytes){path.data + begin, path.size_bytes - begin};
}

/* Return a value below, equal to, or above 0, in the order of the bytes. */
int spsh__bytes_compare(spsh_bytes a, spsh_bytes b);

/* Return text without the bytes of edges (a string) at its begin and end. */
spsh_bytes spsh__bytes_trim(spsh_bytes text, const char *edges);

/* Return text without a UTF-8 byte order mark at its begin. */
spsh_bytes spsh__without_mark(spsh_bytes text);

/* Compare, ignoring ASCII case. */
bool spsh__bytes_equal_nocase(spsh_bytes a, spsh_bytes b);
bool spsh__has_extension(spsh_bytes name, const char *extension);

/* Return the number of digits in text, starting at byte `at`. */
size_t spsh__digits_at(spsh_bytes text, size_t at);

static inline bool spsh__is_digits(spsh_bytes text)
{
    return text.size_bytes > 0 && spsh__digits_at(text, 0) == text.size_bytes;
}

/* Parse a number. False for an empty text, for bytes that are not digits, and for more than 18
 * digits. */
bool spsh__parse_digits(spsh_bytes text, uint64_t *ret_number);

/**
 * Append a file name or path as it appears in ids and reports. Bytes that are not UTF-8 and control
 * characters become %XX (upper case). '%' becomes %25 if two hexadecimal digits follow. All else is
 * unchanged. Two different names never produce the same text.
 */
void spsh__name_append(spsh__builder *out, spsh_bytes name);

/* Return the length of a path before its audio extension, or its whole length without such an
 * extension. */
size_t spsh__audio_stem(spsh_bytes path);

/* True if a name has an audio extension, whether or not the codec is supported. */
bool spsh__is_audio_name(spsh_bytes name);

/* True if folders of that name contain only clips in the usual corpus layouts. */
bool spsh__is_clip_folder(const char *name);

/* True if a folder or table of that name contains one split: "train", "val", "test", and others. */
bool spsh__is_split_name(spsh_bytes name);

/* Return the split at the start of name: "train" for "train-clean-100" or "train_a". Empty unless
 * name begins with train, dev, or test. */
spsh_bytes spsh__leading_split(spsh_bytes name);

/* True for files of desktops, version control, and unfinished downloads, which are never read. */
bool spsh__is_ignored_name(const char *name);

#define SPSH__SIDECAR_RANKS 5U

/* Return the stem length of name as a sidecar text of that rank (0 is preferred), or 0 if name is
 * not one. */
size_t spsh__sidecar_stem(spsh_bytes name, unsigned rank);

/**
 * Turn a sidecar's content into a transcript, in place. Removes a byte order mark and the line ends
 * after the last line. Replaces each other line end by one blank and counts it.
 *
 * @return the new size
 */
size_t spsh__sidecar_text(uint8_t *text, size_t size_bytes, uint64_t *ret_line_ends);

#endif
