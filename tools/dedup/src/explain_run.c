/* explain_run.c: spsh_pair_explain finds two utterances, compares them, and shows the result. */
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/file_out.h"
#include "common/nearest_id.h"
#include "dedup_options.h"
#include "pair/explain.h"
#include "pair/pair_audio.h"
#include "pair/pair_view.h"
#include "plan/copy_page.h"
#include "set/source_prints.h"
#include "speechshard/inside.h"
#include "speechshard/options.h"

struct spsh_explanation {
    spsh_explain_side sides[2];
    spsh_copy_match matches[SPSH__EXPLAIN_MATCHES], best;
    spsh__explain_facts found;
    spsh__print_set *set;
    spsh_reader *readers[2]; /* owners of the strings of the two sides */
};

/* ---- the two utterances ---- */

static spsh_status fail_unknown(const spsh_dataset *dataset, spsh_reader *reader, const char *id,
                                spsh_error *err)
{
    spsh__builder nearest = {0};
    const char *name = spsh__nearest_id(dataset, reader, id, &nearest);
    const spsh_status rc =
        SPSH_FAIL(err, SPSH_E_NOT_FOUND, "%s has no utterance '%s'%s%s%s",
                  spsh_dataset_path(dataset), id, name != NULL ? "; did you mean '" : "",
                  name != NULL ? name : " ('speechshard ls' lists them)", name != NULL ? "'?" : "");
    spsh__builder_free(&nearest);
    return rc;
}

/* Find the index of the dataset in the set, which orders datasets by their ids. */
static spsh_status find_dataset(const spsh__print_set *set, const char *path, const spsh_io *io,
                                size_t *ret_dataset, spsh_error *err)
{
    spsh_dataset_options opt = SPSH_DATASET_OPTIONS_INIT;
    spsh_dataset *opened = NULL;
    opt.io = io;
    const spsh_status rc = spsh_dataset_open(path, &opt, &opened, err);
    if (rc != SPSH_OK)
        return rc;
    const uint8_t *id = spsh_dataset_info_get(opened)->dataset_id;
    for (size_t i = 0; i < spsh__print_set_dataset_count(set); i++) {
        const spsh_dataset *d = spsh__print_set_dataset(set, i);
        if (memcmp(spsh_dataset_info_get(d)->dataset_id, id, 16) == 0)
            *ret_dataset = i;
    }
    spsh_dataset_close(opened);
    return SPSH_OK;
}

static spsh_status find_side(spsh_explanation *e, size_t number, size_t dataset, const char *id,
                             uint64_t *ret_ordinal, spsh_error *err)
{
    spsh_explain_side *s = &e->sides[number];
    uint64_t position = 0;
    spsh_error local = SPSH_ERROR_INIT;
    s->dataset = spsh__print_set_dataset(e->set, dataset);
    spsh_status rc = spsh_reader_open(s->dataset, &e->readers[number], err);
    if (rc != SPSH_OK)
        return rc;
    rc = spsh_reader_find(e->readers[number], spsh__bytes_of(id), &position, &local);
    if (rc == SPSH_E_NOT_FOUND && local.os_errno == 0)
        return fail_unknown(s->dataset, e->readers[number], id, err);
    if (rc != SPSH_OK && err != NULL)
        *err = local;
    if (rc == SPSH_OK)
        rc = spsh_dataset_rows(s->dataset, position, 1, &s->row, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(e->readers[number], position, &s->utterance, err);
    *ret_ordinal = spsh__print_set_first(e->set, dataset) + position;
    return rc;
}

/* ---- comparing ---- */

static void show(spsh_explanation *e)
{
    const spsh__explain_facts *f = &e->found;
    for (size_t i = 0; i < 2; i++) {
        e->sides[i].bandwidth_hz = f->rows[i].bandwidth_hz;
        e->sides[i].clipped_count = f->rows[i].clipped_count;
        e->sides[i].active_ms = f->rows[i].active_ms;
        e->sides[i].is_decoded = (f->rows[i].flags & SPSH__ROW_DECODED) != 0;
    }
    for (size_t i = 0; i < f->shown.match_count; i++)
        e->matches[i] = spsh__pair_match_show(&f->matches[i]);
    e->best = spsh__pair_match_show(&f->best);
    e->found.shown.closest = &e->best;
}

static spsh_status compare(spsh_explanation *e, const char *const paths[2],
                           const char *const ids[2], const spsh_io *io, spsh_error *err)
{
    uint64_t ordinals[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        size_t dataset = 0;
        spsh_status rc = find_dataset(e->set, paths[i], io, &dataset, err);
        if (rc == SPSH_OK)
            rc = find_side(e, i, dataset, ids[i], &ordinals[i], err);
        if (rc != SPSH_OK)
            return rc;
    }
    if (ordinals[0] == ordinals[1])
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "'%s' is given twice; give two different utterances", ids[0]);
    const spsh_status rc = spsh__explain_find(e->set, ordinals[0], ordinals[1], &e->found, err);
    if (rc == SPSH_OK)
        show(e);
    return rc;
}

spsh_status spsh_pair_explain(const char *const paths[2], const char *const ids[2],
                              const spsh_explain_options *options,
                              spsh_explanation **ret_explanation, spsh_error *err)
{
    const spsh_dedup_source sources[2] = {
        {paths[0], NULL, SPSH_SIDE_TRAIN},
        {paths[1], NULL, SPSH_SIDE_TRAIN}
    };
    spsh_explain_options o = SPSH_EXPLAIN_OPTIONS_INIT;
    spsh_status rc = spsh_options_take(options, &o, sizeof(o), err);
    if (rc == SPSH_OK && o.flags != 0)
        rc = SPSH_FAIL(err, SPSH_E_INVALID_ARG, "an option has an unknown flag");
    if (rc != SPSH_OK)
        return rc;
    o.io = o.io == NULL ? spsh_io_default() : o.io;
    spsh__call_watch watch = {.progress_fn = o.progress_fn, .user = o.user};
    const spsh__fingerprint_run_options run = {
        .io = o.io, .threads = spsh__dedup_threads(o.threads), .part_count = 1, .watch = &watch};
    spsh_explanation *e = calloc(1, sizeof(*e));
    rc = e == NULL ? SPSH_NO_MEMORY(err) : spsh__source_prints_make(sources, 2, &run, err);
    if (rc == SPSH_OK)
        rc = spsh__call_watch_check(&watch, err);
    if (rc == SPSH_OK)
        rc = spsh__print_set_open(sources, 2, o.io, &e->set, err);
    if (rc == SPSH_OK)
        rc = compare(e, paths, ids, o.io, err);
    if (rc == SPSH_OK)
        *ret_explanation = e;
    else
        spsh_explanation_free(e);
    return rc;
}

/* ---- the result ---- */

const spsh_explain_facts *spsh_explanation_facts(const spsh_explanation *explanation)
{
    return &explanation->found.shown;
}

const spsh_explain_side *spsh_explanation_side(const spsh_explanation *explanation, size_t side)
{
    return &explanation->sides[side];
}

const spsh_copy_match *spsh_explanation_match(const spsh_explanation *explanation, size_t index)
{
    return &explanation->matches[index];
}

const spsh_explain_check *spsh_explanation_check(const spsh_explanation *explanation, size_t index)
{
    return &explanation->found.checks[index];
}

void spsh_explanation_free(spsh_explanation *explanation)
{
    if (explanation == NULL)
        return;
    for (size_t i = 0; i < 2; i++)
        spsh_reader_close(explanation->readers[i]);
    spsh__print_set_close(explanation->set);
    free(explanation);
}

/* ---- files ---- */

static void draw_text(spsh__builder *out, const char *letter, const spsh_explain_side *s)
{
    const double seconds =
        s->row.sample_rate_hz == 0 ? 0 : (double)s->row.samples / s->row.sample_rate_hz;
    spsh__html_format(out, "<tr><td><b>%s</b></td>", letter);
    spsh__page_cell_name(out, s->utterance.id);
    spsh__page_cell_duration(out, seconds);
    spsh__builder_append_text(out, "<td class=\"name\">");
    spsh__page_name(out, s->utterance.text);
    spsh__builder_append_text(out, "</td></tr>\n");
}

static void draw_checks(spsh__builder *out, const spsh__explain_facts *f)
{
    spsh__page_section_open(out, "Limits");
    spsh__page_table_open(out, "measured|#found|#limit|passed");
    for (size_t i = 0; i < f->shown.check_count; i++) {
        const spsh_explain_check *c = &f->checks[i];
        spsh__builder_append_text(out, "<tr><td>");
        spsh__page_text(out, c->what);
        spsh__html_format(out,
                          "</td><td class=\"n\">%.4g %s</td><td class=\"n\">%s %.4g</td>"
                          "<td>%s%s</td></tr>\n",
                          c->found, c->unit, c->is_at_most ? "at most" : "at least", c->limit,
                          c->is_passed ? "yes" : "no", c->decides ? ", decides" : "");
    }
    spsh__page_table_close(out);
    spsh__page_section_close(out);
}

static spsh_status write_file(const char *path, spsh_status rc, spsh__builder *out, spsh_error *err)
{
    if (rc == SPSH_OK && out->failed)
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        rc = spsh__file_out_write(path, spsh__builder_bytes(out), err);
    spsh__builder_free(out);
    return rc;
}

spsh_status spsh_explanation_write_page(const spsh_explanation *explanation, const char *path,
                                        const char *command, spsh_error *err)
{
    const spsh__explain_facts *f = &explanation->found;
    spsh__builder out = {0};
    spsh__page_open(&out, "speechshard explain", spsh__pair_view_style);
    spsh__html_format(&out, "<h1>%s</h1>\n<p>", spsh_copy_class_text(f->shown.kind));
    spsh__page_text(&out, f->verdict);
    spsh__builder_append_text(&out, "</p>\n");
    spsh__copy_made(&out, explanation->set, command);
    spsh__page_section_open(&out, "The two");
    spsh__page_table_open(&out, "|utterance|#length|transcript");
    draw_text(&out, "a", &explanation->sides[0]);
    draw_text(&out, "b", &explanation->sides[1]);
    spsh__page_table_close(&out);
    const spsh_status rc = spsh__pair_view_draw(explanation->set, &f->best, false, &out, err);
    spsh__page_section_close(&out);
    draw_checks(&out, f);
    spsh__page_close(&out);
    return write_file(path, rc, &out, err);
}

spsh_status spsh_explanation_write_picture(const spsh_explanation *explanation, const char *path,
                                           spsh_error *err)
{
    spsh__builder out = {0};
    const spsh_status rc =
        spsh__pair_view_draw(explanation->set, &explanation->found.best, true, &out, err);
    return write_file(path, rc, &out, err);
}

spsh_status spsh_explanation_write_audio(const spsh_explanation *explanation, const char *path,
                                         spsh_error *err)
{
    return spsh__pair_view_listen(explanation->set, &explanation->found.best, path, err);
}
