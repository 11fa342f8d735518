/* audit_report.h: the data from which the files of an audit are made, and functions they share.
 *
 * docs/reference/AUDIT.md specifies the files.
 */
#ifndef SPSH_DEDUP_AUDIT_REPORT_H
#define SPSH_DEDUP_AUDIT_REPORT_H

#include "audit_sides.h"
#include "common/json_out.h"
#include "set/set_readers.h"

enum { SPSH__AUDIT_WARNINGS_MAX = 8, SPSH__AUDIT_WARNING_BYTES = 240 };

/* Facts that the page shows. */
typedef struct spsh__audit_facts {
    spsh__copy_facts common;
    const spsh__audit_roster *roster;
    const spsh__leaks *leaks;
    const spsh__text_facts *texts;
    spsh_text_profile profile;
    double fail_limits[SPSH_LEAK_COUNT]; /* allowed share of test utterances with a leak; > 1: no
                                            limit */
    bool is_failed;
} spsh__audit_facts;

typedef struct spsh__audit_report {
    spsh__audit_facts facts;
    const spsh__audit_sides *sides;
    const char *inputs; /* from spsh__audit_inputs */
    const spsh_io *io;
    bool has_aliases;
    uint8_t alias_hash[16]; /* XXH3-128 of the alias file */
} spsh__audit_report;

/* Whether the test split has more leaks of the kind than the limit allows. */
bool spsh__audit_is_failure(const spsh__audit_facts *facts, size_t split, spsh_leak leak);

/* Write the caveats a reader must know: first those that apply to every audit, then those specific
 * to this audit. Returns their number.
 */
size_t spsh__audit_warnings(const spsh__audit_report *report,
                            char ret_texts[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES]);

/* Count the test utterances of a split with a leak of SPSH__LEAK_DIRTY_MASK. */
uint64_t spsh__audit_dirty_count(const spsh__audit_report *report, size_t split);

/* Make a list's file name, like "clean-corpus-test.txt". Characters that are unsafe in file names
 * are replaced. No two splits get the same name. */
spsh_status spsh__audit_list_name(const spsh__audit_sides *sides, const char *list, size_t split,
                                  spsh__builder *ret_name, spsh_error *err);

/* Write the members of summary.json. */
spsh_status spsh__audit_put_summary(const spsh__audit_report *report, spsh_json *json,
                                    spsh_error *err);

/* Write the result members of the summary: failures, limits, and splits with their leaks. */
spsh_status spsh__audit_put_result(const spsh__audit_report *report, spsh_json *json,
                                   spsh_error *err);

/* Write a number with six decimals, the limit of its precision. NAN becomes null. */
void spsh__audit_put_real(spsh_json *json, const char *key, double value);

/* ---- lines about utterances ---- */

/* Write one line of pairs.jsonl from all matches of one pair of utterances, sorted. */
spsh_status spsh__audit_put_pair(const spsh__audit_report *report, const spsh__set_readers *readers,
                                 const spsh__match *matches, uint64_t count, spsh_json *json,
                                 spsh_error *err);

/* Write one line of leaks.jsonl for a test utterance, given by its number in the roster. */
spsh_status spsh__audit_put_leak(const spsh__audit_report *report, const spsh__set_readers *readers,
                                 uint64_t number, spsh_json *json, spsh_error *err);

/* Return the match with the train utterance as a and the test utterance as b. */
spsh__match spsh__audit_train_first(const spsh__audit_roster *roster, const spsh__match *match);

/** Append the page of an audit to out. Pictures are drawn as for spsh__plan_page. */
spsh_status spsh__audit_page(const spsh__audit_facts *facts, spsh__builder *out, spsh_error *err);

#endif
