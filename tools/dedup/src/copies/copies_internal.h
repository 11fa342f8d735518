/* copies_internal.h: the stages of copies.c. */
#ifndef SPSH_DEDUP_COPIES_INTERNAL_H
#define SPSH_DEDUP_COPIES_INTERNAL_H

#include "copies.h"
#include "speechshard/sorter.h"

/* ---- copies_keys.c: keys of all prints that take part, on threads ---- */

typedef struct spsh__key_feed {
    const spsh__print_set *set;
    const spsh__copies_options *options;
    const spsh__exact_groups *groups;
} spsh__key_feed;

/* Add the keys of every print that takes part to the join. */
spsh_status spsh__key_feed_run(const spsh__key_feed *feed, spsh__key_join *join, spsh_error *err);

/* ---- copies_alias.c: utterances that take part only through an alias ---- */

/* An excluded base and the alias that represents it. An overlay or the choice of splits excludes
 * the base, but the alias takes part. Matches of the base's prints are matches of the alias. */
typedef struct spsh__stand_in {
    uint64_t base, alias;
} spsh__stand_in;

typedef struct spsh__stand_ins {
    spsh__stand_in *items; /* sorted by base */
    size_t count, capacity;
} spsh__stand_ins;

/* Find all aliases that represent an excluded base. *ret_undecoded counts the utterances that take
 * part but do not decode. */
spsh_status spsh__stand_ins_find(const spsh__print_set *set, spsh__stand_ins *ret_list,
                                 uint64_t *ret_undecoded, spsh_error *err);
/* Replace the bases of a match by their aliases. Returns false if both sides are then the same
 * utterance. */
bool spsh__stand_ins_apply(const spsh__stand_ins *list, spsh__match *match);

/* ---- copies_collect.c: matches of all files, sorted, each stretch once ---- */

spsh_status spsh__collect_add(spsh_sorter *sorter, const spsh__match *match, spsh_error *err);
/* Send all matches in the order of spsh__match_compare. */
spsh_status spsh__collect_send(spsh_sorter *sorter, spsh__match_sink sink, spsh_error *err);

#endif
