/* unit_settings.c: the keys and values of YAML settings, and rejected settings, with their line. */
#include "spsh_test.h"

#include "speechshard/settings.h"

enum { TOLD_BYTES = 512 };

typedef struct told {
    char text[TOLD_BYTES];
    size_t length;
    spsh_status answer; /* returned by the visitor */
} told;

/* "a/b/text@line;" a value, "a/[- text- text]@line;" a list. */
static spsh_status tell(void *user, const spsh_setting *s, spsh_error *err)
{
    told *t = (told *)user;
    (void)err;
    CHECK_STR(s->name, "t");
    CHECK(s->is_list || s->count == 1);
    for (size_t k = 0; k < SPSH_SETTINGS_DEPTH_MAX && s->keys[k] != NULL; k++)
        t->length +=
            (size_t)snprintf(t->text + t->length, TOLD_BYTES - t->length, "%s/", s->keys[k]);
    for (size_t i = 0; i < s->count; i++)
        t->length += (size_t)snprintf(t->text + t->length, TOLD_BYTES - t->length, "%s%s",
                                      s->is_list ? "- " : "", s->texts[i]);
    t->length +=
        (size_t)snprintf(t->text + t->length, TOLD_BYTES - t->length, "@%u;", (unsigned)s->line);
    REQUIRE(t->length < TOLD_BYTES);
    return t->answer;
}

static void check(const char *text, const char *want)
{
    told t = {.answer = SPSH_OK};
    CHECK(spsh_settings_read(text, strlen(text), "t", tell, &t, NULL) == SPSH_OK);
    CHECK_STR(t.text, want);
}

static spsh_status count_keys(void *user, const spsh_setting *s, spsh_error *err)
{
    (void)s;
    (void)err;
    ++*(size_t *)user;
    return SPSH_OK;
}

static void refuse_bytes(const char *text, size_t size_bytes, spsh_status want, const char *message)
{
    size_t count = 0;
    spsh_error err = SPSH_ERROR_INIT;
    CHECK_I64(spsh_settings_read(text, size_bytes, "t", count_keys, &count, &err), want);
    if (strstr(err.message, message) == NULL)
        CHECK_STR(err.message, message);
}

static void refuse(const char *text, const char *message)
{
    refuse_bytes(text, strlen(text), SPSH_E_SYNTAX, message);
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
    check("a:\nb: \"\"\nc: ~\nd: null\ne: 'null'\n", "a/@1;b/@2;c/@3;d/@4;e/null@5;");
    check("a:\n  b:\nc: []\nd: {}\ne: f\n", "a/b/@2;c/@3;e/f@5;");
}

static void test_levels(void)
{
    check("a:\n  b:\n    c: d\n    e: f\n  g: h\ni: j\n", "a/b/c/d@3;a/b/e/f@4;a/g/h@5;i/j@6;");
    check("a: {b: {c: d}, 'e': f}\n", "a/b/c/d@1;a/e/f@1;");
    check("a:\n- b\n- 'c: d'\n-\ne:\n    - f\n", "a/- b- c: d- @1;e/- f@5;");
    check("a:\n  b:\n    - c\n  d: [e,\n     f]\n", "a/b/- c@2;a/d/- e- f@4;");
}

static void test_refusals(void)
{
    refuse("a: b\nc: &x d\ne: *x\n", "t: line 3: aliases");
    refuse("*x : b\n", "line 1: aliases");
    refuse("a: !!int 1\n", "line 1: tags");
    refuse("a: !x {b: c}\n", "line 1: tags");
    refuse("a:\n  !x [b]\n", "line 2: tags");
    refuse("a: b\n---\nc: d\n", "line 2: the file has more than one document");
    refuse("a\n", "a value has no key");
    refuse("- a\n", "a list has no key");
    refuse("a:\n- b: c\n", "line 2: only lists of plain values");
    refuse("a: [[b]]\n", "only lists of plain values");
    refuse("'': a\n", "line 1: a key is empty");
    refuse("? [a]\n: b\n", "a key must be a plain value");
    refuse("? {a: b}\n: c\n", "a key must be a plain value");
    refuse("a:\n b:\n  c:\n   d: e\n", "line 4: keys are nested too deeply");
    refuse("a: \"\\0\"\n", "a value contains a NUL");
}

/* Syntax errors of libyaml are reported with their line. */
static void test_syntax(void)
{
    refuse("a: b\nc: [d\n", "t: line 3: ");
    refuse("a: \"b\n", "line 2: ");
    refuse("a: b\n\tc: d\n", "line 2: ");
    refuse("a: b\nc\n", "line 3: ");
    refuse("a: b\nc: \xff\n", "line 2: ");
    refuse("a: b\nc: d\ne: \xc3", "line 3: ");
    refuse_bytes("a: b\nc: \0d\n", 11, SPSH_E_SYNTAX, "line 2: ");
    refuse_bytes("\xff\xfe\x61\0:\0 \0b\0", 10, SPSH_E_SYNTAX, "the text is not valid UTF-8");
}

static void test_limits(void)
{
    static char text[SPSH_SETTINGS_BYTES_MAX + 1];
    size_t count = 0;
    memset(text, '#', sizeof(text));
    CHECK(spsh_settings_read(text, SPSH_SETTINGS_BYTES_MAX, "t", count_keys, &count, NULL) ==
          SPSH_OK);
    refuse_bytes(text, sizeof(text), SPSH_E_LIMIT, "t: the file is longer than 8388608 bytes");
    size_t length = (size_t)snprintf(text, sizeof(text), "k:\n");
    for (size_t i = 0; i < SPSH_SETTINGS_VALUES_MAX; i++, length += 4)
        memcpy(text + length, "- v\n", 4);
    CHECK(spsh_settings_read(text, length, "t", count_keys, &count, NULL) == SPSH_OK);
    CHECK_U64(count, 1);
    memcpy(text + length, "- v\n", 4);
    refuse_bytes(text, length + 4, SPSH_E_LIMIT,
                 "t: line 262146: a list has more than 262144 values");
    memset(text, '[', 100000);
    refuse_bytes(text, 100000, SPSH_E_SYNTAX, "line 1: ");
    memset(text, 'k', SPSH_SETTINGS_KEY_BYTES);
    memcpy(text + SPSH_SETTINGS_KEY_BYTES, ": v", 3);
    refuse_bytes(text, SPSH_SETTINGS_KEY_BYTES + 3, SPSH_E_SYNTAX, "empty or too long");
    CHECK(spsh_settings_read(text + 1, SPSH_SETTINGS_KEY_BYTES + 2, "t", count_keys, &count,
                             NULL) == SPSH_OK);
}

/* A status that the visitor returns ends the reading, and the reader returns it. */
static void test_visitor_ends_it(void)
{
    told t = {.answer = SPSH_E_CANCELED};
    CHECK_I64(spsh_settings_read("a: b\nc: d\n", 10, "t", tell, &t, NULL), SPSH_E_CANCELED);
    CHECK_STR(t.text, "a/b@1;");
}

TEST_MAIN(unit_settings)
{
    RUN(test_values);
    RUN(test_empty);
    RUN(test_levels);
    RUN(test_refusals);
    RUN(test_syntax);
    RUN(test_limits);
    RUN(test_visitor_ends_it);
    return TEST_RESULT();
}
