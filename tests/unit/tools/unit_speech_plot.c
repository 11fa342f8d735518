/* unit_speech_plot.c: plots of odd utterances: no samples, many channels, odd values and text. Also
 * the colors and the axes. */
#include "plot/speech_plot.h"

#include <math.h>

#include "common/file_names.h"
#include "plot/heat.h"
#include "spsh_test.h"

static spsh_error err = SPSH_ERROR_INIT;

static void require(spsh_status status)
{
    if (status != SPSH_OK)
        fprintf(stderr, "%s: %s\n", spsh_status_name(status), err.message);
    REQUIRE(status == SPSH_OK);
}

static spsh_feature_options features_of(const char *text)
{
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    require(spsh_feature_options_parse(text, &options, &err));
    return options;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* The caller frees it. */
static const char *draw(const spsh__speech_plot *plot, spsh__builder *out)
{
    *out = (spsh__builder){0};
    require(spsh__speech_plot_draw(plot, out, &err));
    const char *text = spsh__builder_text(out);
    REQUIRE(text != NULL);
    return text;
}

static const spsh_utterance nobody = {
    .id = {(const uint8_t *)"nobody", 6}
};

static void test_no_samples(void)
{
    const spsh__feature_rows rows = {features_of("kaldi-fbank"), NULL, 0, 80};
    const spsh__speech speech = {NULL, NULL, 0, 1, 16000};
    const spsh__speech_plot plot = {&nobody, "wav", &speech, &rows, NULL, NULL};
    spsh__builder out;
    const char *text = draw(&plot, &out);
    CHECK(strstr(text, "no samples, 16000 Hz, wav, silent") != NULL);
    CHECK(strstr(text, "no frames") != NULL && strstr(text, "<image") == NULL);
    CHECK(strstr(text, "<path") == NULL);
    spsh__builder_free(&out);
}

static void test_many_channels(void)
{
    static int16_t samples[6 * 100];
    static float values[2 * 13];
    const spsh__feature_rows rows = {features_of("kaldi-mfcc"), values, 2, 13};
    const spsh__speech speech = {samples, NULL, 100, 6, 16000};
    const spsh__speech_plot plot = {&nobody, "flac", &speech, &rows, NULL, NULL};
    spsh__builder out;
    samples[3] = INT16_MIN;
    const char *text = draw(&plot, &out);
    CHECK_U64(count_of(text, "<path class=\"c0\""), 4);
    CHECK(strstr(text, "6 channels, flac, peak 0.0 dB") != NULL);
    spsh__builder_free(&out);
}

/* Values of any size and sign, all equal or not, and masks of all values. */
static void test_odd_values(void)
{
    static const char *const texts[] = {"spectrogram", "kaldi-fbank", "kaldi-mfcc",
                                        "spectrogram,norm=utterance"};
    static float values[3 * 257];
    static const float odd[] = {0, -1, 1e30F, -1e30F, 1e-38F};
    spsh_augment_draw masks = {.speed_percent = 100,
                               .time_masks = 1,
                               .frequency_masks = 1,
                               .time_mask_frames_max = 3,
                               .frequency_mask_bins_max = 300};
    masks.time[0].length = masks.frequency[0].length = UINT64_MAX;
    for (size_t i = 0; i < 2 * sizeof(odd) / sizeof(odd[0]); i++) {
        for (size_t n = 0; n < sizeof(values) / sizeof(values[0]); n++)
            values[n] = i % 2 == 0 ? odd[i / 2] : odd[n % 5];
        for (size_t k = 0; k < 4; k++) {
            const uint32_t dim = k == 0 || k == 3 ? 257 : k == 1 ? 80 : 13;
            const spsh__feature_rows rows = {features_of(texts[k]), values, 3, dim};
            const spsh__speech_plot plot = {&nobody, "features", NULL, &rows, "<masks>", &masks};
            spsh__builder out;
            const char *text = draw(&plot, &out);
            CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
            CHECK(strstr(text, "3 frames, features") != NULL);
            CHECK(strstr(text, "&lt;masks&gt;") != NULL);
            CHECK_U64(count_of(text, "class=\"mask\""), 2);
            spsh__builder_free(&out);
        }
    }
}

/* A tone appears at the position of its bin, on every scale. */
static void test_axes(void)
{
    static const char *const texts[] = {"kaldi-fbank",
                                        "whisper-logmel",
                                        "spectrogram",
                                        "kaldi-fbank,mel_scale=htk,low_hz=100,high_hz=-400",
                                        "kaldi-fbank,energy=raw",
                                        "deepspeech"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const spsh_feature_options options = features_of(texts[i]);
        spsh_featgen *featgen = NULL;
        spsh_featgen_worker *worker = NULL;
        static int16_t tone[16000];
        static float rows[128 * 257];
        require(spsh_featgen_open(&options, NULL, &featgen, &err));
        require(spsh_featgen_worker_open(featgen, &worker, &err));
        for (int step = 0; step < 10; step++) {
            const double hertz = 300 * pow(1.37, step);
            const uint32_t dim = spsh_featgen_dim(featgen);
            const uint32_t first = options.energy != SPSH_ENERGY_NONE;
            for (size_t n = 0; n < 16000; n++)
                tone[n] =
                    (int16_t)lrint(9000 * sin(2 * 3.14159265358979 * hertz * (double)n / 16000));
            const spsh_feature_input input = {.i16 = tone, .sample_count = 16000};
            require(spsh_featgen_compute(worker, &input, rows, &err));
            const spsh__feature_rows all = {options, rows, spsh_featgen_frame_count(featgen, 16000),
                                            dim};
            spsh__feature_image image;
            uint32_t best = first;
            for (uint32_t d = first; d < dim; d++)
                best = rows[50 * dim + d] > rows[50 * dim + best] ? d : best;
            require(spsh__feature_image_make(&all, &image, &err));
            const double height = spsh__feature_image_height_of(&image, hertz) * dim;
            if (fabs(height - best - 0.5) > 1.01)
                fprintf(stderr, "%s: %.0f Hz at %.2f, not at %u\n", texts[i], hertz, height, best);
            CHECK(fabs(height - best - 0.5) <= 1.01);
            spsh__feature_image_free(&image);
        }
        spsh_featgen_worker_close(worker);
        spsh_featgen_close(featgen);
    }
}

/* Text of every script is kept. Markup, control characters, and invalid UTF-8 are not. */
static void test_letters(void)
{
    static const char scripts[] = "\xd0\x9f\xd1\x80 \xce\xb1\xce\xb2 \xd9\x85\xd8\xb1 \xe4\xbd\xa0 "
                                  "<b>&\x01\xff";
    const spsh_utterance utterance = {.id = spsh__bytes_of(scripts),
                                      .text = spsh__bytes_of(scripts)};
    const spsh__feature_rows rows = {features_of("kaldi-fbank"), NULL, 0, 80};
    const spsh__speech speech = {NULL, NULL, 0, 1, 16000};
    const spsh__speech_plot plot = {&utterance, "wav", &speech, &rows, NULL, NULL};
    spsh__builder out;
    const char *text = draw(&plot, &out);
    CHECK_U64(count_of(text, "\xd0\x9f\xd1\x80 \xce\xb1\xce\xb2 \xd9\x85\xd8\xb1 \xe4\xbd\xa0 "
                             "&lt;b&gt;&amp;??"),
              4); /* identifier and transcript, drawn and in title and description */
    CHECK(strstr(text, "sans-serif") != NULL);
    CHECK(strstr(text, "\x01") == NULL && strstr(text, "\xff") == NULL);
    spsh__builder_free(&out);
}

static void test_colors(void)
{
    CHECK_U64(spsh__heat_color(0), 0x000004);
    CHECK_U64(spsh__heat_color(SPSH__HEAT_LEVELS - 1), 0xfcfdbf);
    CHECK_U64(spsh__heat_color(UINT32_MAX), 0xfcfdbf);
    double before = -1;
    for (uint32_t i = 0; i < SPSH__HEAT_LEVELS; i++) {
        const uint32_t color = spsh__heat_color(i);
        const double light = 0.2126 * pow((color >> 16) / 255.0, 2.2) +
                             0.7152 * pow((color >> 8 & 255) / 255.0, 2.2) +
                             0.0722 * pow((color & 255) / 255.0, 2.2);
        CHECK(light > before - 1e-6);
        before = light;
    }
}

TEST_MAIN(unit_speech_plot)
{
    RUN(test_no_samples);
    RUN(test_many_channels);
    RUN(test_odd_values);
    RUN(test_axes);
    RUN(test_letters);
    RUN(test_colors);
    return TEST_RESULT();
}
