/* unit_jsonl.c: JSON lines: the values read from a line, malformed lines, and reading on after
 * them. */
#include "spsh_test.h"

#include "common/file_names.h"
#include "common/jsonl.h"

static const char *const names[] = {"path", "seconds", "o.list", "o.inner.x"};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

static void test_values(void)
{
    const char *text = " {\"path\" : \"a\\u00e4\\n\\ud83d\\ude00\\/\", \"seconds\":1.5e-1,\"x\": "
                       "[1,{\"y\":[]},{}], \"o\":{\"list\":[\"p\", 2 ,null,[3]],\"other\":1,"
                       "\"inner\":{\"x\":true}}, \"\":false} ";
    spsh__json_value values[NAME_COUNT];
    spsh__builder extras = {0};
    spsh__builder out = {0};
    size_t offset = 0;
    uint64_t ns = 0;

    REQUIRE(spsh__json_pick(spsh__bytes_of(text), names, NAME_COUNT, values, &extras, &offset) ==
            NULL);
    CHECK_STR(spsh__builder_text(&extras), "{\"x\": [1,{\"y\":[]},{}],\"\":false}");
    const spsh_bytes path = spsh__json_text(&values[0], &out);
    CHECK(spsh__bytes_equal(path, spsh__bytes_of("a\xc3\xa4\n\xf0\x9f\x98\x80/")));
    CHECK(spsh__json_seconds(&values[1], &ns) == SPSH__TIME_OK);
    CHECK_U64(ns, 150000000);
    spsh_bytes rest = values[2].raw;
    spsh__json_value element;
    static const spsh__json_kind kinds[] = {SPSH__JSON_STRING, SPSH__JSON_NUMBER, SPSH__JSON_NULL,
                                            SPSH__JSON_ARRAY};
    for (size_t i = 0; i < 4; i++) {
        REQUIRE(spsh__json_array_next(&rest, &element));
        CHECK_I64(element.kind, kinds[i]);
    }
    CHECK(!spsh__json_array_next(&rest, &element));
    CHECK_I64(values[3].kind, SPSH__JSON_TRUE);
    spsh__builder_free(&extras);
    spsh__builder_free(&out);
}

static void test_seconds(void)
{
    const struct {
        const char *text;
        spsh__time_result result;
        uint64_t ns;
    } cases[] = {
        {"{\"path\":4.1}",                SPSH__TIME_OK,     4100000000            },
        {"{\"path\":0.000000001}",        SPSH__TIME_OK,     1                     },
        {"{\"path\":12.123456789}",       SPSH__TIME_OK,     12123456789           },
        {"{\"path\":16.130000000000003}", SPSH__TIME_OK,     16130000000           },
        {"{\"path\":1e2}",                SPSH__TIME_OK,     UINT64_C(100000000000)},
        {"{\"path\":\"2.5\"}",            SPSH__TIME_OK,     2500000000            },
        {"{\"path\":null}",               SPSH__TIME_ABSENT, 0                     },
        {"{}",                            SPSH__TIME_ABSENT, 0                     },
        {"{\"path\":-1}",                 SPSH__TIME_BAD,    0                     },
        {"{\"path\":[1]}",                SPSH__TIME_BAD,    0                     },
        {"{\"path\":1e30}",               SPSH__TIME_BAD,    0                     },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__json_value value;
        uint64_t ns = 0;
        size_t offset = 0;
        REQUIRE(spsh__json_pick(spsh__bytes_of(cases[i].text), names, 1, &value, NULL, &offset) ==
                NULL);
        CHECK_I64(spsh__json_seconds(&value, &ns), cases[i].result);
        CHECK_U64(ns, cases[i].ns);
    }
}

static void test_truthy(void)
{
    static const char *const yes[] = {"true", "1", "0.5", "-2", "\"yes\"", "10e0"};
    static const char *const no[] = {"false", "0", "0.0", "null", "\"\"", "\"False\"", "0e5"};
    char text[64];
    spsh__json_value value;
    size_t offset = 0;
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]) + sizeof(no) / sizeof(no[0]); i++) {
        const bool want = i < sizeof(yes) / sizeof(yes[0]);
        (void)snprintf(text, sizeof(text), "{\"path\":%s}",
                       want ? yes[i] : no[i - sizeof(yes) / sizeof(yes[0])]);
        CHECK(spsh__json_pick(spsh__bytes_of(text), names, 1, &value, NULL, &offset) == NULL);
        CHECK_I64(spsh__json_truthy(&value), want);
    }
}

static void test_problems(void)
{
    const struct {
        const char *text, *problem;
        size_t offset;
    } cases[] = {
        {"[1]",                      "not a JSON object",                                   0},
        {"{} x",                     "text follows the object",                             3},
        {"{\"a\":1",                 "a comma or the end of the object is missing",         6},
        {"{\"a\":1,}",               "a key is missing",                                    7},
        {"{\"a\" 1}",                "a colon is missing",                                  5},
        {"{\"a\":",                  "the line is cut off",                                 5},
        {"{\"a\":NaN}",              "not a JSON value",                                    5},
        {"{\"a\":01}",               "a number begins with 0",                              5},
        {"{\"a\":1.}",               "a number lacks digits",                               7},
        {"{\"a\":-}",                "a number lacks digits",                               6},
        {"{\"a\":1e}",               "a number lacks digits",                               7},
        {"{\"a\":\"b}",              "a string is never closed",                            5},
        {"{\"a\":\"\\q\"}",          "an unknown escape",                                   6},
        {"{\"a\":\"\\ud800x\"}",     "a \\u escape is broken, or half of a surrogate pair", 6},
        {"{\"a\":\"\\udc00\"}",      "a \\u escape is broken, or half of a surrogate pair", 6},
        {"{\"a\":\"\\u12g4\"}",      "a \\u escape is broken, or half of a surrogate pair", 6},
        {"{\"a\":\"x\ty\"}",         "a control character in a string",                     7},
        {"{\"a\":\"\xc3(\"}",        "not UTF-8",                                           6},
        {"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8",                                           6},
        {"{\"a\":[1 2]}",            "a comma or the end of a list or object is missing",   8},
        {"{\"a\":[1}",               "a comma or the end of a list or object is missing",   7},
        {"{\"a\":[",                 "the line is cut off",                                 6},
        {"{\"a\":{\"b\"}}",          "a colon is missing",                                  9},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spsh__json_value values[NAME_COUNT];
        size_t offset = SIZE_MAX;
        const char *problem = spsh__json_pick(spsh__bytes_of(cases[i].text), names, NAME_COUNT,
                                              values, NULL, &offset);
        CHECK_STR(problem == NULL ? "" : problem, cases[i].problem);
        CHECK_U64(offset, cases[i].offset);
    }
}

static void test_depth(void)
{
    for (unsigned depth = SPSH__JSON_DEPTH_MAX; depth <= SPSH__JSON_DEPTH_MAX + 1; depth++) {
        spsh__builder text = {0};
        spsh__json_value value;
        size_t offset = 0;
        spsh__builder_append_text(&text, "{\"path\":");
        for (unsigned i = 0; i < depth; i++)
            spsh__builder_append_text(&text, i % 2 == 0 ? "[" : "{\"k\":");
        spsh__builder_append_text(&text, "1");
        for (unsigned i = depth; i > 0; i--)
            spsh__builder_append_text(&text, i % 2 == 1 ? "]" : "}");
        spsh__builder_append_text(&text, "}");
        const char *problem =
            spsh__json_pick(spsh__builder_bytes(&text), names, 1, &value, NULL, &offset);
        CHECK_STR(problem == NULL ? "" : problem,
                  depth > SPSH__JSON_DEPTH_MAX ? "nested too deeply" : "");
        spsh__builder_free(&text);
    }
}

static void append_line(spsh__builder *out, const spsh__jsonl_line *line)
{
    char place[64];
    (void)snprintf(place, sizeof(place), "%" PRIu64 "@%" PRIu64 " ", line->line,
                   line->offset_bytes);
    spsh__builder_append_text(out, place);
    if (line->problem != NULL)
        spsh__builder_append_text(out, line->problem);
    else
        (void)spsh__json_text(&line->values[0], out);
    if (!line->values[0].escaped)
        spsh__builder_append_bytes(out, line->values[0].raw);
    spsh__builder_append_bytes(out, line->extras);
    spsh__builder_append_text(out, "\n");
}

static void test_lines(void)
{
    const char *text = "\xef\xbb\xbf{\"path\":\"a\"}\r\n\n  \n{\"path\":\"b\",\n{\"path\":\"c\","
                       "\"z\":\"\xe2\x80\xa8\"}\n{\"path\":\"d\"}";
    const char *want = "1@3 a\n"
                       "4@33 a key is missing\n"
                       "5@34 c{\"z\":\"\xe2\x80\xa8\"}\n"
                       "6@57 d\n";
    for (size_t window = 16; window < 80; window++) {
        const spsh__text_memory memory = {(const uint8_t *)text, strlen(text)};
        spsh__text_input input = spsh__text_input_memory(&memory, "test");
        spsh__jsonl_reader *reader = NULL;
        spsh__jsonl_line line;
        spsh__builder out = {0};
        input.window_bytes = window;
        REQUIRE(spsh__jsonl_reader_new(&input, names, NAME_COUNT, &reader, NULL) == SPSH_OK);
        while (spsh__jsonl_reader_next(reader, &line, NULL) == SPSH_OK)
            append_line(&out, &line);
        CHECK_STR(spsh__builder_text(&out), want);
        spsh__jsonl_reader_free(reader);
        spsh__builder_free(&out);
    }
}

static void test_long_line(void)
{
    spsh__builder text = {0};
    spsh__text_memory memory;
    spsh__jsonl_reader *reader = NULL;
    spsh__jsonl_line line;
    spsh__builder_append_text(&text, "{\"path\":\"");
    uint8_t *space = spsh__builder_reserve(&text, SPSH__ROW_BYTES_MAX);
    REQUIRE(space != NULL);
    memset(space, 'x', SPSH__ROW_BYTES_MAX);
    text.size_bytes += SPSH__ROW_BYTES_MAX;
    spsh__builder_append_text(&text, "\"}\n{\"path\":\"b\"}\n");
    memory = (spsh__text_memory){text.data, text.size_bytes};
    const spsh__text_input input = spsh__text_input_memory(&memory, "test");
    REQUIRE(spsh__jsonl_reader_new(&input, names, NAME_COUNT, &reader, NULL) == SPSH_OK);
    REQUIRE(spsh__jsonl_reader_next(reader, &line, NULL) == SPSH_OK);
    CHECK_STR(line.problem == NULL ? "" : line.problem, "longer than 16 MiB");
    REQUIRE(spsh__jsonl_reader_next(reader, &line, NULL) == SPSH_OK);
    CHECK(line.problem == NULL && line.line == 2);
    CHECK(spsh__jsonl_reader_next(reader, &line, NULL) == SPSH_E_END);
    spsh__jsonl_reader_free(reader);
    spsh__builder_free(&text);
}

TEST_MAIN(unit_jsonl)
{
    RUN(test_values);
    RUN(test_seconds);
    RUN(test_truthy);
    RUN(test_problems);
    RUN(test_depth);
    RUN(test_lines);
    RUN(test_long_line);
    return TEST_RESULT();
}
