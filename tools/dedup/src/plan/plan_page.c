/* plan_page.c: the page of a plan. It shows which utterances would be dropped and why, so that a
 * person can decide.
 *
 * One pass over the clusters counts them and picks the largest. One pass over the matches picks the
 * pairs to show: the strongest of each class, and the weakest ones, which are the most likely
 * errors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/human.h"
#include "copy_page.h"
#include "plan_parts.h"
#include "speechshard/inside.h"

enum {
    CLUSTERS_SHOWN = 20,
    MEMBERS_SHOWN = 12, /* members listed per cluster */
    TEXTS_SHOWN = 50,   /* listed clusters with differing transcripts */
    SIZES = 8,
    WEAKEST = 4, /* pictures of the weakest pairs per class; the strongest pair has another one */
    EXACT_SHOWN = 2,
    BOILERPLATE_SHOWN = 50,
};

static const uint64_t size_ends[SIZES] = {3, 4, 5, 10, 100, 1000, 10000, UINT64_MAX};
static const char *const size_names[SIZES] = {
    "2", "3", "4", "5 to 9", "10 to 99", "100 to 999", "1,000 to 9,999", "10,000 and more"};

/* Utterances dropped by one kind of evidence. */
typedef struct going {
    uint64_t count;
    double seconds;
    uint64_t bytes;
} going;

typedef struct summary {
    going by_tier_class[SPSH_TIER_COUNT][SPSH_COPY_CLASS_COUNT];
    uint64_t by_decision[SPSH_DECISION_COUNT];
    uint64_t by_size[SIZES];
    double saved_by_size[SIZES];
    uint64_t largest[CLUSTERS_SHOWN];
    size_t largest_count;
    uint64_t texts[TEXTS_SHOWN];
    uint64_t texts_differ;
    spsh__plan_parts *parts;
} summary;

/* Match indices of the pairs to show. UINT64_MAX marks an unused place. */
typedef struct gallery {
    uint64_t weakest[SPSH_COPY_CLASS_COUNT][WEAKEST];
    uint64_t strongest[SPSH_COPY_CLASS_COUNT];
    uint64_t exact[SPSH_TIER_ACOUSTIC][EXACT_SHOWN];
} gallery;

static const spsh__member *members_of(const spsh__plan_facts *f, const spsh_copy_cluster *cluster)
{
    return &f->clusters->members[cluster->first_member];
}

/* ---- counting ---- */

static bool is_larger(const spsh_copy_cluster *a, const spsh_copy_cluster *b)
{
    return a->member_count > b->member_count ||
           (a->member_count == b->member_count && a->saved_seconds > b->saved_seconds);
}

/* Keep the cluster if it is among the largest. Clusters of equal size keep their order. */
static void offer_cluster(const spsh__plan_facts *f, summary *s, uint64_t number)
{
    size_t at = s->largest_count;
    while (at > 0 &&
           is_larger(&f->clusters->clusters[number], &f->clusters->clusters[s->largest[at - 1]]))
        at--;
    if (at == CLUSTERS_SHOWN)
        return;
    if (s->largest_count < CLUSTERS_SHOWN)
        s->largest_count++;
    memmove(&s->largest[at + 1], &s->largest[at],
            (s->largest_count - 1 - at) * sizeof(s->largest[0]));
    s->largest[at] = number;
}

static void count_cluster(const spsh__copy_page *page, const spsh__plan_facts *f, summary *s,
                          uint64_t number)
{
    const spsh_copy_cluster *cluster = &f->clusters->clusters[number];
    const spsh__member *members = members_of(f, cluster);
    spsh__segment_row row;
    size_t size = 0;
    while (cluster->member_count >= size_ends[size])
        size++;
    s->by_size[size]++;
    s->saved_by_size[size] += cluster->saved_seconds;
    for (uint64_t i = 0; i < cluster->member_count; i++) {
        const spsh__member *m = &members[i];
        const double seconds = spsh__copy_seconds(page, m->ordinal);
        const spsh__match *match = spsh__plan_match(f, m->match);
        s->by_decision[m->decision]++;
        if (m->decision == SPSH_DECISION_DROP)
            spsh__plan_parts_add(s->parts, m->ordinal, seconds);
        if (m->decision == SPSH_DECISION_DROP && match != NULL) {
            going *g = &s->by_tier_class[match->tier][match->kind];
            g->count++;
            g->seconds += seconds;
            if (spsh__print_set_row(f->common.set, m->ordinal, &row, NULL, NULL) == SPSH_OK)
                g->bytes += (uint64_t)(seconds * (double)row.payload_bps / 8);
        }
    }
    if (cluster->texts_differ) {
        if (s->texts_differ < TEXTS_SHOWN)
            s->texts[s->texts_differ] = number;
        s->texts_differ++;
    }
    offer_cluster(f, s, number);
}

/* ---- the head ---- */

/* Seconds of audio dropped by the tiers below `end`. */
static double seconds_below(const summary *s, spsh_copy_tier end)
{
    double seconds = 0;
    for (unsigned t = 0; t < end; t++) {
        for (unsigned k = 0; k < SPSH_COPY_CLASS_COUNT; k++)
            seconds += s->by_tier_class[t][k].seconds;
    }
    return seconds;
}

static void draw_tiles(spsh__copy_page *page, const spsh__plan_facts *f, const summary *s)
{
    const double exact = seconds_below(s, SPSH_TIER_ACOUSTIC);
    const double all = seconds_below(s, SPSH_TIER_COUNT);
    spsh__builder_append_text(page->out, "<div class=\"tiles\">\n");
    spsh__page_tile(page->out, SPSH_SHOW_DURATION(f->dropped_seconds), "would be dropped, %s of %s",
                    SPSH_SHOW_PERCENT(f->dropped_seconds, f->total_seconds),
                    SPSH_SHOW_DURATION(f->total_seconds));
    spsh__page_tile(page->out, SPSH_SHOW_COUNT(f->dropped_count),
                    "utterances of %s would be dropped",
                    SPSH_SHOW_COUNT(spsh__print_set_count(f->common.set)));
    spsh__page_tile(page->out, SPSH_SHOW_BYTES(f->dropped_bytes), "that loaders no longer read");
    spsh__page_tile(page->out, SPSH_SHOW_PERCENT(exact, all),
                    "of it proven by equal bytes or samples, the rest by comparing audio");
    spsh__page_tile(page->out, SPSH_SHOW_COUNT(f->clusters->cluster_count), "clusters of copies");
    spsh__page_tile(page->out, SPSH_SHOW_COUNT(s->texts_differ),
                    "clusters whose transcripts differ");
    spsh__builder_append_text(page->out, "</div>\n");
}

static void draw_warnings(spsh__copy_page *page, const spsh__plan_facts *f, const summary *s)
{
    bool is_open = false;
    spsh__page_warn_count(page->out, &is_open, f->common.copies->undecoded_count,
                          "utterances cannot be decoded: only their bytes were compared");
    spsh__page_warn_count(
        page->out, &is_open, s->texts_differ,
        "clusters hold copies with different transcripts: at least one of them is wrong");
    spsh__page_warn_count(
        page->out, &is_open, s->by_decision[SPSH_DECISION_UNPROVEN],
        "utterances are linked to the kept one only through other copies: they stay");
    spsh__page_warn_count(page->out, &is_open, s->by_decision[SPSH_DECISION_PROTECTED],
                          "copies are in splits that --drop-from protects: they stay");
    spsh__page_warn_count(page->out, &is_open, f->clusters->boilerplate_count,
                          "segments are shared by many utterances (jingles, disclaimers): they "
                          "make no utterances copies");
    spsh__page_warnings_close(page->out, is_open);
}

/* ---- dropped utterances ---- */

static void draw_going(spsh__copy_page *page, const spsh__plan_facts *f, const summary *s)
{
    const double all = seconds_below(s, SPSH_TIER_COUNT);
    if (f->dropped_count == 0)
        return;
    spsh__page_section_open(page->out, "Dropped utterances, by evidence");
    spsh__page_table_open(page->out, "evidence|class|#utterances|#audio|#bytes|#share|");
    for (unsigned t = 0; t < SPSH_TIER_COUNT; t++) {
        for (unsigned k = 0; k < SPSH_COPY_CLASS_COUNT; k++) {
            const going *g = &s->by_tier_class[t][k];
            if (g->count == 0)
                continue;
            spsh__html_format(page->out, "<tr><td><code>%s</code></td><td><code>%s</code></td>",
                              spsh_copy_tier_text((spsh_copy_tier)t),
                              spsh_copy_class_text((spsh_copy_class)k));
            spsh__page_cell_count(page->out, g->count);
            spsh__page_cell_duration(page->out, g->seconds);
            spsh__html_format(page->out, "<td class=\"n\">%s</td>", SPSH_SHOW_BYTES(g->bytes));
            spsh__page_cell_percent(page->out, g->seconds, f->total_seconds);
            spsh__page_cell_bar(page->out, g->seconds, all,
                                spsh__copy_tier_color((spsh_copy_tier)t));
            spsh__builder_append_text(page->out, "</tr>\n");
        }
    }
    spsh__page_table_close(page->out);
    spsh__builder_append_text(
        page->out, "<p class=\"soft\">Nothing has been changed. <code>speechshard apply</code> "
                   "adds an overlay that skips these utterances, and <code>revert</code> removes "
                   "it. The stored files do not change.</p>\n");
    spsh__page_section_close(page->out);
}

/* ---- clusters ---- */

static void draw_sizes(spsh__copy_page *page, const summary *s)
{
    uint64_t most = 0;
    for (size_t i = 0; i < SIZES; i++)
        most = s->by_size[i] > most ? s->by_size[i] : most;
    if (most == 0)
        return;
    spsh__page_section_open(page->out, "Clusters by size");
    spsh__page_table_open(page->out, "members|#clusters|#dropped audio|");
    for (size_t i = 0; i < SIZES; i++) {
        if (s->by_size[i] == 0)
            continue;
        spsh__html_format(page->out, "<tr><td>%s</td>", size_names[i]);
        spsh__page_cell_count(page->out, s->by_size[i]);
        spsh__page_cell_duration(page->out, s->saved_by_size[i]);
        spsh__page_cell_bar(page->out, (double)s->by_size[i], (double)most, 5);
        spsh__builder_append_text(page->out, "</tr>\n");
    }
    spsh__page_table_close(page->out);
    spsh__page_section_close(page->out);
}

static spsh_status draw_member(spsh__copy_page *page, const spsh__plan_facts *f,
                               const spsh__member *m, bool texts, spsh_error *err)
{
    static const char *const pills[] = {"keep", "drop", "tag", "tag", "tag"};
    const spsh__match *match = spsh__plan_match(f, m->match);
    spsh__html_format(page->out,
                      "<tr><td><span class=\"pill %s\">%s</span></td><td class=\"name\">",
                      pills[m->decision], spsh_copy_decision_text(m->decision));
    spsh_status rc = spsh__copy_name(page, m->ordinal, err);
    spsh__builder_append_text(page->out, "</td>");
    spsh__page_cell_duration(page->out, spsh__copy_seconds(page, m->ordinal));
    spsh__builder_append_text(page->out, "<td>");
    spsh__page_text(page->out, m->reason);
    spsh__builder_append_text(page->out, "</td><td>");
    if (match != NULL)
        spsh__copy_evidence_words(page, match);
    spsh__builder_append_text(page->out, "</td>");
    if (rc == SPSH_OK && texts) {
        spsh__builder_append_text(page->out, "<td class=\"name\">");
        rc = spsh__copy_transcript(page, m->ordinal, err);
        spsh__builder_append_text(page->out, "</td>");
    }
    spsh__builder_append_text(page->out, "</tr>\n");
    return rc;
}

static spsh_status draw_cluster(spsh__copy_page *page, const spsh__plan_facts *f, uint64_t number,
                                bool texts, spsh_error *err)
{
    const spsh_copy_cluster *cluster = &f->clusters->clusters[number];
    const spsh__member *members = members_of(f, cluster);
    const uint64_t shown =
        cluster->member_count < MEMBERS_SHOWN ? cluster->member_count : MEMBERS_SHOWN;
    spsh_status rc = SPSH_OK;
    spsh__html_format(page->out, "<h3>%s members, %s (%s) would be dropped</h3>\n",
                      SPSH_SHOW_COUNT(cluster->member_count),
                      SPSH_SHOW_DURATION(cluster->saved_seconds),
                      SPSH_SHOW_BYTES(cluster->saved_bytes));
    spsh__page_table_open(page->out, texts ? "|utterance|#length|why|proof|transcript"
                                           : "|utterance|#length|why|proof");
    for (uint64_t i = 0; rc == SPSH_OK && i < shown; i++)
        rc = draw_member(page, f, &members[i], texts, err);
    spsh__page_table_close(page->out);
    if (shown < cluster->member_count)
        spsh__html_format(page->out, "<p class=\"soft\">and %s more in the plan</p>\n",
                          SPSH_SHOW_COUNT(cluster->member_count - shown));
    return rc;
}

static spsh_status draw_largest(spsh__copy_page *page, const spsh__plan_facts *f, const summary *s,
                                spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (s->largest_count == 0)
        return SPSH_OK;
    spsh__page_section_open(page->out,
                            "The largest clusters, and the reasons for the kept utterances");
    for (size_t i = 0; rc == SPSH_OK && i < s->largest_count; i++) {
        if (i == 5)
            spsh__html_format(page->out, "<details><summary>and %zu more</summary>\n",
                              s->largest_count - i);
        rc = draw_cluster(page, f, s->largest[i], false, err);
    }
    if (s->largest_count > 5)
        spsh__builder_append_text(page->out, "</details>\n");
    spsh__page_section_close(page->out);
    return rc;
}

static spsh_status draw_texts(spsh__copy_page *page, const spsh__plan_facts *f, const summary *s,
                              spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    const uint64_t shown = s->texts_differ < TEXTS_SHOWN ? s->texts_differ : TEXTS_SHOWN;
    if (shown == 0)
        return SPSH_OK;
    spsh__page_section_open(page->out, "Copies whose transcripts differ");
    spsh__builder_append_text(
        page->out, "<p class=\"soft\">The audio is the same, so at most one of these can be right. "
                   "The transcripts of dropped copies stay in the plan.</p>\n");
    for (uint64_t i = 0; rc == SPSH_OK && i < shown; i++) {
        if (i == 10)
            spsh__html_format(page->out, "<details><summary>and %s more</summary>\n",
                              SPSH_SHOW_COUNT(s->texts_differ - i));
        rc = draw_cluster(page, f, s->texts[i], true, err);
    }
    if (shown < s->texts_differ)
        spsh__html_format(page->out, "<p class=\"soft\">and %s more in the plan</p>\n",
                          SPSH_SHOW_COUNT(s->texts_differ - shown));
    if (shown > 10)
        spsh__builder_append_text(page->out, "</details>\n");
    spsh__page_section_close(page->out);
    return rc;
}

/* ---- pictures ---- */

static double strength(const spsh__match *match)
{
    return fabs(match->ncc);
}

static bool have_one_in_common(const spsh__match *x, const spsh__match *y)
{
    return x->a == y->a || x->a == y->b || x->b == y->a || x->b == y->b;
}

/* Offer a match for the list of the weakest, which ascends by strength. Equal matches keep their
 * order. No two listed matches share an utterance: the weaker one stays. */
static void offer_weak(const spsh__plan_facts *f, uint64_t *held, uint64_t number)
{
    const spsh__match *m = spsh__plan_match(f, number);
    size_t end = 0;
    while (end < WEAKEST && held[end] != UINT64_MAX)
        end++;
    for (size_t i = 0; i < end;) {
        if (!have_one_in_common(m, spsh__plan_match(f, held[i]))) {
            i++;
            continue;
        }
        if (strength(spsh__plan_match(f, held[i])) <= strength(m))
            return;
        memmove(&held[i], &held[i + 1], (--end - i) * sizeof(held[0]));
        held[end] = UINT64_MAX;
    }
    size_t at = end;
    while (at > 0 && strength(m) < strength(spsh__plan_match(f, held[at - 1])))
        at--;
    if (at == WEAKEST)
        return;
    memmove(&held[at + 1], &held[at], (WEAKEST - 1 - at) * sizeof(held[0]));
    held[at] = number;
}

static void offer_pair(const spsh__plan_facts *f, gallery *g, uint64_t number)
{
    const spsh__match *m = spsh__plan_match(f, number);
    if (m->tier < SPSH_TIER_ACOUSTIC) {
        for (size_t i = 0; i < EXACT_SHOWN; i++) {
            if (g->exact[m->tier][i] == UINT64_MAX) {
                g->exact[m->tier][i] = number;
                return;
            }
        }
        return;
    }
    if (m->tier > SPSH_TIER_SCALED)
        return;
    uint64_t *strongest = &g->strongest[m->kind];
    if (*strongest == UINT64_MAX || strength(m) > strength(spsh__plan_match(f, *strongest)))
        *strongest = number;
    offer_weak(f, g->weakest[m->kind], number);
}

static spsh_status draw_class(spsh__copy_page *page, const spsh__plan_facts *f, const gallery *g,
                              unsigned kind, spsh_error *err)
{
    bool strongest_shown = false;
    spsh_status rc = SPSH_OK;
    if (g->strongest[kind] == UINT64_MAX)
        return SPSH_OK;
    spsh__html_format(page->out,
                      "<details open=\"open\"><summary><code>%s</code>: %s; the weakest "
                      "first, the strongest last</summary>\n",
                      spsh_copy_class_text((spsh_copy_class)kind),
                      spsh__copy_class_meaning((spsh_copy_class)kind));
    for (size_t i = 0; rc == SPSH_OK && i < WEAKEST && g->weakest[kind][i] != UINT64_MAX; i++) {
        rc = spsh__copy_figure(page, spsh__plan_match(f, g->weakest[kind][i]), err);
        strongest_shown = strongest_shown || g->weakest[kind][i] == g->strongest[kind];
    }
    if (rc == SPSH_OK && !strongest_shown)
        rc = spsh__copy_figure(page, spsh__plan_match(f, g->strongest[kind]), err);
    spsh__builder_append_text(page->out, "</details>\n");
    return rc;
}

static spsh_status draw_exact(spsh__copy_page *page, const spsh__plan_facts *f, const gallery *g,
                              unsigned tier, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (g->exact[tier][0] == UINT64_MAX)
        return SPSH_OK;
    spsh__html_format(page->out,
                      "<details><summary><code>%s</code>: equal bytes or samples</summary>\n",
                      spsh_copy_tier_text((spsh_copy_tier)tier));
    for (size_t i = 0; rc == SPSH_OK && i < EXACT_SHOWN && g->exact[tier][i] != UINT64_MAX; i++)
        rc = spsh__copy_figure(page, spsh__plan_match(f, g->exact[tier][i]), err);
    spsh__builder_append_text(page->out, "</details>\n");
    return rc;
}

static spsh_status draw_pairs(spsh__copy_page *page, const spsh__plan_facts *f, spsh_error *err)
{
    gallery g;
    spsh_status rc = SPSH_OK;
    const uint64_t count = f->common.match_count + f->clusters->checked_count;
    if (count == 0)
        return SPSH_OK;
    memset(&g, 0xff, sizeof(g)); /* UINT64_MAX */
    for (uint64_t i = 0; i < count; i++)
        offer_pair(f, &g, i);
    spsh__page_section_open(page->out, "Examples of pairs");
    spsh__builder_append_text(
        page->out,
        "<p class=\"soft\">Each picture shows a above b, aligned, with the common segment shaded. "
        "<b>bits</b>: wrong bits of the fingerprints while both contain speech, from 0 to the "
        "level of chance. <b>wave</b>: correlation of blocks of 200 ms, from 0 to 1; green blocks "
        "agree. <code>speechshard explain DATASET ID ID --listen pair.wav</code> writes a to the "
        "left channel and b to the right.</p>\n");
    for (unsigned k = 1; rc == SPSH_OK && k < SPSH_COPY_CLASS_COUNT; k++)
        rc = draw_class(page, f, &g, k, err);
    for (unsigned t = 0; rc == SPSH_OK && t < SPSH_TIER_ACOUSTIC; t++)
        rc = draw_exact(page, f, &g, t, err);
    spsh__page_section_close(page->out);
    return rc;
}

/* ---- boilerplate ---- */

static spsh_status draw_boilerplate(spsh__copy_page *page, const spsh__plan_facts *f,
                                    spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    const size_t count = f->clusters->boilerplate_count;
    const size_t shown = count < BOILERPLATE_SHOWN ? count : BOILERPLATE_SHOWN;
    if (count == 0)
        return SPSH_OK;
    spsh__page_section_open(page->out, "Segments that many utterances share");
    spsh__html_format(page->out,
                      "<p class=\"soft\">Jingles, station names, and disclaimers in at least %s "
                      "utterances. Utterances that share only these are not copies.</p>\n",
                      SPSH_SHOW_COUNT(f->policy->boilerplate_min));
    spsh__page_table_open(page->out, "#utterances|#from|#long|for example|its transcript");
    for (size_t i = 0; rc == SPSH_OK && i < shown; i++) {
        const spsh__boilerplate *b = &f->clusters->boilerplate[i];
        spsh__builder_append_text(page->out, "<tr>");
        spsh__page_cell_count(page->out, b->utterance_count);
        spsh__page_cell_duration(page->out, b->start_s);
        spsh__page_cell_duration(page->out, b->seconds);
        spsh__builder_append_text(page->out, "<td class=\"name\">");
        rc = spsh__copy_name(page, b->ordinal, err);
        spsh__builder_append_text(page->out, "</td><td class=\"name clamp\">");
        if (rc == SPSH_OK)
            rc = spsh__copy_transcript(page, b->ordinal, err);
        spsh__builder_append_text(page->out, "</td></tr>\n");
    }
    spsh__page_table_close(page->out);
    if (shown < count)
        spsh__html_format(page->out, "<p class=\"soft\">and %s more in the plan</p>\n",
                          SPSH_SHOW_COUNT(count - shown));
    spsh__page_section_close(page->out);
    return rc;
}

/* ---- the page ---- */

static void draw_policy(spsh__copy_page *page, const spsh__policy *policy)
{
    static const char *const keeps[] = {
        "the best: lossless, then bandwidth, bit rate, length, a transcript, fewer clipped samples",
        "the first", "the longest"};
    static const char *const parts[] = {"both stay, and the plan reports them", "drop the part",
                                        "drop the whole if parts contain all of its speech"};
    spsh__page_section_open(page->out, "Policy");
    spsh__page_table_open(page->out, "question|answer");
    spsh__html_format(page->out, "<tr><td>which copy is kept</td><td>%s</td></tr>\n",
                      keeps[policy->keep]);
    if (policy->prefer_count > 0) {
        spsh__builder_append_text(page->out, "<tr><td>preferred over that</td><td>");
        for (size_t i = 0; i < policy->prefer_count; i++) {
            const spsh_dataset *d = spsh__print_set_dataset(page->facts->set, policy->prefer[i]);
            spsh__builder_append_text(page->out, i == 0 ? "" : ", then ");
            spsh__page_name(page->out, spsh__bytes_of(spsh_dataset_path(d)));
        }
        spsh__builder_append_text(page->out, "</td></tr>\n");
    }
    spsh__html_format(page->out,
                      "<tr><td>a recording inside a longer one</td><td>%s</td></tr>\n<tr><td>what "
                      "may be dropped</td><td>",
                      parts[policy->contained]);
    if (policy->drop_from == NULL) {
        spsh__builder_append_text(page->out, "copies of any split");
    } else {
        spsh__builder_append_text(page->out, "only copies of ");
        spsh__page_name(page->out, spsh__bytes_of(policy->drop_from));
    }
    spsh__builder_append_text(page->out, "</td></tr>\n");
    spsh__page_table_close(page->out);
    spsh__page_section_close(page->out);
}

static spsh_status draw_body(spsh__copy_page *page, const spsh__plan_facts *f, const summary *s,
                             spsh_error *err)
{
    draw_tiles(page, f, s);
    draw_warnings(page, f, s);
    if (f->common.match_count == 0) {
        spsh__page_section_open(page->out, "No copies");
        spsh__builder_append_text(page->out, "<p>No two utterances share audio, as far as this "
                                             "search can tell. Its limits are listed below.</p>\n");
        spsh__page_section_close(page->out);
    }
    draw_going(page, f, s);
    spsh_status rc = spsh__plan_parts_draw(s->parts, page->out, err);
    spsh__copy_found(page);
    spsh__copy_evidence(page);
    draw_sizes(page, s);
    if (rc == SPSH_OK)
        rc = draw_largest(page, f, s, err);
    if (rc == SPSH_OK)
        rc = draw_texts(page, f, s, err);
    if (rc == SPSH_OK)
        rc = draw_pairs(page, f, err);
    if (rc == SPSH_OK)
        rc = draw_boilerplate(page, f, err);
    draw_policy(page, f->policy);
    spsh__copy_datasets(page);
    spsh__copy_method(page);
    return rc;
}

spsh_status spsh__plan_page(const spsh__plan_facts *facts, spsh__builder *out, spsh_error *err)
{
    spsh__copy_page page;
    summary *s = (summary *)calloc(1, sizeof(*s));
    if (s == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = spsh__plan_parts_open(facts->common.set, &s->parts, err);
    if (rc == SPSH_OK)
        rc = spsh__copy_page_open(&page, &facts->common, "speechshard dedupe", out, err);
    if (rc == SPSH_OK) {
        for (uint64_t i = 0; i < facts->clusters->cluster_count; i++)
            count_cluster(&page, facts, s, i);
        spsh__builder_append_text(out,
                                  "<h1>Copies, and what would go</h1><p class=\"soft\">A plan: "
                                  "nothing has been changed</p>\n");
        spsh__copy_made(out, facts->common.set, facts->common.command);
        rc = draw_body(&page, facts, s, err);
        spsh__copy_page_close(&page);
    }
    spsh__plan_parts_free(s->parts);
    free(s);
    if (rc == SPSH_OK && out->failed)
        return SPSH_NO_MEMORY(err);
    return rc;
}
