/* cat_plot.h: show an utterance as a picture, or write its audio as training gets it, for `cat`.
 * Uses spsh_hearing. */
#ifndef SPSH_CAT_PLOT_H
#define SPSH_CAT_PLOT_H

#include "cli/hear_words.h"
#include "common/wav_out.h"
#include "speech_plot.h"

/** Return whether the file's name ends in .svg. */
bool spsh__cat_plot_is_svg(const char *path);

/** An utterance and the options for its audio. All borrowed. */
typedef struct spsh__cat_subject {
    const spsh_dataset *dataset;
    spsh_reader *reader;
    uint64_t position;
    const spsh_row *row;
    const spsh__hear_request *request;
    uint64_t epoch;
} spsh__cat_subject;

/**
 * Draw or write an utterance. The waveform shows all channels of the file, unless augmentation is
 * on.
 *
 * @param path  picture file; NULL: no picture
 * @param sink  receives a WAV file of the processed audio; NULL: none
 */
SPSH_NODISCARD spsh_status spsh__cat_hear(const spsh__cat_subject *subject, const char *path,
                                          const spsh__byte_sink *sink, spsh_error *err);

#endif
