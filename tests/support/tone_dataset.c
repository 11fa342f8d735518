/* tone_dataset.c: see tone_dataset.h. */
#include "tone_dataset.h"

#include <math.h>

#include "copy_dataset.h"
#include "spsh_test.h"

enum { TAG = 7, SAMPLES_MAX = 2 * TONE_RATE_HZ, WINDOW = 400, HOP = 160 };

/* Tones of 80 to 220 ms, drawn from the utterance's number. */
static uint32_t tone_end(uint32_t n, uint32_t number)
{
    uint64_t random = 1000 * (uint64_t)n + number + 1;
    return 1280 + (uint32_t)(test_random(&random) % 2240);
}

static uint32_t tone_of(uint32_t n, uint32_t number)
{
    uint64_t random = 77 + 1000 * (uint64_t)n + number;
    return (uint32_t)(test_random(&random) % TONE_STATES);
}

uint32_t tone_dataset_state(uint32_t n, uint64_t sample)
{
    uint32_t number = 0;
    uint64_t end = tone_end(n, 0);
    while (sample >= end)
        end += tone_end(n, ++number);
    return tone_of(n, number);
}

static uint32_t sample_count(uint32_t n)
{
    uint64_t random = n;
    return 8000 + (uint32_t)(test_random(&random) % 16000);
}

static void make_pcm(uint32_t n, int16_t *pcm, uint32_t count)
{
    uint64_t random = n + 5;
    for (uint32_t s = 0; s < count; s++) {
        const double hz = 300 * pow(1.7, tone_dataset_state(n, s));
        const double noise = (double)(test_random(&random) % 600) - 300;
        pcm[s] = (int16_t)(6000 * sin(2 * 3.14159265358979 * hz * s / TONE_RATE_HZ) + noise);
    }
}

void tone_dataset_make(const char *path, const char *alignments)
{
    static int16_t pcm[SAMPLES_MAX];
    copy_dataset *set = copy_dataset_open(path, TAG);
    FILE *file = fopen(alignments, "wb");
    REQUIRE(file != NULL);
    for (uint32_t n = 0; n < TONE_UTTERANCES; n++) {
        char id[32];
        const copy_audio audio = {.codec = SPSH_CODEC_FLAC,
                                  .bits = 16,
                                  .rate_hz = TONE_RATE_HZ,
                                  .channels = 1,
                                  .pcm = pcm,
                                  .samples = sample_count(n)};
        (void)snprintf(id, sizeof(id), "u%u", n);
        make_pcm(n, pcm, audio.samples);
        const spsh_utterance row = {
            .id = text_of(id),
            .record = copy_dataset_record(set, &audio),
            .samples = audio.samples,
            .domain = text_of(n % 2 == 0 ? "low" : "high"),
            .split = text_of(n < TONE_UTTERANCES - TONE_DEV ? "train" : "dev"),
        };
        copy_dataset_row(set, &row);
        fputs(id, file);
        for (uint64_t t = 0; t * HOP + WINDOW <= audio.samples; t++)
            fprintf(file, " %u", tone_dataset_state(n, t * HOP + WINDOW / 2));
        fputs("\n", file);
    }
    REQUIRE(fclose(file) == 0);
    copy_dataset_close(set, SPSH_DEDUPE_NONE);
}
