/* run_record.h: the runtime of a run, with a record around it if one is kept (run_record.c).
 */
#ifndef SPSH_TRAIN_RUN_RECORD_H
#define SPSH_TRAIN_RUN_RECORD_H

#include "runtime/runtime.h"

typedef struct spsh__run_runtime {
    spsh__runtime *used;     /* the strategy's; NULL: not needed */
    spsh__runtime *recorded; /* ... the runtime inside the recorder; else NULL */
    char *record_folder;     /* folder of the record; else NULL */
    bool has_begun;          /* everything is open, on all ranks if there is a record */
} spsh__run_runtime;

/* Record a decision that depends on the clock or a signal. In a replay, *value becomes the recorded
 * value. */
spsh_status spsh__run_note(const spsh__run_runtime *t, uint64_t *value, spsh_error *err);
/* Between these two calls the serving task does not see writes of the computing task. */
spsh_status spsh__run_enter(const spsh__run_runtime *t, uint64_t number, spsh_error *err);
void spsh__run_leave(const spsh__run_runtime *t);

struct spsh__run;
/* Rank 0, before anything is created: reject a run that cannot be recorded, or whose record exists.
 * Sets the name of the folder. */
spsh_status spsh__run_check_record(struct spsh__run *r, spsh_error *err);
/* Open r->runtime, and the recorder around it. */
spsh_status spsh__run_open_runtime(struct spsh__run *r, spsh_error *err);
void spsh__run_close_runtime(struct spsh__run *r);

#endif
