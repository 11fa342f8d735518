/* exact_internal.h: declarations that the files of the exact tiers share.
 *
 *     exact_rows.c    rows, and matches of two rows
 *     exact_pcm.c     comparison of the samples of two utterances
 *     exact_groups.c  equal bytes, equal samples, one stored record
 *     exact_chunks.c  equal stretches
 */
#ifndef SPSH_DEDUP_EXACT_INTERNAL_H
#define SPSH_DEDUP_EXACT_INTERNAL_H

#include "exact.h"
#include "records/sort128.h"

enum {
    SPSH__EXACT_TRIM_DIVISOR = 10, /* sound shorter than rate / 10 is compared only with its
                                      zeros */
    SPSH__EXACT_ORDINAL_BITS = 39, /* bits of an utterance ordinal in sorted records */
    SPSH__EXACT_MEETS = 16,        /* a crowd's member is compared with the first 16 members and the
                                      previous 16 */
    SPSH__EXACT_JOBS = 512,        /* pairs per batch that threads share */
    SPSH__EXACT_MEMORY_MIN = 4 << 20 /* minimum memory of a sort, whatever the limit is */
};

/* One ordinal per utterance, in 4 or 8 bytes. */
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
        *groups;   /* during the search a forest whose links point to lower ordinals; at the end the
                      first member of each group */
    bool has_both; /* the set has a train and a test side */
} spsh__exact_search;

/* Open a sort with 1/parts of the memory that the groups leave. */
spsh_status spsh__exact_sort_open(const spsh__exact_search *search, uint64_t parts,
                                  spsh__sort128 **ret_sort, spsh_error *err);

spsh_status spsh__exact_find_groups(spsh__exact_search *search, spsh_error *err);
spsh_status spsh__exact_find_chunks(spsh__exact_search *search, spsh_error *err);

/* ---- rows ---- */

typedef struct spsh__exact_row {
    uint64_t ordinal;
    uint64_t source; /* ordinal of the utterance that stores the chunks and prints: itself, or the
                        primary of an alias */
    spsh_side side;
    spsh__segment_row row; /* row.flags: flags of source, plus SPSH__ROW_ALIAS for an alias */
    /* location of the audio */
    size_t dataset;
    uint32_t payload_shard, payload_record;
    uint64_t start_sample;
} spsh__exact_row;

spsh_status spsh__exact_row_get(const spsh__print_set *set, uint64_t ordinal,
                                spsh__exact_row *ret_row, spsh_error *err);
/* Get the rows of two utterances. a is the utterance with the lower ordinal. */
spsh_status spsh__exact_rows_get(const spsh__print_set *set, uint64_t one, uint64_t other,
                                 spsh__exact_row *ret_a, spsh__exact_row *ret_b, spsh_error *err);
bool spsh__exact_is_trim_good(const spsh__segment_row *row); /* the sound is long enough to be
                                                                compared without its zeros */
/* Equal place, bytes or samples, or equal samples except for surrounding zeros and duplicated
 * channels. */
bool spsh__exact_is_equal(const spsh__exact_row *a, const spsh__exact_row *b);
bool spsh__exact_is_one_place(const spsh__exact_row *a, const spsh__exact_row *b);

/* Build the match of two members of one group; a->ordinal < b->ordinal. */
spsh__match spsh__exact_whole_match(const spsh__exact_row *a, const spsh__exact_row *b);
/* Complete the match of two equal stretches: coverage, active duration, class. *ret_is_worth: the
 * stretch is long enough to be emitted. */
spsh_status spsh__exact_stretch_match(const spsh__exact_search *search, const spsh__exact_row *a,
                                      const spsh__exact_row *b, spsh__match *match,
                                      bool *ret_is_worth, spsh_error *err);

/* Reader of samples and chunks of two utterances at a time; for one thread. */

typedef struct spsh__exact_reader spsh__exact_reader;

spsh_status spsh__exact_reader_open(const spsh__print_set *set, spsh__exact_reader **ret_reader,
                                    spsh_error *err);
void spsh__exact_reader_free(spsh__exact_reader *reader);

/* Return the chunks of a row; which: 0 for a, 1 for b. The chunks are borrowed until the next call
 * with the same `which`. */
spsh_status spsh__exact_reader_chunks(spsh__exact_reader *reader, int which,
                                      const spsh__exact_row *row, const spsh__chunk **ret_chunks,
                                      spsh_error *err);

/* Two stretches to compare. */
typedef struct spsh__exact_span {
    const spsh__exact_row *a, *b;
    uint64_t a_at, b_at; /* sample positions */
    uint64_t count;      /* maximum number of samples per channel */
} spsh__exact_span;

/* Count the equal samples per channel from the positions onward, or backwards before them. The
 * count is 0 if the rates differ. One channel equals several if all of them equal it. */
spsh_status spsh__exact_equal(spsh__exact_reader *reader, const spsh__exact_span *span,
                              bool backwards, uint64_t *ret_count, spsh_error *err);

/* One reader per thread of spsh_cores_run. A zeroed team is closed. */
typedef struct spsh__exact_team {
    spsh__exact_reader **readers;
    uint32_t count;
} spsh__exact_team;

/* Close the team also after a failure. */
spsh_status spsh__exact_team_open(const spsh__print_set *set, uint32_t threads,
                                  spsh__exact_team *ret_team, spsh_error *err);
void spsh__exact_team_close(spsh__exact_team *team);

#endif
