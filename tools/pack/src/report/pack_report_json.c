/* pack_report_json.c: see pack_report.h. New members go to the end of their object. */
#include "pack_report.h"

#include "common/json_out.h"
#include "speechshard/inside.h"

static void put_totals(spsh_json *json, const spsh__facts *f)
{
    const spsh__pack_counts *c = &f->counts;
    spsh__json_put_u64(json, "rows_in", spsh__source_rows_in(&f->rows));
    spsh__json_put_u64(json, "packed", c->packed);
    spsh__json_put_u64(json, "rejected", spsh__source_rejected(&f->rows, &f->tally));
    spsh__json_put_u64(json, "merged", f->rows.merged);
    spsh__json_put_u64(json, "excluded", f->rows.excluded);
    spsh__json_put_u64(json, "without_text", c->text_missing);
    spsh__json_put_u64(json, "payloads", c->records);
    spsh__json_put_u64(json, "copies_in_units", c->copies);
    spsh__json_put_u64(json, "duplicates", f->info.duplicate_count);
    spsh__json_put_u64(json, "speakers", f->info.speaker_count);
    spsh__json_put_real(json, "seconds", f->all.seconds);
    spsh__json_put_u64(json, "audio_ms", c->audio_ms);
    spsh__json_put_u64(json, "source_bytes", c->source_bytes);
    spsh__json_put_u64(json, "pcm_bytes", c->pcm_bytes);
    spsh__json_put_u64(json, "payload_bytes", c->payload_bytes);
    spsh__json_put_u64(json, "unused_payload_bytes", f->info.unused_payload_bytes);
    spsh__json_put_u64(json, "shards", f->info.shard_count);
    spsh__json_put_u64(json, "shard_bytes", f->info.shard_bytes);
    spsh__json_put_u64(json, "decoder_limit", c->undecodable);
    spsh__json_put_u64(json, "unverified", c->unverified);
    spsh__json_put_u64(json, "headers_trusted", c->decode_unjudged);
    spsh__json_put_u64(json, "kept_as_is", c->kept_as_is);
    spsh__json_put_u64(json, "resampled", c->resampled);
    spsh__json_put_u64(json, "segments_clamped", c->segments_clamped);
}

static void put_reasons(spsh_json *json, const spsh__reject_counts *rejects)
{
    spsh__json_begin_object(json, "rejects");
    for (int i = 0; i < SPSH_REJECT_COUNT; i++) {
        if (rejects->events[i] == 0)
            continue;
        spsh__json_begin_object(json, spsh__reject_reason_text((spsh_reject_reason)i));
        spsh__json_put_u64(json, "events", rejects->events[i]);
        spsh__json_put_u64(json, "rows", rejects->rows[i]);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_sources(spsh_json *json, const spsh__facts *f)
{
    spsh__json_begin_array(json, "sources");
    for (size_t i = 0; i < f->sources.count; i++) {
        const spsh__source *source = &f->sources.items[i];
        spsh__json_begin_object(json, NULL);
        spsh__json_put_u64(json, "corpus", source->operand + 1);
        spsh__json_put_string(json, "root", source->root);
        spsh__json_put_string(json, "layout", source->layout);
        spsh__json_put_string(json, "evidence", source->evidence);
        spsh__json_put_u64(json, "rows_in", spsh__source_rows_in(&source->rows));
        spsh__json_put_u64(json, "packed", f->tallies[i].packed);
        spsh__json_put_u64(json, "rejected", spsh__source_rejected(&source->rows, &f->tallies[i]));
        spsh__json_put_u64(json, "merged", source->rows.merged);
        spsh__json_put_u64(json, "excluded", source->rows.excluded);
        spsh__json_put_real(json, "seconds", (double)f->tallies[i].audio_ns / 1e9);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_published(spsh_json *json, const spsh__published_found *found)
{
    spsh__json_begin_array(json, "published");
    for (size_t i = 0; i < spsh__published_count(); i++) {
        const spsh__published *part = &spsh__published_parts[i];
        if (found->utterances[i] == 0)
            continue;
        spsh__json_begin_object(json, NULL);
        spsh__json_put_string(json, "corpus", part->corpus);
        spsh__json_put_string(json, "part", part->part);
        spsh__json_put_u64(json, "found", found->utterances[i]);
        spsh__json_put_u64(json, "published", part->utterances);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_amount(spsh_json *json, const spsh__amount *amount)
{
    spsh__json_put_u64(json, "utterances", amount->utterances);
    spsh__json_put_real(json, "seconds", amount->seconds);
}

static void put_copies(spsh_json *json, const spsh__part *part)
{
    spsh__json_begin_object(json, "copies");
    put_amount(json, &part->copies);
    spsh__json_put_u64(json, "of_others", part->from_others);
    spsh__json_end(json);
}

static void put_domains(spsh_json *json, const spsh__facts *f)
{
    const spsh__fact_cell *cell = f->cells;
    const spsh__fact_cell *const end = f->cells + f->cell_count;
    spsh__json_begin_array(json, "domains");
    for (size_t i = 0; i < f->domains.count; i++) {
        spsh__json_begin_object(json, NULL);
        spsh__json_put_text_or_null(json, "name", f->domains.items[i].name);
        put_amount(json, &f->domains.items[i].all);
        spsh__json_begin_array(json, "splits");
        for (; cell < end && cell->domain == i; cell++) {
            spsh__json_begin_object(json, NULL);
            spsh__json_put_text_or_null(json, "name", f->splits.items[cell->split].name);
            put_amount(json, &cell->all);
            spsh__json_end(json);
        }
        spsh__json_end(json);
        put_copies(json, &f->domains.items[i]);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_splits(spsh_json *json, const spsh__facts *f)
{
    spsh__json_begin_array(json, "splits");
    for (size_t i = 0; i < f->splits.count; i++) {
        spsh__json_begin_object(json, NULL);
        spsh__json_put_text_or_null(json, "name", f->splits.items[i].name);
        put_amount(json, &f->splits.items[i].all);
        put_copies(json, &f->splits.items[i]);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_kinds(spsh_json *json, const spsh__facts *f)
{
    spsh__json_begin_array(json, "audio");
    for (size_t i = 0; i < f->kind_count; i++) {
        const spsh_pack_kind *kind = &f->kinds[i];
        const bool others = kind->sample_rate_hz == 0;
        spsh__json_begin_object(json, NULL);
        spsh__json_put_string(json, "codec", others ? NULL : spsh_codec_name(kind->codec));
        spsh__json_put_u64(json, "sample_rate_hz", kind->sample_rate_hz);
        spsh__json_put_u64(json, "channels", kind->channels);
        spsh__json_put_u64(json, "utterances", kind->utterances);
        spsh__json_put_real(json, "seconds", kind->seconds);
        spsh__json_end(json);
    }
    spsh__json_end(json);
}

static void put_counts(spsh_json *json, const char *key, const uint64_t *counts, size_t count)
{
    spsh__json_begin_array(json, key);
    for (size_t i = 0; i < count; i++)
        spsh__json_put_u64(json, NULL, counts[i]);
    spsh__json_end(json);
}

static void put_durations(spsh_json *json, const spsh__durations *d)
{
    spsh__json_begin_object(json, "durations");
    spsh__json_put_real(json, "min_seconds", d->min_seconds);
    spsh__json_put_real(json, "max_seconds", d->max_seconds);
    spsh__json_begin_array(json, "percentiles");
    for (size_t i = 0; i < SPSH__PERCENTILES; i++) {
        spsh__json_begin_object(json, NULL);
        spsh__json_put_u64(json, "percent", spsh__percentiles[i]);
        spsh__json_put_real(json, "seconds", d->percentiles[i]);
        spsh__json_end(json);
    }
    spsh__json_end(json);
    spsh__json_put_real(json, "bar_seconds", d->bar_seconds);
    spsh__json_put_bool(json, "last_bar_is_open", d->last_is_open);
    put_counts(json, "bars", d->bars, d->bar_count);
    spsh__json_end(json);
}

static void put_levels(spsh_json *json, const spsh__level_counts *levels)
{
    if (levels->recordings == 0) {
        spsh__json_put_null(json, "levels");
        return;
    }
    spsh__json_begin_object(json, "levels");
    spsh__json_put_u64(json, "recordings", levels->recordings);
    spsh__json_put_u64(json, "silent", spsh__level_quiet(levels));
    spsh__json_put_u64(json, "clipped", levels->clipped);
    put_counts(json, "peaks", levels->peaks, SPSH__LEVEL_BINS);
    put_counts(json, "rms", levels->rms, SPSH__LEVEL_BINS);
    spsh__json_end(json);
}

static void put_warnings(spsh_json *json, const spsh__facts *f)
{
    spsh__json_begin_array(json, "warnings");
    for (size_t i = 0; i < f->warning_count; i++)
        spsh__json_put_string(json, NULL, f->warnings[i]);
    spsh__json_end(json);
}

spsh_status spsh__report_json(const spsh__facts *facts, char **ret_text, spsh_error *err)
{
    spsh_json *json = spsh__json_new();
    if (json == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__json_put_hex(json, "dataset_id", facts->dataset_id, sizeof(facts->dataset_id));
    spsh__json_put_parsed(json, "options", spsh__builder_bytes(&facts->options));
    put_totals(json, facts);
    put_reasons(json, &facts->rejects);
    put_sources(json, facts);
    put_published(json, &facts->published);
    put_domains(json, facts);
    put_splits(json, facts);
    put_kinds(json, facts);
    put_durations(json, &facts->durations);
    put_levels(json, &facts->levels);
    put_warnings(json, facts);
    spsh_status rc = spsh__json_take_text(json, ret_text, err);
    spsh__json_free(json);
    return rc;
}
