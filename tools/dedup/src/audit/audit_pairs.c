/* audit_pairs.c: lines of pairs.jsonl and leaks.jsonl. In both files, a is the train utterance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audit_report.h"
#include "speechshard/inside.h"

/* ---- matches ---- */

spsh__match spsh__audit_train_first(const spsh__audit_roster *roster, const spsh__match *match)
{
    const bool is_train_first = spsh__audit_test_number(roster, match->a) == SPSH_NONE_U64;
    return is_train_first ? *match : spsh__match_turned(match);
}

static bool is_audio(const spsh__match *match)
{
    return match->tier <= SPSH_TIER_SCALED;
}

static void put_segment(spsh_json *json, const spsh__match *match)
{
    const double rate_hz = match->rate_hz == 0 ? 1 : (double)match->rate_hz;
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(match->tier));
    spsh__json_put_string(json, "class", spsh_copy_class_text(match->kind));
    spsh__audit_put_real(json, "a_start", (double)match->a_first / rate_hz);
    spsh__audit_put_real(json, "a_end", (double)(match->a_first + match->count) / rate_hz);
    spsh__audit_put_real(json, "b_start", (double)match->b_first / rate_hz);
    spsh__audit_put_real(json, "b_end", (double)(match->b_first + match->count) / rate_hz);
    spsh__json_put_u64(json, "a_first", match->a_first);
    spsh__json_put_u64(json, "b_first", match->b_first);
    spsh__json_put_u64(json, "samples", match->count);
    spsh__json_put_u64(json, "rate_hz", match->rate_hz);
    spsh__audit_put_real(json, "lag_ms", 1000 * match->lag / rate_hz);
    spsh__audit_put_real(json, "active_s", match->active_s);
    spsh__audit_put_real(json, "coverage_a", match->coverage_a);
    spsh__audit_put_real(json, "coverage_b", match->coverage_b);
    spsh__audit_put_real(json, "ber", match->ber);
    spsh__audit_put_real(json, "ncc", match->ncc);
    spsh__audit_put_real(json, "ncc_white", match->ncc_white);
    spsh__audit_put_real(json, "envelope", match->envelope);
    spsh__audit_put_real(json, "block_share", match->block_share);
    spsh__audit_put_real(json, "slope_ppm", match->slope_ppm);
    spsh__audit_put_real(json, "scale", match->scale);
    spsh__json_put_string(json, "polarity", match->is_inverted ? "inverted" : "same");
    spsh__json_begin_array(json, "channels");
    spsh__json_put_u64(json, NULL, match->a_channel);
    spsh__json_put_u64(json, NULL, match->b_channel);
    spsh__json_end(json);
    spsh__json_end(json);
}

static const spsh__match *of_tier(const spsh__match *matches, uint64_t count, spsh_copy_tier tier)
{
    for (uint64_t i = 0; i < count; i++) {
        if (matches[i].tier == tier)
            return &matches[i];
    }
    return NULL;
}

static void put_text(spsh_json *json, const spsh__audit_roster *roster, const spsh__match *matches,
                     uint64_t count)
{
    const spsh__match *near = of_tier(matches, count, SPSH_TIER_TEXT_NEAR);
    const spsh__match *covered = of_tier(matches, count, SPSH_TIER_TEXT_COVERED);
    spsh__json_begin_object(json, "text");
    spsh__json_put_bool(json, "exact", of_tier(matches, count, SPSH_TIER_TEXT_EXACT) != NULL);
    spsh__audit_put_real(json, "similarity", near != NULL ? near->similarity : (double)NAN);
    spsh__audit_put_real(json, "ngram_cov",
                         covered != NULL ? spsh__audit_train_first(roster, covered).coverage_b
                                         : (double)NAN);
    spsh__json_end(json);
}

static void put_kinds(spsh_json *json, unsigned mask)
{
    spsh__json_begin_array(json, "kinds");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        if ((mask & 1U << k) != 0)
            spsh__json_put_string(json, NULL, spsh_leak_text((spsh_leak)k));
    }
    spsh__json_end(json);
}

static spsh_status put_utterance(spsh_json *json, const char *key, const spsh__audit_sides *sides,
                                 const spsh__set_readers *readers, uint64_t ordinal,
                                 spsh_error *err)
{
    const spsh__print_set *set = sides->set;
    spsh_utterance utterance;
    char file[32];
    spsh_status rc = spsh__set_readers_metadata(readers, ordinal, &utterance, err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_shard_name(set, ordinal, file, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_begin_object(json, key);
    spsh__json_put_string(json, "corpus",
                          sides->corpora[spsh__print_set_place(set, ordinal).number]);
    spsh__json_put_text_or_null(json, "split", utterance.split);
    spsh__json_put_text(json, "id", utterance.id);
    spsh__json_put_string(json, "shard", file);
    spsh__json_end(json);
    return SPSH_OK;
}

spsh_status spsh__audit_put_pair(const spsh__audit_report *report, const spsh__set_readers *readers,
                                 const spsh__match *matches, uint64_t count, spsh_json *json,
                                 spsh_error *err)
{
    const spsh__audit_roster *roster = &report->sides->roster;
    const spsh__match *best = spsh__match_strongest(matches, count);
    const spsh__match first = spsh__audit_train_first(roster, best);
    unsigned mask = 0;
    for (uint64_t i = 0; i < count; i++) {
        const spsh_leak leak = spsh__leak_of(&matches[i]);
        mask |= leak == SPSH_LEAK_COUNT ? 0 : 1U << leak;
    }
    spsh__json_put_string(json, "schema", "speechshard-audit-pair-1");
    spsh__json_put_u64(json, "thresholds_version", report->facts.common.limits->version);
    spsh__json_put_u64(json, "fp_version", SPSH__FINGERPRINT_VERSION);
    spsh_status rc = put_utterance(json, "a", report->sides, readers, first.a, err);
    if (rc == SPSH_OK)
        rc = put_utterance(json, "b", report->sides, readers, first.b, err);
    if (rc != SPSH_OK)
        return rc;
    put_kinds(json, mask);
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(first.tier));
    spsh__json_put_string(json, "class", spsh_copy_class_text(first.kind));
    spsh__json_begin_array(json, "segments");
    for (uint64_t i = 0; i < count; i++) {
        const spsh__match match = spsh__audit_train_first(roster, &matches[i]);
        if (is_audio(&match))
            put_segment(json, &match);
    }
    spsh__json_end(json);
    put_text(json, roster, matches, count);
    spsh__json_begin_object(json, "meta");
    spsh__json_put_bool(json, "speaker", of_tier(matches, count, SPSH_TIER_SPEAKER) != NULL);
    spsh__json_put_bool(json, "document", of_tier(matches, count, SPSH_TIER_DOCUMENT) != NULL);
    spsh__json_put_bool(json, "source", of_tier(matches, count, SPSH_TIER_SOURCE) != NULL);
    spsh__json_end(json);
    return SPSH_OK;
}

/* ---- leaks ---- */

static spsh_status put_evidence(const spsh__audit_report *report, const spsh__set_readers *readers,
                                uint64_t number, spsh_leak leak, spsh_json *json, spsh_error *err)
{
    const spsh__audit_roster *roster = &report->sides->roster;
    const spsh__leak_evidence *evidence =
        &report->facts.leaks->evidence[number * SPSH_LEAK_COUNT + leak];
    const spsh__match match =
        spsh__audit_train_first(roster, &report->facts.leaks->matches[evidence->match]);
    spsh_utterance other;
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "kind", spsh_leak_text(leak));
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(match.tier));
    spsh__json_put_string(json, "class", spsh_copy_class_text(match.kind));
    spsh_status rc = put_utterance(json, "train", report->sides, readers, match.a, err);
    if (rc == SPSH_OK && evidence->of != roster->test_ordinals[number]) {
        rc = spsh__set_readers_metadata(readers, evidence->of, &other, err);
        if (rc == SPSH_OK)
            spsh__json_put_text(json, "copy_of", other.id);
    } else {
        spsh__json_put_null(json, "copy_of");
    }
    if (is_audio(&match)) {
        const double rate_hz = match.rate_hz == 0 ? 1 : (double)match.rate_hz;
        spsh__audit_put_real(json, "start_s", (double)match.b_first / rate_hz);
        spsh__audit_put_real(json, "train_start_s", (double)match.a_first / rate_hz);
        spsh__audit_put_real(json, "seconds", (double)match.count / rate_hz);
        spsh__audit_put_real(json, "ber", match.ber);
        spsh__audit_put_real(json, "ncc", match.ncc);
    } else if (match.tier == SPSH_TIER_TEXT_NEAR) {
        spsh__audit_put_real(json, "similarity", match.similarity);
    } else if (match.tier == SPSH_TIER_TEXT_COVERED) {
        spsh__audit_put_real(json, "ngram_cov", match.coverage_b);
    }
    spsh__json_end(json);
    return rc;
}

/* Write the number of train utterances that share each text or name. pairs.jsonl lists only the
 * first ones. */
static void put_train_counts(spsh_json *json, const spsh__text_counts *counts)
{
    const struct {
        spsh_leak leak;
        uint64_t count;
    } values[] = {
        {SPSH_LEAK_SENTENCE,      counts->exact                 },
        {SPSH_LEAK_SENTENCE_NEAR, counts->near + counts->covered},
        {SPSH_LEAK_DOCUMENT,      counts->document              },
        {SPSH_LEAK_SOURCE,        counts->source                },
        {SPSH_LEAK_SPEAKER,       counts->speaker               },
    };
    spsh__json_begin_object(json, "train_utterances");
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        spsh__json_put_u64(json, spsh_leak_text(values[i].leak), values[i].count);
    spsh__json_end(json);
}

spsh_status spsh__audit_put_leak(const spsh__audit_report *report, const spsh__set_readers *readers,
                                 uint64_t number, spsh_json *json, spsh_error *err)
{
    const spsh__audit_roster *roster = &report->sides->roster;
    const uint64_t ordinal = roster->test_ordinals[number];
    const spsh__leak_evidence *evidence = report->facts.leaks->evidence + number * SPSH_LEAK_COUNT;
    const spsh__audit_split *split = &report->sides->test[roster->test_splits[number]];
    spsh_utterance utterance;
    spsh_status rc = spsh__set_readers_metadata(readers, ordinal, &utterance, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_put_string(json, "schema", "speechshard-audit-leak-1");
    spsh__json_put_text(json, "id", utterance.id);
    spsh__json_put_string(json, "corpus", split->corpus);
    spsh__json_put_text_or_null(json, "split", split->name);
    spsh__audit_put_real(json, "seconds", roster->test_seconds[number]);
    put_kinds(json, report->facts.leaks->masks[number]);
    spsh__audit_put_real(json, "ngram_share", report->facts.texts->tests[number].covered_share);
    put_train_counts(json, &report->facts.texts->tests[number]);
    spsh__json_begin_array(json, "evidence");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT && rc == SPSH_OK; k++) {
        if (evidence[k].match != SPSH_NONE_U64)
            rc = put_evidence(report, readers, number, (spsh_leak)k, json, err);
    }
    spsh__json_end(json);
    return rc;
}
