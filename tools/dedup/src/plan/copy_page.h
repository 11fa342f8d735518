/* copy_page.h: parts that the pages of plans and audits share.
 *
 *     spsh__copy_page page;
 *     spsh__copy_page_open(&page, &facts.common, "speechshard dedupe", out, err);
 *     spsh__copy_evidence(&page);
 *     rc = spsh__copy_figure(&page, &match, err);
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
    size_t pictures; /* number of pictures drawn so far */
} spsh__copy_page;

/* Begin the page. title is also its heading. After a failure nothing needs to be closed. */
spsh_status spsh__copy_page_open(spsh__copy_page *page, const spsh__copy_facts *facts,
                                 const char *title, spsh__builder *out, spsh_error *err);
/* End the page. Call it after a failed section, too. */
void spsh__copy_page_close(spsh__copy_page *page);

/* Return the meaning of a class in words for the user. */
const char *spsh__copy_class_meaning(spsh_copy_class kind);

/* Return the last component of a path: spsh__copy_last_part with trailing slashes,
 * spsh__copy_base_of without them. */
const char *spsh__copy_last_part(const char *path);
spsh_bytes spsh__copy_base_of(const char *path);

/* Write the list below the title: datasets with their paths, and the command. */
void spsh__copy_made(spsh__builder *out, const spsh__print_set *set, const char *command);

unsigned spsh__copy_tier_color(spsh_copy_tier tier);

/* Write the id of the utterance, with the dataset's name if there are several, and its split in
 * soft type. */
spsh_status spsh__copy_name(spsh__copy_page *page, uint64_t ordinal, spsh_error *err);
/* Write the marked transcript of the utterance, or "(no transcript)". */
spsh_status spsh__copy_transcript(spsh__copy_page *page, uint64_t ordinal, spsh_error *err);
/* Return the duration of the utterance in seconds, or 0 if its row cannot be read. */
double spsh__copy_seconds(const spsh__copy_page *page, uint64_t ordinal);

/* Write the evidence of a match in a few words, escaped: "BER 0.04, NCC 0.98, 3.20 s". */
void spsh__copy_evidence_words(spsh__copy_page *page, const spsh__match *match);

/* Write a pair with ids, transcripts, evidence, and picture. The picture is omitted after the first
 * SPSH__PICTURES_MAX. If the audio cannot be read, the reason replaces it. */
spsh_status spsh__copy_figure(spsh__copy_page *page, const spsh__match *match, spsh_error *err);

/* The sections of a page. */
void spsh__copy_found(spsh__copy_page *page);    /* matches by class and tier */
void spsh__copy_evidence(spsh__copy_page *page); /* histograms of bits and waveforms */
void spsh__copy_datasets(spsh__copy_page *page);
void spsh__copy_method(spsh__copy_page *page);

#endif
