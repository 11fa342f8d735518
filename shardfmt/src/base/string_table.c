/* string_table.c: `bytes` holds the strings one after another, `ends` their ends. Both already have
 * the layout of the string table sections. An open-addressing hash table of numbers finds strings.
 * It is at most half full. */
#include "string_table.h"

#include "buffer.h"
#include "checksum.h"

enum { SLOTS_MIN = 64 };

struct spsh__names {
    spsh_allocator allocator;
    spsh__buffer ends; /* u64, little-endian */
    spsh__buffer bytes;
    uint32_t *slots;   /* number + 1; 0: free */
    size_t slot_count; /* 0 or a power of two */
    uint32_t count;
};

spsh__names *spsh__names_new(const spsh_allocator *allocator)
{
    spsh__names *names = (spsh__names *)spsh__new(allocator, 1, sizeof(*names));
    if (names != NULL)
        names->allocator = *allocator;
    return names;
}

void spsh__names_free(spsh__names *names)
{
    if (names == NULL)
        return;
    const spsh_allocator allocator = names->allocator;
    spsh__buffer_free(&names->ends, &allocator);
    spsh__buffer_free(&names->bytes, &allocator);
    spsh__free(&allocator, names->slots);
    spsh__free(&allocator, names);
}

uint32_t spsh__names_count(const spsh__names *names)
{
    return names->count;
}

spsh_bytes spsh__names_get(const spsh__names *names, uint32_t number)
{
    const uint8_t *ends = names->ends.data + (size_t)number * 8;
    size_t begin = number == 0 ? 0 : (size_t)spsh__load_u64le(ends - 8);
    size_t end = (size_t)spsh__load_u64le(ends);
    if (begin == end)
        return (spsh_bytes){NULL, 0};
    return (spsh_bytes){names->bytes.data + begin, end - begin};
}

const uint8_t *spsh__names_ends(const spsh__names *names)
{
    return names->ends.data;
}

spsh_bytes spsh__names_bytes(const spsh__names *names)
{
    return (spsh_bytes){names->bytes.data, names->bytes.size_bytes};
}

static bool equal(spsh_bytes a, spsh_bytes b)
{
    return a.size_bytes == b.size_bytes &&
           (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

/* The slot that holds string, or the free one where it belongs. There is a free one. */
static size_t find_slot(const spsh__names *names, spsh_bytes string)
{
    size_t slot = (size_t)spsh__hash64(string.data, string.size_bytes) & (names->slot_count - 1);
    while (names->slots[slot] != 0 &&
           !equal(string, spsh__names_get(names, names->slots[slot] - 1)))
        slot = (slot + 1) & (names->slot_count - 1);
    return slot;
}

bool spsh__names_find(const spsh__names *names, spsh_bytes string, uint32_t *ret_number)
{
    if (names->count == 0)
        return false;
    uint32_t number = names->slots[find_slot(names, string)];
    if (number == 0)
        return false;
    *ret_number = number - 1;
    return true;
}

static spsh_status grow(spsh__names *names, spsh_error *err)
{
    size_t old_count = names->slot_count;
    uint32_t *old = names->slots;
    size_t slot_count = old_count == 0 ? SLOTS_MIN : 2 * old_count;
    uint32_t *slots = NULL;
    if (slot_count <= SIZE_MAX / sizeof(*slots))
        slots = (uint32_t *)spsh__new(&names->allocator, 1, slot_count * sizeof(*slots));
    if (slots == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "hash table of %zu names", slot_count);
    names->slots = slots;
    names->slot_count = slot_count;
    for (size_t i = 0; i < old_count; i++)
        if (old[i] != 0)
            slots[find_slot(names, spsh__names_get(names, old[i] - 1))] = old[i];
    spsh__free(&names->allocator, old);
    return SPSH_OK;
}

spsh_status spsh__names_add(spsh__names *names, spsh_bytes string, uint32_t *ret_number,
                            spsh_error *err)
{
    uint8_t end[8];
    if (spsh__names_find(names, string, ret_number))
        return SPSH_OK;
    if (names->count >= UINT32_MAX - 1)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%u names", names->count);
    spsh_status rc = SPSH_OK;
    if (names->slot_count < 2 * ((size_t)names->count + 1))
        rc = grow(names, err);
    if (rc == SPSH_OK)
        rc = spsh__buffer_reserve(&names->ends, &names->allocator, sizeof(end), err);
    if (rc == SPSH_OK)
        rc = spsh__buffer_append(&names->bytes, &names->allocator, string.data, string.size_bytes,
                                 err);
    if (rc != SPSH_OK)
        return rc;
    spsh__store_u64le(end, names->bytes.size_bytes);
    memcpy(names->ends.data + names->ends.size_bytes, end, sizeof(end));
    names->ends.size_bytes += sizeof(end);
    names->slots[find_slot(names, string)] = names->count + 1;
    *ret_number = names->count++;
    return SPSH_OK;
}
