/* join_record.h: keys, probes and hits of a join, each in 128 bits.
 *
 *     key, in its partition    remaining key bits | 3 or 6 slots | print | frame | short | side
 *     probe, to be sorted      remaining key bits | side | print | frame | turned | short
 *     hit, to be sorted        a | b | offset | place | short
 *
 * The upper 10 bits of a key select its partition and are not stored in the record, which leaves
 * space for the other fields: 2^38 prints, and 2^30 frames (198 days), or 2^20 (4.6 hours) for
 * contour keys. A slot holds the position of
 * a weak bit that may be flipped. A slot whose position is one of the partition's bits records a
 * flip that was already made: the original key belongs to another partition. The place of a hit is
 * the frame of a modulo 2^20 (4.6 hours). Votes with equal place and offset are counted once.
 */
#ifndef SPSH_DEDUP_JOIN_RECORD_H
#define SPSH_DEDUP_JOIN_RECORD_H

#include "key_join.h"

enum {
    SPSH__JOIN_PARTITION_BITS = 10,
    SPSH__JOIN_PARTITIONS = 1 << SPSH__JOIN_PARTITION_BITS,
    SPSH__JOIN_SLOTS = SPSH__DENSE_WEAK,
    SPSH__JOIN_NO_PLACE = 63,
    SPSH__JOIN_PRINT_BITS = 38,
    SPSH__JOIN_FRAME_BITS = 30,
    SPSH__JOIN_PLACE_BITS = 20,
};

/* The form of the keys that a mode compares. */
typedef struct spsh__join_form {
    unsigned bits;      /* bits per key */
    unsigned rest_bits; /* key bits below the bits of the partition */
    unsigned slots;
    bool has_sides;       /* compare train with test; false: compare one side with itself */
    unsigned turn_places; /* positions in `turned` of a probe; 0: 32 bits, one per position */
    unsigned frame_bits;
} spsh__join_form;

typedef struct spsh__join_key {
    uint64_t bits;                   /* all bits of the key */
    uint8_t slots[SPSH__JOIN_SLOTS]; /* positions of weak bits, from the lowest bit of `bits`;
                                        NO_PLACE: empty */
    uint64_t print;
    uint64_t frame;
    bool is_short; /* the print has few keys */
    bool is_test;
} spsh__join_key;

typedef struct spsh__join_probe {
    uint64_t rest;
    uint64_t print;
    uint64_t frame;
    uint64_t turned; /* one bit per position that was flipped */
    bool is_short;
    bool is_test;
} spsh__join_probe;

typedef struct spsh__join_hit {
    uint64_t a, b;
    int64_t offset;
    uint32_t place;
    bool is_short;
} spsh__join_hit;

static inline void spsh__join_push(spsh__u128 *record, unsigned bits, uint64_t value)
{
    record->high = record->high << bits | record->low >> (64 - bits);
    record->low = record->low << bits | value;
}

static inline uint64_t spsh__join_pull(spsh__u128 *record, unsigned bits)
{
    const uint64_t value = record->low & ((UINT64_C(1) << bits) - 1);
    record->low = record->low >> bits | record->high << (64 - bits);
    record->high >>= bits;
    return value;
}

static inline unsigned spsh__join_partition(const spsh__join_form *form, uint64_t bits)
{
    return (unsigned)(bits >> form->rest_bits);
}

static inline spsh__u128 spsh__join_pack_key(const spsh__join_form *form, const spsh__join_key *key)
{
    spsh__u128 record = {0, key->bits & ((UINT64_C(1) << form->rest_bits) - 1)};
    for (unsigned i = 0; i < form->slots; i++)
        spsh__join_push(&record, 6, key->slots[i]);
    spsh__join_push(&record, SPSH__JOIN_PRINT_BITS, key->print);
    spsh__join_push(&record, form->frame_bits, key->frame);
    spsh__join_push(&record, 1, key->is_short);
    spsh__join_push(&record, 1, key->is_test);
    return record;
}

/* Unpack a key record. The bits of the partition are 0 in the result. */
static inline spsh__join_key spsh__join_unpack_key(const spsh__join_form *form, spsh__u128 record)
{
    spsh__join_key key = {0};
    key.is_test = spsh__join_pull(&record, 1) != 0;
    key.is_short = spsh__join_pull(&record, 1) != 0;
    key.frame = spsh__join_pull(&record, form->frame_bits);
    key.print = spsh__join_pull(&record, SPSH__JOIN_PRINT_BITS);
    for (unsigned i = form->slots; i > 0; i--)
        key.slots[i - 1] = (uint8_t)spsh__join_pull(&record, 6);
    key.bits = record.low;
    return key;
}

enum { SPSH__JOIN_TURN_BITS = 32, SPSH__JOIN_PLACE_SIZE = 6 };

/* Convert a bit mask to up to `count` positions of 6 bits each; the next function converts back. */
static inline uint64_t spsh__join_places(uint64_t turned, unsigned count)
{
    uint64_t places = 0;
    for (unsigned i = 0; i < count; i++) {
        places =
            places << 6 | (turned == 0 ? SPSH__JOIN_NO_PLACE : (uint64_t)__builtin_ctzll(turned));
        turned &= turned - 1;
    }
    return places;
}

static inline uint64_t spsh__join_turned(uint64_t places, unsigned count)
{
    uint64_t turned = 0;
    for (unsigned shift = 0; shift < count * SPSH__JOIN_PLACE_SIZE; shift += SPSH__JOIN_PLACE_SIZE)
        if ((places >> shift & 63) != SPSH__JOIN_NO_PLACE)
            turned |= UINT64_C(1) << (places >> shift & 63);
    return turned;
}

static inline unsigned spsh__join_turn_bits(const spsh__join_form *form)
{
    return form->turn_places == 0 ? SPSH__JOIN_TURN_BITS
                                  : form->turn_places * SPSH__JOIN_PLACE_SIZE;
}

/* Packed probes sort by key, then test before train, then by print. */
static inline spsh__u128 spsh__join_pack_probe(const spsh__join_form *form,
                                               const spsh__join_probe *probe)
{
    spsh__u128 record = {0, probe->rest};
    spsh__join_push(&record, 1, !probe->is_test);
    spsh__join_push(&record, SPSH__JOIN_PRINT_BITS, probe->print);
    spsh__join_push(&record, form->frame_bits, probe->frame);
    spsh__join_push(&record, spsh__join_turn_bits(form),
                    form->turn_places > 0 ? spsh__join_places(probe->turned, form->turn_places)
                                          : probe->turned);
    spsh__join_push(&record, 1, probe->is_short);
    return record;
}

static inline spsh__join_probe spsh__join_unpack_probe(const spsh__join_form *form,
                                                       spsh__u128 record)
{
    spsh__join_probe probe;
    probe.is_short = spsh__join_pull(&record, 1) != 0;
    probe.turned = spsh__join_pull(&record, spsh__join_turn_bits(form));
    if (form->turn_places > 0)
        probe.turned = spsh__join_turned(probe.turned, form->turn_places);
    probe.frame = spsh__join_pull(&record, form->frame_bits);
    probe.print = spsh__join_pull(&record, SPSH__JOIN_PRINT_BITS);
    probe.is_test = spsh__join_pull(&record, 1) == 0;
    probe.rest = record.low;
    return probe;
}

static inline spsh__u128 spsh__join_pack_hit(const spsh__join_hit *hit)
{
    spsh__u128 record = {0, hit->a};
    spsh__join_push(&record, SPSH__JOIN_PRINT_BITS, hit->b);
    spsh__join_push(&record, SPSH__JOIN_FRAME_BITS + 1,
                    (uint64_t)(hit->offset + (INT64_C(1) << SPSH__JOIN_FRAME_BITS)));
    spsh__join_push(&record, SPSH__JOIN_PLACE_BITS, hit->place);
    spsh__join_push(&record, 1, hit->is_short);
    return record;
}

static inline spsh__join_hit spsh__join_unpack_hit(spsh__u128 record)
{
    spsh__join_hit hit;
    hit.is_short = spsh__join_pull(&record, 1) != 0;
    hit.place = (uint32_t)spsh__join_pull(&record, SPSH__JOIN_PLACE_BITS);
    hit.offset = (int64_t)spsh__join_pull(&record, SPSH__JOIN_FRAME_BITS + 1) -
                 (INT64_C(1) << SPSH__JOIN_FRAME_BITS);
    hit.b = spsh__join_pull(&record, SPSH__JOIN_PRINT_BITS);
    hit.a = record.low;
    return hit;
}

/* a | b | offset | votes, limited to 2^20 - 1. */
static inline spsh__u128 spsh__join_pack_candidate(const spsh__candidate *candidate)
{
    const uint32_t votes_max = (1U << SPSH__JOIN_PLACE_BITS) - 1;
    const spsh__join_hit as_hit = {
        .a = candidate->a,
        .b = candidate->b,
        .offset = candidate->offset,
        .place = candidate->votes < votes_max ? candidate->votes : votes_max,
    };
    return spsh__join_pack_hit(&as_hit);
}

static inline spsh__candidate spsh__join_unpack_candidate(spsh__u128 record)
{
    const spsh__join_hit as_hit = spsh__join_unpack_hit(record);
    return (spsh__candidate){as_hit.a, as_hit.b, as_hit.offset, as_hit.place};
}

#endif
