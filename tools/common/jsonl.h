/* jsonl.h: stream JSON Lines: one object per line, of which only some members are requested.
 *
 *     static const char *const names[] = {"audio_filepath", "duration", "training_data.label"};
 *     rc = spsh__jsonl_reader_new(&input, names, 3, &reader, err);
 *     while ((rc = spsh__jsonl_reader_next(reader, &line, err)) == SPSH_OK)
 *         if (line.problem == NULL) use(&line.values[0], line.extras);
 *     spsh__jsonl_reader_free(reader);            -- rc is SPSH_E_END after the last line
 *
 * Only LF ends a line. One leading UTF-8 byte order mark is dropped, and blank lines are skipped.
 * Every line is checked completely (RFC 8259, UTF-8, escapes, surrogate pairs), and no tree is
 * built: a value is a piece of the line. A line that is not an object, or that is longer than
 * SPSH__ROW_BYTES_MAX, is returned with `problem` set, and reading resumes after it.
 *
 * Names are compared with the bytes between the quotes, so a key with escapes is an unknown key.
 * If a key occurs twice, its last value counts, as in most readers.
 */
#ifndef SPSH_INGEST_JSONL_H
#define SPSH_INGEST_JSONL_H

#include "byte_builder.h"
#include "row_reader.h"
#include "time_text.h"

#define SPSH__JSON_DEPTH_MAX 64U
#define SPSH__JSON_NAMES_MAX 32U

typedef enum spsh__json_kind {
    SPSH__JSON_ABSENT,
    SPSH__JSON_NULL,
    SPSH__JSON_FALSE,
    SPSH__JSON_TRUE,
    SPSH__JSON_NUMBER,
    SPSH__JSON_STRING,
    SPSH__JSON_ARRAY,
    SPSH__JSON_OBJECT,
} spsh__json_kind;

/** Kinds that a field of a layout may have, one bit per kind. Any field may be absent or null. */
enum {
    SPSH__JSON_STRINGS = 1U << SPSH__JSON_STRING,
    SPSH__JSON_NAMES = SPSH__JSON_STRINGS | 1U << SPSH__JSON_NUMBER, /* a number is accepted as a
                                                                        name, too */
    SPSH__JSON_TIMES = SPSH__JSON_NAMES,                             /* for spsh__json_seconds */
    SPSH__JSON_FLAGS = SPSH__JSON_NAMES | 1U << SPSH__JSON_FALSE | 1U << SPSH__JSON_TRUE,
    SPSH__JSON_NUMBERS = 1U << SPSH__JSON_NUMBER,
    SPSH__JSON_ARRAYS = 1U << SPSH__JSON_ARRAY,
    SPSH__JSON_OBJECTS = 1U << SPSH__JSON_OBJECT,
};

#define SPSH__JSON_KIND_PROBLEM_BYTES 160U

/** A checked piece of a line. Borrowed as long as the line. */
typedef struct spsh__json_value {
    spsh__json_kind kind;
    bool escaped;   /* a string with escapes */
    spsh_bytes raw; /* bytes as written; of a string, the bytes between the quotes */
} spsh__json_value;

/** One line. Borrowed until the next call with the same reader. */
typedef struct spsh__jsonl_line {
    const spsh__json_value
        *values;           /* in the order of the names; all ABSENT if there is a problem */
    spsh_bytes extras;     /* object of the members that no name requests, as written; or empty */
    spsh_bytes raw;        /* the line */
    uint64_t line;         /* 1-based */
    uint64_t offset_bytes; /* offset of its first byte, or of the byte with the problem */
    const char *problem;   /* NULL, or a message about the problem */
} spsh__jsonl_line;

typedef struct spsh__jsonl_reader spsh__jsonl_reader;

/**
 * @param names  "name", or "name.inner" for a member of an object that is a member; at most
 *               SPSH__JSON_NAMES_MAX; borrowed until free, like input
 */
SPSH_NODISCARD spsh_status spsh__jsonl_reader_new(const spsh__text_input *input,
                                                  const char *const *names, size_t name_count,
                                                  spsh__jsonl_reader **ret_reader, spsh_error *err);

/* Return the next line. SPSH_E_END: no more lines; SPSH_E_NO_MEMORY; or any error of read_at_fn. */
SPSH_NODISCARD spsh_status spsh__jsonl_reader_next(spsh__jsonl_reader *reader,
                                                   spsh__jsonl_line *ret_line, spsh_error *err);
void spsh__jsonl_reader_free(spsh__jsonl_reader *reader);

/**
 * Check one object and take the named members out of it.
 *
 * @param values      name_count values; always written
 * @param extras      gets the members that no name requests, as one object, if there are any;
 *                    NULL: not wanted
 * @param ret_offset  offset of the problem in text
 * @return NULL, or a message about the problem
 */
const char *spsh__json_pick(spsh_bytes text, const char *const *names, size_t name_count,
                            spsh__json_value *values, spsh__builder *extras, size_t *ret_offset);

/**
 * Take the next element out of a checked array. rest starts as the array's raw. A value that is not
 * an array has no elements.
 */
bool spsh__json_array_next(spsh_bytes *rest, spsh__json_value *ret_value);

/* Append a string's content to out, with its escapes resolved. */
void spsh__json_unescape(const spsh__json_value *value, spsh__builder *out);

/* Return the content of a string: a piece of the line, or for a string with escapes a copy at the
 * end of out (borrowed until out grows). Empty if value is not a string. */
spsh_bytes spsh__json_text(const spsh__json_value *value, spsh__builder *out);

/* Append a member with a value as it was written, to the object that starts at byte start of out.
 * The first call opens the object, and spsh__json_close (json_text.h) closes it. Does nothing for
 * null and for an absent value.
 */
void spsh__json_value_member(spsh__builder *out, size_t start, const char *key,
                             const spsh__json_value *value);

/* Return the content of a string, or the digits of a number, like spsh__json_text. Empty for other
 * kinds. */
spsh_bytes spsh__json_name(const spsh__json_value *value, spsh__builder *out);

/* Return NULL, or a message in buffer about the first value whose kind its field does not allow.
 * kinds[i]: a mask of the kinds of field i, 0 for any. */
const char *spsh__json_kind_problem(const spsh__json_value *values, const char *const *names,
                                    const unsigned *kinds, size_t count,
                                    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES]);

/* Parse a number of seconds, or a string with such a number, exactly. ABSENT for null and for an
 * absent value. */
spsh__time_result spsh__json_seconds(const spsh__json_value *value, uint64_t *ret_ns);

/* True for true, a number other than 0, or a string other than "", "0", "false", "False". */
bool spsh__json_truthy(const spsh__json_value *value);

#endif
