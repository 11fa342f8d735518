/* lease_server.h: rank 0's part of lease.h: the cursor, and the outstanding leases. Call all
 * functions under the lock of rank 0's runtime. */
#ifndef SPSH_TRAIN_LEASE_SERVER_H
#define SPSH_TRAIN_LEASE_SERVER_H

#include "lease.h"

/* Kinds of messages, and of marks. */
enum {
    SPSH__LEASE_ASK = SPSH__LEASE_KIND, /* number: the round */
    SPSH__LEASE_ACKNOWLEDGE,            /* number: the lease; part: reasons; samples and a row */
    SPSH__LEASE_PAUSED,                 /* number: the round that its sender has used up */
    SPSH__LEASE_LOST,                   /* part: the rank */
    SPSH__LEASE_GIVEN,                  /* number: the lease; epoch, step, samples, updates */
    SPSH__LEASE_NO_MORE,                /* number: the round; part: reasons */
    SPSH__LEASE_MET,                    /* number: the round; its state; which ranks are lost */
};

enum {
    SPSH__LEASE_GIVEN_BYTES = 32,
    SPSH__LEASE_STATE_BYTES = 52,
    SPSH__LEASE_ROW_BYTES = 8, /* number of samples, before the row */
    SPSH__LEASE_ACKNOWLEDGE_BYTES_MAX = SPSH__LEASE_ROW_BYTES + 8 * SPSH__LEASE_NUMBERS_MAX,
};

static inline size_t spsh__lease_met_bytes(uint32_t world_size)
{
    return SPSH__LEASE_STATE_BYTES + ((size_t)world_size + 7) / 8;
}

typedef struct spsh__lease_server spsh__lease_server;

/* each: maximum number of leases per learner. */
spsh_status spsh__lease_server_open(spsh__runtime *runtime, const spsh_allocator *allocator,
                                    uint32_t each, spsh__lease_server **ret_server,
                                    spsh_error *err);
void spsh__lease_server_close(spsh__lease_server *s); /* NULL is fine */

/* Serve a message to rank 0. SPSH_E_MISMATCH: learners do not send such a message. */
spsh_status spsh__lease_server_serve(spsh__lease_server *s, const spsh__message *m,
                                     spsh_error *err);

/* See the functions of the same names in lease.h. */
spsh_status spsh__lease_server_place(spsh__lease_server *s, uint64_t epoch, uint64_t step,
                                     uint64_t steps, spsh_error *err);
spsh_status spsh__lease_server_begin(spsh__lease_server *s, const spsh__lease_round *round,
                                     spsh_error *err);
spsh_status spsh__lease_server_pause(spsh__lease_server *s, uint32_t reasons, spsh_error *err);
spsh__lease_state spsh__lease_server_state(const spsh__lease_server *s);
uint64_t spsh__lease_server_totals(spsh__lease_server *s, double *totals, uint32_t count);

/* Return true if all learners that are not lost are in the pause. */
bool spsh__lease_server_has_met(const spsh__lease_server *s);
/* Mark a learner as lost, as reported by the runtime. Repeated calls have no effect. */
spsh_status spsh__lease_server_lose(spsh__lease_server *s, uint32_t rank, spsh_error *err);
/* End the round after all have met, and send the state to the learners. bytes: buffer for the
 * message: the state, and a bit per rank that is lost (spsh__lease_met_bytes). */
spsh_status spsh__lease_server_end(spsh__lease_server *s, spsh__lease_state *ret_state,
                                   uint8_t *bytes, spsh_error *err);

/* Load a state from SPSH__LEASE_STATE_BYTES, little-endian. */
spsh__lease_state spsh__lease_state_load(const uint8_t *bytes);

#endif
