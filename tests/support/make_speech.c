/* make_speech.c: speech-like clips for tests of copies, the same samples for the same arguments.
 *
 *     make_speech PATH HEADER_HZ SEED:BEGIN:SECONDS...
 *
 * Pieces of 16 kHz signals (print_signals.h), one signal per seed, are concatenated, so two clips
 * can share a part, and one can contain another. HEADER_HZ is the rate in the header: another
 * number than 16000 is another speed. The extension selects the format: .wav, .flac, .mp3, .opus.
 */
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print_signals.h"

enum { RATE_HZ = 16000, SECONDS_MAX = 600 };

static int format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".wav") == 0)
        return SF_FORMAT_WAV | SF_FORMAT_PCM_16;
    if (dot != NULL && strcmp(dot, ".flac") == 0)
        return SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
    if (dot != NULL && strcmp(dot, ".mp3") == 0)
        return SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;
    if (dot != NULL && strcmp(dot, ".opus") == 0)
        return SF_FORMAT_OGG | SF_FORMAT_OPUS;
    return 0;
}

static int write_piece(SNDFILE *file, const char *piece)
{
    char *end = NULL;
    const unsigned long seed = strtoul(piece, &end, 10);
    const double begin_s = *end == ':' ? strtod(end + 1, &end) : -1;
    const double seconds = *end == ':' ? strtod(end + 1, &end) : -1;
    if (*end != '\0' || begin_s < 0 || seconds <= 0 || begin_s + seconds > SECONDS_MAX)
        return -1;
    const size_t first = (size_t)(begin_s * RATE_HZ);
    const size_t count = (size_t)(seconds * RATE_HZ);
    int16_t *samples = malloc((first + count) * sizeof(*samples));
    if (samples == NULL)
        return -1;
    make_signal(SIGNAL_SPEECH, RATE_HZ, seed, samples, first + count);
    const sf_count_t written = sf_writef_short(file, samples + first, (sf_count_t)count);
    free(samples);
    return written == (sf_count_t)count ? 0 : -1;
}

int main(int argc, char **argv)
{
    SF_INFO info = {0};
    if (argc < 4) {
        fprintf(stderr, "usage: make_speech PATH HEADER_HZ SEED:BEGIN:SECONDS...\n");
        return 2;
    }
    info.format = format_of(argv[1]);
    info.samplerate = (int)strtol(argv[2], NULL, 10);
    info.channels = 1;
    SNDFILE *file = sf_open(argv[1], SFM_WRITE, &info);
    if (file == NULL) {
        fprintf(stderr, "make_speech: %s: %s\n", argv[1], sf_strerror(NULL));
        return 1;
    }
    int rc = 0;
    for (int i = 3; i < argc && rc == 0; i++)
        rc = write_piece(file, argv[i]);
    if (sf_close(file) != 0 || rc != 0) {
        fprintf(stderr, "make_speech: %s could not be written\n", argv[1]);
        return 1;
    }
    return 0;
}
