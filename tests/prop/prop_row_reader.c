/* prop_row_reader.c: rows that were written are read back; and the RFC reader is compared with a
 * trivial one. Seeds are printed; SPEECHSHARD_TEST_SEED repeats a run.
 */
#include "spsh_test.h"

#include <jansson.h>

#include "common/file_names.h"
#include "common/json_text.h"
#include "common/row_reader.h"
#include "ingest/metadata/table.h"
#include "speechshard/inside.h"

#define ROUNDS      2000
#define ROWS_MAX    40U
#define FIELDS_MAX  12U
#define FIELD_BYTES 80U

static uint64_t state;

static uint64_t below(uint64_t limit)
{
    return test_random(&state) % limit;
}

typedef struct sheet {
    spsh__builder bytes; /* bytes of all fields */
    struct {
        size_t at, size;
    } fields[ROWS_MAX][FIELDS_MAX];
    size_t field_counts[ROWS_MAX];
    size_t row_count;
} sheet;

/* Random fields; bytes in `never` do not occur. Short alphabets make the special bytes frequent. */
static void make_sheet(sheet *s, const char *never)
{
    static const char odd_bytes[] = "\"\"\"',\t\n\r;| a\xef\xbb\xbf";
    const bool odd = below(2) == 0;
    spsh__builder_clear(&s->bytes);
    s->row_count = below(ROWS_MAX) + 1;
    for (size_t r = 0; r < s->row_count; r++) {
        s->field_counts[r] = below(FIELDS_MAX) + 1;
        for (size_t f = 0; f < s->field_counts[r]; f++) {
            const size_t size = below(below(20) == 0 ? 20000 : FIELD_BYTES);
            s->fields[r][f].at = s->bytes.size_bytes;
            for (size_t i = 0; i < size; i++) {
                uint8_t byte =
                    odd ? (uint8_t)odd_bytes[below(sizeof(odd_bytes) - 1)] : (uint8_t)below(256);
                if (byte != 0 && strchr(never, byte) != NULL)
                    byte = 'z';
                spsh__builder_append(&s->bytes, &byte, 1);
            }
            s->fields[r][f].size = size;
        }
    }
    REQUIRE(spsh__builder_reserve(&s->bytes, 1) != NULL);
}

static spsh_bytes sheet_field(const sheet *s, size_t r, size_t f)
{
    return (spsh_bytes){s->bytes.data + s->fields[r][f].at, s->fields[r][f].size};
}

static void write_quoted(spsh__builder *out, spsh_bytes field)
{
    spsh__builder_append(out, "\"", 1);
    for (size_t i = 0; i < field.size_bytes; i++)
        spsh__builder_append(out, field.data[i] == '"' ? "\"\"" : (const char *)&field.data[i],
                             field.data[i] == '"' ? 2 : 1);
    spsh__builder_append(out, "\"", 1);
}

static bool must_quote(spsh_bytes field, uint8_t delimiter)
{
    if (field.size_bytes == 0)
        return false;
    return field.data[0] == '"' || memchr(field.data, delimiter, field.size_bytes) != NULL ||
           memchr(field.data, '\n', field.size_bytes) != NULL ||
           field.data[field.size_bytes - 1] == '\r';
}

static void write_sheet(const sheet *s, const spsh__dialect *dialect, spsh__builder *out)
{
    spsh__builder_clear(out);
    /* A field may begin with the bytes of a byte order mark; one more is dropped before it. */
    spsh__builder_append(out, "\xef\xbb\xbf", 3);
    for (size_t r = 0; r < s->row_count; r++) {
        spsh_bytes field = {0};
        for (size_t f = 0; f < s->field_counts[r]; f++) {
            field = sheet_field(s, r, f);
            if (f > 0)
                spsh__builder_append(out, &dialect->delimiter, 1);
            if (dialect->kind == SPSH__DIALECT_RFC &&
                (must_quote(field, dialect->delimiter) || below(3) == 0))
                write_quoted(out, field);
            else
                spsh__builder_append_bytes(out, field);
        }
        const bool cr = field.size_bytes > 0 && field.data[field.size_bytes - 1] == '\r';
        spsh__builder_append_text(out, cr || below(2) == 0 ? "\r\n" : "\n");
    }
    REQUIRE(!out->failed);
}

static void check_identity(const sheet *s, const spsh__dialect *dialect, const spsh__builder *text)
{
    const spsh__text_memory memory = {text->data, text->size_bytes};
    spsh__text_input input = spsh__text_input_memory(&memory, "test");
    spsh__row_reader *reader = NULL;
    spsh__row row;
    input.window_bytes = below(2) == 0 ? 0 : 1 + below(300);
    REQUIRE(spsh__row_reader_new(&input, dialect, &reader, NULL) == SPSH_OK);
    for (size_t r = 0; r < s->row_count; r++) {
        REQUIRE(spsh__row_reader_next(reader, &row, NULL) == SPSH_OK);
        REQUIRE(row.problem == NULL);
        CHECK_U64(row.field_count, s->field_counts[r]);
        for (size_t f = 0; f < row.field_count && f < s->field_counts[r]; f++)
            CHECK(spsh__bytes_equal(row.fields[f], sheet_field(s, r, f)));
    }
    CHECK(spsh__row_reader_next(reader, &row, NULL) == SPSH_E_END);
    spsh__row_reader_free(reader);
}

static void test_write_read_identity(void)
{
    static sheet s;
    spsh__builder text = {0};
    for (int i = 0; i < ROUNDS && test_failures == 0; i++) {
        const bool rfc = below(2) == 0;
        const uint8_t delimiter = (uint8_t)(",\t;|"[below(4)]);
        const char never[] = {rfc ? '\0' : '\n', (char)delimiter, '\0'};
        const spsh__dialect dialect = {.kind = rfc ? SPSH__DIALECT_RFC : SPSH__DIALECT_RAW,
                                       .delimiter = delimiter};
        make_sheet(&s, never);
        write_sheet(&s, &dialect, &text);
        check_identity(&s, &dialect, &text);
    }
    spsh__builder_free(&s.bytes);
    spsh__builder_free(&text);
}

/* The reference: one byte at a time over a complete string. A row is "[a][b]\n" or "!\n". */
typedef struct reference {
    const uint8_t *text;
    size_t size, at;
    spsh__builder row;
} reference;

static int peek(const reference *ref)
{
    return ref->at < ref->size ? ref->text[ref->at] : -1;
}

/* False if the quotes are wrong. Ends after the closing quote. */
static bool reference_quoted(reference *ref)
{
    ref->at++;
    for (;;) {
        const int c = peek(ref);
        if (c < 0)
            return false;
        ref->at++;
        if (c != '"') {
            spsh__builder_append(&ref->row, &ref->text[ref->at - 1], 1);
        } else if (peek(ref) == '"') {
            spsh__builder_append(&ref->row, "\"", 1);
            ref->at++;
        } else {
            break;
        }
    }
    if (peek(ref) == '\r' &&
        (ref->at + 1 == ref->size || (ref->at + 1 < ref->size && ref->text[ref->at + 1] == '\n')))
        ref->at++;
    return peek(ref) < 0 || peek(ref) == ',' || peek(ref) == '\n';
}

static void reference_row(reference *ref, spsh__builder *out)
{
    const size_t begin = ref->at;
    spsh__builder_clear(&ref->row);
    for (;;) {
        spsh__builder_append_text(&ref->row, "[");
        if (peek(ref) == '"') {
            if (!reference_quoted(ref)) {
                ref->at = begin;
                while (peek(ref) >= 0 && peek(ref) != '\n')
                    ref->at++;
                ref->at += peek(ref) == '\n';
                spsh__builder_append_text(out, "!\n");
                return;
            }
        } else {
            while (peek(ref) >= 0 && peek(ref) != ',' && peek(ref) != '\n') {
                const bool cr =
                    peek(ref) == '\r' && ref->at + 1 < ref->size && ref->text[ref->at + 1] == '\n';
                spsh__builder_append(&ref->row, &ref->text[ref->at++], cr ? 0 : 1);
            }
        }
        spsh__builder_append_text(&ref->row, "]");
        const int c = peek(ref);
        ref->at += c >= 0;
        if (c != ',')
            break;
    }
    spsh__builder_append_bytes(out, spsh__builder_bytes(&ref->row));
    spsh__builder_append_text(out, "\n");
}

static void read_rows(const uint8_t *text, size_t size, spsh__builder *out)
{
    const spsh__dialect dialect = {.kind = SPSH__DIALECT_RFC, .delimiter = ','};
    const spsh__text_memory memory = {text, size};
    spsh__text_input input = spsh__text_input_memory(&memory, "test");
    spsh__row_reader *reader = NULL;
    spsh__row row;
    input.window_bytes = below(2) == 0 ? 0 : 1 + below(300);
    uint64_t line = 1;
    REQUIRE(spsh__row_reader_new(&input, &dialect, &reader, NULL) == SPSH_OK);
    while (spsh__row_reader_next(reader, &row, NULL) == SPSH_OK) {
        for (size_t i = 0; i < row.field_count; i++) {
            spsh__builder_append_text(out, "[");
            spsh__builder_append_bytes(out, row.fields[i]);
            spsh__builder_append_text(out, "]");
        }
        spsh__builder_append_text(out, row.problem == NULL ? "\n" : "!\n");
        uint64_t lines_before = 1;
        for (size_t i = 0; i < row.offset_bytes; i++)
            lines_before += text[i] == '\n';
        CHECK_U64(row.line, lines_before);
        CHECK(row.line >= line);
        line = row.line;
    }
    spsh__row_reader_free(reader);
}

static void test_against_reference(void)
{
    static const char alphabet[] = "a\"\",\n\r";
    for (int i = 0; i < ROUNDS * 50 && test_failures == 0; i++) {
        uint8_t text[48];
        const size_t size = below(sizeof(text));
        spsh__builder got = {0};
        spsh__builder want = {0};
        reference ref = {.text = text, .size = size};
        for (size_t b = 0; b < size; b++)
            text[b] = (uint8_t)alphabet[below(sizeof(alphabet) - 1)];
        read_rows(text, size, &got);
        while (ref.at < size)
            reference_row(&ref, &want);
        CHECK_STR(spsh__builder_text(&got), spsh__builder_text(&want));
        spsh__builder_free(&got);
        spsh__builder_free(&want);
        spsh__builder_free(&ref.row);
    }
}

static void test_json_against_jansson(void)
{
    for (int i = 0; i < ROUNDS * 5 && test_failures == 0; i++) {
        uint8_t text[40];
        const size_t size = below(sizeof(text));
        spsh__builder out = {0};
        for (size_t b = 0; b < size; b++)
            text[b] = (uint8_t)(below(3) == 0 ? below(256) : below(128));
        spsh__json_string(&out, (spsh_bytes){text, size});
        json_t *value = json_loadb((const char *)out.data, out.size_bytes,
                                   JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        CHECK(json_is_string(value));
        if (spsh__utf8_valid((spsh_bytes){text, size}))
            CHECK(json_string_length(value) == size &&
                  memcmp(json_string_value(value), text, size) == 0);
        json_decref(value);
        spsh__builder_free(&out);
    }
}

static int hex_value(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Names are parsed back from their text form, so different names have different texts. */
static void test_names_can_be_undone(void)
{
    for (int i = 0; i < ROUNDS * 5 && test_failures == 0; i++) {
        uint8_t name[40];
        uint8_t back[sizeof(name) * 3];
        size_t size = below(sizeof(name));
        size_t length = 0;
        spsh__builder out = {0};
        for (size_t b = 0; b < size; b++)
            name[b] = (uint8_t)(below(2) == 0 ? below(256) : (uint64_t) "%4aF\n"[below(5)]);
        spsh__name_append(&out, (spsh_bytes){name, size});
        CHECK(spsh__utf8_valid(spsh__builder_bytes(&out)));
        for (size_t b = 0; b < out.size_bytes; b++) {
            const bool escape = out.data[b] == '%' && out.size_bytes - b > 2 &&
                                hex_value(out.data[b + 1]) >= 0 && hex_value(out.data[b + 2]) >= 0;
            CHECK(out.data[b] >= 0x20 && out.data[b] != 0x7f);
            back[length++] = out.data[b];
            if (!escape)
                continue;
            back[length - 1] =
                (uint8_t)(hex_value(out.data[b + 1]) * 16 + hex_value(out.data[b + 2]));
            b += 2;
        }
        CHECK(length == size && memcmp(back, name, size) == 0);
        spsh__builder_free(&out);
    }
}

static void test_times_are_exact(void)
{
    for (int i = 0; i < ROUNDS * 5 && test_failures == 0; i++) {
        char text[64];
        const uint64_t want = below(UINT64_C(1) << (1 + below(60)));
        uint64_t got = 0;
        (void)snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, want / 1000000000,
                       want % 1000000000);
        CHECK(spsh__table_time(spsh__bytes_of(text), UINT64_C(1000000000), &got) == SPSH__TIME_OK);
        CHECK_U64(got, want);
        (void)snprintf(text, sizeof(text), "%" PRIu64 ".%06" PRIu64 "e%d", want / 1000000,
                       want % 1000000, 0);
        CHECK(spsh__table_time(spsh__bytes_of(text), UINT64_C(1000000), &got) == SPSH__TIME_OK);
        CHECK_U64(got, want);
        (void)snprintf(text, sizeof(text), "%" PRIu64 "E-9", want);
        CHECK(spsh__table_time(spsh__bytes_of(text), UINT64_C(1000000000), &got) == SPSH__TIME_OK);
        CHECK_U64(got, want);
    }
}

TEST_MAIN(prop_row_reader)
{
    state = test_seed(20);
    RUN(test_write_read_identity);
    RUN(test_against_reference);
    RUN(test_json_against_jansson);
    RUN(test_names_can_be_undone);
    RUN(test_times_are_exact);
    return TEST_RESULT();
}
