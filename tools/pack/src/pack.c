/* pack.c: the functions of speechshard/pack.h around spsh__pack_run. */
#include "speechshard/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/layouts/layouts.h"
#include "pack_run.h"
#include "report/pack_facts.h"
#include "speechshard/inside.h"

struct spsh_pack_report {
    spsh_pack_facts facts;
    spsh__pack_result result; /* owns the strings */
    spsh_pack_source *sources;
    spsh_pack_part *domains, *splits;
    spsh_pack_reject rejects[SPSH_REJECT_COUNT];
};

size_t spsh_pack_layout_count(void)
{
    size_t count = 0;
    while (spsh__layouts[count] != NULL)
        count++;
    return count;
}

const char *spsh_pack_layout_name(size_t index)
{
    return spsh__layouts[index]->name;
}

const char *spsh_pack_layout_summary(size_t index)
{
    return spsh__layouts[index]->summary;
}

/* ---- the report ---- */

static bool copy_parts(const spsh__fact_parts *parts, spsh_pack_part **ret_parts, size_t *ret_count)
{
    *ret_parts = (spsh_pack_part *)calloc(parts->count + 1, sizeof(**ret_parts));
    for (size_t i = 0; *ret_parts != NULL && i < parts->count; i++) {
        const spsh__part *part = &parts->items[i];
        (*ret_parts)[i] = (spsh_pack_part){part->name, part->all.utterances, part->all.seconds,
                                           part->copies.utterances};
        *ret_count = i + 1;
    }
    return *ret_parts != NULL;
}

static bool copy_sources(spsh_pack_report *report, const spsh__facts *f)
{
    report->sources = (spsh_pack_source *)calloc(f->sources.count + 1, sizeof(*report->sources));
    for (size_t i = 0; report->sources != NULL && i < f->sources.count; i++) {
        const spsh__source *source = &f->sources.items[i];
        report->sources[i] =
            (spsh_pack_source){.corpus = report->result.corpora[source->operand],
                               .root = source->root,
                               .layout = source->layout,
                               .rows_in = spsh__source_rows_in(&source->rows),
                               .packed = f->tallies[i].packed,
                               .rejected = spsh__source_rejected(&source->rows, &f->tallies[i]),
                               .merged = source->rows.merged,
                               .excluded = source->rows.excluded};
        report->facts.source_count = i + 1;
    }
    return report->sources != NULL;
}

static void copy_rejects(spsh_pack_report *report)
{
    const spsh__reject_counts *rejects = &report->result.rejects;
    for (int i = 0; i < SPSH_REJECT_COUNT; i++)
        if (rejects->events[i] > 0)
            report->rejects[report->facts.reject_count++] =
                (spsh_pack_reject){spsh__reject_reason_text((spsh_reject_reason)i),
                                   rejects->events[i], rejects->rows[i]};
}

static void copy_counts(spsh_pack_facts *to, const spsh__pack_result *result)
{
    const spsh__pack_counts *c = &result->counts;
    memcpy(to->dataset_id, result->info.dataset_id, sizeof(to->dataset_id));
    to->is_already_packed = result->already_packed;
    to->is_withheld = result->withheld;
    to->has_too_many_rejects = result->too_many_rejects;
    to->packed = c->packed;
    to->rejected = spsh__reject_rows(&result->rejects);
    to->shard_count = result->info.shard_count;
    to->duplicate_count = result->info.duplicate_count;
    to->source_bytes = c->source_bytes;
    to->payload_bytes = c->payload_bytes;
    to->pcm_bytes = c->pcm_bytes;
    to->audio_ms = c->audio_ms;
    to->undecodable = c->undecodable;
    to->unverified = c->unverified;
    to->kept_as_is = c->kept_as_is;
    to->resampled = c->resampled;
    to->headers_trusted = c->decode_unjudged;
    to->segments_clamped = c->segments_clamped;
    to->without_text = c->text_missing;
    to->decode_ns = result->decode_ns;
    to->decode_audio_ms = result->decode_audio_ms;
    to->is_share = result->is_share;
    to->is_plan_only = result->is_plan_only;
    to->unit_count = result->unit_count;
    to->planned = result->planned;
    to->units_packed = result->units_packed;
    to->units_taken_over = result->units_taken_over;
    to->units_left = result->units_left;
}

/* Fill in all facts of the report. False: out of memory. */
static bool fill_report(spsh_pack_report *report)
{
    spsh_pack_facts *to = &report->facts;
    const spsh__facts *f = report->result.facts;

    copy_counts(to, &report->result);
    copy_rejects(report);
    if (f == NULL) /* already packed, or only a share */
        return true;
    memcpy(to->dataset_id, f->dataset_id, sizeof(to->dataset_id));
    to->rows_in = spsh__source_rows_in(&f->rows);
    to->merged = f->rows.merged;
    to->excluded = f->rows.excluded;
    to->warning_count = f->warning_count;
    to->kind_count = f->kind_count;
    if (f->has_dataset) {
        to->seconds = f->all.seconds;
        to->min_seconds = f->durations.min_seconds;
        to->max_seconds = f->durations.max_seconds;
        to->percent_1_seconds = f->durations.percentiles[0];
        to->percent_25_seconds = f->durations.percentiles[2];
        to->percent_50_seconds = f->durations.percentiles[3];
        to->percent_75_seconds = f->durations.percentiles[4];
        to->percent_99_seconds = f->durations.percentiles[6];
    }
    return copy_sources(report, f) &&
           copy_parts(&f->domains, &report->domains, &to->domain_count) &&
           copy_parts(&f->splits, &report->splits, &to->split_count);
}

const spsh_pack_facts *spsh_pack_report_facts(const spsh_pack_report *report)
{
    return &report->facts;
}

const spsh_pack_source *spsh_pack_report_source(const spsh_pack_report *report, size_t index)
{
    return &report->sources[index];
}

const spsh_pack_reject *spsh_pack_report_reject(const spsh_pack_report *report, size_t index)
{
    return &report->rejects[index];
}

const spsh_pack_part *spsh_pack_report_domain(const spsh_pack_report *report, size_t index)
{
    return &report->domains[index];
}

const spsh_pack_part *spsh_pack_report_split(const spsh_pack_report *report, size_t index)
{
    return &report->splits[index];
}

const spsh_pack_kind *spsh_pack_report_kind(const spsh_pack_report *report, size_t index)
{
    return &report->result.facts->kinds[index];
}

const char *spsh_pack_report_warning(const spsh_pack_report *report, size_t index)
{
    return report->result.facts->warnings[index];
}

void spsh_pack_report_free(spsh_pack_report *report)
{
    if (report == NULL)
        return;
    spsh__pack_result_free(&report->result);
    free(report->sources);
    free(report->domains);
    free(report->splits);
    free(report);
}

/* ---- packing ---- */

/* Make the paths absolute, so that an interrupted pack can be resumed from any folder. ret_corpora:
 * as many as options->corpora, all NULL. */
static spsh_status resolve_corpora(const spsh_pack_options *options, char **ret_corpora,
                                   spsh_error *err)
{
    for (size_t i = 0; i < options->corpus_count; i++) {
        const char *corpus = options->corpora[i];
        ret_corpora[i] = strcmp(corpus, "-") == 0 ? strdup("-") : realpath(corpus, NULL);
        if (ret_corpora[i] == NULL) {
            const int os_errno = errno;
            return os_errno == ENOMEM ? SPSH_NO_MEMORY(err)
                                      : SPSH_FAIL_OS(err, spsh_io_status(os_errno), os_errno,
                                                     "%s: %s", corpus, strerror(os_errno));
        }
    }
    return SPSH_OK;
}

static spsh_status pack_resolved(spsh_pack_options *taken, spsh_pack_report *report,
                                 spsh_error *err)
{
    const size_t count = taken->corpus_count;
    char **corpora = (char **)calloc(count, sizeof(*corpora));
    if (corpora == NULL)
        return SPSH_NO_MEMORY(err);
    spsh_status rc = resolve_corpora(taken, corpora, err);
    if (rc == SPSH_OK) {
        taken->corpora = (const char *const *)corpora;
        rc = spsh__pack_run(taken, &report->result, err);
    }
    for (size_t i = 0; i < count; i++)
        free(corpora[i]);
    free(corpora);
    return rc;
}

static spsh_status run(const spsh_pack_options *options, bool is_merge,
                       spsh_pack_report **ret_report, spsh_error *err)
{
    spsh_pack_options taken = SPSH_PACK_OPTIONS_INIT;
    spsh_status rc = spsh__pack_options_take(options, is_merge, &taken, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_pack_report *report = (spsh_pack_report *)calloc(1, sizeof(*report));
    if (report == NULL)
        return SPSH_NO_MEMORY(err);
    rc = is_merge ? spsh__pack_merge_run(&taken, &report->result, err)
                  : pack_resolved(&taken, report, err);
    if (rc == SPSH_OK && !fill_report(report))
        rc = SPSH_NO_MEMORY(err);
    if (rc == SPSH_OK)
        *ret_report = report;
    else
        spsh_pack_report_free(report);
    return rc;
}

spsh_status spsh_pack(const spsh_pack_options *options, spsh_pack_report **ret_report,
                      spsh_error *err)
{
    return run(options, false, ret_report, err);
}

spsh_status spsh_pack_merge(const spsh_pack_options *options, spsh_pack_report **ret_report,
                            spsh_error *err)
{
    return run(options, true, ret_report, err);
}
