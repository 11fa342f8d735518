/* run_record.h: the runtime of a run, with a record around it if one is kept (run_record.c).
 */
#ifndef SPSH_TRAIN_RUN_RECORD_H
#define SPSH_TRAIN_RUN_RECORD_H

#include "runtime/runtime.h"

typedef struct spsh__run_runtime {
    spsh__runtime *used;     /* the strategy's; NULL: it needs none */
    spsh__runtime *recorded; /* ... which is around this one; else NULL */
    char *record_folder;     /* of that; else NULL */
    bool has_begun;          /* all is open, of all ranks if there is a record */
} spsh__run_runtime;

/* What a learner does by the clock or for a signal; *value becomes what it was when the run was
 * recorded. */
spsh_status spsh__run_note(const spsh__run_runtime *t, uint64_t *value, spsh_error *err);
/* Between these two the serving task does not see what the computing task writes. */
spsh_status spsh__run_enter(const spsh__run_runtime *t, uint64_t number, spsh_error *err);
void spsh__run_leave(const spsh__run_runtime *t);

struct spsh__run;
/* Rank 0, before anything is made: what cannot be recorded, or is already; names the folder. */
spsh_status spsh__run_check_record(struct spsh__run *r, spsh_error *err);
/* Opens r->runtime, and the record around it. */
spsh_status spsh__run_open_runtime(struct spsh__run *r, spsh_error *err);
void spsh__run_close_runtime(struct spsh__run *r);

#endif
