/* dump_fingerprint.c: fingerprints of generated signals, as text.
 *
 *     dump_fingerprint             what fingerprint.txt holds
 *     dump_fingerprint --samples   with the samples, which spsh_fingerprint.py starts from
 *
 * A line for each signal (name, rate, samples), then `w` word level active, `k` bits frame weak
 * places.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fingerprint/fingerprint.h"
#include "print_signals.h"

static const struct {
    const char *name;
    signal_kind kind;
    uint32_t rate_hz;
    uint32_t samples;
} signals[] = {
    {"chirp",   SIGNAL_CHIRP,   8000,  12000},
    {"chirp",   SIGNAL_CHIRP,   48000, 72000},
    {"noise",   SIGNAL_NOISE,   44100, 66150},
    {"noise",   SIGNAL_NOISE,   8000,  12001},
    {"hiss",    SIGNAL_HISS,    16000, 16000},
    {"speech",  SIGNAL_SPEECH,  16000, 32000},
    {"speech",  SIGNAL_SPEECH,  22050, 44100},
    {"speech",  SIGNAL_SPEECH,  11025, 16537},
    {"clipped", SIGNAL_CLIPPED, 12345, 20000},
    {"silence", SIGNAL_SILENCE, 16000, 8000 },
    {"tone",    SIGNAL_TONE,    24000, 24000},
    {"dtmf",    SIGNAL_DTMF,    32000, 32000},
    {"speech",  SIGNAL_SPEECH,  8000,  2048 },
    {"speech",  SIGNAL_SPEECH,  96000, 24567},
    {"speech",  SIGNAL_SPEECH,  8000,  2047 },
};

static void print_print(const spsh__print *print)
{
    for (size_t i = 0; i < print->frame_count; i++)
        printf("w %08" PRIx32 " %u %d\n", print->frames[i].word, print->frames[i].level,
               print->frames[i].is_active);
    for (size_t i = 0; i < print->key_count; i++) {
        const spsh__print_key *key = &print->keys[i];
        printf("k %012" PRIx64 " %" PRIu64 " %u %u %u\n", key->bits, key->frame, key->weak[0],
               key->weak[1], key->weak[2]);
    }
}

int main(int argc, char **argv)
{
    const int with_samples = argc > 1 && strcmp(argv[1], "--samples") == 0;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        const size_t count = signals[i].samples;
        spsh__print print = {0};
        spsh__fingerprint *maker = NULL;
        spsh_error err = SPSH_ERROR_INIT;
        int16_t *samples = malloc(count * sizeof(*samples));
        if (samples == NULL)
            return 1;
        make_signal(signals[i].kind, signals[i].rate_hz, i + 1, samples, count);
        spsh_status rc =
            spsh__fingerprint_new(signals[i].rate_hz, spsh__print_collect(&print), &maker, &err);
        if (rc == SPSH_OK)
            rc = spsh__fingerprint_push(maker, samples, count, &err);
        if (rc == SPSH_OK)
            rc = spsh__fingerprint_finish(maker, &err);
        printf("signal %s %" PRIu32 " %zu\n", signals[i].name, signals[i].rate_hz, count);
        for (size_t k = 0; with_samples && k < count; k++)
            printf("%d%c", samples[k], k + 1 == count ? '\n' : ' ');
        print_print(&print);
        spsh__print_free(&print);
        spsh__fingerprint_free(maker);
        free(samples);
        if (rc != SPSH_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
    }
    return 0;
}
