/* file_names.h: what file names mean: UTF-8, ids, audio extensions, names to ignore, sidecar texts.
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

/* Whether text has the suffix at its end and something before it. */
static inline bool spsh__ends_with(spsh_bytes text, const char *suffix)
{
    const size_t length = strlen(suffix);
    return text.size_bytes > length &&
           memcmp(text.data + text.size_bytes - length, suffix, length) == 0;
}

/* The last part of a path. */
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

/* ASCII case is ignored. */
bool spsh__bytes_equal_nocase(spsh_bytes a, spsh_bytes b);
bool spsh__has_extension(spsh_bytes name, const char *extension);

/* Number of digits in text from the byte at `at` on. */
size_t spsh__digits_at(spsh_bytes text, size_t at);

static inline bool spsh__is_digits(spsh_bytes text)
{
    return text.size_bytes > 0 && spsh__digits_at(text, 0) == text.size_bytes;
}

/* The number whose digits are all of text. False for an empty text, for other bytes, and for more
 * than 18 digits. */
bool spsh__parse_digits(spsh_bytes text, uint64_t *ret_number);

/**
 * Append a file name or path as it appears in ids and reports: bytes that are not UTF-8 and control
 * characters as %XX (upper case), '%' as %25 when two hexadecimal digits follow, all else as it is.
 * Two different names never give the same text.
 */
void spsh__name_append(spsh__builder *out, spsh_bytes name);

/* Bytes of a path before its audio extension; all of them when it has none. */
size_t spsh__audio_stem(spsh_bytes path);

/* Whether a name ends in an extension that says audio, whether or not we can decode it. */
bool spsh__is_audio_name(spsh_bytes name);

/* Whether folders of that name hold clips and nothing else, as corpora are laid out. */
bool spsh__is_clip_folder(const char *name);

/* Whether a folder or table of that name holds one split: "train", "val", "test" and the like. */
bool spsh__is_split_name(spsh_bytes name);

/* "train" of "train-clean-100" or "train_a"; empty unless the name begins with train, dev or test. */
spsh_bytes spsh__leading_split(spsh_bytes name);

/* Left by desktops, version control and unfinished downloads: never looked at. */
bool spsh__is_ignored_name(const char *name);

#define SPSH__SIDECAR_RANKS 5U

/* Stem length of name read as a sidecar text of that rank (0 is preferred); 0 if it is none. */
size_t spsh__sidecar_stem(spsh_bytes name, unsigned rank);

/**
 * Turn a sidecar's content into a transcript, in place: without a byte order mark and the line ends
 * behind the last line; a line end inside becomes one blank and is counted.
 *
 * @return the new size
 */
size_t spsh__sidecar_text(uint8_t *text, size_t size_bytes, uint64_t *ret_line_ends);

#endif
