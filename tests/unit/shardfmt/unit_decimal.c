/* unit_decimal.c: numbers as text, read in the locale of the test (CTest: one with a decimal
 * comma).
 */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "speechshard/decimal.h"
#include "spsh_test.h"

static void check_value(const char *text, size_t want_bytes, double want)
{
    double value = (double)NAN;
    CHECK_U64(spsh_decimal_scan(text, strlen(text), &value), want_bytes);
    if (want_bytes > 0 && value != want)
        fprintf(stderr, "    %s was read as %a, not %a\n", text, value, want);
    CHECK(want_bytes == 0 ? isnan(value) : value == want);
}

static void test_grammar(void)
{
    check_value("0.5", 3, 0.5);
    check_value("0,5", 1, 0);
    check_value("-12.5e+1,7", 8, -125);
    check_value("+1", 2, 1);
    check_value(".5", 2, 0.5);
    check_value("5.", 2, 5);
    check_value("1e", 1, 1);
    check_value("1e+x", 1, 1);
    check_value("1.2.3", 3, 1.2);
    check_value("0x10", 1, 0);
    static const char *const none[] = {"",   "-",   ".",   "-.e1",  " 1",
                                       "e5", "nan", "inf", "1e999", ",5"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        check_value(none[i], 0, 0);
}

/* Nothing past size_bytes is read, and a long run of digits is rejected as a whole. */
static void test_bounds(void)
{
    double value = 0;
    CHECK_U64(spsh_decimal_scan("12.75", 4, &value), 4);
    CHECK(value == 12.7);
    char digits[500];
    memset(digits, '0', sizeof(digits));
    CHECK_U64(spsh_decimal_scan(digits, 400, &value), 400);
    CHECK(value == 0);
    CHECK_U64(spsh_decimal_scan(digits, 401, &value), 0);
}

/* 17 digits identify a double. The text has a decimal point, in any locale. */
static void test_round_trip(void)
{
    uint64_t bits = 12345;
    for (int i = 0; i < 20000; i++) {
        double value = 0, back = 0;
        char text[64];
        bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        (void)snprintf(text, sizeof(text), "%.16e", value);
        char *comma = strchr(text, ',');
        if (comma != NULL)
            *comma = '.';
        CHECK_U64(spsh_decimal_scan(text, strlen(text), &back), strlen(text));
        CHECK(back == value);
    }
}

static void test_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0",    0                },
        {"4096", 4096             },
        {"1K",   1024             },
        {"512M", 512 << 20        },
        {"1G",   1 << 30          },
        {"1.5G", UINT64_C(3) << 29},
        {"2T",   UINT64_C(2) << 40},
        {"1GiB", 1 << 30          },
        {"1gb",  1 << 30          },
        {"7B",   7                },
    };
    static const char *const bad[] = {"",          "G",    "-1",  "1X",  "1 G",
                                      "0x10",      "1.G.", "1GG", "1e9", "99999999999999999999",
                                      "99999999T", " 1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t bytes = 1;
        CHECK(spsh_size_parse(good[i].text, &bytes));
        CHECK_U64(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t bytes = 77;
        if (spsh_size_parse(bad[i], &bytes))
            fprintf(stderr, "accepted: '%s'\n", bad[i]);
        CHECK(!spsh_size_parse(bad[i], &bytes));
        CHECK_U64(bytes, 77);
    }
}

/* CI installs the locale: without it these tests could not fail. */
static void test_locale_has_a_comma(void)
{
    if (strcmp(localeconv()->decimal_point, ",") != 0)
        printf("no locale with a decimal comma\n");
    CHECK(getenv("SPEECHSHARD_REQUIRE_DATA") == NULL ||
          strcmp(localeconv()->decimal_point, ",") == 0);
}

TEST_MAIN(unit_decimal)
{
    RUN(test_grammar);
    RUN(test_bounds);
    RUN(test_round_trip);
    RUN(test_sizes);
    RUN(test_locale_has_a_comma);
    return TEST_RESULT();
}
