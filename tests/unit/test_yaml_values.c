/* test_yaml_values.c: the values that settings in YAML give, and what is refused with its line. */
#include "spsh_test.h"

#include "yaml_values.h"

/* "a/b/text@line;" a value, "- text" an item. */
static void tell(const spsh__yaml *yaml, char *told, size_t size_bytes)
{
    size_t length = 0;
    told[0] = '\0';
    for (size_t i = 0; i < yaml->value_count; i++) {
        const spsh__yaml_value *value = &yaml->values[i];
        for (size_t k = 0; k < SPSH__YAML_DEPTH_MAX && value->keys[k] != NULL; k++)
            length += (size_t)snprintf(told + length, size_bytes - length, "%s/", value->keys[k]);
        length += (size_t)snprintf(told + length, size_bytes - length, "%s%s@%u;",
                                   value->is_item ? "- " : "", value->text, (unsigned)value->line);
        REQUIRE(length < size_bytes);
    }
}

static void check(const char *text, const char *want)
{
    char told[512];
    spsh__yaml yaml = {0};
    CHECK(spsh__yaml_read(text, strlen(text), "t", &yaml, NULL) == SPSH_OK);
    tell(&yaml, told, sizeof(told));
    CHECK_STR(told, want);
    spsh__yaml_free(&yaml);
    CHECK(yaml.values == NULL && yaml.texts == NULL);
}

static void refuse_bytes(const char *text, size_t size_bytes, spsh_status want, const char *message)
{
    spsh__yaml yaml = {0};
    spsh_error err = SPSH_ERROR_INIT;
    CHECK(spsh__yaml_read(text, size_bytes, "t", &yaml, &err) == want);
    CHECK(strstr(err.message, message) != NULL);
    CHECK(yaml.values == NULL && yaml.texts == NULL);
}

static void refuse(const char *text, const char *message)
{
    refuse_bytes(text, strlen(text), SPSH_E_CORRUPT, message);
}

static void test_values(void)
{
    check("", "");
    check("# nothing\n", "");
    check("a: b", "a/b@1;");
    check("\xef\xbb\xbf---\na:   b c  # d\r\ne: f#g\n...\n", "a/b c@2;e/f#g@3;");
    check("a: 'it''s'\nb: \"x \\\"y\\\" \\\\ \\t\\x41\" # z\n", "a/it's@1;b/x \"y\" \\ \tA@2;");
    check("url: http://x/y:z\nk: \xc3\xa4\n", "url/http://x/y:z@1;k/\xc3\xa4@2;");
    check("a: |\n  b\n  c\nd: e\n f\n", "a/b\nc\n@1;d/e f@4;");
}

static void test_empty(void)
{
    check("a:\nb: \"\"\nc: ~\nd: null\ne: 'null'\n'': f\n", "e/null@5;/f@6;");
    check("a:\n  b:\nc: []\nd: {}\ne: f\n", "e/f@5;");
}

static void test_levels(void)
{
    check("a:\n  b:\n    c: d\n    e: f\n  g: h\ni: j\n", "a/b/c/d@3;a/b/e/f@4;a/g/h@5;i/j@6;");
    check("a: {b: {c: d}, 'e': f}\n", "a/b/c/d@1;a/e/f@1;");
    check("a:\n- b\n- 'c: d'\ne:\n    - f\n", "a/- b@2;a/- c: d@3;e/- f@5;");
    check("a:\n  b:\n    - c\n  d: [e,\n     f]\n", "a/b/- c@3;a/d/- e@4;a/d/- f@5;");
}

static void test_refusals(void)
{
    refuse("a: b\nc: &x d\ne: *x\n", "t: line 3: aliases");
    refuse("*x : b\n", "line 1: aliases");
    refuse("a: !!int 1\n", "line 1: tags");
    refuse("a: !x {b: c}\n", "line 1: tags");
    refuse("a:\n  !x [b]\n", "line 2: tags");
    refuse("a: b\n---\nc: d\n", "line 2: there is more than one document");
    refuse("a\n", "a value without a key");
    refuse("- a\n", "a list without a key");
    refuse("a:\n- b: c\n", "line 2: only lists of plain values");
    refuse("a: [[b]]\n", "only lists of plain values");
    refuse("a:\n- b\n-\n", "line 3: an item of a list is empty");
    refuse("? [a]\n: b\n", "a key is a plain value");
    refuse("? {a: b}\n: c\n", "a key is a plain value");
    refuse("a:\n b:\n  c:\n   d: e\n", "line 4: there are more levels");
    refuse("a: \"\\0\"\n", "a text has a NUL");
}

/* What libyaml says, with the line. */
static void test_syntax(void)
{
    refuse("a: b\nc: [d\n", "t: line 3: ");
    refuse("a: \"b\n", "line 2: ");
    refuse("a: b\n\tc: d\n", "line 2: ");
    refuse("a: b\nc\n", "line 3: ");
    refuse("a: b\nc: \xff\n", "line 2: ");
    refuse("a: b\nc: d\ne: \xc3", "line 3: ");
    refuse_bytes("a: b\nc: \0d\n", 11, SPSH_E_CORRUPT, "line 2: ");
    refuse_bytes("\xff\xfe\x61\0:\0 \0b\0", 10, SPSH_E_CORRUPT, "the text is not UTF-8");
}

static void test_limits(void)
{
    static char text[SPSH__YAML_BYTES_MAX + 1];
    spsh__yaml yaml = {0};
    memset(text, '#', sizeof(text));
    CHECK(spsh__yaml_read(text, SPSH__YAML_BYTES_MAX, "t", &yaml, NULL) == SPSH_OK);
    spsh__yaml_free(&yaml);
    refuse_bytes(text, sizeof(text), SPSH_E_LIMIT, "t: is longer than 262144 bytes");
    size_t length = 0;
    for (size_t i = 0; i < SPSH__YAML_VALUES_MAX; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "k: v\n");
    CHECK(spsh__yaml_read(text, length, "t", &yaml, NULL) == SPSH_OK);
    CHECK_U64(yaml.value_count, SPSH__YAML_VALUES_MAX);
    spsh__yaml_free(&yaml);
    length += (size_t)snprintf(text + length, sizeof(text) - length, "k: v\n");
    refuse_bytes(text, length, SPSH_E_LIMIT, "t: line 4097: there are more than 4096 values");
    memset(text, '[', SPSH__YAML_BYTES_MAX);
    refuse_bytes(text, SPSH__YAML_BYTES_MAX, SPSH_E_CORRUPT, "line 1: ");
}

int main(void)
{
    RUN(test_values);
    RUN(test_empty);
    RUN(test_levels);
    RUN(test_refusals);
    RUN(test_syntax);
    RUN(test_limits);
    return TEST_RESULT();
}
