/* gunzip.h: decompress a gzip file and check the CRC and the length of each member.
 *
 * libarchive 3.6 ignores the trailer of a member, so it would accept damage that still inflates.
 * Only gunzip.c calls zlib.
 */
#ifndef SPSH_INGEST_GUNZIP_H
#define SPSH_INGEST_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct spsh__gunzip spsh__gunzip;

typedef struct spsh__gunzip_source {
    /* Return more bytes of the file; *ret_data is borrowed until the next call. Returns the byte
     * count, 0 at the end of the file, or a negative errno, which spsh__gunzip_step passes on. */
    int64_t (*read_fn)(void *user, const uint8_t **ret_data);
    void *user;
} spsh__gunzip_source;

/* Whether a file that begins with head is gzip. */
bool spsh__gunzip_fits(const uint8_t *head, size_t size_bytes);

/* Create a decompressor. head: the first bytes of the file, which read_fn will not return again;
 * borrowed until the first spsh__gunzip_step that calls read_fn. Returns NULL if out of memory. */
spsh__gunzip *spsh__gunzip_new(const spsh__gunzip_source *source, const uint8_t *head,
                               size_t size_bytes);

/* Return the next bytes; *ret_data is borrowed until the next call. Returns the byte count, 0 after
 * the last member, or a negative errno: the errno of read_fn, -ENOMEM, or -EILSEQ if the file is
 * damaged. For -EILSEQ, *ret_problem describes the damage ("truncated ..." if the file ends too
 * early). Otherwise *ret_problem is unchanged. */
int64_t spsh__gunzip_step(spsh__gunzip *gunzip, const uint8_t **ret_data, const char **ret_problem);

/* NULL is allowed. */
void spsh__gunzip_free(spsh__gunzip *gunzip);

#endif
