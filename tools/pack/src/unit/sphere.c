/* sphere.c: a SPHERE file is a text header and samples:
 *
 *     "NIST_1A\n"   "   1024\n" (size of the header)
 *     lines: NAME -i INTEGER | NAME -r REAL | NAME -sLENGTH TEXT      comments begin with ';'
 *     "end_head\n"   filler up to the size of the header
 *     samples, channels interleaved
 *
 * Integers have the byte order of sample_byte_format: "01" is little-endian, "10" big-endian. A WAV
 * file stores the same samples, so that only the order of bytes changes. Header fields are read
 * once, from front to back, and nothing is assumed about their order.
 */
#include "sphere.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"
#include "speechshard/limits.h"
#include "wrapped_wav.h"

enum { HEADER_BYTES_MIN = 24, HEADER_BYTES_MAX = 1 << 20, MAGIC_BYTES = 8, CODING_BYTES = 64 };

#define ABSENT UINT64_MAX

typedef struct sphere {
    uint64_t channels, samples, rate_hz, sample_bytes; /* ABSENT: not in the header */
    char coding[CODING_BYTES];                         /* "" is pcm */
    char order[8];                                     /* sample_byte_format */
    char interleaved[8];
    uint64_t header_bytes;
} sphere;

bool spsh__is_sphere(spsh_bytes file)
{
    return file.size_bytes >= MAGIC_BYTES && memcmp(file.data, "NIST_1A\n", MAGIC_BYTES) == 0;
}

/* ---- the header ---- */

/* Read the size of the header: a line of blanks and digits. */
static spsh_status read_size(spsh_bytes file, sphere *s, spsh_error *err)
{
    size_t at = MAGIC_BYTES;
    uint64_t size = 0;
    while (at < file.size_bytes && file.data[at] == ' ')
        at++;
    while (at < file.size_bytes && file.data[at] >= '0' && file.data[at] <= '9' &&
           size <= HEADER_BYTES_MAX)
        size = size * 10 + (uint64_t)(file.data[at++] - '0');
    if (at >= file.size_bytes || file.data[at] != '\n' || size < HEADER_BYTES_MIN ||
        size > HEADER_BYTES_MAX)
        return SPSH_FAIL_AT(err, SPSH_E_AUDIO, MAGIC_BYTES, "SPHERE: no size of the header");
    if (size > file.size_bytes)
        return SPSH_FAIL_AT(err, SPSH_E_TRUNCATED, file.size_bytes,
                            "SPHERE: the header states a size of %llu bytes, but the file has %zu",
                            (unsigned long long)size, file.size_bytes);
    s->header_bytes = size;
    return SPSH_OK;
}

static bool is_field(spsh_bytes line, const char *name)
{
    const size_t size = strlen(name);
    return line.size_bytes > size && memcmp(line.data, name, size) == 0 && line.data[size] == ' ';
}

/* Parse a line such as "NAME -i 16000". */
static spsh_status take_count(spsh_bytes line, const char *name, uint64_t *ret, spsh_error *err)
{
    const size_t begin = strlen(name) + 4;
    uint64_t value = 0;
    if (!is_field(line, name))
        return SPSH_OK;
    bool is_good = line.size_bytes > begin && memcmp(line.data + begin - 4, " -i ", 4) == 0;
    for (size_t i = begin; is_good && i < line.size_bytes; i++) {
        is_good = line.data[i] >= '0' && line.data[i] <= '9' && value < UINT64_C(1) << 48;
        value = value * 10 + (uint64_t)(line.data[i] - '0');
    }
    if (!is_good)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "SPHERE: %s is not a count", name);
    *ret = value;
    return SPSH_OK;
}

/* Parse a line such as "NAME -s3 pcm": the text after the blank, cut to the capacity. */
static void take_text(spsh_bytes line, const char *name, char *dst, size_t capacity)
{
    if (!is_field(line, name))
        return;
    size_t begin = strlen(name) + 1;
    while (begin < line.size_bytes && line.data[begin] != ' ')
        begin++;
    begin += begin < line.size_bytes ? 1 : 0;
    size_t size = line.size_bytes - begin;
    size = size < capacity - 1 ? size : capacity - 1;
    memcpy(dst, line.data + begin, size);
    dst[size] = '\0';
}

static spsh_status read_line(spsh_bytes line, sphere *s, spsh_error *err)
{
    spsh_status rc = take_count(line, "channel_count", &s->channels, err);
    if (rc == SPSH_OK)
        rc = take_count(line, "sample_count", &s->samples, err);
    if (rc == SPSH_OK)
        rc = take_count(line, "sample_rate", &s->rate_hz, err);
    if (rc == SPSH_OK)
        rc = take_count(line, "sample_n_bytes", &s->sample_bytes, err);
    take_text(line, "sample_coding", s->coding, sizeof(s->coding));
    take_text(line, "sample_byte_format", s->order, sizeof(s->order));
    take_text(line, "channels_interleaved", s->interleaved, sizeof(s->interleaved));
    return rc;
}

static spsh_status read_header(spsh_bytes file, sphere *s, spsh_error *err)
{
    *s = (sphere){ABSENT, ABSENT, ABSENT, ABSENT, "", "", "", 0};
    spsh_status rc = read_size(file, s, err);
    size_t at = (size_t)2 * MAGIC_BYTES;
    while (rc == SPSH_OK && at < s->header_bytes) {
        const uint8_t *end = memchr(file.data + at, '\n', s->header_bytes - at);
        if (end == NULL)
            break;
        const spsh_bytes line = {file.data + at, (size_t)(end - file.data) - at};
        if (line.size_bytes == 8 && memcmp(line.data, "end_head", 8) == 0)
            return SPSH_OK;
        rc = read_line(line, s, err);
        at += line.size_bytes + 1;
    }
    return rc != SPSH_OK ? rc : SPSH_FAIL(err, SPSH_E_AUDIO, "SPHERE: the header has no end_head");
}

/* ---- meaning of the header ---- */

static bool is_word(const char *text, const char *a, const char *b)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

static spsh_status choose_form(const sphere *s, spsh__wav_form *form, spsh_error *err)
{
    const bool is_pcm = is_word(s->coding, "pcm", "");
    if (strchr(s->coding, ',') != NULL)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED,
                         "SPHERE: compressed (%.40s); LDC's sph2pipe makes plain files: sph2pipe "
                         "-f wav IN.sph OUT.wav",
                         s->coding);
    if (strcmp(s->interleaved, "FALSE") == 0)
        return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "SPHERE: channels one after the other");
    if (s->channels == 0 || s->channels > SPSH_CHANNELS_MAX)
        return SPSH_FAIL(err, s->channels == ABSENT ? SPSH_E_AUDIO : SPSH_E_LIMIT,
                         "SPHERE: no channel_count from 1 to %d", (int)SPSH_CHANNELS_MAX);
    if (s->rate_hz < SPSH_SAMPLE_RATE_HZ_MIN || s->rate_hz > SPSH_SAMPLE_RATE_HZ_MAX)
        return SPSH_FAIL(err, s->rate_hz == ABSENT ? SPSH_E_AUDIO : SPSH_E_LIMIT,
                         "SPHERE: no sample_rate from %d to %d", (int)SPSH_SAMPLE_RATE_HZ_MIN,
                         (int)SPSH_SAMPLE_RATE_HZ_MAX);
    const uint64_t bytes = s->sample_bytes == ABSENT && !is_pcm ? 1 : s->sample_bytes;
    *form = (spsh__wav_form){SPSH__WAV_TAG_INTEGER, (uint16_t)(8 * (bytes & 7)),
                             (uint16_t)s->channels, (uint32_t)s->rate_hz};
    if (is_word(s->coding, "ulaw", "mu-law"))
        form->tag = SPSH__WAV_TAG_MULAW;
    else if (is_word(s->coding, "alaw", "a-law"))
        form->tag = SPSH__WAV_TAG_ALAW;
    if ((is_pcm && bytes >= 2 && bytes <= 4) || (form->tag != SPSH__WAV_TAG_INTEGER && bytes == 1))
        return SPSH_OK;
    if (bytes == ABSENT)
        return SPSH_FAIL(err, SPSH_E_AUDIO, "SPHERE: no sample_n_bytes");
    return SPSH_FAIL(err, SPSH_E_UNSUPPORTED, "SPHERE: coding %.40s with %llu bytes per sample",
                     is_pcm ? "pcm" : s->coding, (unsigned long long)bytes);
}

/* Integers without a byte order are ambiguous, and a wrong guess would store noise. */
static spsh_status choose_order(const sphere *s, const spsh__wav_form *form, bool *ret_swap,
                                spsh_error *err)
{
    static const char *const little[] = {"01", "012", "0123"};
    static const char *const big[] = {"10", "210", "3210"};
    *ret_swap = false;
    if (form->tag != SPSH__WAV_TAG_INTEGER)
        return SPSH_OK;
    const size_t i = form->bits_per_sample / 8U - 2;
    *ret_swap = strcmp(s->order, big[i]) == 0;
    if (*ret_swap || strcmp(s->order, little[i]) == 0)
        return SPSH_OK;
    return SPSH_FAIL(err, SPSH_E_AUDIO, "SPHERE: sample_byte_format '%s' of %u bytes per sample",
                     s->order, form->bits_per_sample / 8U);
}

static spsh_status find_data(const sphere *s, spsh_bytes file, const spsh__wav_form *form,
                             spsh_bytes *ret_data, spsh_error *err)
{
    const uint64_t block = (uint64_t)form->channels * form->bits_per_sample / 8;
    const uint64_t there = file.size_bytes - s->header_bytes;
    /* Counts are below 2^52 and a block has at most 256 bytes: no overflow. */
    const uint64_t wanted = s->samples == ABSENT ? there : s->samples * block;
    if (wanted > there || wanted % block != 0)
        return SPSH_FAIL_AT(
            err, SPSH_E_TRUNCATED, file.size_bytes,
            "SPHERE: the header states %llu bytes of samples, but the file has %llu",
            (unsigned long long)wanted, (unsigned long long)there);
    if (wanted > SPSH_PCM_BYTES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "SPHERE: %llu bytes of samples",
                         (unsigned long long)wanted);
    *ret_data = (spsh_bytes){file.data + s->header_bytes, (size_t)wanted};
    return SPSH_OK;
}

static void copy_samples(spsh_bytes data, size_t sample_bytes, bool swap, uint8_t *dst)
{
    if (!swap) {
        memcpy(dst, data.data, data.size_bytes);
        return;
    }
    for (size_t i = 0; i < data.size_bytes; i += sample_bytes)
        for (size_t b = 0; b < sample_bytes; b++)
            dst[i + b] = data.data[i + sample_bytes - 1 - b];
}

spsh_status spsh__sphere_to_wav(spsh_bytes file, uint8_t **ret_wav, size_t *ret_bytes,
                                spsh_error *err)
{
    sphere s;
    spsh__wav_form form = {0, 0, 0, 0};
    spsh_bytes data = {NULL, 0};
    bool swap = false;
    spsh_status rc = read_header(file, &s, err);
    if (rc == SPSH_OK)
        rc = choose_form(&s, &form, err);
    if (rc == SPSH_OK)
        rc = choose_order(&s, &form, &swap, err);
    if (rc == SPSH_OK)
        rc = find_data(&s, file, &form, &data, err);
    if (rc != SPSH_OK)
        return rc;
    uint8_t *wav = malloc(SPSH__WAV_HEAD_BYTES + data.size_bytes);
    if (wav == NULL)
        return SPSH_NO_MEMORY(err);
    spsh__wav_head(&form, data.size_bytes, wav);
    copy_samples(data, form.bits_per_sample / 8U, swap, wav + SPSH__WAV_HEAD_BYTES);
    *ret_wav = wav;
    *ret_bytes = SPSH__WAV_HEAD_BYTES + data.size_bytes;
    return SPSH_OK;
}
