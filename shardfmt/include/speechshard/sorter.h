/* sorter.h: sort more entries than fit into memory: runs in temporary files, then one merge.
 *
 *     spsh_sorter_open(&options, &sorter, &err);
 *     spsh_sorter_add(sorter, key, value, &err);                    // once per entry
 *     while ((rc = spsh_sorter_next(sorter, &key, &value, &err)) == SPSH_OK) ...
 *     spsh_sorter_free(sorter);                                     // SPSH_E_END after the last
 */
#ifndef SPEECHSHARD_SORTER_H
#define SPEECHSHARD_SORTER_H

#include "speechshard/io.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spsh_sorter spsh_sorter;

typedef struct spsh_sorter_options {
    size_t struct_size;
    const spsh_allocator *allocator; /* NULL: malloc and free; copied */
    const spsh_io *io;               /* NULL: the operating system; borrowed until free */
    const char *directory; /* for temporary files, if memory is full; they are unlinked at once */
    uint64_t memory_bytes; /* 0: 256 MiB; at least 1 MiB */
} spsh_sorter_options;

/* clang-format off */
#define SPSH_SORTER_OPTIONS_INIT {sizeof(spsh_sorter_options), NULL, NULL, NULL, 0}
/* clang-format on */

SPSH_API SPSH_NODISCARD spsh_status spsh_sorter_open(const spsh_sorter_options *options,
                                                     spsh_sorter **ret_sorter, spsh_error *err);

/** Add an entry, copied. Order: key bytes ascending (memcmp; a prefix first), then order of adding.
 * Key and value are at most 1 MiB and 64 MiB. SPSH_E_NO_SPACE, _IO, _NO_MEMORY, _LIMIT. */
SPSH_API SPSH_NODISCARD spsh_status spsh_sorter_add(spsh_sorter *sorter, spsh_bytes key,
                                                    spsh_bytes value, spsh_error *err);

/** Return the next entry in order; borrowed until the next call. No entry can be added after the
 * first call. SPSH_E_END after the last entry; err is then unchanged. */
SPSH_API SPSH_NODISCARD spsh_status spsh_sorter_next(spsh_sorter *sorter, spsh_bytes *ret_key,
                                                     spsh_bytes *ret_value, spsh_error *err);
SPSH_API uint64_t spsh_sorter_count(const spsh_sorter *sorter);
SPSH_API void spsh_sorter_free(spsh_sorter *sorter);

#ifdef __cplusplus
}
#endif

#endif
