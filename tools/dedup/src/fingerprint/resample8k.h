/* resample8k.h: resample 16-bit samples from any rate of 8 to 192 kHz to 8 kHz, in integers.
 *
 *     int32_t out[SPSH__RESAMPLE_OUT_MAX];
 *     spsh__resample8k_new(16000, &resampler, err);
 *     size_t count = spsh__resample8k_push(resampler, pcm, 1000, out);
 *     count = spsh__resample8k_finish(resampler, out);
 *
 * Output sample n is the input at n / 8000 s: there is no delay. The same input gives the same
 * output for any division into pieces. docs/reference/FINGERPRINT.md is normative.
 */
#ifndef SPSH_DEDUP_RESAMPLE8K_H
#define SPSH_DEDUP_RESAMPLE8K_H

#include <stdbool.h>
#include <stddef.h>

#include "speechshard/base.h"

#define SPSH__PRINT_RATE_HZ     8000
#define SPSH__SOURCE_RATE_MAX   192000
#define SPSH__RESAMPLE_IN_MAX   1024 /* maximum samples per push */
#define SPSH__RESAMPLE_OUT_MAX  (SPSH__RESAMPLE_IN_MAX + 1)
#define SPSH__RESAMPLE_ONE_BITS 4 /* the unit of the output is 1/16 of the input's unit */

typedef struct spsh__resample8k spsh__resample8k;

/**
 * @param rate_hz 8,000 to 192,000; 8,000 copies @return SPSH_OK, SPSH_E_INVALID_ARG or
 * SPSH_E_NO_MEMORY
 *
 * Memory: 4 ms of coefficients per phase: one phase at 16 kHz, 80 phases (30 KB) at 44.1 kHz, and
 * at most 13 MB for a rate near 192 kHz that shares no factor with 8,000. Use each object from one
 * thread.
 */
spsh_status spsh__resample8k_new(uint32_t rate_hz, spsh__resample8k **ret_resampler,
                                 spsh_error *err);

/* Add count samples, at most SPSH__RESAMPLE_IN_MAX. Writes at most SPSH__RESAMPLE_OUT_MAX samples
 * to out and returns their number. */
size_t spsh__resample8k_push(spsh__resample8k *resampler, const int16_t *samples, size_t count,
                             int32_t *out);

/* Write the last samples, so that the total is ceil(samples * 8000 / rate_hz), and return their
 * number. Then the object accepts the next input. */
size_t spsh__resample8k_finish(spsh__resample8k *resampler, int32_t *out);

/* Discard all input so far. */
void spsh__resample8k_reset(spsh__resample8k *resampler);

void spsh__resample8k_free(spsh__resample8k *resampler);

#endif
