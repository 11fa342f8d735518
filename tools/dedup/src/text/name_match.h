/* name_match.h: find speakers and documents that are on both sides, by their names.
 *
 *     spsh__name_rules_open("aliases.tsv", fold, &rules, err);
 *     spsh__name_join_open(set, SPSH_NAME_SPEAKER, rules, rule, &join, err);     does the work
 *     number = spsh__name_join_number(join, ordinal)          of a test utterance
 *     spsh__name_join_hits(join, number, &hits, &kept)
 *
 * An alias is a line with a name, a TAB, and the name that it stands for, which may have another
 * alias. If both end in an asterisk, the line applies to all names with this prefix. A name of only
 * digits and signs is a number within a corpus, so it is compared only within one domain. All other
 * names are compared across domains. An absent name never matches.
 */
#ifndef SPSH_DEDUP_NAME_MATCH_H
#define SPSH_DEDUP_NAME_MATCH_H

#include "hit_table.h"
#include "set/print_set.h"

typedef struct spsh__name_rules spsh__name_rules;

/* Load the rules. alias_path NULL: no aliases. Returns SPSH_E_IO, _NOT_FOUND, or _SYNTAX with the
 * line. */
spsh_status spsh__name_rules_open(const char *alias_path, bool fold, spsh__name_rules **ret_rules,
                                  spsh_error *err);
void spsh__name_rules_free(spsh__name_rules *rules);

typedef struct spsh__name_join spsh__name_join;

#define SPSH__NAME_ABSENT UINT32_MAX

/* Join the names of both sides. kind is SPSH_NAME_SPEAKER or _DOCUMENT. Reads two columns of the
 * index once. Memory: 64 bytes per name. Each name of the test side needs another 12 bytes, and 28
 * per hit that the rule keeps. */
spsh_status spsh__name_join_open(const spsh__print_set *set, spsh_name_kind kind,
                                 const spsh__name_rules *rules, spsh__hit_rule rule,
                                 spsh__name_join **ret_join, spsh_error *err);
void spsh__name_join_free(spsh__name_join *join);

typedef struct spsh__name_counts {
    uint64_t train, test, shared; /* number of different names */
} spsh__name_counts;
spsh__name_counts spsh__name_join_counts(const spsh__name_join *join);

/* Get the number of an utterance's name. SPSH__NAME_ABSENT if it has no name. */
spsh_status spsh__name_join_number(const spsh__name_join *join, uint64_t ordinal,
                                   uint32_t *ret_number, spsh_error *err);
uint64_t spsh__name_join_hits(const spsh__name_join *join, uint32_t number,
                              const spsh__hit **ret_hits, uint32_t *ret_kept);

#endif
