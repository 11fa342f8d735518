/* sphere.h: NIST SPHERE files, in which LDC publishes corpora, as WAV files in memory. */
#ifndef SPSH_PACK_SPHERE_H
#define SPSH_PACK_SPHERE_H

#include <stdbool.h>

#include "speechshard/base.h"

bool spsh__is_sphere(spsh_bytes file);

/**
 * Make a WAV file with the same samples: integers of 16, 24, or 32 bits, A-law, or mu-law. Bytes
 * after the samples are ignored.
 *
 * @param ret_wav  allocated with malloc
 * @return SPSH_OK; SPSH_E_UNSUPPORTED: another coding, such as shorten; SPSH_E_AUDIO: a header that
 *         contradicts itself; SPSH_E_TRUNCATED: fewer samples than the header states;
 *         SPSH_E_LIMIT; SPSH_E_NO_MEMORY. Safe on hostile input.
 */
SPSH_NODISCARD spsh_status spsh__sphere_to_wav(spsh_bytes file, uint8_t **ret_wav,
                                               size_t *ret_bytes, spsh_error *err);

#endif
