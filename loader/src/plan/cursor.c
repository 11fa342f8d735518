/* cursor.c: encode a position as 80 bytes, and check that a cursor belongs to this plan. The layout
 * is in sampler.h. */
#include <inttypes.h>
#include <xxhash.h>

#include "plan_internal.h"

static const char magic[8] = {'S', 'P', 'S', 'H', 'C', 'U', 'R', '1'};

enum { HASHED_BYTES = 72 };

void spsh_cursor_encode(const spsh_plan *plan, const spsh_position *position, uint32_t extra_bytes,
                        uint8_t ret_cursor[SPSH_CURSOR_BYTES])
{
    uint8_t *c = ret_cursor;
    memcpy(c, magic, sizeof(magic));
    spsh__store_u64le(c + 8, plan->options.seed);
    spsh__store_u64le(c + 16, plan->dataset_key);
    spsh__store_u64le(c + 24, plan->options_key);
    spsh__store_u64le(c + 32, plan->skips_key);
    spsh__store_u64le(c + 40, position->epoch);
    spsh__store_u64le(c + 48, position->batches);
    spsh__store_u32le(c + 56, position->window);
    spsh__store_u32le(c + 60, position->window_batch);
    spsh__store_u32le(c + 64, extra_bytes);
    spsh__store_u32le(c + 68, 0);
    spsh__store_u64le(c + 72, XXH3_64bits(c, HASHED_BYTES));
}

static spsh_status check_bytes(const uint8_t *c, size_t size_bytes, spsh_error *err)
{
    if (size_bytes < SPSH_CURSOR_BYTES)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, size_bytes,
                            "cursor: it has %zu bytes, expected at least %u", size_bytes,
                            SPSH_CURSOR_BYTES);
    bool is_whole = spsh__load_u64le(c + 72) == XXH3_64bits(c, HASHED_BYTES);
    if (memcmp(c, magic, 7) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 0, "cursor: it does not begin with SPSHCUR");
    if (c[7] != '1' && is_whole)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 7,
                            "cursor: version %c, but this library reads version 1",
                            c[7] > ' ' && c[7] < 0x7f ? c[7] : '?');
    if (!is_whole)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, 72,
                            "cursor: the checksum is %016" PRIx64 ", expected %016" PRIx64,
                            spsh__load_u64le(c + 72), (uint64_t)XXH3_64bits(c, HASHED_BYTES));
    if (spsh__load_u32le(c + 68) != 0)
        return SPSH_FAIL_AT(err, SPSH_E_VERSION, 68, "cursor: bytes 68 to 71 are not 0");
    const size_t expected = (size_t)SPSH_CURSOR_BYTES + spsh__load_u32le(c + 64);
    if (size_bytes != expected)
        return SPSH_FAIL_AT(err, size_bytes < expected ? SPSH_E_TRUNCATED : SPSH_E_CORRUPT, 64,
                            "cursor: it has %zu bytes, expected %zu", size_bytes, expected);
    return SPSH_OK;
}

static spsh_status check_keys(const spsh_plan *plan, const uint8_t *c, spsh_error *err)
{
    const struct {
        uint64_t offset_bytes, want;
        const char *what;
    } keys[] = {
        {16, plan->dataset_key,  "is of another dataset, or the dataset has changed"},
        {8,  plan->options.seed, "has another seed"                                 },
        {32, plan->skips_key,    "is from before skip overlays changed"             },
        {24, plan->options_key,  "is of a plan with different options"              },
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        uint64_t found = spsh__load_u64le(c + keys[i].offset_bytes);
        if (found != keys[i].want)
            return SPSH_FAIL_AT(err, SPSH_E_MISMATCH, keys[i].offset_bytes,
                                "cursor %s: %016" PRIx64 ", expected %016" PRIx64, keys[i].what,
                                found, keys[i].want);
    }
    return SPSH_OK;
}

spsh_status spsh_cursor_decode(const spsh_plan *plan, const void *cursor, size_t size_bytes,
                               spsh_position *ret_position, uint32_t *ret_extra_bytes,
                               spsh_error *err)
{
    const uint8_t *c = (const uint8_t *)cursor;
    spsh_status rc = check_bytes(c, size_bytes, err);
    if (rc == SPSH_OK)
        rc = check_keys(plan, c, err);
    if (rc != SPSH_OK)
        return rc;
    *ret_position = (spsh_position){spsh__load_u64le(c + 40), spsh__load_u64le(c + 48),
                                    spsh__load_u32le(c + 56), spsh__load_u32le(c + 60)};
    *ret_extra_bytes = spsh__load_u32le(c + 64);
    return SPSH_OK;
}
