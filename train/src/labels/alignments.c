/* alignments.c: see alignments.h.
 *
 *     runs  | state << 10, length - 1 | ... of the first utterance, of the second, ...
 *     ids   bytes, without gaps
 *     table hash table with open addressing: index of an utterance, by the XXH3-64 of its id. Its
 *           size is a power of two, and at most half of it is used
 */
#include "alignments.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "speechshard/inside.h"

enum {
    RUN_BITS = 10,
    RUN_FRAMES_MAX = 1 << RUN_BITS,
    READ_BYTES = 1 << 17,
    ID_BYTES_MAX = 4096,
    TABLE_AT_FIRST = 1024,
    AT_FIRST = 4096,
};
#define NONE           UINT32_MAX
#define UTTERANCES_MAX (UINT32_C(1) << 30)

typedef struct aligned {
    uint64_t id_hash, id_at, run_at;
    uint32_t id_size, frames;
} aligned;

struct spsh__alignments {
    uint32_t *runs;
    uint64_t run_count, run_capacity;
    uint8_t *ids;
    uint64_t id_bytes, id_capacity;
    aligned *utterances;
    uint64_t count, capacity;
    uint32_t *table; /* NONE: free slot */
    uint64_t table_size;
    uint64_t frame_count;
    uint32_t greatest;
};

/* One file, byte by byte. */
typedef struct reader {
    spsh__alignments *a;
    const char *path;
    struct archive *archive;
    uint64_t line;
    size_t at, size;
    uint8_t bytes[READ_BYTES];
    uint8_t id[ID_BYTES_MAX];
} reader;

enum { AT_END = -1, HAS_FAILED = -2 }; /* returned instead of a byte */

static spsh_status fail_line(const reader *r, const char *what, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: line %llu: %s", r->path, (unsigned long long)r->line,
                     what);
}

/* Ensure capacity for `more` further elements; *memory may move. */
static bool ensure_capacity(void **memory, uint64_t count, uint64_t more, uint64_t *capacity,
                            size_t element_bytes)
{
    if (count + more <= *capacity)
        return true;
    const uint64_t wanted = *capacity + *capacity / 2 + more + AT_FIRST;
    void *moved = realloc(*memory, wanted * element_bytes);
    if (moved == NULL)
        return false;
    *memory = moved;
    *capacity = wanted;
    return true;
}

/* ---- the table ---- */

/* Position of the utterance in the table, or the free slot for it. id NULL: match only the hash. */
static uint64_t place_of(const spsh__alignments *a, uint64_t hash, const spsh_bytes *id)
{
    uint64_t place = hash & (a->table_size - 1);
    for (; a->table[place] != NONE; place = (place + 1) & (a->table_size - 1)) {
        const aligned *u = &a->utterances[a->table[place]];
        if (u->id_hash == hash &&
            (id == NULL || (u->id_size == id->size_bytes &&
                            memcmp(a->ids + u->id_at, id->data, u->id_size) == 0)))
            break;
    }
    return place;
}

static bool grow_table(spsh__alignments *a)
{
    const uint64_t size = a->table_size == 0 ? TABLE_AT_FIRST : 2 * a->table_size;
    uint32_t *table = malloc(size * sizeof(*table));
    if (table == NULL)
        return false;
    free(a->table);
    a->table = table;
    a->table_size = size;
    memset(table, 0xff, size * sizeof(*table));
    for (uint32_t i = 0; i < a->count; i++) {
        const spsh_bytes id = spsh__alignments_id(a, i);
        table[place_of(a, a->utterances[i].id_hash, &id)] = i;
    }
    return true;
}

/* ---- reading ---- */

static spsh_status fail_reading(const reader *r, spsh_error *err)
{
    const char *what = archive_error_string(r->archive);
    const int os_errno = archive_errno(r->archive);
    const spsh_status rc = os_errno == ENOENT   ? SPSH_E_NOT_FOUND
                           : os_errno == ENOMEM ? SPSH_E_NO_MEMORY
                           : os_errno > 0       ? SPSH_E_IO
                                                : SPSH_E_CORRUPT;
    return SPSH_FAIL(err, rc, "%s: cannot read alignments: %s", r->path,
                     what == NULL ? strerror(os_errno) : what);
}

static int next_piece(reader *r)
{
    const la_ssize_t got = archive_read_data(r->archive, r->bytes, sizeof(r->bytes));
    if (got <= 0)
        return got == 0 ? AT_END : HAS_FAILED;
    r->size = (size_t)got;
    r->at = 1;
    return r->bytes[0];
}

static inline int next_byte(reader *r)
{
    return r->at < r->size ? r->bytes[r->at++] : next_piece(r);
}

static bool is_blank(int byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static bool is_line_end(int byte)
{
    return byte == '\n' || byte < 0;
}

static int skip_blanks(reader *r, int byte)
{
    while (is_blank(byte))
        byte = next_byte(r);
    return byte;
}

/* Take the id that begins with *byte. *byte becomes the byte after the id. */
static spsh_status take_id(reader *r, int *byte, spsh_bytes *ret, spsh_error *err)
{
    size_t size = 0;
    for (; !is_blank(*byte) && !is_line_end(*byte); *byte = next_byte(r)) {
        if (*byte < ' ')
            return fail_line(r, "not a text file; write it in Kaldi as ark,t:", err);
        if (size == ID_BYTES_MAX)
            return fail_line(r, "the id is longer than 4096 bytes", err);
        r->id[size++] = (uint8_t)*byte;
    }
    *ret = (spsh_bytes){r->id, size};
    return SPSH_OK;
}

/* Take the number that begins with *byte. */
static spsh_status take_state(reader *r, int *byte, uint32_t *ret, spsh_error *err)
{
    uint32_t state = 0;
    do {
        if (*byte == '\0')
            return fail_line(r, "not a text file; write it in Kaldi as ark,t:", err);
        if (*byte < '0' || *byte > '9')
            return fail_line(r, "a state is not a whole number", err);
        state = 10 * state + (uint32_t)(*byte - '0');
        if (state >= SPSH__ALIGNMENT_STATES_MAX)
            return fail_line(r, "a state is greater than 4194303", err);
        *byte = next_byte(r);
    } while (!is_blank(*byte) && !is_line_end(*byte));
    *ret = state;
    return SPSH_OK;
}

static spsh_status add_frame(spsh__alignments *a, aligned *u, uint32_t state, spsh_error *err)
{
    uint32_t *last = a->run_count > u->run_at ? &a->runs[a->run_count - 1] : NULL;
    if (u->frames == UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "an alignment has too many frames");
    u->frames++;
    a->frame_count++;
    a->greatest = state > a->greatest ? state : a->greatest;
    if (last != NULL && *last >> RUN_BITS == state &&
        (*last & (RUN_FRAMES_MAX - 1)) < RUN_FRAMES_MAX - 1) {
        ++*last;
        return SPSH_OK;
    }
    if (!ensure_capacity((void **)&a->runs, a->run_count, 1, &a->run_capacity, sizeof(*a->runs)))
        return SPSH_NO_MEMORY(err);
    a->runs[a->run_count++] = state << RUN_BITS;
    return SPSH_OK;
}

/* Add an utterance without frames. */
static spsh_status add_utterance(reader *r, spsh_bytes id, aligned **ret, spsh_error *err)
{
    spsh__alignments *a = r->a;
    if (a->count == UTTERANCES_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: too many utterances", r->path);
    if (2 * (a->count + 1) > a->table_size && !grow_table(a))
        return SPSH_NO_MEMORY(err);
    const uint64_t hash = XXH3_64bits(id.data, id.size_bytes);
    const uint64_t place = place_of(a, hash, &id);
    if (a->table[place] != NONE)
        return SPSH_FAIL(err, SPSH_E_SYNTAX,
                         "%s: line %llu: utterance '%.*s' already has an alignment", r->path,
                         (unsigned long long)r->line,
                         (int)(id.size_bytes < 100 ? id.size_bytes : 100), (const char *)id.data);
    if (!ensure_capacity((void **)&a->ids, a->id_bytes, id.size_bytes, &a->id_capacity, 1) ||
        !ensure_capacity((void **)&a->utterances, a->count, 1, &a->capacity,
                         sizeof(*a->utterances)))
        return SPSH_NO_MEMORY(err);
    memcpy(a->ids + a->id_bytes, id.data, id.size_bytes);
    a->utterances[a->count] =
        (aligned){hash, a->id_bytes, a->run_count, (uint32_t)id.size_bytes, 0};
    a->id_bytes += id.size_bytes;
    a->table[place] = (uint32_t)a->count;
    *ret = &a->utterances[a->count++];
    return SPSH_OK;
}

/* Take a line that is not empty. *byte is its first non-blank byte on entry, its end on return. */
static spsh_status take_line(reader *r, int *byte, spsh_error *err)
{
    spsh_bytes id = {NULL, 0};
    aligned *utterance = NULL;
    spsh_status rc = take_id(r, byte, &id, err);
    if (rc == SPSH_OK)
        rc = add_utterance(r, id, &utterance, err);
    while (rc == SPSH_OK) {
        uint32_t state = 0;
        *byte = skip_blanks(r, *byte);
        if (is_line_end(*byte))
            break;
        rc = take_state(r, byte, &state, err);
        if (rc == SPSH_OK)
            rc = add_frame(r->a, utterance, state, err);
    }
    return rc;
}

static spsh_status take_lines(reader *r, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    int byte = 0;
    while (rc == SPSH_OK && byte >= 0) {
        r->line++;
        byte = skip_blanks(r, next_byte(r));
        if (!is_line_end(byte))
            rc = take_line(r, &byte, err);
    }
    return rc == SPSH_OK && byte == HAS_FAILED ? fail_reading(r, err) : rc;
}

static spsh_status take_file(reader *r, const char *path, spsh_error *err)
{
    struct archive_entry *entry = NULL;
    r->path = path;
    r->line = r->at = r->size = 0;
    r->archive = archive_read_new();
    if (r->archive == NULL)
        return SPSH_NO_MEMORY(err);
    /* If a filter needs an external program, libarchive warns, but the filter works. */
    (void)archive_read_support_filter_gzip(r->archive);
    (void)archive_read_support_filter_bzip2(r->archive);
    (void)archive_read_support_filter_xz(r->archive);
    (void)archive_read_support_filter_lz4(r->archive);
    (void)archive_read_support_filter_zstd(r->archive);
    (void)archive_read_support_format_raw(r->archive);
    (void)archive_read_support_format_empty(r->archive);
    spsh_status rc = SPSH_OK;
    if (archive_read_open_filename(r->archive, path, READ_BYTES) != ARCHIVE_OK) {
        rc = fail_reading(r, err);
    } else {
        const int found = archive_read_next_header(r->archive, &entry);
        if (found == ARCHIVE_OK || found == ARCHIVE_WARN)
            rc = take_lines(r, err);
        else if (found != ARCHIVE_EOF)
            rc = fail_reading(r, err);
    }
    (void)archive_read_free(r->archive);
    return rc;
}

spsh_status spsh__alignments_read(const char *const *paths, spsh__alignments **ret, spsh_error *err)
{
    spsh__alignments *a = calloc(1, sizeof(*a));
    reader *r = malloc(sizeof(*r));
    spsh_status rc = a == NULL || r == NULL || !grow_table(a) ? SPSH_NO_MEMORY(err) : SPSH_OK;
    if (rc == SPSH_OK)
        r->a = a;
    for (size_t i = 0; rc == SPSH_OK && paths[i] != NULL; i++)
        rc = take_file(r, paths[i], err);
    free(r);
    if (rc == SPSH_OK) {
        uint32_t *runs = realloc(a->runs, (a->run_count + 1) * sizeof(*runs));
        a->runs = runs != NULL ? runs : a->runs; /* shrink: returns the unused memory */
        a->run_capacity = runs != NULL ? a->run_count + 1 : a->run_capacity;
        *ret = a;
        a = NULL;
    }
    spsh__alignments_free(a);
    return rc;
}

void spsh__alignments_free(spsh__alignments *a)
{
    if (a == NULL)
        return;
    free(a->runs);
    free(a->ids);
    free(a->utterances);
    free(a->table);
    free(a);
}

/* ---- queries ---- */

uint32_t spsh__alignments_count(const spsh__alignments *a)
{
    return (uint32_t)a->count;
}

uint64_t spsh__alignments_frame_count(const spsh__alignments *a)
{
    return a->frame_count;
}

uint32_t spsh__alignments_greatest(const spsh__alignments *a)
{
    return a->greatest;
}

uint64_t spsh__alignments_bytes(const spsh__alignments *a)
{
    return sizeof(*a) + a->run_capacity * sizeof(*a->runs) + a->id_capacity +
           a->capacity * sizeof(*a->utterances) + a->table_size * sizeof(*a->table);
}

spsh_bytes spsh__alignments_id(const spsh__alignments *a, uint32_t number)
{
    const aligned *u = &a->utterances[number];
    return (spsh_bytes){a->ids + u->id_at, u->id_size};
}

static bool find(const spsh__alignments *a, uint64_t hash, const spsh_bytes *id,
                 uint32_t *ret_number)
{
    const uint32_t number = a->table[place_of(a, hash, id)];
    if (number == NONE)
        return false;
    *ret_number = number;
    return true;
}

bool spsh__alignments_find(const spsh__alignments *a, spsh_bytes id, uint32_t *ret_number)
{
    return find(a, XXH3_64bits(id.data, id.size_bytes), &id, ret_number);
}

bool spsh__alignments_find_hash(const spsh__alignments *a, uint64_t id_hash, uint32_t *ret_number)
{
    return find(a, id_hash, NULL, ret_number);
}

/* Frame t of `frames` is in the middle of its share of plain_frames. If the alignment is longer or
 * shorter, half of the difference is at the beginning. */
bool spsh__alignments_states(const spsh__alignments *a, uint32_t number, uint32_t plain_frames,
                             uint32_t frames, uint32_t *states)
{
    const aligned *u = &a->utterances[number];
    const int64_t off = (int64_t)u->frames - plain_frames;
    if (u->frames == 0 || off > SPSH__ALIGNMENT_FRAMES_OFF_MAX ||
        -off > (int64_t)SPSH__ALIGNMENT_FRAMES_OFF_MAX)
        return false;
    const uint32_t *run = a->runs + u->run_at;
    int64_t run_end = (*run & (RUN_FRAMES_MAX - 1)) + 1; /* index of the frame after the run */
    for (uint32_t t = 0; t < frames; t++) {
        const uint64_t plain = (2 * (uint64_t)t + 1) * plain_frames / (2 * (uint64_t)frames);
        int64_t wanted = (int64_t)plain + off / 2;
        wanted = wanted < 0 ? 0 : wanted >= u->frames ? (int64_t)u->frames - 1 : wanted;
        while (wanted >= run_end)
            run_end += (*++run & (RUN_FRAMES_MAX - 1)) + 1;
        states[t] = *run >> RUN_BITS;
    }
    return true;
}
