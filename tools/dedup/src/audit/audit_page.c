/* audit_page.c: the page of an audit. It shows the test data that a model may know from training.
 *
 * All rates are shares of the test side. Each kind has a matrix with train splits as rows and test
 * splits as columns. The last row is for all of train. An utterance that several splits touch
 * counts once there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_report.h"
#include "common/file_names.h"
#include "common/human.h"
#include "plan/copy_page.h"
#include "speechshard/inside.h"

enum {
    EXAMPLES = 5, /* examples per kind */
    HEATS = 5,
};

typedef struct totals {
    uint64_t utterances;
    double seconds;
    uint64_t leaked[SPSH_LEAK_COUNT];
    double leaked_seconds[SPSH_LEAK_COUNT];
    uint64_t touched; /* utterances with a leak of any kind */
    uint64_t dirty;   /* utterances with a leak of SPSH__LEAK_DIRTY_MASK */
} totals;

static totals add_up(const spsh__audit_facts *f)
{
    totals t = {0};
    for (size_t j = 0; j < f->roster->test_count; j++) {
        t.utterances += f->roster->test[j].utterances;
        t.seconds += f->roster->test[j].seconds;
        for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
            t.leaked[k] += f->leaks->totals[j].utterances[k];
            t.leaked_seconds[k] += f->leaks->totals[j].seconds[k];
        }
    }
    for (uint64_t i = 0; i < f->roster->test_utterance_count; i++) {
        t.touched += f->leaks->masks[i] != 0 ? 1 : 0;
        t.dirty += (f->leaks->masks[i] & SPSH__LEAK_DIRTY_MASK) != 0 ? 1 : 0;
    }
    return t;
}

/* ---- the head ---- */

static void draw_tiles(spsh__copy_page *page, const totals *t)
{
    static const struct {
        spsh_leak kind;
        const char *label;
    } tiles[] = {
        {SPSH_LEAK_RECORDING,   "share a recording with train"         },
        {SPSH_LEAK_SEGMENT,     "share a second or more of other audio"},
        {SPSH_LEAK_PERFORMANCE, "are a performance that train also has"},
        {SPSH_LEAK_SENTENCE,    "have a sentence of train"             },
        {SPSH_LEAK_SPEAKER,     "have a speaker of train"              },
    };
    spsh__builder_append_text(page->out, "<div class=\"tiles\">\n");
    spsh__page_tile(page->out, SPSH_SHOW_COUNT(t->utterances), "test utterances, %s",
                    SPSH_SHOW_DURATION(t->seconds));
    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
        const uint64_t count = t->leaked[tiles[i].kind];
        spsh__page_tile(page->out, SPSH_SHOW_COUNT(count), "(%s) %s",
                        SPSH_SHOW_PERCENT((double)count, (double)t->utterances), tiles[i].label);
    }
    spsh__builder_append_text(page->out, "</div>\n");
}

/* Whether a kind has leaks but no effective limit. A limit of 100 % allows any share, too. */
static bool is_unlimited(const spsh__audit_facts *f, const totals *t, unsigned kind)
{
    return t->leaked[kind] > 0 && f->fail_limits[kind] >= 1;
}

/* Write a list like "speaker 100.0 %, document 3.2 %". */
static void draw_unlimited(spsh__copy_page *page, const spsh__audit_facts *f, const totals *t)
{
    const char *before = "";
    for (unsigned k = SPSH_LEAK_COUNT; k-- > 0;) {
        if (!is_unlimited(f, t, k))
            continue;
        spsh__html_format(page->out, "%s%s (<code>%s</code>): %s", before,
                          spsh__leak_meaning((spsh_leak)k), spsh_leak_text((spsh_leak)k),
                          SPSH_SHOW_PERCENT((double)t->leaked[k], (double)t->utterances));
        before = "; ";
    }
}

static void draw_verdict(spsh__copy_page *page, const spsh__audit_facts *f, const totals *t)
{
    bool any_limit = false;
    bool any_unlimited = false;
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        any_limit = any_limit || f->fail_limits[k] <= 1;
        any_unlimited = any_unlimited || is_unlimited(f, t, k);
    }
    spsh__builder_append_text(page->out, "<p class=\"verdict\">");
    if (f->is_failed)
        spsh__builder_append_text(page->out, "<b class=\"bad\">Failed</b>: more leaks than the "
                                             "limits allow. ");
    else if (any_limit)
        spsh__html_format(page->out, "<b class=\"%s\">Passed</b>: within the limits%s. ",
                          any_unlimited ? "caution" : "good",
                          any_unlimited ? ", which do not cover all leaks" : "");
    if (t->touched == 0)
        spsh__builder_append_text(page->out, "Nothing was found to leak. ");
    spsh__html_format(page->out,
                      "Of %s test utterances, %s share no recording, segment, performance or "
                      "sentence with train.</p>\n",
                      SPSH_SHOW_COUNT(t->utterances),
                      SPSH_SHOW_COUNT(f->roster->test_utterance_count - t->dirty));
    if (!any_unlimited)
        return;
    spsh__builder_append_text(page->out, "<p><b class=\"caution\">Shared with train, without a "
                                         "limit</b>, of the test utterances: ");
    draw_unlimited(page, f, t);
    spsh__builder_append_text(page->out, ".</p>\n");
}

/* Whether every test split is within the limit of the kind. */
static bool is_passed(const spsh__audit_facts *f, spsh_leak kind)
{
    for (size_t j = 0; j < f->roster->test_count; j++)
        if (spsh__audit_is_failure(f, j, kind))
            return false;
    return true;
}

static void draw_kinds(spsh__copy_page *page, const spsh__audit_facts *f, const totals *t)
{
    spsh__page_section_open(page->out, "What the test side shares with train");
    spsh__page_table_open(page->out,
                          "kind|what it means|#utterances|#share|#95 % interval|#audio|#limit|");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        double low = 0;
        double high = 1;
        const double limit = f->fail_limits[k];
        const double share = t->utterances > 0 ? (double)t->leaked[k] / (double)t->utterances : 0;
        spsh__leak_interval(t->leaked[k], t->utterances, &low, &high);
        spsh__html_format(page->out, "<tr><td><code>%s</code></td><td class=\"words\">%s</td>",
                          spsh_leak_text((spsh_leak)k), spsh__leak_meaning((spsh_leak)k));
        spsh__page_cell_count(page->out, t->leaked[k]);
        spsh__html_format(page->out,
                          "<td class=\"n\">%.2f %%</td><td class=\"n\">%.2f to %.2f</td>",
                          100 * share, 100 * low, 100 * high);
        spsh__html_format(page->out, "<td class=\"n\">%s</td>",
                          SPSH_SHOW_DURATION(t->leaked_seconds[k]));
        if (limit > 1)
            spsh__builder_append_text(page->out, "<td class=\"n soft\">any</td>");
        else
            spsh__html_format(page->out, "<td class=\"n\"><span class=\"%s\">%.4g %%</span></td>",
                              !is_passed(f, (spsh_leak)k) ? "bad"
                              : is_unlimited(f, t, k)     ? "caution"
                                                          : "good",
                              100 * limit);
        spsh__page_cell_bar(page->out, (double)t->leaked[k], (double)t->utterances, 4);
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    spsh__page_table_close(page->out);
    spsh__builder_append_text(
        page->out, "<p class=\"soft\">An utterance may have several kinds of leak. The intervals "
                   "(Wilson) estimate other test sets like this one. The number for this test set "
                   "is exact, except for leaks that the search cannot find.</p>\n");
    spsh__page_section_close(page->out);
}

static void draw_warnings(spsh__copy_page *page, const spsh__audit_facts *f, const totals *t)
{
    spsh__builder_append_text(
        page->out, "<section class=\"warnings\"><h2>Before you quote these figures</h2><ul>\n");
    if (t->leaked[SPSH_LEAK_RECORDING] + t->leaked[SPSH_LEAK_SENTENCE] > 0)
        spsh__builder_append_text(
            page->out,
            "<li>Word error rates may stay the same although a leak is real (arXiv 2505.22251): "
            "quote the metric on all, clean and dirty utterances (<code>clean-*.txt</code> and "
            "<code>dirty-*.txt</code> next to this page).</li>\n");
    spsh__builder_append_text(
        page->out,
        "<li>Speakers, documents and sources are compared by their names. A Common Voice "
        "client_id is one browser or account, not one person: disjoint ids do not prove disjoint "
        "speakers.</li>\n");
    if (f->common.copies->undecoded_count > 0)
        spsh__html_format(page->out,
                          "<li>%s utterances cannot be decoded: only the bytes of their audio were "
                          "compared.</li>\n",
                          SPSH_SHOW_COUNT(f->common.copies->undecoded_count));
    if (f->texts->test_empty_count > 0)
        spsh__html_format(
            page->out,
            "<li>%s test utterances have no transcript, so nothing is known about their "
            "sentences.</li>\n",
            SPSH_SHOW_COUNT(f->texts->test_empty_count));
    if (f->texts->train_empty_count > 0)
        spsh__html_format(page->out, "<li>%s train utterances have no transcript.</li>\n",
                          SPSH_SHOW_COUNT(f->texts->train_empty_count));
    if (f->texts->test_speaker_count == 0 || f->texts->train_speaker_count == 0)
        spsh__html_format(page->out, "<li>The %s side names no speakers.</li>\n",
                          f->texts->test_speaker_count == 0 ? "test" : "train");
    spsh__builder_append_text(page->out, "</ul></section>\n");
}

/* ---- matrices ---- */

static unsigned heat_of(double share)
{
    static const double from[HEATS] = {0, 0.001, 0.01, 0.05, 0.25};
    unsigned heat = 0;
    for (unsigned i = 0; i < HEATS; i++)
        heat = share > from[i] ? i + 1 : heat;
    return heat;
}

static void draw_cell(spsh__copy_page *page, const spsh__leak_cell *cell, unsigned kind,
                      const spsh__leak_split *split)
{
    const uint64_t count = cell->utterances[kind];
    const double share = split->utterances > 0 ? (double)count / (double)split->utterances : 0;
    if (count == 0) {
        spsh__builder_append_text(page->out, "<td class=\"soft\">0</td>");
        return;
    }
    spsh__html_format(page->out,
                      "<td class=\"h%u\">%s<br/>%.2f %%<br/><span class=\"soft\">%s</span></td>",
                      heat_of(share), SPSH_SHOW_COUNT(count), 100 * share,
                      SPSH_SHOW_DURATION(cell->seconds[kind]));
}

static void draw_split(spsh__copy_page *page, const spsh__leak_split *split)
{
    spsh__builder_append_text(page->out, "<th>");
    spsh__page_name(page->out, spsh__bytes_of(split->name));
    spsh__html_format(page->out, "<br/><span class=\"soft\">%s utterances</span></th>",
                      SPSH_SHOW_COUNT(split->utterances));
}

static void draw_matrix(spsh__copy_page *page, const spsh__audit_facts *f, unsigned kind)
{
    spsh__html_format(page->out,
                      "<div><h3><code>%s</code>: %s</h3>\n<div class=\"wide\">"
                      "<table class=\"matrix\"><thead><tr><th>train \\ test</th>",
                      spsh_leak_text((spsh_leak)kind), spsh__leak_meaning((spsh_leak)kind));
    for (size_t j = 0; j < f->roster->test_count; j++)
        draw_split(page, &f->roster->test[j]);
    spsh__builder_append_text(page->out, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < f->roster->train_count; i++) {
        spsh__builder_append_text(page->out, "<tr>");
        draw_split(page, &f->roster->train[i]);
        for (size_t j = 0; j < f->roster->test_count; j++)
            draw_cell(page, &f->leaks->cells[i * f->roster->test_count + j], kind,
                      &f->roster->test[j]);
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    if (f->roster->train_count > 1) {
        spsh__builder_append_text(page->out, "<tr class=\"total\"><th>all of train</th>");
        for (size_t j = 0; j < f->roster->test_count; j++)
            draw_cell(page, &f->leaks->totals[j], kind, &f->roster->test[j]);
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    spsh__builder_append_text(page->out, "</tbody></table></div></div>\n");
}

static void draw_matrices(spsh__copy_page *page, const spsh__audit_facts *f, const totals *t)
{
    size_t clean = 0;
    spsh__page_section_open(page->out, "Which split leaks into which");
    spsh__builder_append_text(page->out,
                              "<p class=\"soft\">Number, share, and length of the test split's "
                              "utterances that share something with the train split. Shades: above "
                              "0, 0.1, 1, 5, and 25 %.</p>\n<div class=\"matrices\">\n");
    for (unsigned k = 0; k < SPSH_LEAK_COUNT; k++) {
        if (t->leaked[k] > 0)
            draw_matrix(page, f, k);
        else
            clean++;
    }
    spsh__builder_append_text(page->out, "</div>\n");
    if (clean > 0) {
        spsh__builder_append_text(page->out, "<p>Nothing was found for: ");
        for (unsigned k = 0, n = 0; k < SPSH_LEAK_COUNT; k++) {
            if (t->leaked[k] == 0)
                spsh__html_format(page->out, "%s<code>%s</code>", n++ > 0 ? ", " : "",
                                  spsh_leak_text((spsh_leak)k));
        }
        spsh__builder_append_text(page->out, ".</p>\n");
    }
    spsh__page_section_close(page->out);
}

/* ---- examples ---- */

/* Indices of the first matches of each kind. Consecutive ones share no utterance. */
typedef struct examples {
    uint64_t numbers[SPSH_LEAK_COUNT][EXAMPLES];
    size_t counts[SPSH_LEAK_COUNT];
} examples;

static void choose(const spsh__audit_facts *f, examples *e)
{
    for (uint64_t i = 0; i < f->common.match_count; i++) {
        const spsh_leak kind = spsh__leak_of(&f->leaks->matches[i]);
        if (kind >= SPSH_LEAK_COUNT || e->counts[kind] == EXAMPLES)
            continue;
        if (e->counts[kind] > 0) {
            const spsh__match *before = &f->leaks->matches[e->numbers[kind][e->counts[kind] - 1]];
            if (before->a == f->leaks->matches[i].a || before->b == f->leaks->matches[i].b)
                continue;
        }
        e->numbers[kind][e->counts[kind]++] = i;
    }
}

/* Write the name of the speaker or document that both utterances share. Writes nothing for a
 * source. */
static spsh_status draw_common_name(spsh__copy_page *page, const spsh__match *match, spsh_leak kind,
                                    spsh_error *err)
{
    spsh_row row;
    spsh_bytes name = {NULL, 0};
    const spsh_dataset *d = spsh__print_set_place(page->facts->set, match->a).dataset;
    if (kind == SPSH_LEAK_SOURCE)
        return SPSH_OK;
    spsh_status rc = spsh__print_set_index_row(page->facts->set, match->a, &row, err);
    if (rc == SPSH_OK && kind == SPSH_LEAK_SPEAKER)
        rc = spsh_dataset_name(d, SPSH_NAME_SPEAKER, row.speaker, &name, err);
    else if (rc == SPSH_OK)
        rc = spsh_dataset_name(d, SPSH_NAME_DOCUMENT, row.document, &name, err);
    if (rc == SPSH_OK && name.size_bytes > 0) {
        spsh__builder_append_text(page->out, "<p>");
        spsh__page_name(page->out, name);
        spsh__builder_append_text(page->out, "</p>\n");
    }
    return rc;
}

static spsh_status draw_examples(spsh__copy_page *page, const spsh__audit_facts *f, spsh_error *err)
{
    examples e = {.counts = {0}};
    spsh_status rc = SPSH_OK;
    choose(f, &e);
    if (f->common.match_count == 0)
        return SPSH_OK;
    spsh__page_section_open(page->out, "Examples");
    spsh__builder_append_text(
        page->out,
        "<p class=\"soft\">Each picture shows a above b, aligned, with the common segment shaded. "
        "<b>bits</b>: wrong bits of the fingerprints while both contain speech, from 0 to the "
        "level of chance. <b>wave</b>: correlation of blocks of 200 ms, from 0 to 1; green blocks "
        "agree. All pairs are in <code>pairs.jsonl</code>.</p>\n");
    for (unsigned k = 0; rc == SPSH_OK && k < SPSH_LEAK_COUNT; k++) {
        if (e.counts[k] == 0)
            continue;
        spsh__html_format(page->out, "<details%s><summary><code>%s</code>: %s</summary>\n",
                          k <= SPSH_LEAK_PERFORMANCE ? " open=\"open\"" : "",
                          spsh_leak_text((spsh_leak)k), spsh__leak_meaning((spsh_leak)k));
        for (size_t i = 0; rc == SPSH_OK && i < e.counts[k]; i++) {
            const spsh__match *match = &f->leaks->matches[e.numbers[k][i]];
            rc = spsh__copy_figure(page, match, err);
            if (rc == SPSH_OK && k >= SPSH_LEAK_DOCUMENT)
                rc = draw_common_name(page, match, (spsh_leak)k, err);
        }
        spsh__builder_append_text(page->out, "</details>\n");
    }
    spsh__page_section_close(page->out);
    return rc;
}

/* ---- text ---- */

static void draw_texts(spsh__copy_page *page, const spsh__audit_facts *f)
{
    const spsh__text_facts *t = f->texts;
    const struct {
        const char *what;
        uint64_t train, test, shared;
        bool has_shared;
    } rows[] = {
        {"utterances",              t->train_count,          t->test_count,          0,                       false},
        {"without comparable text", t->train_empty_count,    t->test_empty_count,    0,                       false},
        {"speakers named",          t->train_speaker_count,  t->test_speaker_count,  t->shared_speaker_count,
         true                                                                                                      },
        {"documents named",         t->train_document_count, t->test_document_count,
         t->shared_document_count,                                                                            true },
    };
    spsh__page_section_open(page->out, "Texts and names");
    spsh__page_table_open(page->out, "what|#train|#test|#on both sides");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        spsh__html_format(page->out, "<tr><td>%s</td>", rows[i].what);
        spsh__page_cell_count(page->out, rows[i].train);
        spsh__page_cell_count(page->out, rows[i].test);
        if (rows[i].has_shared)
            spsh__page_cell_count(page->out, rows[i].shared);
        else
            spsh__builder_append_text(page->out, "<td></td>");
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    spsh__page_table_close(page->out);
    spsh__html_format(
        page->out,
        "<p class=\"soft\">Transcripts are normalized by the profile <code>%s</code> before they "
        "are compared. Two transcripts are nearly the same if they share 5-grams of characters and "
        "their edit distance is at most 15&#160;%% of the longer, or if half of the word 13-grams "
        "(8-grams below 20 words) of the test transcript occur in one train transcript. The same "
        "sentence read by another speaker is not a copy, but it is a leak if you also train a "
        "language model.</p>\n",
        spsh__text_profile_name(f->profile));
    spsh__page_section_close(page->out);
}

/* ---- the page ---- */

spsh_status spsh__audit_page(const spsh__audit_facts *facts, spsh__builder *out, spsh_error *err)
{
    spsh__copy_page page;
    const totals t = add_up(facts);
    spsh_status rc = spsh__copy_page_open(&page, &facts->common, "speechshard audit", out, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__builder_append_text(out, "<h1>What leaks from train into test</h1>\n");
    spsh__copy_made(out, facts->common.set, facts->common.command);
    draw_verdict(&page, facts, &t);
    draw_tiles(&page, &t);
    draw_warnings(&page, facts, &t);
    draw_kinds(&page, facts, &t);
    draw_matrices(&page, facts, &t);
    rc = draw_examples(&page, facts, err);
    spsh__copy_found(&page);
    spsh__copy_evidence(&page);
    draw_texts(&page, facts);
    spsh__copy_datasets(&page);
    spsh__copy_method(&page);
    spsh__copy_page_close(&page);
    if (rc == SPSH_OK && out->failed)
        return SPSH_NO_MEMORY(err);
    return rc;
}
