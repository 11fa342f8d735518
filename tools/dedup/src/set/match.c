/* match.c: matches as words and as bytes.
 *
 * Bytes: 5 u64 (a, b, a_first, b_first, count), 8 u32 (tier, kind, rate_hz, a_channel, b_channel,
 * votes, is_inverted, 0), 15 doubles in the order of the struct; little-endian.
 */
#include "match.h"

#include <math.h>
#include <string.h>

#include "common/compare.h"
#include "common/grow.h"
#include "speechshard/inside.h"

enum { U64_COUNT = 5, U32_COUNT = 8, REAL_COUNT = 15 };
_Static_assert(U64_COUNT * 8 + U32_COUNT * 4 + REAL_COUNT * 8 == SPSH__MATCH_BYTES, "match size");

const char *spsh_copy_tier_text(spsh_copy_tier tier)
{
    static const char *const texts[] = {
#define SPSH_X(name_, text_) text_,
        SPSH_COPY_TIER_MAP(SPSH_X)
#undef SPSH_X
    };
    return tier < SPSH_TIER_COUNT ? texts[tier] : "unknown";
}

bool spsh__tier_may_drop(spsh_copy_tier tier)
{
    return tier <= SPSH_TIER_ACOUSTIC;
}

spsh__match spsh__match_turned(const spsh__match *match)
{
    spsh__match turned = *match;
    turned.a = match->b;
    turned.b = match->a;
    turned.a_first = match->b_first;
    turned.b_first = match->a_first;
    turned.lag = 0 - match->lag;
    turned.coverage_a = match->coverage_b;
    turned.coverage_b = match->coverage_a;
    turned.a_channel = match->b_channel;
    turned.b_channel = match->a_channel;
    turned.slope_ppm = 0 - match->slope_ppm;
    if (match->scale > 0) {
        turned.count = (uint64_t)llround((double)match->count / match->scale);
        turned.scale = 1 / match->scale;
    }
    return turned;
}

/* Members of a match that are stored unchanged, in the order of the bytes. */
typedef struct fields {
    uint64_t *u64s[U64_COUNT];
    double *reals[REAL_COUNT];
} fields;

static fields fields_of(spsh__match *m)
{
    return (fields){
        {&m->a,            &m->b,         &m->a_first,   &m->b_first, &m->count},
        { &m->lag, &m->coverage_a, &m->coverage_b, &m->active_s, &m->ber, &m->words_hz, &m->tonality,
         &m->ncc, &m->ncc_white, &m->envelope, &m->block_share, &m->slope_ppm, &m->spread_ms,
         &m->scale, &m->similarity},
    };
}

void spsh__match_encode(const spsh__match *match, uint8_t bytes[SPSH__MATCH_BYTES])
{
    spsh__match copy = *match;
    const fields stored = fields_of(&copy);
    const uint32_t u32s[U32_COUNT] = {
        match->tier,      match->kind,  match->rate_hz,     match->a_channel,
        match->b_channel, match->votes, match->is_inverted, 0,
    };
    for (unsigned i = 0; i < U64_COUNT; i++, bytes += 8)
        spsh__store_le(bytes, *stored.u64s[i], 8);
    for (unsigned i = 0; i < U32_COUNT; i++, bytes += 4)
        spsh__store_le(bytes, u32s[i], 4);
    for (unsigned i = 0; i < REAL_COUNT; i++, bytes += 8) {
        uint64_t bits = 0;
        memcpy(&bits, stored.reals[i], sizeof(bits));
        spsh__store_le(bytes, bits, 8);
    }
}

spsh_status spsh__match_decode(const uint8_t bytes[SPSH__MATCH_BYTES], spsh__match *ret_match,
                               spsh_error *err)
{
    spsh__match match = {0};
    const fields stored = fields_of(&match);
    uint32_t u32s[U32_COUNT];

    for (unsigned i = 0; i < U64_COUNT; i++, bytes += 8)
        *stored.u64s[i] = spsh__load_le(bytes, 8);
    for (unsigned i = 0; i < U32_COUNT; i++, bytes += 4)
        u32s[i] = (uint32_t)spsh__load_le(bytes, 4);
    for (unsigned i = 0; i < REAL_COUNT; i++, bytes += 8) {
        const uint64_t bits = spsh__load_le(bytes, 8);
        memcpy(stored.reals[i], &bits, sizeof(bits));
        if (!isfinite(*stored.reals[i]))
            return SPSH_FAIL(err, SPSH_E_CORRUPT, "a match has a number that is not finite");
    }
    if (match.a >= match.b || u32s[0] >= SPSH_TIER_COUNT || u32s[1] >= SPSH_COPY_CLASS_COUNT ||
        u32s[6] > 1 || u32s[7] != 0)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "a match is invalid");
    match.tier = (spsh_copy_tier)u32s[0];
    match.kind = (spsh_copy_class)u32s[1];
    match.rate_hz = u32s[2];
    match.a_channel = u32s[3];
    match.b_channel = u32s[4];
    match.votes = u32s[5];
    match.is_inverted = u32s[6] != 0;
    *ret_match = match;
    return SPSH_OK;
}

int spsh__match_compare(const void *left, const void *right)
{
    const spsh__match *l = left;
    const spsh__match *r = right;
    uint8_t left_bytes[SPSH__MATCH_BYTES];
    uint8_t right_bytes[SPSH__MATCH_BYTES];
    int order = spsh__order_u64(l->a, r->a);
    if (order == 0)
        order = spsh__order_u64(l->b, r->b);
    if (order == 0)
        order = spsh__order_u64(l->tier, r->tier);
    if (order == 0)
        order = spsh__order_u64(l->a_first, r->a_first);
    if (order != 0)
        return order;
    spsh__match_encode(l, left_bytes);
    spsh__match_encode(r, right_bytes);
    return memcmp(left_bytes, right_bytes, sizeof(left_bytes));
}

const spsh__match *spsh__match_strongest(const spsh__match *matches, uint64_t count)
{
    const spsh__match *best = &matches[0];
    for (uint64_t i = 1; i < count; i++) {
        if (matches[i].kind != SPSH_COPY_NONE &&
            (best->kind == SPSH_COPY_NONE || matches[i].kind < best->kind))
            best = &matches[i];
    }
    return best;
}

spsh_status spsh__match_list_add(void *list, const spsh__match *match, spsh_error *err)
{
    spsh__match_list *to = list;
    if (!SPSH_GROW(to->items, to->capacity, to->count + 1))
        return SPSH_NO_MEMORY(err);
    to->items[to->count++] = *match;
    return SPSH_OK;
}
