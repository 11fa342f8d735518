/* cat_plot.c: see cat_plot.h. */
#include "cat_plot.h"

#include <string.h>

#include "file_out.h"

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

bool spsh__cat_plot_kind(const char *path, spsh__canvas_kind *ret_kind)
{
    *ret_kind = ends_with(path, ".png") ? SPSH__CANVAS_PNG : SPSH__CANVAS_SVG;
    return *ret_kind == SPSH__CANVAS_PNG || ends_with(path, ".svg");
}

spsh_status spsh__cat_plot_write(const char *path, const spsh__speech_plot *plot, spsh_error *err)
{
    spsh__builder out = {0};
    spsh__canvas_kind kind = SPSH__CANVAS_SVG;
    (void)spsh__cat_plot_kind(path, &kind);
    spsh_status rc = spsh__speech_plot_draw(plot, kind, &out, err);
    if (rc == SPSH_OK)
        rc = spsh__file_out_write(path, spsh__builder_bytes(&out), err);
    spsh__builder_free(&out);
    return rc;
}

spsh_status spsh__cat_plot(const char *path, const spsh_feature_options *features,
                           spsh_reader *reader, uint64_t position, const spsh_row *row,
                           spsh_error *err)
{
    spsh_feature_options options;
    spsh_utterance utterance;
    spsh__speech speech = {0};
    spsh__speech mono = {0};
    spsh__speech_rows rows = {.rows = NULL};
    spsh_status rc = spsh_feature_options_preset("kaldi-fbank", &options, err);
    if (features != NULL)
        options = *features;
    else if (rc == SPSH_OK)
        options.sample_rate_hz = row->sample_rate_hz;
    if (rc == SPSH_OK)
        rc = spsh__speech_read(reader, position, row, &speech, err);
    if (rc == SPSH_OK)
        rc = spsh__speech_mix(&speech, options.sample_rate_hz, &mono, err);
    if (rc == SPSH_OK)
        rc = spsh__speech_features(&mono, &options, &rows, err);
    if (rc == SPSH_OK) /* borrowed until the reader's next call */
        rc = spsh_reader_metadata(reader, position, &utterance, err);
    if (rc == SPSH_OK) {
        const spsh__speech_plot plot = {
            &utterance, spsh_codec_name(row->codec), &speech, &rows, NULL, NULL};
        rc = spsh__cat_plot_write(path, &plot, err);
    }
    spsh__speech_features_free(&rows);
    spsh__speech_free(&mono);
    spsh__speech_free(&speech);
    return rc;
}
