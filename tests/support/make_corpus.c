/* make_corpus.c: a corpus for tests of the command: WAV files with transcripts, the same for the
 * same arguments.
 *
 *     make_corpus DIRECTORY COUNT [MILLISECONDS]
 *
 * Files DIRECTORY/speaker-<n>/utterance-<n>.wav and .txt: int16, 8 or 16 kHz, mono or stereo, a
 * decaying tone with noise of a fixed generator; lengths up to MILLISECONDS (200). Every seventh
 * file is a byte copy of an earlier one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void store_le(uint8_t *at, uint64_t value, int size_bytes)
{
    for (int i = 0; i < size_bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void wav_header(uint8_t head[44], uint32_t rate_hz, uint32_t channels, uint32_t data_bytes)
{
    memcpy(head, "RIFF....WAVEfmt ", 16);
    store_le(head + 4, 36 + data_bytes, 4);
    store_le(head + 16, 16, 4);
    store_le(head + 20, 1, 2);
    store_le(head + 22, channels, 2);
    store_le(head + 24, rate_hz, 4);
    store_le(head + 28, (uint64_t)rate_hz * channels * 2, 4);
    store_le(head + 32, channels * 2, 2);
    store_le(head + 34, 16, 2);
    memcpy(head + 36, "data", 4);
    store_le(head + 40, data_bytes, 4);
}

static int write_wav(const char *path, uint64_t seed, uint32_t milliseconds_max)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    uint32_t rate_hz = seed % 2 == 0 ? 8000 : 16000;
    uint32_t channels = seed % 5 == 4 ? 2 : 1;
    uint32_t samples =
        rate_hz / 1000 * (10 + (uint32_t)(next_random(&state) % (milliseconds_max - 9)));
    uint32_t period = 20 + (uint32_t)(next_random(&state) % 100);
    uint8_t head[44];
    uint8_t value[2];
    FILE *file = fopen(path, "wb");

    if (file == NULL)
        return -1;
    wav_header(head, rate_hz, channels, samples * channels * 2);
    (void)fwrite(head, 1, sizeof(head), file);
    for (uint32_t i = 0; i < samples * channels; i++) {
        int32_t tone = (int32_t)(i % period) * 16000 / (int32_t)period - 8000;
        int32_t noise = (int32_t)(next_random(&state) % 512) - 256;
        int32_t sample =
            (int32_t)((int64_t)tone * (samples * channels - i) / (samples * channels)) + noise;
        store_le(value, (uint64_t)(int64_t)sample, 2);
        (void)fwrite(value, 1, sizeof(value), file);
    }
    return fclose(file);
}

static int write_text(const char *path, uint64_t seed)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return -1;
    (void)fprintf(file, "utterance number %" PRIu64 ", \xC3\xA4\xC3\xB6\xC3\xBC\n", seed);
    return fclose(file);
}

static int write_utterance(const char *directory, uint64_t i, uint32_t milliseconds_max)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/speaker-%02" PRIu64, directory, i % 4);
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/speaker-%02" PRIu64 "/utterance-%05" PRIu64 ".wav",
                   directory, i % 4, i);
    if (write_wav(path, i % 7 == 6 ? i / 2 : i, milliseconds_max) != 0)
        return -1;
    memcpy(path + strlen(path) - 3, "txt", 3);
    return write_text(path, i);
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint32_t milliseconds_max = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 200;

    if (count == 0 || milliseconds_max < 10) {
        fprintf(stderr, "usage: make_corpus DIRECTORY COUNT [MILLISECONDS]\n");
        return 2;
    }
    if (mkdir(argv[1], 0777) != 0 && errno != EEXIST) {
        perror(argv[1]);
        return 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (write_utterance(argv[1], i, milliseconds_max) != 0) {
            perror(argv[1]);
            return 1;
        }
    }
    return 0;
}
