/* text_join.c: read and index the test side. Then threads read the train side in pieces of 4,096
 * utterances. At the end, collect the hits of text, names, and source for each test utterance.
 *
 * Speakers and documents are columns of the index and are joined there (name_match.c). Texts and
 * sources come from the metadata in the shards. The result does not depend on which thread read an
 * utterance, because the index keeps counts and the lowest ordinals of each train split.
 */
#include "text_join.h"

#include <inttypes.h>
#include <stdlib.h>

#include "name_match.h"
#include "records/deal.h"
#include "set/set_readers.h"
#include "source_match.h"
#include "speechshard/inside.h"
#include "text_index.h"

enum { PIECE = 4096, THREADS_MAX = 256, MATCHES_DEFAULT = 10, MATCHES_LIMIT = 10000 };
enum { RATE_HZ = 8000 };
#define NO_SOURCE UINT32_MAX

typedef struct test_entry {
    uint64_t ordinal;
    uint32_t text, source; /* numbers in the text index and the source index */
} test_entry;

typedef struct join {
    const spsh__print_set *set;
    const spsh__text_join_options *options;
    spsh__hit_rule rule;
    spsh__text_index *texts;
    spsh__source_index *sources;
    spsh__name_join *speakers, *documents;
    test_entry *tests;
    uint64_t test_count;
    spsh__text_facts facts;
} join;

/* ---- reading ---- */

/* State of one thread. Initialize it with zeros. */
typedef struct rows {
    spsh__set_readers readers;
    spsh__builder scratch;
} rows;

static void rows_close(rows *r)
{
    spsh__set_readers_close(&r->readers);
    spsh__builder_free(&r->scratch);
}

/* Read an utterance. The result is borrowed until the next call. An utterance without a transcript
 * has an empty text. */
static spsh_status rows_get(rows *r, uint64_t ordinal, spsh_utterance *ret_utterance,
                            spsh__source_key *ret_source, spsh_error *err)
{
    const size_t dataset = spsh__print_set_place(r->readers.set, ordinal).number;
    spsh_status rc = spsh__set_readers_metadata(&r->readers, ordinal, ret_utterance, err);
    if (rc != SPSH_OK)
        return rc;
    if ((ret_utterance->flags & SPSH_UTTERANCE_HAS_TEXT) == 0)
        ret_utterance->text = (spsh_bytes){0};
    return spsh__source_key_of(ret_utterance, (uint32_t)dataset, &r->scratch, ret_source, err);
}

/* ---- the test side ---- */

static spsh_status add_test(join *j, rows *r, uint64_t ordinal, spsh_error *err)
{
    spsh_utterance utterance;
    spsh__source_key source;
    test_entry *entry = &j->tests[j->test_count];
    entry->ordinal = ordinal;
    entry->source = NO_SOURCE;
    spsh_status rc = rows_get(r, ordinal, &utterance, &source, err);
    if (rc == SPSH_OK)
        rc = spsh__text_index_add(j->texts, utterance.text, &entry->text, err);
    if (rc == SPSH_OK && source.is_known)
        rc = spsh__source_index_add(j->sources, &source, &entry->source, err);
    if (rc != SPSH_OK)
        return rc;
    j->facts.test_empty_count += entry->text == SPSH__TEXT_EMPTY;
    j->test_count++;
    return SPSH_OK;
}

static spsh_status check_memory(const join *j, spsh_error *err)
{
    const uint64_t bytes = spsh__text_index_bytes(j->texts) + spsh__source_index_bytes(j->sources) +
                           j->test_count * (sizeof(*j->tests) + sizeof(*j->facts.tests));
    if (bytes <= j->options->memory_bytes)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_LIMIT,
                     "the %" PRIu64 " utterances of the test side take %" PRIu64
                     " MB, but memory_bytes allows %" PRIu64
                     " MB; raise it, or audit the test side in parts",
                     j->test_count, bytes / 1000000, j->options->memory_bytes / 1000000);
}

static spsh_status read_tests(join *j, spsh_error *err)
{
    rows r = {0};
    const uint64_t count = spsh__print_set_count(j->set);
    const uint64_t tests = spsh__print_set_side_count(j->set, SPSH_SIDE_TEST);
    j->tests = calloc((size_t)tests + 1, sizeof(*j->tests));
    j->facts.tests = calloc((size_t)tests + 1, sizeof(*j->facts.tests));
    if (j->tests == NULL || j->facts.tests == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__set_readers_open(j->set, &r.readers, err);
    for (uint64_t ordinal = 0; ordinal < count && rc == SPSH_OK; ordinal++) {
        if (spsh__print_set_side(j->set, ordinal) != SPSH_SIDE_TEST)
            continue;
        rc = add_test(j, &r, ordinal, err);
        if (j->test_count % PIECE == 0)
            spsh__call_watch_report(j->options->watch, "test texts", j->test_count, tests);
    }
    rows_close(&r);
    j->facts.test_count = j->test_count;
    if (rc == SPSH_OK)
        rc = spsh__text_index_finish(j->texts, err);
    if (rc == SPSH_OK)
        rc = spsh__source_index_finish(j->sources, err);
    return rc == SPSH_OK ? check_memory(j, err) : rc;
}

/* ---- the train side ---- */

typedef struct worker {
    join *join;
    rows rows;
    spsh__text_probe *probe;
    uint64_t train, empty; /* train utterances; train utterances without text */
} worker;

static spsh_status take_train(void *user, uint64_t ordinal, spsh_error *err)
{
    worker *w = user;
    spsh_utterance utterance;
    spsh__source_key source;
    bool is_empty = false;
    if (spsh__print_set_side(w->join->set, ordinal) != SPSH_SIDE_TRAIN)
        return SPSH_OK;
    spsh_status rc = rows_get(&w->rows, ordinal, &utterance, &source, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__source_index_probe(w->join->sources, ordinal, &source);
    rc = spsh__text_probe_text(w->probe, ordinal, utterance.text, &is_empty, err);
    w->train++;
    w->empty += is_empty;
    return rc;
}

static spsh_status open_worker(void *worker_of, void *user, spsh_error *err)
{
    worker *w = worker_of;
    w->join = user;
    const spsh_status rc = spsh__set_readers_open(w->join->set, &w->rows.readers, err);
    return rc == SPSH_OK ? spsh__text_probe_open(w->join->texts, &w->probe, err) : rc;
}

static void close_worker(void *worker_of, void *user)
{
    worker *w = worker_of;
    join *j = user;
    j->facts.train_count += w->train;
    j->facts.train_empty_count += w->empty;
    j->facts.train_crowded_count += w->probe == NULL ? 0 : spsh__text_probe_crowded(w->probe);
    spsh__text_probe_free(w->probe);
    rows_close(&w->rows);
}

static spsh_status probe_train(join *j, spsh_error *err)
{
    const spsh__deal deal = {
        .end = spsh__print_set_count(j->set),
        .at_once = PIECE,
        .threads = j->options->threads < THREADS_MAX ? j->options->threads : THREADS_MAX,
        .user = j,
        .worker_bytes = sizeof(worker),
        .open_fn = open_worker,
        .close_fn = close_worker,
        .take_fn = take_train,
        .watch = j->options->watch,
        .stage = "train texts",
    };
    return spsh__deal_run(&deal, err);
}

/* ---- results ---- */

typedef struct found {
    spsh_copy_tier tier;
    uint64_t count;
    const spsh__hit *hits;
    uint32_t kept;
} found;

static spsh__match match_of(uint64_t test, spsh_copy_tier tier, const spsh__hit *hit)
{
    const bool test_first = test < hit->ordinal;
    const double a = test_first ? hit->test : hit->train;
    const double b = test_first ? hit->train : hit->test;
    spsh__match match = {
        .a = test_first ? test : hit->ordinal,
        .b = test_first ? hit->ordinal : test,
        .tier = tier,
    };
    if (tier == SPSH_TIER_TEXT_EXACT || tier == SPSH_TIER_TEXT_NEAR) {
        match.similarity = a;
    } else if (tier == SPSH_TIER_TEXT_COVERED) {
        match.coverage_a = a;
        match.coverage_b = b;
    } else if (tier == SPSH_TIER_SOURCE) {
        match.rate_hz = RATE_HZ;
        match.a_first = (uint64_t)(a * RATE_HZ + 0.5);
        match.b_first = (uint64_t)(b * RATE_HZ + 0.5);
    }
    return match;
}

static spsh_status send(uint64_t test, const found *f, const spsh__match_sink *sink,
                        spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (uint32_t i = 0; i < f->kept && rc == SPSH_OK; i++) {
        const spsh__match match = match_of(test, f->tier, &f->hits[i]);
        rc = sink->match_fn(sink->user, &match, err);
    }
    return rc;
}

static void find_texts(const join *j, uint32_t number, found ret_found[SPSH__TEXT_TIERS])
{
    for (unsigned tier = 0; tier < SPSH__TEXT_TIERS && number != SPSH__TEXT_EMPTY; tier++)
        ret_found[tier].count = spsh__text_index_hits(j->texts, (spsh__text_tier)tier, number,
                                                      &ret_found[tier].hits, &ret_found[tier].kept);
}

static spsh_status find_name(const spsh__name_join *names, uint64_t ordinal, found *ret_found,
                             spsh_error *err)
{
    uint32_t number = 0;
    const spsh_status rc = spsh__name_join_number(names, ordinal, &number, err);
    if (rc == SPSH_OK && number != SPSH__NAME_ABSENT)
        ret_found->count = spsh__name_join_hits(names, number, &ret_found->hits, &ret_found->kept);
    return rc;
}

static spsh_status send_test(join *j, uint64_t i, const spsh__match_sink *sink, spsh_error *err)
{
    found all[] = {{.tier = SPSH_TIER_TEXT_EXACT},   {.tier = SPSH_TIER_TEXT_NEAR},
                   {.tier = SPSH_TIER_TEXT_COVERED}, {.tier = SPSH_TIER_SPEAKER},
                   {.tier = SPSH_TIER_DOCUMENT},     {.tier = SPSH_TIER_SOURCE}};
    const test_entry *test = &j->tests[i];
    find_texts(j, test->text, all);
    spsh_status rc = find_name(j->speakers, test->ordinal, &all[3], err);
    if (rc == SPSH_OK)
        rc = find_name(j->documents, test->ordinal, &all[4], err);
    if (test->source != NO_SOURCE)
        all[5].count =
            spsh__source_index_hits(j->sources, test->source, &all[5].hits, &all[5].kept);
    for (size_t tier = 0; tier < sizeof(all) / sizeof(all[0]) && rc == SPSH_OK; tier++)
        rc = send(test->ordinal, &all[tier], sink, err);
    j->facts.tests[i] = (spsh__text_counts){
        .exact = all[0].count,
        .near = all[1].count,
        .covered = all[2].count,
        .speaker = all[3].count,
        .document = all[4].count,
        .source = all[5].count,
        .covered_share =
            test->text == SPSH__TEXT_EMPTY ? 0 : spsh__text_index_share(j->texts, test->text),
    };
    return rc;
}

static spsh_status join_names(join *j, spsh_error *err)
{
    spsh__name_rules *rules = NULL;
    spsh_status rc =
        spsh__name_rules_open(j->options->alias_path, j->options->fold_names, &rules, err);
    if (rc == SPSH_OK)
        rc = spsh__name_join_open(j->set, SPSH_NAME_SPEAKER, rules, j->rule, &j->speakers, err);
    if (rc == SPSH_OK)
        rc = spsh__name_join_open(j->set, SPSH_NAME_DOCUMENT, rules, j->rule, &j->documents, err);
    spsh__name_rules_free(rules);
    if (rc != SPSH_OK)
        return rc;
    const spsh__name_counts speakers = spsh__name_join_counts(j->speakers);
    const spsh__name_counts documents = spsh__name_join_counts(j->documents);
    j->facts.train_speaker_count = speakers.train;
    j->facts.test_speaker_count = speakers.test;
    j->facts.shared_speaker_count = speakers.shared;
    j->facts.train_document_count = documents.train;
    j->facts.test_document_count = documents.test;
    j->facts.shared_document_count = documents.shared;
    return SPSH_OK;
}

spsh_status spsh__text_join_run(const spsh__print_set *set, const spsh__text_join_options *options,
                                spsh__match_sink sink, spsh__text_facts *ret_facts, spsh_error *err)
{
    join j = {
        .set = set, .options = options, .rule = {MATCHES_DEFAULT, NULL}
    };
    if (options->matches_max > MATCHES_LIMIT)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a tier keeps at most %d matches", MATCHES_LIMIT);
    if (options->matches_max > 0)
        j.rule.keep = (uint32_t)options->matches_max;
    spsh_status rc = spsh__train_splits_open(set, &j.rule.splits, err);
    if (rc == SPSH_OK)
        rc = spsh__text_index_open(options->profile, j.rule, options->memory_bytes, &j.texts, err);
    if (rc == SPSH_OK)
        rc = spsh__source_index_open(j.rule, &j.sources, err);
    if (rc == SPSH_OK)
        rc = join_names(&j, err);
    if (rc == SPSH_OK)
        rc = read_tests(&j, err);
    if (rc == SPSH_OK)
        rc = probe_train(&j, err);
    if (rc == SPSH_OK)
        rc = spsh__train_splits_status(j.rule.splits, err);
    for (uint64_t i = 0; i < j.test_count && rc == SPSH_OK; i++)
        rc = send_test(&j, i, &sink, err);
    if (rc == SPSH_OK) {
        *ret_facts = j.facts;
        j.facts.tests = NULL;
    }
    spsh__text_index_free(j.texts);
    spsh__source_index_free(j.sources);
    spsh__name_join_free(j.speakers);
    spsh__name_join_free(j.documents);
    spsh__train_splits_free(j.rule.splits);
    free(j.tests);
    free(j.facts.tests);
    return rc;
}
