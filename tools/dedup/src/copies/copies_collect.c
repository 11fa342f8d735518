/* copies_collect.c: sort the matches of all files, and keep each stretch of a pair once.
 *
 * Stereo recordings are compared as mixes and channel by channel, and long recordings at several
 * offsets. So the same stretch may be found more than once. Among overlapping matches with nearly
 * the same lag, the strongest is kept. A reread match is dropped if the pair also has a match of a
 * stronger class.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "copies_internal.h"
#include "speechshard/inside.h"

enum {
    KEY_BYTES = 28 + SPSH__MATCH_BYTES,
    PAIR_MATCHES_MAX = 64, /* maximum number of matches per pair; hold music can match itself at any
                              number of offsets */
};

#define LAG_APART_S 0.05 /* maximum difference of two lags that count as equal */

static void put_big(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

spsh_status spsh__collect_add(spsh_sorter *sorter, const spsh__match *match, spsh_error *err)
{
    uint8_t key[KEY_BYTES];
    put_big(key, match->a, 8);
    put_big(key + 8, match->b, 8);
    put_big(key + 16, match->tier, 4);
    put_big(key + 20, match->a_first, 8);
    spsh__match_encode(match, key + 28);
    return spsh_sorter_add(sorter, (spsh_bytes){key, KEY_BYTES}, (spsh_bytes){NULL, 0}, err);
}

static double strength(const spsh__match *m)
{
    return fabs(m->ncc) + (1 - m->ber) * 1e-3;
}

static int compare_strength(const void *left, const void *right)
{
    const spsh__match *l = left;
    const spsh__match *r = right;
    if (l->tier != r->tier)
        return l->tier < r->tier ? -1 : 1;
    if (l->kind != r->kind)
        return l->kind < r->kind ? -1 : 1;
    if (strength(l) != strength(r))
        return strength(l) > strength(r) ? -1 : 1;
    return spsh__match_compare(l, r);
}

static bool is_heard(const spsh__match *m)
{
    return m->tier == SPSH_TIER_ACOUSTIC || m->tier == SPSH_TIER_SCALED;
}

static bool is_same_stretch(const spsh__match *strong, const spsh__match *weak)
{
    const double rate = weak->rate_hz == 0 ? 8000 : (double)weak->rate_hz;
    if (weak->kind == SPSH_COPY_REREAD && strong->kind < SPSH_COPY_REREAD)
        return true;
    return strong->rate_hz == weak->rate_hz &&
           fabs(strong->lag - weak->lag) <= LAG_APART_S * rate &&
           strong->a_first < weak->a_first + weak->count &&
           weak->a_first < strong->a_first + strong->count;
}

/* Keep matches from the strongest down, then restore the order of spsh__match_compare. */
static void prune(spsh__match_list *p)
{
    size_t kept = 0;
    qsort(p->items, p->count, sizeof(*p->items), compare_strength);
    for (size_t i = 0; i < p->count && kept < PAIR_MATCHES_MAX; i++) {
        bool is_new = true;
        for (size_t k = 0; k < kept && is_new && is_heard(&p->items[i]); k++)
            is_new = !is_heard(&p->items[k]) || !is_same_stretch(&p->items[k], &p->items[i]);
        if (is_new)
            p->items[kept++] = p->items[i];
    }
    p->count = kept;
    qsort(p->items, p->count, sizeof(*p->items), spsh__match_compare);
}

static spsh_status send_pair(spsh__match_list *p, spsh__match_sink sink, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (p->count > 1)
        prune(p);
    for (size_t i = 0; i < p->count && rc == SPSH_OK; i++)
        rc = sink.match_fn(sink.user, &p->items[i], err);
    p->count = 0;
    return rc;
}

spsh_status spsh__collect_send(spsh_sorter *sorter, spsh__match_sink sink, spsh_error *err)
{
    spsh__match_list p = {NULL, 0, 0}; /* matches of one pair of utterances */
    uint8_t last[KEY_BYTES] = {0};
    bool has_last = false;
    spsh_status rc = SPSH_OK;
    while (rc == SPSH_OK) {
        spsh_bytes key = {NULL, 0};
        spsh_bytes value = {NULL, 0};
        spsh__match match;
        rc = spsh_sorter_next(sorter, &key, &value, err);
        if (rc != SPSH_OK || (has_last && memcmp(last, key.data, KEY_BYTES) == 0))
            continue;
        memcpy(last, key.data, KEY_BYTES);
        has_last = true;
        rc = spsh__match_decode(last + 28, &match, err);
        if (rc == SPSH_OK && p.count > 0 && (p.items[0].a != match.a || p.items[0].b != match.b))
            rc = send_pair(&p, sink, err);
        if (rc == SPSH_OK)
            rc = spsh__match_list_add(&p, &match, err);
    }
    if (rc == SPSH_E_END)
        rc = send_pair(&p, sink, err);
    free(p.items);
    return rc;
}
