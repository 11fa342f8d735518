/* wav_out.h: an utterance as a RIFF/WAVE file, written from front to back in bounded memory.
 *
 *     rc = spsh__wav_describe(reader, position, row.samples, &wav, &err);
 *     total_bytes = spsh__wav_file_bytes(&wav);
 *     rc = spsh__wav_write(&wav, reader, position, &sink, &err);
 *
 * The samples are those of the record: 16-bit integers as such; longer ones with 24 bits when the
 * source had at most 24, else with 32; float as 32-bit float.
 */
#ifndef SPSH_WAV_OUT_H
#define SPSH_WAV_OUT_H

#include "speechshard/dataset.h"

/** Where bytes go, in order. */
typedef struct spsh__byte_sink {
    spsh_status (*write_fn)(void *user, const void *data, size_t size_bytes, spsh_error *err);
    void *user;
} spsh__byte_sink;

typedef struct spsh__wav {
    spsh_sample_format format; /* how samples are read */
    uint32_t bits_per_sample;  /* how they are written: 16, 24, 32 */
    uint32_t channels;
    uint32_t sample_rate_hz;
    uint64_t samples; /* per channel */
} spsh__wav;

/** What the file will be. SPSH_E_LIMIT when it would not fit into RIFF's 4 GiB. */
SPSH_NODISCARD spsh_status spsh__wav_describe(spsh_reader *reader, uint64_t position,
                                              uint64_t samples, spsh__wav *ret_wav,
                                              spsh_error *err);

/** Exact size of the file. */
uint64_t spsh__wav_file_bytes(const spsh__wav *wav);

/** Header and samples that are in memory, interleaved. */
SPSH_NODISCARD spsh_status spsh__wav_write_i16(const spsh__wav *wav, const int16_t *samples,
                                               const spsh__byte_sink *sink, spsh_error *err);

/** Header, samples, padding. A part may have been written when this fails. */
SPSH_NODISCARD spsh_status spsh__wav_write(const spsh__wav *wav, spsh_reader *reader,
                                           uint64_t position, const spsh__byte_sink *sink,
                                           spsh_error *err);

/** A record's payload as it is stored. */
SPSH_NODISCARD spsh_status spsh__payload_write(spsh_reader *reader, uint64_t position,
                                               const spsh__byte_sink *sink, spsh_error *err);

/** "flac" for a record's payload, as a file name's extension. */
const char *spsh__payload_extension(spsh_codec codec);

#endif
