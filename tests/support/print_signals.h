/* print_signals.h: signals for tests of fingerprints, made with integers only: the same everywhere.
 */
#ifndef PRINT_SIGNALS_H
#define PRINT_SIGNALS_H

#include <stddef.h>
#include <stdint.h>

typedef enum signal_kind {
    SIGNAL_SILENCE,
    SIGNAL_TONE,   /* 1 kHz */
    SIGNAL_DTMF,   /* 770 and 1336 Hz: "5" */
    SIGNAL_CHIRP,  /* 200 to 3,800 Hz in a second, again and again */
    SIGNAL_NOISE,  /* white, loud */
    SIGNAL_HISS,   /* -1, 0 and 1 */
    SIGNAL_SPEECH, /* pulses of a wandering pitch through wandering formants, in syllables */
    SIGNAL_CLIPPED /* the speech, 16 times too loud */
} signal_kind;

/* Writes count samples; another seed is another noise, or other syllables. */
void make_signal(signal_kind kind, uint32_t rate_hz, uint64_t seed, int16_t *samples, size_t count);

#endif
