/* memory_io.h: an I/O table over one file in memory, for reading; every path is that file.
 *
 *     memory_io memory = {data, size_bytes};
 *     spsh_io io = memory_io_table(&memory);
 *
 * Mappings point into data. If data is a block of its exact size, a sanitizer sees an over-read of
 * one byte.
 */
#ifndef MEMORY_IO_H
#define MEMORY_IO_H

#include "speechshard/io.h"

typedef struct memory_io {
    const uint8_t *data;
    size_t size_bytes;
} memory_io;

/* memory must outlive the table. */
spsh_io memory_io_table(memory_io *memory);

#endif
