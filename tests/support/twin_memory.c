/* twin_memory.c: device memory of the host emulation.
 *
 *     ARENA_BYTES of reserved addresses
 *     ... | guard ... block | no access | guard ... block | no access | ...
 *
 * "Device" memory has separate addresses, so that an address of freed memory is recognized. A block
 * ends where its last page ends (except for its alignment), and the next page is inaccessible; the
 * bytes before the block in its first page are checked when it is freed. Freed pages are
 * inaccessible, too, and their addresses are not reused before all others were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "twin_internal.h"

#define ARENA_BYTES ((uintptr_t)16 << 30)
#define PAGE_BYTES  ((uintptr_t)4096)
#define ALIGN_BYTES ((uintptr_t)256)
enum { GUARD = 0xa5 };

/* An entry of the list. */
typedef struct listed_block {
    twin_block *block;
} listed_block;

static char *arena_memory; /* NULL: not reserved yet */
static uintptr_t arena, next_pages;
static listed_block *blocks; /* device and pinned memory, in ascending order of addresses */
static size_t block_count, block_capacity;
static uint64_t used_bytes[TWIN_DEVICES];

/* ---- the list of blocks ---- */

/* The first block that ends after an address. */
static size_t place_of(uintptr_t address)
{
    size_t low = 0, high = block_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (blocks[middle].block->end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_block(const twin_block *block)
{
    const size_t place = place_of(block->begin);
    twin_block *copy = twin_new(sizeof(*copy));
    *copy = *block;
    if (block_count == block_capacity) {
        block_capacity = block_capacity == 0 ? 64 : 2 * block_capacity;
        blocks = realloc(blocks, block_capacity * sizeof(*blocks));
        if (blocks == NULL)
            twin_stop("no memory");
    }
    memmove(blocks + place + 1, blocks + place, (block_count - place) * sizeof(*blocks));
    blocks[place].block = copy;
    block_count++;
}

static void drop_block(twin_block *block)
{
    const size_t place = place_of(block->begin);
    memmove(blocks + place, blocks + place + 1, (block_count - place - 1) * sizeof(*blocks));
    block_count--;
    twin_accesses_free(&block->accesses);
    free(block);
}

bool twin_is_device_memory(const void *memory)
{
    return arena_memory != NULL && (uintptr_t)memory >= arena &&
           (uintptr_t)memory < arena + ARENA_BYTES;
}

twin_block *twin_block_of(const void *memory, size_t size_bytes)
{
    const uintptr_t begin = (uintptr_t)memory;
    const size_t place = place_of(begin);
    if (place == block_count || begin < blocks[place].block->begin ||
        size_bytes > blocks[place].block->end - begin)
        return NULL;
    return blocks[place].block;
}

/* ---- device memory ---- */

static void *to_pointer(uintptr_t address)
{
    return arena_memory + (address - arena);
}

static void make_arena(void)
{
    void *memory =
        mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        twin_stop("no addresses for the device's memory");
    arena_memory = memory;
    arena = next_pages = (uintptr_t)memory;
}

/* Find unused addresses; the page before and the page after are unused, too. */
static uintptr_t find_pages(uintptr_t bytes)
{
    for (int tries = 0; tries < 2; tries++) {
        uintptr_t begin = next_pages + PAGE_BYTES;
        for (size_t i = place_of(begin); i < block_count; i++) {
            const bool is_ours = blocks[i].block->device < TWIN_DEVICES;
            if (!is_ours || blocks[i].block->end_pages + PAGE_BYTES <= begin)
                continue;
            if (blocks[i].block->pages >= begin + bytes + PAGE_BYTES)
                break;
            begin = blocks[i].block->end_pages + PAGE_BYTES;
        }
        if (begin + bytes + PAGE_BYTES <= arena + ARENA_BYTES) {
            next_pages = begin + bytes;
            return begin;
        }
        next_pages = arena; /* once around */
    }
    return 0;
}

spsh_status twin_memory_new(uint32_t device, size_t size_bytes, void **ret_memory, spsh_error *err)
{
    const uint64_t used = used_bytes[device];
    if (arena_memory == NULL)
        make_arena();
    if (size_bytes > twin_state.device_bytes || used > twin_state.device_bytes - size_bytes)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY,
                               "memory of device %u: %zu bytes, of %zu %zu are used", device,
                               size_bytes, (size_t)twin_state.device_bytes, (size_t)used);
    const uintptr_t aligned = (size_bytes + ALIGN_BYTES - 1) & ~(ALIGN_BYTES - 1);
    const uintptr_t bytes = (aligned + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    const uintptr_t pages = find_pages(bytes);
    if (pages == 0 || mprotect(to_pointer(pages), bytes, PROT_READ | PROT_WRITE) != 0)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "memory of device %u: %zu bytes", device,
                               size_bytes);
    const uintptr_t begin = pages + bytes - aligned;
    memset(to_pointer(pages), GUARD, bytes);
    memset(to_pointer(begin), TWIN_POISON, size_bytes);
    const twin_block block = {
        .begin = begin,
        .end = begin + size_bytes,
        .device = device,
        .pages = pages,
        .end_pages = pages + bytes,
    };
    add_block(&block);
    used_bytes[device] = used + size_bytes;
    if (used_bytes[device] > twin_state.most_bytes)
        twin_state.most_bytes = used_bytes[device];
    twin_state.open_memory++;
    *ret_memory = to_pointer(begin);
    return SPSH_OK;
}

static void check_guard(const twin_block *block, uintptr_t begin, uintptr_t end)
{
    const unsigned char *bytes = to_pointer(begin);
    for (size_t i = 0; i < end - begin; i++)
        if (bytes[i] != GUARD)
            twin_stop("memory of %zu bytes: a byte at %td was written",
                      (size_t)(block->end - block->begin),
                      (ptrdiff_t)(begin + i) - (ptrdiff_t)block->begin);
}

void twin_memory_free(void *memory)
{
    twin_block *block = twin_block_of(memory, 1);
    if (block == NULL || block->device >= TWIN_DEVICES || block->begin != (uintptr_t)memory)
        twin_stop("what was freed is no memory of a device");
    check_guard(block, block->pages, block->begin);
    check_guard(block, block->end, block->end_pages);
    const size_t bytes = block->end_pages - block->pages;
    if (madvise(to_pointer(block->pages), bytes, MADV_DONTNEED) != 0 ||
        mprotect(to_pointer(block->pages), bytes, PROT_NONE) != 0)
        twin_stop("memory cannot be given back");
    used_bytes[block->device] -= block->end - block->begin;
    drop_block(block);
    twin_state.open_memory--;
}

uint64_t twin_memory_used(uint32_t device)
{
    return used_bytes[device];
}

/* ---- pinned memory ---- */

spsh_status twin_pinned_new(size_t size_bytes, void **ret_memory, spsh_error *err)
{
    void *memory = NULL;
    if (posix_memalign(&memory, PAGE_BYTES, size_bytes) != 0)
        return spsh__cuda_fail(err, SPSH_E_NO_MEMORY, "pinned memory: %zu bytes", size_bytes);
    memset(memory, TWIN_POISON, size_bytes);
    const twin_block block = {
        .begin = (uintptr_t)memory,
        .end = (uintptr_t)memory + size_bytes,
        .device = TWIN_DEVICES,
        .allocation = memory,
    };
    add_block(&block);
    twin_state.open_pinned++;
    *ret_memory = memory;
    return SPSH_OK;
}

spsh_status twin_pinned_register(void *memory, size_t size_bytes, spsh_error *err)
{
    const uintptr_t begin = (uintptr_t)memory;
    const size_t place = place_of(begin);
    if (begin % PAGE_BYTES != 0 || size_bytes == 0 || size_bytes % PAGE_BYTES != 0)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "memory to pin must be whole pages");
    if (place < block_count && blocks[place].block->begin < begin + size_bytes)
        return spsh__cuda_fail(err, SPSH_E_INVALID_ARG, "memory to pin is pinned");
    const twin_block block = {
        .begin = begin,
        .end = begin + size_bytes,
        .device = TWIN_DEVICES,
        .is_registered = true,
    };
    add_block(&block);
    twin_state.open_pinned++;
    return SPSH_OK;
}

void twin_pinned_free(void *memory, bool is_registered)
{
    twin_block *block = twin_block_of(memory, 1);
    if (block == NULL || block->device != TWIN_DEVICES || block->begin != (uintptr_t)memory ||
        block->is_registered != is_registered)
        twin_stop("what was freed is no pinned memory");
    if (block->allocation != NULL)
        memset(memory, TWIN_POISON, block->end - block->begin);
    free(block->allocation);
    drop_block(block);
    twin_state.open_pinned--;
}
