/* audit_result.c: the public access to the findings of an audit. */
#include <stdlib.h>
#include <string.h>

#include "audit_run.h"
#include "pair/pair_audio.h"
#include "speechshard/inside.h"

/* Find the test utterance of a split with the strongest evidence of a kind. Returns
 * SPSH_NONE_U64 without such a leak. */
static uint64_t find_example(const spsh_audit *a, size_t split, unsigned leak)
{
    const spsh__audit_roster *roster = &a->sides->roster;
    const spsh__leaks *leaks = &a->leaks;
    uint64_t best = SPSH_NONE_U64;
    for (uint64_t i = 0; i < roster->test_utterance_count; i++) {
        const uint64_t match = leaks->evidence[i * SPSH_LEAK_COUNT + leak].match;
        if (roster->test_splits[i] != split || match == SPSH_NONE_U64)
            continue;
        if (best == SPSH_NONE_U64 ||
            spsh__leak_compare(
                &leaks->matches[match],
                &leaks->matches[leaks->evidence[best * SPSH_LEAK_COUNT + leak].match]) < 0)
            best = i;
    }
    return best;
}

/* Copy both ids, because a reader's strings are valid only until its next call. */
static spsh_status copy_ids(const spsh__set_readers *readers, const uint64_t ordinals[2],
                            spsh__leak_shown *shown, spsh_error *err)
{
    spsh__builder ids = {0};
    size_t test_bytes = 0;
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < 2 && rc == SPSH_OK; i++) {
        spsh_utterance utterance;
        test_bytes = ids.size_bytes;
        rc = spsh__set_readers_metadata(readers, ordinals[i], &utterance, err);
        if (rc == SPSH_OK)
            spsh__builder_append_bytes(&ids, utterance.id);
    }
    if (rc == SPSH_OK && ids.failed)
        rc = SPSH_NO_MEMORY(err);
    shown->ids = ids.data;
    if (rc != SPSH_OK)
        return rc;
    shown->example.test_id = (spsh_bytes){ids.data, test_bytes};
    shown->example.train_id = (spsh_bytes){ids.data + test_bytes, ids.size_bytes - test_bytes};
    return SPSH_OK;
}

static spsh_status show_example(const spsh_audit *a, const spsh__set_readers *readers,
                                uint64_t number, unsigned leak, spsh__leak_shown *shown,
                                spsh_error *err)
{
    const spsh__audit_roster *roster = &a->sides->roster;
    const uint64_t found = a->leaks.evidence[number * SPSH_LEAK_COUNT + leak].match;
    const spsh__match match = spsh__audit_train_first(roster, &a->leaks.matches[found]);
    const uint64_t ordinals[2] = {roster->test_ordinals[number], match.a};
    shown->match = spsh__pair_match_show(&match);
    shown->example.train_corpus = a->sides->corpora[spsh__print_set_place(a->set, match.a).number];
    shown->example.match = &shown->match;
    shown->leak.example = &shown->example;
    return copy_ids(readers, ordinals, shown, err);
}

static spsh_status show_split(spsh_audit *a, const spsh__set_readers *readers, size_t split,
                              spsh_error *err)
{
    const spsh__audit_facts *facts = &a->report.facts;
    const spsh__leak_split *test = &facts->roster->test[split];
    const spsh__leak_cell *cell = &a->leaks.totals[split];
    a->splits[split] = (spsh_audit_split){test->name, test->utterances, test->seconds,
                                          spsh__audit_dirty_count(&a->report, split)};
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        spsh__leak_shown *shown = &a->shown[split * SPSH_LEAK_COUNT + k];
        spsh_audit_leak *leak = &shown->leak;
        const uint64_t number = find_example(a, split, k);
        leak->utterance_count = cell->utterances[k];
        leak->seconds = cell->seconds[k];
        spsh__leak_interval(cell->utterances[k], test->utterances, &leak->share_low,
                            &leak->share_high);
        leak->limit = facts->fail_limits[k];
        leak->is_failure = spsh__audit_is_failure(facts, split, (spsh_leak)k);
        const spsh_status rc =
            number == SPSH_NONE_U64 ? SPSH_OK : show_example(a, readers, number, k, shown, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

spsh_status spsh__audit_show(spsh_audit *audit, spsh_error *err)
{
    const size_t count = audit->sides->roster.test_count;
    spsh__set_readers readers = {0};
    audit->splits = calloc(count + 1, sizeof(*audit->splits));
    audit->shown = calloc(count * SPSH_LEAK_COUNT + 1, sizeof(*audit->shown));
    if (audit->splits == NULL || audit->shown == NULL)
        return SPSH_NO_MEMORY(err);
    audit->split_count = count;
    spsh_status rc = spsh__set_readers_open(audit->set, &readers, err);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = show_split(audit, &readers, i, err);
    spsh__set_readers_close(&readers);
    audit->warning_count = spsh__audit_warnings(&audit->report, audit->warnings);
    return rc;
}

size_t spsh_audit_split_count(const spsh_audit *audit)
{
    return audit->split_count;
}

const spsh_audit_split *spsh_audit_split_get(const spsh_audit *audit, size_t split)
{
    return &audit->splits[split];
}

const spsh_audit_leak *spsh_audit_leak_get(const spsh_audit *audit, size_t split, spsh_leak leak)
{
    return &audit->shown[split * SPSH_LEAK_COUNT + leak].leak;
}

size_t spsh_audit_warning_count(const spsh_audit *audit)
{
    return audit->warning_count;
}

const char *spsh_audit_warning(const spsh_audit *audit, size_t index)
{
    return audit->warnings[index];
}

void spsh_audit_free(spsh_audit *audit)
{
    if (audit == NULL)
        return;
    for (size_t i = 0; i < audit->split_count * SPSH_LEAK_COUNT; i++)
        free(audit->shown[i].ids);
    free(audit->shown);
    free(audit->splits);
    spsh__audit_close(audit->audit);
    spsh__audit_sides_free(audit->sides);
    spsh__print_set_close(audit->set);
    free(audit->texts.tests);
    free(audit->inputs);
    free(audit);
}
