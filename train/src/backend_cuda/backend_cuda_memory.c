/* backend_cuda_memory.c: device memory, scratch, and transfers between device and host.
 *
 *     upload     host --> slot (pinned) --> device     slots in turn, with an event after each copy
 *     download   device --> block (pinned)             read after finish_fn has waited for the copy
 *                                                      (but not for later work)
 *     fetch      device --> places (pinned) --> host   waits for a piece while the next ones are
 *                                                      copied
 *
 * Copies from or to unpinned memory would wait for all earlier work, or the driver would split
 * them. These copies wait only for a slot that is still being read.
 */
#include "backend_cuda_state.h"

enum {
    LENGTHS_FIRST = 256, /* initial capacity, in utterances */
    BLOCK_BYTES = 65536, /* size of the first block of downloads */
    SCRATCH_GRAIN = 65536,
    CHUNK = 2048, /* maximum elements per conversion */
};

static bool is_bf16(const spsh__backend *b)
{
    return b->precision == SPSH__BF16;
}

/* ---------------------------------------------------------------------------------------- memory
 */

static spsh_status fail_alloc(const spsh__backend *b, size_t size_bytes, spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const double mebibyte = 1048576;
    uint64_t free_bytes = 0, all_bytes = 0;
    if (self->plugin->memory_fn(b->device, &free_bytes, &all_bytes, NULL) != SPSH_OK)
        all_bytes = self->about.memory_bytes;
    return SPSH_FAIL(err, SPSH_E_NO_MEMORY,
                     "device %u (%.60s): cannot allocate %.1f MiB more: %.1f of %.1f MiB are free; "
                     "reduce the batch or the model, or stop other programs on the device",
                     b->device, self->about.name, (double)size_bytes / mebibyte,
                     (double)free_bytes / mebibyte, (double)all_bytes / mebibyte);
}

static spsh_status new_memory(spsh__backend *b, size_t size_bytes, void **ret_memory,
                              spsh_error *err)
{
    const spsh_status rc =
        spsh__cuda_of(b)->plugin->alloc_fn(b->device, size_bytes, ret_memory, err);
    return rc == SPSH_E_NO_MEMORY ? fail_alloc(b, size_bytes, err) : rc;
}

/* Allocate zeroed memory. The zeros are written before the return, so any stream may use it. */
static spsh_status alloc_elements(spsh__backend *b, size_t count, size_t element_bytes,
                                  void **ret_memory, spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    size_t size_bytes = 0;
    void *memory = NULL;
    if (__builtin_mul_overflow(count, element_bytes, &size_bytes))
        return fail_alloc(b, SIZE_MAX, err);
    if (size_bytes == 0)
        size_bytes = 1;
    spsh_status rc = new_memory(b, size_bytes, &memory, err);
    if (rc != SPSH_OK)
        return rc;
    rc = self->plugin->fill_fn(memory, 0, size_bytes, self->lanes[0].stream, err);
    if (rc == SPSH_OK)
        rc = self->plugin->synchronize_fn(self->lanes[0].stream, err);
    if (rc == SPSH_OK)
        *ret_memory = memory;
    else
        self->plugin->free_fn(memory);
    return rc;
}

spsh_status spsh__cuda_alloc(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                             spsh_error *err)
{
    void *memory = NULL;
    const spsh_status rc = alloc_elements(b, count, sizeof(float), &memory, err);
    if (rc == SPSH_OK)
        *ret = (spsh__backend_buffer){memory, false};
    return rc;
}

spsh_status spsh__cuda_alloc_half(spsh__backend *b, size_t count, spsh__backend_buffer *ret,
                                  spsh_error *err)
{
    void *memory = NULL;
    if (!b->has_half)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "backend cuda: this precision has no 16-bit buffers");
    const spsh_status rc = alloc_elements(b, count, sizeof(uint16_t), &memory, err);
    if (rc == SPSH_OK)
        *ret = (spsh__backend_buffer){memory, true};
    return rc;
}

void spsh__cuda_free(spsh__backend *b, spsh__backend_buffer buffer)
{
    if (buffer.data == NULL)
        return;
    spsh__cuda_segments_drop(b);
    spsh__cuda_of(b)->plugin->free_fn(buffer.data);
}

size_t spsh__cuda_scratch_bytes(size_t size_bytes)
{
    return (size_bytes / SCRATCH_GRAIN + 1) * SCRATCH_GRAIN;
}

/* Grow by at least a quarter, so that slowly growing shapes do not reallocate each time. */
static spsh_status grow_scratch(spsh__backend *b, uint32_t number, size_t size_bytes,
                                spsh_error *err)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_lane_state *lane = &spsh__cuda_of(b)->lanes[self->lane];
    if (lane->scratch[number] != NULL && size_bytes <= lane->scratch_bytes[number])
        return SPSH_OK;
    spsh__cuda_segments_drop(b);
    const size_t least = lane->scratch_bytes[number] + lane->scratch_bytes[number] / 4;
    const size_t rounded = spsh__cuda_scratch_bytes(size_bytes > least ? size_bytes : least);
    self->plugin->free_fn(lane->scratch[number]); /* waits for work that uses the memory */
    lane->scratch[number] = NULL;
    lane->scratch_bytes[number] = 0;
    const spsh_status rc = new_memory(b, rounded, &lane->scratch[number], err);
    if (rc == SPSH_OK)
        lane->scratch_bytes[number] = rounded;
    return rc;
}

bool spsh__cuda_scratch_try(spsh__backend *b, uint32_t number, size_t size_bytes)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_of(b)->count.is_on)
        return true;
    const spsh_status rc = grow_scratch(b, number, size_bytes, &err);
    if (rc != SPSH_E_NO_MEMORY)
        spsh__cuda_failed(b, rc, &err);
    return rc == SPSH_OK;
}

void *spsh__cuda_scratch(spsh__backend *b, uint32_t number, size_t size_bytes)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_has_failed(b))
        return NULL;
    if (self->count.is_on)
        return spsh__cuda_count_scratch(b, number, size_bytes);
    const spsh_status rc = grow_scratch(b, number, size_bytes, &err);
    spsh__cuda_failed(b, rc, &err);
    return rc == SPSH_OK ? self->lanes[self->lane].scratch[number] : NULL;
}

/* -------------------------------------------------------------------------------- fill and copy */

typedef struct copy_work {
    void *to;
    const void *from; /* NULL: zeros */
    size_t size_bytes;
} copy_work;

static spsh_status put_copy(spsh__backend *b, void *stream, const void *arguments, spsh_error *err)
{
    const spsh__cuda_plugin *plugin = spsh__cuda_of(b)->plugin;
    const copy_work *w = arguments;
    return w->from == NULL ? plugin->fill_fn(w->to, 0, w->size_bytes, stream, err)
                           : plugin->copy_fn(w->to, w->from, w->size_bytes, stream, err);
}

void spsh__cuda_zero(spsh__backend *b, spsh__backend_buffer to, size_t count)
{
    const copy_work w = {to.data, NULL, spsh__cuda_bytes(to, count)};
    if (count != 0)
        spsh__cuda_put(b, put_copy, &w, sizeof(w));
}

void spsh__cuda_copy(spsh__backend *b, spsh__backend_buffer to, spsh__backend_buffer from,
                     size_t count)
{
    const copy_work w = {to.data, from.data, spsh__cuda_bytes(to, count)};
    if (count == 0)
        return;
    if (to.is_half != from.is_half)
        b->ops->convert_fn(b, to, from, count);
    else
        spsh__cuda_put(b, put_copy, &w, sizeof(w));
}

/* ---------------------------------------------------------------------------------------- uploads
 */

static char *slot_memory(const spsh__cuda_state *self, uint32_t slot)
{
    return self->pinned + (size_t)slot * SPSH__CUDA_SLOT_BYTES;
}

/* Upload one piece, at most one slot long. */
static spsh_status upload_piece(spsh__backend *b, void *to, const void *from, size_t size_bytes,
                                spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_slot *slot = &self->slots[self->slot];
    char *memory = slot_memory(self, self->slot);
    void *stream = self->lanes[self->lane].stream;
    spsh_status rc = SPSH_OK;
    if (slot->is_used)
        rc = self->plugin->event_synchronize_fn(slot->done, err);
    if (rc != SPSH_OK)
        return rc;
    memcpy(memory, from, size_bytes);
    rc = self->plugin->copy_fn(to, memory, size_bytes, stream, err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_record_fn(slot->done, stream, err);
    slot->is_used = rc == SPSH_OK;
    self->slot = (self->slot + 1) % SPSH__CUDA_SLOTS;
    return rc;
}

void spsh__cuda_upload(spsh__backend *b, void *to, const void *from, size_t size_bytes)
{
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_of(b)->count.is_on)
        return;
    spsh__cuda_segment_refuse(b);
    for (size_t at = 0; at < size_bytes && !spsh__cuda_has_failed(b);) {
        const size_t left = size_bytes - at;
        const size_t piece = left < SPSH__CUDA_SLOT_BYTES ? left : (size_t)SPSH__CUDA_SLOT_BYTES;
        spsh__cuda_failed(b, upload_piece(b, (char *)to + at, (const char *)from + at, piece, &err),
                          &err);
        at += piece;
    }
}

void spsh__cuda_write_f32(spsh__backend *b, spsh__backend_buffer to, const float *from,
                          size_t count)
{
    uint16_t halves[CHUNK];
    if (!to.is_half) {
        spsh__cuda_upload(b, to.data, from, count * sizeof(float));
        return;
    }
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t piece = count - at < CHUNK ? count - at : (size_t)CHUNK;
        for (size_t i = 0; i < piece; i++)
            halves[i] = spsh__half_of_f32(from[at + i], is_bf16(b));
        spsh__cuda_upload(b, (uint16_t *)to.data + at, halves, piece * sizeof(uint16_t));
    }
}

/* --------------------------------------------------------------------------------------- fetching
 */

/* Elements to fetch. */
typedef struct fetch {
    void *to;
    const char *from;
    size_t size_bytes; /* on the device */
    bool is_half;      /* converted to floats */
} fetch;

static size_t fetch_bytes(const fetch *f, size_t piece)
{
    const size_t left = f->size_bytes - piece * SPSH__CUDA_SLOT_BYTES;
    return left < SPSH__CUDA_SLOT_BYTES ? left : (size_t)SPSH__CUDA_SLOT_BYTES;
}

static void begin_fetch(spsh__backend *b, const fetch *f, size_t piece)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const uint32_t place = (uint32_t)(piece % SPSH__CUDA_FETCHES);
    void *stream = spsh__cuda_stream(b);
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_has_failed(b) || self->count.is_on)
        return;
    spsh_status rc = self->plugin->copy_fn(slot_memory(self, SPSH__CUDA_SLOTS + place),
                                           f->from + piece * SPSH__CUDA_SLOT_BYTES,
                                           fetch_bytes(f, piece), stream, &err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_record_fn(self->fetched[place], stream, &err);
    spsh__cuda_failed(b, rc, &err);
}

/* memory NULL: zeros, so that nothing on the host stays unwritten after a failure. */
static void put_fetched(const spsh__backend *b, const fetch *f, size_t piece, const void *memory)
{
    const size_t at = piece * SPSH__CUDA_SLOT_BYTES, size_bytes = fetch_bytes(f, piece);
    if (f->is_half) {
        float *to = (float *)f->to + at / sizeof(uint16_t);
        for (size_t i = 0; i < size_bytes / sizeof(uint16_t); i++)
            to[i] =
                memory == NULL ? 0 : spsh__f32_of_half(((const uint16_t *)memory)[i], is_bf16(b));
    } else if (memory != NULL) {
        memcpy((char *)f->to + at, memory, size_bytes);
    } else {
        memset((char *)f->to + at, 0, size_bytes);
    }
}

static void end_fetch(spsh__backend *b, const fetch *f, size_t piece)
{
    const spsh__cuda_state *self = spsh__cuda_of(b);
    const uint32_t place = (uint32_t)(piece % SPSH__CUDA_FETCHES);
    const void *memory = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    if (!spsh__cuda_has_failed(b) && !self->count.is_on) {
        const spsh_status rc = self->plugin->event_synchronize_fn(self->fetched[place], &err);
        spsh__cuda_failed(b, rc, &err);
        memory = rc == SPSH_OK ? slot_memory(self, SPSH__CUDA_SLOTS + place) : NULL;
    }
    put_fetched(b, f, piece, memory);
}

/* The copies of the next pieces run while the host takes a piece. */
static void fetch_pieces(spsh__backend *b, const fetch *f)
{
    const size_t pieces = (f->size_bytes + SPSH__CUDA_SLOT_BYTES - 1) / SPSH__CUDA_SLOT_BYTES;
    size_t begun = 0;
    for (size_t piece = 0; piece < pieces; piece++) {
        for (; begun < pieces && begun < piece + SPSH__CUDA_FETCHES; begun++)
            begin_fetch(b, f, begun);
        end_fetch(b, f, piece);
    }
}

void spsh__cuda_fetch(spsh__backend *b, void *to, const void *from, size_t size_bytes)
{
    fetch_pieces(b, &(fetch){to, from, size_bytes, false});
}

void spsh__cuda_read_f32(spsh__backend *b, float *to, spsh__backend_buffer from, size_t count)
{
    fetch_pieces(b, &(fetch){to, from.data, spsh__cuda_bytes(from, count), from.is_half});
}

/* ------------------------------------------------------------------------------------- downloads
 */

/* Use the first block with enough space. The last block is allocated as large as needed. NULL: no
 * block is left. */
static void *take_pinned(spsh__backend *b, size_t size_bytes, spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    const size_t rounded = (size_bytes + 255) / 256 * 256;
    size_t wanted = BLOCK_BYTES;
    for (uint32_t i = 0; i < SPSH__CUDA_BLOCKS; i++) {
        spsh__cuda_block *block = &self->blocks[i];
        void *memory = NULL;
        if (block->memory == NULL) {
            if (wanted < rounded)
                wanted = rounded;
            if (self->plugin->host_alloc_fn(wanted, &memory, err) != SPSH_OK)
                return NULL;
            *block = (spsh__cuda_block){memory, wanted, 0};
        }
        if (block->size_bytes - block->used_bytes >= rounded) {
            block->used_bytes += rounded;
            return block->memory + block->used_bytes - rounded;
        }
        wanted = 2 * block->size_bytes;
    }
    (void)SPSH_FAIL(err, SPSH_E_NO_MEMORY,
                    "backend cuda: pinned memory for results that return to the host");
    return NULL;
}

static spsh__cuda_take *add_take(spsh__backend *b)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    if (self->take_count == self->take_capacity) {
        const size_t capacity = 2 * self->take_capacity + 16;
        spsh__cuda_take *takes =
            spsh__enlarge(&b->allocator, self->takes, self->take_count, capacity, sizeof(*takes));
        if (takes == NULL)
            return NULL;
        self->takes = takes;
        self->take_capacity = capacity;
    }
    return &self->takes[self->take_count];
}

static spsh_status put_download(spsh__backend *b, void *to, const void *from, size_t size_bytes,
                                spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh__cuda_lane_state *lane = &self->lanes[self->lane];
    void *stream = spsh__cuda_stream(b);
    spsh_status rc = self->plugin->copy_fn(to, from, size_bytes, stream, err);
    if (rc == SPSH_OK)
        rc = self->plugin->event_record_fn(lane->taken, stream, err);
    lane->has_taken = lane->has_taken || rc == SPSH_OK;
    return rc;
}

void spsh__cuda_download(spsh__backend *b, const void *from, size_t size_bytes,
                         void (*take_fn)(const void *user, const void *bytes), const void *user,
                         size_t user_bytes)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    if (spsh__cuda_has_failed(b) || self->count.is_on)
        return;
    spsh__cuda_take *take = add_take(b);
    void *memory = take == NULL ? NULL : take_pinned(b, size_bytes, &err);
    if (take == NULL)
        rc = SPSH_NO_MEMORY(&err);
    else if (memory == NULL)
        rc = err.status;
    else if (size_bytes != 0)
        rc = put_download(b, memory, from, size_bytes, &err);
    spsh__cuda_failed(b, rc, &err);
    if (rc != SPSH_OK)
        return;
    take->take_fn = take_fn;
    take->bytes = memory;
    memcpy(take->user, user, user_bytes);
    self->take_count++;
}

/* Wait only for the copies. Backward and all-reduces, which follow the copied losses, continue.
 * After a failure no result is passed on: status_fn returns the failure. */
void spsh__cuda_finish(spsh__backend *b)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    spsh_error err = SPSH_ERROR_INIT;
    spsh__cuda_segment_refuse(b);
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++) {
        spsh__cuda_lane_state *lane = &self->lanes[i];
        if (lane->has_taken && !spsh__cuda_has_failed(b))
            spsh__cuda_failed(b, self->plugin->event_synchronize_fn(lane->taken, &err), &err);
        lane->has_taken = false;
    }
    for (size_t i = 0; i < self->take_count && !spsh__cuda_has_failed(b); i++)
        self->takes[i].take_fn(self->takes[i].user, self->takes[i].bytes);
    self->take_count = 0;
    for (uint32_t i = 0; i < SPSH__CUDA_BLOCKS; i++)
        self->blocks[i].used_bytes = 0;
}

/* --------------------------------------------------------------------------------------- lengths
 */

static uint32_t lengths_capacity(uint32_t batch)
{
    return batch < LENGTHS_FIRST ? LENGTHS_FIRST : 2 * batch;
}

static void count_lengths(spsh__backend *b, uint32_t batch)
{
    uint64_t *most = &spsh__cuda_of(b)->count.lengths_bytes;
    const uint64_t bytes = 2 * sizeof(uint32_t) * (uint64_t)lengths_capacity(batch);
    *most = bytes > *most ? bytes : *most;
}

/* The address of the lengths is the same for all batches, so that captured graphs can use it. */
void spsh__cuda_batch(spsh__backend *b, const spsh__batch_lengths *l)
{
    spsh__cuda_lengths_state *lengths = &spsh__cuda_of(b)->lengths;
    spsh_error err = SPSH_ERROR_INIT;
    lengths->batch = l->batch;
    if (spsh__cuda_of(b)->count.is_on) {
        count_lengths(b, l->batch);
        return;
    }
    if (l->batch > lengths->capacity || lengths->device == NULL) {
        spsh__backend_buffer before = {lengths->device, false};
        void *memory = NULL;
        const uint32_t capacity = lengths_capacity(l->batch);
        spsh__cuda_free(b, before);
        *lengths = (spsh__cuda_lengths_state){.batch = l->batch};
        const spsh_status rc =
            alloc_elements(b, 2 * (size_t)capacity, sizeof(uint32_t), &memory, &err);
        spsh__cuda_failed(b, rc, &err);
        if (rc != SPSH_OK)
            return;
        lengths->device = memory;
        lengths->capacity = capacity;
    }
    lengths->in = l->in;
    lengths->out = l->out;
    spsh__cuda_upload(b, lengths->device, l->in, l->batch * sizeof(uint32_t));
    if (l->out != l->in)
        spsh__cuda_upload(b, lengths->device + lengths->capacity, l->out,
                          l->batch * sizeof(uint32_t));
}

uint32_t spsh__cuda_batch_size(const spsh__backend *b)
{
    return spsh__cuda_of(b)->lengths.batch;
}

const uint32_t *spsh__cuda_lengths(spsh__backend *b, const uint32_t *lengths)
{
    const spsh__cuda_lengths_state *l = &spsh__cuda_of(b)->lengths;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh__cuda_of(b)->count.is_on)
        return spsh__cuda_nowhere();
    if (l->device != NULL && lengths == l->in)
        return l->device;
    if (l->device != NULL && lengths == l->out)
        return l->device + l->capacity;
    spsh__cuda_failed(
        b,
        SPSH_FAIL(&err, SPSH_E_INVALID_ARG,
                  "backend cuda: these lengths are not those of the batch in progress"),
        &err);
    return NULL;
}

/* ---------------------------------------------------------------------------------- open, close
 */

spsh_status spsh__cuda_memory_open(spsh__backend *b, spsh_error *err)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    void *memory = NULL;
    spsh_status rc = self->plugin->host_alloc_fn(
        (SPSH__CUDA_SLOTS + SPSH__CUDA_FETCHES) * (size_t)SPSH__CUDA_SLOT_BYTES, &memory, err);
    self->pinned = memory;
    for (uint32_t i = 0; i < SPSH__CUDA_SLOTS && rc == SPSH_OK; i++)
        rc = self->plugin->event_open_fn(b->device, 0, &self->slots[i].done, err);
    for (uint32_t i = 0; i < SPSH__CUDA_FETCHES && rc == SPSH_OK; i++)
        rc = self->plugin->event_open_fn(b->device, 0, &self->fetched[i], err);
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES && rc == SPSH_OK; i++)
        rc = self->plugin->event_open_fn(b->device, 0, &self->lanes[i].taken, err);
    return rc;
}

void spsh__cuda_memory_close(spsh__backend *b)
{
    spsh__cuda_state *self = spsh__cuda_of(b);
    const spsh__cuda_plugin *plugin = self->plugin;
    for (uint32_t i = 0; i < SPSH__CUDA_SLOTS; i++)
        plugin->event_close_fn(self->slots[i].done);
    for (uint32_t i = 0; i < SPSH__CUDA_FETCHES; i++)
        plugin->event_close_fn(self->fetched[i]);
    plugin->host_free_fn(self->pinned);
    for (uint32_t i = 0; i < SPSH__CUDA_BLOCKS; i++)
        plugin->host_free_fn(self->blocks[i].memory);
    spsh__free(&b->allocator, self->takes);
    plugin->free_fn(self->lengths.device);
    for (uint32_t i = 0; i < SPSH__DEVICE_LANES; i++) {
        plugin->event_close_fn(self->lanes[i].taken);
        for (uint32_t k = 0; k < SPSH__CUDA_SCRATCHES; k++)
            plugin->free_fn(self->lanes[i].scratch[k]);
    }
}
