/* cat_plot.h: an utterance as a picture file. */
#ifndef SPSH_CAT_PLOT_H
#define SPSH_CAT_PLOT_H

#include "speech_plot.h"

/** By the end of the file's name: .svg or .png. False: neither. */
bool spsh__cat_plot_kind(const char *path, spsh__canvas_kind *ret_kind);

/** Write the picture of an utterance as it is stored. features: NULL: kaldi-fbank at its rate. */
SPSH_NODISCARD spsh_status spsh__cat_plot(const char *path, const spsh_feature_options *features,
                                          spsh_reader *reader, uint64_t position,
                                          const spsh_row *row, spsh_error *err);

/** Write any picture. */
SPSH_NODISCARD spsh_status spsh__cat_plot_write(const char *path, const spsh__speech_plot *plot,
                                                spsh_error *err);

#endif
