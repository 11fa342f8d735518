/* test_speech_plot.c: pictures of what no corpus has: no samples, many channels, odd values; the
 * letters of PNGs, the colours, the axes. */
#include "speech_plot.h"

#include <math.h>

#include "bitmap_font.h"
#include "names.h"
#include "png_out.h"
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
    spsh_feature_options options;
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
static const char *draw(const spsh__speech_plot *plot, spsh__canvas_kind kind, spsh__builder *out)
{
    *out = (spsh__builder){0};
    require(spsh__speech_plot_draw(plot, kind, out, &err));
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
    const char *text = draw(&plot, SPSH__CANVAS_SVG, &out);
    CHECK(strstr(text, "no samples, 16000 Hz, wav, silent") != NULL);
    CHECK(strstr(text, "no frames") != NULL && strstr(text, "<image") == NULL);
    CHECK(strstr(text, "<path") == NULL);
    spsh__builder_free(&out);
    text = draw(&plot, SPSH__CANVAS_PNG, &out);
    CHECK(memcmp(text, "\x89PNG", 4) == 0);
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
    const char *text = draw(&plot, SPSH__CANVAS_SVG, &out);
    CHECK_U64(count_of(text, "<path class=\"c0\""), 4);
    CHECK(strstr(text, "6 channels, flac, peak 0.0 dB") != NULL);
    spsh__builder_free(&out);
}

/* Values of any size and sign, all equal or not, and masks of everything. */
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
            const char *text = draw(&plot, SPSH__CANVAS_SVG, &out);
            CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
            CHECK(strstr(text, "3 frames, features") != NULL);
            CHECK(strstr(text, "&lt;masks&gt;") != NULL);
            CHECK_U64(count_of(text, "class=\"mask\""), 2);
            spsh__builder_free(&out);
        }
    }
}

/* A tone lies where its bin is, on every scale. */
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

static size_t cells_of(const char *text, spsh__glyph cells[8])
{
    memset(cells, 0, 8 * sizeof(*cells));
    return spsh__font_cells(spsh__bytes_of(text), cells, 8);
}

static void test_letters(void)
{
    spsh__glyph a[8], b[8];
    static const uint8_t letter[SPSH__FONT_HEIGHT] = {0, 0, 14, 17, 17, 17, 31, 17, 17, 0, 0};
    CHECK_U64(cells_of("A", a), 1);
    CHECK(memcmp(a[0].rows, letter, sizeof(letter)) == 0);
    CHECK_U64(cells_of("\xc3\xa9", a), 1); /* e with an accent, in one and in two code points */
    CHECK_U64(cells_of("e\xcc\x81", b), 1);
    CHECK(memcmp(a, b, sizeof(a)) == 0);
    CHECK_U64(cells_of("e", b), 1);
    CHECK(memcmp(a, b, sizeof(a)) != 0);
    CHECK_U64(cells_of("\xcc\x81", a), 0); /* upon nothing */
    CHECK_U64(cells_of("Stra\xc3\x9f"
                       "e",
                       a),
              7);
    CHECK_U64(cells_of("\xe4\xbd\xa0\xe5\xa5\xbd", a), 2);
    CHECK(memcmp(&a[0], &a[1], sizeof(a[0])) == 0);         /* boxes */
    CHECK_U64(cells_of("\xe2\x81\xa8x\xe2\x81\xa9", a), 1); /* marks of direction */
    CHECK_U64(cells_of("\xff\xc3", a), 2);
    CHECK_U64(cells_of("123456789", a), 9); /* more than there is room for */
    for (int c = '!'; c <= '~'; c++) {
        const char text[2] = {(char)c, '\0'};
        CHECK_U64(cells_of(text, a), 1);
        for (int other = '!'; other < c; other++) {
            const char text_b[2] = {(char)other, '\0'};
            CHECK_U64(cells_of(text_b, b), 1);
            CHECK(memcmp(a, b, sizeof(a)) != 0);
        }
    }
}

static void test_colors(void)
{
    CHECK_U64(spsh__heat_color(0), 0x000004);
    CHECK_U64(spsh__heat_color(SPSH__HEAT_LEVELS - 1), 0xfcfdbf);
    CHECK_U64(spsh__heat_color(UINT32_MAX), 0xfcfdbf);
}

static void test_bad_png(void)
{
    const uint32_t color = 0;
    const uint8_t pixel = 0;
    spsh__builder out = {0};
    const spsh__png pngs[] = {
        {0, 1, &pixel, &color, 1,   NULL, NULL},
        {1, 0, &pixel, &color, 1,   NULL, NULL},
        {1, 1, &pixel, &color, 0,   NULL, NULL},
        {1, 1, &pixel, &color, 257, NULL, NULL},
    };
    for (size_t i = 0; i < 4; i++)
        CHECK_I64(spsh__png_write(&pngs[i], &out, &err), SPSH_E_INVALID_ARG);
    CHECK_U64(out.size_bytes, 0);
    /* libpng's own limit on sides: its error does not end the process. */
    const spsh__png wide = {UINT32_MAX, 1, &pixel, &color, 1, NULL, NULL};
    CHECK(spsh__png_write(&wide, &out, &err) != SPSH_OK);
    spsh__builder_free(&out);
}

int main(void)
{
    RUN(test_no_samples);
    RUN(test_many_channels);
    RUN(test_odd_values);
    RUN(test_axes);
    RUN(test_letters);
    RUN(test_colors);
    RUN(test_bad_png);
    return TEST_RESULT();
}
