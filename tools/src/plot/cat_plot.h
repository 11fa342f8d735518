/* cat_plot.h: an utterance as a picture, or as training hears it: what `cat` does with
 * spsh_hearing. */
#ifndef SPSH_CAT_PLOT_H
#define SPSH_CAT_PLOT_H

#include "cli/hear_words.h"
#include "common/wav_out.h"
#include "speech_plot.h"

/** Return whether the file's name ends in .svg. */
bool spsh__cat_plot_is_svg(const char *path);

/** An utterance, and how it is heard. All borrowed. */
typedef struct spsh__cat_subject {
    const spsh_dataset *dataset;
    spsh_reader *reader;
    uint64_t position;
    const spsh_row *row;
    const spsh__hear_request *request;
    uint64_t epoch;
} spsh__cat_subject;

/**
 * The waveform is that of the file, all channels, unless it is augmented.
 *
 * @param path  of the picture; NULL: none
 * @param sink  of a WAV file with what is heard; NULL: none
 */
SPSH_NODISCARD spsh_status spsh__cat_hear(const spsh__cat_subject *subject, const char *path,
                                          const spsh__byte_sink *sink, spsh_error *err);

#endif
