/* text_cover.h: which texts of the test side occur, in runs of words, in longer texts.
 *
 *     cover = spsh__text_cover_new()
 *     spsh__text_cover_add(cover, number, text, err);      numbers ascending, normalised texts
 *     spsh__text_cover_finish(cover, err);
 *     probe = spsh__cover_probe_new(cover)                 one a thread
 *     spsh__cover_probe(probe, text, take, err);           each train text
 *     spsh__text_cover_share(cover, number)                when all was probed
 *
 * A text of 20 words or more is its runs of 13 words, one of 8 to 19 its runs of 8; shorter ones
 * are not looked for. Runs are found by hashes of 128 bits in a real table: false positives are as
 * good as impossible. A run that more than 1,000 texts share (a disclaimer read before each
 * chapter) is part of shares, but does not by itself make a pair of two texts.
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

/* NULL: no memory. */
spsh__text_cover *spsh__text_cover_new(void);
/* SPSH_E_NO_MEMORY, _LIMIT (2^32 runs). */
spsh_status spsh__text_cover_add(spsh__text_cover *cover, uint32_t number, spsh_bytes text,
                                 spsh_error *err);
/* No more are added. */
spsh_status spsh__text_cover_finish(spsh__text_cover *cover, spsh_error *err);
void spsh__text_cover_free(spsh__text_cover *cover);
/* Memory that is held, and what each probe takes besides the texts that it is shown. */
uint64_t spsh__text_cover_bytes(const spsh__text_cover *cover);

spsh__cover_probe *spsh__cover_probe_new(spsh__text_cover *cover);
void spsh__cover_probe_free(spsh__cover_probe *probe);

/* A test text of which this one holds runs: the share of the test text's different runs, and the
 * share of this one's runs of that length that they are. */
typedef struct spsh__covered {
    uint32_t number;
    double test, train;
} spsh__covered;

/* ret_covered: those with a share of at least `least`, ascending by number; borrowed until the next
 * call. SPSH_E_NO_MEMORY. Probes of one cover may run at the same time. */
spsh_status spsh__cover_probe_text(spsh__cover_probe *probe, spsh_bytes text, double least,
                                   const spsh__covered **ret_covered, size_t *ret_count,
                                   spsh_error *err);

/* Of the text's runs, those that any probed text held; 0 for texts that have none. */
double spsh__text_cover_share(const spsh__text_cover *cover, uint32_t number);

#endif
