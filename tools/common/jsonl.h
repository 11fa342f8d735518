/* jsonl.h: JSON Lines, as a stream: one object a line, of which some members are wanted.
 *
 *     static const char *const names[] = {"audio_filepath", "duration", "training_data.label"};
 *     rc = spsh__jsonl_reader_new(&input, names, 3, &reader, err);
 *     while ((rc = spsh__jsonl_reader_next(reader, &line, err)) == SPSH_OK)
 *         if (line.problem == NULL) use(&line.values[0], line.extras);
 *     spsh__jsonl_reader_free(reader);            -- rc is SPSH_E_END after the last line
 *
 * Only LF ends a line; one leading UTF-8 byte order mark is dropped, blank lines are skipped. Every
 * line is checked whole (RFC 8259, UTF-8, escapes, halves of surrogate pairs), and nothing is
 * built: a value is a piece of the line. A line that is no object, or longer than
 * SPSH__ROW_BYTES_MAX, is handed out with `problem` set, and reading goes on behind it.
 *
 * Names are matched as they stand between the quotes: a key written with escapes is an unknown one.
 * Of a key that stands twice the last is taken, as most readers do.
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

/** Kinds that the field of a layout may have, a bit each. Any field may be absent or null. */
enum {
    SPSH__JSON_STRINGS = 1U << SPSH__JSON_STRING,
    SPSH__JSON_NAMES = SPSH__JSON_STRINGS | 1U << SPSH__JSON_NUMBER, /* digits are a name, too */
    SPSH__JSON_TIMES = SPSH__JSON_NAMES,                             /* for spsh__json_seconds */
    SPSH__JSON_FLAGS = SPSH__JSON_NAMES | 1U << SPSH__JSON_FALSE | 1U << SPSH__JSON_TRUE,
    SPSH__JSON_NUMBERS = 1U << SPSH__JSON_NUMBER,
    SPSH__JSON_ARRAYS = 1U << SPSH__JSON_ARRAY,
    SPSH__JSON_OBJECTS = 1U << SPSH__JSON_OBJECT,
};

#define SPSH__JSON_KIND_PROBLEM_BYTES 160U

/** A piece of a line that was checked; borrowed as long as the line. */
typedef struct spsh__json_value {
    spsh__json_kind kind;
    bool escaped;   /* a string with escapes */
    spsh_bytes raw; /* as written; of a string, what is between the quotes */
} spsh__json_value;

/** One line. Borrowed until the next call with the same reader. */
typedef struct spsh__jsonl_line {
    const spsh__json_value
        *values;       /* in the order of the names; all ABSENT when there is a problem */
    spsh_bytes extras; /* an object of the members that no name asks for, as written; or empty */
    spsh_bytes raw;    /* the line */
    uint64_t line;     /* 1-based */
    uint64_t offset_bytes; /* of its first byte, or of the byte where the problem is */
    const char *problem;   /* NULL, or what is wrong with it */
} spsh__jsonl_line;

typedef struct spsh__jsonl_reader spsh__jsonl_reader;

/**
 * @param names  "name", or "name.inner" for a member of an object that is a member; at most
 *               SPSH__JSON_NAMES_MAX; borrowed until free, like input
 */
SPSH_NODISCARD spsh_status spsh__jsonl_reader_new(const spsh__text_input *input,
                                                  const char *const *names, size_t name_count,
                                                  spsh__jsonl_reader **ret_reader, spsh_error *err);

/* SPSH_OK: a line; SPSH_E_END: there is none; else what read_at_fn returned, or no memory. */
SPSH_NODISCARD spsh_status spsh__jsonl_reader_next(spsh__jsonl_reader *reader,
                                                   spsh__jsonl_line *ret_line, spsh_error *err);
void spsh__jsonl_reader_free(spsh__jsonl_reader *reader);

/**
 * Check one object and take the named members out of it.
 *
 * @param values      name_count of them; written in any case
 * @param extras      the members that were not asked for are appended as an object, unless there
 * are none; NULL: not wanted
 * @param ret_offset  where the problem is, in text
 * @return NULL, or what is wrong
 */
const char *spsh__json_pick(spsh_bytes text, const char *const *names, size_t name_count,
                            spsh__json_value *values, spsh__builder *extras, size_t *ret_offset);

/**
 * Take the next element out of an array that was checked. rest begins as the array's raw; what is
 * not an array has no elements.
 */
bool spsh__json_array_next(spsh_bytes *rest, spsh__json_value *ret_value);

/* A string's content appended to out, with its escapes resolved. */
void spsh__json_unescape(const spsh__json_value *value, spsh__builder *out);

/* The content of a string: the piece of the line itself, or a copy at out's end where there are
 * escapes (borrowed until out grows). Empty for what is not a string. */
spsh_bytes spsh__json_text(const spsh__json_value *value, spsh__builder *out);

/* A member of an object that begins at out's byte start, with a value as it was written: the first
 * call opens the object (spsh__json_close in json_text.h closes it). Nothing for null and no value.
 */
void spsh__json_value_member(spsh__builder *out, size_t start, const char *key,
                             const spsh__json_value *value);

/* The string's content, or the digits of a number, as spsh__json_text; empty for other kinds. */
spsh_bytes spsh__json_name(const spsh__json_value *value, spsh__builder *out);

/* Return NULL, or a message in buffer about the first value whose kind its field does not allow.
 * kinds[i]: a mask of the kinds of field i, 0 for any. */
const char *spsh__json_kind_problem(const spsh__json_value *values, const char *const *names,
                                    const unsigned *kinds, size_t count,
                                    char buffer[SPSH__JSON_KIND_PROBLEM_BYTES]);

/* A number, or a string that holds one, of seconds, exactly; ABSENT for null and no value. */
spsh__time_result spsh__json_seconds(const spsh__json_value *value, uint64_t *ret_ns);

/* true, a number other than 0, or a string other than "", "0", "false". */
bool spsh__json_truthy(const spsh__json_value *value);

#endif
