/* exact_internal.h: what the parts of exact.c share.
 *
 *     exact_rows.c    rows, and matches made of them
 *     exact_pcm.c     samples of two utterances side by side
 *     exact_groups.c  equal bytes, equal samples, one stored record
 *     exact_chunks.c  equal stretches
 */
#ifndef SPSH_DEDUP_EXACT_INTERNAL_H
#define SPSH_DEDUP_EXACT_INTERNAL_H

#include "exact.h"
#include "records/sort128.h"

enum {
    SPSH__EXACT_TRIM_DIVISOR = 10, /* of the rate: less sound than this is compared whole only */
    SPSH__EXACT_ORDINAL_BITS = 39, /* of an utterance in sorted records */
    SPSH__EXACT_MEETS = 16,        /* of a crowd each meets the first so many, and its neighbours */
    SPSH__EXACT_JOBS = 512,        /* pairs that threads share at a time */
    SPSH__EXACT_MEMORY_MIN = 4 << 20 /* for sorting, whatever else there is */
};

/* Ordinals, in 4 or 8 bytes. */
struct spsh__exact_groups {
    uint64_t count;
    uint32_t *narrow; /* one of the two is NULL */
    uint64_t *wide;
};

spsh_status spsh__exact_groups_new(uint64_t count, spsh__exact_groups **ret_groups,
                                   spsh_error *err);
void spsh__exact_put(spsh__exact_groups *groups, uint64_t ordinal, uint64_t value);

typedef struct spsh__exact_search {
    const spsh__print_set *set;
    const spsh__exact_options *options;
    spsh__match_sink sink;
    spsh__exact_groups
        *groups;   /* first a forest (each points to a lower one), then first members */
    bool has_both; /* sides */
} spsh__exact_search;

/* A sort with one of `parts` equal parts of the memory that the groups leave. */
spsh_status spsh__exact_sort_open(const spsh__exact_search *search, uint64_t parts,
                                  spsh__sort128 **ret_sort, spsh_error *err);

spsh_status spsh__exact_find_groups(spsh__exact_search *search, spsh_error *err);
spsh_status spsh__exact_find_chunks(spsh__exact_search *search, spsh_error *err);

/* ---- rows ---- */

typedef struct spsh__exact_row {
    uint64_t ordinal;
    uint64_t source; /* whose chunks and prints are its own: itself, or what it is an alias of */
    spsh_side side;
    spsh__segment_row row; /* flags are those of source, but for SPSH__ROW_ALIAS */
    /* where its audio lies */
    size_t dataset;
    uint32_t payload_shard, payload_record;
    uint64_t start_sample;
} spsh__exact_row;

spsh_status spsh__exact_row_get(const spsh__print_set *set, uint64_t ordinal,
                                spsh__exact_row *ret_row, spsh_error *err);
/* Of two utterances, a the one with the lower ordinal. */
spsh_status spsh__exact_rows_get(const spsh__print_set *set, uint64_t one, uint64_t other,
                                 spsh__exact_row *ret_a, spsh__exact_row *ret_b, spsh_error *err);
bool spsh__exact_is_trim_good(const spsh__segment_row *row); /* long enough to speak for the rest */
/* Equal bytes, samples, or samples but for zeros around them and doubled channels. */
bool spsh__exact_is_equal(const spsh__exact_row *a, const spsh__exact_row *b);
bool spsh__exact_is_one_place(const spsh__exact_row *a, const spsh__exact_row *b);

/* Of two members of one group, a->ordinal < b->ordinal. */
spsh__match spsh__exact_whole_match(const spsh__exact_row *a, const spsh__exact_row *b);
/* Of equal stretches: coverage, active speech, class. *ret_is_worth: long enough to be told. */
spsh_status spsh__exact_stretch_match(const spsh__exact_search *search, const spsh__exact_row *a,
                                      const spsh__exact_row *b, spsh__match *match,
                                      bool *ret_is_worth, spsh_error *err);

/* ---- samples ---- */

typedef struct spsh__exact_reader spsh__exact_reader;

spsh_status spsh__exact_reader_open(const spsh__print_set *set, spsh__exact_reader **ret_reader,
                                    spsh_error *err);
void spsh__exact_reader_free(spsh__exact_reader *reader);

/* The chunks of a's (which 0) or b's (1) row; borrowed until the next call with this which. */
spsh_status spsh__exact_reader_chunks(spsh__exact_reader *reader, int which,
                                      const spsh__exact_row *row, const spsh__chunk **ret_chunks,
                                      spsh_error *err);

/* Two places to compare at. */
typedef struct spsh__exact_span {
    const spsh__exact_row *a, *b;
    uint64_t a_at, b_at; /* samples */
    uint64_t count;      /* per channel, at most */
} spsh__exact_span;

/* How many samples per channel from the places on, or backwards before them, are equal; none if
 * rates differ. One channel equals several if all of them equal it. */
spsh_status spsh__exact_equal(spsh__exact_reader *reader, const spsh__exact_span *span,
                              bool backwards, uint64_t *ret_count, spsh_error *err);

/* A reader for each thread that spsh_cores_run starts. All zero is closed. */
typedef struct spsh__exact_team {
    spsh__exact_reader **readers;
    uint32_t count;
} spsh__exact_team;

/* Close it also after a failure. */
spsh_status spsh__exact_team_open(const spsh__print_set *set, uint32_t threads,
                                  spsh__exact_team *ret_team, spsh_error *err);
void spsh__exact_team_close(spsh__exact_team *team);

#endif
