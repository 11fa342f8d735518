/* key_join.h: which prints may hold the same sound: those with keys in common, at one offset.
 *
 *     spsh__key_join_open(&options, &join, err);
 *     for each print: spsh__key_join_add(join, number, keys, count, err);
 *     while ((rc = spsh__key_join_next(join, &candidate, err)) == SPSH_OK) ...       // SPSH_E_END
 *     spsh__key_join_free(join);
 *
 * Each key is looked for as it is and with its weak bits turned over, in all combinations, on both
 * sides.
 * Records go to partitions by their upper bits; a partition is sorted and joined in memory; hits
 * (a, b, offset) are sorted externally and counted. A crowded key (hold music, one vowel held) is
 * not joined with itself in full: each record meets the first few and its next neighbours in order
 * of the prints' numbers, which is enough to connect true copies and bounds the work.
 *
 * The result depends on what was added, not on the order, the memory or the threads.
 */
#ifndef SPSH_DEDUP_KEY_JOIN_H
#define SPSH_DEDUP_KEY_JOIN_H

#include "fingerprint/fingerprint.h"
#include "records/call_watch.h"
#include "records/sort128.h"
#include "set/print_set.h"

#define SPSH__JOIN_PRINTS_MAX (UINT64_C(1) << 38)
#define SPSH__JOIN_FRAMES_MAX (UINT64_C(1) << 30) /* 198 days */

#define SPSH__JOIN_AUDIT_WEAK 5 /* of a dense key, in every combination */

typedef enum spsh__join_mode {
    SPSH__JOIN_MILD, /* 48 bits, all against all of one side */
    SPSH__JOIN_DEEP, /* the upper 32 bits */
    SPSH__JOIN_AUDIT /* the upper 32; test keys are dense, train's are stored ones, of other speeds:
                        at the same speed frame_search.h finds more */
} spsh__join_mode;

typedef struct spsh__key_join_options {
    spsh__join_mode mode;
    const spsh_io *io;
    const char *temporary_path;
    uint64_t memory_bytes; /* at least 64 MiB */
    uint32_t threads;
    spsh__call_watch *watch; /* may be NULL */
} spsh__key_join_options;

/* A pair of prints worth a look. Frame i of a goes with frame i + offset of b, within a few. */
typedef struct spsh__candidate {
    uint64_t a, b; /* numbers as added; mild and deep: a < b; audit: a of train, b of test */
    int64_t offset;
    uint32_t votes; /* distinct places of a that agree: 2, or 1 where a print has fewer than 16
                       keys (deep and audit: 8) */
} spsh__candidate;

typedef struct spsh__join_facts {
    uint64_t key_count, probe_count, hit_count, candidate_count, crowded_count, spilled_bytes;
} spsh__join_facts;

typedef struct spsh__key_join spsh__key_join;

spsh_status spsh__key_join_open(const spsh__key_join_options *options, spsh__key_join **ret_join,
                                spsh_error *err);
/* Stored keys of one print; mode AUDIT: of train. Each print once; any order. One thread.
 * SPSH_E_LIMIT for a number or a frame beyond SPSH__JOIN_PRINTS_MAX and SPSH__JOIN_FRAMES_MAX. */
spsh_status spsh__key_join_add(spsh__key_join *join, uint64_t print, const spsh__print_key *keys,
                               size_t count, spsh_error *err);
/* Mode AUDIT: dense keys of one print of test (dense_keys.h). */
spsh_status spsh__key_join_add_test(spsh__key_join *join, uint64_t print,
                                    const spsh__dense_key *keys, size_t count, spsh_error *err);
/* A candidate that was found elsewhere (frame_search.h); of pairs of prints that have no keys here.
 */
spsh_status spsh__key_join_add_candidate(spsh__key_join *join, const spsh__candidate *candidate,
                                         spsh_error *err);
/* Ascending (a, b, offset). The first call does the work. */
spsh_status spsh__key_join_next(spsh__key_join *join, spsh__candidate *ret_candidate,
                                spsh_error *err);
void spsh__key_join_facts(const spsh__key_join *join, spsh__join_facts *ret_facts);
void spsh__key_join_free(spsh__key_join *join);

/* Temporary bytes that so many keys on each side take on disk at one time: stated before anything
 * starts. Of speech, with copies of up to a tenth of it; probes of a partition that does not fit
 * into a thread's memory go to disk besides. */
uint64_t spsh__key_join_space(spsh__join_mode mode, uint64_t train_keys, uint64_t test_keys,
                              uint64_t memory_bytes);

#endif
