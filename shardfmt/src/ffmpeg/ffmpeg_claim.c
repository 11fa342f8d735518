/* ffmpeg_claim.c: see ffmpeg_claim.h. Sizes come from the file: each is checked before it is added.
 */
#include "ffmpeg_claim.h"

#include <string.h>

enum { ADTS_HEAD_BYTES = 7, ADTS_SAMPLES = 1024, ASF_SEARCHED = 1 << 16, ID3V1_BYTES = 128 };

/* Bytes of a frame by its type, with the byte of the type: RFC 4867, 5.3. 0: no such type. */
static const uint8_t amr_nb[16] = {13, 14, 16, 18, 20, 21, 27, 32, 6, 0, 0, 0, 0, 0, 0, 1};
static const uint8_t amr_wb[16] = {18, 24, 33, 37, 41, 47, 51, 59, 61, 6, 0, 0, 0, 0, 1, 1};

static bool walk_amr(spsh_bytes file, spsh__claim *c)
{
    const bool is_wide = file.size_bytes >= 9 && memcmp(file.data, "#!AMR-WB\n", 9) == 0;
    const uint8_t *sizes = is_wide ? amr_wb : amr_nb;
    size_t at = is_wide ? 9 : 6;
    c->rate_hz = is_wide ? 16000 : 8000;
    c->samples = 0;
    c->is_exact = true;
    while (at < file.size_bytes) {
        const size_t size = sizes[file.data[at] >> 3 & 15];
        if (size == 0)
            c->cut = "a frame of no known type";
        else if (size > file.size_bytes - at)
            c->cut = "the file ends inside a frame";
        if (c->cut != NULL)
            return true;
        at += size;
        c->samples += c->rate_hz / 50;
    }
    return true;
}

static bool walk_adts(spsh_bytes file, spsh__claim *c)
{
    static const uint32_t rates[16] = {96000, 88200, 64000, 48000, 44100, 32000, 24000,
                                       22050, 16000, 12000, 11025, 8000,  7350};
    size_t at = 0;
    c->samples = 0;
    c->is_exact = true;
    while (at < file.size_bytes) {
        const uint8_t *h = file.data + at;
        const size_t left = file.size_bytes - at;
        if (left == ID3V1_BYTES && memcmp(h, "TAG", 3) == 0)
            return true;
        if (left < ADTS_HEAD_BYTES || h[0] != 0xff || (h[1] & 0xf6) != 0xf0) {
            c->cut = "bytes that are no frame";
            return true;
        }
        const size_t size = (size_t)(h[3] & 3) << 11 | (size_t)h[4] << 3 | h[5] >> 5;
        if (size < ADTS_HEAD_BYTES || size > left) {
            c->cut = "the file ends inside a frame";
            return true;
        }
        c->rate_hz = rates[h[2] >> 2 & 15];
        c->samples += (uint64_t)ADTS_SAMPLES * (1U + (h[6] & 3));
        at += size;
    }
    return true;
}

/* A number of EBML: its length is the number of leading zero bits. false: cut, or too long. */
static bool take_vint(spsh_bytes file, size_t *at, bool keeps_mark, uint64_t *ret)
{
    if (*at >= file.size_bytes || file.data[*at] == 0)
        return false;
    unsigned length = 1;
    while ((file.data[*at] & (0x80 >> (length - 1))) == 0)
        length++;
    if (length > file.size_bytes - *at)
        return false;
    const uint8_t mask = (uint8_t)(keeps_mark ? 0xff : 0xff >> length);
    uint64_t value = file.data[*at] & mask;
    bool is_unknown = !keeps_mark && value == (uint64_t)(0xff >> length);
    for (unsigned i = 1; i < length; i++) {
        value = value << 8 | file.data[*at + i];
        is_unknown = is_unknown && file.data[*at + i] == 0xff;
    }
    *at += length;
    *ret = is_unknown ? UINT64_MAX : value;
    return true;
}

/* The file must have all of its segment. Live streams state no size. */
static void check_matroska(spsh_bytes file, spsh__claim *c)
{
    size_t at = 0;
    uint64_t id = 0;
    uint64_t size = 0;
    for (int i = 0; i < 2; i++) {
        if (!take_vint(file, &at, true, &id) || !take_vint(file, &at, false, &size)) {
            c->cut = "the file ends inside its head";
            return;
        }
        if (i == 1 || size > file.size_bytes - at)
            break;
        at += (size_t)size;
    }
    if (size != UINT64_MAX && size > file.size_bytes - at)
        c->cut = "the file is shorter than its segment";
}

/* The object "File Properties" has the size of the file, unless the broadcast flag is set. */
static void check_asf(spsh_bytes file, spsh__claim *c)
{
    static const uint8_t guid[16] = {0xa1, 0xdc, 0xab, 0x8c, 0x47, 0xa9, 0xcf, 0x11,
                                     0x8e, 0xe4, 0x00, 0xc0, 0x0c, 0x20, 0x53, 0x65};
    const size_t searched = file.size_bytes < ASF_SEARCHED ? file.size_bytes : ASF_SEARCHED;
    for (size_t at = 0; at + 104 <= searched; at++) {
        if (memcmp(file.data + at, guid, sizeof(guid)) != 0)
            continue;
        const bool is_live = (spsh__load_le(file.data + at + 88, 4) & 1) != 0;
        if (!is_live && spsh__load_le(file.data + at + 40, 8) > file.size_bytes)
            c->cut = "the file is shorter than it states";
        return;
    }
    c->cut = "no object with the properties of the file";
}

static uint64_t load_be(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* The boxes of the top level must fill the file: size in 4 bytes, or in 8 after the type. */
static void check_mov(spsh_bytes file, spsh__claim *c)
{
    for (size_t at = 0; at < file.size_bytes;) {
        const uint8_t *box = file.data + at;
        const size_t left = file.size_bytes - at;
        uint64_t size = left < 8 ? UINT64_MAX : load_be(box, 4);
        if (size == 1 && left >= 16)
            size = load_be(box + 8, 8);
        if (size == 0) /* the last one: to the end */
            return;
        if (size < 8 || size > left) {
            c->cut = "the file ends inside a box";
            return;
        }
        at += (size_t)size;
    }
}

/* All chunks must be there: type, then size in 8 bytes. The samples may end with the file. */
static void check_caf(spsh_bytes file, spsh__claim *c)
{
    for (size_t at = 8; at < file.size_bytes;) {
        const uint8_t *chunk = file.data + at;
        const size_t left = file.size_bytes - at;
        const uint64_t size = left < 12 ? UINT64_MAX : load_be(chunk + 4, 8);
        if (left >= 12 && size == UINT64_MAX && memcmp(chunk, "data", 4) == 0)
            return;
        if (left < 12 || size > left - 12) {
            c->cut = "the file ends inside a chunk";
            return;
        }
        at += 12 + (size_t)size;
    }
}

bool spsh__claim_find(const char *demuxer, spsh_bytes file, spsh__claim *claim)
{
    if (strcmp(demuxer, "amr") == 0)
        return walk_amr(file, claim);
    if (strcmp(demuxer, "aac") == 0)
        return walk_adts(file, claim);
    if (strcmp(demuxer, "g722") == 0) { /* a byte has two samples, and any bytes are G.722 */
        claim->samples = 2 * (uint64_t)file.size_bytes;
        claim->rate_hz = 16000;
        claim->is_exact = true;
        return true;
    }
    if (strcmp(demuxer, "matroska") == 0)
        check_matroska(file, claim);
    else if (strcmp(demuxer, "asf") == 0)
        check_asf(file, claim);
    else if (strcmp(demuxer, "mov") == 0)
        check_mov(file, claim);
    else if (strcmp(demuxer, "caf") == 0)
        check_caf(file, claim);
    return false;
}

void spsh__claim_scale(spsh__claim *claim, uint32_t rate_hz)
{
    if (claim->samples == SPSH_SAMPLES_UNKNOWN || claim->rate_hz == 0 ||
        claim->rate_hz == rate_hz || claim->samples > UINT64_MAX / rate_hz)
        return;
    claim->samples = claim->samples * rate_hz / claim->rate_hz;
    claim->tolerance = claim->tolerance * rate_hz / claim->rate_hz;
    claim->rate_hz = rate_hz;
}
