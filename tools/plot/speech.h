/* speech.h: an utterance's samples, as training gets them, and its features.
 *
 *     spsh__speech_read(reader, position, &row, &speech, &err);        // every channel
 *     spsh__speech_mix(&speech, 16000, &mono, &err);                   // their mean, at 16 kHz
 *     spsh__speech_features(&mono, &options, &features, &err);
 *     spsh__speech_features_free(&features);
 *     spsh__speech_free(&mono);
 *
 * All of the utterance is in memory at once, up to a limit that is checked before.
 */
#ifndef SPSH_PLOT_SPEECH_H
#define SPSH_PLOT_SPEECH_H

#include "speechshard/dataset.h"
#include "speechshard/featgen.h"

#define SPSH__SPEECH_BYTES_MAX (UINT64_C(4) << 30) /* of samples, and of features */

typedef struct spsh__speech {
    int16_t *samples; /* interleaved */
    uint64_t count;   /* per channel */
    uint32_t channels, rate_hz;
} spsh__speech;

/** Zeros before; free it in any case. SPSH_E_LIMIT: more than SPSH__SPEECH_BYTES_MAX. */
SPSH_NODISCARD spsh_status spsh__speech_read(spsh_reader *reader, uint64_t position,
                                             const spsh_row *row, spsh__speech *ret_speech,
                                             spsh_error *err);

/** The mean of all channels, rounded to the nearest, halves up; then resampled: as the loader. */
SPSH_NODISCARD spsh_status spsh__speech_mix(const spsh__speech *speech, uint32_t rate_hz,
                                            spsh__speech *ret_mono, spsh_error *err);
void spsh__speech_free(spsh__speech *speech);

typedef struct spsh__speech_rows {
    spsh_feature_options options;
    float *rows; /* frame_count * dim */
    uint64_t frame_count;
    uint32_t dim;
} spsh__speech_rows;

/** Of one channel, at the options' rate. */
SPSH_NODISCARD spsh_status spsh__speech_features(const spsh__speech *mono,
                                                 const spsh_feature_options *options,
                                                 spsh__speech_rows *ret_rows, spsh_error *err);
void spsh__speech_features_free(spsh__speech_rows *rows);

#endif
