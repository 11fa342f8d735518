/* checksum.c: XXH3 over the system's xxHash, and nothing else of it.
 *
 * On x86-64 the library's own dispatch picks AVX2 or AVX-512 at run time, which doubles the speed
 * of `verify`; elsewhere the header is used inline.
 */
#include "checksum.h"

#include "base_internal.h"

#if defined(__x86_64__)
#define XXH_STATIC_LINKING_ONLY /* the streaming state is a member here */
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

enum { STATE_ALIGNMENT = 64 };

struct spsh__hasher {
    XXH3_state_t state; /* first, because of its alignment */
    spsh_allocator allocator;
    void *memory;
};

static uint64_t seed_of(const uint8_t file_id[16], uint64_t offset_bytes)
{
    return spsh__load_u64le(file_id) ^ (offset_bytes * UINT64_C(0x9E3779B97F4A7C15));
}

uint64_t spsh__checksum(const uint8_t file_id[16], uint64_t offset_bytes, const void *data,
                        size_t size_bytes)
{
    return XXH3_64bits_withSeed(data, size_bytes, seed_of(file_id, offset_bytes));
}

uint64_t spsh__checksum_padded(const uint8_t file_id[16], uint64_t offset_bytes, const void *data,
                               size_t size_bytes, size_t zero_bytes)
{
    static const uint8_t zeros[64] = {0};
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_64bits_reset_withSeed(&state, seed_of(file_id, offset_bytes));
    (void)XXH3_64bits_update(&state, data, size_bytes);
    while (zero_bytes > 0) {
        size_t size = zero_bytes < sizeof(zeros) ? zero_bytes : sizeof(zeros);
        (void)XXH3_64bits_update(&state, zeros, size);
        zero_bytes -= size;
    }
    return XXH3_64bits_digest(&state);
}

uint64_t spsh__hash64(const void *data, size_t size_bytes)
{
    return XXH3_64bits(data, size_bytes);
}

void spsh__hash128(const void *data, size_t size_bytes, uint8_t ret_hash[16])
{
    XXH128_canonical_t canonical = {{0}};
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size_bytes));
    memcpy(ret_hash, canonical.digest, 16);
}

spsh__hasher *spsh__hasher_new(const spsh_allocator *allocator)
{
    void *memory = spsh__alloc(allocator, sizeof(spsh__hasher) + STATE_ALIGNMENT);
    if (memory == NULL)
        return NULL;
    uintptr_t misfit = (uintptr_t)memory % STATE_ALIGNMENT;
    spsh__hasher *hasher = (spsh__hasher *)(void *)((uint8_t *)memory + (STATE_ALIGNMENT - misfit));
    XXH3_INITSTATE(&hasher->state);
    hasher->allocator = *allocator;
    hasher->memory = memory;
    spsh__hasher_reset128(hasher);
    return hasher;
}

void spsh__hasher_free(spsh__hasher *hasher)
{
    if (hasher == NULL)
        return;
    const spsh_allocator allocator = hasher->allocator;
    spsh__free(&allocator, hasher->memory);
}

void spsh__hasher_reset128(spsh__hasher *hasher)
{
    (void)XXH3_128bits_reset(&hasher->state);
}

void spsh__hasher_reset_checksum(spsh__hasher *hasher, const uint8_t file_id[16],
                                 uint64_t offset_bytes)
{
    (void)XXH3_64bits_reset_withSeed(&hasher->state, seed_of(file_id, offset_bytes));
}

void spsh__hasher_update(spsh__hasher *hasher, const void *data, size_t size_bytes)
{
    if (size_bytes != 0) /* both widths share one accumulation */
        (void)XXH3_64bits_update(&hasher->state, data, size_bytes);
}

void spsh__hasher_digest128(const spsh__hasher *hasher, uint8_t ret_hash[16])
{
    XXH128_canonical_t canonical = {{0}};
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&hasher->state));
    memcpy(ret_hash, canonical.digest, 16);
}

uint64_t spsh__hasher_digest_checksum(const spsh__hasher *hasher)
{
    return XXH3_64bits_digest(&hasher->state);
}
