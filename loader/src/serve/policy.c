/* policy.c: a bad record never moves other utterances. The bad records of a batch are recorded in
 * its slot and count when the batch is served (bad_records.h), so that they do not depend on the
 * number of threads.
 *
 * Running out of memory is not a fault of a record: the batch fails under every policy.
 */
#include "policy.h"

#include "device_slots.h"
#include "fetch.h"

#define ULL(value_) ((unsigned long long)(value_))

void spsh__job_name(const spsh_loader *loader, const spsh__job *job, spsh_error *err)
{
    const spsh_dataset *dataset = loader->datasets[job->item.dataset];
    const spsh_error why = *err;
    spsh_shard_seal seal;
    char shard[32] = "?";
    if (spsh_dataset_shard(dataset, job->row.payload_shard, &seal, NULL) == SPSH_OK)
        spsh_shard_file_name(seal.unit, seal.number, shard);
    spsh_error_set(err, why.status, why.os_errno,
                   why.offset_bytes != SPSH_OFFSET_NONE ? why.offset_bytes
                                                        : job->row.record_offset_bytes,
                   "%.120s: utterance number %llu: shards/%s, record at %llu: %.240s",
                   spsh_dataset_path(dataset), ULL(job->item.position), shard,
                   ULL(job->row.record_offset_bytes), why.message);
}

bool spsh__is_known_bad(spsh_loader *loader, const spsh_item *item, spsh_error *ret_error)
{
    if (atomic_load_explicit(&loader->known_count, memory_order_relaxed) == 0)
        return false;
    (void)pthread_mutex_lock(&loader->lock);
    const spsh_bad_record *record = spsh__bad_find(&loader->bad, item->dataset, item->position);
    if (record != NULL)
        *ret_error = record->error;
    (void)pthread_mutex_unlock(&loader->lock);
    return record != NULL;
}

void spsh__job_give_back(spsh_loader *loader, spsh__job *job)
{
    spsh__request *request = job->request;
    job->request = NULL;
    job->record = NULL;
    if (request == NULL || atomic_fetch_sub(&request->jobs_left, 1) != 1)
        return;
    (void)pthread_mutex_lock(&loader->lock);
    request->next = loader->finished;
    loader->finished = request;
    spsh__fetch_poke(loader);
    (void)pthread_mutex_unlock(&loader->lock);
}

void spsh__slot_ready(spsh_loader *loader, spsh__slot *slot)
{
    spsh__slot_finish(slot);
    if (loader->device != NULL)
        spsh__device_send(loader, slot);
    (void)pthread_mutex_lock(&loader->lock);
    slot->state = SPSH__SLOT_READY;
    (void)pthread_cond_signal(&loader->ready);
    (void)pthread_mutex_unlock(&loader->lock);
}

void spsh__job_done(spsh_loader *loader, spsh__job *job)
{
    spsh__slot *slot = job->slot;
    spsh__job_give_back(loader, job);
    if (atomic_fetch_sub(&slot->jobs_left, 1) == 1)
        spsh__slot_ready(loader, slot);
}

void spsh__job_left_out(spsh_loader *loader, spsh__job *job)
{
    job->left_out = true;
    spsh__job_done(loader, job);
}

/* Log a skipped record. Records beyond the limit are not logged one by one, because the loader will
 * fail anyway: a truncated shard could have thousands. */
static void log_skipped(spsh_loader *loader, uint64_t count, const spsh_error *why)
{
    const uint64_t limit = loader->bad.limit;
    if (count <= limit)
        spsh__log(loader, SPSH_LOG_WARNING, "skipped: %s", why->message);
    else if (count == limit + 1)
        spsh__log(
            loader, SPSH_LOG_WARNING,
            "more than %llu records cannot be read (quarantine_max); further ones are not logged",
            ULL(limit));
}

spsh_status spsh__job_note_bad(spsh_loader *loader, const spsh__job *job, const spsh_error *why)
{
    const spsh_bad_record record = {.dataset = job->item.dataset,
                                    .position = job->item.position,
                                    .epoch = job->slot->batch.epoch,
                                    .error = *why};
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t news = 0; /* count of known records if this one is new, else 0 */
    spsh_status rc = spsh__slot_bad(job->slot, &record);
    if (rc == SPSH_OK) {
        (void)pthread_mutex_lock(&loader->lock);
        rc = spsh__bad_learn(&loader->bad, &record, &err);
        if (loader->bad.known.count != atomic_load(&loader->known_count))
            news = loader->bad.known.count;
        atomic_store(&loader->known_count, loader->bad.known.count);
        (void)pthread_mutex_unlock(&loader->lock);
    }
    if (news > 0)
        log_skipped(loader, news, why);
    if (rc != SPSH_OK) {
        rc = SPSH_FAIL(&err, SPSH_E_NO_MEMORY, "loader: quarantine");
        spsh__slot_fail(job->slot, job->number, rc, &err);
    }
    return rc;
}

static void replace_or_leave_out(spsh_loader *loader, spsh__job *job)
{
    if (loader->opt.on_error != SPSH_ON_ERROR_SUBSTITUTE) {
        spsh__job_left_out(loader, job);
        return;
    }
    (void)pthread_mutex_lock(&loader->lock);
    job->next = loader->in_need;
    loader->in_need = job;
    spsh__fetch_poke(loader);
    (void)pthread_mutex_unlock(&loader->lock);
}

void spsh__job_failed(spsh_loader *loader, spsh__job *job, const spsh_error *why)
{
    spsh__job_give_back(loader, job);
    if (loader->opt.on_error == SPSH_ON_ERROR_FAIL || why->status == SPSH_E_NO_MEMORY) {
        spsh__slot_fail(job->slot, job->number, why->status, why);
        spsh__job_left_out(loader, job);
        return;
    }
    if (spsh__job_note_bad(loader, job, why) != SPSH_OK)
        spsh__job_left_out(loader, job);
    else
        replace_or_leave_out(loader, job);
}

/* Not put in quarantine: the record itself has the mark, and pack has reported it. */
void spsh__job_undecodable(spsh_loader *loader, spsh__job *job, const spsh_error *why)
{
    spsh__job_give_back(loader, job);
    if (loader->opt.undecodable == SPSH_UNDECODABLE_FAIL) {
        spsh__slot_fail(job->slot, job->number, why->status, why);
        spsh__job_left_out(loader, job);
        return;
    }
    if (atomic_fetch_add(&loader->counters.undecodable, 1) == 0)
        spsh__log(loader, SPSH_LOG_WARNING, "undecodable records are skipped; the first one: %s",
                  why->message);
    replace_or_leave_out(loader, job);
}
