/* unit_json_elements.c: elements of a list in a large object, at any position of the window. */
#include "spsh_test.h"

#include "common/file_names.h"
#include "ingest/metadata/json_elements.h"

static const size_t windows[] = {16, 17, 31, 64, 1000, 0};

typedef struct elements_case {
    const char *text;
    const char *elements; /* each followed by a blank */
    spsh_status end;
} elements_case;

static spsh__text_input input_of(const spsh__text_memory *memory, size_t window)
{
    spsh__text_input input = spsh__text_input_memory(memory, "test");
    input.window_bytes = window;
    return input;
}

/* Collect the elements, each followed by a blank, and return the final status. */
static spsh_status collect(const char *text, size_t size_bytes, size_t window, char *out,
                           size_t out_bytes)
{
    const spsh__text_memory memory = {(const uint8_t *)text, size_bytes};
    const spsh__text_input input = input_of(&memory, window);
    spsh__json_elements *elements = NULL;
    spsh__json_element element;
    size_t at = 0;
    out[0] = '\0';
    spsh_status rc = spsh__json_elements_new(&input, "list", &elements, NULL);
    while (rc == SPSH_OK && (rc = spsh__json_elements_next(elements, &element, NULL)) == SPSH_OK) {
        CHECK(element.problem == NULL);
        REQUIRE(at + element.raw.size_bytes + 2 < out_bytes);
        CHECK(element.offset_bytes + element.raw.size_bytes <= size_bytes &&
              memcmp(text + element.offset_bytes, element.raw.data, element.raw.size_bytes) == 0);
        memcpy(out + at, element.raw.data, element.raw.size_bytes);
        at += element.raw.size_bytes;
        out[at++] = ' ';
        out[at] = '\0';
    }
    spsh__json_elements_free(elements);
    return rc;
}

static void test_forms(void)
{
    static const char kinds[] = "{\"list\": [1, {\"a\": [2, 3]}, \"x,]}\\\"\", [], null]}";
    static const char behind[] = "\xef\xbb\xbf \n{\"a\": {\"list\": [9]}, \"b\": \"list\", "
                                 "\"c\": [[{}]], \"list\"\n:\t[ {} ] }";
    /* The reader ignores everything after the list, and errors inside an element. */
    static const char nonsense[] = "{\"list\": [{nonsense}, {\"b\" 1}] nonsense";
    static const elements_case cases[] = {
        {kinds,                                        "1 {\"a\": [2, 3]} \"x,]}\\\"\" [] null ", SPSH_E_END      },
        {behind,                                       "{} ",                                     SPSH_E_END      },
        {nonsense,                                     "{nonsense} {\"b\" 1} ",                   SPSH_E_END      },
        {"{\"list\": []}",                             "",                                        SPSH_E_END      },
        {"{\"list\": {\"list\": [1]}, \"list\": [2]}", "2 ",                                      SPSH_E_END      },
        {"{\"list\": [{} {}]}",                        "{} ",                                     SPSH_E_CORRUPT  },
        {"{\"list\": [{}}",                            "{} ",                                     SPSH_E_CORRUPT  },
        {"{\"list\": [{}, {\"a\": ",                   "{} ",                                     SPSH_E_CORRUPT  },
        {"{\"list\": [{}, ",                           "{} ",                                     SPSH_E_CORRUPT  },
        {"{\"list\": [{}",                             "{} ",                                     SPSH_E_CORRUPT  },
        {"{\"list\": [",                               "",                                        SPSH_E_CORRUPT  },
        {"{\"list\": 1}",                              "",                                        SPSH_E_NOT_FOUND},
        {"{\"a\": [1]}",                               "",                                        SPSH_E_NOT_FOUND},
        {"{\"a\": [1",                                 "",                                        SPSH_E_NOT_FOUND},
        {"{\"a\" [1]}",                                "",                                        SPSH_E_NOT_FOUND},
        {"{}",                                         "",                                        SPSH_E_NOT_FOUND},
        {"[{\"list\": [1]}]",                          "",                                        SPSH_E_NOT_FOUND},
        {"",                                           "",                                        SPSH_E_NOT_FOUND},
    };
    char got[1024];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
            CHECK_I64(collect(cases[i].text, strlen(cases[i].text), windows[w], got, sizeof(got)),
                      cases[i].end);
            CHECK_STR(got, cases[i].elements);
        }
    }
}

/* Every truncated text ends, and never with more elements than the whole. */
static void test_cuts(void)
{
    static const char text[] =
        "{\"a\": \"\\\\\", \"list\": [{\"x\": \"]\\\"}\"}, [[1], 2], 3.5e1]}";
    char whole[256];
    char got[256];
    CHECK_I64(collect(text, strlen(text), 16, whole, sizeof(whole)), SPSH_E_END);
    for (size_t size = 0; size < strlen(text) - 2; size++) {
        const spsh_status rc = collect(text, size, 16, got, sizeof(got));
        CHECK(rc == SPSH_E_CORRUPT || rc == SPSH_E_NOT_FOUND);
        CHECK(strncmp(got, whole, strlen(got)) == 0);
    }
}

static void test_lines(void)
{
    static const char text[] = "{\n\"list\": [\n1,\n\n{\"a\":\n2},\n3]}";
    const spsh__text_memory memory = {(const uint8_t *)text, strlen(text)};
    const spsh__text_input input = input_of(&memory, 16);
    static const uint64_t lines[] = {3, 5, 7};
    spsh__json_elements *elements = NULL;
    spsh__json_element element;
    REQUIRE(spsh__json_elements_new(&input, "list", &elements, NULL) == SPSH_OK);
    for (size_t i = 0; i < 3; i++) {
        REQUIRE(spsh__json_elements_next(elements, &element, NULL) == SPSH_OK);
        CHECK_U64(element.line, lines[i]);
    }
    CHECK_I64(spsh__json_elements_next(elements, &element, NULL), SPSH_E_END);
    CHECK_I64(spsh__json_elements_next(elements, &element, NULL), SPSH_E_END);
    spsh__json_elements_free(elements);
}

/** A text generated while it is read: a list with one string of that many bytes between two
 * numbers. */
typedef struct long_text {
    uint64_t string_bytes;
    size_t asked_most;
} long_text;

static spsh_status read_long(void *user, uint64_t offset_bytes, void *buffer, size_t size_bytes,
                             size_t *ret_size_bytes, spsh_error *err)
{
    static const char head[] = "{\"list\": [1, \"";
    static const char tail[] = "\", 2]}";
    long_text *text = user;
    uint8_t *out = buffer;
    const uint64_t begin = strlen(head);
    const uint64_t end = begin + text->string_bytes;
    (void)err;
    size_t i = 0;
    for (; i < size_bytes && offset_bytes + i < end + strlen(tail); i++) {
        const uint64_t at = offset_bytes + i;
        out[i] = at < begin ? (uint8_t)head[at] : at < end ? 'x' : (uint8_t)tail[at - end];
    }
    if (size_bytes > text->asked_most)
        text->asked_most = size_bytes;
    *ret_size_bytes = i;
    return SPSH_OK;
}

static void test_too_long(void)
{
    long_text text = {.string_bytes = SPSH__JSON_ELEMENT_BYTES_MAX + 1000};
    const spsh__text_input input = {.read_at_fn = read_long, .user = &text, .name = "long"};
    spsh__json_elements *elements = NULL;
    spsh__json_element element;
    REQUIRE(spsh__json_elements_new(&input, "list", &elements, NULL) == SPSH_OK);
    CHECK_I64(spsh__json_elements_next(elements, &element, NULL), SPSH_OK);
    CHECK(element.problem == NULL);
    CHECK_I64(spsh__json_elements_next(elements, &element, NULL), SPSH_OK);
    CHECK(element.problem != NULL && element.raw.size_bytes == 0);
    CHECK_I64(spsh__json_elements_next(elements, &element, NULL), SPSH_OK);
    CHECK(spsh__bytes_equal(element.raw, spsh__bytes_of("2")));
    CHECK_I64(spsh__json_elements_next(elements, &element, NULL), SPSH_E_END);
    spsh__json_elements_free(elements);
}

TEST_MAIN(unit_json_elements)
{
    RUN(test_forms);
    RUN(test_cuts);
    RUN(test_lines);
    RUN(test_too_long);
    return TEST_RESULT();
}
