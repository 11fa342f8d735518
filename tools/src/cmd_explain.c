/* cmd_explain.c: `speechshard explain`: show why two utterances are copies, or why they are not. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/source_fail.h"
#include "commands.h"
#include "common/byte_builder.h"
#include "common/json_out.h"
#include "common/page.h"
#include "speechshard/dedup.h"
#include "speechshard/inside.h"

enum { TEXT_COLUMNS = 2000 };

typedef struct request {
    const char *paths[2];
    const char *ids[2];
    const char *plot;   /* NULL: none */
    const char *listen; /* NULL: none */
    const char *command;
    bool json;
} request;

/* ---- for people ---- */

static double seconds_of(const spsh_explain_side *s)
{
    return s->row.sample_rate_hz == 0 ? 0 : (double)s->row.samples / s->row.sample_rate_hz;
}

static void print_side(const char *letter, const spsh_explain_side *s)
{
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
    printf("\n   %s, %s, %s Hz, %u channel%s", SPSH_SHOW_DURATION(seconds_of(s)),
           spsh_codec_name(s->row.codec), SPSH_SHOW_COUNT(s->row.sample_rate_hz),
           (unsigned)s->row.channels, s->row.channels == 1 ? "" : "s");
    if (s->bandwidth_hz > 0)
        printf(", signal up to %s Hz", SPSH_SHOW_COUNT(s->bandwidth_hz));
    if (!s->is_decoded)
        printf(", cannot be decoded");
    printf("\n   ");
    if (s->utterance.text.size_bytes > 0)
        spsh__text_print(stdout, s->utterance.text, TEXT_COLUMNS);
    else
        printf("(no transcript)");
    printf("\n");
}

static void print_checks(const spsh_explanation *e)
{
    const size_t count = spsh_explanation_facts(e)->check_count;
    if (count == 0)
        return;
    spsh_table *table = spsh__table_new("lrlrl");
    spsh__table_row(table, "measured", "found", "", "limit", "");
    for (size_t i = 0; i < count; i++) {
        const spsh_explain_check *c = spsh_explanation_check(e, i);
        spsh__table_row(table, c->what, SPSH_SHOW("%.4g", c->found), c->unit,
                        SPSH_SHOW("%s %.4g", c->is_at_most ? "at most" : "at least", c->limit),
                        c->is_passed ? (c->decides ? "yes  <- decisive" : "yes")
                                     : (c->decides ? "no   <- decisive" : "no"));
    }
    printf("\n");
    (void)spsh__table_print(table, stdout, "  ", 0);
    spsh__table_free(table);
}

/* Print measures that no check uses. */
static void print_measures(const spsh_explanation *e)
{
    const spsh_explain_facts *f = spsh_explanation_facts(e);
    const spsh_copy_match *m = f->closest;
    const bool is_copy = m->kind != SPSH_COPY_NONE && m->kind != SPSH_COPY_REREAD;
    if (m->count == 0)
        return;
    const double lag_ms = (m->b_start_s - m->a_start_s) * 1e3;
    printf("\n  common   %.3f s: a from %.3f s, b from %.3f s\n", m->a_seconds, m->a_start_s,
           m->b_start_s);
    printf("  lag      b's time is a's %s %.3f ms\n", lag_ms < 0 ? "minus" : "plus", fabs(lag_ms));
    if (m->a_channel != 0 || m->b_channel != 0)
        printf("  channel  %u of a, %u of b (0: mix of all channels)\n", (unsigned)m->a_channel,
               (unsigned)m->b_channel);
    if (f->has_gain && is_copy)
        printf("  level    b is %.1f dB %s\n", fabs(f->gain_db),
               f->gain_db < 0 ? "quieter" : "louder");
    if (m->is_inverted && is_copy)
        printf("  polarity inverted\n");
    if (fabs(m->slope_ppm) >= 1)
        printf("  drift    %.0f ppm\n", m->slope_ppm);
    if (fabs(m->scale - 1) > 1e-9)
        printf("  speed    b's was divided by %.5f\n", m->scale);
    for (size_t i = 1; i < f->match_count; i++) {
        const spsh_copy_match *other = spsh_explanation_match(e, i);
        printf("  as well  %.3f s: a from %.3f s, b from %.3f s (%s)\n", other->a_seconds,
               other->a_start_s, other->b_start_s, spsh_copy_class_text(other->kind));
    }
}

static void print_exact(const spsh_explanation *e)
{
    const spsh_explain_facts *f = spsh_explanation_facts(e);
    if (!spsh_explanation_side(e, 0)->is_decoded || !spsh_explanation_side(e, 1)->is_decoded)
        return;
    printf("\n  bytes    %s\n", f->is_one_record ? "equal" : "differ");
    printf("  samples  %s", f->has_equal_pcm       ? "equal"
                            : f->has_equal_trimmed ? "equal, except for silence around them"
                            : f->has_equal_mono    ? "equal, except for channels"
                                                   : "differ");
    if (f->equal_chunk_count > 0)
        printf("; %" PRIu64 " equal pieces, %.2f s", f->equal_chunk_count, f->equal_chunk_seconds);
    if (!f->has_texts)
        printf("\n  texts    cannot be compared: one is missing\n");
    else if (f->has_equal_texts)
        printf("\n  texts    equal (%s)\n", f->text_profile);
    else
        printf("\n  texts    differ: similarity %.2f (%s)\n", f->similarity, f->text_profile);
}

static void print_facts(const spsh_explanation *e)
{
    const spsh_explain_facts *f = spsh_explanation_facts(e);
    print_side("a", spsh_explanation_side(e, 0));
    print_side("b", spsh_explanation_side(e, 1));
    printf("\n%s", spsh_copy_class_text(f->kind));
    if (f->kind != SPSH_COPY_NONE)
        printf(" (%s)", spsh_copy_tier_text(f->tier));
    printf(": %s\n%s\n",
           !f->may_drop                     ? "neither is dropped because of this"
           : f->kind == SPSH_COPY_CONTAINED ? "dropped only if --contained allows it"
                                            : "one of them may be dropped",
           f->verdict);
    print_exact(e);
    print_measures(e);
    print_checks(e);
}

/* ---- for machines ---- */

static void put_side(spsh_json *json, const char *key, const spsh_explain_side *s)
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
    spsh__json_put_u64(json, "bandwidth_hz", s->bandwidth_hz);
    spsh__json_put_u64(json, "clipped", s->clipped_count);
    spsh__json_put_real(json, "active_seconds", (double)s->active_ms / 1000);
    spsh__json_put_bool(json, "decodes", s->is_decoded);
    spsh__json_end(json);
}

static void put_match(spsh_json *json, const spsh_copy_match *m)
{
    spsh__json_begin_object(json, NULL);
    spsh__json_put_string(json, "class", spsh_copy_class_text(m->kind));
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(m->tier));
    spsh__json_put_real(json, "a_start", m->a_start_s);
    spsh__json_put_real(json, "b_start", m->b_start_s);
    spsh__json_put_real(json, "seconds", m->a_seconds);
    spsh__json_put_u64(json, "rate_hz", m->rate_hz);
    spsh__json_put_u64(json, "a_first", m->a_first);
    spsh__json_put_u64(json, "b_first", m->b_first);
    spsh__json_put_u64(json, "count", m->count);
    spsh__json_put_real(json, "lag_ms", (m->b_start_s - m->a_start_s) * 1e3);
    spsh__json_put_u64(json, "a_channel", m->a_channel);
    spsh__json_put_u64(json, "b_channel", m->b_channel);
    spsh__json_put_real(json, "active_seconds", m->active_seconds);
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

static void put_checks(spsh_json *json, const spsh_explanation *e)
{
    spsh__json_begin_array(json, "checks");
    for (size_t i = 0; i < spsh_explanation_facts(e)->check_count; i++) {
        const spsh_explain_check *c = spsh_explanation_check(e, i);
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

static int put_facts(const spsh_explanation *e)
{
    spsh_json *json = spsh__json_new();
    const spsh_explain_facts *f = spsh_explanation_facts(e);
    spsh__json_put_string(json, "schema", "speechshard-explain-1");
    put_side(json, "a", spsh_explanation_side(e, 0));
    put_side(json, "b", spsh_explanation_side(e, 1));
    spsh__json_put_string(json, "class", spsh_copy_class_text(f->kind));
    spsh__json_put_string(json, "tier", spsh_copy_tier_text(f->tier));
    spsh__json_put_bool(json, "may_drop", f->may_drop);
    spsh__json_put_string(json, "verdict", f->verdict);
    spsh__json_begin_object(json, "exact");
    spsh__json_put_bool(json, "bytes", f->is_one_record);
    spsh__json_put_bool(json, "samples", f->has_equal_pcm);
    spsh__json_put_bool(json, "samples_trimmed", f->has_equal_trimmed);
    spsh__json_put_bool(json, "samples_mono", f->has_equal_mono);
    spsh__json_put_u64(json, "pieces", f->equal_chunk_count);
    spsh__json_put_real(json, "piece_seconds", f->equal_chunk_seconds);
    spsh__json_end(json);
    spsh__json_begin_object(json, "texts");
    spsh__json_put_string(json, "profile", f->text_profile);
    if (f->has_texts)
        spsh__json_put_bool(json, "equal", f->has_equal_texts);
    else
        spsh__json_put_null(json, "equal");
    spsh__json_put_real(json, "similarity", f->has_texts ? f->similarity : (double)NAN);
    spsh__json_end(json);
    spsh__json_put_real(json, "gain_db", f->has_gain ? f->gain_db : (double)NAN);
    spsh__json_begin_array(json, "matches");
    for (size_t i = 0; i < f->match_count; i++)
        put_match(json, spsh_explanation_match(e, i));
    spsh__json_end(json);
    spsh__json_begin_array(json, "closest");
    if (f->match_count == 0 && f->closest->count > 0)
        put_match(json, f->closest);
    spsh__json_end(json);
    put_checks(json, e);
    return spsh__cli_json(json);
}

/* ---- the command ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static spsh_status write_files(const request *r, const spsh_explanation *e, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (r->plot != NULL && ends_with(r->plot, ".html"))
        rc = spsh_explanation_write_page(e, r->plot, r->command, err);
    else if (r->plot != NULL)
        rc = spsh_explanation_write_picture(e, r->plot, err);
    if (rc == SPSH_OK && r->listen != NULL)
        rc = spsh_explanation_write_audio(e, r->listen, err);
    return rc;
}

static int print_explanation(const request *r, const spsh_explanation *e)
{
    if (r->json)
        return put_facts(e);
    print_facts(e);
    return SPSH_EXIT_DONE;
}

/* True if both utterances are the same, which is a mistake in the command line. */
static bool is_repeated(const request *r)
{
    struct stat a, b;
    return strcmp(r->ids[0], r->ids[1]) == 0 && stat(r->paths[0], &a) == 0 &&
           stat(r->paths[1], &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)user, (void)stage, (void)done, (void)total;
    return *spsh__cli_interrupted();
}

static int explain(const request *r)
{
    spsh_explain_options options = SPSH_EXPLAIN_OPTIONS_INIT;
    spsh_explanation *e = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    options.progress_fn = on_progress;
    spsh_status status = spsh_pair_explain(r->paths, r->ids, &options, &e, &err);
    if (status == SPSH_E_CANCELED) {
        spsh__cli_error("stopped; the same command continues");
        return SPSH_EXIT_FAILED;
    }
    if (status == SPSH_E_INVALID_ARG && is_repeated(r))
        return spsh__cli_usage("explain", "%s", err.message);
    if (status == SPSH_OK)
        status = write_files(r, e, &err);
    const int rc =
        status == SPSH_OK ? print_explanation(r, e) : spsh__path_fail(NULL, r->paths, 2, &err);
    spsh_explanation_free(e);
    return rc;
}

int spsh__cmd_explain(int argc, char **argv)
{
    request r = {{NULL, NULL}, {NULL, NULL}, NULL, NULL, NULL, false};
    spsh__builder line = {0};
    const spsh_cli_option options[] = {
        {"plot", 0, SPSH_CLI_TEXT, "FILE",
         "write a picture: both waveforms aligned, wrong bits, correlation; .svg, or a page if the "
         "name ends in .html",
         &r.plot, 0, 0},
        {"listen", 0, SPSH_CLI_TEXT, "FILE.wav",
         "write the common part, a in the left channel, b in the right", &r.listen, 0, 0},
        {"json", 0, SPSH_CLI_FLAG, NULL, "print JSON", &r.json, 0, 0},
        SPSH_CLI_OPTIONS_END,
    };
    const spsh_cli_command command = {
        "explain",
        "DATASET ID ID [ID]",
        "DATASET ID ID [options]\nDATASET ID DATASET ID [options]",
        "explain why two utterances are copies, or are not",
        "Compares bytes, samples, fingerprints, waveforms, and transcripts, and lists each limit "
        "that was applied. Common changes of speed are tried as well. The exit status is 0 for "
        "every verdict.",
        "speechshard explain corpus.spsh en/hello en/hello-again\n"
        "speechshard explain corpus.spsh en/hello crawl.spsh 000123 --plot pair.svg --listen "
        "pair.wav\n",
        options,
    };
    spsh_cli_args args;
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
    rc = r.command == NULL ? spsh__cli_fail_memory() : explain(&r);
    spsh__builder_free(&line);
    return spsh__cli_finish(rc);
}
