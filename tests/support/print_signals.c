/* print_signals.c: oscillators have a 32-bit phase. Formants are two-pole filters in fixed
 * point. */
#include "print_signals.h"

#include "fingerprint/cosine.h"

enum { FORMANTS = 3, POLE_BITS = 14, SYLLABLE_MS = 180 };

static uint32_t next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* 2^32 is a turn. */
static uint32_t turns_per_sample(uint32_t millihertz, uint32_t rate_hz)
{
    return (uint32_t)(((uint64_t)millihertz << 32) / ((uint64_t)rate_hz * 1000));
}

static int32_t wave(uint32_t turn, int32_t amplitude)
{
    return (int32_t)(((int64_t)spsh__cosine(turn >> 21) * amplitude) >> 30);
}

static int16_t clip(int64_t value)
{
    return (int16_t)(value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value);
}

static void make_speech(uint32_t rate_hz, uint64_t seed, int32_t gain, int16_t *samples,
                        size_t count)
{
    int64_t past[FORMANTS][2] = {{0}};
    uint32_t hertz[FORMANTS] = {500, 1500, 2500};
    uint32_t pitch = 120;
    uint32_t turn = 0;
    const size_t syllable = (size_t)rate_hz * SYLLABLE_MS / 1000;
    uint32_t voiced = 1;

    for (size_t i = 0; i < count; i++) {
        const size_t place = i % syllable;
        if (place == 0) {
            hertz[0] = 300 + next_number(&seed) % 500;
            hertz[1] = 1000 + next_number(&seed) % 1200;
            hertz[2] = 2300 + next_number(&seed) % 900;
            pitch = 90 + next_number(&seed) % 120;
            voiced = next_number(&seed) % 4;
        }
        const uint32_t before = turn;
        turn += turns_per_sample((pitch * 1000) + (uint32_t)(place * 20000 / syllable), rate_hz);
        int32_t drive = (int32_t)(next_number(&seed) % 401) - 200;
        if (voiced != 0 && turn < before)
            drive += 6000;
        drive = (int32_t)((int64_t)drive * (int64_t)(syllable - place) / (int64_t)syllable);
        int64_t sum = 0;
        for (uint32_t f = 0; f < FORMANTS; f++) {
            /* Poles of radius 1 - 1/32 (at 8 kHz) at the formant. */
            const int64_t radius = (1 << POLE_BITS) - ((1 << POLE_BITS) / 32) * 8000 / rate_hz;
            const uint32_t angle = turns_per_sample(hertz[f] * 1000, rate_hz);
            const int64_t middle = (2 * radius * spsh__cosine(angle >> 21)) >> 30;
            const int64_t value = drive + ((middle * past[f][0]) >> POLE_BITS) -
                                  ((radius * radius * past[f][1]) >> (2 * POLE_BITS));
            past[f][1] = past[f][0];
            past[f][0] = value;
            sum += value / (1 << f);
        }
        samples[i] = clip(sum * gain / 8);
    }
}

void make_signal(signal_kind kind, uint32_t rate_hz, uint64_t seed, int16_t *samples, size_t count)
{
    uint32_t turn = 0;
    uint32_t other = 0;
    if (kind == SIGNAL_SPEECH || kind == SIGNAL_CLIPPED) {
        make_speech(rate_hz, seed, kind == SIGNAL_SPEECH ? 4 : 64, samples, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t value = 0;
        if (kind == SIGNAL_TONE) {
            value = wave(turn, 16000);
            turn += turns_per_sample(1000000, rate_hz);
        } else if (kind == SIGNAL_DTMF) {
            value = wave(turn, 9000) + wave(other, 9000);
            turn += turns_per_sample(770000, rate_hz);
            other += turns_per_sample(1336000, rate_hz);
        } else if (kind == SIGNAL_CHIRP) {
            value = wave(turn, 12000);
            turn += turns_per_sample(
                200000 + (uint32_t)((uint64_t)(i % rate_hz) * 3600000 / rate_hz), rate_hz);
        } else if (kind == SIGNAL_NOISE) {
            value = (int64_t)(next_number(&seed) % 40001) - 20000;
        } else if (kind == SIGNAL_HISS) {
            value = (int64_t)(next_number(&seed) % 3) - 1;
        }
        samples[i] = clip(value);
    }
}
