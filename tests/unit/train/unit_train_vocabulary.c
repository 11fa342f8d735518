/* unit_train_vocabulary.c: transcripts to symbols and back, files, vocabularies made from datasets,
 * and rejected input. */
#include "speechshard/publish.h"
#include <utf8proc.h>

#include "labels/text_form.h"
#include "labels/vocabulary.h"
#include "spsh_test.h"
#include "text_dataset.h"

enum { LABELS = 600, BYTES = 2000 };

static spsh_error err = SPSH_ERROR_INIT;
static spsh__vocabulary *vocabulary;

static spsh_bytes bytes_of(const char *text)
{
    return (spsh_bytes){(const uint8_t *)text, strlen(text)};
}

static spsh_status parse(const char *yaml)
{
    vocabulary = NULL;
    err = (spsh_error)SPSH_ERROR_INIT;
    return spsh__vocabulary_parse(yaml, strlen(yaml), "v.yaml", &vocabulary, &err);
}

static void require(const char *yaml)
{
    if (parse(yaml) != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(vocabulary != NULL);
}

static void drop(void)
{
    spsh__vocabulary_free(vocabulary);
    vocabulary = NULL;
}

/* ---- forms */

typedef struct collected {
    int32_t points[BYTES];
    size_t count;
} collected;

static void collect(void *user, int32_t point)
{
    collected *c = (collected *)user;
    REQUIRE(c->count < BYTES);
    c->points[c->count++] = point;
}

/* The text in UTF-8, normalized by a vocabulary of that form. */
static const char *formed(const char *form, const char *text)
{
    static char found[BYTES];
    char yaml[200];
    (void)snprintf(yaml, sizeof(yaml), "kind: characters\nprofile: %s\nsymbols: [a]", form);
    require(yaml);
    const size_t size = spsh__vocabulary_normalise(vocabulary, bytes_of(text), found, BYTES);
    CHECK_U64(size, strlen(found));
    drop();
    return found;
}

static void test_forms(void)
{
    CHECK_STR(formed("lower-1", "  Hello,\tWORLD!  "), "hello world");
    CHECK_STR(formed("lower-1", "Don\u2019t 'quote' rock''n'roll o'"), "don't quote rockn'roll o");
    CHECK_STR(formed("lower-1", "a - b\u2014c 3.5 %"), "a b c 3 5");
    CHECK_STR(formed("lower-1", "I\u0307stanbul \u0130"),
              "istanbul i"); /* both forms of the letter */
    CHECK_STR(formed("lower-1", "STRASSE Stra\u00dfe"), "strasse stra\u00dfe");
    CHECK_STR(formed("lower-1", "E\u0301te\u0301 \u00c9"), "\u00e9t\u00e9 \u00e9");
    CHECK_STR(formed("lower-1", "so\u00adft a\u200bb"), "soft ab");
    CHECK_STR(formed("lower-1", "\ufb01 \uff21"), "fi a");
    CHECK_STR(formed("lower-1", "\u0301a"), "a"); /* a mark without a base letter */
    CHECK_STR(formed("lower-1", ""), "");
    CHECK_STR(formed("lower-1", "?!"), "");
    CHECK_STR(formed("upper", "don't \u00e9"), "DON'T \u00c9");
    CHECK_STR(formed("nfc", " Hello,\n  e\u0301 \u2019 \u2581x "), "Hello, \u00e9 \u2019 x");
    CHECK_STR(formed("nfc", "\u1112\u1161\u11ab"), "\ud55c"); /* Hangul from its parts */
    CHECK_STR(formed("nfc", "a\u0328\u0301 a\u0301\u0328"), "\u0105\u0301 \u0105\u0301");
    CHECK_STR(formed("nfc", "a\xff\xe2\x82z"), "a\ufffd\ufffd\ufffdz");
}

/* At most forty code points of many scripts. */
static void random_text(uint64_t *seed, char text[BYTES])
{
    static const int32_t ranges[][2] = {
        {0x20,    0x7e   },
        {0xa0,    0x24f  },
        {0x300,   0x36f  },
        {0x370,   0x3ff  },
        {0x400,   0x52f  },
        {0x5d0,   0x6ff  },
        {0x900,   0xdff  },
        {0x1100,  0x11ff },
        {0x1e00,  0x206f },
        {0x3040,  0x30ff },
        {0xac00,  0xac80 },
        {0x1d15e, 0x1d164}
    };
    size_t size = 0;
    for (int i = 0; i < 40; i++) {
        const int32_t *range = ranges[test_random(seed) % 12];
        const int32_t point =
            range[0] + (int32_t)(test_random(seed) % (uint64_t)(range[1] - range[0] + 1));
        size += (size_t)utf8proc_encode_char(point, (uint8_t *)text + size);
    }
    text[size] = '\0';
}

/* Applying a form twice changes nothing. The result is in NFC, and does not depend on the
 * decomposition of the text. */
static void test_forms_of_random_texts(void)
{
    static const char *const forms[] = {"nfc-1", "lower-1", "upper-1"};
    uint64_t seed = test_seed(7);
    for (int round = 0; round < 6000; round++) {
        char text[BYTES];
        char once[BYTES];
        random_text(&seed, text);
        const char *form = forms[test_random(&seed) % 3];
        (void)snprintf(once, sizeof(once), "%s", formed(form, text));
        CHECK_STR(formed(form, once), once);
        CHECK(strstr(once, "  ") == NULL && once[0] != ' ');
        uint8_t *composed = utf8proc_NFC((const uint8_t *)once);
        CHECK_STR((const char *)composed, once);
        free(composed);
        uint8_t *apart = utf8proc_NFD((const uint8_t *)text);
        CHECK_STR(formed(form, (const char *)apart), once);
        free(apart);
        if (test_failures > 0)
            return; /* one failure is enough */
    }
}

static void test_many_marks(void)
{
    static uint8_t text[200001];
    static collected c;
    text[0] = 'a';
    for (size_t i = 1; i < sizeof(text); i += 2) {
        text[i] = 0xcc;
        text[i + 1] = (uint8_t)(0x80 + i % 32);
    }
    c.count = 0;
    spsh__text_points(SPSH__FORM_LOWER, (spsh_bytes){text, sizeof(text)}, collect, &c);
    CHECK(c.count > 20 && c.count <= 31);
}

/* ---- characters */

static const char characters[] = "kind: characters\n"
                                 "profile: upper-1\n"
                                 "symbols: [\"'\", A, B, C, \"\\u00c9\", ' ']\n";

static void check_labels(const char *text, const uint32_t *want, uint32_t count, uint32_t dropped)
{
    uint32_t labels[LABELS];
    uint32_t got = 0;
    uint32_t got_dropped = 0;
    REQUIRE(spsh__vocabulary_encode(vocabulary, bytes_of(text), labels, LABELS, &got, &got_dropped,
                                    &err) == SPSH_OK);
    CHECK_U64(got, count);
    CHECK_U64(got_dropped, dropped);
    for (uint32_t i = 0; i < count && i < got; i++)
        CHECK_U64(labels[i], want[i]);
}

static void test_characters(void)
{
    uint32_t labels[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    uint32_t count = 77;
    uint32_t dropped = 77;
    char text[64];
    require(characters);
    CHECK_U64(spsh__vocabulary_size(vocabulary), 7);
    check_labels("cab; a'b", (const uint32_t[]){4, 2, 3, 6, 2, 1, 3}, 7, 0);
    check_labels("Axe\u0301 \xff", (const uint32_t[]){2, 5, 6}, 3, 2);
    check_labels("", NULL, 0, 0);
    CHECK_I64(
        spsh__vocabulary_encode(vocabulary, bytes_of("abc abc"), labels, 6, &count, &dropped, &err),
        SPSH_E_LIMIT);
    CHECK(count == 77 && dropped == 77 && labels[6] == 9);
    const uint32_t good[] = {6, 4, 0, 2, 6, 6, 5, 100, 6};
    CHECK_U64(spsh__vocabulary_decode(vocabulary, good, 9, text, sizeof(text)), 5);
    CHECK_STR(text, "CA \u00c9"); /* no blanks at the ends, no double blanks, no unknown symbols */
    CHECK_U64(spsh__vocabulary_decode(vocabulary, good, 9, text, 5), 5);
    CHECK_STR(text, "CA "); /* no partial characters */
    CHECK_U64(spsh__vocabulary_decode(vocabulary, good, 9, text, 1), 5);
    CHECK_STR(text, "");
    CHECK_U64(spsh__vocabulary_decode(vocabulary, good, 9, NULL, 0), 5);
    drop();
}

/* ---- pieces */

static const char pieces[] = "kind: pieces\n"
                             "profile: lower-1\n"
                             "symbols:\n"
                             "  [\"\\u2581\", a, b, c, ab, \"\\u2581ab\", abc, aa]\n"
                             "merges: [a b, \"\\u2581 ab\", ab c, a a]\n";

static void test_pieces(void)
{
    char text[64];
    char longest[LABELS];
    uint32_t labels[LABELS];
    uint32_t count = 0;
    uint32_t dropped = 0;
    require(pieces);
    CHECK_U64(spsh__vocabulary_size(vocabulary), 9);
    check_labels("ab", (const uint32_t[]){6}, 1, 0);
    check_labels("abc, caabc", (const uint32_t[]){6, 4, 1, 4, 2, 7}, 6, 0);
    check_labels("aaa xaxb x", (const uint32_t[]){1, 8, 2, 6}, 4, 3);
    const uint32_t good[] = {6, 4, 0, 1, 4, 2, 7, 1};
    CHECK_U64(spsh__vocabulary_decode(vocabulary, good, 8, text, sizeof(text)), 9);
    CHECK_STR(text, "abc caabc");
    memset(longest, 'a', sizeof(longest) - 1); /* a word that is split in parts */
    longest[sizeof(longest) - 1] = '\0';
    REQUIRE(spsh__vocabulary_encode(vocabulary, bytes_of(longest), labels, LABELS, &count, &dropped,
                                    &err) == SPSH_OK);
    CHECK_U64(spsh__vocabulary_decode(vocabulary, labels, count, longest, LABELS), LABELS - 1);
    CHECK_U64(strspn(longest, "a"), LABELS - 1);
    drop();
}

/* ---- files */

static const struct {
    const char *yaml;
    spsh_status want;
    const char *message;
} refusals[] = {
    {"",                                                                 SPSH_E_SYNTAX,    "v.yaml: the key kind is missing"},
    {"kind: characters\nsymbols: [a]",                                   SPSH_E_SYNTAX,    "the key profile is missing"     },
    {"kind: characters\nprofile: nfc",                                   SPSH_E_SYNTAX,    "the key symbols is missing"     },
    {"kind: words\nprofile: nfc\nsymbols: [a]",                          SPSH_E_NOT_FOUND, "line 1: unknown kind"           },
    {"kind: characters\nprofile: nfc-2\nsymbols: [a]",                   SPSH_E_NOT_FOUND,
     "line 2: unknown text profile 'nfc-2'"                                                                                 },
    {"kind: characters\nprofile: nfc\nsymbols: []",                      SPSH_E_SYNTAX,    "has no symbols"                 },
    {"kind: characters\nprofile: nfc\nsymbols: a",                       SPSH_E_SYNTAX,    "line 3: symbols must be a list" },
    {"kind: [characters]\nprofile: nfc\nsymbols: [a]",                   SPSH_E_SYNTAX,
     "kind must be a single value"                                                                                          },
    {"kind: characters\nprofile: nfc\nsymbols: [a, b, a]",               SPSH_E_SYNTAX,
     "symbol 'a' appears twice"                                                                                             },
    {"kind: characters\nprofile: nfc\nsymbols: [a, bc]",                 SPSH_E_SYNTAX,
     "is not a single character"                                                                                            },
    {"kind: characters\nprofile: nfc\nsymbols: [a, '']",                 SPSH_E_SYNTAX,    "is empty"                       },
    {"kind: characters\nprofile: nfc\nsymbols: [a]\nmerges: [a a]",      SPSH_E_SYNTAX,
     "kind characters has no merges"                                                                                        },
    {"kind: characters\nprofile: nfc\nsymbols: [a]\nsymbols: [b]",       SPSH_E_SYNTAX,
     "line 4: symbols appears twice"                                                                                        },
    {"kind: characters\nprofile: nfc\nsymbol: [a]",                      SPSH_E_NOT_FOUND, "did you mean 'symbols'?"        },
    {"a:\n  kind: characters",                                           SPSH_E_NOT_FOUND, "a.kind is not a key"            },
    {"kind: pieces\nprofile: nfc\nsymbols: [a, 'b c']",                  SPSH_E_SYNTAX,    "contains a blank"               },
    {"kind: pieces\nprofile: nfc\nsymbols: [a, b]\nmerges: [a b]",       SPSH_E_SYNTAX,
     "merge 'a b' is not two symbols"                                                                                       },
    {"kind: pieces\nprofile: nfc\nsymbols: [a, aa]\nmerges: [aa]",       SPSH_E_SYNTAX,    "merge 'aa'"                     },
    {"kind: pieces\nprofile: nfc\nsymbols: [a, aa]\nmerges: [a a, a a]", SPSH_E_SYNTAX,    "twice"                          },
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        CHECK_I64(parse(refusals[i].yaml), refusals[i].want);
        CHECK(vocabulary == NULL);
        if (strstr(err.message, refusals[i].message) == NULL) {
            fprintf(stderr, "    got \"%s\", want \"%s\"\n", err.message, refusals[i].message);
            CHECK(false);
        }
        drop();
    }
}

/* Writing a vocabulary twice gives the same file. The vocabulary read from it gives the same text.
 */
static void check_file(void)
{
    char folder[256];
    char path[300];
    test_temp_dir(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/vocabulary.yaml", folder);
    char *text = spsh__vocabulary_text(vocabulary);
    const uint32_t size = spsh__vocabulary_size(vocabulary);
    REQUIRE(spsh__vocabulary_write(vocabulary, path, NULL, &err) == SPSH_OK);
    REQUIRE(spsh__vocabulary_write(vocabulary, path, NULL, &err) == SPSH_OK); /* replaces */
    drop();
    const spsh_status rc = spsh__vocabulary_read(path, NULL, &vocabulary, &err);
    if (rc != SPSH_OK)
        fprintf(stderr, "%s\n", err.message);
    REQUIRE(rc == SPSH_OK);
    char *again = spsh__vocabulary_text(vocabulary);
    CHECK_STR(again, text);
    CHECK_U64(spsh__vocabulary_size(vocabulary), size);
    free(text);
    free(again);
    test_remove_tree(folder);
}

static void test_files(void)
{
    CHECK_I64(spsh__vocabulary_read("/nonexistent/v.yaml", NULL, &vocabulary, &err),
              SPSH_E_NOT_FOUND);
    require(characters);
    check_file();
    check_labels("cab; a'b", (const uint32_t[]){4, 2, 3, 6, 2, 1, 3}, 7, 0);
    drop();
    require(pieces);
    check_file();
    check_labels("abc, caabc", (const uint32_t[]){6, 4, 1, 4, 2, 7}, 6, 0);
    drop();
    require("kind: characters\nprofile: nfc\n"
            "symbols: ['\"', '\\', \"\\u0301\", \"\\x85\", \"\\u2028\", \"\\U0001f600\", '~', "
            "\"\\ufeff\", \"\\U0010ffff\"]");
    check_file();
    drop();
}

/* ---- from datasets */

static const text_row rows[] = {
    {.id = "a",         .split = "train",           .text = "Low lower, lowest!"},
    {.id = "b",         .split = "train",           .text = "low LOW new"       },
    {.id = "c",         .split = "test",            .text = "\u00e9 zzz"        },
    {.id = "d",         .split = "train"          },
    {.id = "e", .split = "train", .text = "newer newer wide"                            },
};

static void open_dataset(const char *folder, spsh_dataset **ret_dataset)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/t.spsh", folder);
    text_dataset_make(path, 1, rows, sizeof(rows) / sizeof(rows[0]));
    REQUIRE(spsh_dataset_open(path, NULL, ret_dataset, &err) == SPSH_OK);
}

static spsh_status make(const spsh_dataset *dataset, const spsh__vocabulary_options *options)
{
    vocabulary = NULL;
    const spsh_dataset *const datasets[] = {dataset};
    return spsh__vocabulary_make(datasets, 1, options, &vocabulary, &err);
}

static void check_text(const char *want)
{
    REQUIRE(vocabulary != NULL);
    char *text = spsh__vocabulary_text(vocabulary);
    CHECK_STR(text, want);
    free(text);
    check_file();
    drop();
}

static void test_make_characters(const spsh_dataset *dataset)
{
    const char *const train[] = {"train"};
    const char *const none[] = {"train,tset"};
    spsh__vocabulary_options options = {0};
    CHECK_I64(make(dataset, &options), SPSH_OK);
    CHECK_U64(spsh__vocabulary_size(vocabulary), 14); /* the blank, ' ' d e i l n o r s t w z e' */
    drop();
    options.splits = train;
    CHECK_I64(make(dataset, &options), SPSH_OK);
    check_text("# Symbol 0 is the blank; these are 1, 2, ...\nkind: characters\n"
               "profile: lower-1\nsymbols:\n  - \" \"\n  - \"d\"\n  - \"e\"\n  - \"i\"\n"
               "  - \"l\"\n  - \"n\"\n  - \"o\"\n  - \"r\"\n  - \"s\"\n  - \"t\"\n  - \"w\"\n");
    options.symbols = 4; /* w 9, e 8, ' ' 6, and l and o 5 each */
    CHECK_I64(make(dataset, &options), SPSH_OK);
    check_text("# Symbol 0 is the blank; these are 1, 2, ...\nkind: characters\n"
               "profile: lower-1\nsymbols:\n  - \" \"\n  - \"e\"\n  - \"w\"\n");
    options.symbols = 1;
    CHECK_I64(make(dataset, &options), SPSH_E_INVALID_ARG);
    options = (spsh__vocabulary_options){.splits = none};
    CHECK_I64(make(dataset, &options), SPSH_E_UNKNOWN_NAME);
    CHECK(strstr(err.message, "has no split 'tset'") != NULL);
    options = (spsh__vocabulary_options){.kind = "piece"};
    CHECK_I64(make(dataset, &options), SPSH_E_NOT_FOUND);
    options = (spsh__vocabulary_options){.profile = "none"};
    CHECK_I64(make(dataset, &options), SPSH_E_NOT_FOUND);
}

/* Computed by hand: in |low x3 |lower |lowest |new |newer x2 |wide, the pair "l o" occurs 5 times,
 * as do "o w" and "| l"; "l" comes first. Then "lo w" and "| lo" occur 5 times: "lo" is before
 * U+2581.
 */
static void test_make_pieces(const spsh_dataset *dataset)
{
    const char *const train[] = {"train"};
    spsh__vocabulary_options options = {
        .kind = "pieces", .profile = "upper", .symbols = 17, .splits = train};
    CHECK_I64(make(dataset, &options), SPSH_OK);
    check_text("# Symbol 0 is the blank; these are 1, 2, ...\nkind: pieces\nprofile: upper-1\n"
               "symbols:\n  - \"\u2581\"\n  - \"D\"\n  - \"E\"\n  - \"I\"\n  - \"L\"\n  - \"N\"\n"
               "  - \"O\"\n  - \"R\"\n  - \"S\"\n  - \"T\"\n  - \"W\"\n  - \"LO\"\n  - \"LOW\"\n"
               "  - \"\u2581LOW\"\n  - \"ER\"\n  - \"EW\"\n"
               "merges:\n  - \"L O\"\n  - \"LO W\"\n  - \"\u2581 LOW\"\n  - \"E R\"\n"
               "  - \"E W\"\n");
    options.symbols = 0;
    CHECK_I64(make(dataset, &options), SPSH_OK); /* until no pair occurs twice */
    const uint32_t size = spsh__vocabulary_size(vocabulary);
    CHECK(size > 17 && size < 30);
    char text[64];
    uint32_t labels[LABELS];
    uint32_t count = 0;
    uint32_t dropped = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *given = i == 0 ? "lower newer wide" : "WIDEST";
        REQUIRE(spsh__vocabulary_encode(vocabulary, bytes_of(given), labels, LABELS, &count,
                                        &dropped, &err) == SPSH_OK);
        CHECK_U64(dropped, 0);
        (void)spsh__vocabulary_decode(vocabulary, labels, count, text, sizeof(text));
        CHECK_STR(text, i == 0 ? "LOWER NEWER WIDE" : "WIDEST");
    }
    drop();
    options.symbols = 2;
    CHECK_I64(make(dataset, &options), SPSH_E_INVALID_ARG);
    options.symbols = 5; /* fewer symbols than characters: the most frequent are kept */
    CHECK_I64(make(dataset, &options), SPSH_OK);
    CHECK_U64(spsh__vocabulary_size(vocabulary), 5);
    drop();
}

static void test_make(void)
{
    char folder[256];
    spsh_dataset *dataset = NULL;
    const spsh_overlay_entry skipped[] = {
        {.id = bytes_of("a")}, {.id = bytes_of("c")}, {.id = bytes_of("e")}};
    test_temp_dir(folder, sizeof(folder));
    open_dataset(folder, &dataset);
    test_make_characters(dataset);
    test_make_pieces(dataset);
    REQUIRE(spsh_overlay_add(spsh_dataset_path(dataset), "s", SPSH_OVERLAY_SKIP, skipped, 3,
                             spsh_io_default(), &err) == SPSH_OK);
    char path[300];
    (void)snprintf(path, sizeof(path), "%s", spsh_dataset_path(dataset));
    spsh_dataset_close(dataset);
    REQUIRE(spsh_dataset_open(path, NULL, &dataset, &err) == SPSH_OK);
    CHECK_I64(make(dataset, &(spsh__vocabulary_options){0}), SPSH_OK);
    CHECK_U64(spsh__vocabulary_size(vocabulary), 7); /* symbols of "low low new" */
    drop();
    spsh_dataset_close(dataset);
    test_remove_tree(folder);
}

TEST_MAIN(unit_train_vocabulary)
{
    RUN(test_forms);
    RUN(test_forms_of_random_texts);
    RUN(test_many_marks);
    RUN(test_characters);
    RUN(test_pieces);
    RUN(test_refusals);
    RUN(test_files);
    RUN(test_make);
    return TEST_RESULT();
}
