/* wav_out.h: write an utterance as a RIFF/WAVE file, from front to back in bounded memory.
 *
 *     rc = spsh__wav_describe(reader, position, row.samples, &wav, &err);
 *     total_bytes = spsh__wav_file_bytes(&wav);
 *     rc = spsh__wav_write(&wav, reader, position, &sink, &err);
 *
 * The samples keep the record's precision. 16-bit integers are written with 16 bits, longer
 * integers with 24 bits if the source had at most 24, else with 32. Float samples are written as
 * 32-bit float.
 */
#ifndef SPSH_WAV_OUT_H
#define SPSH_WAV_OUT_H

#include "speechshard/dataset.h"

/** A destination for bytes, in order. */
typedef struct spsh__byte_sink {
    spsh_status (*write_fn)(void *user, const void *data, size_t size_bytes, spsh_error *err);
    void *user;
} spsh__byte_sink;

typedef struct spsh__wav {
    spsh_sample_format format; /* format in which samples are read */
    uint32_t bits_per_sample;  /* written sample size: 16, 24, 32 */
    uint32_t channels;
    uint32_t sample_rate_hz;
    uint64_t samples; /* samples per channel */
} spsh__wav;

/** Describe the file to write. SPSH_E_LIMIT: the file would exceed RIFF's limit of 4 GiB. */
SPSH_NODISCARD spsh_status spsh__wav_describe(spsh_reader *reader, uint64_t position,
                                              uint64_t samples, spsh__wav *ret_wav,
                                              spsh_error *err);

/** Return the exact size of the file. */
uint64_t spsh__wav_file_bytes(const spsh__wav *wav);

/** Write the header and interleaved samples from memory. */
SPSH_NODISCARD spsh_status spsh__wav_write_i16(const spsh__wav *wav, const int16_t *samples,
                                               const spsh__byte_sink *sink, spsh_error *err);

/** Write the header, samples, and padding. After a failure a part may have been written. */
SPSH_NODISCARD spsh_status spsh__wav_write(const spsh__wav *wav, spsh_reader *reader,
                                           uint64_t position, const spsh__byte_sink *sink,
                                           spsh_error *err);

/** Write a record's payload as it is stored. */
SPSH_NODISCARD spsh_status spsh__payload_write(spsh_reader *reader, uint64_t position,
                                               const spsh__byte_sink *sink, spsh_error *err);

/** Return the file name extension for a record's payload, such as "flac". */
const char *spsh__payload_extension(spsh_codec codec);

#endif
