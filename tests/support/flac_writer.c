/* flac_writer.c: see flac_writer.h. RFC 9639 is the format's specification. */
#include "flac_writer.h"

#include <stdio.h>
#include <stdlib.h>

#define STREAMINFO_AT 8
#define FIRST_FRAME   42
#define TAP_BITS      15

static void put_bits(flac_writer *writer, uint64_t value, uint32_t count)
{
    for (uint32_t i = count; i > 0; i--) {
        if (writer->bit_count == 0) {
            if (writer->size_bytes == writer->capacity_bytes) {
                fprintf(stderr, "flac_writer: the buffer is too small\n");
                exit(1);
            }
            writer->dst[writer->size_bytes++] = 0;
            writer->bit_count = 8;
        }
        writer->bit_count--;
        uint8_t bit = (uint8_t)(value >> (i - 1) & 1);
        writer->dst[writer->size_bytes - 1] |= (uint8_t)(bit << writer->bit_count);
    }
}

/* Remainder of the division by the polynomial, a bit at a time. */
static uint32_t crc(const uint8_t *data, size_t size_bytes, uint32_t polynomial, uint32_t width)
{
    uint32_t value = 0;
    for (size_t i = 0; i < size_bytes * 8; i++) {
        uint32_t in = (uint32_t)data[i / 8] >> (7 - i % 8) & 1u;
        uint32_t out = value >> (width - 1) & 1u;
        value = (value << 1) & ((1u << width) - 1);
        if (in != out)
            value ^= polynomial;
    }
    return value;
}

/* UTF-8's scheme, up to 36 bits. */
static void put_number(flac_writer *writer, uint64_t number)
{
    uint32_t extra = 0;
    if (number < 0x80) {
        put_bits(writer, number, 8);
        return;
    }
    while (extra < 6 && number >> (6 * extra + (6 - extra)) != 0)
        extra++;
    uint32_t lead = (0xff00u >> (extra + 1)) & 0xff;
    put_bits(writer, lead | (number >> (6 * extra)), 8);
    for (uint32_t i = extra; i > 0; i--)
        put_bits(writer, 0x80 | (number >> (6 * (i - 1)) & 0x3f), 8);
}

void flac_writer_begin(flac_writer *writer, uint8_t *dst, size_t capacity_bytes)
{
    static const uint8_t marker[STREAMINFO_AT] = {'f', 'L', 'a', 'C', 0x80, 0, 0, 34};
    writer->dst = dst;
    writer->capacity_bytes = capacity_bytes;
    writer->size_bytes = 0;
    writer->bit_count = 0;
    writer->samples = 0;
    writer->frames = 0;
    writer->block_samples_max = 0;
    for (size_t i = 0; i < FIRST_FRAME; i++)
        put_bits(writer, i < sizeof(marker) ? marker[i] : 0, 8);
}

static size_t begin_frame(flac_writer *writer, uint32_t samples, uint32_t channel_code)
{
    size_t offset = writer->size_bytes;
    uint64_t number = writer->first_number + (writer->variable ? writer->samples : writer->frames);
    put_bits(writer, 0x7ffc, 15);
    put_bits(writer, writer->variable, 1);
    put_bits(writer, 7, 4); /* block size - 1 in 16 bits at the header's end */
    put_bits(writer, 0, 4); /* rate as in STREAMINFO */
    put_bits(writer, channel_code, 4);
    put_bits(writer, 0, 4); /* bits as in STREAMINFO; reserved */
    put_number(writer, number);
    put_bits(writer, samples - 1, 16);
    put_bits(writer, crc(writer->dst + offset, writer->size_bytes - offset, 0x07, 8), 8);
    return offset;
}

static void end_frame(flac_writer *writer, size_t offset, uint32_t samples)
{
    writer->bit_count = 0;
    put_bits(writer, crc(writer->dst + offset, writer->size_bytes - offset, 0x8005, 16), 16);
    writer->samples += samples;
    writer->frames++;
    if (samples > writer->block_samples_max)
        writer->block_samples_max = samples;
}

size_t flac_writer_frame(flac_writer *writer, const int32_t *pcm, uint32_t samples)
{
    size_t offset = begin_frame(writer, samples, writer->channels - 1);
    for (uint32_t c = 0; c < writer->channels; c++) {
        put_bits(writer, 1 << 1, 8); /* verbatim, no wasted bits */
        for (uint32_t i = 0; i < samples; i++)
            put_bits(writer, (uint64_t)(int64_t)pcm[i * writer->channels + c],
                     writer->bits_per_sample);
    }
    end_frame(writer, offset, samples);
    return offset;
}

static bool is_side(uint32_t stereo, uint32_t channel)
{
    return stereo != 0 && channel == (stereo == 9 ? 0u : 1u);
}

/* A sample of channel 0 or 1 after the stereo mode. */
static int64_t decorrelated(const int32_t *pcm, uint32_t stereo, uint32_t channel)
{
    if (is_side(stereo, channel))
        return (int64_t)pcm[0] - pcm[1];
    return stereo == 10 ? ((int64_t)pcm[0] + pcm[1]) >> 1 : pcm[channel];
}

static void put_channel(flac_writer *writer, const int32_t *pcm, uint32_t samples,
                        const flac_prediction *how, uint32_t channel)
{
    static const flac_prediction fixed = {.order = 1, .taps = {1}};
    const flac_prediction *by = how->order == 0 ? &fixed : how;
    uint32_t bits = writer->bits_per_sample + is_side(how->stereo, channel);
    uint32_t residual_bits = bits + (how->order == 0 ? 1 : 3);
    put_bits(writer, how->order == 0 ? 9 << 1 : (31 + how->order) << 1, 8);
    for (uint32_t i = 0; i < by->order; i++)
        put_bits(writer,
                 (uint64_t)decorrelated(pcm + (size_t)i * writer->channels, how->stereo, channel),
                 bits);
    if (how->order > 0) {
        put_bits(writer, TAP_BITS - 1, 4);
        put_bits(writer, how->shift, 5);
        for (uint32_t i = 0; i < how->order; i++)
            put_bits(writer, (uint64_t)(int64_t)how->taps[i], TAP_BITS);
    }
    put_bits(writer, 0, 2 + 4); /* Rice, one partition */
    put_bits(writer, 15, 4);    /* escaped: unencoded residuals */
    put_bits(writer, residual_bits, 5);
    for (uint32_t i = by->order; i < samples; i++) {
        const int32_t *at = pcm + (size_t)i * writer->channels;
        int64_t sum = 0;
        for (uint32_t j = 0; j < by->order; j++)
            sum += by->taps[j] *
                   decorrelated(at - (size_t)(j + 1) * writer->channels, how->stereo, channel);
        put_bits(writer, (uint64_t)(decorrelated(at, how->stereo, channel) - (sum >> by->shift)),
                 residual_bits);
    }
}

size_t flac_writer_predicted_frame(flac_writer *writer, const int32_t *pcm, uint32_t samples,
                                   const flac_prediction *prediction)
{
    size_t offset = begin_frame(
        writer, samples, prediction->stereo != 0 ? prediction->stereo : writer->channels - 1);
    for (uint32_t c = 0; c < writer->channels; c++)
        put_channel(writer, pcm, samples, prediction, c);
    end_frame(writer, offset, samples);
    return offset;
}

size_t flac_writer_end(flac_writer *writer)
{
    uint32_t block_min = writer->variable ? 16 : writer->block_samples_max;
    flac_writer patch = *writer;
    patch.dst = writer->dst + STREAMINFO_AT;
    patch.capacity_bytes = FIRST_FRAME - STREAMINFO_AT;
    patch.size_bytes = 0;
    patch.bit_count = 0;
    put_bits(&patch, block_min, 16);
    put_bits(&patch, writer->block_samples_max, 16);
    put_bits(&patch, 0, 24);
    put_bits(&patch, 0, 24);
    put_bits(&patch, writer->sample_rate_hz, 20);
    put_bits(&patch, writer->channels - 1, 3);
    put_bits(&patch, writer->bits_per_sample - 1, 5);
    put_bits(&patch, writer->hides_count ? 0 : writer->samples, 36);
    for (int i = 0; i < 16; i++)
        put_bits(&patch, writer->md5[i], 8);
    return writer->size_bytes;
}
