/* backend_cuda_segment.c: segments of a step, captured as graphs and launched again.
 *
 *     first time     run normally: scratch grows, algorithms are chosen
 *     second time    run normally, and recorded: the enqueued work, with a copy of its arguments;
 *                    at the end all of it is captured into a graph
 *     from then on   launch the graph
 *
 * If the driver cannot make a graph, nothing is lost, because the work was done: the segment is
 * never tried again, and that is not an error.
 *
 * A graph contains the pointers of its operators. Freeing or moving memory therefore drops all
 * graphs. They are captured again later.
 *
 * Graphs of KEYS shapes are kept. A new shape then evicts the least recently used one, whose graphs
 * may be in flight. They are retired: an event marks the end of the work so far, and the first
 * segment that begins after the event destroys them. So an eviction neither waits nor allocates. If
 * all places for retired graphs are taken, the new shape runs without graphs for now.
 */
#include "backend_cuda_state.h"

enum { WORKS_BYTES = 65536 }; /* initial size */

typedef struct work_head { /* followed by its arguments */
    _Alignas(16) spsh__cuda_work_fn *work_fn;
    size_t size_bytes; /* size of the arguments, rounded up */
    uint32_t lane;
} work_head;

spsh_status spsh__cuda_segments_open(spsh__backend *b, bool has_graphs, spsh_error *err)
{
    const spsh__cuda_plugin *plugin = spsh__cuda_of(b)->plugin;
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    if (!has_graphs)
        return SPSH_OK;
    all->keys = spsh__new(&b->allocator, SPSH__CUDA_KEYS, sizeof(*all->keys));
    spsh_status rc = all->keys == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (uint32_t i = 0; i < SPSH__CUDA_RETIRED && rc == SPSH_OK; i++)
        rc = plugin->event_open_fn(b->device, 0, &all->retired[i].done, err);
    return rc;
}

/* -------------------------------------------------------------------------------------- dropping
 */

static bool has_graphs(const spsh__cuda_key *key)
{
    for (uint32_t i = 0; i < SPSH__CUDA_SEGMENTS; i++) {
        if (key->segments[i].graph != NULL)
            return true;
    }
    return false;
}

static void close_graphs(const spsh__backend *b, spsh__cuda_kept *segments)
{
    for (uint32_t i = 0; i < SPSH__CUDA_SEGMENTS; i++) {
        spsh__cuda_of(b)->plugin->graph_close_fn(segments[i].graph);
        segments[i].graph = NULL;
    }
}

static void close_retired(const spsh__backend *b, spsh__cuda_retired *retired)
{
    close_graphs(b, retired->segments);
    retired->is_used = false;
}

static bool has_any_graphs(const spsh__cuda_segments *all)
{
    bool has = false;
    for (uint32_t i = 0; all->keys != NULL && i < SPSH__CUDA_KEYS; i++)
        has = has || has_graphs(&all->keys[i]);
    for (uint32_t i = 0; i < SPSH__CUDA_RETIRED; i++)
        has = has || all->retired[i].is_used;
    return has;
}

/* The graphs may be in flight: wait for their end before destroying them. The current recording may
 * refer to freed memory, too. It is discarded, and the next run records again. */
void spsh__cuda_segments_drop(spsh__backend *b)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    spsh_error err = SPSH_ERROR_INIT;
    all->current = NULL;
    if (!has_any_graphs(all))
        return;
    spsh__cuda_failed(b, self->plugin->synchronize_fn(self->lanes[0].stream, &err), &err);
    for (uint32_t i = 0; i < SPSH__CUDA_KEYS; i++)
        close_graphs(b, all->keys[i].segments);
    for (uint32_t i = 0; i < SPSH__CUDA_RETIRED; i++)
        close_retired(b, &all->retired[i]);
}

void spsh__cuda_segments_close(spsh__backend *b)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    spsh__cuda_segments_drop(b);
    for (uint32_t i = 0; i < SPSH__CUDA_RETIRED; i++)
        spsh__cuda_of(b)->plugin->event_close_fn(all->retired[i].done);
    spsh__free(&b->allocator, all->keys);
    spsh__free(&b->allocator, all->works);
    *all = (spsh__cuda_segments){.counts = all->counts};
}

/* ------------------------------------------------------------------------------------- eviction
 */

/* Destroy retired graphs that are not in flight. Does not wait. */
static void close_done(spsh__backend *b)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    for (uint32_t i = 0; i < SPSH__CUDA_RETIRED; i++) {
        spsh__cuda_retired *retired = &all->retired[i];
        spsh_error err = SPSH_ERROR_INIT;
        if (!retired->is_used)
            continue;
        const spsh_status rc = spsh__cuda_of(b)->plugin->event_query_fn(retired->done, &err);
        if (rc == SPSH_OK)
            close_retired(b, retired);
        else if (rc != SPSH_E_TIMEOUT)
            spsh__cuda_failed(b, rc, &err);
    }
}

/* Take the graphs of a shape out of the table. Graphs run on lane 0, or join it. Return false if
 * there is no place for them. */
static bool retire(spsh__backend *b, spsh__cuda_key *key)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_retired *retired = spsh__cuda_of(b)->segments.retired;
    spsh_error err = SPSH_ERROR_INIT;
    uint32_t i = 0;
    if (!has_graphs(key))
        return true;
    while (i < SPSH__CUDA_RETIRED && retired[i].is_used)
        i++;
    if (i == SPSH__CUDA_RETIRED)
        return false;
    const spsh_status rc =
        self->plugin->event_record_fn(retired[i].done, self->lanes[0].stream, &err);
    spsh__cuda_failed(b, rc, &err);
    if (rc != SPSH_OK)
        return false;
    memcpy(retired[i].segments, key->segments, sizeof(key->segments));
    retired[i].is_used = true;
    return true;
}

static void refuse(spsh__backend *b, spsh__cuda_kept *kept)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    kept->is_refused = true;
    all->counts.refused++;
    all->current = NULL;
}

void spsh__cuda_segment_refuse(spsh__backend *b)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    if (all->current != NULL)
        refuse(b, all->current);
}

/* ------------------------------------------------------------------------------------ recording */

static bool ensure_capacity(spsh__backend *b, size_t more_bytes)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    if (more_bytes <= all->capacity_bytes - all->used_bytes)
        return true;
    const size_t capacity_bytes = 2 * all->capacity_bytes + more_bytes + WORKS_BYTES;
    char *works = spsh__enlarge(&b->allocator, all->works, all->used_bytes, capacity_bytes, 1);
    if (works == NULL)
        return false;
    all->works = works;
    all->capacity_bytes = capacity_bytes;
    return true;
}

void *spsh__cuda_remember(spsh__backend *b, spsh__cuda_work_fn *work_fn, size_t size_bytes)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    const size_t rounded = (size_bytes + 15) / 16 * 16;
    if (all->current == NULL)
        return NULL;
    if (!ensure_capacity(b, sizeof(work_head) + rounded)) {
        all->current = NULL; /* the next run tries again */
        return NULL;
    }
    work_head *head = (void *)(all->works + all->used_bytes);
    *head = (work_head){work_fn, rounded, self->lane};
    all->used_bytes += sizeof(work_head) + rounded;
    return head + 1;
}

/* Enqueue all recorded work again, in order. */
static spsh_status put_again(spsh__backend *b, spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    const spsh__cuda_segments *all = &self->segments;
    spsh_status rc = SPSH_OK;
    for (size_t at = 0; at < all->used_bytes && rc == SPSH_OK;) {
        const work_head *head = (const void *)(all->works + at);
        self->lane = head->lane;
        rc = head->work_fn(b, self->lanes[head->lane].stream, head + 1, err);
        at += sizeof(*head) + head->size_bytes;
    }
    self->lane = 0;
    return rc;
}

static void keep(spsh__backend *b, spsh__cuda_kept *kept)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    void *stream = self->lanes[0].stream;
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = self->plugin->graph_begin_fn(stream, &err);
    if (rc == SPSH_OK) {
        rc = put_again(b, &err);
        if (rc == SPSH_OK)
            rc = self->plugin->graph_end_fn(stream, &kept->graph, &err);
        else
            self->plugin->graph_abandon_fn(stream);
    }
    if (rc == SPSH_OK)
        self->segments.counts.kept++;
    else
        refuse(b, kept);
}

/* ------------------------------------------------------------------------------ begin, end
 */

/* Find the entry of a key. A new key takes a free entry, or evicts the least recently used key.
 * NULL: no key can be evicted now. */
static spsh__cuda_key *find_key(spsh__backend *b, uint64_t key)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    spsh__cuda_key *oldest = &all->keys[0];
    for (uint32_t i = 0; i < SPSH__CUDA_KEYS; i++) {
        spsh__cuda_key *one = &all->keys[i];
        if (one->key == key)
            return one;
        if (one->used < oldest->used)
            oldest = one;
    }
    if (!retire(b, oldest))
        return NULL;
    all->counts.evicted += oldest->key != 0;
    *oldest = (spsh__cuda_key){.key = key};
    return oldest;
}

/* Count a batch as replayed until one of its segments is not. Segment 0 begins a batch. */
static void count_segment(spsh__cuda_segments *all, const spsh__graph_segment *s, bool is_launched)
{
    if (s->number == 0) {
        all->counts.batches++;
        all->counts.replayed++;
        all->is_whole = true;
    }
    if (!is_launched && all->is_whole) {
        all->counts.replayed--;
        all->is_whole = false;
    }
}

bool spsh__cuda_segment_begin(spsh__backend *b, const spsh__graph_segment *s)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    spsh_error err = SPSH_ERROR_INIT;
    if (self->count.is_on)
        return false;
    all->counts.begun++;
    if (all->keys != NULL && !spsh__cuda_has_failed(b))
        close_done(b);
    spsh__cuda_key *key = NULL;
    if (all->keys != NULL && s->number < SPSH__CUDA_SEGMENTS && !spsh__cuda_has_failed(b))
        key = find_key(b, s->key);
    const bool is_launched = key != NULL && key->segments[s->number].graph != NULL;
    count_segment(all, s, is_launched);
    if (key == NULL)
        return false;
    spsh__cuda_kept *kept = &key->segments[s->number];
    key->used = all->counts.begun;
    if (is_launched) {
        all->counts.launched++;
        all->is_replayed = true;
        spsh__cuda_failed(
            b, self->plugin->graph_launch_fn(kept->graph, self->lanes[0].stream, &err), &err);
        return true;
    }
    all->used_bytes = 0;
    all->current = kept->is_seen && !kept->is_refused ? kept : NULL;
    kept->is_seen = true;
    return false;
}

void spsh__cuda_segment_end(spsh__backend *b)
{
    spsh__cuda_segments *all = &spsh__cuda_of(b)->segments;
    spsh__cuda_kept *kept = all->current;
    all->current = NULL;
    all->is_replayed = false;
    if (kept != NULL && !spsh__cuda_has_failed(b))
        keep(b, kept);
}

spsh__cuda_segment_counts spsh__cuda_segments_counted(const spsh__backend *b)
{
    return spsh__cuda_of(b)->segments.counts;
}
