/* hash.c: XXH3 for ids, plans, and journals. The packer uses only the public headers of shardfmt,
 * which do not export xxHash, so it calls xxHash by itself.
 */
#include "hash.h"

#include <string.h>
#include <xxhash.h>

uint64_t spsh__pack_hash64(spsh_bytes data)
{
    return XXH3_64bits(data.data, data.size_bytes);
}

static void canonical(XXH128_hash_t hash, uint8_t ret_hash[16])
{
    XXH128_canonical_t form;
    XXH128_canonicalFromHash(&form, hash);
    memcpy(ret_hash, form.digest, 16);
}

void spsh__pack_hash128(spsh_bytes data, uint8_t ret_hash[16])
{
    canonical(XXH3_128bits(data.data, data.size_bytes), ret_hash);
}

/* A hasher is a state of xxHash under an opaque type. */
static XXH3_state_t *state_of(spsh__pack_hasher *hasher)
{
    return (XXH3_state_t *)(void *)hasher;
}

spsh__pack_hasher *spsh__pack_hasher_new(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (state != NULL)
        (void)XXH3_128bits_reset(state);
    return (spsh__pack_hasher *)(void *)state;
}

void spsh__pack_hasher_reset(spsh__pack_hasher *hasher)
{
    (void)XXH3_128bits_reset(state_of(hasher));
}

void spsh__pack_hasher_add(spsh__pack_hasher *hasher, spsh_bytes data)
{
    if (data.size_bytes > 0)
        (void)XXH3_128bits_update(state_of(hasher), data.data, data.size_bytes);
}

void spsh__pack_hasher_digest(spsh__pack_hasher *hasher, uint8_t ret_hash[16])
{
    canonical(XXH3_128bits_digest(state_of(hasher)), ret_hash);
}

void spsh__pack_hasher_free(spsh__pack_hasher *hasher)
{
    (void)XXH3_freeState(state_of(hasher));
}

void spsh__hex128(const uint8_t hash[16], char ret_text[33])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 16; i++) {
        ret_text[2 * i] = digits[hash[i] >> 4];
        ret_text[2 * i + 1] = digits[hash[i] & 15];
    }
    ret_text[32] = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool spsh__hex128_parse(const char *text, uint8_t ret_hash[16])
{
    uint8_t hash[16];
    for (size_t i = 0; i < 16; i++) {
        int high = digit_value(text[2 * i]);
        int low = high < 0 ? -1 : digit_value(text[2 * i + 1]);
        if (low < 0)
            return false;
        hash[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(ret_hash, hash, 16);
    return text[32] == '\0';
}
