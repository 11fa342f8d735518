/* text_cover.h: find texts of the test side that occur, as runs of words, in longer texts.
 *
 *     cover = spsh__text_cover_new()
 *     spsh__text_cover_add(cover, number, text, err);      numbers ascending, normalized texts
 *     spsh__text_cover_finish(cover, err);
 *     probe = spsh__cover_probe_new(cover)                 one per thread
 *     spsh__cover_probe_text(probe, text, least, &covered, &count, err);    each train text
 *     spsh__text_cover_share(cover, number)                after all probes
 *
 * A text of 20 words or more is represented by its runs of 13 words, and a text of 8 to 19 words by
 * its runs of 8. Shorter texts are not searched. Runs are found by 128-bit hashes in a hash table,
 * so false positives are practically impossible. A run that more than 1,000 texts share (a
 * disclaimer read before each chapter) counts in shares, but does not by itself make a pair.
 */
#ifndef SPSH_DEDUP_TEXT_COVER_H
#define SPSH_DEDUP_TEXT_COVER_H

#include "speechshard/base.h"

enum {
    SPSH__COVER_LONG = 13,
    SPSH__COVER_SHORT = 8,
    SPSH__COVER_WORDS_LONG = 20,
    SPSH__COVER_CROWD = 1000,
};

typedef struct spsh__text_cover spsh__text_cover;
typedef struct spsh__cover_probe spsh__cover_probe;

/* Returns NULL if there is no memory. */
spsh__text_cover *spsh__text_cover_new(void);
/* Add a text. Returns SPSH_E_NO_MEMORY, or SPSH_E_LIMIT after 2^32 runs. */
spsh_status spsh__text_cover_add(spsh__text_cover *cover, uint32_t number, spsh_bytes text,
                                 spsh_error *err);
/* Finish the index after the last text. */
spsh_status spsh__text_cover_finish(spsh__text_cover *cover, spsh_error *err);
void spsh__text_cover_free(spsh__text_cover *cover);
/* Return the memory of the index, without probes. */
uint64_t spsh__text_cover_bytes(const spsh__text_cover *cover);

spsh__cover_probe *spsh__cover_probe_new(spsh__text_cover *cover);
void spsh__cover_probe_free(spsh__cover_probe *probe);

/* A test text that shares runs with the probed text. test is the share of the test text's distinct
 * runs. train is the share of the probed text's runs of this length. */
typedef struct spsh__covered {
    uint32_t number;
    double test, train;
} spsh__covered;

/* Find the test texts with a share of at least `least`. *ret_covered ascends by number and is
 * borrowed until the next call. Returns SPSH_OK or SPSH_E_NO_MEMORY. Probes of one cover may run at
 * the same time. */
spsh_status spsh__cover_probe_text(spsh__cover_probe *probe, spsh_bytes text, double least,
                                   const spsh__covered **ret_covered, size_t *ret_count,
                                   spsh_error *err);

/* Return the share of the text's runs that any probed text contained, or 0 if the text has no runs.
 */
double spsh__text_cover_share(const spsh__text_cover *cover, uint32_t number);

#endif
