/* speech_plot.h: draw an utterance: description at the top, waveform below, features at the
 * bottom.
 *
 *     const spsh__speech_plot plot = {&utterance, "flac", &speech, &rows, NULL, NULL};
 *     rc = spsh__speech_plot_draw(&plot, &out, &err);
 *
 * The size does not depend on the length. A column shows the minimum and maximum of its samples,
 * and the mean of its frames.
 */
#ifndef SPSH_PLOT_SPEECH_PLOT_H
#define SPSH_PLOT_SPEECH_PLOT_H

#include "common/svg_marks.h"
#include "feature_image.h"
#include "speech.h"
#include "speechshard/augment.h"

typedef struct spsh__speech_plot {
    const spsh_utterance *utterance;
    const char *codec;
    const spsh__speech *speech; /* the first four channels are drawn; NULL: no audio */
    const spsh__feature_rows *rows;
    const char *what;               /* augmentation applied, on one more line; NULL: none */
    const spsh_augment_draw *masks; /* masks drawn over the rows; NULL: none */
} spsh__speech_plot;

/** Append an SVG file. */
SPSH_NODISCARD spsh_status spsh__speech_plot_draw(const spsh__speech_plot *plot, spsh__builder *out,
                                                  spsh_error *err);

#endif
