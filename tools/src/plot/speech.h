/* speech.h: an utterance's samples, all channels, all at once.
 *
 *     spsh__speech_read(reader, position, &row, &speech, &err);
 *     ... speech.samples[n * speech.channels + channel] ...
 *     spsh__speech_free(&speech);
 */
#ifndef SPSH_PLOT_SPEECH_H
#define SPSH_PLOT_SPEECH_H

#include "speechshard/dataset.h"

#define SPSH__SPEECH_BYTES_MAX (UINT64_C(4) << 30)

typedef struct spsh__speech {
    const int16_t *samples; /* interleaved */
    int16_t *owned;         /* the same samples if they were read; freed with the struct */
    uint64_t count;         /* samples per channel */
    uint32_t channels, rate_hz;
} spsh__speech;

/** Read the samples. Zero-initialize *ret_speech, and free it in any case. SPSH_E_LIMIT: more than
 * SPSH__SPEECH_BYTES_MAX. */
SPSH_NODISCARD spsh_status spsh__speech_read(spsh_reader *reader, uint64_t position,
                                             const spsh_row *row, spsh__speech *ret_speech,
                                             spsh_error *err);

void spsh__speech_free(spsh__speech *speech);

#endif
