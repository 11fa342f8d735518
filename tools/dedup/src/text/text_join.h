/* text_join.h: find transcripts that are equal, nearly equal, or part of longer ones, and speakers,
 * documents, and sources that are on both sides.
 *
 *     spsh__text_join_run(set, &options, sink, &facts, err);
 *
 * The test side is small and is held in memory. The train side is streamed once. These matches
 * never drop an utterance, because many speakers read the same sentence.
 *
 * TEXT_EXACT: equal normalized texts. TEXT_NEAR: the edit distance is at most 15 % of the longer
 * text (text_near.h). TEXT_COVERED: at least half of a test text's runs of words occur in one train
 * text (text_cover.h). A pair has only the strongest of these three. SPEAKER, DOCUMENT: equal
 * names, after aliases (name_match.h). SOURCE: the same file or URL, or overlapping stretches of it
 * (source_match.h). In such a match, a_first and b_first are the begin of the overlap at 8,000 Hz.
 */
#ifndef SPSH_DEDUP_TEXT_JOIN_H
#define SPSH_DEDUP_TEXT_JOIN_H

#include "records/call_watch.h"
#include "set/match.h"
#include "set/print_set.h"
#include "text_profile.h"

typedef struct spsh__text_join_options {
    spsh_text_profile profile;
    const char *alias_path; /* lines of a name, a TAB, and the name it stands for; NULL: no
                               aliases */
    bool fold_names;        /* compare case-folded names of speakers and documents */
    uint64_t matches_max;   /* maximum number of matches, lowest ordinals first, per test utterance,
                               tier, and train split of a dataset; further ones are only counted; 0:
                               10 */
    uint64_t memory_bytes;
    uint32_t threads;
    spsh__call_watch *watch; /* may be NULL */
} spsh__text_join_options;

/* Number of train utterances that each tier found for one test utterance, sent to the sink or not.
 */
typedef struct spsh__text_counts {
    uint64_t exact, near, covered, speaker, document, source;
    double covered_share; /* share of the text's runs of words that occur anywhere in train */
} spsh__text_counts;

typedef struct spsh__text_facts {
    uint64_t train_count, test_count;             /* number of utterances read */
    uint64_t train_empty_count, test_empty_count; /* utterances with no text, or none after
                                                     normalization */
    uint64_t train_crowded_count; /* texts for which some near candidates were not measured */
    uint64_t train_speaker_count, test_speaker_count, shared_speaker_count;
    uint64_t train_document_count, test_document_count, shared_document_count;
    spsh__text_counts *tests; /* in order of the test side's ordinals; free with free() */
} spsh__text_facts;

/* Run the join. Matches arrive by test utterance, then tier, then train utterance, for any number
 * of threads. SPSH_E_LIMIT if the test side does not fit into memory_bytes. */
spsh_status spsh__text_join_run(const spsh__print_set *set, const spsh__text_join_options *options,
                                spsh__match_sink sink, spsh__text_facts *ret_facts,
                                spsh_error *err);

#endif
