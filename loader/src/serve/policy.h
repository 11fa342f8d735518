/* policy.h: the end of a job: done, failed, replaced, or skipped. */
#ifndef SPSH_POLICY_H
#define SPSH_POLICY_H

#include "loader_threads.h"

/* Release the job's record. The request is recycled after its last job. */
void spsh__job_give_back(spsh_loader *loader, spsh__job *job);

/* Mark a job as done. After the slot's last job the slot is ready: the caller must not use it any
 * more. */
void spsh__job_done(spsh_loader *loader, spsh__job *job);

/* Handle a record that cannot be read or decoded: fail, skip, or request a substitute. why names
 * the record. */
void spsh__job_failed(spsh_loader *loader, spsh__job *job, const spsh_error *why);

/* Handle a record that is marked undecodable: fail, skip, or request a substitute. why names the
 * record. */
void spsh__job_undecodable(spsh_loader *loader, spsh__job *job, const spsh_error *why);

/* Put the job's record in quarantine. If there is no memory for that, the batch fails. */
spsh_status spsh__job_note_bad(spsh_loader *loader, const spsh__job *job, const spsh_error *why);

/* Make a slot ready for next, after its last job or if it has no jobs. The caller must not use it
 * any more. */
void spsh__slot_ready(spsh_loader *loader, spsh__slot *slot);

/* Mark a job as done without its utterance. */
void spsh__job_left_out(spsh_loader *loader, spsh__job *job);

/* Prefix a message with dataset, utterance number, shard, and record offset. */
void spsh__job_name(const spsh_loader *loader, const spsh__job *job, spsh_error *err);

/* Is an item's record in quarantine? *ret_error gets the reason. */
bool spsh__is_known_bad(spsh_loader *loader, const spsh_item *item, spsh_error *ret_error);

#endif
