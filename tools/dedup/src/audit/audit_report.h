/* audit_report.h: everything that the files of an audit are made of, and what they share.
 *
 * docs/AUDIT.md is normative for what is written.
 */
#ifndef SPSH_DEDUP_AUDIT_REPORT_H
#define SPSH_DEDUP_AUDIT_REPORT_H

#include "audit_sides.h"
#include "common/json_out.h"
#include "set/set_readers.h"

enum { SPSH__AUDIT_WARNINGS_MAX = 8, SPSH__AUDIT_WARNING_BYTES = 240 };

/* What the page shows. */
typedef struct spsh__audit_facts {
    spsh__copy_facts common;
    const spsh__audit_roster *roster;
    const spsh__leaks *leaks;
    const spsh__text_facts *texts;
    spsh_text_profile profile;
    double fail_limits[SPSH_LEAK_COUNT]; /* share of test utterances allowed; > 1: any */
    bool is_failed;
} spsh__audit_facts;

typedef struct spsh__audit_report {
    spsh__audit_facts facts;
    const spsh__audit_sides *sides;
    const char *inputs; /* spsh__audit_inputs */
    const spsh_io *io;
    bool has_aliases;
    uint8_t alias_hash[16]; /* XXH3-128 of the file */
} spsh__audit_report;

/* Has the test split more of the kind than the limit allows? */
bool spsh__audit_is_failure(const spsh__audit_facts *facts, size_t split, spsh_leak leak);

/* What a reader of the numbers must know: of every audit, then of this one. Returns their number.
 */
size_t spsh__audit_warnings(const spsh__audit_report *report,
                            char ret_texts[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES]);

/* Test utterances of a split with a kind of SPSH__LEAK_DIRTY_MASK. */
uint64_t spsh__audit_dirty_count(const spsh__audit_report *report, size_t split);

/* "clean-corpus-test.txt": the split's name as far as files can have it, and never two alike. */
spsh_status spsh__audit_list_name(const spsh__audit_sides *sides, const char *list, size_t split,
                                  spsh__builder *ret_name, spsh_error *err);

/* Members of summary.json. */
spsh_status spsh__audit_put_summary(const spsh__audit_report *report, spsh_json *json,
                                    spsh_error *err);

/* Of them, what came out: failures, limits, splits with their leaks. */
spsh_status spsh__audit_put_result(const spsh__audit_report *report, spsh_json *json,
                                   spsh_error *err);

/* Six digits behind the point: what is below was not measured. NAN: null. */
void spsh__audit_put_real(spsh_json *json, const char *key, double value);

/* ---- what is said of single utterances ---- */

/* One line of pairs.jsonl: matches of one pair of utterances, sorted. */
spsh_status spsh__audit_put_pair(const spsh__audit_report *report, const spsh__set_readers *readers,
                                 const spsh__match *matches, uint64_t count, spsh_json *json,
                                 spsh_error *err);

/* One line of leaks.jsonl: a test utterance by its number in the roster. */
spsh_status spsh__audit_put_leak(const spsh__audit_report *report, const spsh__set_readers *readers,
                                 uint64_t number, spsh_json *json, spsh_error *err);

/* A match seen from train: a of train, b of test. */
spsh__match spsh__audit_train_first(const spsh__audit_roster *roster, const spsh__match *match);

/** The page of an audit, appended to out; its pictures are as spsh__plan_page has them. */
spsh_status spsh__audit_page(const spsh__audit_facts *facts, spsh__builder *out, spsh_error *err);

#endif
