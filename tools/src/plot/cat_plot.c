/* cat_plot.c: see cat_plot.h. */
#include "cat_plot.h"

#include <string.h>

#include "common/file_out.h"
#include "speechshard/inside.h"

bool spsh__cat_plot_is_svg(const char *path)
{
    const size_t length = strlen(path);
    return length >= 4 && strcmp(path + length - 4, ".svg") == 0;
}

/* ---- the picture ---- */

static spsh_status write_picture(const char *path, const spsh__speech_plot *plot, spsh_error *err)
{
    spsh__builder out = {0};
    spsh_status rc = spsh__speech_plot_draw(plot, &out, err);
    if (rc == SPSH_OK)
        rc = spsh__file_out_write(path, spsh__builder_bytes(&out), err);
    spsh__builder_free(&out);
    return rc;
}

/* "seed 1, epoch 0: speed 0.9, ..." */
static const char *describe_draw(const spsh__cat_subject *c, const spsh_augment_draw *draw,
                                 const spsh_augment_subject *subject, spsh__builder *out)
{
    spsh__html_format(out, "seed %llu, epoch %llu: ", (unsigned long long)c->request->plan.seed,
                      (unsigned long long)c->epoch);
    spsh__hear_print(out, draw, subject);
    return spsh__builder_text(out);
}

static spsh_status plot(const spsh__cat_subject *c, spsh_hearing *hearing, const spsh_heard *heard,
                        const char *path, spsh_error *err)
{
    const bool is_augmented = c->request->loader.augment != NULL;
    const spsh__feature_rows rows = {*spsh_hearing_features(hearing), heard->rows,
                                     heard->frame_count, heard->dim};
    /* The augmented audio has one channel and is borrowed. */
    spsh__speech stored = {0};
    spsh__speech sound = {NULL, NULL, heard->sample_count, 1, heard->sample_rate_hz};
    spsh__builder what = {0};
    spsh_augment_draw draw;
    spsh_augment_subject subject;
    spsh_utterance utterance;
    spsh__speech_plot picture = {&utterance, spsh_codec_name(c->row->codec), NULL, &rows, NULL,
                                 NULL};
    spsh_status rc = spsh_hearing_draw(hearing, c->epoch, &draw, &subject, err);
    if (rc == SPSH_OK && heard->samples != NULL && !is_augmented) {
        rc = spsh__speech_read(c->reader, c->position, c->row, &stored, err);
        picture.speech = &stored;
    } else if (heard->samples != NULL) {
        sound.samples = heard->samples;
        picture.speech = &sound;
    }
    if (rc == SPSH_OK) /* borrowed until the reader's next call */
        rc = spsh_reader_metadata(c->reader, c->position, &utterance, err);
    if (is_augmented) {
        picture.what = describe_draw(c, &draw, &subject, &what);
        picture.masks = &draw;
    }
    if (rc == SPSH_OK)
        rc = write_picture(path, &picture, err);
    spsh__builder_free(&what);
    spsh__speech_free(&stored);
    return rc;
}

/* ---- the sound ---- */

static spsh_status write_sound(const spsh__cat_subject *c, const spsh_heard *heard,
                               const spsh__byte_sink *sink, spsh_error *err)
{
    const spsh__wav wav = {SPSH_SAMPLE_I16, 16, 1, heard->sample_rate_hz, heard->sample_count};
    if (heard->samples == NULL || heard->sample_count > (UINT32_MAX - 64) / 2) {
        const spsh_status status = heard->samples == NULL ? SPSH_E_UNSUPPORTED : SPSH_E_LIMIT;
        return SPSH_FAIL(err, status, "%s: %s", spsh_dataset_path(c->dataset),
                         heard->samples == NULL ? "the dataset holds features, not audio"
                                                : "it does not fit into a WAV file of 4 GiB");
    }
    return spsh__wav_write_i16(&wav, heard->samples, sink, err);
}

spsh_status spsh__cat_hear(const spsh__cat_subject *subject, const char *path,
                           const spsh__byte_sink *sink, spsh_error *err)
{
    const spsh__cat_subject *c = subject;
    spsh_hearing *hearing = NULL;
    spsh_heard heard = SPSH_HEARD_INIT;
    spsh_status rc = spsh_hearing_open(c->dataset, c->position, &c->request->loader, &hearing, err);
    if (rc == SPSH_OK)
        rc = spsh_hearing_listen(hearing, c->epoch, &heard, err);
    if (rc == SPSH_OK && path != NULL)
        rc = plot(c, hearing, &heard, path, err);
    if (rc == SPSH_OK && sink != NULL)
        rc = write_sound(c, &heard, sink, err);
    spsh_hearing_close(hearing);
    return rc;
}
