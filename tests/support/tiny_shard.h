/* tiny_shard.h: small shards that have one of everything, and a way to read all data of a shard.
 *
 * The bytes are the same on every machine: the payload comes from a fixed sequence.
 */
#ifndef TINY_SHARD_H
#define TINY_SHARD_H

#include "speechshard/shard.h"

typedef enum tiny_kind {
    TINY_SMALL = 0,   /* 4 records, 5 rows, one metadata block: 32 KiB */
    TINY_TWO = 1,     /* also a payload of two pages and 1,100 rows in two metadata blocks */
    TINY_OVERSIZE = 2 /* also a record of more than 4 MiB */
} tiny_kind;

enum { TINY_UNIT = 7, TINY_NUMBER = 2, TINY_FIRST_RECORD = 10, TINY_FIRST_UTTERANCE = 20 };

/* Writes DIRECTORY/000007-002.spsh. allocator and io may be NULL. */
spsh_status tiny_shard_write(const char *directory, tiny_kind kind, const spsh_allocator *allocator,
                             const spsh_io *io, spsh_shard_seal *ret_seal, spsh_error *err);

/* Opens a shard and reads all of it: rows, names, every string, every record whole and in ranges,
 * each id found. The digest covers all that was returned. */
spsh_status tiny_shard_read(const char *path, const spsh_allocator *allocator, const spsh_io *io,
                            uint8_t ret_digest[16], spsh_error *err);

#endif
