/* texts.c: an 8-way set-associative table with LRU replacement. The hash of a range of rows selects
 * the set of 8 entries. An entry is found under the table's lock and used under its own lock, so
 * that threads wait for each other only if they need the same rows. An entry in use is not
 * replaced. If all 8 are in use, any entry of the table is taken. There are more entries than
 * threads. */
#include "texts.h"

#include "plan/permutation.h"

enum { ROWS_BITS = 7, WAYS = 8 };

typedef struct entry {
    pthread_mutex_t lock; /* guards the reader */
    spsh_reader *reader;
    uint32_t dataset;
    uint64_t stretch; /* number of a range of shard rows; the high 32 bits are the shard */
    uint64_t used_at;
    uint32_t users;
} entry;

struct spsh__texts {
    const spsh_allocator *allocator;
    const spsh_dataset *const *datasets;
    pthread_mutex_t lock;
    uint64_t clock;
    uint32_t count;
    entry *entries;
};

spsh_status spsh__texts_open(const spsh_allocator *allocator, const spsh_dataset *const *datasets,
                             uint32_t entry_count, spsh__texts **ret_texts, spsh_error *err)
{
    spsh__texts *texts = (spsh__texts *)spsh__new(allocator, 1, sizeof(*texts));
    entry_count = (entry_count + WAYS - 1) / WAYS * WAYS;
    if (texts == NULL)
        goto out;
    texts->allocator = allocator;
    texts->datasets = datasets;
    texts->entries = (entry *)spsh__new(allocator, entry_count, sizeof(*texts->entries));
    if (texts->entries == NULL || pthread_mutex_init(&texts->lock, NULL) != 0)
        goto out;
    while (texts->count < entry_count &&
           pthread_mutex_init(&texts->entries[texts->count].lock, NULL) == 0)
        texts->count++;
    if (texts->count < entry_count) {
        spsh__texts_close(texts);
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: texts");
    }
    *ret_texts = texts;
    return SPSH_OK;
out:
    if (texts != NULL)
        spsh__free(allocator, texts->entries);
    spsh__free(allocator, texts);
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "loader: texts");
}

void spsh__texts_close(spsh__texts *texts)
{
    if (texts == NULL)
        return;
    for (uint32_t n = 0; n < texts->count; n++) {
        spsh_reader_close(texts->entries[n].reader);
        (void)pthread_mutex_destroy(&texts->entries[n].lock);
    }
    (void)pthread_mutex_destroy(&texts->lock);
    spsh__free(texts->allocator, texts->entries);
    spsh__free(texts->allocator, texts);
}

/* Search `count` entries from `from` on. Returns the entry of the range, else the least recently
 * used idle entry, else NULL. */
static entry *find_reader(entry *from, uint32_t count, uint32_t dataset, uint64_t stretch)
{
    entry *oldest = NULL;
    for (uint32_t n = 0; n < count; n++) {
        entry *e = &from[n];
        if (e->reader != NULL && e->stretch == stretch && e->dataset == dataset)
            return e;
        if (e->users == 0 && (oldest == NULL || e->used_at < oldest->used_at))
            oldest = e;
    }
    return oldest;
}

/* Find or assign the entry of a range. Call with the table's lock held. */
static entry *find(spsh__texts *texts, uint32_t dataset, uint64_t stretch)
{
    const uint64_t hash = spsh__mix64(stretch + ((uint64_t)dataset << 48));
    const uint32_t set = (uint32_t)(hash % (texts->count / WAYS));
    entry *e = find_reader(&texts->entries[(size_t)set * WAYS], WAYS, dataset, stretch);
    if (e == NULL)
        e = find_reader(texts->entries, texts->count, dataset, stretch);
    if (e == NULL || (e->stretch == stretch && e->dataset == dataset))
        return e;
    if (e->reader != NULL && e->dataset != dataset) {
        spsh_reader_close(e->reader);
        e->reader = NULL;
    }
    e->dataset = dataset;
    e->stretch = stretch;
    return e;
}

static spsh_status acquire(spsh__texts *texts, const spsh__job *job, entry **ret_entry,
                           spsh_error *err)
{
    const uint64_t stretch = ((uint64_t)job->row.shard << 32) | (job->row.shard_row >> ROWS_BITS);
    spsh_status rc = SPSH_OK;
    (void)pthread_mutex_lock(&texts->lock);
    entry *e = find(texts, job->item.dataset, stretch);
    if (e == NULL)
        rc = SPSH_FAIL(err, SPSH_E_LIMIT, "loader: all readers of text are in use");
    else if (e->reader == NULL)
        rc = spsh_reader_open(texts->datasets[job->item.dataset], &e->reader, err);
    if (rc == SPSH_OK) {
        e->users++;
        e->used_at = ++texts->clock;
        *ret_entry = e;
    }
    (void)pthread_mutex_unlock(&texts->lock);
    return rc;
}

spsh_status spsh__texts_get(spsh__texts *texts, const spsh__job *job, spsh_bytes *ret_id,
                            spsh_bytes *ret_text, spsh_error *err)
{
    entry *e = NULL;
    spsh_utterance utterance;
    spsh_status rc = acquire(texts, job, &e, err);
    if (rc != SPSH_OK)
        return rc;
    (void)pthread_mutex_lock(&e->lock);
    rc = spsh_reader_metadata(e->reader, job->item.position, &utterance, err);
    if (rc == SPSH_OK)
        rc = spsh__slot_string(job->slot, utterance.id, ret_id, err);
    if (rc == SPSH_OK)
        rc = spsh__slot_string(job->slot, utterance.text, ret_text, err);
    (void)pthread_mutex_unlock(&e->lock);
    (void)pthread_mutex_lock(&texts->lock);
    e->users--;
    (void)pthread_mutex_unlock(&texts->lock);
    return rc;
}
