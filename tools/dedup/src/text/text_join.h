/* text_join.h: which transcripts are the same, nearly the same, or occur in longer ones; which
 * speakers, documents and sources are on both sides.
 *
 *     spsh__text_join_run(set, &options, sink, &facts, err);
 *
 * The test side is small and held in memory; the train side is streamed once. Nothing of this may
 * drop anything: the same sentence is read by many.
 *
 * TEXT_EXACT: equal normalised texts. TEXT_NEAR: the edit distance is at most 15 % of the longer
 * (text_near.h). TEXT_COVERED: at least half of a test text's runs of words occur in one train text
 * (text_cover.h). A pair has the strongest of the three alone. SPEAKER, DOCUMENT: equal names,
 * through aliases (name_match.h). SOURCE: the same file or URL, or stretches of it that overlap
 * (source_match.h); a_first and b_first of such a match say, at 8,000 Hz, where that begins.
 */
#ifndef SPSH_DEDUP_TEXT_JOIN_H
#define SPSH_DEDUP_TEXT_JOIN_H

#include "records/call_watch.h"
#include "set/match.h"
#include "set/print_set.h"
#include "text_profile.h"

typedef struct spsh__text_join_options {
    spsh_text_profile profile;
    const char *alias_path; /* lines: name, TAB, the name it stands for; NULL: none */
    bool fold_names;        /* compare speakers and documents by their case-folded names */
    uint64_t matches_max;   /* a test utterance, tier and train split (of a dataset): the first ones
                               by ordinal; further ones are only counted; 0: 10 */
    uint64_t memory_bytes;
    uint32_t threads;
    spsh__call_watch *watch; /* may be NULL */
} spsh__text_join_options;

/* For one test utterance: how many train utterances each tier found, in the sink and beyond. */
typedef struct spsh__text_counts {
    uint64_t exact, near, covered, speaker, document, source;
    double covered_share; /* of its n-grams, those that occur anywhere in train */
} spsh__text_counts;

typedef struct spsh__text_facts {
    uint64_t train_count, test_count;             /* utterances read */
    uint64_t train_empty_count, test_empty_count; /* no text, or none after normalising */
    uint64_t train_crowded_count; /* texts of which not all near candidates were measured */
    uint64_t train_speaker_count, test_speaker_count, shared_speaker_count;
    uint64_t train_document_count, test_document_count, shared_document_count;
    spsh__text_counts *tests; /* by order of the test side's ordinals; from malloc */
} spsh__text_facts;

/* Matches arrive by test utterance, then tier, then train utterance: the same for any number of
 * threads. SPSH_E_LIMIT when memory_bytes does not hold the test side. */
spsh_status spsh__text_join_run(const spsh__print_set *set, const spsh__text_join_options *options,
                                spsh__match_sink sink, spsh__text_facts *ret_facts,
                                spsh_error *err);

#endif
