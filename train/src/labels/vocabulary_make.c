/* vocabulary_make.c: make a vocabulary from the transcripts of datasets.
 *
 * Characters: count all, take the most frequent ones up to the requested size, and sort them by
 * code point.
 *
 * Word pieces (Gage 1994, Sennrich and others 2016): count the words, each a row of characters
 * after U+2581. Merge the most frequent pair of adjacent symbols, weighted by the counts of the
 * words, into one symbol everywhere. Repeat until there are enough symbols or no pair occurs twice.
 * Pair counts are kept between merges. A merge updates only the counts from words that it changes:
 * it scans each word once, and pairs are counted in full only once.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/new_text.h"
#include "speechshard/inside.h"
#include "vocabulary_internal.h"

enum {
    WORD_POINTS_MAX = 64, /* code points per counted word; a longer word is cut into several */
    UTF8_BYTES_MAX = 4,
    ROWS_AT_ONCE = 256,
    NAME_BYTES_MAX = 256,
    POINTS = 0x110000
};
#define WORDS_MAX (UINT64_C(1) << 24)
#define NOTHING   UINT32_MAX

/* ---- counts ---- */

typedef struct word {
    size_t offset; /* in counting.points */
    uint32_t size;
    uint64_t count;
} word;

typedef struct counting {
    bool has_pieces;
    uint64_t *point_counts; /* capacity: POINTS code points */
    int32_t *points;        /* code points of all words */
    size_t point_count, point_capacity;
    word *words;
    size_t word_count, word_capacity;
    uint32_t *table; /* hash table of words; NOTHING: empty slot */
    size_t table_size;
    int32_t current[WORD_POINTS_MAX];
    uint32_t current_size;
    bool has_failed, has_too_many;
} counting;

static uint64_t hash_of_points(const int32_t *points, uint32_t count)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)points[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Double the table and insert all words again. */
static bool grow_table(counting *c)
{
    const size_t size = c->table_size == 0 ? 4096 : 2 * c->table_size;
    uint32_t *table = malloc(size * sizeof(*table));
    if (table == NULL)
        return false;
    for (size_t i = 0; i < size; i++)
        table[i] = NOTHING;
    for (size_t w = 0; w < c->word_count; w++) {
        size_t at = hash_of_points(c->points + c->words[w].offset, c->words[w].size) & (size - 1);
        while (table[at] != NOTHING)
            at = (at + 1) & (size - 1);
        table[at] = (uint32_t)w;
    }
    free(c->table);
    c->table = table;
    c->table_size = size;
    return true;
}

/* Append the current word as a new one. The caller adds it to the table. */
static bool add_word(counting *c)
{
    if (c->word_count == c->word_capacity) {
        const size_t capacity = 2 * c->word_capacity + 1024;
        word *words = realloc(c->words, capacity * sizeof(*words));
        if (words == NULL)
            return false;
        c->words = words;
        c->word_capacity = capacity;
    }
    if (c->point_capacity - c->point_count < c->current_size) {
        const size_t capacity = 2 * c->point_capacity + 8192;
        int32_t *points = realloc(c->points, capacity * sizeof(*points));
        if (points == NULL)
            return false;
        c->points = points;
        c->point_capacity = capacity;
    }
    memcpy(c->points + c->point_count, c->current, c->current_size * sizeof(*c->current));
    c->words[c->word_count++] = (word){c->point_count, c->current_size, 1};
    c->point_count += c->current_size;
    return true;
}

static void end_word(counting *c)
{
    if (c->current_size == 0 || c->has_failed || c->has_too_many)
        return;
    if (2 * (c->word_count + 1) > c->table_size && !grow_table(c)) {
        c->has_failed = true;
        return;
    }
    size_t at = hash_of_points(c->current, c->current_size) & (c->table_size - 1);
    for (; c->table[at] != NOTHING; at = (at + 1) & (c->table_size - 1)) {
        word *w = &c->words[c->table[at]];
        if (w->size == c->current_size &&
            memcmp(c->points + w->offset, c->current, w->size * sizeof(*c->current)) == 0) {
            w->count++;
            c->current_size = 0;
            return;
        }
    }
    c->has_too_many = c->word_count == WORDS_MAX;
    if (!c->has_too_many) {
        c->table[at] = (uint32_t)c->word_count;
        c->has_failed = !add_word(c);
    }
    c->current_size = 0;
}

static void take_point(void *user, int32_t point)
{
    counting *c = (counting *)user;
    if (point == SPSH__POINT_BAD)
        return;
    if (c->has_pieces && point == ' ') {
        end_word(c);
        return;
    }
    c->point_counts[point]++;
    if (!c->has_pieces)
        return;
    if (c->current_size == WORD_POINTS_MAX)
        end_word(c);
    c->current[c->current_size++] = point;
}

/* ---- reading datasets ---- */

/* Find the index of a split by its name[0 ... size); NOTHING if it does not exist. */
static uint32_t split_number(const spsh_dataset *dataset, const char *name, size_t size)
{
    const uint64_t count = spsh_dataset_name_count(dataset, SPSH_NAME_SPLIT);
    for (uint32_t i = 0; i < count; i++) {
        spsh_bytes found = {NULL, 0};
        if (spsh_dataset_name(dataset, SPSH_NAME_SPLIT, i, &found, NULL) == SPSH_OK &&
            found.size_bytes == size && memcmp(found.data, name, size) == 0)
            return i;
    }
    return NOTHING;
}

typedef struct choice {
    bool *splits; /* by index of the split; NULL: all splits */
    uint64_t split_count;
    uint64_t *skipped; /* positions, ascending */
    uint64_t skipped_count, skipped_done;
} choice;

static spsh_status choose_splits(const spsh_dataset *dataset, const char *names, choice *ret,
                                 spsh_error *err)
{
    if (names == NULL)
        return SPSH_OK;
    ret->split_count = spsh_dataset_name_count(dataset, SPSH_NAME_SPLIT);
    ret->splits = calloc(ret->split_count + 1, sizeof(*ret->splits));
    if (ret->splits == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for splits");
    for (const char *at = names; *at != '\0';) {
        const size_t size = strcspn(at, ",");
        const uint32_t number = split_number(dataset, at, size);
        if (number == NOTHING)
            return SPSH_FAIL(err, SPSH_E_UNKNOWN_NAME, "%s has no split '%.*s'",
                             spsh_dataset_path(dataset), (int)size, at);
        ret->splits[number] = true;
        at += size + (at[size] == ',' ? 1 : 0);
    }
    return SPSH_OK;
}

static spsh_status choose_skipped(const spsh_dataset *dataset, choice *ret, spsh_error *err)
{
    spsh_status rc = spsh_dataset_skipped_positions(dataset, NULL, 0, &ret->skipped_count, err);
    if (rc != SPSH_OK || ret->skipped_count == 0)
        return rc;
    ret->skipped = calloc(ret->skipped_count, sizeof(*ret->skipped));
    if (ret->skipped == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for the skipped utterances");
    return spsh_dataset_skipped_positions(dataset, ret->skipped, ret->skipped_count,
                                          &ret->skipped_count, err);
}

/* Call with ascending positions. */
static bool is_chosen(choice *c, uint64_t position, const spsh_row *row)
{
    while (c->skipped_done < c->skipped_count && c->skipped[c->skipped_done] < position)
        c->skipped_done++;
    if (c->skipped_done < c->skipped_count && c->skipped[c->skipped_done] == position)
        return false;
    return c->splits == NULL || (row->split < c->split_count && c->splits[row->split]);
}

static spsh_status count_texts(counting *c, const spsh_dataset *dataset, choice *chosen,
                               spsh_reader *reader, spsh__text_form form, spsh_error *err)
{
    const uint64_t total = spsh_dataset_info_get(dataset)->utterance_count;
    spsh_row rows[ROWS_AT_ONCE];
    for (uint64_t first = 0; first < total; first += ROWS_AT_ONCE) {
        const uint64_t count = total - first < ROWS_AT_ONCE ? total - first : ROWS_AT_ONCE;
        spsh_status rc = spsh_dataset_rows(dataset, first, count, rows, err);
        for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
            spsh_utterance utterance;
            if (!is_chosen(chosen, first + i, &rows[i]))
                continue;
            rc = spsh_reader_metadata(reader, first + i, &utterance, err);
            if (rc != SPSH_OK)
                return rc;
            spsh__text_points(form, utterance.text, take_point, c);
            end_word(c);
        }
        if (rc != SPSH_OK)
            return rc;
        if (c->has_failed)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for words");
        if (c->has_too_many)
            return SPSH_FAIL(err, SPSH_E_LIMIT,
                             "the transcripts have more than %llu different words; name fewer "
                             "splits, or make a vocabulary of characters",
                             (unsigned long long)WORDS_MAX);
    }
    return SPSH_OK;
}

static spsh_status count_dataset(counting *c, const spsh_dataset *dataset, const char *splits,
                                 spsh__text_form form, spsh_error *err)
{
    choice chosen = {0};
    spsh_reader *reader = NULL;
    spsh_status rc = choose_splits(dataset, splits, &chosen, err);
    if (rc == SPSH_OK)
        rc = choose_skipped(dataset, &chosen, err);
    if (rc == SPSH_OK)
        rc = spsh_reader_open(dataset, &reader, err);
    if (rc == SPSH_OK)
        rc = count_texts(c, dataset, &chosen, reader, form, err);
    spsh_reader_close(reader);
    free(chosen.splits);
    free(chosen.skipped);
    return rc;
}

/* ---- symbols ---- */

typedef struct pair_count {
    uint64_t pair; /* left << 32 | right; 0: free slot, because no symbol is 0 */
    uint64_t count;
} pair_count;

typedef struct making {
    const counting *counted;
    char **symbols; /* from index 1, as in the file; symbols[0] is unused */
    uint32_t symbol_count, symbol_max;
    char **merges;
    uint32_t merge_count;
    uint32_t *symbol_of; /* POINTS of them; 0: none */
    uint32_t *parts;     /* the words as symbols: word w has sizes[w] symbols from starts[w] on */
    size_t *starts;
    uint32_t *sizes;
    pair_count *pairs;
    size_t pair_size, pairs_used;
    spsh_error *err;
} making;

static spsh_status add_symbol(making *m, const char *left, const char *right)
{
    char *text = spsh__new_text("%s%s", left, right);
    if (text == NULL)
        return SPSH_NO_MEMORY(m->err);
    m->symbols[++m->symbol_count] = text;
    return SPSH_OK;
}

static spsh_status add_point(making *m, int32_t point)
{
    char text[UTF8_BYTES_MAX + 1] = {0};
    (void)utf8proc_encode_char(point, (uint8_t *)text);
    const spsh_status rc = add_symbol(m, text, "");
    m->symbol_of[point] = m->symbol_count;
    return rc;
}

typedef struct frequency {
    uint64_t count;
    int32_t point;
} frequency;

static int by_frequency(const void *a, const void *b)
{
    const frequency *left = (const frequency *)a;
    const frequency *right = (const frequency *)b;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return (left->point > right->point) - (left->point < right->point);
}

static int by_code_point(const void *a, const void *b)
{
    const int32_t left = ((const frequency *)a)->point;
    const int32_t right = ((const frequency *)b)->point;
    return (left > right) - (left < right);
}

static spsh_status add_points(making *m)
{
    const uint64_t *counts = m->counted->point_counts;
    size_t count = 0;
    size_t capacity = m->symbol_max;
    for (int32_t point = 0; point < POINTS; point++)
        count += counts[point] > 0;
    frequency *found = malloc((count + 1) * sizeof(*found));
    if (found == NULL)
        return SPSH_NO_MEMORY(m->err);
    count = 0;
    for (int32_t point = 0; point < POINTS; point++)
        if (counts[point] > 0)
            found[count++] = (frequency){counts[point], point};
    spsh_status rc = m->counted->has_pieces ? add_point(m, SPSH__POINT_WORD) : SPSH_OK;
    capacity -= m->symbol_count;
    qsort(found, count, sizeof(*found), by_frequency);
    count = count < capacity ? count : capacity;
    qsort(found, count, sizeof(*found), by_code_point);
    for (size_t i = 0; i < count && rc == SPSH_OK; i++)
        rc = add_point(m, found[i].point);
    free(found);
    return rc;
}

/* ---- pairs ---- */

static uint64_t pair_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static pair_count *place_of_pair(pair_count *pairs, size_t size, uint64_t pair)
{
    size_t at = (size_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (size - 1);
    while (pairs[at].pair != 0 && pairs[at].pair != pair)
        at = (at + 1) & (size - 1);
    return &pairs[at];
}

static bool grow_pairs(making *m)
{
    const size_t size = m->pair_size == 0 ? 4096 : 2 * m->pair_size;
    pair_count *pairs = calloc(size, sizeof(*pairs));
    if (pairs == NULL)
        return false;
    for (size_t i = 0; i < m->pair_size; i++)
        if (m->pairs[i].pair != 0)
            *place_of_pair(pairs, size, m->pairs[i].pair) = m->pairs[i];
    free(m->pairs);
    m->pairs = pairs;
    m->pair_size = size;
    return true;
}

/* Add a word's count to its pairs, or subtract it. */
static bool count_pairs(making *m, size_t w, bool is_added)
{
    const uint32_t *parts = m->parts + m->starts[w];
    const uint64_t count = m->counted->words[w].count;
    for (uint32_t i = 0; i + 1 < m->sizes[w]; i++) {
        if (2 * (m->pairs_used + 1) > m->pair_size && !grow_pairs(m))
            return false;
        const uint64_t pair = pair_of(parts[i], parts[i + 1]);
        pair_count *found = place_of_pair(m->pairs, m->pair_size, pair);
        m->pairs_used += found->pair == 0;
        found->pair = pair;
        found->count += is_added ? count : (uint64_t)0 - count;
    }
    return true;
}

static spsh_status lay_out_words(making *m)
{
    const counting *c = m->counted;
    size_t at = 0;
    m->parts = malloc((c->point_count + c->word_count + 1) * sizeof(*m->parts));
    m->starts = malloc((c->word_count + 1) * sizeof(*m->starts));
    m->sizes = calloc(c->word_count + 1, sizeof(*m->sizes));
    if (m->parts == NULL || m->starts == NULL || m->sizes == NULL)
        return SPSH_NO_MEMORY(m->err);
    for (size_t w = 0; w < c->word_count; w++) {
        m->starts[w] = at;
        m->parts[at++] = m->symbol_of[SPSH__POINT_WORD];
        for (uint32_t i = 0; i < c->words[w].size; i++) {
            const uint32_t symbol = m->symbol_of[c->points[c->words[w].offset + i]];
            if (symbol != 0)
                m->parts[at++] = symbol;
        }
        m->sizes[w] = (uint32_t)(at - m->starts[w]);
        if (!count_pairs(m, w, true))
            return SPSH_NO_MEMORY(m->err);
    }
    return SPSH_OK;
}

/* Order pairs of equal count by the strings of their two symbols. */
static bool is_before(const making *m, uint64_t a, uint64_t b)
{
    const int left = strcmp(m->symbols[a >> 32], m->symbols[b >> 32]);
    if (left != 0)
        return left < 0;
    return strcmp(m->symbols[(uint32_t)a], m->symbols[(uint32_t)b]) < 0;
}

/* Return 0 if no pair occurs twice. */
static uint64_t most_frequent(const making *m)
{
    pair_count best = {0, 1};
    for (size_t i = 0; i < m->pair_size; i++) {
        const pair_count *p = &m->pairs[i];
        if (p->count > best.count ||
            (p->count == best.count && best.pair != 0 && is_before(m, p->pair, best.pair)))
            best = *p;
    }
    return best.pair;
}

static spsh_status merge_in_word(making *m, size_t w, uint64_t pair, uint32_t whole)
{
    uint32_t *parts = m->parts + m->starts[w];
    const uint32_t size = m->sizes[w];
    uint32_t first = 0;
    while (first + 1 < size && pair_of(parts[first], parts[first + 1]) != pair)
        first++;
    if (first + 1 >= size)
        return SPSH_OK;
    if (!count_pairs(m, w, false))
        return SPSH_NO_MEMORY(m->err);
    uint32_t kept = first;
    for (uint32_t i = first; i < size; i++) {
        const bool is_pair = i + 1 < size && pair_of(parts[i], parts[i + 1]) == pair;
        parts[kept++] = is_pair ? whole : parts[i];
        i += is_pair ? 1 : 0;
    }
    m->sizes[w] = kept;
    return count_pairs(m, w, true) ? SPSH_OK : SPSH_NO_MEMORY(m->err);
}

/* Record the merge. Add its symbol unless another merge produced the same text. */
static spsh_status add_merge(making *m, uint64_t pair, uint32_t *ret_whole)
{
    const char *left = m->symbols[pair >> 32];
    const char *right = m->symbols[(uint32_t)pair];
    const size_t left_size = strlen(left);
    char *text = spsh__new_text("%s %s", left, right);
    if (text == NULL)
        return SPSH_NO_MEMORY(m->err);
    m->merges[m->merge_count++] = text;
    for (uint32_t i = 1; i <= m->symbol_count; i++) {
        if (strncmp(m->symbols[i], left, left_size) == 0 &&
            strcmp(m->symbols[i] + left_size, right) == 0) {
            *ret_whole = i;
            return SPSH_OK;
        }
    }
    const spsh_status rc = add_symbol(m, left, right);
    *ret_whole = m->symbol_count;
    return rc;
}

static spsh_status make_pieces(making *m)
{
    spsh_status rc = lay_out_words(m);
    while (rc == SPSH_OK && m->symbol_count < m->symbol_max && m->merge_count < m->symbol_max) {
        uint32_t whole = 0;
        const uint64_t pair = most_frequent(m);
        if (pair == 0)
            break;
        rc = add_merge(m, pair, &whole);
        for (size_t w = 0; w < m->counted->word_count && rc == SPSH_OK; w++)
            rc = merge_in_word(m, w, pair, whole);
    }
    return rc;
}

/* ---- the whole vocabulary ---- */

static spsh_status make(const counting *c, spsh__text_form form, uint32_t symbols,
                        spsh__vocabulary **ret, spsh_error *err)
{
    making m = {.counted = c, .symbol_max = symbols - 1, .err = err};
    spsh_status rc = SPSH_OK;
    m.symbols = (char **)calloc((size_t)symbols + 1, sizeof(*m.symbols));
    m.merges = (char **)calloc((size_t)symbols + 1, sizeof(*m.merges));
    m.symbol_of = calloc(POINTS, sizeof(*m.symbol_of));
    rc = m.symbols == NULL || m.merges == NULL || m.symbol_of == NULL ? SPSH_NO_MEMORY(err)
                                                                      : add_points(&m);
    if (rc == SPSH_OK && c->has_pieces)
        rc = make_pieces(&m);
    if (rc == SPSH_OK) {
        const spsh__vocabulary_parts parts = {"vocabulary",   c->has_pieces,
                                              form,           (const char *const *)m.symbols + 1,
                                              m.symbol_count, (const char *const *)m.merges,
                                              m.merge_count};
        rc = spsh__vocabulary_build(&parts, ret, err);
    }
    for (uint32_t i = 1; m.symbols != NULL && i <= m.symbol_count; i++)
        free(m.symbols[i]);
    for (uint32_t i = 0; m.merges != NULL && i < m.merge_count; i++)
        free(m.merges[i]);
    free(m.symbols);
    free(m.merges);
    free(m.symbol_of);
    free(m.parts);
    free(m.starts);
    free(m.sizes);
    free(m.pairs);
    return rc;
}

static spsh_status check_size(const counting *c, uint32_t asked, uint32_t *ret_symbols,
                              spsh_error *err)
{
    const uint32_t all =
        c->has_pieces ? SPSH__VOCABULARY_PIECES_DEFAULT : SPSH__VOCABULARY_SYMBOLS_MAX;
    const uint32_t least = c->has_pieces ? 3 : 2; /* blank, U+2581, a character */
    uint64_t characters = 0;
    *ret_symbols = asked == 0 ? all : asked;
    for (int32_t point = 0; point < POINTS; point++)
        characters += c->point_counts[point] > 0;
    if (characters == 0)
        return SPSH_FAIL(err, SPSH_E_NOT_FOUND,
                         "cannot make a vocabulary: no utterance has a transcript");
    if (*ret_symbols < least || *ret_symbols > SPSH__VOCABULARY_SYMBOLS_MAX)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a vocabulary has %u to %u symbols, not %u",
                         least, SPSH__VOCABULARY_SYMBOLS_MAX, asked);
    return SPSH_OK;
}

spsh_status spsh__vocabulary_make(const spsh_dataset *const *datasets, uint32_t count,
                                  const spsh__vocabulary_options *options, spsh__vocabulary **ret,
                                  spsh_error *err)
{
    counting c = {0};
    spsh__text_form form = SPSH__FORM_LOWER;
    uint32_t symbols = 0;
    spsh_status rc = SPSH_OK;
    if (options->kind != NULL)
        rc = spsh__vocabulary_kind(options->kind, &c.has_pieces, err);
    if (rc == SPSH_OK && options->profile != NULL)
        rc = spsh__text_form_find(options->profile, &form, err);
    if (rc != SPSH_OK)
        return rc;
    c.point_counts = calloc(POINTS, sizeof(*c.point_counts));
    if (c.point_counts == NULL)
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "no memory for counting");
    for (uint32_t d = 0; d < count && rc == SPSH_OK; d++)
        rc = count_dataset(&c, datasets[d], options->splits == NULL ? NULL : options->splits[d],
                           form, err);
    if (rc == SPSH_OK)
        rc = check_size(&c, options->symbols, &symbols, err);
    if (rc == SPSH_OK)
        rc = make(&c, form, symbols, ret, err);
    free(c.point_counts);
    free(c.points);
    free(c.words);
    free(c.table);
    return rc;
}
