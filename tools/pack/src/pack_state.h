/* pack_state.h: the state of one call of spsh_pack or spsh_pack_merge. */
#ifndef SPSH_PACK_STATE_H
#define SPSH_PACK_STATE_H

#include "claim/claim.h"
#include "plan/pack_plan.h"
#include "unit/unit.h"
#include "work_folder.h"

typedef struct spsh__pack_state {
    const spsh_pack_options *options;
    spsh__pack_paths paths;
    spsh__claims claims;
    spsh__plan plan;
    spsh__packed packed; /* units that this call packed */
    spsh__pack_result result;
    bool has_ended; /* result is complete */
} spsh__pack_state;

/** Log a line, made like printf makes it. */
void spsh__pack_log(const spsh_pack_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Pause between two looks at the claims of other processes. SPSH_E_CANCELED if progress_fn
 * cancels. */
SPSH_NODISCARD spsh_status spsh__pack_wait(const spsh__pack_state *state, spsh_error *err);

#endif
