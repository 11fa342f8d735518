/* bench_augment.c: how fast samples are augmented in memory, by one thread, for each kind and
 * instruction set.
 *
 *     bench_augment [SECONDS-OF-UTTERANCE] > results/augment.json
 *
 * Utterances of generated speech-like noise at 16 kHz (15 s by default), a noise of 30 s,
 * responses of 0.1, 0.5 and 1 s. A round measures each case once, so that a disturbance affects
 * all. A figure is the median of the thread's processor time in ROUNDS rounds. `realtime`: seconds
 * of audio per second.
 */
#include <math.h>

#include "augment/augmenter.h"
#include "bench_kit.h"

enum { ROUNDS = 7, RATE = 16000, CASES_MAX = 64, NOISE_COUNT = 30 * RATE, ROOM_MAX = RATE };

/* Case of one line of results. */
typedef struct bench_case {
    const char *kind;
    const spsh__augment_isa *isa;
    spsh_augment_draw draw;
    uint64_t room_count;
    double realtime[ROUNDS];
} bench_case;

static const char *const isa_names[] = {"avx2", "sse2", "neon", "scalar"};
static bench_case cases[CASES_MAX];
static size_t case_count;

static void add_cases(const char *kind, spsh_augment_draw draw, uint64_t room_count)
{
    for (size_t i = 0; i < sizeof(isa_names) / sizeof(isa_names[0]); i++) {
        const spsh__augment_isa *isa = spsh__augment_isa_named(isa_names[i]);
        if (isa == NULL)
            continue;
        must(case_count < CASES_MAX, "too many cases");
        cases[case_count++] =
            (bench_case){.kind = kind, .isa = isa, .draw = draw, .room_count = room_count};
    }
}

/* Noise through a low-pass filter. A response fades out. */
static int16_t *make_sound(uint64_t count, uint64_t seed, double fade)
{
    int16_t *samples = calloc(count, sizeof(*samples));
    must(samples != NULL, "memory");
    double low = 0;
    double level = 20000;
    for (uint64_t i = 0; i < count; i++) {
        low = 0.7 * low + 0.3 * ((double)(next_random(&seed) >> 11) * 0x1p-52 - 1);
        samples[i] = (int16_t)(level * low);
        level *= fade;
    }
    return samples;
}

static double measure(spsh_augmenter *augmenter, const bench_case *one,
                      const spsh_augment_input *input, int16_t *out)
{
    const double begin = cpu_seconds();
    double spent = 0;
    uint64_t utterances = 0;
    augmenter->isa = one->isa;
    for (; spent < 0.05; utterances++) {
        check_ok(spsh_augment_samples(augmenter, &one->draw, input, out, &failure));
        spent = cpu_seconds() - begin;
    }
    return (double)(input->sample_count * utterances) / RATE / spent;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], NULL) : 15;
    must(seconds > 0 && seconds <= 3600, "usage: bench_augment [SECONDS-OF-UTTERANCE]");
    const uint64_t count = (uint64_t)(seconds * RATE);
    spsh_augment_options options = SPSH_AUGMENT_OPTIONS_INIT;
    spsh_augmenter *augmenter = NULL;
    check_ok(spsh_augment_options_parse("speeds=0.9:0.97:1.1", &options, &failure));
    check_ok(spsh_augmenter_open(&options, count, ROOM_MAX, NULL, &augmenter, &failure));
    spsh_augment_input input = {
        .samples = make_sound(count, 1, 1),
        .sample_count = count,
        .noise = make_sound(NOISE_COUNT, 2, 1),
        .noise_count = NOISE_COUNT,
        .noise_start = NOISE_COUNT / 2,
        .room = make_sound(ROOM_MAX, 3, 0.9995),
    };
    int16_t *out = calloc(2 * count, sizeof(*out));
    must(out != NULL, "memory");
    add_cases("speed 0.9", (spsh_augment_draw){.speed_percent = 90}, 0);
    add_cases("speed 0.97", (spsh_augment_draw){.speed_percent = 97}, 0);
    add_cases("speed 1.1", (spsh_augment_draw){.speed_percent = 110}, 0);
    const spsh_augment_draw room = {.speed_percent = 100, .has_room = true};
    add_cases("room of 0.1 s", room, RATE / 10);
    add_cases("room of 0.5 s", room, RATE / 2);
    add_cases("room of 1 s", room, RATE);
    add_cases("noise", (spsh_augment_draw){.speed_percent = 100, .has_noise = true, .snr_db = 10},
              0);
    add_cases("gain", (spsh_augment_draw){.speed_percent = 100, .has_gain = true, .gain_db = -3},
              0);
    add_cases("all, room of 0.5 s",
              (spsh_augment_draw){.speed_percent = 90,
                                  .has_room = true,
                                  .has_noise = true,
                                  .has_gain = true,
                                  .snr_db = 10,
                                  .gain_db = -3},
              RATE / 2);
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < case_count; i++) {
            input.room_count = cases[i].room_count;
            cases[i].realtime[round] = measure(augmenter, &cases[i], &input, out);
        }
    }
    printf("{\"utterance_seconds\": %g, \"rate_hz\": %d, \"results\": [\n", seconds, RATE);
    for (size_t i = 0; i < case_count; i++) {
        const figure f = figure_of(cases[i].realtime, ROUNDS);
        printf("  {\"kind\": \"%s\", \"isa\": \"%s\", \"realtime\": %.0f, \"least\": %.0f, "
               "\"most\": %.0f}%s\n",
               cases[i].kind, cases[i].isa->name, f.median, f.least, f.most,
               i + 1 < case_count ? "," : "");
    }
    printf("]}\n");
    spsh_augmenter_close(augmenter);
    return 0;
}
