/* test_yaml_lines.c: what of YAML is understood, and what is refused with its line. */
#include "spsh_test.h"

#include "yaml_lines.h"

typedef struct told {
    char text[512];
    size_t length;
} told;

static spsh_status tell(void *user, const spsh__yaml_value *value, spsh_error *err)
{
    told *t = user;
    (void)err;
    for (size_t i = 0; i < SPSH__YAML_DEPTH_MAX && value->keys[i] != NULL; i++)
        t->length += (size_t)snprintf(t->text + t->length, sizeof(t->text) - t->length, "%s/",
                                      value->keys[i]);
    t->length += (size_t)snprintf(t->text + t->length, sizeof(t->text) - t->length, "%s%s;",
                                  value->is_item ? "- " : "", value->text);
    return SPSH_OK;
}

static void check(const char *text, const char *want)
{
    char copy[512];
    told t = {.length = 0};
    REQUIRE(strlen(text) < sizeof(copy));
    (void)snprintf(copy, sizeof(copy), "%s", text);
    CHECK(spsh__yaml_read(copy, "t", tell, &t, NULL) == SPSH_OK);
    CHECK_STR(t.text, want);
}

static void refuse(const char *text, const char *message)
{
    char copy[512];
    told t = {.length = 0};
    spsh_error err = SPSH_ERROR_INIT;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    CHECK(spsh__yaml_read(copy, "t", tell, &t, &err) == SPSH_E_CORRUPT);
    CHECK(strstr(err.message, message) != NULL);
}

static void test_values(void)
{
    check("", "");
    check("a: b\n", "a/b;");
    check("\xef\xbb\xbf---\na:   b c  # d\r\nempty:\ne: f#g", "a/b c;e/f#g;");
    check("a: 'it''s'\nb: \"x \\\"y\\\" \\\\ \\t\" # z\n", "a/it's;b/x \"y\" \\ \t;");
    check("'a b': \"\"\nc: \"# no comment\"\n", "c/# no comment;");
    check("url: http://x/y:z\n", "url/http://x/y:z;");
}

static void test_levels(void)
{
    check("a:\n  b:\n    c: d\n    e: f\n  g: h\ni: j\n", "a/b/c/d;a/b/e/f;a/g/h;i/j;");
    check("a:\n- b\n- 'c: d'\ne:\n    - f\n", "a/- b;a/- c: d;e/- f;");
    check("a:\n  b:\n    - c\n  d: e\n", "a/b/- c;a/d/e;");
}

static void test_refusals(void)
{
    refuse("a: b\nc: [d, e]\n", "t: line 2: only plain");
    refuse("a: |\n  b\n", "line 1");
    refuse("a: &b c\n", "line 1");
    refuse("a: \"b\n", "quotes");
    refuse("a: 'b' c\n", "quotes");
    refuse("a: \"\\x41\"\n", "quotes");
    refuse("- a\n", "a list without a key");
    refuse("a:\n- b: c\n", "lists of plain values");
    refuse("a:\n-\n", "lists of plain values");
    refuse("\ta: b\n", "indentation");
    refuse("a\n", "colon");
    refuse("a:b\n", "colon");
    refuse("a:\n b:\n  c:\n   d: e\n", "line 4: there are more levels");
}

int main(void)
{
    RUN(test_values);
    RUN(test_levels);
    RUN(test_refusals);
    return TEST_RESULT();
}
