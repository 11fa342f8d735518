/* join_pairs.c: collect the probes of one key until the key ends or is crowded.
 *
 *     one side, not crowded     up to CROWD probes wait; then each is paired with each
 *     one side, crowded         each new print is paired with the heads (the first FEW prints)
 *                               and the tail (a ring of the last FEW prints)
 *     two sides, not crowded    probes of test come first (their side bit is 0) and wait; up to
 *                               CROWD probes of train wait, too; then each probe of train is
 *                               paired with each of test
 *     two sides, crowded        the first FEW prints of train are paired with all of test, and all
 *                               of train with the first FEW of test; the n-th of train is also
 *                               paired with the n-th of test, modulo the number of test probes
 *
 * Two probes that flipped the same bit are not a hit: they are also equal without the flips, and
 * that pair is the hit.
 */
#include "join_pairs.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

enum { HITS = 4096, FEW = SPSH__JOIN_FEW, CROWD = SPSH__JOIN_CROWD };

struct spsh__join_pairs {
    spsh__join_form form;
    spsh__hit_sink sink;
    spsh_status failure; /* first failure of the sink, until it can be returned */
    spsh_error *err;

    uint64_t rest; /* bits of the current key */
    bool has_key;
    bool is_crowded;
    spsh__join_probe waiting[CROWD];
    size_t waiting_count;
    spsh__join_probe *tests;
    size_t test_count;

    /* used only for a crowded key */
    spsh__join_probe pending; /* best probe of the current print */
    bool has_pending;
    spsh__join_probe heads[FEW];
    size_t head_count;
    spsh__join_probe tail[FEW];
    uint64_t taken; /* number of prints of the current key */

    spsh__u128 hits[HITS];
    size_t hit_count;
    uint64_t hit_total;
    uint64_t crowded_total;
};

spsh_status spsh__join_pairs_new(const spsh__join_form *form, spsh__hit_sink sink,
                                 spsh__join_pairs **ret_pairs, spsh_error *err)
{
    spsh__join_pairs *pairs = calloc(1, sizeof(*pairs));
    if (pairs == NULL)
        return SPSH_NO_MEMORY(err);
    pairs->form = *form;
    pairs->sink = sink;
    pairs->tests = calloc(SPSH__JOIN_TESTS_MAX, sizeof(*pairs->tests));
    if (pairs->tests == NULL) {
        spsh__join_pairs_free(pairs);
        return SPSH_NO_MEMORY(err);
    }
    *ret_pairs = pairs;
    return SPSH_OK;
}

void spsh__join_pairs_free(spsh__join_pairs *pairs)
{
    if (pairs == NULL)
        return;
    free(pairs->tests);
    free(pairs);
}

uint64_t spsh__join_pairs_hits(const spsh__join_pairs *pairs)
{
    return pairs->hit_total;
}

uint64_t spsh__join_pairs_crowded(const spsh__join_pairs *pairs)
{
    return pairs->crowded_total;
}

static void give_hits(spsh__join_pairs *pairs)
{
    if (pairs->failure == SPSH_OK && pairs->hit_count > 0)
        pairs->failure =
            pairs->sink.hits_fn(pairs->sink.user, pairs->hits, pairs->hit_count, pairs->err);
    pairs->hit_total += pairs->hit_count;
    pairs->hit_count = 0;
}

/* If the sides differ, x is a probe of train. */
static void meet(spsh__join_pairs *pairs, const spsh__join_probe *x, const spsh__join_probe *y)
{
    if ((x->turned & y->turned) != 0)
        return;
    if (x->is_test == y->is_test) {
        if (x->print == y->print)
            return;
        if (x->print > y->print) {
            const spsh__join_probe *other = x;
            x = y;
            y = other;
        }
    }
    const spsh__join_hit hit = {
        .a = x->print,
        .b = y->print,
        .offset = (int64_t)y->frame - (int64_t)x->frame,
        .place = (uint32_t)(x->frame & ((1U << SPSH__JOIN_PLACE_BITS) - 1)),
        .is_short = x->is_short || y->is_short,
    };
    pairs->hits[pairs->hit_count++] = spsh__join_pack_hit(&hit);
    if (pairs->hit_count == HITS)
        give_hits(pairs);
}

/* Pair the probe of one print of a crowded key. */
static void take_crowded(spsh__join_pairs *pairs, const spsh__join_probe *probe)
{
    if (pairs->test_count > 0) {
        const size_t every = pairs->taken < FEW ? pairs->test_count : FEW;
        for (size_t i = 0; i < every && i < pairs->test_count; i++)
            meet(pairs, probe, &pairs->tests[i]);
        const size_t turn = (size_t)(pairs->taken % pairs->test_count);
        if (turn >= every)
            meet(pairs, probe, &pairs->tests[turn]);
        pairs->taken++;
        return;
    }
    for (size_t i = 0; i < pairs->head_count; i++)
        meet(pairs, &pairs->heads[i], probe);
    /* The tail begins with the heads. */
    for (uint64_t i = pairs->taken > UINT64_C(2) * FEW ? pairs->taken - FEW : FEW; i < pairs->taken;
         i++)
        meet(pairs, &pairs->tail[i % FEW], probe);
    if (pairs->head_count < FEW)
        pairs->heads[pairs->head_count++] = *probe;
    pairs->tail[pairs->taken++ % FEW] = *probe;
}

static void flush_pending(spsh__join_pairs *pairs)
{
    if (pairs->has_pending)
        take_crowded(pairs, &pairs->pending);
    pairs->has_pending = false;
}

/* Keep one probe per print: the first without flipped bits, else the first. */
static void thin_crowded(spsh__join_pairs *pairs, const spsh__join_probe *probe)
{
    if (pairs->has_pending && pairs->pending.print == probe->print) {
        if (pairs->pending.turned != 0 && probe->turned == 0)
            pairs->pending = *probe;
        return;
    }
    flush_pending(pairs);
    pairs->pending = *probe;
    pairs->has_pending = true;
}

static void become_crowded(spsh__join_pairs *pairs)
{
    pairs->is_crowded = true;
    pairs->crowded_total++;
    for (size_t i = 0; i < pairs->waiting_count; i++)
        thin_crowded(pairs, &pairs->waiting[i]);
    pairs->waiting_count = 0;
}

static void end_key(spsh__join_pairs *pairs)
{
    if (!pairs->is_crowded && pairs->test_count > CROWD && pairs->waiting_count > 0)
        become_crowded(pairs);
    flush_pending(pairs);
    for (size_t i = 0; i < pairs->waiting_count; i++) {
        for (size_t k = 0; k < pairs->test_count; k++)
            meet(pairs, &pairs->waiting[i], &pairs->tests[k]);
        for (size_t k = i + 1; k < pairs->waiting_count && !pairs->form.has_sides; k++)
            meet(pairs, &pairs->waiting[i], &pairs->waiting[k]);
    }
    pairs->waiting_count = 0;
    pairs->test_count = 0;
    pairs->head_count = 0;
    pairs->taken = 0;
    pairs->is_crowded = false;
    pairs->has_key = false;
}

static void take(spsh__join_pairs *pairs, const spsh__join_probe *probe)
{
    if (probe->is_test) {
        if (pairs->test_count < SPSH__JOIN_TESTS_MAX)
            pairs->tests[pairs->test_count++] = *probe;
        return;
    }
    if (pairs->form.has_sides && pairs->test_count == 0)
        return; /* no test probe has this key */
    if (!pairs->is_crowded && pairs->waiting_count == CROWD)
        become_crowded(pairs);
    if (pairs->is_crowded)
        thin_crowded(pairs, probe);
    else
        pairs->waiting[pairs->waiting_count++] = *probe;
}

spsh_status spsh__join_pairs_add(spsh__join_pairs *pairs, const spsh__u128 *probes, size_t count,
                                 spsh_error *err)
{
    pairs->err = err;
    for (size_t i = 0; i < count && pairs->failure == SPSH_OK; i++) {
        const spsh__join_probe probe = spsh__join_unpack_probe(&pairs->form, probes[i]);
        if (pairs->has_key && probe.rest != pairs->rest)
            end_key(pairs);
        pairs->has_key = true;
        pairs->rest = probe.rest;
        take(pairs, &probe);
    }
    return pairs->failure;
}

spsh_status spsh__join_pairs_finish(spsh__join_pairs *pairs, spsh_error *err)
{
    pairs->err = err;
    end_key(pairs);
    give_hits(pairs);
    return pairs->failure;
}
