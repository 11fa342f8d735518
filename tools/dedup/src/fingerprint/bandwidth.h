/* bandwidth.h: measure up to which frequency a recording has a signal, independent of its rate.
 *
 *     spsh__bandwidth_begin(measure, 16000, samples);
 *     spsh__bandwidth_push(measure, pcm, count);         // all of it, in any pieces
 *     hz = spsh__bandwidth_finish(measure);
 *
 * The measurement detects telephone speech that was resampled to 16 kHz, and WAV files made from
 * MP3. Of two copies, the one with more bandwidth is closer to the original. See
 * docs/reference/FINGERPRINT.md 8.
 */
#ifndef SPSH_DEDUP_BANDWIDTH_H
#define SPSH_DEDUP_BANDWIDTH_H

#include "speechshard/base.h"

typedef struct spsh__bandwidth spsh__bandwidth;

/* SPSH_OK or SPSH_E_NO_MEMORY. Memory: 130 KB. Use each object from one thread. */
spsh_status spsh__bandwidth_new(spsh__bandwidth **ret_measure, spsh_error *err);
/* Start a recording. samples: its length, over which the windows are spread. */
void spsh__bandwidth_begin(spsh__bandwidth *measure, uint32_t rate_hz, uint64_t samples);
void spsh__bandwidth_push(spsh__bandwidth *measure, const int16_t *samples, size_t count);
/* Return the bandwidth, a multiple of rate / 128. 0: only rounding noise. */
uint32_t spsh__bandwidth_finish(spsh__bandwidth *measure);
void spsh__bandwidth_free(spsh__bandwidth *measure);

#endif
