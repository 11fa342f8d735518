/* event_file.h: write scalars over steps in TensorBoard's format, without protocol buffers.
 *
 *     spsh__event_file_open(io, "run", wall_s, step, NULL, &file, &err);
 *     const spsh__scalar scalars[] = {{"loss", 2.5}, {"rate", 1e-3}};
 *     rc = spsh__event_file_put(file, wall_s, step, scalars, 2, &err);
 *     spsh__event_file_close(file);
 *
 * A file is a list of records
 *
 *     u64 length | u32 masked CRC-32C of the 8 bytes before | message | u32 masked CRC-32C of it
 *
 * and a message is an `Event` of TensorFlow's event.proto, of which these fields are written:
 *
 *     Event    1 double wall_time   2 int64 step   3 string file_version   5 Summary   7 SessionLog
 *     Summary  1 Value, repeated    Value  1 string tag   2 float simple_value
 *     SessionLog  1 status: START   voids this step and later ones in other files, so that a
 *                                   resumed run is drawn once
 */
#ifndef SPSH_TRAIN_EVENT_FILE_H
#define SPSH_TRAIN_EVENT_FILE_H

#include "speechshard/io.h"

#define SPSH__EVENT_SCALARS_MAX 160U /* scalars per message */
#define SPSH__EVENT_TAG_MAX     120U /* bytes; longer tags are cut */

typedef struct spsh__scalar {
    const char *tag;
    double value; /* omitted if not finite */
} spsh__scalar;

typedef struct spsh__event_file spsh__event_file;

/* Create DIRECTORY/events.out.tfevents.SECONDS.NUMBER with the first unused number, and write its
 * first two records. io: borrowed until close. SPSH_E_IO, _NO_SPACE, _NO_MEMORY. */
spsh_status spsh__event_file_open(const spsh_io *io, const char *directory, double wall_s,
                                  uint64_t step, const spsh_allocator *allocator,
                                  spsh__event_file **ret, spsh_error *err);
void spsh__event_file_close(spsh__event_file *file);

/* Write all or nothing: the next call overwrites the remains of a failed one. No allocation. */
spsh_status spsh__event_file_put(spsh__event_file *file, double wall_s, uint64_t step,
                                 const spsh__scalar *scalars, size_t count, spsh_error *err);

/* CRC-32C (Castagnoli), bit by bit: messages are short. */
uint32_t spsh__crc32c(const void *data, size_t size_bytes);

#endif
