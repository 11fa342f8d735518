/* tar_out.h: tar files whose bytes depend only on names and contents (libarchive).
 *
 *     rc = spsh__tar_out_open("out", "shard-000000.tar", &tar, &err);
 *     rc = spsh__tar_out_member(tar, "key.txt", size_bytes, &err);
 *     sink = spsh__tar_out_sink(tar);
 *     rc = sink.write_fn(...);                       // exactly size_bytes
 *     rc = spsh__tar_out_finish(tar, &err);          // published
 *     spsh__tar_out_free(tar);
 */
#ifndef SPSH_TAR_OUT_H
#define SPSH_TAR_OUT_H

#include "common/wav_out.h"

typedef struct spsh__tar_out spsh__tar_out;

SPSH_NODISCARD spsh_status spsh__tar_out_open(const char *directory, const char *name,
                                              spsh__tar_out **ret_tar, spsh_error *err);
/** Start a regular file. The file before it must be complete. name is UTF-8. */
SPSH_NODISCARD spsh_status spsh__tar_out_member(spsh__tar_out *tar, const char *name,
                                                uint64_t size_bytes, spsh_error *err);
spsh__byte_sink spsh__tar_out_sink(spsh__tar_out *tar);
/** Return the size of the archive so far, without its end. */
uint64_t spsh__tar_out_bytes(const spsh__tar_out *tar);
SPSH_NODISCARD spsh_status spsh__tar_out_finish(spsh__tar_out *tar, spsh_error *err);
/** NULL is fine. Removes an unfinished file. */
void spsh__tar_out_free(spsh__tar_out *tar);

#endif
