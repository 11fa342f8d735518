/* copy_page.h: what the pages of plans and audits have in common.
 *
 *     spsh__copy_page page;
 *     spsh__copy_page_open(&page, &facts.common, "speechshard dedupe", out, err);
 *     spsh__copy_evidence(&page);
 *     rc = spsh__copy_picture(&page, &match, err);
 *     spsh__copy_method(&page);
 *     spsh__copy_page_close(&page);
 */
#ifndef SPSH_DEDUP_COPY_PAGE_H
#define SPSH_DEDUP_COPY_PAGE_H

#include "common/page.h"
#include "copy_report.h"
#include "set/set_readers.h"

#define SPSH__PICTURES_MAX 40

typedef struct spsh__copy_page {
    spsh__builder *out;
    const spsh__copy_facts *facts;
    spsh__set_readers readers;
    size_t dataset_count;
    size_t pictures; /* drawn so far */
} spsh__copy_page;

/* The page begins; title is its name, too. Nothing is to be closed after a failure. */
spsh_status spsh__copy_page_open(spsh__copy_page *page, const spsh__copy_facts *facts,
                                 const char *title, spsh__builder *out, spsh_error *err);
/* The page ends, also after a failure in between. */
void spsh__copy_page_close(spsh__copy_page *page);

/* What a class means, for people. */
const char *spsh__copy_class_meaning(spsh_copy_class kind);

/* Last component of a path, with slashes behind it, or without them. */
const char *spsh__copy_last_part(const char *path);
spsh_bytes spsh__copy_base_of(const char *path);

/* The list below the title: datasets with their paths, and the command. */
void spsh__copy_made(spsh__builder *out, const spsh__print_set *set, const char *command);

unsigned spsh__copy_tier_color(spsh_copy_tier tier);

/* The utterance's id, with its dataset's name where there are several; soft: its split. */
spsh_status spsh__copy_name(spsh__copy_page *page, uint64_t ordinal, spsh_error *err);
/* Its transcript, marked as such; "(no transcript)". */
spsh_status spsh__copy_transcript(spsh__copy_page *page, uint64_t ordinal, spsh_error *err);
/* Its length in seconds; 0 when its row cannot be read. */
double spsh__copy_seconds(const spsh__copy_page *page, uint64_t ordinal);

/* The evidence of a match in a few words, escaped: "BER 0.04, NCC 0.98, 3.20 s". */
void spsh__copy_evidence_words(spsh__copy_page *page, const spsh__match *match);

/* A pair with ids, transcripts, evidence and picture. The picture is left out behind the
 * SPSH__PICTURES_MAX-th, and with a word of why where audio cannot be read. */
spsh_status spsh__copy_figure(spsh__copy_page *page, const spsh__match *match, spsh_error *err);

/* Sections. */
void spsh__copy_found(spsh__copy_page *page);    /* matches by class and tier */
void spsh__copy_evidence(spsh__copy_page *page); /* histograms of bits and waveforms */
void spsh__copy_datasets(spsh__copy_page *page);
void spsh__copy_method(spsh__copy_page *page);

#endif
