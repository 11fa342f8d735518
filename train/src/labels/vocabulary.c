/* vocabulary.c: see vocabulary.h.
 *
 *     texts     strings of all symbols, each with a NUL; symbol i begins at offsets[i]; the string
 *               of the blank is empty
 *     points    symbols that are one code point, sorted by it: to encode a transcript
 *     merges    sorted by (left, right). In a word, the pair with the lowest rank is replaced by
 *               one symbol everywhere, from the left; repeat until no pair has a rank
 *
 * In word pieces a word begins with U+2581. Decoding puts a blank there, and nowhere else.
 */
#include "vocabulary.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "speechshard/inside.h"
#include "vocabulary_internal.h"

enum { WORD_SYMBOLS_MAX = 256, UTF8_BYTES_MAX = 4 };

typedef spsh__point_symbol point_symbol;
typedef spsh__merge merge;

/* ---- construction ---- */

typedef struct text_symbol {
    const char *text;
    uint32_t symbol;
} text_symbol;

static int by_text(const void *a, const void *b)
{
    return strcmp(((const text_symbol *)a)->text, ((const text_symbol *)b)->text);
}

static int by_point(const void *a, const void *b)
{
    const int32_t left = ((const point_symbol *)a)->point;
    const int32_t right = ((const point_symbol *)b)->point;
    return (left > right) - (left < right);
}

static int by_pair(const void *a, const void *b)
{
    const merge *left = (const merge *)a;
    const merge *right = (const merge *)b;
    if (left->left != right->left)
        return left->left < right->left ? -1 : 1;
    return (left->right > right->right) - (left->right < right->right);
}

static spsh_status bad_symbol(const spsh__vocabulary_parts *parts, const char *symbol,
                              const char *what, spsh_error *err)
{
    return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: symbol '%.100s' %s", parts->name, symbol, what);
}

/* Return the code point if text is exactly one, or -1. */
static int32_t only_point(const char *text)
{
    const size_t size = strlen(text);
    int32_t point = -1;
    const utf8proc_ssize_t taken =
        utf8proc_iterate((const uint8_t *)text, (utf8proc_ssize_t)size, &point);
    return taken > 0 && (size_t)taken == size ? point : -1;
}

static spsh_status take_texts(spsh__vocabulary *v, const spsh__vocabulary_parts *parts,
                              spsh_error *err)
{
    size_t size = 1;
    for (size_t i = 0; i < parts->symbol_count; i++)
        size += strlen(parts->symbols[i]) + 1;
    if (size > UINT32_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the symbols are too long", parts->name);
    v->texts = malloc(size);
    v->offsets = malloc(v->size * sizeof(*v->offsets));
    v->points = malloc(v->size * sizeof(*v->points));
    if (v->texts == NULL || v->offsets == NULL || v->points == NULL)
        return SPSH_NO_MEMORY(err);
    v->texts[0] = '\0';
    v->offsets[0] = 0;
    size = 1;
    for (uint32_t i = 1; i < v->size; i++) {
        const char *text = parts->symbols[i - 1];
        const size_t text_size = strlen(text) + 1;
        const int32_t point = only_point(text);
        if (text_size == 1)
            return bad_symbol(parts, text, "is empty", err);
        if (!v->has_pieces && point < 0)
            return bad_symbol(parts, text, "is not a single character", err);
        if (v->has_pieces && strchr(text, ' ') != NULL)
            return bad_symbol(parts, text, "contains a blank", err);
        memcpy(v->texts + size, text, text_size);
        v->offsets[i] = (uint32_t)size;
        size += text_size;
        if (point >= 0)
            v->points[v->point_count++] = (point_symbol){point, i};
        if (point >= 0 && point < SPSH__ASCII)
            v->ascii[point] = i;
        if (point == SPSH__POINT_WORD)
            v->word_begin = i;
    }
    qsort(v->points, v->point_count, sizeof(*v->points), by_point);
    return SPSH_OK;
}

/* Return the symbol with this text, or 0. */
static uint32_t symbol_of_text(const text_symbol *sorted, size_t count, const char *text)
{
    const text_symbol key = {text, 0};
    const text_symbol *found = bsearch(&key, sorted, count, sizeof(*sorted), by_text);
    return found == NULL ? 0 : found->symbol;
}

/* text: "left right"; whole: buffer that is large enough for the joined text. */
static spsh_status take_merge(const spsh__vocabulary_parts *parts, const text_symbol *sorted,
                              const char *text, char *whole, merge *ret)
{
    const char *blank = strchr(text, ' ');
    const size_t left_size = blank == NULL ? 0 : (size_t)(blank - text);
    memcpy(whole, text, left_size);
    whole[left_size] = '\0';
    ret->left = symbol_of_text(sorted, parts->symbol_count, whole);
    ret->right =
        blank == NULL ? 0 : symbol_of_text(sorted, parts->symbol_count, text + left_size + 1);
    if (ret->left == 0 || ret->right == 0)
        return SPSH_E_SYNTAX;
    memcpy(whole + left_size, text + left_size + 1, strlen(text) - left_size);
    ret->whole = symbol_of_text(sorted, parts->symbol_count, whole);
    return ret->whole == 0 ? SPSH_E_SYNTAX : SPSH_OK;
}

static spsh_status take_merges(spsh__vocabulary *v, const spsh__vocabulary_parts *parts,
                               const text_symbol *sorted, spsh_error *err)
{
    size_t longest = 0;
    for (size_t i = 0; i < parts->merge_count; i++) {
        const size_t size = strlen(parts->merges[i]);
        longest = size > longest ? size : longest;
    }
    char *whole = malloc(longest + 1);
    v->merges = malloc((parts->merge_count + 1) * sizeof(*v->merges));
    spsh_status rc = whole == NULL || v->merges == NULL ? SPSH_NO_MEMORY(err) : SPSH_OK;
    for (size_t i = 0; i < parts->merge_count && rc == SPSH_OK; i++) {
        v->merges[i].rank = (uint32_t)i;
        rc = take_merge(parts, sorted, parts->merges[i], whole, &v->merges[i]);
        if (rc != SPSH_OK)
            rc = SPSH_FAIL(err, rc,
                           "%s: merge '%.100s' is not two symbols that together are a third",
                           parts->name, parts->merges[i]);
    }
    v->merge_count = (uint32_t)parts->merge_count;
    if (rc == SPSH_OK)
        qsort(v->merges, v->merge_count, sizeof(*v->merges), by_pair);
    for (size_t i = 1; i < v->merge_count && rc == SPSH_OK; i++) {
        if (by_pair(&v->merges[i - 1], &v->merges[i]) == 0)
            rc = SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: merge '%.100s %.100s' appears twice",
                           parts->name, spsh__symbol_text(v, v->merges[i].left),
                           spsh__symbol_text(v, v->merges[i].right));
    }
    free(whole);
    return rc;
}

/* Call after take_texts. Sort symbols by text; a text must not repeat. */
static spsh_status sort_texts(const spsh__vocabulary *v, const spsh__vocabulary_parts *parts,
                              text_symbol **ret_sorted, spsh_error *err)
{
    text_symbol *sorted = malloc(v->size * sizeof(*sorted));
    if (sorted == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint32_t i = 1; i < v->size; i++)
        sorted[i - 1] = (text_symbol){spsh__symbol_text(v, i), i};
    qsort(sorted, v->size - 1, sizeof(*sorted), by_text);
    for (uint32_t i = 1; i + 1 < v->size; i++) {
        if (by_text(&sorted[i - 1], &sorted[i]) == 0) {
            const spsh_status rc = bad_symbol(parts, sorted[i].text, "appears twice", err);
            free(sorted);
            return rc;
        }
    }
    *ret_sorted = sorted;
    return SPSH_OK;
}

spsh_status spsh__vocabulary_build(const spsh__vocabulary_parts *parts, spsh__vocabulary **ret,
                                   spsh_error *err)
{
    spsh__vocabulary *v = NULL;
    text_symbol *sorted = NULL;
    spsh_status rc = SPSH_OK;
    if (parts->symbol_count == 0)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "%s: the vocabulary has no symbols", parts->name);
    if (parts->symbol_count >= SPSH__VOCABULARY_SYMBOLS_MAX ||
        parts->merge_count >= SPSH__VOCABULARY_SYMBOLS_MAX)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "%s: the vocabulary has more than %u symbols",
                         parts->name, SPSH__VOCABULARY_SYMBOLS_MAX - 1);
    if (!parts->has_pieces && parts->merge_count > 0)
        return SPSH_FAIL(
            err, SPSH_E_SYNTAX,
            "%s: a vocabulary of kind characters has no merges, but the file lists some",
            parts->name);
    v = calloc(1, sizeof(*v));
    if (v == NULL)
        return SPSH_NO_MEMORY(err);
    v->has_pieces = parts->has_pieces;
    v->form = parts->form;
    v->size = (uint32_t)parts->symbol_count + 1;
    rc = take_texts(v, parts, err);
    if (rc == SPSH_OK)
        rc = sort_texts(v, parts, &sorted, err);
    if (rc == SPSH_OK)
        rc = take_merges(v, parts, sorted, err);
    free(sorted);
    if (rc == SPSH_OK) {
        *ret = v;
        v = NULL;
    }
    spsh__vocabulary_free(v);
    return rc;
}

void spsh__vocabulary_free(spsh__vocabulary *v)
{
    if (v == NULL)
        return;
    free(v->texts);
    free(v->offsets);
    free(v->points);
    free(v->merges);
    free(v);
}

uint32_t spsh__vocabulary_size(const spsh__vocabulary *v)
{
    return v->size;
}

/* ---- text to symbols ---- */

typedef struct encoding {
    const spsh__vocabulary *v;
    uint32_t *labels;
    uint32_t capacity, count, dropped;
    bool is_full;
    bool is_in_word;
    uint32_t word[WORD_SYMBOLS_MAX];
    uint32_t word_count;
} encoding;

static uint32_t symbol_of_point(const spsh__vocabulary *v, int32_t point)
{
    const point_symbol key = {point, 0};
    if (point < SPSH__ASCII)
        return v->ascii[point];
    const point_symbol *found =
        bsearch(&key, v->points, v->point_count, sizeof(*v->points), by_point);
    return found == NULL ? 0 : found->symbol;
}

static void put_label(encoding *e, uint32_t symbol)
{
    if (e->count < e->capacity)
        e->labels[e->count++] = symbol;
    else
        e->is_full = true;
}

static void encode_character(void *user, int32_t point)
{
    encoding *e = (encoding *)user;
    const uint32_t symbol = symbol_of_point(e->v, point);
    if (symbol == 0)
        e->dropped++;
    else
        put_label(e, symbol);
}

/* Return the merge of lowest rank among all pairs of the word, or NULL. */
static const merge *first_merge(const encoding *e)
{
    const merge *first = NULL;
    for (uint32_t i = 0; i + 1 < e->word_count; i++) {
        const merge key = {e->word[i], e->word[i + 1], 0, 0};
        const merge *found = bsearch(&key, e->v->merges, e->v->merge_count, sizeof(key), by_pair);
        if (found != NULL && (first == NULL || found->rank < first->rank))
            first = found;
    }
    return first;
}

static void end_word(encoding *e)
{
    for (const merge *m = first_merge(e); m != NULL; m = first_merge(e)) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < e->word_count; i++) {
            const bool is_pair =
                i + 1 < e->word_count && e->word[i] == m->left && e->word[i + 1] == m->right;
            e->word[kept++] = is_pair ? m->whole : e->word[i];
            i += is_pair ? 1 : 0;
        }
        e->word_count = kept;
    }
    for (uint32_t i = 0; i < e->word_count; i++)
        put_label(e, e->word[i]);
    e->word_count = 0;
}

static void put_part(encoding *e, uint32_t symbol)
{
    if (e->word_count == WORD_SYMBOLS_MAX)
        end_word(e); /* longer than any real word; the rest becomes a separate word */
    if (symbol != 0)
        e->word[e->word_count++] = symbol;
}

static void encode_piece(void *user, int32_t point)
{
    encoding *e = (encoding *)user;
    if (point == ' ') {
        end_word(e);
        e->is_in_word = false;
        return;
    }
    const uint32_t symbol = symbol_of_point(e->v, point);
    if (symbol == 0) {
        e->dropped++;
        return;
    }
    if (!e->is_in_word)
        put_part(e, e->v->word_begin);
    e->is_in_word = true;
    put_part(e, symbol);
}

/* The functions write through the structs that hold these parameters.
 * NOLINTBEGIN(readability-non-const-parameter) */
spsh_status spsh__vocabulary_encode(const spsh__vocabulary *v, spsh_bytes text, uint32_t *labels,
                                    uint32_t capacity, uint32_t *ret_count, uint32_t *ret_dropped,
                                    spsh_error *err)
{
    encoding e = {.v = v, .labels = labels, .capacity = capacity};
    spsh__text_points(v->form, text, v->has_pieces ? encode_piece : encode_character, &e);
    if (v->has_pieces)
        end_word(&e);
    if (e.is_full)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "a transcript has more than %u symbols", capacity);
    *ret_count = e.count;
    *ret_dropped = e.dropped;
    return SPSH_OK;
}

/* NOLINTEND(readability-non-const-parameter) */

typedef struct search {
    const spsh__vocabulary *v;
    uint64_t count;
    void (*point_fn)(void *user, int32_t point);
    void *user;
} search;

static void search_point(void *user, int32_t point)
{
    search *s = (search *)user;
    const bool is_known = symbol_of_point(s->v, point) != 0 || (s->v->has_pieces && point == ' ');
    s->count++;
    if (!is_known)
        s->point_fn(s->user, point);
}

uint64_t spsh__vocabulary_unknown(const spsh__vocabulary *v, spsh_bytes text,
                                  void (*point_fn)(void *user, int32_t point), void *user)
{
    search s = {v, 0, point_fn, user};
    spsh__text_points(v->form, text, search_point, &s);
    return s.count;
}

/* ---- symbols to text ---- */

typedef struct out_text {
    char *text;
    size_t capacity, size;
    bool owes_blank;
} out_text;

static void put_bytes(out_text *out, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++, out->size++)
        if (out->size + 1 < out->capacity)
            out->text[out->size] = bytes[i];
}

static void put_point(void *user, int32_t point)
{
    out_text *out = (out_text *)user;
    char bytes[UTF8_BYTES_MAX];
    if (point == ' ' || point == SPSH__POINT_WORD) {
        out->owes_blank = out->size > 0;
        return;
    }
    if (out->owes_blank)
        put_bytes(out, " ", 1);
    out->owes_blank = false;
    put_bytes(out, bytes, (size_t)utf8proc_encode_char(point, (uint8_t *)bytes));
}

static size_t end_text(out_text *out)
{
    size_t end = out->size < out->capacity ? out->size : out->capacity - 1;
    if (out->capacity == 0)
        return out->size;
    while (end < out->size && end > 0 && ((uint8_t)out->text[end - 1] & 0xc0) == 0x80)
        end--; /* continuation bytes of a truncated character */
    if (end < out->size && end > 0 && ((uint8_t)out->text[end - 1] & 0xc0) == 0xc0)
        end--; /* and its first byte */
    out->text[end] = '\0';
    return out->size;
}

/* NOLINTBEGIN(readability-non-const-parameter) */
size_t spsh__vocabulary_decode(const spsh__vocabulary *v, const uint32_t *labels, uint32_t count,
                               char *text, size_t capacity)
{
    out_text out = {text, capacity, 0, false};
    for (uint32_t i = 0; i < count; i++) {
        if (labels[i] == 0 || labels[i] >= v->size)
            continue;
        const uint8_t *at = (const uint8_t *)spsh__symbol_text(v, labels[i]);
        int32_t point = 0;
        for (utf8proc_ssize_t size = 0; *at != '\0'; at += size) {
            size = utf8proc_iterate(at, -1, &point);
            if (size <= 0)
                break;
            put_point(&out, point);
        }
    }
    return end_text(&out);
}

size_t spsh__vocabulary_normalise(const spsh__vocabulary *v, spsh_bytes text, char *normalised,
                                  size_t capacity)
{
    out_text out = {normalised, capacity, 0, false};
    spsh__text_points(v->form, text, put_point, &out);
    return end_text(&out);
}
/* NOLINTEND(readability-non-const-parameter) */
