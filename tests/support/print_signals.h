/* print_signals.h: signals for tests of fingerprints, made from integers, so equal everywhere.
 */
#ifndef PRINT_SIGNALS_H
#define PRINT_SIGNALS_H

#include <stddef.h>
#include <stdint.h>

typedef enum signal_kind {
    SIGNAL_SILENCE,
    SIGNAL_TONE,   /* 1 kHz */
    SIGNAL_DTMF,   /* 770 and 1336 Hz: "5" */
    SIGNAL_CHIRP,  /* sweeps from 200 to 3,800 Hz, one per second */
    SIGNAL_NOISE,  /* white, loud */
    SIGNAL_HISS,   /* -1, 0 and 1 */
    SIGNAL_SPEECH, /* pulses of a wandering pitch through wandering formants, in syllables */
    SIGNAL_CLIPPED /* the speech, 16 times too loud */
} signal_kind;

/* Writes `count` samples. The seed selects the noise or the syllables. */
void make_signal(signal_kind kind, uint32_t rate_hz, uint64_t seed, int16_t *samples, size_t count);

#endif
