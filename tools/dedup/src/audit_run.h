/* audit_run.h: all findings of an audit. audit_result.c gives the public access. */
#ifndef SPSH_AUDIT_RUN_H
#define SPSH_AUDIT_RUN_H

#include "audit/audit_report.h"

/* One kind of leak in one test split, with its example. */
typedef struct spsh__leak_shown {
    spsh_audit_leak leak;
    spsh_audit_example example;
    spsh_copy_match match;
    uint8_t *ids; /* storage of the example's two ids */
} spsh__leak_shown;

struct spsh_audit {
    spsh__print_set *set;
    spsh__audit_sides *sides;
    spsh__audit *audit;
    spsh__copies_facts copies;
    spsh__text_facts texts;
    spsh__leaks leaks;
    spsh__audit_report report;
    char *inputs;
    /* public results */
    size_t split_count;
    spsh_audit_split *splits;
    spsh__leak_shown *shown; /* split_count x SPSH_LEAK_COUNT items */
    size_t warning_count;
    char warnings[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES];
};

/* Fill splits, shown, and warnings from the facts. */
spsh_status spsh__audit_show(spsh_audit *audit, spsh_error *err);

#endif
