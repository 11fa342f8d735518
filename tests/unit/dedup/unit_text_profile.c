/* unit_text_profile.c: normalized transcripts in every script, and hostile texts. */
#include <utf8proc.h>

#include "common/file_names.h"
#include "speechshard/inside.h"
#include "spsh_test.h"
#include "text/text_profile.h"

static spsh__builder out;

static const char *normal(spsh_text_profile profile, const char *text)
{
    spsh_error err = SPSH_ERROR_INIT;
    REQUIRE(spsh__text_normalise(profile, spsh__bytes_of(text), &out, &err) == SPSH_OK);
    return spsh__builder_text(&out);
}

#define CHECK_DEFAULT(text_, want_) CHECK_STR(normal(SPSH_TEXT_PROFILE_DEFAULT, text_), want_)
#define CHECK_CJK(text_, want_)     CHECK_STR(normal(SPSH_TEXT_PROFILE_CJK, text_), want_)
#define CHECK_MARKS(text_, want_)   CHECK_STR(normal(SPSH_TEXT_PROFILE_MARKS, text_), want_)

static void test_names(void)
{
    CHECK_STR(spsh__text_profile_name(SPSH_TEXT_PROFILE_DEFAULT), "default-1");
    CHECK_STR(spsh__text_profile_name(SPSH_TEXT_PROFILE_CJK), "cjk-1");
    CHECK_STR(spsh__text_profile_name(SPSH_TEXT_PROFILE_MARKS), "marks-1");
}

static void test_plain(void)
{
    CHECK_DEFAULT("Hello, World!", "hello world");
    CHECK_DEFAULT("  He said:\t\"well-known\"\n(twice)... 3.5 % ", "he said well known twice 3 5");
    CHECK_DEFAULT("1999 - 2001", "1999 2001");
    CHECK_DEFAULT("", "");
    CHECK_DEFAULT(" .,;!? \xe2\x80\xa6 \xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd ", "");
}

static void test_apostrophes_and_dashes(void)
{
    CHECK_DEFAULT("don't DON\xe2\x80\x99T don\xca\xbct don`t don\xc2\xb4t",
                  "don't don't don't don't don't");
    CHECK_DEFAULT("'tis the dogs' rock 'n' roll '' ' o''clock", "tis the dogs rock n roll oclock");
    CHECK_DEFAULT("well\xe2\x80\x90known well\xe2\x80\x93known well\xe2\x88\x92known",
                  "well known well known well known");
}

static void test_compatibility_and_case(void)
{
    /* Full width, with an ideographic space; ligature, sharp s; superscript, fraction, Roman. */
    CHECK_DEFAULT("\xef\xbc\xa6\xef\xbd\x95\xe3\x80\x80\xef\xbc\x91", "fu 1");
    CHECK_DEFAULT("\xef\xac\x81ne STRA\xc3\x9f\x45", "fine strasse");
    CHECK_DEFAULT("m\xc2\xb2 \xc2\xbd \xe2\x85\xa7", "m2 1 2 viii");
    /* e with an acute, composed and decomposed. Two marks in both orders. */
    CHECK_DEFAULT("\xc3\x89 e\xcc\x81", "\xc3\xa9 \xc3\xa9");
    CHECK_DEFAULT("a\xcc\xa3\xcc\x81 a\xcc\x81\xcc\xa3",
                  "\xe1\xba\xa1\xcc\x81 \xe1\xba\xa1\xcc\x81");
    /* Turkish: the dotted capital becomes i, and the dotless small letter does not change. */
    CHECK_DEFAULT("\xc4\xb0stanbul istanbul Istanbul", "istanbul istanbul istanbul");
    CHECK_DEFAULT("\xc4\xb1", "\xc4\xb1");
    /* Georgian: both forms of the letter an become the same small letter. */
    CHECK_DEFAULT("\xe1\xb2\x90 \xe1\x83\x90", "\xe1\x83\x90 \xe1\x83\x90");
    /* Final sigma. */
    CHECK_DEFAULT("\xce\xa3\xcf\x82\xcf\x83", "\xcf\x83\xcf\x83\xcf\x83");
}

static void test_what_cannot_be_seen(void)
{
    /* Byte order mark, joiners, direction marks and isolates, soft hyphen, variation selector. */
    CHECK_DEFAULT("\xef\xbb\xbf"
                  "a\xe2\x80\x8d"
                  "b \xe2\x80\x8f\xe2\x81\xa7"
                  "c\xe2\x81\xa9 d\xc2\xad"
                  "e f\xef\xb8\x8f",
                  "ab c de f");
    /* No-break space, line separator, next line, NUL. */
    const uint8_t spaces[] = {'a', 0xc2, 0xa0, 'b', 0xe2, 0x80, 0xa8, 'c', 0xc2, 0x85, 'd', 0, 'e'};
    CHECK(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, (spsh_bytes){spaces, sizeof(spaces)},
                               &out, NULL) == SPSH_OK);
    CHECK_STR(spsh__builder_text(&out), "a b c d e");
    /* A mark without a base, and a mark after an apostrophe. */
    CHECK_DEFAULT("\xcc\x81"
                  "a '\xcc\x81"
                  "b",
                  "a b");
}

static void test_scripts(void)
{
    /* Arabic with short vowels, with tatweel, with hamza. */
    const char *arabic = "\xd9\x83\xd9\x8e\xd8\xaa\xd9\x80\xd9\x8e\xd8\xa8\xd9\x8e \xd8\xa3";
    CHECK_DEFAULT(arabic, "\xd9\x83\xd9\x8e\xd8\xaa\xd9\x80\xd9\x8e\xd8\xa8\xd9\x8e \xd8\xa3");
    CHECK_MARKS(arabic, "\xd9\x83\xd8\xaa\xd8\xa8 \xd8\xa7");
    /* Hebrew with a point. */
    CHECK_MARKS("\xd7\xa9\xd7\x81", "\xd7\xa9");
    CHECK_MARKS("\xc3\xa9t\xc3\xa9 na\xc3\xafve \xd0\x99", "ete naive \xd0\xb8");
    /* Vowel signs of Devanagari and Thai, and the voiced sound mark, are not diacritics. */
    CHECK_MARKS("\xe0\xa4\x95\xe0\xa4\xbf \xe0\xb8\x81\xe0\xb8\xb3",
                "\xe0\xa4\x95\xe0\xa4\xbf \xe0\xb8\x81\xe0\xb9\x8d\xe0\xb8\xb2");
    CHECK_MARKS("\xe3\x81\x8c", "\xe3\x81\x8c");
    /* Hangul: jamo are composed to syllables. */
    CHECK_DEFAULT("\xed\x95\x9c \xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c \xed\x95\x9c");
}

static void test_ideographs_are_words(void)
{
    CHECK_DEFAULT("\xe4\xbb\x8a\xe6\x97\xa5\xe3\x80\x82 ok", "\xe4\xbb\x8a\xe6\x97\xa5 ok");
    CHECK_CJK("\xe4\xbb\x8a\xe6\x97\xa5ok\xe3\x81\x8c'1",
              "\xe4\xbb\x8a \xe6\x97\xa5 ok \xe3\x81\x8c 1");
    /* Kana decomposed from its mark; ideographs of four bytes; Hangul, which uses spaces. */
    CHECK_CJK("\xe3\x81\x8b\xe3\x82\x99\xe3\x81\x8b", "\xe3\x81\x8c \xe3\x81\x8b");
    CHECK_CJK("\xf0\xa0\x80\x80\xf0\xa0\x80\x80", "\xf0\xa0\x80\x80 \xf0\xa0\x80\x80");
    CHECK_CJK("\xed\x95\x9c\xea\xb5\xad", "\xed\x95\x9c\xea\xb5\xad");
}

/* Each letter, with and without marks after it, equals its canonical parts. */
static void test_short_cuts_change_nothing(void)
{
    static const int32_t tails[][2] = {
        {0,      0    },
        {0x301,  0    },
        {0x323,  0    },
        {0x307,  0x323},
        {0x308,  0x301},
        {0x3099, 0    },
        {0x11a8, 0    },
        {'x',    0x654}
    };
    spsh__builder other = {0};
    unsigned different = 0;
    for (int32_t point = 0xa0; point < 0x30000; point++) {
        const size_t tail = (size_t)point % 8;
        const utf8proc_option_t nfd = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
        uint8_t whole[16], *parts = NULL;
        size_t size = 0;
        if (point >= 0xd800 && point < 0xe000)
            continue;
        size += (size_t)utf8proc_encode_char(point, whole);
        for (size_t i = 0; i < 2 && tails[tail][i] != 0; i++)
            size += (size_t)utf8proc_encode_char(tails[tail][i], whole + size);
        const utf8proc_ssize_t count = utf8proc_map(whole, (utf8proc_ssize_t)size, &parts, nfd);
        REQUIRE(count > 0);
        for (unsigned profile = 0; profile < SPSH_TEXT_PROFILE_COUNT; profile++) {
            REQUIRE(spsh__text_normalise((spsh_text_profile)profile, (spsh_bytes){whole, size},
                                         &out, NULL) == SPSH_OK);
            REQUIRE(spsh__text_normalise((spsh_text_profile)profile,
                                         (spsh_bytes){parts, (size_t)count}, &other,
                                         NULL) == SPSH_OK);
            if (!spsh__bytes_equal(spsh__builder_bytes(&out), spsh__builder_bytes(&other)) &&
                different++ < 10)
                printf("U+%04X, tail %zu, profile %u\n", (unsigned)point, tail, profile);
        }
        free(parts);
    }
    CHECK_U64(different, 0);
    spsh__builder_free(&other);
}

/* The fast path for ASCII and the general path agree: an appended ideograph selects the general
 * path. */
static void test_ascii_is_no_other_way(void)
{
    static const char letters[] = "aB1' `.-\t";
    uint64_t random = test_seed(21);
    for (unsigned round = 0; round < 20000; round++) {
        char text[24] = "", longer[40], want[80];
        for (unsigned i = 0; i < 12; i++)
            text[i] = letters[test_random(&random) % (sizeof(letters) - 1)];
        (void)snprintf(longer, sizeof(longer), "%s \xe4\xbb\x8a", text);
        const char *plain = normal(SPSH_TEXT_PROFILE_DEFAULT, text);
        (void)snprintf(want, sizeof(want), "%s%s\xe4\xbb\x8a", plain, plain[0] == '\0' ? "" : " ");
        CHECK_DEFAULT(longer, want);
    }
}

static void test_what_is_not_utf8(void)
{
    static const char *const bad[] = {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        spsh_error err = SPSH_ERROR_INIT;
        CHECK_DEFAULT("before", "before");
        CHECK(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, spsh__bytes_of(bad[i]), &out, &err) ==
              SPSH_OK);
        CHECK(out.size_bytes == 0);
    }
}

static spsh_bytes repeat(const char *unit, size_t count, spsh__builder *text)
{
    spsh__builder_clear(text);
    for (size_t i = 0; i < count; i++)
        spsh__builder_append_text(text, unit);
    REQUIRE(!text->failed);
    return spsh__builder_bytes(text);
}

/* A million marks in the worst order on one letter, and the code point with the longest result. */
static void test_hostile_texts_are_bounded(void)
{
    spsh__builder text = {0};
    const spsh_bytes marks = repeat("\xcc\x81\xcc\xa3", 500000, &text);
    text.data[0] = 'a';
    text.data[1] = 'b';
    CHECK(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, marks, &out, NULL) == SPSH_OK);
    CHECK(out.size_bytes > 32 && out.size_bytes < 100);
    const spsh_bytes longest = repeat("\xef\xb7\xba", 100000, &text);
    CHECK(spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, longest, &out, NULL) == SPSH_OK);
    CHECK(out.size_bytes >= 100000 * 30);
    CHECK(out.capacity_bytes <= (size_t)100000 * 72 * 2);
    spsh__builder_free(&text);
}

/* For any UTF-8: normalized text stays the same, and is UTF-8 without leading, trailing, or
 * repeated spaces.
 */
static void test_normal_stays_normal(void)
{
    static const uint32_t bases[] = {0x20,   0x300,  0x370,  0x590,  0x900,  0xe00,  0x1100, 0x1e00,
                                     0x2000, 0x3040, 0x4e00, 0xac00, 0xf900, 0xff00, 0x1f600};
    uint64_t random = test_seed(20);
    spsh__builder text = {0};
    spsh__builder again = {0};
    for (unsigned round = 0; round < 20000; round++) {
        const spsh_text_profile profile = (spsh_text_profile)(round % SPSH_TEXT_PROFILE_COUNT);
        spsh__builder_clear(&text);
        for (unsigned i = 0; i < 12; i++) {
            const uint64_t draw = test_random(&random);
            const uint32_t point = bases[draw % 15] + (uint32_t)(draw >> 32) % 0x90;
            const uint8_t utf8[4] = {
                (uint8_t)(0xf0 | point >> 18), (uint8_t)(0x80 | (point >> 12 & 0x3f)),
                (uint8_t)(0x80 | (point >> 6 & 0x3f)), (uint8_t)(0x80 | (point & 0x3f))};
            uint8_t three[3] = {(uint8_t)(0xe0 | point >> 12), utf8[2], utf8[3]};
            uint8_t two[2] = {(uint8_t)(0xc0 | point >> 6), utf8[3]};
            uint8_t one = (uint8_t)point;
            if (point >= 0x10000)
                spsh__builder_append(&text, utf8, 4);
            else if (point >= 0x800)
                spsh__builder_append(&text, three, 3);
            else if (point >= 0x80)
                spsh__builder_append(&text, two, 2);
            else
                spsh__builder_append(&text, &one, 1);
        }
        REQUIRE(spsh__text_normalise(profile, spsh__builder_bytes(&text), &out, NULL) == SPSH_OK);
        CHECK(spsh__utf8_valid(spsh__builder_bytes(&out)));
        const char *normal_text = spsh__builder_text(&out);
        CHECK(strstr(normal_text, "  ") == NULL && normal_text[0] != ' ');
        CHECK(out.size_bytes == 0 || normal_text[out.size_bytes - 1] != ' ');
        REQUIRE(spsh__text_normalise(profile, spsh__builder_bytes(&out), &again, NULL) == SPSH_OK);
        CHECK_STR(spsh__builder_text(&again), spsh__builder_text(&out));
    }
    spsh__builder_free(&text);
    spsh__builder_free(&again);
}

TEST_MAIN(unit_text_profile)
{
    RUN(test_names);
    RUN(test_plain);
    RUN(test_apostrophes_and_dashes);
    RUN(test_compatibility_and_case);
    RUN(test_what_cannot_be_seen);
    RUN(test_scripts);
    RUN(test_ideographs_are_words);
    RUN(test_short_cuts_change_nothing);
    RUN(test_ascii_is_no_other_way);
    RUN(test_what_is_not_utf8);
    RUN(test_hostile_texts_are_bounded);
    RUN(test_normal_stays_normal);
    spsh__builder_free(&out);
    return TEST_RESULT();
}
