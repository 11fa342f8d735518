/* claim_keeper.h: a thread that shows that the owner of a claim is alive. */
#ifndef SPSH_PACK_CLAIM_KEEPER_H
#define SPSH_PACK_CLAIM_KEEPER_H

#include <pthread.h>

#include "claim.h"

/** Owned by the caller. Set by spsh__claim_keeper_start. */
typedef struct spsh__claim_keeper {
    spsh__own_claim *claim;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t may_end;
    bool ends;
} spsh__claim_keeper;

/** Start the thread. The claim belongs to it until spsh__claim_keeper_stop. SPSH_E_NO_MEMORY: no
 * thread, and nothing has to be stopped. */
SPSH_NODISCARD spsh_status spsh__claim_keeper_start(spsh__claim_keeper *keeper,
                                                    spsh__own_claim *claim, spsh_error *err);
/** End the thread and wait for it. */
void spsh__claim_keeper_stop(spsh__claim_keeper *keeper);

#endif
