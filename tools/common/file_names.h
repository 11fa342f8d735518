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

/* The last part of a path. */
static inline const char *spsh__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* ASCII case is ignored. */
bool spsh__bytes_equal_nocase(spsh_bytes a, spsh_bytes b);

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
