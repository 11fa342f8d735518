/* utterance_out.c: see utterance_out.h. */
#include "utterance_out.h"

#include "cli/selection.h"

typedef struct put {
    spsh_json *json;
    const spsh__utterance_place *place;
} put;

static spsh_status put_names(const put *p, spsh_error *err)
{
    const struct {
        const char *key;
        spsh_name_kind kind;
        uint32_t number;
    } names[] = {
        {"domain", SPSH_NAME_DOMAIN, p->place->row->domain},
        {"split", SPSH_NAME_SPLIT, p->place->row->split},
        {"speaker", SPSH_NAME_SPEAKER, p->place->row->speaker},
        {"language", SPSH_NAME_LANGUAGE, p->place->row->language},
        {"document", SPSH_NAME_DOCUMENT, p->place->row->document},
    };
    spsh_status rc = SPSH_OK;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == SPSH_OK; i++) {
        spsh_bytes name = {NULL, 0};
        rc = spsh__row_name(p->place->dataset, names[i].kind, names[i].number, &name, err);
        if (rc == SPSH_OK)
            spsh__json_put_text_or_null(p->json, names[i].key, name);
    }
    return rc;
}

static spsh_status put_metadata(const put *p, spsh_error *err)
{
    spsh_utterance u;
    bool skipped = false;
    spsh_bytes reason = {NULL, 0};
    spsh_status rc = spsh_reader_metadata(p->place->reader, p->place->position, &u, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_put_text(p->json, "id", u.id);
    if ((u.flags & SPSH_UTTERANCE_HAS_TEXT) != 0)
        spsh__json_put_text(p->json, "text", u.text);
    else
        spsh__json_put_null(p->json, "text");
    spsh__json_put_text_or_null(p->json, "source", u.source);
    spsh__json_put_parsed(p->json, "extras", u.extras);
    rc = spsh_dataset_skipped(p->place->dataset, u.id, &skipped, &reason, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_put_bool(p->json, "skipped", skipped);
    if (skipped)
        spsh__json_put_text(p->json, "skip_reason", reason);
    return SPSH_OK;
}

static spsh_status put_record(const put *p, spsh_error *err)
{
    const spsh_record *record = NULL;
    spsh_status rc = spsh_reader_record(p->place->reader, p->place->position, &record, err);
    if (rc != SPSH_OK)
        return rc;
    if ((record->flags & SPSH_RECORD_PCM_HASH) != 0)
        spsh__json_put_hex(p->json, "pcm_hash", record->pcm_hash, sizeof(record->pcm_hash));
    else
        spsh__json_put_null(p->json, "pcm_hash");
    spsh__json_put_text(p->json, "recording", record->id);
    spsh__json_put_u64(p->json, "recording_samples", record->samples);
    spsh__json_put_u64(p->json, "nominal_sample_rate_hz", record->nominal_rate_hz);
    spsh__json_put_u64(p->json, "bits_per_sample", record->bits_per_sample);
    spsh__json_put_bool(p->json, "undecodable", (record->flags & SPSH_RECORD_UNDECODABLE) != 0);
    spsh__json_put_bool(p->json, "trusted_headers", (record->flags & SPSH_RECORD_TRUSTED) != 0);
    return SPSH_OK;
}

static spsh_status put_duplicate(const put *p, spsh_error *err)
{
    spsh_utterance original;
    if ((p->place->row->flags & SPSH_UTTERANCE_DUPLICATE) == 0) {
        spsh__json_put_null(p->json, "duplicate_of");
        return SPSH_OK;
    }
    spsh_status rc = spsh_reader_metadata(p->place->original_reader, p->place->row->duplicate_of,
                                          &original, err);
    if (rc == SPSH_OK)
        spsh__json_put_text(p->json, "duplicate_of", original.id);
    return rc;
}

static spsh_status put_shard(const put *p, spsh_error *err)
{
    spsh_shard_seal seal;
    char name[32];
    spsh_status rc =
        spsh_dataset_shard(p->place->dataset, p->place->row->payload_shard, &seal, err);
    if (rc != SPSH_OK)
        return rc;
    spsh_shard_file_name(seal.unit, seal.number, name);
    spsh__json_put_string(p->json, "shard", name);
    return SPSH_OK;
}

spsh_status spsh__utterance_put(spsh_json *json, const spsh__utterance_place *place,
                                spsh_error *err)
{
    const put p = {json, place};
    const spsh_row *row = place->row;
    spsh_status rc = put_metadata(&p, err);
    if (rc == SPSH_OK)
        rc = put_names(&p, err);
    if (rc != SPSH_OK)
        return rc;
    spsh__json_put_u64(json, "sample_rate_hz", row->sample_rate_hz);
    spsh__json_put_u64(json, "samples", row->samples);
    spsh__json_put_real(json, "seconds", (double)row->samples / row->sample_rate_hz);
    spsh__json_put_u64(json, "channels", row->channels);
    spsh__json_put_string(json, "codec", spsh_codec_name(row->codec));
    spsh__json_put_u64(json, "start_sample", row->start_sample);
    rc = put_record(&p, err);
    if (rc == SPSH_OK)
        rc = put_duplicate(&p, err);
    if (rc == SPSH_OK)
        rc = put_shard(&p, err);
    return rc;
}
