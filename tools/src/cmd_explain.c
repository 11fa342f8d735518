/* cmd_explain.c: `speechshard explain`: are these two copies, and how can one tell? */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/selection.h"
#include "cli/source_fail.h"
#include "commands.h"
#include "common/file_names.h"
#include "common/file_out.h"
#include "common/json_out.h"
#include "pair/explain.h"
#include "pair/pair_audio.h"
#include "pair/pair_view.h"
#include "plan/copy_page.h"
#include "set/source_prints.h"
#include "speechshard/cores.h"
#include "speechshard/inside.h"
#include "text/edit_distance.h"
#include "text/text_profile.h"

enum {
    IDS_SEARCHED = 200000, /* for the nearest of an id that is not there */
    ID_POINTS_MAX = 256,
    TEXT_COLUMNS = 2000,
    JOBS_MAX = 1024,
};

typedef struct request {
    const char *paths[2];
    const char *ids[2];
    const char *plot;   /* NULL: none */
    const char *listen; /* NULL: none */
    const char *command;
    bool json;
} request;

/* One of the two, for people and machines. */
typedef struct side {
    const spsh_dataset *dataset;
    spsh_reader *reader; /* holds what utterance borrows */
    spsh_row row;
    spsh_utterance utterance;
} side;

/* ---- ids ---- */

static spsh__points points_of(spsh_bytes text, uint32_t *room)
{
    const size_t count = text.size_bytes < ID_POINTS_MAX ? text.size_bytes : ID_POINTS_MAX;
    for (size_t i = 0; i < count; i++)
        room[i] = text.data[i];
    return (spsh__points){room, count};
}

/* A path that ends in what was typed, or else what is a few letters off. */
static bool is_nearer(spsh_bytes id, const char *typed, size_t *best)
{
    uint32_t points[2][ID_POINTS_MAX];
    uint32_t row[2 * ID_POINTS_MAX + 3];
    const spsh_bytes want = spsh__bytes_of(typed);
    size_t distance = 0;
    if (id.size_bytes > want.size_bytes && want.size_bytes > 0) {
        const size_t at = id.size_bytes - want.size_bytes;
        if (id.data[at - 1] == '/' && memcmp(id.data + at, want.data, want.size_bytes) == 0)
            distance = 1;
    }
    if (distance == 0)
        distance = spsh__edit_distance(points_of(id, points[0]), points_of(want, points[1]),
                                       *best > 0 ? *best - 1 : 0, row);
    if (distance >= *best)
        return false;
    *best = distance;
    return true;
}

static void report_unknown(const spsh_dataset *dataset, spsh_reader *reader, const char *id)
{
    const uint64_t count = spsh_dataset_info_get(dataset)->utterance_count;
    const char *path = spsh_dataset_path(dataset);
    size_t best = strlen(id) / 3 + 2;
    spsh__builder nearest = {0};
    spsh_utterance utterance;
    best = best < ID_POINTS_MAX ? best : ID_POINTS_MAX;
    for (uint64_t i = 0; i < count && i < IDS_SEARCHED; i++) {
        if (spsh_reader_metadata(reader, i, &utterance, NULL) != SPSH_OK)
            break;
        if (!is_nearer(utterance.id, id, &best))
            continue;
        spsh__builder_clear(&nearest);
        spsh__builder_append_bytes(&nearest, utterance.id);
    }
    const char *name = nearest.size_bytes > 0 ? spsh__builder_text(&nearest) : NULL;
    if (name != NULL)
        spsh__cli_error("%s has no utterance '%s'; did you mean '%s'?", path, id, name);
    else
        spsh__cli_error("%s has no utterance '%s' ('speechshard ls' lists them)", path, id);
    spsh__builder_free(&nearest);
}

/* Opens a reader on the dataset and finds the id in it. */
static int find_side(const spsh__print_set *set, size_t dataset, const char *id, side *s,
                     uint64_t *ret_ordinal)
{
    spsh_error err = SPSH_ERROR_INIT;
    uint64_t position = 0;
    s->dataset = spsh__print_set_dataset(set, dataset);
    spsh_status rc = spsh_reader_open(s->dataset, &s->reader, &err);
    if (rc == SPSH_OK) {
        rc = spsh_reader_find(s->reader, spsh__bytes_of(id), &position, &err);
        if (rc == SPSH_E_NOT_FOUND && err.os_errno == 0) {
            report_unknown(s->dataset, s->reader, id);
            return SPSH_EXIT_FAILED;
        }
    }
    if (rc == SPSH_OK)
        rc = spsh_dataset_rows(s->dataset, position, 1, &s->row, &err);
    if (rc == SPSH_OK)
        rc = spsh_reader_metadata(s->reader, position, &s->utterance, &err);
    *ret_ordinal = spsh__print_set_first(set, dataset) + position;
    return rc == SPSH_OK ? SPSH_EXIT_DONE : spsh__cli_fail(NULL, &err);
}

/* Which dataset of the set a path is: the set orders them by their ids. */
static int find_dataset(const spsh__print_set *set, const char *path, size_t *ret_dataset)
{
    spsh_dataset *opened = NULL;
    const int rc = spsh__dataset_open_or_report(path, 0, &opened);
    if (rc != SPSH_EXIT_DONE)
        return rc;
    const uint8_t *id = spsh_dataset_info_get(opened)->dataset_id;
    for (size_t i = 0; i < spsh__print_set_dataset_count(set); i++) {
        const spsh_dataset *d = spsh__print_set_dataset(set, i);
        if (memcmp(spsh_dataset_info_get(d)->dataset_id, id, 16) == 0)
            *ret_dataset = i;
    }
    spsh_dataset_close(opened);
    return SPSH_EXIT_DONE;
}

/* ---- for people ---- */

static double seconds_of(const side *s)
{
    return s->row.sample_rate_hz == 0 ? 0 : (double)s->row.samples / s->row.sample_rate_hz;
}

static void print_side(const char *letter, const side *s, const spsh__segment_row *row)
{
    char duration[SPSH_HUMAN_BYTES];
    char rate[SPSH_HUMAN_BYTES];
    printf("%s  ", letter);
    spsh__text_print(stdout, s->utterance.id, 0);
    printf("  in %s", spsh_dataset_path(s->dataset));
    if (s->utterance.split.size_bytes > 0) {
        printf(", ");
        spsh__text_print(stdout, s->utterance.split, 0);
    }
    if (s->utterance.speaker.size_bytes > 0) {
        printf(", speaker ");
        spsh__text_print(stdout, s->utterance.speaker, 0);
    }
    printf("\n   %s, %s, %s Hz, %u channel%s", spsh__human_duration(seconds_of(s), duration),
           spsh_codec_name(s->row.codec), spsh__human_count(s->row.sample_rate_hz, rate),
           (unsigned)s->row.channels, s->row.channels == 1 ? "" : "s");
    if (row->bandwidth_hz > 0)
        printf(", signal up to %s Hz", spsh__human_count(row->bandwidth_hz, rate));
    if ((row->flags & SPSH__ROW_DECODED) == 0)
        printf(", cannot be decoded");
    printf("\n   ");
    if (s->utterance.text.size_bytes > 0)
        spsh__text_print(stdout, s->utterance.text, TEXT_COLUMNS);
    else
        printf("(no transcript)");
    printf("\n");
}

static void print_checks(const spsh__explain_facts *f)
{
    spsh_table *table = spsh__table_new("lrlrl");
    char found[32], limit[48];
    if (f->check_count == 0 || table == NULL) {
        spsh__table_free(table);
        return;
    }
    printf("\n");
    spsh__table_row(table, "measured", "found", "", "limit", "");
    for (size_t i = 0; i < f->check_count; i++) {
        const spsh_explain_check *c = &f->checks[i];
        (void)snprintf(found, sizeof(found), "%.4g", c->found);
        (void)snprintf(limit, sizeof(limit), "%s %.4g", c->is_at_most ? "at most" : "at least",
                       c->limit);
        spsh__table_row(table, c->what, found, c->unit, limit,
                        c->is_passed ? (c->decides ? "yes  <- decides" : "yes")
                                     : (c->decides ? "no   <- decides" : "no"));
    }
    (void)spsh__table_print(table, stdout, "  ", 0);
    spsh__table_free(table);
}

/* Beyond what is checked. */
static void print_measures(const spsh__explain_facts *f)
{
    const spsh__match *m = &f->best;
    const spsh__pair_place place = spsh__pair_place_of(m);
    const bool is_copy = m->kind != SPSH_COPY_NONE && m->kind != SPSH_COPY_REREAD;
    if (m->count == 0)
        return;
    const double lag_ms = (place.b_first_s - place.a_first_s) * 1e3;
    printf("\n  common   %.3f s: a from %.3f s, b from %.3f s\n", place.a_s, place.a_first_s,
           place.b_first_s);
    printf("  lag      b's time is a's %s %.3f ms\n", lag_ms < 0 ? "minus" : "plus", fabs(lag_ms));
    if (m->a_channel != 0 || m->b_channel != 0)
        printf("  channel  %u of a, %u of b (0: the mix)\n", (unsigned)m->a_channel,
               (unsigned)m->b_channel);
    if (f->has_gain && is_copy)
        printf("  level    b is %.1f dB %s\n", fabs(f->gain_db),
               f->gain_db < 0 ? "quieter" : "louder");
    if (m->is_inverted && is_copy)
        printf("  polarity turned over\n");
    if (fabs(m->slope_ppm) >= 1)
        printf("  drift    %.0f ppm\n", m->slope_ppm);
    if (fabs(m->scale - 1) > 1e-9)
        printf("  speed    b's was divided by %.5f\n", m->scale);
    for (size_t i = 1; i < f->match_count; i++) {
        const spsh__pair_place other = spsh__pair_place_of(&f->matches[i]);
        printf("  as well  %.3f s: a from %.3f s, b from %.3f s (%s)\n", other.a_s, other.a_first_s,
               other.b_first_s, spsh_copy_class_text(f->matches[i].kind));
    }
}

static void print_exact(const spsh__explain_facts *f)
{
    if ((f->rows[0].flags & f->rows[1].flags & SPSH__ROW_DECODED) == 0)
        return;
    printf("\n  bytes    %s\n", f->is_one_record ? "equal" : "differ");
    printf("  samples  %s", f->has_equal_pcm       ? "equal"
                            : f->has_equal_trimmed ? "equal but for silence around them"
                            : f->has_equal_mono    ? "equal but for channels"
                                                   : "differ");
    if (f->equal_chunks > 0)
        printf("; %" PRIu64 " equal pieces, %.2f s", f->equal_chunks, f->equal_chunk_seconds);
    if (!f->has_texts)
        printf("\n  texts    cannot be compared: one has none\n");
    else if (f->has_equal_texts)
        printf("\n  texts    equal (%s)\n", spsh__text_profile_name(SPSH_TEXT_PROFILE_DEFAULT));
    else
        printf("\n  texts    differ: similarity %.2f (%s)\n", f->similarity,
               spsh__text_profile_name(SPSH_TEXT_PROFILE_DEFAULT));
}

static void print_facts(const spsh__explain_facts *f, const side sides[2])
{
    print_side("a", &sides[0], &f->rows[0]);
    print_side("b", &sides[1], &f->rows[1]);
    printf("\n%s", spsh_copy_class_text(f->kind));
    if (f->kind != SPSH_COPY_NONE)
        printf(" (%s)", spsh_copy_tier_text(f->tier));
    printf(": %s\n%s\n",
           !f->may_drop                     ? "neither is dropped for this"
           : f->kind == SPSH_COPY_CONTAINED ? "dropped only where --contained says so"
                                            : "one of them may be dropped",
           f->verdict);
    print_exact(f);
    print_measures(f);
    print_checks(f);
}

/* ---- for machines ---- */

static void put_side(spsh_json *json, const char *key, const side *s, const spsh__segment_row *row)
{
    spsh__json_begin_object(json, key);
    spsh__json_put_string(json, "dataset", spsh_dataset_path(s->dataset));
    spsh__json_put_text(json, "id", s->utterance.id);
    spsh__json_put_text_or_null(json, "split", s->utterance.split);
    spsh__json_put_text_or_null(json, "speaker", s->utterance.speaker);
    spsh__json_put_text_or_null(json, "text", s->utterance.text);
    spsh__json_put_real(json, "seconds", seconds_of(s));
    spsh__json_put_u64(json, "samples", s->row.samples);
    spsh__json_put_u64(json, "sample_rate_hz", s->row.sample_rate_hz);
    spsh__json_put_u64(json, "channels", s->row.channels);
    spsh__json_put_string(json, "codec", spsh_codec_name(s->row.codec));
    spsh__json_put_u64(json, "bandwidth_hz", row->bandwidth_hz);
    spsh__json_put_u64(json, "clipped", row->clipped_count);
    spsh__json_put_real(json, "active_seconds", (double)row->active_ms / 1000);
    spsh__json_put_bool(json, "decodes", (row->flags & SPSH__ROW_DECODED) != 0);
    spsh__json_end(json);
}

static void put_match(spsh_json *json, const spsh__match *m)
{
    const spsh__pair_place place = spsh__pair_place_of(m);
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "class", spsh_copy_class_text(m->kind));
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(m->tier));
    spsh__json_put_real(json, "a_start", place.a_first_s);
    spsh__json_put_real(json, "b_start", place.b_first_s);
    spsh__json_put_real(json, "seconds", place.a_s);
    spsh__json_put_u64(json, "rate_hz", m->rate_hz);
    spsh__json_put_u64(json, "a_first", m->a_first);
    spsh__json_put_u64(json, "b_first", m->b_first);
    spsh__json_put_u64(json, "count", m->count);
    spsh__json_put_real(json, "lag_ms", (place.b_first_s - place.a_first_s) * 1e3);
    spsh__json_put_u64(json, "a_channel", m->a_channel);
    spsh__json_put_u64(json, "b_channel", m->b_channel);
    spsh__json_put_real(json, "active_seconds", m->active_s);
    spsh__json_put_real(json, "coverage_a", m->coverage_a);
    spsh__json_put_real(json, "coverage_b", m->coverage_b);
    spsh__json_put_real(json, "ber", m->ber);
    spsh__json_put_real(json, "words_hz", m->words_hz);
    spsh__json_put_real(json, "tonality", m->tonality);
    spsh__json_put_real(json, "ncc", m->ncc);
    spsh__json_put_real(json, "ncc_white", m->ncc_white);
    spsh__json_put_real(json, "envelope", m->envelope);
    spsh__json_put_real(json, "block_share", m->block_share);
    spsh__json_put_real(json, "slope_ppm", m->slope_ppm);
    spsh__json_put_real(json, "spread_ms", m->spread_ms);
    spsh__json_put_real(json, "scale", m->scale);
    spsh__json_put_bool(json, "inverted", m->is_inverted);
    spsh__json_end(json);
}

static void put_checks(spsh_json *json, const spsh__explain_facts *f)
{
    spsh__json_begin_array(json, "checks");
    for (size_t i = 0; i < f->check_count; i++) {
        const spsh_explain_check *c = &f->checks[i];
        spsh__json_begin_object(json, NULL);
        spsh__json_put_string(json, "what", c->what);
        spsh__json_put_string(json, "unit", c->unit);
        spsh__json_put_real(json, "found", c->found);
        spsh__json_put_real(json, c->is_at_most ? "at_most" : "at_least", c->limit);
        spsh__json_put_bool(json, "passed", c->is_passed);
        spsh__json_put_bool(json, "decides", c->decides);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_facts(spsh_json *json, const spsh__explain_facts *f, const side sides[2])
{
    spsh__json_put_string(json, "schema", "speechshard-explain-1");
    put_side(json, "a", &sides[0], &f->rows[0]);
    put_side(json, "b", &sides[1], &f->rows[1]);
    spsh__json_put_string(json, "class", spsh_copy_class_text(f->kind));
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(f->tier));
    spsh__json_put_bool(json, "may_drop", f->may_drop);
    spsh__json_put_string(json, "verdict", f->verdict);
    spsh__json_begin_object(json, "exact");
    spsh__json_put_bool(json, "bytes", f->is_one_record);
    spsh__json_put_bool(json, "samples", f->has_equal_pcm);
    spsh__json_put_bool(json, "samples_trimmed", f->has_equal_trimmed);
    spsh__json_put_bool(json, "samples_mono", f->has_equal_mono);
    spsh__json_put_u64(json, "pieces", f->equal_chunks);
    spsh__json_put_real(json, "piece_seconds", f->equal_chunk_seconds);
    spsh__json_end(json);
    spsh__json_begin_object(json, "texts");
    spsh__json_put_string(json, "profile", spsh__text_profile_name(SPSH_TEXT_PROFILE_DEFAULT));
    if (f->has_texts) {
        spsh__json_put_bool(json, "equal", f->has_equal_texts);
        spsh__json_put_real(json, "similarity", f->similarity);
    } else {
        spsh__json_put_null(json, "equal");
        spsh__json_put_null(json, "similarity");
    }
    spsh__json_end(json);
    if (f->has_gain)
        spsh__json_put_real(json, "gain_db", f->gain_db);
    else
        spsh__json_put_null(json, "gain_db");
    spsh__json_begin_array(json, "matches");
    for (size_t i = 0; i < f->match_count; i++)
        put_match(json, &f->matches[i]);
    spsh__json_end(json);
    spsh__json_begin_array(json, "closest");
    if (f->match_count == 0 && f->best.count > 0)
        put_match(json, &f->best);
    spsh__json_end(json);
    put_checks(json, f);
}

/* ---- files ---- */

static void draw_text(spsh__builder *out, const char *letter, const side *s)
{
    spsh__html_format(out, "<tr><td><b>%s</b></td>", letter);
    spsh__page_cell_name(out, s->utterance.id);
    spsh__page_cell_duration(out, seconds_of(s));
    spsh__builder_append_text(out, "<td class=\"name\">");
    spsh__page_name(out, s->utterance.text);
    spsh__builder_append_text(out, "</td></tr>\n");
}

static spsh_status draw_page(const char *command, const spsh__print_set *set,
                             const spsh__explain_facts *f, const side sides[2], spsh__builder *out,
                             spsh_error *err)
{
    spsh__page_open(out, "speechshard explain", spsh__pair_view_style);
    spsh__html_format(out, "<h1>%s</h1>\n<p>", spsh_copy_class_text(f->kind));
    spsh__page_text(out, f->verdict);
    spsh__builder_append_text(out, "</p>\n");
    spsh__copy_made(out, set, command);
    spsh__page_section_open(out, "The two");
    spsh__page_table_open(out, "|utterance|#length|transcript");
    draw_text(out, "a", &sides[0]);
    draw_text(out, "b", &sides[1]);
    spsh__page_table_close(out);
    const spsh_status rc = spsh__pair_view_draw(set, &f->best, out, err);
    spsh__page_section_close(out);
    spsh__page_section_open(out, "Limits");
    spsh__page_table_open(out, "measured|#found|#limit|passed");
    for (size_t i = 0; i < f->check_count; i++) {
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
    spsh__page_close(out);
    return rc;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static spsh_status write_plot(const request *r, const spsh__print_set *set,
                              const spsh__explain_facts *f, const side sides[2], spsh_error *err)
{
    spsh__builder out = {0};
    spsh_status rc = ends_with(r->plot, ".html") ? draw_page(r->command, set, f, sides, &out, err)
                                                 : spsh__pair_view_file(set, &f->best, &out, err);
    if (rc == SPSH_OK && out.failed) {
        spsh_error_set(err, SPSH_E_NO_MEMORY, 0, SPSH_OFFSET_NONE, "out of memory");
        rc = SPSH_E_NO_MEMORY;
    }
    if (rc == SPSH_OK)
        rc = spsh__file_out_write(r->plot, spsh__builder_bytes(&out), err);
    spsh__builder_free(&out);
    return rc;
}

/* ---- the command ---- */

static spsh_status tell(const request *r, const spsh__print_set *set, const spsh__explain_facts *f,
                        const side sides[2], spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (r->plot != NULL)
        rc = write_plot(r, set, f, sides, err);
    if (rc == SPSH_OK && r->listen != NULL)
        rc = spsh__pair_view_listen(set, &f->best, r->listen, err);
    if (rc != SPSH_OK)
        return rc;
    if (!r->json) {
        print_facts(f, sides);
        return SPSH_OK;
    }
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return SPSH_NO_MEMORY(err);
    put_facts(json, f, sides);
    rc = spsh__json_write_line(json, stdout, err);
    spsh__json_free(json);
    return rc;
}

static int fail(const request *r, const spsh_error *err)
{
    const spsh_dedup_source sources[2] = {{.path = r->paths[0]}, {.path = r->paths[1]}};
    return spsh__source_fail(NULL, sources, 2, err);
}

static int explain(const request *r, const spsh__print_set *set)
{
    side sides[2] = {{.reader = NULL}, {.reader = NULL}};
    uint64_t ordinals[2] = {0, 0};
    spsh_error err = SPSH_ERROR_INIT;
    int rc = SPSH_EXIT_DONE;
    spsh__explain_facts *f = (spsh__explain_facts *)calloc(1, sizeof(*f));
    if (f == NULL)
        return spsh__cli_fail_memory();
    for (size_t i = 0; rc == SPSH_EXIT_DONE && i < 2; i++) {
        size_t dataset = 0;
        rc = find_dataset(set, r->paths[i], &dataset);
        if (rc == SPSH_EXIT_DONE)
            rc = find_side(set, dataset, r->ids[i], &sides[i], &ordinals[i]);
    }
    if (rc == SPSH_EXIT_DONE && ordinals[0] == ordinals[1])
        rc = spsh__cli_usage("explain", "'%s' is named twice; two utterances are compared",
                             r->ids[0]);
    if (rc == SPSH_EXIT_DONE &&
        (spsh__explain_find(set, ordinals[0], ordinals[1], f, &err) != SPSH_OK ||
         tell(r, set, f, sides, &err) != SPSH_OK))
        rc = spsh__cli_output_failed() ? SPSH_EXIT_DONE : fail(r, &err);
    for (size_t i = 0; i < 2; i++)
        spsh_reader_close(sides[i].reader);
    free(f);
    return rc;
}

/* Segments that are missing are made first. */
static int open_set(const request *r, spsh__print_set **ret_set)
{
    const spsh_dedup_source sources[2] = {
        {r->paths[0], NULL, SPSH_SIDE_TRAIN},
        {r->paths[1], NULL, SPSH_SIDE_TRAIN}
    };
    const spsh__fingerprint_run_options run = {
        .io = spsh_io_default(), .threads = spsh_core_count(JOBS_MAX), .part_count = 1};
    spsh_error err = SPSH_ERROR_INIT;
    spsh_status rc = spsh__source_prints_make(sources, 2, &run, spsh__cli_interrupted(), &err);
    if (rc == SPSH_E_CANCELED) {
        spsh__cli_error("stopped; the same command goes on");
        return SPSH_EXIT_FAILED;
    }
    if (rc == SPSH_OK)
        rc = spsh__print_set_open(sources, 2, NULL, ret_set, &err);
    return rc == SPSH_OK ? SPSH_EXIT_DONE : fail(r, &err);
}

int spsh__cmd_explain(int argc, char **argv)
{
    request r = {
        {NULL, NULL},
        {NULL, NULL},
        NULL, NULL, NULL, false
    };
    spsh__builder line = {0};
    const spsh_cli_option options[] = {
        {"plot",   0, SPSH_CLI_TEXT, "FILE",
         "write a picture: both waveforms aligned, wrong bits,\n"
         "correlation; .svg, or a page when the name ends in .html", &r.plot,   0, 0},
        {"listen", 0, SPSH_CLI_TEXT, "FILE.wav",
         "write what is common, a in the left ear, b in the right",  &r.listen, 0, 0},
        {"json",   0, SPSH_CLI_FLAG, NULL,       "print JSON",       &r.json,   0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "explain",
        "DATASET ID ID [ID]",
        "DATASET ID ID [options]\nDATASET ID DATASET ID [options]",
        "say why two utterances are copies, or are not",
        "Compares bytes, samples, fingerprints, waveforms and transcripts, and names each limit "
        "that\nspoke. Speeds that are common are tried, too. Exit status 0 whatever it finds.\n",
        "speechshard explain corpus.spsh en/hello en/hello-again\n"
        "speechshard explain corpus.spsh en/hello crawl.spsh 000123 --plot pair.svg --listen "
        "pair.wav\n",
        options,
    };
    spsh_cli_args args;
    spsh__print_set *set = NULL;
    int rc = spsh__cli_parse(&command, argc, argv, &args);
    if (rc != SPSH_CLI_RUN)
        return rc;
    const bool is_one = args.operand_count == 3;
    r.paths[0] = args.operands[0];
    r.ids[0] = args.operands[1];
    r.paths[1] = is_one ? args.operands[0] : args.operands[2];
    r.ids[1] = args.operands[is_one ? 2 : 3];
    spsh__builder_append_text(&line, "speechshard");
    for (int i = 0; i < argc; i++)
        spsh__page_word(&line, argv[i]);
    r.command = spsh__builder_text(&line);
    spsh__cli_watch_signals();
    rc = r.command == NULL ? spsh__cli_fail_memory() : open_set(&r, &set);
    if (rc == SPSH_EXIT_DONE)
        rc = explain(&r, set);
    spsh__print_set_close(set);
    spsh__builder_free(&line);
    return spsh__cli_finish(rc);
}
