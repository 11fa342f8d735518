/* runtime_record.h: a record of the order of a learner's marks, which is everything that depends on
 * chance.
 *
 *     spsh__record_open(&options, runtime, &recorded, &err);      // a runtime around a runtime
 *     ... the strategy uses `recorded` ...
 *     recorded->ops->close_fn(recorded);
 *
 * The file is little-endian, in blocks of up to 4,096 marks. The file of a killed process is
 * complete up to its last block.
 *
 *     head    "SPSHMARK" | u32 version 1 | u32 rank | u32 world size | u32 0 | u64 run
 *     block   u32 count | u32 0 | u64 XXH3-64 of the marks | count marks
 *     mark    u8 what | u8 kind | u16 from | u32 part | u64 number
 *
 * what: 1 a message is served (its kind, sender, part, number), 2 the lock is taken (the mark's), 3
 * a note (number: its value), 4 the end of the record.
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
    const char *folder; /* folder of all learners' records: FOLDER/learner-00007.marks */
    uint64_t run;       /* identifies the run */
} spsh__record_options;

/* Open a recording runtime. `inner` must outlive it, and serves its messages. If the file cannot be
 * written, the next post or wait fails. SPSH_E_EXISTS: a record already exists; SPSH_E_IO,
 * SPSH_E_NO_SPACE, SPSH_E_NO_MEMORY. */
spsh_status spsh__record_open(const spsh__record_options *options, spsh__runtime *inner,
                              spsh__runtime **ret_runtime, spsh_error *err);

/* Remove the learner's file of a run that did not begin, and the folder after the last file. Call
 * after close. */
void spsh__record_remove(const spsh__record_options *options, uint32_t rank);

/* Find the record in the folder, and return its run and number of learners from learner 0's file.
 * SPSH_E_NOT_FOUND, SPSH_E_TRUNCATED, SPSH_E_CORRUPT, SPSH_E_IO, SPSH_E_NO_MEMORY. */
spsh_status spsh__record_find(const spsh__record_options *options, uint64_t *ret_run,
                              uint32_t *ret_learners, spsh_error *err);

/* Read the marks of a learner. The caller frees them with the allocator. SPSH_E_CORRUPT: a damaged
 * block. A truncated block ends the record. SPSH_E_MISMATCH: different run, rank, or world size. */
spsh_status spsh__record_read(const spsh__record_options *options, uint32_t rank,
                              uint32_t world_size, spsh__recorded **ret_marks, size_t *ret_count,
                              spsh_error *err);
#endif
