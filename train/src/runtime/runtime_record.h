/* runtime_record.h: the order of a learner's marks, kept while it runs: all that chance had a part
 * in.
 *
 *     spsh__record_open(&options, runtime, &recorded, &err);      // a runtime around a runtime
 *     ... the strategy uses `recorded` ...
 *     recorded->ops->close_fn(recorded);
 *
 * The file, little-endian, in blocks of up to 4,096 marks: what a killed process leaves is whole up
 * to its last block.
 *
 *     head    "SPSHMARK" | u32 version 1 | u32 rank | u32 world size | u32 0 | u64 run
 *     block   u32 count | u32 0 | u64 XXH3-64 of the marks | count marks
 *     mark    u8 what | u8 kind | u16 from | u32 part | u64 number
 *
 * what: 1 a message is served (its kind, sender, part, number), 2 the lock is taken (the mark's), 3
 * a note (number: its value), 4 the end: what is behind it never was.
 */
#ifndef SPSH_RUNTIME_RECORD_H
#define SPSH_RUNTIME_RECORD_H

#include "runtime.h"
#include "speechshard/io.h"

typedef enum spsh__mark_what {
    SPSH__MARK_SERVE = 1,
    SPSH__MARK_ENTER = 2,
    SPSH__MARK_NOTE = 3,
    SPSH__MARK_END = 4,
} spsh__mark_what;

typedef struct spsh__recorded {
    uint8_t what, kind;
    uint16_t from;
    uint32_t part;
    uint64_t number;
} spsh__recorded;

typedef struct spsh__record_options {
    const spsh_allocator *allocator;
    const spsh_io *io;  /* borrowed until close */
    const char *folder; /* of all learners' records: FOLDER/learner-00007.marks */
    uint64_t run;       /* whatever tells one run from another */
} spsh__record_options;

/* inner must outlive it, and is served through it. A file that cannot be written any more fails the
 * next post or wait. SPSH_E_EXISTS: there is a record already; _IO, _NO_SPACE, _NO_MEMORY. */
spsh_status spsh__record_open(const spsh__record_options *options, spsh__runtime *inner,
                              spsh__runtime **ret_runtime, spsh_error *err);

/* Of a run that did not begin, behind close: the learner's file; with the last one, the folder. */
void spsh__record_remove(const spsh__record_options *options, uint32_t rank);

/* What the record in the folder is of: run, and how many learners, as learner 0's file says.
 * SPSH_E_NOT_FOUND, _TRUNCATED, _CORRUPT, _IO, _NO_MEMORY. */
spsh_status spsh__record_find(const spsh__record_options *options, uint64_t *ret_run,
                              uint32_t *ret_learners, spsh_error *err);

/* The marks of a learner; the caller frees them with the allocator. A block that is damaged is
 * SPSH_E_CORRUPT; one that was cut is where the record ends. SPSH_E_MISMATCH: of another run, rank
 * or world. */
spsh_status spsh__record_read(const spsh__record_options *options, uint32_t rank,
                              uint32_t world_size, spsh__recorded **ret_marks, size_t *ret_count,
                              spsh_error *err);
#endif
