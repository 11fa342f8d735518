/* quota.c: worst-case fair weighted fair queueing (WF2Q; Bennett, Zhang 1996), in whole numbers.
 *
 * After T units, the share of a domain with weight w is w * T / W, where W is the sum of all
 * weights. A domain is eligible if its served units do not exceed its share. Of the eligible
 * domains, the one with the smallest (served + length) / w is served: its next utterance is due
 * first. So no domain deviates from its share by more than one utterance. Some domain is always
 * eligible, because served minus share sums to zero. If the weights are the units that domains
 * hold, a domain that has served everything stays ineligible until all domains have.
 *
 * Both sets are tournament trees over all domains, in which domains outside the set come last. An
 * update takes the same path to the root for any keys, so no branch has to be predicted.
 *
 * Fractions are compared as doubles, and by exact 128-bit cross multiplication if the doubles are
 * too close. So the order is exact and the same on every machine, and the served units describe the
 * state completely.
 */
#include "quota.h"

/* A key is a rounded number times a rounded inverse: it is off by at most three units in the last
 * place. */
#define CLOSE_CALL UINT64_C(16)

/* Key of a domain outside the set: larger than all doubles, and not close to another such key. */
static uint64_t absent_key(uint32_t domain)
{
    return (UINT64_C(1) << 63) + 4 * CLOSE_CALL * domain;
}

static bool is_absent(uint64_t key)
{
    return key >> 63 != 0;
}

/* Compare exactly. finish: compare served + length, as in the tree `eligible`. */
static __attribute__((noinline)) bool is_less_exactly(const spsh__share *shares, uint32_t x,
                                                      uint32_t y, bool finish)
{
    const spsh__share *a = &shares[x];
    const spsh__share *b = &shares[y];
    spsh__u128 left = (spsh__u128)(a->served + (finish ? a->length : 0)) * b->weight;
    spsh__u128 right = (spsh__u128)(b->served + (finish ? b->length : 0)) * a->weight;
    return left != right ? left < right : x < y;
}

static inline bool is_less(const spsh__share *shares, spsh__quota_match a, spsh__quota_match b,
                           bool finish)
{
    if (__builtin_expect(a.key - b.key + CLOSE_CALL <= 2 * CLOSE_CALL, 0))
        return is_less_exactly(shares, a.domain, b.domain, finish);
    return a.key < b.key;
}

/* Set the leaf of a domain, and update its path to the root. */
static inline void set_key(const spsh__quota *quota, spsh__quota_match *tree, uint32_t domain,
                           uint64_t key, bool finish)
{
    spsh__quota_match winner = {key, domain};
    uint32_t at = quota->leaf_count + domain;
    tree[at] = winner;
    while (at > 1) {
        spsh__quota_match other = tree[at ^ 1];
        /* A mask instead of a branch, because the winner cannot be predicted. */
        uint64_t loses = -(uint64_t)is_less(quota->shares, other, winner, finish);
        winner.key ^= (winner.key ^ other.key) & loses;
        winner.domain ^= (winner.domain ^ other.domain) & (uint32_t)loses;
        at /= 2;
        tree[at] = winner;
    }
}

static inline uint64_t key_of(const spsh__share *share, uint64_t units)
{
    double quotient = (double)units * share->inverse;
    uint64_t key = 0;
    memcpy(&key, &quotient, sizeof(key));
    return key;
}

static inline void set_eligible(spsh__quota *quota, uint32_t domain)
{
    const spsh__share *s = &quota->shares[domain];
    set_key(quota, quota->eligible, domain, key_of(s, s->served + s->length), true);
}

static inline void set_waiting(spsh__quota *quota, uint32_t domain)
{
    const spsh__share *s = &quota->shares[domain];
    set_key(quota, quota->waiting, domain, key_of(s, s->served), false);
}

spsh_status spsh__quota_open(spsh__quota *quota, uint32_t count, const spsh_allocator *allocator,
                             spsh_error *err)
{
    uint32_t leaves = 1;
    while (leaves < count)
        leaves *= 2;
    *quota = (spsh__quota){.leaf_count = leaves};
    quota->shares = (spsh__share *)spsh__new(allocator, count, sizeof(spsh__share));
    quota->eligible =
        (spsh__quota_match *)spsh__new(allocator, (size_t)2 * leaves, sizeof(spsh__quota_match));
    quota->waiting =
        (spsh__quota_match *)spsh__new(allocator, (size_t)2 * leaves, sizeof(spsh__quota_match));
    if (quota->shares == NULL || quota->eligible == NULL || quota->waiting == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "shares of %u domains", count);
    return SPSH_OK;
}

void spsh__quota_close(spsh__quota *quota, const spsh_allocator *allocator)
{
    spsh__free(allocator, quota->shares);
    spsh__free(allocator, quota->eligible);
    spsh__free(allocator, quota->waiting);
    *quota = (spsh__quota){.leaf_count = 0};
}

void spsh__quota_clear(spsh__quota *quota, uint64_t weight_sum)
{
    uint32_t leaves = quota->leaf_count;
    quota->weight_sum = weight_sum;
    quota->served = 0;
    for (uint32_t at = 2 * leaves; at-- > 1;) {
        quota->eligible[at] = at >= leaves
                                  ? (spsh__quota_match){absent_key(at - leaves), at - leaves}
                                  : quota->eligible[(size_t)2 * at];
        quota->waiting[at] = quota->eligible[at];
    }
}

void spsh__quota_add(spsh__quota *quota, uint32_t domain, uint64_t weight, uint64_t served,
                     uint64_t length)
{
    quota->shares[domain] = (spsh__share){weight, served, length, 1 / (double)weight};
    quota->served += served;
    if (weight != 0 && length != 0)
        set_waiting(quota, domain);
}

static inline bool is_eligible(const spsh__quota *quota, uint32_t domain)
{
    const spsh__share *share = &quota->shares[domain];
    return (spsh__u128)share->served * quota->weight_sum <=
           (spsh__u128)share->weight * quota->served;
}

uint32_t spsh__quota_pick(spsh__quota *quota)
{
    spsh__quota_match *waiting = &quota->waiting[1];
    while (!is_absent(waiting->key) && is_eligible(quota, waiting->domain)) {
        uint32_t domain = waiting->domain;
        set_key(quota, quota->waiting, domain, absent_key(domain), false);
        set_eligible(quota, domain);
    }
    return is_absent(quota->eligible[1].key) ? SPSH_NONE_U32 : quota->eligible[1].domain;
}

void spsh__quota_serve(spsh__quota *quota, uint32_t domain, uint64_t next_length)
{
    spsh__share *share = &quota->shares[domain];
    share->served += share->length;
    quota->served += share->length;
    share->length = next_length;
    if (next_length != 0 && is_eligible(quota, domain)) {
        set_eligible(quota, domain);
        return;
    }
    set_key(quota, quota->eligible, domain, absent_key(domain), true);
    if (next_length != 0)
        set_waiting(quota, domain);
}
