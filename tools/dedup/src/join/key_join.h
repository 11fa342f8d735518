/* key_join.h: find prints that may contain the same sound: prints with equal keys at one offset.
 *
 *     spsh__key_join_open(&options, &join, err);
 *     for each print: spsh__key_join_add(join, number, keys, count, err);
 *     while ((rc = spsh__key_join_next(join, &candidate, err)) == SPSH_OK) ...       // SPSH_E_END
 *     spsh__key_join_free(join);
 *
 * Each key is looked up unchanged and with its weak bits flipped, in all combinations. For the
 * train keys of an audit, only one bit at a time is flipped. Records are distributed to partitions
 * by their upper bits. Each partition is sorted and joined in memory. Hits (a, b, offset) are
 * sorted externally and counted. A crowded key (hold music, a held vowel) is not joined completely:
 * each record is paired with the first few records and a few neighbors in the order of the print
 * numbers. That suffices to connect true copies and bounds the work.
 *
 * The result depends on the added keys, not on their order, the memory, or the threads.
 */
#ifndef SPSH_DEDUP_KEY_JOIN_H
#define SPSH_DEDUP_KEY_JOIN_H

#include "contour_keys.h"
#include "fingerprint/fingerprint.h"
#include "records/call_watch.h"
#include "records/sort128.h"
#include "set/print_set.h"

#define SPSH__JOIN_PRINTS_MAX (UINT64_C(1) << 38)
#define SPSH__JOIN_MEMORY_MIN (UINT64_C(64) << 20)
#define SPSH__JOIN_FRAMES_MAX (UINT64_C(1) << 30) /* 198 days */

#define SPSH__JOIN_AUDIT_WEAK 5 /* weak bits per dense key that are flipped, in all combinations */

typedef enum spsh__join_mode {
    SPSH__JOIN_MILD,  /* 48 bits, all prints of one side against each other */
    SPSH__JOIN_DEEP,  /* as MILD, but only the upper 32 bits */
    SPSH__JOIN_AUDIT, /* the upper 32 bits; dense keys of test against stored keys of train at other
                          speeds: at equal speed frame_search.h finds more */
    SPSH__JOIN_CONTOUR /* contour keys (contour_keys.h), one equal key suffices */
} spsh__join_mode;

typedef struct spsh__key_join_options {
    spsh__join_mode mode;
    const spsh_io *io;
    const char *temporary_path;
    uint64_t memory_bytes; /* at least 64 MiB */
    uint32_t threads;
    spsh__call_watch *watch; /* may be NULL */
} spsh__key_join_options;

/* Pair of prints to compare. Frame i of a corresponds to frame i + offset of b, within a few
 * frames. */
typedef struct spsh__candidate {
    uint64_t a, b; /* print numbers as added; mild and deep: a < b; audit: a of train, b of test */
    int64_t offset;
    uint32_t votes; /* distinct places of a that agree; at least 2, or 1 if a print has fewer than
                       16 keys (deep and audit: 8) */
} spsh__candidate;

typedef struct spsh__join_facts {
    uint64_t key_count, probe_count, hit_count, candidate_count, crowded_count, spilled_bytes;
} spsh__join_facts;

typedef struct spsh__key_join spsh__key_join;

spsh_status spsh__key_join_open(const spsh__key_join_options *options, spsh__key_join **ret_join,
                                spsh_error *err);
/* Add the stored keys of one print; in mode AUDIT a print of train. Add each print once, in any
 * order, from one thread. SPSH_E_LIMIT if the number or a frame is not below SPSH__JOIN_PRINTS_MAX
 * or SPSH__JOIN_FRAMES_MAX. */
spsh_status spsh__key_join_add(spsh__key_join *join, uint64_t print, const spsh__print_key *keys,
                               size_t count, spsh_error *err);
/* Add the dense keys of one test print (dense_keys.h). Mode AUDIT only. */
spsh_status spsh__key_join_add_test(spsh__key_join *join, uint64_t print,
                                    const spsh__dense_key *keys, size_t count, spsh_error *err);
/* Add the contour keys of one print, whose first `weak` weak bits may be flipped. Mode CONTOUR
 * only. */
spsh_status spsh__key_join_add_contour(spsh__key_join *join, uint64_t print,
                                       const spsh__contour_key *keys, size_t count, unsigned weak,
                                       spsh_error *err);
/* Add a candidate from another search (frame_search.h, contour_search.h). Candidates within 6
 * frames of one that this join finds are skipped. */
spsh_status spsh__key_join_add_candidate(spsh__key_join *join, const spsh__candidate *candidate,
                                         spsh_error *err);
/* Return the candidates in ascending order of (a, b, offset), then SPSH_E_END. The first call runs
 * the join. */
spsh_status spsh__key_join_next(spsh__key_join *join, spsh__candidate *ret_candidate,
                                spsh_error *err);
void spsh__key_join_facts(const spsh__key_join *join, spsh__join_facts *ret_facts);
void spsh__key_join_free(spsh__key_join *join);

/* Estimate the peak of the temporary disk space in bytes for this many keys on each side, before a
 * run starts. The estimate assumes speech of which up to a tenth is copies. Probes of a partition
 * that exceeds the memory of a thread take further disk space. */
uint64_t spsh__key_join_space(spsh__join_mode mode, uint64_t train_keys, uint64_t test_keys,
                              uint64_t memory_bytes);

#endif
