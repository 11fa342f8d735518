/* twin_runtime.c: streams, events, and graphs of the host emulation.
 *
 *     stream 0: work, record A, work          an item runs when it is the first of its stream
 *     stream 1: wait A, work, graph           and, for a wait, after A's mark was reached
 *
 * A thread that waits runs items, one after another, until the awaited one has finished. It draws
 * the stream of each item from the streams whose first item can run. The way of drawing is drawn
 * for each wait: any stream, only the needed items, or all other items first. One lock is held all
 * the time.
 *
 * A mark is one recording of an event. A wait refers to the event's newest mark when the wait was
 * enqueued. A capture collects items in lanes, one per stream. A graph contains the collected
 * items, and its launch is an item that runs one item of its lanes at a time.
 *
 * Clocks (twin_hazards.c) advance when work is enqueued: dependencies do not depend on the work
 * that has run so far. All host threads share one clock: an event that one of them has waited for
 * is past for all, because they synchronize in ways that are not visible here. So a hazard may be
 * missed, but none is reported wrongly.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "twin_internal.h"

typedef struct graph graph;
typedef struct capture capture;

/* One recording of an event. */
typedef struct mark {
    uint32_t references;
    uint32_t stream;
    bool is_done;
    capture *of; /* NULL: not captured; for a finished capture see is_captured */
    bool is_captured;
    twin_clock clock;
    uint64_t tick; /* work_count when it was reached */
} mark;

typedef enum item_kind { ITEM_WORK, ITEM_RECORD, ITEM_WAIT, ITEM_GRAPH } item_kind;

typedef struct item {
    struct item *next;
    item_kind kind;
    twin_work work;  /* WORK */
    void *arguments; /* copies of the work's data; work points to them */
    spsh__device_use *uses;
    mark *marked;    /* RECORD, WAIT */
    graph *launched; /* GRAPH */
} item;

typedef struct queue {
    item *first, *last;
} queue;

typedef struct stream {
    bool is_open;
    uint32_t device; /* TWIN_DEVICES: none in particular */
    queue items;
    twin_clock clock; /* at[own number]: time of the last piece of work */
    capture *captured_by;
} stream;

typedef struct event {
    uint32_t device;
    bool is_timed;
    mark *last; /* NULL: was never recorded */
} event;

/* A capture between begin and end. Lanes are numbered like streams. */
struct capture {
    uint32_t origin;
    bool is_broken;
    queue lanes[TWIN_STREAMS];
    twin_clock clocks[TWIN_STREAMS];
    twin_accesses accesses;
};

struct graph {
    uint32_t references; /* one of the owner, and one per incomplete launch */
    queue lanes[TWIN_STREAMS];
    twin_clock clock; /* clock of the last launch, which the next one follows */
    /* Items of the running launch. */
    const item *running;
    const item *next[TWIN_STREAMS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static stream streams[TWIN_STREAMS] = {
    {.is_open = true, .device = TWIN_DEVICES}
};
static twin_clock host;
static _Thread_local capture *own_capture; /* the capture that this thread began */
static _Thread_local uint32_t own_device;  /* whose default stream NULL is to this thread */

/* 99 KiB of shared memory, as on sm_86. */
twin_controls twin_state = {
    .memory_bytes = 101376,
    .seed = 1,
    .device_bytes = UINT64_C(8) << 30,
    .capability = 90,
#ifdef TWIN_THREADS
    .has_threads = true,
#endif
};

SPSH_API twin_controls *twin_controls_get(void);

SPSH_API twin_controls *twin_controls_get(void)
{
    return &twin_state;
}

/* ---- shared by all parts ---- */

void twin_stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("twin: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputs("\n", stderr);
    va_end(arguments);
    abort();
}

void *twin_new(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes > 0 ? size_bytes : 1);
    if (memory == NULL)
        twin_stop("no memory");
    return memory;
}

/* SplitMix64. */
uint64_t twin_random(uint64_t below)
{
    twin_state.seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = twin_state.seed;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

uint32_t twin_order(void)
{
    return twin_state.order;
}

void *twin_shared(size_t size_bytes)
{
    static void *memory;
    static size_t capacity;
    if (size_bytes > twin_state.memory_bytes)
        twin_stop("%zu bytes of shared memory, a block has %zu", size_bytes,
                  twin_state.memory_bytes);
    if (memory == NULL || size_bytes > capacity) {
        free(memory);
        if (posix_memalign(&memory, 16, size_bytes + 1) != 0)
            twin_stop("no memory");
        capacity = size_bytes;
    }
    memset(memory, TWIN_POISON, size_bytes);
    return memory;
}

static void enter(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&lock);
}

static uint32_t number_of(const stream *of)
{
    return (uint32_t)(of - streams);
}

static spsh_status is_usable(spsh_error *err)
{
    return twin_state.is_lost
               ? spsh__cuda_fail(
                     err, SPSH_E_IO,
                     "this process can no longer use the device; start the program again")
               : SPSH_OK;
}

/* CUDA's handle of the per-thread default stream. Here it is the legacy default stream for all
 * threads, on the device of the calling thread. */
#define EACH_THREADS ((uintptr_t)2)

/* ret_stream: the stream of a handle. */
static spsh_status find_stream(void *handle, stream **ret_stream, spsh_error *err)
{
    if ((uintptr_t)handle == EACH_THREADS)
        handle = NULL;
    for (size_t i = 0; i < TWIN_STREAMS; i++) {
        if (handle != &streams[i] && (handle != NULL || i != 0))
            continue;
        *ret_stream = &streams[i];
        return streams[i].is_open
                   ? is_usable(err)
                   : spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "a stream that was closed");
    }
    return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "that is no stream");
}

/* ---- items ---- */

static void let_go(mark *of)
{
    if (of != NULL && --of->references == 0)
        free(of);
}

static void free_queue(queue *items);

static void drop_graph(graph *of)
{
    if (--of->references != 0)
        return;
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        free_queue(&of->lanes[i]);
    free(of);
}

static void free_item(item *one)
{
    free(one->arguments);
    free(one->uses);
    let_go(one->marked);
    if (one->launched != NULL)
        drop_graph(one->launched);
    free(one);
}

static void free_queue(queue *items)
{
    while (items->first != NULL) {
        item *one = items->first;
        items->first = one->next;
        free_item(one);
    }
    items->last = NULL;
}

static item *append(queue *items, item_kind kind)
{
    item *one = twin_new(sizeof(*one));
    one->kind = kind;
    if (items->last != NULL)
        items->last->next = one;
    else
        items->first = one;
    items->last = one;
    return one;
}

static void *copy_of(const void *memory, size_t size_bytes)
{
    void *copy = twin_new(size_bytes);
    if (size_bytes > 0)
        memcpy(copy, memory, size_bytes);
    return copy;
}

static void append_work(queue *items, const twin_work *work)
{
    item *one = append(items, ITEM_WORK);
    one->work = *work;
    one->arguments = copy_of(work->arguments, work->argument_bytes);
    one->uses = copy_of(work->uses, work->use_count * sizeof(*work->uses));
    one->work.arguments = one->arguments;
    one->work.uses = one->uses;
}

/* The queue and the clock that new work of a stream is added to. */
static queue *items_of(stream *of)
{
    return of->captured_by != NULL ? &of->captured_by->lanes[number_of(of)] : &of->items;
}

static twin_clock *clock_of(stream *of)
{
    return of->captured_by != NULL ? &of->captured_by->clocks[number_of(of)] : &of->clock;
}

/* ---- running items ---- */

/* All enqueued work is lost. */
static void lose(void)
{
    twin_state.is_lost = true;
    for (size_t i = 0; i < TWIN_STREAMS; i++) {
        for (item *one = streams[i].items.first; one != NULL; one = one->next) {
            if (one->kind == ITEM_RECORD)
                one->marked->is_done = true;
            if (one->kind == ITEM_GRAPH)
                one->launched->running = NULL;
        }
        free_queue(&streams[i].items);
    }
    (void)pthread_cond_broadcast(&changed);
}

static bool is_ready(const item *one)
{
    switch (one->kind) {
    case ITEM_WORK: return one->work.is_ready_fn == NULL || one->work.is_ready_fn(one->arguments);
    case ITEM_WAIT: return one->marked->is_done;
    case ITEM_GRAPH: return one->launched->running == NULL || one->launched->running == one;
    case ITEM_RECORD: break;
    }
    return true;
}

/* A graph's work may run many times, so each run gets a fresh copy of the arguments. */
static void run_work(const item *one, bool is_of_graph)
{
    if (!is_of_graph) {
        one->work.run_fn(one->arguments);
        return;
    }
    void *arguments = copy_of(one->arguments, one->work.argument_bytes);
    one->work.run_fn(arguments);
    free(arguments);
}

/* Run an item of a stream or of a graph's lane. This may lose the device. */
static void do_item(const item *one, bool is_of_graph)
{
    if (one->kind == ITEM_RECORD) {
        one->marked->is_done = true;
        one->marked->tick = twin_state.work_count;
    }
    if (one->kind != ITEM_WORK)
        return;
    twin_state.work_count++;
    if (twin_state.lost_after != 0 && twin_state.work_count >= twin_state.lost_after) {
        twin_state.is_lost = true;
        return;
    }
    run_work(one, is_of_graph);
}

static void start_graph(graph *of, const item *launch)
{
    of->running = launch;
    for (size_t i = 0; i < TWIN_STREAMS; i++) {
        of->next[i] = of->lanes[i].first;
        for (item *one = of->lanes[i].first; one != NULL; one = one->next)
            if (one->kind == ITEM_RECORD)
                one->marked->is_done = false;
    }
}

/* Run one item of a graph; true if none was left. */
static bool step_graph(graph *of, const item *launch)
{
    size_t ready[TWIN_STREAMS];
    size_t ready_count = 0;
    if (of->running == NULL)
        start_graph(of, launch);
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        if (of->next[i] != NULL && is_ready(of->next[i]))
            ready[ready_count++] = i;
    if (ready_count > 0) {
        const size_t i = ready[twin_random(ready_count)];
        const item *one = of->next[i];
        of->next[i] = one->next;
        do_item(one, true);
    }
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        if (of->next[i] != NULL)
            return false;
    of->running = NULL;
    return true;
}

/* Run the first item of a stream. For a graph, run only one of its items. */
static void step(stream *of)
{
    item *one = of->items.first;
    if (one->kind == ITEM_GRAPH && !step_graph(one->launched, one) && !twin_state.is_lost)
        return;
    do_item(one, false);
    if (twin_state.is_lost) {
        lose();
        return;
    }
    of->items.first = one->next;
    if (one->next == NULL)
        of->items.last = NULL;
    free_item(one);
    (void)pthread_cond_broadcast(&changed);
}

typedef enum draw { DRAW_ANY, DRAW_NEEDED, DRAW_OTHERS, DRAWS } draw;

/* The stream whose first item must run before `wanted` can continue. */
static uint32_t needed_by(uint32_t wanted)
{
    for (size_t i = 0; i < TWIN_STREAMS; i++) {
        const item *one = streams[wanted].items.first;
        if (one == NULL || one->kind != ITEM_WAIT || one->marked->is_done)
            break;
        wanted = one->marked->stream;
    }
    return wanted;
}

/* A stream whose first item can run, or NULL. wanted: a stream, or TWIN_STREAMS for all. */
static stream *draw_stream(uint32_t wanted, draw how)
{
    stream *ready[TWIN_STREAMS];
    uint64_t ready_count = 0;
    const uint32_t needed = wanted < TWIN_STREAMS ? needed_by(wanted) : wanted;
    for (uint32_t i = 0; i < TWIN_STREAMS; i++)
        if (streams[i].items.first != NULL && is_ready(streams[i].items.first))
            ready[ready_count++] = &streams[i];
    if (ready_count == 0)
        return NULL;
    for (uint64_t i = 0; i < ready_count && how == DRAW_NEEDED; i++)
        if (number_of(ready[i]) == needed)
            return ready[i];
    stream *drawn = ready[twin_random(ready_count)];
    for (uint64_t i = 0; i < ready_count && how == DRAW_OTHERS; i++)
        if (number_of(drawn) == needed)
            drawn = ready[i];
    return drawn;
}

/* No item can run until another thread or process makes progress: wait a millisecond for it. */
static void wait_for_others(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&changed, &lock, &until);
}

/* Run until a mark is reached. */
static void run_to_mark(mark *wanted)
{
    const draw how = (draw)twin_random(DRAWS);
    wanted->references++;
    while (!wanted->is_done) {
        stream *of = draw_stream(wanted->stream, how);
        if (of != NULL)
            step(of);
        else
            wait_for_others();
    }
    let_go(wanted);
}

static mark *put_mark(stream *of);

/* Run until a stream has finished its current items. */
static void run_stream(stream *of)
{
    if (of->items.first == NULL)
        return;
    mark *end = put_mark(of);
    run_to_mark(end);
    let_go(end); /* NOLINT(clang-analyzer-unix.Malloc): of put_mark's two references one is left */
}

static void run_everything(void)
{
    for (size_t i = 0; i < TWIN_STREAMS; i++) {
        const size_t turn = twin_random(TWIN_STREAMS);
        stream *of = &streams[(i + turn) % TWIN_STREAMS];
        if (of->captured_by == NULL)
            run_stream(of);
    }
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        if (streams[i].captured_by == NULL)
            run_stream(&streams[i]);
}

/* ---- enqueuing work ---- */

static void break_capture(capture *of)
{
    if (of != NULL)
        of->is_broken = true;
}

/* Check for calls that are illegal while this thread captures. */
static spsh_status check_no_capture(const char *what, spsh_error *err)
{
    if (own_capture == NULL)
        return SPSH_OK;
    break_capture(own_capture);
    return spsh__cuda_fail(err, SPSH_E_IO, "%s: not while a graph is captured", what);
}

static spsh_status check_capture(const stream *of, const char *what, spsh_error *err)
{
    if (of->captured_by != NULL && of->captured_by->is_broken)
        return spsh__cuda_fail(err, SPSH_E_IO, "%s: the capture of a graph has failed before",
                               what);
    return SPSH_OK;
}

static spsh_status check_uses(const stream *of, const twin_work *work, bool any_device,
                              spsh_error *err)
{
    for (size_t i = 0; i < work->use_count; i++) {
        const spsh__device_use *use = &work->uses[i];
        if (use->size_bytes == 0 || !twin_is_device_memory(use->begin))
            continue;
        const twin_block *block = twin_block_of(use->begin, use->size_bytes);
        if (block == NULL)
            return spsh__cuda_fail(
                err, SPSH_E_INVALID_ARG,
                "%s: use %zu of %zu bytes is outside of the device's memory, or that "
                "was freed",
                work->name, i, use->size_bytes);
        if (!any_device && of->device < TWIN_DEVICES && block->device != of->device)
            return spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                                   "%s: use %zu is memory of device %u, the stream is of device %u",
                                   work->name, i, block->device, of->device);
    }
    return SPSH_OK;
}

/* Add an access for each use of a known block. into: NULL: the block's own list. */
static void add_uses(uint32_t number, const twin_work *work, const twin_clock *now,
                     twin_accesses *into)
{
    static const twin_clock nothing;
    for (size_t i = 0; i < work->use_count; i++) {
        const spsh__device_use *use = &work->uses[i];
        twin_block *block = use->size_bytes > 0 ? twin_block_of(use->begin, use->size_bytes) : NULL;
        const twin_access one = {
            .name = work->name,
            .begin = (uintptr_t)use->begin,
            .end = (uintptr_t)use->begin + use->size_bytes,
            .is_write = use->is_write != 0,
            .stream = number,
            .time = now->at[number],
        };
        if (block != NULL)
            twin_accesses_add(into != NULL ? into : &block->accesses, &one, now,
                              into != NULL ? &nothing : &host);
    }
}

/* The stream's clock for one more piece of work. */
static twin_clock *next_time(stream *of)
{
    twin_clock *now = clock_of(of);
    if (of->captured_by == NULL)
        twin_clock_join(now, &host);
    now->at[number_of(of)]++;
    return now;
}

static spsh_status enqueue(void *handle, const twin_work *work, bool any_device, spsh_error *err)
{
    stream *of = NULL;
    spsh_status rc = find_stream(handle, &of, err);
    if (rc == SPSH_OK)
        rc = check_capture(of, work->name, err);
    if (rc == SPSH_OK)
        rc = check_uses(of, work, any_device, err);
    if (rc != SPSH_OK)
        return rc;
    const twin_clock *now = next_time(of);
    add_uses(number_of(of), work, now, of->captured_by != NULL ? &of->captured_by->accesses : NULL);
    append_work(items_of(of), work);
    (void)pthread_cond_broadcast(&changed);
    return SPSH_OK;
}

spsh_status twin_enqueue(void *handle, const twin_work *work, spsh_error *err)
{
    enter();
    const spsh_status rc = enqueue(handle, work, false, err);
    leave();
    return rc;
}

/* ---- copies and fills ---- */

typedef struct copy_arguments {
    void *to;
    const void *from; /* NULL: the bytes after this struct */
    uint64_t size_bytes;
    uint32_t byte;
    bool is_fill;
} copy_arguments;

static void run_copy(void *opaque)
{
    const copy_arguments *of = opaque;
    if (of->is_fill)
        memset(of->to, (int)of->byte, of->size_bytes);
    else
        memmove(of->to, of->from != NULL ? of->from : (const void *)(of + 1), of->size_bytes);
}

static bool is_host_memory(const void *memory, size_t size_bytes)
{
    return !twin_is_device_memory(memory) && twin_block_of(memory, size_bytes) == NULL;
}

/* Pageable host memory is read at once. */
static spsh_status enqueue_copy(const copy_arguments *given, void *handle, spsh_error *err)
{
    const size_t size_bytes = given->size_bytes;
    const spsh__device_use uses[2] = {
        {given->to,   size_bytes, 1},
        {given->from, size_bytes, 0}
    };
    const bool is_staged = !given->is_fill && is_host_memory(given->from, size_bytes);
    const size_t bytes = sizeof(*given) + (is_staged ? size_bytes : 0);
    copy_arguments *arguments = twin_new(bytes);
    *arguments = *given;
    if (is_staged) {
        memcpy(arguments + 1, given->from, size_bytes);
        arguments->from = NULL;
    }
    const twin_work work = {
        .name = given->is_fill ? "fill" : "copy",
        .run_fn = run_copy,
        .arguments = arguments,
        .argument_bytes = bytes,
        .uses = uses,
        .use_count = is_staged || given->is_fill ? 1 : 2,
    };
    const spsh_status rc = enqueue(handle, &work, true, err);
    free(arguments);
    return rc;
}

static spsh_status copy(void *to, const void *from, size_t size_bytes, void *handle,
                        spsh_error *err)
{
    const copy_arguments given = {.to = to, .from = from, .size_bytes = size_bytes};
    stream *of = NULL;
    enter();
    spsh_status rc = find_stream(handle, &of, err);
    if (rc == SPSH_OK && of->captured_by != NULL &&
        (is_host_memory(to, size_bytes) || is_host_memory(from, size_bytes))) {
        break_capture(of->captured_by);
        rc = spsh__cuda_fail(err, SPSH_E_IO,
                             "a copy of memory that is not pinned: not while a graph is "
                             "captured");
    }
    if (rc == SPSH_OK)
        rc = enqueue_copy(&given, handle, err);
    if (rc == SPSH_OK && !twin_is_device_memory(from))
        twin_state.up_bytes += size_bytes;
    else if (rc == SPSH_OK && !twin_is_device_memory(to))
        twin_state.down_bytes += size_bytes;
    leave();
    return rc;
}

static spsh_status fill(void *memory, uint8_t byte, size_t size_bytes, void *handle,
                        spsh_error *err)
{
    const copy_arguments given = {
        .to = memory, .size_bytes = size_bytes, .byte = byte, .is_fill = true};
    spsh_status rc = SPSH_OK;
    enter();
    if (!twin_is_device_memory(memory))
        rc = spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "a fill of memory that is not of a device");
    if (rc == SPSH_OK)
        rc = enqueue_copy(&given, handle, err);
    leave();
    return rc;
}

/* ---- memory ---- */

static spsh_status alloc_memory(uint32_t device, size_t size_bytes, void **ret_memory,
                                spsh_error *err)
{
    enter();
    spsh_status rc = is_usable(err);
    if (rc == SPSH_OK)
        rc = twin_memory_new(device, size_bytes, ret_memory, err);
    leave();
    return rc;
}

static void free_memory(void *memory)
{
    if (memory == NULL)
        return;
    enter();
    (void)check_no_capture("freeing memory", NULL);
    run_everything();
    twin_memory_free(memory);
    leave();
}

static spsh_status get_memory(uint32_t device, uint64_t *ret_free_bytes, uint64_t *ret_all_bytes,
                              spsh_error *err)
{
    enter();
    const spsh_status rc = is_usable(err);
    if (rc == SPSH_OK) {
        const uint64_t used = twin_memory_used(device);
        *ret_all_bytes = twin_state.device_bytes;
        *ret_free_bytes = used < twin_state.device_bytes ? twin_state.device_bytes - used : 0;
    }
    leave();
    return rc;
}

static spsh_status host_alloc(size_t size_bytes, void **ret_memory, spsh_error *err)
{
    enter();
    spsh_status rc = is_usable(err);
    if (rc == SPSH_OK)
        rc = twin_pinned_new(size_bytes, ret_memory, err);
    leave();
    return rc;
}

static spsh_status host_register(void *memory, size_t size_bytes, spsh_error *err)
{
    enter();
    spsh_status rc = is_usable(err);
    if (rc == SPSH_OK)
        rc = twin_pinned_register(memory, size_bytes, err);
    leave();
    return rc;
}

static bool uses_block(const item *one, const twin_block *block)
{
    for (size_t u = 0; u < one->work.use_count; u++) {
        const uintptr_t begin = (uintptr_t)one->work.uses[u].begin;
        if (begin < block->end && begin + one->work.uses[u].size_bytes > block->begin)
            return true;
    }
    for (size_t i = 0; one->launched != NULL && i < TWIN_STREAMS; i++)
        for (const item *of = one->launched->lanes[i].first; of != NULL; of = of->next)
            if (uses_block(of, block))
                return true;
    return false;
}

/* Whether incomplete work uses the block. */
static bool is_in_use(const twin_block *block)
{
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        for (const item *one = streams[i].items.first; one != NULL; one = one->next)
            if (uses_block(one, block))
                return true;
    return false;
}

static void drop_pinned(void *memory, bool is_registered)
{
    if (memory == NULL)
        return;
    enter();
    const twin_block *block = twin_block_of(memory, 1);
    if (block != NULL && is_in_use(block)) {
        if (!twin_state.counts_hazards)
            twin_stop("hazard: pinned memory of %zu bytes is given back while a copy uses it",
                      (size_t)(block->end - block->begin));
        twin_state.hazards++;
        run_everything();
    }
    twin_pinned_free(memory, is_registered);
    leave();
}

static void host_free(void *memory)
{
    drop_pinned(memory, false);
}

static void host_unregister(void *memory)
{
    drop_pinned(memory, true);
}

/* ---- streams ---- */

static spsh_status stream_open(uint32_t device, uint32_t urgent, void **ret_stream, spsh_error *err)
{
    (void)urgent; /* unused: the order is random anyway */
    enter();
    spsh_status rc = is_usable(err);
    size_t i = 0;
    while (i < TWIN_STREAMS && streams[i].is_open)
        i++;
    if (rc == SPSH_OK && i == TWIN_STREAMS)
        rc = spsh__cuda_fail(err, SPSH_E_IO, "more than %d streams", (int)TWIN_STREAMS);
    if (rc == SPSH_OK) {
        streams[i].is_open = true; /* its clock continues: times are not reused */
        streams[i].device = device;
        twin_state.open_streams++;
        *ret_stream = &streams[i];
    }
    leave();
    return rc;
}

static void stream_close(void *handle)
{
    stream *of = handle;
    if (handle == NULL)
        return;
    enter();
    if (of < streams + 1 || of >= streams + TWIN_STREAMS || !of->is_open)
        twin_stop("what was closed is no stream");
    if (of->captured_by != NULL)
        twin_stop("a stream was closed while a graph is captured from it");
    run_stream(of);
    twin_clock_join(&host, &of->clock);
    of->is_open = false;
    twin_state.open_streams--;
    leave();
}

static spsh_status synchronize(void *handle, spsh_error *err)
{
    stream *of = NULL;
    enter();
    twin_state.waits++;
    spsh_status rc = find_stream(handle, &of, err);
    if (rc == SPSH_OK)
        rc = check_no_capture("waiting for a stream", err);
    if (rc == SPSH_OK && of->captured_by != NULL) {
        break_capture(of->captured_by);
        rc = spsh__cuda_fail(err, SPSH_E_IO, "waiting for a stream: a graph is captured from it");
    }
    if (rc == SPSH_OK) {
        const twin_clock then = of->clock;
        run_stream(of);
        twin_clock_join(&host, &then);
        rc = is_usable(err);
    }
    leave();
    return rc;
}

/* ---- events ---- */

static spsh_status event_open(uint32_t device, uint32_t timed, void **ret_event, spsh_error *err)
{
    enter();
    const spsh_status rc = is_usable(err);
    if (rc == SPSH_OK) {
        event *of = twin_new(sizeof(*of));
        of->device = device;
        of->is_timed = timed != 0;
        twin_state.open_events++;
        *ret_event = of;
    }
    leave();
    return rc;
}

static void event_close(void *opaque)
{
    event *of = opaque;
    if (of == NULL)
        return;
    enter();
    let_go(of->last);
    free(of);
    twin_state.open_events--;
    leave();
}

/* The caller owns one of the two references. */
static mark *put_mark(stream *of)
{
    mark *one = twin_new(sizeof(*one));
    one->references = 2;
    one->stream = number_of(of);
    one->of = of->captured_by;
    one->is_captured = of->captured_by != NULL;
    one->clock = *clock_of(of);
    append(items_of(of), ITEM_RECORD)->marked = one;
    return one;
}

static spsh_status event_record(void *opaque, void *handle, spsh_error *err)
{
    event *of = opaque;
    stream *on = NULL;
    enter();
    spsh_status rc = find_stream(handle, &on, err);
    if (rc == SPSH_OK)
        rc = check_capture(on, "recording an event", err);
    if (rc == SPSH_OK && (uintptr_t)handle == EACH_THREADS)
        rc = spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "an event on whichever thread's stream");
    const uint32_t device = on == &streams[0] ? own_device : on->device;
    if (rc == SPSH_OK && device != of->device)
        rc = spsh__cuda_fail(err, SPSH_E_INVALID_ARG,
                             "an event of device %u, a stream of device %u", of->device, device);
    if (rc == SPSH_OK) {
        if (on->captured_by == NULL)
            twin_clock_join(&on->clock, &host);
        let_go(of->last);
        of->last = put_mark(on);
        (void)pthread_cond_broadcast(&changed);
    }
    leave();
    return rc;
}

/* A stream joins a capture when it first waits for a mark of this capture. */
static spsh_status check_wait(stream *on, const mark *last, spsh_error *err)
{
    if (last->is_captured && last->of == NULL)
        return spsh__cuda_fail(err, SPSH_E_IO, "waiting for an event of a capture that is over");
    if (on->captured_by == last->of)
        return SPSH_OK;
    if (last->of != NULL && on->captured_by == NULL && on != &streams[0] && !last->of->is_broken) {
        on->captured_by = last->of;
        return SPSH_OK;
    }
    break_capture(on->captured_by);
    break_capture(last->of);
    return spsh__cuda_fail(err, SPSH_E_IO, "waiting for an event across the border of a capture");
}

static spsh_status event_wait(void *opaque, void *handle, spsh_error *err)
{
    const event *of = opaque;
    stream *on = NULL;
    enter();
    spsh_status rc = find_stream(handle, &on, err);
    if (rc == SPSH_OK)
        rc = check_capture(on, "waiting for an event", err);
    if (rc == SPSH_OK && of->last != NULL)
        rc = check_wait(on, of->last, err);
    if (rc == SPSH_OK && of->last != NULL) {
        twin_clock_join(clock_of(on), &of->last->clock);
        append(items_of(on), ITEM_WAIT)->marked = of->last;
        of->last->references++;
    }
    leave();
    return rc;
}

/* Fail if the host may not query or wait for the event. */
static spsh_status check_asked(const event *of, spsh_error *err)
{
    spsh_status rc = is_usable(err);
    if (rc == SPSH_OK)
        rc = check_no_capture("asking for an event", err);
    if (rc == SPSH_OK && of->last != NULL && of->last->is_captured) {
        break_capture(of->last->of);
        rc = spsh__cuda_fail(err, SPSH_E_IO, "asking for an event of a graph");
    }
    return rc;
}

static spsh_status event_query(void *opaque, spsh_error *err)
{
    const event *of = opaque;
    enter();
    spsh_status rc = check_asked(of, err);
    for (uint64_t left = rc == SPSH_OK ? twin_random(4) : 0; left > 0; left--) {
        stream *drawn = draw_stream(TWIN_STREAMS, DRAW_ANY);
        if (drawn != NULL)
            step(drawn);
    }
    if (rc == SPSH_OK)
        rc = is_usable(err);
    if (rc == SPSH_OK && of->last != NULL && !of->last->is_done)
        rc = spsh__cuda_fail(err, SPSH_E_TIMEOUT, "the device has not come to the event");
    if (rc == SPSH_OK && of->last != NULL)
        twin_clock_join(&host, &of->last->clock);
    leave();
    return rc;
}

static spsh_status event_synchronize(void *opaque, spsh_error *err)
{
    const event *of = opaque;
    enter();
    twin_state.waits++;
    spsh_status rc = check_asked(of, err);
    if (rc == SPSH_OK && of->last != NULL) {
        const twin_clock then = of->last->clock;
        run_to_mark(of->last);
        twin_clock_join(&host, &then);
        rc = is_usable(err);
    }
    leave();
    return rc;
}

/* By definition, each piece of work takes a millisecond. */
static spsh_status event_ms(void *first, void *last, float *ret_ms, spsh_error *err)
{
    const event *from = first, *to = last;
    enter();
    spsh_status rc = check_asked(from, err);
    if (rc == SPSH_OK)
        rc = check_asked(to, err);
    if (rc == SPSH_OK && (!from->is_timed || !to->is_timed || from->last == NULL ||
                          to->last == NULL || !from->last->is_done || !to->last->is_done))
        rc = spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "events without times, or not come to");
    if (rc == SPSH_OK)
        *ret_ms = (float)to->last->tick - (float)from->last->tick;
    leave();
    return rc;
}

/* ---- graphs ---- */

static spsh_status graph_begin(void *handle, spsh_error *err)
{
    stream *of = NULL;
    enter();
    spsh_status rc = find_stream(handle, &of, err);
    if (rc == SPSH_OK && of == &streams[0])
        rc = spsh__cuda_fail(err, SPSH_E_IO, "no graph is captured from the default stream");
    if (rc == SPSH_OK && (of->captured_by != NULL || own_capture != NULL))
        rc = check_no_capture("beginning a graph", err);
    if (rc == SPSH_OK) {
        capture *new = twin_new(sizeof(*new));
        new->origin = number_of(of);
        of->captured_by = own_capture = new;
    }
    leave();
    return rc;
}

/* No wait can refer to marks of a finished capture. */
static void forget_capture(capture *of)
{
    for (size_t i = 0; i < TWIN_STREAMS; i++) {
        for (item *one = of->lanes[i].first; one != NULL; one = one->next)
            if (one->kind == ITEM_RECORD)
                one->marked->of = NULL;
        if (streams[i].captured_by == of)
            streams[i].captured_by = NULL;
    }
    own_capture = NULL;
}

static void free_capture(capture *of)
{
    forget_capture(of);
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        free_queue(&of->lanes[i]);
    twin_accesses_free(&of->accesses);
    free(of);
}

/* Whether the first stream has waited for the captured work of all others. */
static bool is_joined(const capture *of)
{
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        if (of->clocks[of->origin].at[i] < of->clocks[i].at[i])
            return false;
    return true;
}

static spsh_status graph_end(void *handle, void **ret_graph, spsh_error *err)
{
    stream *of = NULL;
    enter();
    spsh_status rc = find_stream(handle, &of, err);
    capture *ended = rc == SPSH_OK ? of->captured_by : NULL;
    const bool is_own = ended != NULL && ended == own_capture && ended->origin == number_of(of);
    if (rc == SPSH_OK && !is_own)
        rc = spsh__cuda_fail(err, SPSH_E_IO, "no graph was begun on that stream by this thread");
    else if (rc == SPSH_OK && ended->is_broken)
        rc = spsh__cuda_fail(err, SPSH_E_IO, "the capture of a graph has failed");
    else if (rc == SPSH_OK && !is_joined(ended))
        rc = spsh__cuda_fail(err, SPSH_E_IO,
                             "a graph ends while work of another stream is not waited "
                             "for");
    if (rc == SPSH_OK && is_own) {
        graph *new = twin_new(sizeof(*new));
        new->references = 1;
        forget_capture(ended);
        memcpy(new->lanes, ended->lanes, sizeof(new->lanes));
        memset(ended->lanes, 0, sizeof(ended->lanes));
        twin_state.open_graphs++;
        *ret_graph = new;
    }
    if (is_own)
        free_capture(ended);
    leave();
    return rc;
}

static void graph_abandon(void *handle)
{
    stream *of = handle;
    enter();
    if (of >= streams && of < streams + TWIN_STREAMS && of->captured_by != NULL)
        free_capture(of->captured_by);
    leave();
}

/* Add the uses of all of a graph's work, at one time of the stream. Conflicts within the graph were
 * already checked at the capture. */
static spsh_status use_graph(stream *of, const graph *launched, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    const item *one = NULL;
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        for (one = launched->lanes[i].first; rc == SPSH_OK && one != NULL; one = one->next)
            rc = check_uses(of, &one->work, true, err);
    if (rc != SPSH_OK)
        return rc;
    const twin_clock *now = next_time(of);
    for (size_t i = 0; i < TWIN_STREAMS; i++)
        for (one = launched->lanes[i].first; one != NULL; one = one->next)
            add_uses(number_of(of), &one->work, now, NULL);
    return SPSH_OK;
}

static spsh_status graph_launch(void *opaque, void *handle, spsh_error *err)
{
    graph *launched = opaque;
    stream *of = NULL;
    enter();
    spsh_status rc = find_stream(handle, &of, err);
    if (rc == SPSH_OK && of->captured_by != NULL) {
        break_capture(of->captured_by);
        rc = spsh__cuda_fail(err, SPSH_E_IO, "launching a graph: not while a graph is captured");
    }
    if (rc == SPSH_OK && twin_state.launches_wait)
        run_everything();
    if (rc == SPSH_OK) {
        twin_clock_join(&of->clock, &launched->clock);
        rc = use_graph(of, launched, err);
    }
    if (rc == SPSH_OK) {
        launched->clock = of->clock;
        launched->references++;
        append(&of->items, ITEM_GRAPH)->launched = launched;
        (void)pthread_cond_broadcast(&changed);
    }
    leave();
    return rc;
}

static void graph_close(void *opaque)
{
    if (opaque == NULL)
        return;
    const graph *closed = opaque;
    enter();
    if (closed->references > 1 && !twin_state.is_lost)
        twin_stop("a graph was closed while it may be in flight");
    drop_graph(opaque);
    twin_state.open_graphs--;
    leave();
}

/* ---- for fake_cudart.c ---- */

static stream *stream_of(void *handle)
{
    stream *of = NULL;
    const bool is_lost = twin_state.is_lost;
    twin_state.is_lost = false;
    if (find_stream(handle, &of, NULL) != SPSH_OK)
        twin_stop("that is no stream");
    twin_state.is_lost = is_lost;
    return of;
}

uint32_t twin_stream_device(void *handle)
{
    enter();
    const uint32_t number = stream_of(handle)->device;
    leave();
    return number;
}

uint32_t twin_memory_device(const void *memory, size_t size_bytes)
{
    enter();
    const twin_block *block = twin_block_of(memory, size_bytes);
    const uint32_t number = block != NULL ? block->device : TWIN_DEVICES + 1;
    leave();
    return number;
}

bool twin_is_captured(void *handle)
{
    enter();
    const bool is_captured = stream_of(handle)->captured_by != NULL;
    leave();
    return is_captured;
}

bool twin_is_capturing(void)
{
    return own_capture != NULL;
}

/* ---- the table ---- */

static spsh_status count_devices(uint32_t *ret_count, spsh_error *err)
{
    (void)err;
    *ret_count = TWIN_DEVICES;
    return SPSH_OK;
}

static spsh_status get_device(uint32_t number, spsh_cuda_device *ret_device, spsh_error *err)
{
    (void)err;
    *ret_device = (spsh_cuda_device){
        .capability_major = twin_state.capability / 10,
        .capability_minor = twin_state.capability % 10,
        .multiprocessor_count = number + 1,
        .memory_bytes = twin_state.device_bytes,
    };
    (void)snprintf(ret_device->name, sizeof(ret_device->name), "twin %u", number);
    return SPSH_OK;
}

/* Report one library that is present, and one that is missing. */
static spsh_status get_library(uint32_t number, spsh_cuda_library *ret_library)
{
    static const spsh_cuda_library libraries[] = {
        {0, "twinBLAS", "tests", "1.2.3", ""                              },
        {0, "twinDNN",  "tests", "",      "libtwindnn.so.1: there is none"},
    };
    if (number >= sizeof(libraries) / sizeof(libraries[0]))
        return SPSH_E_END;
    *ret_library = libraries[number];
    return SPSH_OK;
}

/* ---- the thread's device ---- */

static spsh_status enter_device(uint32_t device, int *ret_before, spsh_error *err)
{
    (void)err;
    *ret_before = (int)own_device;
    own_device = device;
    return SPSH_OK;
}

static void leave_device(int before)
{
    own_device = (uint32_t)before;
}

const spsh__cuda_plugin twin_table = {
    .abi = SPSH__CUDA_ABI,
    .version = SPSH_VERSION_STRING,
    .count_fn = count_devices,
    .device_fn = get_device,
    .alloc_fn = alloc_memory,
    .free_fn = free_memory,
    .copy_fn = copy,
    .synchronize_fn = synchronize,
    .fill_fn = fill,
    .memory_fn = get_memory,
    .host_alloc_fn = host_alloc,
    .host_free_fn = host_free,
    .host_register_fn = host_register,
    .host_unregister_fn = host_unregister,
    .stream_open_fn = stream_open,
    .stream_close_fn = stream_close,
    .event_open_fn = event_open,
    .event_close_fn = event_close,
    .event_record_fn = event_record,
    .event_wait_fn = event_wait,
    .event_query_fn = event_query,
    .event_synchronize_fn = event_synchronize,
    .event_ms_fn = event_ms,
    .graph_begin_fn = graph_begin,
    .graph_end_fn = graph_end,
    .graph_abandon_fn = graph_abandon,
    .graph_launch_fn = graph_launch,
    .graph_close_fn = graph_close,
    .library_fn = get_library,
    .enter_fn = enter_device,
    .leave_fn = leave_device,
};
