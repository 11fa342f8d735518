/* make_clip.c: one audio clip for tests, the same bytes for the same arguments.
 *
 *     make_clip PATH SECONDS RATE_HZ CHANNELS SEED
 *
 * The extension selects the format: .wav (int16), .flac, .mp3, .opus, .ogg (Vorbis). Two seeds
 * produce two different clips: a decaying tone with noise, both chosen by the seed. libsndfile
 * draws the serial number of an Ogg stream from the clock; the program replaces it by the seed and
 * recomputes the checksum of every page.
 */
#include <sndfile.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_HEAD_BYTES     27
#define OGG_BYTES_MAX       ((size_t)64 << 20)
#define PIECE_FRAMES        1024
#define CHANNELS_MAX        8
#define SERIAL_AT           14
#define CHECKSUM_AT         22
#define SEGMENT_COUNT_AT    26
#define CHECKSUM_POLYNOMIAL UINT32_C(0x04C11DB7)

static const struct {
    const char *extension;
    int format;
} formats[] = {
    {".wav",  SF_FORMAT_WAV | SF_FORMAT_PCM_16         },
    {".flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16        },
    {".mp3",  SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
    {".opus", SF_FORMAT_OGG | SF_FORMAT_OPUS           },
    {".ogg",  SF_FORMAT_OGG | SF_FORMAT_VORBIS         },
};

static int format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot != NULL && i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(dot, formats[i].extension) == 0)
            return formats[i].format;
    }
    return 0;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static int write_samples(SNDFILE *file, sf_count_t frames, int channels, uint64_t seed)
{
    static int16_t piece[PIECE_FRAMES * CHANNELS_MAX];
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    const int32_t period = 20 + (int32_t)(next_random(&state) % 100);

    for (sf_count_t at = 0; at < frames;) {
        sf_count_t count = frames - at < PIECE_FRAMES ? frames - at : PIECE_FRAMES;
        for (sf_count_t i = 0; i < count * channels; i++) {
            const sf_count_t position = at + i / channels;
            int32_t tone = (int32_t)(position % period) * 12000 / period - 6000;
            int32_t noise = (int32_t)(next_random(&state) % 1024) - 512;
            piece[i] = (int16_t)((int64_t)tone * (frames - position) / frames + noise);
        }
        if (sf_writef_short(file, piece, count) != count)
            return -1;
        at += count;
    }
    return 0;
}

static void store_u32le(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t page_checksum(const uint8_t *page, size_t size_bytes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        sum ^= (uint32_t)page[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            sum = sum << 1 ^ (sum >> 31 != 0 ? CHECKSUM_POLYNOMIAL : 0);
    }
    return sum;
}

/* Whether data was a whole number of Ogg pages; all of them then carry the serial number. */
static int set_serial(uint8_t *data, size_t size_bytes, uint32_t serial)
{
    for (size_t at = 0; at < size_bytes;) {
        uint8_t *page = data + at;
        size_t page_bytes = PAGE_HEAD_BYTES;
        if (size_bytes - at < PAGE_HEAD_BYTES || memcmp(page, "OggS", 4) != 0)
            return -1;
        const size_t segments = page[SEGMENT_COUNT_AT];
        if (size_bytes - at < PAGE_HEAD_BYTES + segments)
            return -1;
        for (size_t i = 0; i < segments; i++)
            page_bytes += page[PAGE_HEAD_BYTES + i];
        page_bytes += segments;
        if (size_bytes - at < page_bytes)
            return -1;
        store_u32le(page + SERIAL_AT, serial);
        store_u32le(page + CHECKSUM_AT, 0);
        store_u32le(page + CHECKSUM_AT, page_checksum(page, page_bytes));
        at += page_bytes;
    }
    return 0;
}

static int fix_ogg(const char *path, uint64_t seed)
{
    FILE *file = fopen(path, "r+b");
    uint8_t *data = malloc(OGG_BYTES_MAX);
    size_t size_bytes = 0;
    int rc = file == NULL || data == NULL ? -1 : 0;

    if (rc == 0)
        size_bytes = fread(data, 1, OGG_BYTES_MAX, file);
    if (rc == 0 && size_bytes < OGG_BYTES_MAX)
        rc = set_serial(data, size_bytes, (uint32_t)seed + 1);
    if (rc == 0)
        rc = fseek(file, 0, SEEK_SET);
    if (rc == 0 && fwrite(data, 1, size_bytes, file) != size_bytes)
        rc = -1;
    if (file != NULL && fclose(file) != 0)
        rc = -1;
    free(data);
    return rc;
}

int main(int argc, char **argv)
{
    SF_INFO info = {0};
    double seconds = argc == 6 ? strtod(argv[2], NULL) : 0;
    uint64_t seed = argc == 6 ? strtoull(argv[5], NULL, 10) : 0;

    if (argc == 6) {
        info.samplerate = (int)strtol(argv[3], NULL, 10);
        info.channels = (int)strtol(argv[4], NULL, 10);
        info.format = format_of(argv[1]);
    }
    if (info.format == 0 || !(seconds >= 0 && seconds < 3600) || info.channels < 1 ||
        info.channels > CHANNELS_MAX || info.samplerate < 1) {
        fprintf(stderr,
                "usage: make_clip FILE.{wav,flac,mp3,opus,ogg} SECONDS RATE_HZ CHANNELS SEED\n");
        return 2;
    }
    const int ogg = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG;
    const sf_count_t frames = (sf_count_t)(seconds * info.samplerate + 0.5);
    const int channels = info.channels;
    SNDFILE *file = sf_open(argv[1], SFM_WRITE, &info);
    if (file == NULL) {
        fprintf(stderr, "make_clip: %s: %s\n", argv[1], sf_strerror(NULL));
        return 1;
    }
    int rc = write_samples(file, frames, channels, seed);
    if (sf_close(file) != 0)
        rc = -1;
    if (rc == 0 && ogg)
        rc = fix_ogg(argv[1], seed);
    if (rc != 0)
        fprintf(stderr, "make_clip: %s: cannot be written\n", argv[1]);
    return rc == 0 ? 0 : 1;
}
