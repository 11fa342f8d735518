/* audit_summary.c: summary.json, and parts that other files share: failures, warnings, list names.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_report.h"
#include "speechshard/inside.h"

/* Maximum size of a dataset's and a split's name together in a file name, without the dash. */
enum { SLUG_BYTES_MAX = 160 };

/* ---- failures and warnings ---- */

bool spsh__audit_is_failure(const spsh__audit_facts *facts, size_t split, spsh_leak leak)
{
    const double part = (double)facts->leaks->totals[split].utterances[leak];
    const double whole = (double)facts->roster->test[split].utterances;
    /* The tolerance allows for a percentage that binary numbers cannot express. A share equal to
     * the limit is not a failure. */
    return part > facts->fail_limits[leak] * whole + 1e-9 * whole;
}

size_t spsh__audit_warnings(const spsh__audit_report *report,
                            char ret_texts[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES])
{
    const spsh__audit_facts *facts = &report->facts;
    const uint64_t undecoded = facts->common.copies->undecoded_count;
    size_t count = 0;
    snprintf(ret_texts[count++], SPSH__AUDIT_WARNING_BYTES,
             "an error rate may stay the same although there are leaks (arXiv 2505.22251); state "
             "it for the whole test set, its clean part, and its leaked part");
    snprintf(ret_texts[count++], SPSH__AUDIT_WARNING_BYTES,
             "speakers are compared by the names in the corpora, which may name a browser instead "
             "of a person (Common Voice); no common speaker proves nothing");
    if (facts->texts->test_empty_count > 0)
        snprintf(ret_texts[count++], SPSH__AUDIT_WARNING_BYTES,
                 "%" PRIu64 " of %" PRIu64
                 " test utterances have no text, so nothing is known about their sentences",
                 facts->texts->test_empty_count, facts->texts->test_count);
    if (facts->texts->train_empty_count > 0)
        snprintf(ret_texts[count++], SPSH__AUDIT_WARNING_BYTES,
                 "%" PRIu64 " of %" PRIu64
                 " train utterances have no text, so nothing is known about their sentences",
                 facts->texts->train_empty_count, facts->texts->train_count);
    if (facts->texts->train_crowded_count > 0)
        snprintf(ret_texts[count++], SPSH__AUDIT_WARNING_BYTES,
                 "%" PRIu64 " train texts resemble so many test texts that not all were compared; "
                 "sentence_near is a lower bound",
                 facts->texts->train_crowded_count);
    if (undecoded > 0)
        snprintf(ret_texts[count++], SPSH__AUDIT_WARNING_BYTES,
                 "%" PRIu64 " utterances cannot be decoded, so nothing is known about their audio "
                 "except whether their bytes are equal",
                 undecoded);
    return count;
}

uint64_t spsh__audit_dirty_count(const spsh__audit_report *report, size_t split)
{
    const spsh__audit_roster *roster = &report->sides->roster;
    uint64_t count = 0;
    for (uint64_t i = 0; i < roster->test_utterance_count; i++) {
        if (roster->test_splits[i] == split &&
            (report->facts.leaks->masks[i] & SPSH__LEAK_DIRTY_MASK) != 0)
            count++;
    }
    return count;
}

/* ---- names of lists ---- */

static void append_slug(spsh__builder *name, spsh_bytes text)
{
    static const char kept[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t end = name->size_bytes + SLUG_BYTES_MAX / 2;
    for (size_t i = 0; i < text.size_bytes && name->size_bytes < end; i++) {
        const bool is_kept = text.data[i] != 0 && strchr(kept, text.data[i]) != NULL;
        spsh__builder_append(name, is_kept ? (const char *)&text.data[i] : "_", 1);
    }
}

static void build_slug(const spsh__audit_split *split, spsh__builder *slug)
{
    static const char extension[] = ".spsh";
    spsh_bytes corpus = {(const uint8_t *)split->corpus, strlen(split->corpus)};
    const size_t bytes = sizeof(extension) - 1;
    if (corpus.size_bytes > bytes &&
        memcmp(corpus.data + corpus.size_bytes - bytes, extension, bytes) == 0)
        corpus.size_bytes -= bytes;
    append_slug(slug, corpus);
    if (split->name.size_bytes > 0) {
        spsh__builder_append_text(slug, "-");
        append_slug(slug, split->name);
    }
}

spsh_status spsh__audit_list_name(const spsh__audit_sides *sides, const char *list, size_t split,
                                  spsh__builder *ret_name, spsh_error *err)
{
    spsh__builder slug = {0};
    spsh__builder other = {0};
    size_t alike = 0;
    char number[32] = "";
    build_slug(&sides->test[split], &slug);
    for (size_t i = 0; i < split; i++) {
        spsh__builder_clear(&other);
        build_slug(&sides->test[i], &other);
        if (other.size_bytes == slug.size_bytes &&
            (slug.size_bytes == 0 || memcmp(other.data, slug.data, slug.size_bytes) == 0))
            alike++;
    }
    /* A slug never contains '+', so a numbered name is unique. */
    if (alike > 0)
        snprintf(number, sizeof(number), "+%zu", alike + 1);
    spsh__builder_clear(ret_name);
    spsh__builder_append_text(ret_name, list);
    spsh__builder_append_text(ret_name, "-");
    spsh__builder_append_bytes(ret_name, spsh__builder_bytes(&slug));
    spsh__builder_append_text(ret_name, number);
    spsh__builder_append_text(ret_name, ".txt");
    const bool failed = slug.failed || other.failed || spsh__builder_text(ret_name) == NULL;
    spsh__builder_free(&slug);
    spsh__builder_free(&other);
    return failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

/* ---- summary.json ---- */

void spsh__audit_put_real(spsh_json *json, const char *key, double value)
{
    spsh__json_put_real(json, key, round(value * 1e6) / 1e6);
}

static void put_leaks(spsh_json *json, const spsh__leak_cell *cell, uint64_t whole)
{
    spsh__json_begin_object(json, "leaks");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        double low = 0;
        double high = 0;
        spsh__leak_interval(cell->utterances[k], whole, &low, &high);
        spsh__json_begin_object(json, spsh_leak_text((spsh_leak)k));
        spsh__json_put_u64(json, "utterances", cell->utterances[k]);
        spsh__audit_put_real(json, "percent",
                             whole == 0 ? 0 : 100 * (double)cell->utterances[k] / (double)whole);
        spsh__audit_put_real(json, "percent_low", 100 * low);
        spsh__audit_put_real(json, "percent_high", 100 * high);
        spsh__audit_put_real(json, "minutes", cell->seconds[k] / 60);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_split(spsh_json *json, const spsh__audit_split *split,
                      const spsh__leak_split *facts)
{
    spsh__json_put_string(json, "corpus", split->corpus);
    spsh__json_put_text_or_null(json, "split", split->name);
    spsh__json_put_u64(json, "utterances", facts->utterances);
    spsh__audit_put_real(json, "seconds", facts->seconds);
}

static spsh_status put_lists(const spsh__audit_report *report, size_t split, spsh_json *json,
                             spsh_error *err)
{
    static const char *const lists[] = {"clean", "dirty"};
    const uint64_t dirty = spsh__audit_dirty_count(report, split);
    const uint64_t counts[] = {report->facts.roster->test[split].utterances - dirty, dirty};
    spsh__builder name = {0};
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < 2 && rc == SPSH_OK; i++) {
        rc = spsh__audit_list_name(report->sides, lists[i], split, &name, err);
        if (rc != SPSH_OK)
            break;
        spsh__json_begin_object(json, lists[i]);
        spsh__json_put_u64(json, "utterances", counts[i]);
        spsh__json_put_string(json, "file", spsh__builder_text(&name));
        spsh__json_end(json);
    }
    spsh__builder_free(&name);
    return rc;
}

static spsh_status put_sides(const spsh__audit_report *report, spsh_json *json, spsh_error *err)
{
    const spsh__audit_facts *facts = &report->facts;
    spsh_status rc = SPSH_OK;
    spsh__json_begin_array(json, "train");
    for (size_t i = 0; i < facts->roster->train_count; i++) {
        spsh__json_begin_object(json, NULL);
        put_split(json, &report->sides->train[i], &facts->roster->train[i]);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    spsh__json_begin_array(json, "test");
    for (size_t i = 0; i < facts->roster->test_count && rc == SPSH_OK; i++) {
        spsh__json_begin_object(json, NULL);
        put_split(json, &report->sides->test[i], &facts->roster->test[i]);
        put_leaks(json, &facts->leaks->totals[i], facts->roster->test[i].utterances);
        rc = put_lists(report, i, json, err);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    return rc;
}

/* Write the matrix train split x test split. Its indices refer to the two arrays written before. */
static void put_cells(const spsh__audit_facts *facts, spsh_json *json)
{
    spsh__json_begin_array(json, "cells");
    for (size_t i = 0; i < facts->roster->train_count; i++) {
        for (size_t k = 0; k < facts->roster->test_count; k++) {
            spsh__json_begin_object(json, NULL);
            spsh__json_put_u64(json, "train", i);
            spsh__json_put_u64(json, "test", k);
            put_leaks(json, &facts->leaks->cells[i * facts->roster->test_count + k],
                      facts->roster->test[k].utterances);
            spsh__json_end(json);
        }
    }
    spsh__json_end(json);
}

static void put_limits(const spsh__audit_facts *facts, spsh_json *json)
{
    spsh__json_begin_object(json, "limits_percent");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        const double limit = facts->fail_limits[k];
        spsh__audit_put_real(json, spsh_leak_text((spsh_leak)k),
                             limit <= 1 ? 100 * limit : (double)NAN);
    }
    spsh__json_end(json);
}

static void put_failure(const spsh__audit_facts *facts, size_t split, spsh_leak leak,
                        spsh_json *json)
{
    const uint64_t part = facts->leaks->totals[split].utterances[leak];
    spsh__json_begin_object(json, NULL);
    spsh__json_put_u64(json, "test", split);
    spsh__json_put_string(json, "kind", spsh_leak_text(leak));
    spsh__json_put_u64(json, "utterances", part);
    spsh__audit_put_real(json, "percent",
                         100 * (double)part / (double)facts->roster->test[split].utterances);
    spsh__audit_put_real(json, "limit_percent", 100 * facts->fail_limits[leak]);
    spsh__json_end(json);
}

static void put_failures(const spsh__audit_facts *facts, spsh_json *json)
{
    spsh__json_put_bool(json, "failed", facts->is_failed);
    spsh__json_begin_array(json, "failures");
    for (size_t i = 0; i < facts->roster->test_count; i++) {
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
            if (spsh__audit_is_failure(facts, i, (spsh_leak)k))
                put_failure(facts, i, (spsh_leak)k, json);
        }
    }
    spsh__json_end(json);
}

/* Write the amount of work, without values that depend on the machine. */
static void put_work(const spsh__audit_facts *facts, spsh_json *json)
{
    const spsh__copies_facts *copies = facts->common.copies;
    const spsh__text_facts *texts = facts->texts;
    spsh__json_begin_object(json, "looked_at");
    spsh__json_put_u64(json, "candidates", copies->join.candidate_count);
    spsh__json_put_u64(json, "judged", copies->judge.judged_count);
    spsh__json_put_u64(json, "frame_pairs", copies->judge.frame_pairs);
    spsh__json_put_u64(json, "undecoded", copies->undecoded_count);
    spsh__json_put_u64(json, "train_without_text", texts->train_empty_count);
    spsh__json_put_u64(json, "test_without_text", texts->test_empty_count);
    spsh__json_put_u64(json, "train_speakers", texts->train_speaker_count);
    spsh__json_put_u64(json, "test_speakers", texts->test_speaker_count);
    spsh__json_put_u64(json, "shared_speakers", texts->shared_speaker_count);
    spsh__json_put_u64(json, "train_documents", texts->train_document_count);
    spsh__json_put_u64(json, "test_documents", texts->test_document_count);
    spsh__json_put_u64(json, "shared_documents", texts->shared_document_count);
    spsh__json_end(json);
}

spsh_status spsh__audit_put_result(const spsh__audit_report *report, spsh_json *json,
                                   spsh_error *err)
{
    put_failures(&report->facts, json);
    put_limits(&report->facts, json);
    return put_sides(report, json, err);
}

spsh_status spsh__audit_put_summary(const spsh__audit_report *report, spsh_json *json,
                                    spsh_error *err)
{
    char warnings[SPSH__AUDIT_WARNINGS_MAX][SPSH__AUDIT_WARNING_BYTES];
    const size_t warning_count = spsh__audit_warnings(report, warnings);
    spsh__json_put_string(json, "schema", "speechshard-audit-summary-1");
    spsh__json_put_string(json, "version", spsh_version());
    spsh__json_put_string(json, "profile", spsh__text_profile_name(report->facts.profile));
    spsh__json_put_u64(json, "fp_version", SPSH__FINGERPRINT_VERSION);
    spsh__json_put_u64(json, "thresholds_version", report->facts.common.limits->version);
    const spsh_status rc = spsh__audit_put_result(report, json, err);
    put_cells(&report->facts, json);
    put_work(&report->facts, json);
    spsh__json_put_u64(json, "matches", report->facts.leaks->match_count);
    spsh__json_begin_array(json, "warnings");
    for (size_t i = 0; i < warning_count; i++)
        spsh__json_put_string(json, NULL, warnings[i]);
    spsh__json_end(json);
    return rc;
}
