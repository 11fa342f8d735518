/* unit_row_reader.c: rows of the four text dialects, one rule per line. Also names, times, and
 * JSON.
 *
 * Rows are compared as text: every field in brackets, one row per line, a broken row as
 * "!line@offset problem". Long texts are made here, because the reader's window is 256 KiB and its
 * limit 16 MiB.
 */
#include "spsh_test.h"

#include "common/file_names.h"
#include "common/json_text.h"
#include "common/row_reader.h"
#include "ingest/metadata/table.h"
#include "speechshard/inside.h"

#define BYTES(text_) ((spsh_bytes){(const uint8_t *)(text_), sizeof(text_) - 1})

static void append_row(spsh__builder *out, const spsh__row *row)
{
    char place[64];
    if (row->problem != NULL) {
        (void)snprintf(place, sizeof(place), "!%" PRIu64 "@%" PRIu64 " ", row->line,
                       row->offset_bytes);
        spsh__builder_append_text(out, place);
        spsh__builder_append_text(out, row->problem);
    }
    for (size_t i = 0; i < row->field_count; i++) {
        spsh__builder_append_text(out, "[");
        spsh__builder_append_bytes(out, row->fields[i]);
        spsh__builder_append_text(out, "]");
    }
    spsh__builder_append_text(out, "\n");
}

static size_t window_bytes; /* reader window of the next calls; 0: the default */

static void read_all(spsh_bytes text, const spsh__dialect *dialect, spsh__builder *out)
{
    const spsh__text_memory memory = {text.data, text.size_bytes};
    spsh__text_input input = spsh__text_input_memory(&memory, "test");
    input.window_bytes = window_bytes;
    spsh__row_reader *reader = NULL;
    spsh__row row;
    spsh_status rc;
    REQUIRE(spsh__row_reader_new(&input, dialect, &reader, NULL) == SPSH_OK);
    while ((rc = spsh__row_reader_next(reader, &row, NULL)) == SPSH_OK)
        append_row(out, &row);
    CHECK(rc == SPSH_E_END);
    CHECK(spsh__row_reader_next(reader, &row, NULL) == SPSH_E_END);
    spsh__row_reader_free(reader);
}

static const spsh__dialect tsv = {.kind = SPSH__DIALECT_RAW, .delimiter = '\t'};
static const spsh__dialect csv = {.kind = SPSH__DIALECT_RFC, .delimiter = ','};
static const spsh__dialect pipes = {
    .kind = SPSH__DIALECT_PIPE_PAD, .delimiter = '|', .comment = ';', .cuts_max = 4};
static const spsh__dialect kaldi = {.kind = SPSH__DIALECT_KALDI};

static void test_rows(void)
{
    const struct {
        const spsh__dialect *dialect;
        spsh_bytes text;
        const char *want;
    } cases[] = {
        {&tsv,   BYTES(""),                                                                         ""                                              },
        {&tsv,   BYTES("\n"),                                                                       "[]\n"                                          },
        {&tsv,   BYTES("a\tb"),                                                                     "[a][b]\n"                                      },
        {&tsv,   BYTES("a\tb\n"),                                                                   "[a][b]\n"                                      },
        {&tsv,   BYTES("a\tb\r\n\tc\n"),                                                            "[a][b]\n[][c]\n"                               },
        {&tsv,   BYTES("a\r\r\nb\r"),                                                               "[a\r]\n[b\r]\n"                                },
        {&tsv,   BYTES("a\t\t\n"),                                                                  "[a][][]\n"                                     },
        {&tsv,   BYTES("\xef\xbb\xbfpath\n\xef\xbb\xbfx\n"),                                        "[path]\n[\xef\xbb\xbfx]\n"                     },
        {&tsv,   BYTES("\"a\tb\"\n"),                                                               "[\"a][b\"]\n"                                  },
        {&tsv,   BYTES("nan\tnull\t1e5\n"),                                                         "[nan][null][1e5]\n"                            },
 /* U+2028, U+0085, VT and FF do not end a line. */
        {&tsv,   BYTES("a\xe2\x80\xa8\xc2\x85\v\fb\n"),                                             "[a\xe2\x80\xa8\xc2\x85\v\fb]\n"                },

        {&csv,   BYTES(""),                                                                         ""                                              },
        {&csv,   BYTES("a,b\n"),                                                                    "[a][b]\n"                                      },
        {&csv,   BYTES("a,b,"),                                                                     "[a][b][]\n"                                    },
        {&csv,   BYTES("\"a,b\",c\r\n"),                                                            "[a,b][c]\n"                                    },
        {&csv,   BYTES("\"a\"\r"),                                                                  "[a]\n"                                         },
        {&csv,   BYTES("\"say \"\"hi\"\"\",\"\"\n"),                                                "[say \"hi\"][]\n"                              },
        {&csv,   BYTES("\"two\r\nlines\",x\ny,z\n"),                                                "[two\r\nlines][x]\n[y][z]\n"                   },
        {&csv,   BYTES("5\" pipe,a\"b\"\n"),                                                        "[5\" pipe][a\"b\"]\n"                          },
        {&csv,   BYTES("\"a\"b,c\nd,e\n"),                                                          "!1@0 text follows a closing quote\n[d][e]\n"   },
        {&csv,   BYTES("x,y\n\"a,b\nc,d\n"),                                                        "[x][y]\n!2@4 a quote is never closed\n[c][d]\n"},
        {&csv,   BYTES("\"a\n\"b\n\"c\"\n"),
         "!1@0 text follows a closing quote\n!2@3 text follows a closing quote\n[c]\n"                                                              },
        {&csv,   BYTES("\"\"\"\"\n"),                                                               "[\"]\n"                                        },

        {&pipes, BYTES("; ID | SEX\n\n   \n14 | F | train-clean-360  | 25.03 | Kristin LeMoine\n"),
         "[14][F][train-clean-360][25.03][Kristin LeMoine]\n"                                                                                       },
        {&pipes, BYTES("60   | M | train-clean-100  | 20.18 | |CBW|Simon\r\n"),
         "[60][M][train-clean-100][20.18][|CBW|Simon]\n"                                                                                            },
        {&pipes, BYTES("a||b"),                                                                     "[a][][b]\n"                                    },

        {&kaldi, BYTES("1-2-0000 SOME TEXT\n"),                                                     "[1-2-0000][SOME TEXT]\n"                       },
        {&kaldi, BYTES("k\t \tv w \t\r\n\n \nk2\n"),                                                "[k][v w]\n[k2][]\n"                            },
        {&kaldi, BYTES("  k v"),                                                                    "[k][v]\n"                                      },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__builder out = {0};
        read_all(cases[i].text, cases[i].dialect, &out);
        CHECK_STR(spsh__builder_text(&out), cases[i].want);
        spsh__builder_free(&out);
    }
}

/* The same rows through the smallest window, which every row outgrows. */
static void test_rows_through_a_small_window(void)
{
    window_bytes = 1;
    test_rows();
    window_bytes = 0;
}

static void test_lines_and_offsets(void)
{
    const spsh_bytes text = BYTES("\xef\xbb\xbfh,i\r\n\"a\nb\",1\n\nz\n");
    const spsh__text_memory memory = {text.data, text.size_bytes};
    const spsh__text_input input = spsh__text_input_memory(&memory, "test");
    const struct {
        uint64_t line, offset_bytes;
        size_t raw_bytes;
    } want[] = {
        {1, 3,  3},
        {2, 8,  7},
        {4, 16, 0},
        {5, 17, 1}
    };
    spsh__row_reader *reader = NULL;
    spsh__row row;
    REQUIRE(spsh__row_reader_new(&input, &csv, &reader, NULL) == SPSH_OK);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        REQUIRE(spsh__row_reader_next(reader, &row, NULL) == SPSH_OK);
        CHECK_U64(row.line, want[i].line);
        CHECK_U64(row.offset_bytes, want[i].offset_bytes);
        CHECK_U64(row.raw.size_bytes, want[i].raw_bytes);
    }
    CHECK(spsh__row_reader_next(reader, &row, NULL) == SPSH_E_END);
    spsh__row_reader_free(reader);
}

/* A row of `size` bytes between two short ones. It is kept up to the limit, and is a broken row
 * beyond it. */
static void check_long_row(const spsh__dialect *dialect, size_t size, bool quoted, bool want_kept)
{
    spsh__builder text = {0};
    spsh__builder out = {0};
    spsh__builder_append_text(&text, quoted ? "a\n\"" : "a\n");
    uint8_t *at = spsh__builder_reserve(&text, size);
    REQUIRE(at != NULL);
    memset(at, 'x', size);
    text.size_bytes += size;
    spsh__builder_append_text(&text, quoted ? "\"\nb\n" : "\nb\n");
    read_all(spsh__builder_bytes(&text), dialect, &out);
    REQUIRE(spsh__builder_text(&out) != NULL);
    if (want_kept)
        CHECK_U64(out.size_bytes, 4 + size + 3 + 4);
    else
        CHECK_STR(spsh__builder_text(&out), "[a]\n!2@2 longer than 16 MiB\n[b]\n");
    spsh__builder_free(&text);
    spsh__builder_free(&out);
}

static void test_long_rows(void)
{
    const size_t sizes[] = {(256 << 10) - 3, (256 << 10) - 2, 256 << 10, (256 << 10) + 1, 3 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_long_row(&tsv, sizes[i], false, true);
        check_long_row(&csv, sizes[i], false, true);
        check_long_row(&csv, sizes[i], true, true);
    }
    check_long_row(&tsv, SPSH__ROW_BYTES_MAX - 1, false, true);
    check_long_row(&tsv, SPSH__ROW_BYTES_MAX, false, false);
    check_long_row(&tsv, SPSH__ROW_BYTES_MAX * 2 + 5, false, false);
    check_long_row(&csv, SPSH__ROW_BYTES_MAX + 5, true, false);
}

static void test_too_many_fields(void)
{
    static char text[SPSH__ROW_FIELDS_MAX + 2];
    spsh__builder out = {0};
    memset(text, '\t', sizeof(text));
    text[SPSH__ROW_FIELDS_MAX] = '\n';
    text[SPSH__ROW_FIELDS_MAX + 1] = 'z';
    read_all((spsh_bytes){(const uint8_t *)text, sizeof(text)}, &tsv, &out);
    CHECK_STR(spsh__builder_text(&out), "!1@0 more than 4096 fields\n[z]\n");
    spsh__builder_free(&out);
}

/* A quote that is never closed costs only its own row, wherever the text ends. */
static void test_unclosed_quote_in_a_large_text(void)
{
    enum { ROWS = 200000 };
    spsh__builder text = {0};
    spsh__builder out = {0};
    spsh__builder_append_text(&text, "a,\"open\n");
    for (int i = 0; i < ROWS; i++)
        spsh__builder_append_text(&text, "path/to/a.wav,some text\n");
    read_all(spsh__builder_bytes(&text), &csv, &out);
    const char *first = "!1@0 a quote is never closed\n[path/to/a.wav][some text]\n";
    REQUIRE(spsh__builder_text(&out) != NULL);
    CHECK(strncmp(spsh__builder_text(&out), first, strlen(first)) == 0);
    CHECK_U64(out.size_bytes, 29 + (size_t)ROWS * 27);
    spsh__builder_free(&text);
    spsh__builder_free(&out);
}

static spsh_status fail_second_read(void *user, uint64_t offset_bytes, void *buffer,
                                    size_t size_bytes, size_t *ret_size_bytes, spsh_error *err)
{
    (void)user;
    if (offset_bytes > 0) {
        spsh_error_set(err, SPSH_E_IO, EIO, SPSH_OFFSET_NONE, "broken disk");
        return SPSH_E_IO;
    }
    memset(buffer, 'x', size_bytes);
    *ret_size_bytes = size_bytes;
    return SPSH_OK;
}

static void test_read_error_is_passed_on(void)
{
    const spsh__text_input input = {fail_second_read, NULL, "disk", 0};
    spsh__row_reader *reader = NULL;
    spsh_error err = SPSH_ERROR_INIT;
    spsh__row row;
    REQUIRE(spsh__row_reader_new(&input, &tsv, &reader, &err) == SPSH_OK);
    CHECK(spsh__row_reader_next(reader, &row, &err) == SPSH_E_IO);
    CHECK_I64(err.os_errno, EIO);
    spsh__row_reader_free(reader);
}

static void test_quoting_decision(void)
{
    const struct {
        spsh_bytes text;
        spsh__quoting want;
        uint64_t line;
    } cases[] = {
        {BYTES("p\tt\na\tb\n"),             SPSH__QUOTING_SAME,    0},
        {BYTES("p\tt\na\the said \"b\"\n"), SPSH__QUOTING_SAME,    0},
        {BYTES("p\tt\na\t\"b\nc\td\n"),     SPSH__QUOTING_RAW,     2},
        {BYTES("p\tt\na\t\"b\" he said\n"), SPSH__QUOTING_RAW,     2},
        {BYTES("p\tt\na\t\"b\tc\"\n"),      SPSH__QUOTING_RFC,     2},
        {BYTES("p\tt\na\t\"b\nc\"\n"),      SPSH__QUOTING_RFC,     2},
        {BYTES("p\tt\nx\ty\na\t\"b\"\n"),   SPSH__QUOTING_UNCLEAR, 3},
        {BYTES(""),                         SPSH__QUOTING_SAME,    0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const spsh__text_memory memory = {cases[i].text.data, cases[i].text.size_bytes};
        const spsh__text_input input = spsh__text_input_memory(&memory, "test");
        spsh__quoting quoting = SPSH__QUOTING_SAME;
        uint64_t line = 0;
        CHECK(spsh__quoting_decide(&input, '\t', &quoting, &line, NULL) == SPSH_OK);
        CHECK_I64(quoting, cases[i].want);
        CHECK_U64(line, cases[i].line);
    }
}

/* The quoting test looks at the first MiB. A quoted row that is cut at its end proves nothing. A
 * quote that has been open for long does. */
static void test_quoting_of_a_large_text(void)
{
    const struct {
        size_t quote_at;
        const char *rest;
        spsh__quoting want;
    } cases[] = {
        {(1 << 20) - 4,  "a\t\"b\n\tc\"\n", SPSH__QUOTING_SAME},
        {(1 << 20) - 30, "a\tb\nc\n",       SPSH__QUOTING_SAME},
        {1 << 19,        "a\t\"b\n",        SPSH__QUOTING_RAW },
        {1 << 19,        "a\t\"b\nc\"\n",   SPSH__QUOTING_RFC },
        {1 << 21,        "a\t\"b\nc\"\n",   SPSH__QUOTING_SAME},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__builder text = {0};
        spsh__quoting quoting = SPSH__QUOTING_UNCLEAR;
        uint64_t line = 0;
        while (text.size_bytes < ((size_t)3 << 20)) {
            const bool now =
                text.size_bytes <= cases[i].quote_at && text.size_bytes + 8 > cases[i].quote_at;
            spsh__builder_append_text(&text, now ? cases[i].rest : "path\tok\n");
        }
        const spsh__text_memory memory = {text.data, text.size_bytes};
        const spsh__text_input input = spsh__text_input_memory(&memory, "test");
        CHECK(spsh__quoting_decide(&input, '\t', &quoting, &line, NULL) == SPSH_OK);
        CHECK_I64(quoting, cases[i].want);
        spsh__builder_free(&text);
    }
}

static void test_utf8(void)
{
    const struct {
        spsh_bytes text;
        bool valid;
    } cases[] = {
        {BYTES(""),                                     true },
        {BYTES("plain ascii, longer than a word"),      true },
        {BYTES("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), true },
        {BYTES("\xf4\x8f\xbf\xbf"),                     true },
        {BYTES("\xf4\x90\x80\x80"),                     false}, /* above U+10FFFF */
        {BYTES("\xed\xa0\x80"),                         false}, /* a surrogate */
        {BYTES("\xc0\xaf"),                             false}, /* overlong */
        {BYTES("\xe0\x80\xaf"),                         false},
        {BYTES("\xf0\x80\x80\xaf"),                     false},
        {BYTES("\x80"),                                 false},
        {BYTES("12345678\xff"),                         false},
        {BYTES("\xe2\x82"),                             false},
        {BYTES("\xf0\x9f\x98"),                         false},
        {BYTES("\xc3"),                                 false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK(spsh__utf8_valid(cases[i].text) == cases[i].valid);
}

static void test_names(void)
{
    const struct {
        spsh_bytes name;
        const char *want;
    } cases[] = {
        {BYTES("a/b c.wav"), "a/b c.wav"},
        {BYTES("\xc3\xa4"),  "\xc3\xa4" },
        {BYTES("a\nb\x7f"),  "a%0Ab%7F" },
        {BYTES("\xff%"),     "%FF%"     },
        {BYTES("100%"),      "100%"     },
        {BYTES("100%ab"),    "100%25ab" },
        {BYTES("%0"),        "%0"       },
        {BYTES("%zz"),       "%zz"      },
        {BYTES("%%41"),      "%%2541"   },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__builder out = {0};
        spsh__name_append(&out, cases[i].name);
        CHECK_STR(spsh__builder_text(&out), cases[i].want);
        spsh__builder_free(&out);
    }
    CHECK_U64(spsh__audio_stem(BYTES("a/b.c.WAV")), 5);
    CHECK_U64(spsh__audio_stem(BYTES("a.txt")), 5);
    CHECK_U64(spsh__audio_stem(BYTES(".wav")), 4);
    CHECK_U64(spsh__audio_stem(BYTES("a/.flac")), 7);
    CHECK_U64(spsh__audio_stem(BYTES("a.wav/b")), 7);
    CHECK(spsh__is_ignored_name("._a.wav") && spsh__is_ignored_name(".gitignore") &&
          spsh__is_ignored_name(".cache") && spsh__is_ignored_name("a.wav.part") &&
          spsh__is_ignored_name("x.incomplete") && spsh__is_ignored_name("Thumbs.db"));
    CHECK(!spsh__is_ignored_name("a.wav") && !spsh__is_ignored_name(".hidden.wav"));
}

static void test_sidecar_text(void)
{
    const struct {
        const char *text, *want;
        uint64_t line_ends;
    } cases[] = {
        {"",                          "",        0},
        {"hello\n",                   "hello",   0},
        {"\xef\xbb\xbfhello\r\n\r\n", "hello",   0},
        {"a\nb\r\nc\rd",              "a b c d", 3},
        {"\n",                        "",        0},
        {" a ",                       " a ",     0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t text[32];
        uint64_t line_ends = 99;
        size_t size = strlen(cases[i].text);
        memcpy(text, cases[i].text, size);
        size = spsh__sidecar_text(text, size, &line_ends);
        text[size] = '\0';
        CHECK_STR((const char *)text, cases[i].want);
        CHECK_U64(line_ends, cases[i].line_ends);
    }
}

static void test_times(void)
{
    const uint64_t second = UINT64_C(1000000000);
    const struct {
        const char *text;
        uint64_t unit_ns;
        spsh__time_result want;
        uint64_t ns;
    } cases[] = {
        {"0",                                     second,  SPSH__TIME_OK,     0                            },
        {"1.5",                                   second,  SPSH__TIME_OK,     1500000000                   },
        {"+.25",                                  second,  SPSH__TIME_OK,     250000000                    },
        {"12.",                                   second,  SPSH__TIME_OK,     12000000000                  },
        {"0.1234567899",                          second,  SPSH__TIME_OK,     123456789                    },
        {"1e-05",                                 second,  SPSH__TIME_OK,     10000                        },
        {"1.5E+2",                                second,  SPSH__TIME_OK,     150000000000                 },
        {"1234.5",                                1000000, SPSH__TIME_OK,     1234500000                   },
        {"2000000000.123456789",                  second,  SPSH__TIME_OK,     UINT64_C(2000000000123456789)},
        {"0.00000000000000000000000000000000001", second,  SPSH__TIME_OK,     0                            },
        {"00000000000000000000000000000000001",   second,  SPSH__TIME_OK,     second                       },
        {"0e999",                                 second,  SPSH__TIME_OK,     0                            },
        {"",                                      second,  SPSH__TIME_ABSENT, 0                            },
        {"nan",                                   second,  SPSH__TIME_ABSENT, 0                            },
        {"N/A",                                   second,  SPSH__TIME_ABSENT, 0                            },
        {"-1",                                    second,  SPSH__TIME_BAD,    0                            },
        {".",                                     second,  SPSH__TIME_BAD,    0                            },
        {"1.2.3",                                 second,  SPSH__TIME_BAD,    0                            },
        {"1,5",                                   second,  SPSH__TIME_BAD,    0                            },
        {"1e",                                    second,  SPSH__TIME_BAD,    0                            },
        {"1e+",                                   second,  SPSH__TIME_BAD,    0                            },
        {"1e9999",                                second,  SPSH__TIME_BAD,    0                            },
        {"99999999999999999999999",               second,  SPSH__TIME_BAD,    0                            },
        {"1e30",                                  second,  SPSH__TIME_BAD,    0                            },
        {"1s",                                    second,  SPSH__TIME_BAD,    0                            },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t ns = 0;
        CHECK_I64(spsh__table_time(spsh__bytes_of(cases[i].text), cases[i].unit_ns, &ns),
                  cases[i].want);
        CHECK_U64(ns, cases[i].ns);
    }
}

static void test_json(void)
{
    spsh__builder out = {0};
    spsh__json_close(&out, 0);
    CHECK_U64(out.size_bytes, 0);
    spsh__json_member(&out, 0, BYTES("a\"b"), BYTES("x\\\n\r\t\x01\x1f/"));
    spsh__json_member(&out, 0, BYTES("\xc3\xa4"), BYTES("\xff|\xe2\x82"));
    spsh__json_close(&out, 0);
    CHECK_STR(spsh__builder_text(&out), "{\"a\\\"b\":\"x\\\\\\n\\r\\t\\u0001\\u001f/\","
                                        "\"\xc3\xa4\":\"\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\"}");
    spsh__builder_free(&out);
}

TEST_MAIN(unit_row_reader)
{
    RUN(test_rows);
    RUN(test_rows_through_a_small_window);
    RUN(test_lines_and_offsets);
    RUN(test_long_rows);
    RUN(test_too_many_fields);
    RUN(test_unclosed_quote_in_a_large_text);
    RUN(test_read_error_is_passed_on);
    RUN(test_quoting_decision);
    RUN(test_quoting_of_a_large_text);
    RUN(test_utf8);
    RUN(test_names);
    RUN(test_sidecar_text);
    RUN(test_times);
    RUN(test_json);
    return TEST_RESULT();
}
