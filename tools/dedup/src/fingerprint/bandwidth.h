/* bandwidth.h: up to which frequency a recording has a signal, whatever its rate says.
 *
 *     spsh__bandwidth_begin(measure, 16000, samples);
 *     spsh__bandwidth_push(measure, pcm, count);         // all of it, in any pieces
 *     hz = spsh__bandwidth_finish(measure);
 *
 * Telephone speech that was resampled to 16 kHz, and an MP3 that became a WAV, show here: of two
 * copies the one with more bandwidth is nearer to the original. docs/FINGERPRINT.md 8.
 */
#ifndef SPSH_DEDUP_BANDWIDTH_H
#define SPSH_DEDUP_BANDWIDTH_H

#include "speechshard/base.h"

typedef struct spsh__bandwidth spsh__bandwidth;

/* SPSH_OK or SPSH_E_NO_MEMORY. 130 KB; one thread per object. */
spsh_status spsh__bandwidth_new(spsh__bandwidth **ret_measure, spsh_error *err);
/* samples: how many there will be; windows are spread over them. */
void spsh__bandwidth_begin(spsh__bandwidth *measure, uint32_t rate_hz, uint64_t samples);
void spsh__bandwidth_push(spsh__bandwidth *measure, const int16_t *samples, size_t count);
/* A multiple of rate / 128; 0: nothing above rounding noise. */
uint32_t spsh__bandwidth_finish(spsh__bandwidth *measure);
void spsh__bandwidth_free(spsh__bandwidth *measure);

#endif
