/* gunzip.h: the bytes inside a gzip file, with the CRC and the length of each member checked.
 *
 * libarchive 3.6 reads past the trailer of a member without a look at it, so that damage which
 * still inflates would be packed. zlib sits behind gunzip.c.
 */
#ifndef SPSH_INGEST_GUNZIP_H
#define SPSH_INGEST_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct spsh__gunzip spsh__gunzip;

typedef struct spsh__gunzip_source {
    /* More of the file; *ret_data is borrowed until the next call. Bytes, 0 at its end, or below 0
     * after a failure, which step returns. */
    int64_t (*read_fn)(void *user, const uint8_t **ret_data);
    void *user;
} spsh__gunzip_source;

/* Whether a file that begins like this is gzip. */
bool spsh__gunzip_fits(const uint8_t *head, size_t size_bytes);

/* head: the first bytes of the file, which read_fn has given already; borrowed until the first call
 * of step that calls read_fn. NULL: out of memory. */
spsh__gunzip *spsh__gunzip_new(const spsh__gunzip_source *source, const uint8_t *head,
                               size_t size_bytes);

/* The next bytes; *ret_data is borrowed until the next call. Bytes, 0 after the last member, or a
 * negative errno: that of read_fn, -ENOMEM, or -EILSEQ if the file is damaged. *ret_problem then
 * tells how ("truncated ..." if the file ends too early); it is not written otherwise. */
int64_t spsh__gunzip_step(spsh__gunzip *gunzip, const uint8_t **ret_data, const char **ret_problem);

/* NULL is fine. */
void spsh__gunzip_free(spsh__gunzip *gunzip);

#endif
