/* unit_feature_options.c: presets, options as text, and rejected options. */
#include <float.h>
#include <math.h>

#include "options/decimal_text.h"
#include "speechshard/decimal.h"
#include "speechshard/featgen.h"
#include "spsh_test.h"

static spsh_feature_options parsed(const char *text)
{
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    spsh_error err = SPSH_ERROR_INIT;
    if (spsh_feature_options_parse(text, &options, &err) != SPSH_OK)
        fprintf(stderr, "%s: %s\n", text, err.message);
    REQUIRE(err.status == SPSH_OK);
    return options;
}

static void check_refused(const char *text, spsh_status status, const char *part)
{
    spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
    options.mel_count = 77;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh_feature_options_parse(text, &options, &err), status);
    CHECK_I64(err.status, status);
    CHECK_U64(options.mel_count, 77);
    if (strstr(err.message, part) == NULL)
        fprintf(stderr, "    %s: '%s' has no '%s'\n", text, err.message, part);
    CHECK(strstr(err.message, part) != NULL);
}

static void test_presets(void)
{
    uint32_t count = 0;
    for (; spsh_feature_preset_name(count) != NULL; count++) {
        spsh_feature_options options = SPSH_FEATURE_OPTIONS_INIT;
        char text[SPSH_FEATURE_TEXT_BYTES_MAX];
        char again[SPSH_FEATURE_TEXT_BYTES_MAX];
        REQUIRE(spsh_feature_options_preset(spsh_feature_preset_name(count), &options, NULL) ==
                SPSH_OK);
        CHECK_I64(spsh_feature_options_check(&options, NULL), SPSH_OK);
        const size_t size = spsh_feature_options_text(&options, text, sizeof text);
        CHECK(size < sizeof text && size == strlen(text));
        const spsh_feature_options back = parsed(text);
        CHECK_U64(spsh_feature_options_text(&back, again, sizeof again), size);
        CHECK_STR(again, text);
        CHECK(back.preemphasis == options.preemphasis && back.log_floor == options.log_floor);
    }
    CHECK_U64(count, 5);
    CHECK_U64(parsed("kaldi-fbank").mel_count, 80);
    CHECK_U64(parsed("kaldi-mfcc").cepstrum_count, 13);
    CHECK_U64(parsed("whisper-logmel,mel_count=128").mel_count, 128);
}

static void test_text(void)
{
    const spsh_feature_options o = parsed("kaldi-fbank, mel_count = 40,edges=center-zeros,"
                                          "remove_dc=off,high_hz=-400.5,norm=mean-variance,"
                                          "log_floor=1e-10");
    CHECK_U64(o.mel_count, 40);
    CHECK_U64(o.edges, SPSH_EDGES_CENTER_ZEROS);
    CHECK(!o.remove_dc);
    CHECK(o.high_hz == -400.5F && o.log_floor == 1e-10F);
    CHECK_U64(o.norm, SPSH_NORM_MEAN_VARIANCE);
    CHECK_U64(parsed("mel_count=23").sample_rate_hz, 16000); /* without a preset: kaldi-fbank */
    CHECK_U64(parsed("deepspeech").window, SPSH_WINDOW_HAMMING_PERIODIC);

    char text[8];
    const size_t size = spsh_feature_options_text(&o, text, sizeof text);
    CHECK(size > 300 && size < SPSH_FEATURE_TEXT_BYTES_MAX);
    CHECK_STR(text, "kind=me");
    CHECK_U64(spsh_feature_options_text(&o, NULL, 0), size);
}

static void test_refused(void)
{
    check_refused("kaldi-fbnak", SPSH_E_NOT_FOUND, "did you mean 'kaldi-fbank'");
    check_refused("zzzzzzzzzzzz", SPSH_E_NOT_FOUND, "unknown preset");
    check_refused("", SPSH_E_NOT_FOUND, "unknown preset");
    check_refused("kaldi-fbank,mel_cuont=3", SPSH_E_NOT_FOUND, "did you mean 'mel_count'");
    check_refused("kaldi-fbank,window=hamning", SPSH_E_NOT_FOUND, "did you mean 'hamming'");
    check_refused("kaldi-fbank,mel_count", SPSH_E_SYNTAX, "is not FIELD=VALUE");
    check_refused("kaldi-fbank,,mel_count=3", SPSH_E_SYNTAX, "is not FIELD=VALUE");
    check_refused("kaldi-fbank,mel_count=", SPSH_E_SYNTAX, "is not a number");
    check_refused("kaldi-fbank,mel_count=4x", SPSH_E_SYNTAX, "is not a number");
    check_refused("kaldi-fbank,mel_count=4.5", SPSH_E_SYNTAX, "is not a whole number");
    check_refused("kaldi-fbank,remove_dc=yes", SPSH_E_SYNTAX, "is not on or off");
    check_refused("kaldi-fbank,mel_count=0", SPSH_E_INVALID_ARG, "not in the range 1 to 1024");
    check_refused("kaldi-fbank,mel_count=4294967297", SPSH_E_INVALID_ARG,
                  "not in the range 1 to 1024");
    check_refused("kaldi-fbank,preemphasis=1.01", SPSH_E_INVALID_ARG, "not in the range 0 to 1");
    check_refused("kaldi-fbank,log_floor=0", SPSH_E_INVALID_ARG, "not in the range 1e-30");
    check_refused("kaldi-fbank,window_us=100", SPSH_E_INVALID_ARG, "has 1 samples");
    check_refused("kaldi-fbank,sample_rate_hz=200000,window_us=1000000", SPSH_E_INVALID_ARG,
                  "has 200000 samples");
    check_refused("kaldi-fbank,hop_us=50", SPSH_E_INVALID_ARG, "less than a sample");
    check_refused("kaldi-fbank,high_hz=8001", SPSH_E_INVALID_ARG, "below 8000 Hz");
    check_refused("kaldi-fbank,low_hz=8000", SPSH_E_INVALID_ARG, "do not fit");
    check_refused("kaldi-mfcc,cepstrum_count=24", SPSH_E_INVALID_ARG, "more than mel_count 23");
}

static void test_struct_is_checked(void)
{
    spsh_feature_options options = parsed("kaldi-fbank");
    options.preemphasis = (float)NAN;
    CHECK_I64(spsh_feature_options_check(&options, NULL), SPSH_E_INVALID_ARG);
    options = parsed("kaldi-fbank");
    options.window = (spsh_feature_window)99;
    CHECK_I64(spsh_feature_options_check(&options, NULL), SPSH_E_INVALID_ARG);
    options = parsed("kaldi-fbank");
    options.struct_size = 8;
    CHECK_I64(spsh_feature_options_check(&options, NULL), SPSH_E_INVALID_ARG);
    options = parsed("spectrogram"); /* unused options are not checked against others */
    options.cepstrum_count = 1000;
    CHECK_I64(spsh_feature_options_check(&options, NULL), SPSH_OK);
}

static void check_decimal(float value)
{
    char text[SPSH__DECIMAL_BYTES_MAX];
    double back = 0;
    const size_t size = spsh__decimal_write(value, text);
    CHECK_U64(size, strlen(text));
    CHECK(size < sizeof text);
    if (spsh_decimal_scan(text, size, &back) != size || (float)back != value) {
        fprintf(stderr, "    %a was written as %s and read as %a\n", (double)value, text, back);
        CHECK(false);
    }
}

static void check_written(float value, const char *want)
{
    char text[SPSH__DECIMAL_BYTES_MAX];
    (void)spsh__decimal_write(value, text);
    CHECK_STR(text, want);
}

static void test_decimals(void)
{
    check_written(0, "0");
    check_written(0.97F, "0.97");
    check_written(-400.5F, "-400.5");
    check_written(16000, "16000");
    check_written(1e-10F, "1e-10");
    check_written(FLT_EPSILON, "1.1920929e-7");
    check_written(999999.94F, "999999.94");
    check_written(0.00001F, "0.00001");
    check_written(1e30F, "1e30");
    check_decimal(FLT_MAX);
    check_decimal(FLT_MIN);
    check_decimal(-0x1p-149F);
    uint32_t bits = 12345;
    for (int i = 0; i < 100000; i++) {
        float value = 0;
        bits = bits * 1664525U + 1013904223U;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            check_decimal(value);
    }
}

TEST_MAIN(unit_feature_options)
{
    RUN(test_presets);
    RUN(test_text);
    RUN(test_refused);
    RUN(test_struct_is_checked);
    RUN(test_decimals);
    return TEST_RESULT();
}
