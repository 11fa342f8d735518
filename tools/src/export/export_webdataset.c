/* export_webdataset.c: tars in the WebDataset convention.
 *
 *     shard-000000.tar:  KEY.flac  KEY.txt  KEY.json  KEY2.flac ...
 *
 * KEY is the id with its dots encoded, because readers end a key at the first dot. Audio is the
 * stored recording if the utterance is the whole recording and other programs can read it, else
 * WAV. The text is the exact transcript without a line end. An utterance without a transcript has
 * no .txt. Samples and tars keep the order of the dataset.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_out.h"
#include "export.h"
#include "speechshard/inside.h"
#include "tar_out.h"

enum { TARS_MAX = 1000000 };

typedef struct webdataset_export {
    spsh__export base; /* must be the first member */
    spsh__tar_out *tar;
    uint32_t tar_count; /* count of tars opened so far */
    spsh_json *json;
    spsh__builder name; /* name of a member */
    size_t key_bytes;   /* length of the key in name */
} webdataset_export;

/* ---- tars ---- */

static spsh_status close_tar(webdataset_export *e, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    if (e->tar != NULL)
        rc = spsh__tar_out_finish(e->tar, err);
    spsh__tar_out_free(e->tar);
    e->tar = NULL;
    return rc;
}

/* Make e->tar a tar with enough space left. A sample larger than a tar gets its own tar. */
static spsh_status choose_tar(webdataset_export *e, uint64_t sample_bytes, spsh_error *err)
{
    char name[32];
    spsh_status rc = SPSH_OK;
    if (e->tar != NULL && spsh__tar_out_bytes(e->tar) + sample_bytes > e->base.options.shard_bytes)
        rc = close_tar(e, err);
    if (rc != SPSH_OK || e->tar != NULL)
        return rc;
    if (e->tar_count == TARS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "more than %d tar files; choose a larger --shard-size",
                         TARS_MAX);
    snprintf(name, sizeof(name), "shard-%06" PRIu32 ".tar", e->tar_count++);
    return spsh__tar_out_open(e->base.options.directory, name, &e->tar, err);
}

static spsh_status begin_member(webdataset_export *e, const char *extension, uint64_t size_bytes,
                                spsh_error *err)
{
    e->name.size_bytes = e->key_bytes;
    spsh__builder_append_text(&e->name, ".");
    spsh__builder_append_text(&e->name, extension);
    const char *name = spsh__builder_text(&e->name);
    if (name == NULL)
        return SPSH_NO_MEMORY(err);
    return spsh__tar_out_member(e->tar, name, size_bytes, err);
}

static spsh_status add_member(webdataset_export *e, const char *extension, const void *data,
                              size_t size_bytes, spsh_error *err)
{
    const spsh__byte_sink sink = spsh__tar_out_sink(e->tar);
    spsh_status rc = begin_member(e, extension, size_bytes, err);
    return rc == SPSH_OK ? sink.write_fn(sink.user, data, size_bytes, err) : rc;
}

/* ---- a sample ---- */

static spsh_status describe(webdataset_export *e, const spsh__export_utterance *u, char **ret_json,
                            spsh_error *err)
{
    const spsh_utterance *m = &u->metadata;
    spsh_json *json = e->json;
    spsh__json_put_text(json, "id", m->id);
    if ((m->flags & SPSH_UTTERANCE_HAS_TEXT) != 0)
        spsh__json_put_text(json, "text", m->text);
    else
        spsh__json_put_null(json, "text");
    spsh__json_put_text_or_null(json, "domain", m->domain);
    spsh__json_put_text_or_null(json, "split", m->split);
    spsh__json_put_text_or_null(json, "speaker", m->speaker);
    spsh__json_put_text_or_null(json, "language", m->language);
    spsh__json_put_text_or_null(json, "document", m->document);
    spsh__json_put_text_or_null(json, "source", m->source);
    spsh__json_put_u64(json, "sample_rate_hz", u->row->sample_rate_hz);
    spsh__json_put_u64(json, "samples", u->row->samples);
    spsh__json_put_u64(json, "channels", u->row->channels);
    spsh__json_put_real(json, "seconds", (double)u->row->samples / u->row->sample_rate_hz);
    spsh__json_put_parsed(json, "extras", m->extras);
    return spsh__json_take_text(json, ret_json, err);
}

typedef struct sample {
    bool as_stored;
    spsh__wav wav;
    uint64_t audio_bytes;
    char *json;
} sample;

/* Prepare all members before the first is written: a tar states sizes first. */
static spsh_status prepare(webdataset_export *e, const spsh__export_utterance *u, sample *s,
                           spsh_error *err)
{
    s->as_stored = spsh__export_is_whole(u) && u->row->codec != SPSH_CODEC_PCM &&
                   u->row->codec != SPSH_CODEC_FEATURES;
    s->audio_bytes = u->record->payload_bytes;
    if (!s->as_stored && (u->record->flags & SPSH_RECORD_UNDECODABLE) != 0)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "%.*s: is part of a recording that cannot be decoded",
                         (int)u->metadata.id.size_bytes, (const char *)u->metadata.id.data);
    spsh__builder_clear(&e->name);
    spsh__export_path(&e->name, u->metadata.id, false, u->position);
    e->key_bytes = e->name.size_bytes;
    spsh_status rc = describe(e, u, &s->json, err);
    if (rc == SPSH_OK && !s->as_stored) {
        rc = spsh__wav_describe(u->reader, u->position, u->row->samples, &s->wav, err);
        s->audio_bytes = rc == SPSH_OK ? spsh__wav_file_bytes(&s->wav) : 0;
    }
    return rc;
}

static spsh_status write_sample(webdataset_export *e, const spsh__export_utterance *u,
                                const sample *s, spsh_error *err)
{
    const spsh__byte_sink sink = spsh__tar_out_sink(e->tar);
    const char *extension = s->as_stored ? spsh__payload_extension(u->row->codec) : "wav";
    spsh_status rc = begin_member(e, extension, s->audio_bytes, err);
    if (rc == SPSH_OK && s->as_stored)
        rc = spsh__payload_write(u->reader, u->position, &sink, err);
    else if (rc == SPSH_OK)
        rc = spsh__wav_write(&s->wav, u->reader, u->position, &sink, err);
    if (rc == SPSH_OK && (u->metadata.flags & SPSH_UTTERANCE_HAS_TEXT) != 0)
        rc = add_member(e, "txt", u->metadata.text.data, u->metadata.text.size_bytes, err);
    if (rc == SPSH_OK)
        rc = add_member(e, "json", s->json, strlen(s->json), err);
    return rc;
}

/* ---- the form ---- */

static void webdataset_free(spsh__export *form)
{
    webdataset_export *e = (webdataset_export *)form;
    if (e == NULL)
        return;
    spsh__tar_out_free(e->tar);
    spsh__json_free(e->json);
    spsh__builder_free(&e->name);
    free(e);
}

static spsh_status webdataset_open(const spsh__export_options *options, spsh__export **ret_export,
                                   spsh_error *err)
{
    webdataset_export *e = (webdataset_export *)calloc(1, sizeof(*e));
    if (e == NULL)
        return SPSH_NO_MEMORY(err);
    e->base.options = *options;
    e->json = spsh__json_new();
    if (e->json == NULL) {
        webdataset_free(&e->base);
        return SPSH_NO_MEMORY(err);
    }
    *ret_export = &e->base;
    return SPSH_OK;
}

static spsh_status webdataset_add(spsh__export *form, const spsh__export_utterance *u,
                                  uint64_t *ret_bytes, bool *ret_can_continue, spsh_error *err)
{
    webdataset_export *e = (webdataset_export *)form;
    sample s = {0};
    spsh_status rc = prepare(e, u, &s, err);
    *ret_bytes = 0;
    *ret_can_continue = rc != SPSH_OK && spsh__export_is_damage(rc);
    if (rc == SPSH_OK)
        rc = choose_tar(e, s.audio_bytes + u->metadata.text.size_bytes, err);
    if (rc == SPSH_OK)
        rc = write_sample(e, u, &s, err);
    *ret_bytes = s.audio_bytes;
    free(s.json);
    return rc;
}

static spsh_status webdataset_finish(spsh__export *form, spsh_error *err)
{
    return close_tar((webdataset_export *)form, err);
}

const spsh__export_form spsh__export_webdataset = {webdataset_open, webdataset_add,
                                                   webdataset_finish, webdataset_free};
