/* flac_frames.c: find the frames of a FLAC file using only their headers and checksums.
 *
 *     14 bits sync 0x3ffe, 1 reserved, 1 blocking strategy
 *     4 bits block size, 4 bits rate, 4 bits channels, 3 bits sample size, 1 reserved
 *     1-7 bytes coded number (UTF-8's scheme), 0-2 bytes block size - 1, 0-2 bytes rate
 *     CRC-8 of the header, subframes, zero bits to a whole byte, CRC-16 of the frame
 *
 * A frame does not state its length. It ends at an offset where the CRC-16 over all its bytes,
 * including the stored CRC, is zero, and where either the file ends (apart from an ID3v1 tag) or a
 * valid header follows. That header must have the next number. A wrong end would need a sync code,
 * a CRC-8, a CRC-16, and the right number by chance. So this file distinguishes an intact file from
 * a damaged one without decoding a sample. That matters if the decoder library fails on an intact
 * file.
 */
#include "flac_frames.h"

#include <pthread.h>

#define ID3V1_BYTES     128
#define FRAME_BYTES_MIN 9 /* header of 6 with its CRC, one subframe byte, CRC-16 */

static uint8_t crc8(const uint8_t *data, size_t size)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x80) != 0 ? (crc << 1 ^ 0x07) & 0xff : crc << 1;
    }
    return (uint8_t)crc;
}

/* [k]: the contribution of a byte to the CRC if k bytes follow it. */
static uint16_t crc16_tables[8][256];
static pthread_once_t crc16_once = PTHREAD_ONCE_INIT;

static void crc16_make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1 ^ 0x8005) & 0xffff : crc << 1;
        crc16_tables[0][i] = (uint16_t)crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            uint16_t before = crc16_tables[k - 1][i];
            crc16_tables[k][i] = (uint16_t)(before << 8 ^ crc16_tables[0][before >> 8]);
        }
    }
}

uint32_t spsh__flac_crc16(uint32_t crc, const uint8_t *data, size_t size_bytes)
{
    const uint16_t(*tables)[256] = (const uint16_t(*)[256])crc16_tables;
    (void)pthread_once(&crc16_once, crc16_make_tables);
    while (size_bytes >= 8) {
        crc ^= (uint32_t)data[0] << 8 | data[1];
        crc = (uint32_t)(tables[7][crc >> 8] ^ tables[6][crc & 0xff] ^ tables[5][data[2]] ^
                         tables[4][data[3]] ^ tables[3][data[4]] ^ tables[2][data[5]] ^
                         tables[1][data[6]] ^ tables[0][data[7]]);
        data += 8;
        size_bytes -= 8;
    }
    for (size_t i = 0; i < size_bytes; i++)
        crc = (crc << 8 & 0xffff) ^ tables[0][(crc >> 8 ^ data[i]) & 0xff];
    return crc;
}

/* UTF-8's scheme, up to 7 bytes and 36 bits. Returns the length, 0 when it is not well-formed. */
static size_t parse_number(spsh_bytes bytes, size_t begin, uint64_t *ret_number)
{
    if (begin >= bytes.size_bytes)
        return 0;
    uint8_t first = bytes.data[begin];
    size_t length = 1;
    uint64_t number = first;
    if (first >= 0x80) {
        if (first < 0xc0 || first == 0xff)
            return 0;
        while (length < 7 && (first & (0x80 >> length)) != 0)
            length++;
        number = first & (0x7fu >> length);
    }
    if (bytes.size_bytes - begin < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((bytes.data[begin + i] & 0xc0) != 0x80)
            return 0;
        number = number << 6 | (bytes.data[begin + i] & 0x3f);
    }
    *ret_number = number;
    return length;
}

/* Block size and rate codes may refer to big-endian fields at the end of the header. */
static bool parse_block_size(spsh_bytes bytes, uint32_t code, size_t *offset, uint32_t *ret_samples)
{
    size_t size = code == 6 ? 1 : code == 7 ? 2 : 0;
    if (bytes.size_bytes - *offset < size)
        return false;
    if (code == 0)
        return false;
    if (code == 1)
        *ret_samples = 192;
    else if (code <= 5)
        *ret_samples = 576u << (code - 2);
    else if (code == 6)
        *ret_samples = bytes.data[*offset] + 1u;
    else if (code == 7)
        *ret_samples = ((uint32_t)bytes.data[*offset] << 8 | bytes.data[*offset + 1]) + 1u;
    else
        *ret_samples = 256u << (code - 8);
    *offset += size;
    return *ret_samples <= 65535;
}

static bool parse_rate(spsh_bytes bytes, uint32_t code, size_t *offset, uint32_t *ret_rate)
{
    static const uint32_t rates[12] = {0,     88200, 176400, 192000, 8000,  16000,
                                       22050, 24000, 32000,  44100,  48000, 96000};
    size_t size = code == 12 ? 1 : code == 13 || code == 14 ? 2 : 0;
    if (code == 15 || bytes.size_bytes - *offset < size)
        return false;
    if (code < 12)
        *ret_rate = rates[code];
    else if (code == 12)
        *ret_rate = bytes.data[*offset] * 1000u;
    else
        *ret_rate = ((uint32_t)bytes.data[*offset] << 8 | bytes.data[*offset + 1]) *
                    (code == 14 ? 10u : 1u);
    *offset += size;
    return true;
}

bool spsh__flac_parse_frame(spsh_bytes bytes, spsh__flac_frame *ret_frame)
{
    static const uint32_t sizes[8] = {0, 8, 12, 0, 16, 20, 24, 32};
    spsh__flac_frame frame = {.size_bytes = 0};
    if (bytes.size_bytes < 6 || bytes.data[0] != 0xff || (bytes.data[1] & 0xfe) != 0xf8)
        return false;
    uint32_t channel_code = bytes.data[3] >> 4;
    uint32_t size_code = bytes.data[3] >> 1 & 7;
    if (channel_code > 10 || size_code == 3 || (bytes.data[3] & 1) != 0)
        return false;
    frame.number_is_sample = (bytes.data[1] & 1) != 0;
    frame.channel_code = channel_code;
    frame.channels = channel_code < 8 ? channel_code + 1 : 2;
    frame.bits_per_sample = sizes[size_code];
    size_t offset = 4;
    size_t length = parse_number(bytes, offset, &frame.number);
    if (length == 0 || (length == 7 && !frame.number_is_sample))
        return false;
    offset += length;
    if (!parse_block_size(bytes, bytes.data[2] >> 4, &offset, &frame.block_samples) ||
        !parse_rate(bytes, bytes.data[2] & 15, &offset, &frame.sample_rate_hz))
        return false;
    if (offset >= bytes.size_bytes || crc8(bytes.data, offset) != bytes.data[offset])
        return false;
    frame.header_bytes = (uint32_t)offset + 1;
    *ret_frame = frame;
    return true;
}

bool spsh__flac_has_shape(const spsh__flac_frame *frame, const spsh__flac_shape *shape)
{
    return frame->channels == shape->channels &&
           (frame->bits_per_sample == 0 || frame->bits_per_sample == shape->bits_per_sample) &&
           (frame->sample_rate_hz == 0 || frame->sample_rate_hz == shape->sample_rate_hz);
}

void spsh__flac_walk_begin(spsh__flac_walker *walker, spsh_bytes file,
                           uint64_t first_frame_offset_bytes, const uint8_t streaminfo[34])
{
    walker->file = file;
    walker->offset_bytes = first_frame_offset_bytes;
    walker->sample = 0;
    walker->has_frame = false;
    walker->shape.block_samples_max = (uint32_t)streaminfo[2] << 8 | streaminfo[3];
    walker->shape.sample_rate_hz =
        (uint32_t)streaminfo[10] << 12 | (uint32_t)streaminfo[11] << 4 | streaminfo[12] >> 4;
    walker->shape.channels = (streaminfo[12] >> 1 & 7u) + 1;
    walker->shape.bits_per_sample = ((streaminfo[12] & 1u) << 4 | streaminfo[13] >> 4) + 1;
    walker->sample_count = (uint64_t)(streaminfo[13] & 15) << 32;
    for (int i = 0; i < 4; i++)
        walker->sample_count |= (uint64_t)streaminfo[14 + i] << (24 - 8 * i);
}

/* Check whether the header agrees with STREAMINFO and with the previous frame. */
static bool belongs(const spsh__flac_walker *walker, const spsh__flac_frame *frame,
                    const spsh__flac_frame *before)
{
    if (!spsh__flac_has_shape(frame, &walker->shape))
        return false;
    if (before == NULL)
        return true;
    if (frame->number_is_sample != before->number_is_sample)
        return false;
    /* A fixed block size holds for all frames but the last. */
    if (!frame->number_is_sample && frame->block_samples > before->block_samples)
        return false;
    uint64_t step = frame->number_is_sample ? before->block_samples : 1;
    return frame->number == before->number + step;
}

/* Where audio must end: at the end of the file, or in front of an ID3v1 tag. */
static bool is_end(spsh_bytes file, uint64_t offset)
{
    uint64_t left = file.size_bytes - offset;
    return left == 0 || (left == ID3V1_BYTES && memcmp(file.data + offset, "TAG", 3) == 0);
}

/* Return whether a frame may end at offset, where its CRC is zero: at the end of the stream, or
 * before any valid header. The next step checks that header's number. Do not search further if the
 * number is wrong: the CRC is zero again after a whole frame, so the search would swallow that
 * frame. */
static bool is_followed(const spsh__flac_walker *walker, uint64_t offset)
{
    spsh__flac_frame after = {.size_bytes = 0};
    spsh_bytes rest = {walker->file.data + offset, walker->file.size_bytes - (size_t)offset};
    return is_end(walker->file, offset) || spsh__flac_parse_frame(rest, &after);
}

/* Return the offset after the frame, or 0 if it has no valid end. Candidates are the positions of
 * the byte 0xff of a sync code, the end of the file, and the start of a tag before it. If none of
 * them is valid, the first one with the right CRC is the end, so that the damage is reported after
 * it, where it is. */
static uint64_t find_end(spsh__flac_walker *walker, const spsh__flac_frame *frame)
{
    const uint8_t *data = walker->file.data;
    uint64_t size = walker->file.size_bytes;
    uint64_t tag = size >= ID3V1_BYTES ? size - ID3V1_BYTES : size;
    uint64_t done = frame->offset_bytes;
    uint64_t second_best = 0;
    uint32_t crc = 0;
    if (size - done < FRAME_BYTES_MIN)
        return 0;
    for (uint64_t offset = done + FRAME_BYTES_MIN; offset <= size; offset = done + 1) {
        const uint8_t *found =
            (const uint8_t *)memchr(data + offset, 0xff, (size_t)(size - offset));
        uint64_t next = found == NULL ? size : (uint64_t)(found - data);
        if (offset <= tag && tag < next && is_end(walker->file, tag))
            next = tag;
        crc = spsh__flac_crc16(crc, data + done, (size_t)(next - done));
        done = next;
        if (crc == 0 && is_followed(walker, next))
            return next;
        if (crc == 0 && second_best == 0)
            second_best = next;
    }
    return second_best;
}

spsh_status spsh__flac_walk_next(spsh__flac_walker *walker, spsh__flac_frame *ret_frame,
                                 spsh_error *err)
{
    spsh__flac_frame frame = {.size_bytes = 0};
    uint64_t begin = walker->offset_bytes;
    if (begin > walker->file.size_bytes || is_end(walker->file, begin))
        return SPSH_E_END;
    spsh_bytes rest = {walker->file.data + begin, walker->file.size_bytes - (size_t)begin};
    if (!spsh__flac_parse_frame(rest, &frame) ||
        !belongs(walker, &frame, walker->has_frame ? &walker->last : NULL))
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, begin, "FLAC: no frame header at byte %llu",
                            (unsigned long long)begin);
    frame.offset_bytes = begin;
    frame.sample = walker->sample;
    uint64_t end = find_end(walker, &frame);
    if (end == 0)
        return SPSH_FAIL_AT(err, SPSH_E_CORRUPT, begin,
                            "FLAC: the frame at byte %llu (sample %llu) is cut or damaged",
                            (unsigned long long)begin, (unsigned long long)walker->sample);
    frame.size_bytes = end - begin;
    walker->offset_bytes = end;
    walker->sample += frame.block_samples;
    walker->last = frame;
    walker->has_frame = true;
    *ret_frame = frame;
    return SPSH_OK;
}
