/* policy.h: what becomes of a job: done, failed, replaced or left out. */
#ifndef SPSH_POLICY_H
#define SPSH_POLICY_H

#include "loader_threads.h"

/* The record is not needed any more. When nobody needs the request, it goes back. */
void spsh__job_give_back(spsh_loader *loader, spsh__job *job);

/* The utterance is in its place. After the slot's last job the slot is ready, and no longer the
 * caller's. */
void spsh__job_done(spsh_loader *loader, spsh__job *job);

/* The record cannot be had: fail, leave out, or ask for a substitute. why names the record. */
void spsh__job_failed(spsh_loader *loader, spsh__job *job, const spsh_error *why);

/* The record is marked undecodable: fail, leave out, or ask for a substitute. why names it. */
void spsh__job_undecodable(spsh_loader *loader, spsh__job *job, const spsh_error *why);

/* Put the job's record in quarantine; with no memory for that, the batch fails. */
spsh_status spsh__job_note_bad(spsh_loader *loader, const spsh__job *job, const spsh_error *why);

/* All jobs of the slot are done, or there are none: it is ready for next, and no longer the
 * caller's. */
void spsh__slot_ready(spsh_loader *loader, spsh__slot *slot);

/* Done without its utterance. */
void spsh__job_left_out(spsh_loader *loader, spsh__job *job);

/* Put dataset, utterance number, shard and place in front of a message. */
void spsh__job_name(const spsh_loader *loader, const spsh__job *job, spsh_error *err);

/* Is an item's record in quarantine? *ret_error says why. */
bool spsh__is_known_bad(spsh_loader *loader, const spsh_item *item, spsh_error *ret_error);

#endif
