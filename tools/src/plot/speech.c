/* speech.c: see speech.h. */
#include "speech.h"

#include <stdlib.h>

#include "speechshard/inside.h"

enum { PIECE = 1 << 16 /* samples decoded at once */ };

static spsh_status take(spsh__speech *speech, spsh_error *err)
{
    const uint64_t sample_bytes = sizeof(int16_t) * speech->channels;
    if (speech->count > SPSH__SPEECH_BYTES_MAX / sample_bytes)
        return SPSH_FAIL(err, SPSH_E_LIMIT,
                         "%llu samples of %u channels are too many for a picture",
                         (unsigned long long)speech->count, speech->channels);
    speech->owned = (int16_t *)malloc((size_t)(speech->count * sample_bytes) + 1);
    speech->samples = speech->owned;
    return speech->owned == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

void spsh__speech_free(spsh__speech *speech)
{
    free(speech->owned);
    *speech = (spsh__speech){0};
}

spsh_status spsh__speech_read(spsh_reader *reader, uint64_t position, const spsh_row *row,
                              spsh__speech *ret_speech, spsh_error *err)
{
    spsh__speech *s = ret_speech;
    *s = (spsh__speech){NULL, NULL, row->samples, row->channels, row->sample_rate_hz};
    spsh_status rc = take(s, err);
    for (uint64_t done = 0; rc == SPSH_OK && done < s->count;) {
        uint64_t got = 0;
        const uint64_t left = s->count - done;
        rc = spsh_reader_read_i16(reader, position, done, s->owned + done * s->channels,
                                  left < PIECE ? left : PIECE, &got, err);
        if (rc == SPSH_OK && got == 0)
            rc = SPSH_FAIL(err, SPSH_E_AUDIO, "audio ends after %llu of %llu samples",
                           (unsigned long long)done, (unsigned long long)s->count);
        done += got;
    }
    return rc;
}
