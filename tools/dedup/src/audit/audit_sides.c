/* audit_sides.c: read the index once and count utterances by split. */
#include "audit_sides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_names.h"
#include "common/grow.h"
#include "common/hash.h"
#include "plan/copy_page.h"
#include "set/split_names.h"
#include "speechshard/inside.h"

enum { ROWS_AT_ONCE = 65536, ID_DIGITS = 8 };

/* Counts of a split before its position is known. The last entry counts utterances without a split.
 */
typedef struct tally {
    spsh_side side; /* SPSH_SIDE_NONE until the first utterance */
    uint64_t utterances;
    double seconds;
    uint32_t place; /* index in the list of the side's splits */
} tally;

struct spsh__split_table {
    tally *tallies;
    uint32_t name_count;
};

typedef struct spsh__split_table split_table;

/* ---- reading the index ---- */

typedef struct columns {
    spsh_bytes split, samples, rate;
} columns;

static spsh_status read_columns(const spsh_dataset *dataset, uint64_t first, uint64_t count,
                                columns *ret, spsh_error *err)
{
    spsh_status rc =
        spsh_dataset_column(dataset, SPSH_COLUMN_SPLIT, first, count, &ret->split, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_column(dataset, SPSH_COLUMN_SAMPLES, first, count, &ret->samples, err);
    if (rc == SPSH_OK)
        rc =
            spsh_dataset_column(dataset, SPSH_COLUMN_SAMPLE_RATE_HZ, first, count, &ret->rate, err);
    return rc;
}

/* Find the table entry of a split number. Utterances without a split have entry name_count. */
static spsh_status entry_of(const spsh_dataset *dataset, const split_table *table, uint32_t number,
                            uint32_t *ret_entry, spsh_error *err)
{
    if (number != SPSH_NONE_U32 && number >= table->name_count)
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "%s: the split of an utterance has no name",
                         spsh_dataset_path(dataset));
    *ret_entry = number == SPSH_NONE_U32 ? table->name_count : number;
    return SPSH_OK;
}

/* Count rows of a dataset. Test utterances are appended to the lists. test_splits holds table
 * entries until place_tests replaces them. */
static spsh_status collect(spsh__audit_sides *sides, size_t dataset, uint64_t first, uint64_t count,
                           spsh_error *err)
{
    const spsh_dataset *source = spsh__print_set_dataset(sides->set, dataset);
    const uint64_t base = spsh__print_set_first(sides->set, dataset) + first;
    const split_table *table = &sides->tables[dataset];
    columns rows;
    spsh_status rc = read_columns(source, first, count, &rows, err);
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        const spsh_side side = spsh__print_set_side(sides->set, base + i);
        const uint32_t rate_hz = spsh__load_u32le(rows.rate.data + 4 * i);
        const uint64_t samples = spsh__load_u64le(rows.samples.data + 8 * i);
        const double seconds = rate_hz == 0 ? 0 : (double)samples / rate_hz;
        uint32_t entry = 0;
        if (side == SPSH_SIDE_NONE)
            continue;
        rc = entry_of(source, table, spsh__load_u32le(rows.split.data + 4 * i), &entry, err);
        if (rc != SPSH_OK)
            break;
        tally *t = &table->tallies[entry];
        t->side = side;
        t->utterances++;
        t->seconds += seconds;
        if (side != SPSH_SIDE_TEST)
            continue;
        const uint64_t number = sides->roster.test_utterance_count++;
        sides->test_ordinals[number] = base + i;
        sides->test_splits[number] = entry;
        sides->test_seconds[number] = seconds;
    }
    return rc;
}

static spsh_status collect_all(spsh__audit_sides *sides, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t d = 0; d < sides->dataset_count && rc == SPSH_OK; d++) {
        const uint64_t rows =
            spsh_dataset_info_get(spsh__print_set_dataset(sides->set, d))->utterance_count;
        for (uint64_t at = 0; at < rows && rc == SPSH_OK; at += ROWS_AT_ONCE)
            rc = collect(sides, d, at, rows - at < ROWS_AT_ONCE ? rows - at : ROWS_AT_ONCE, err);
    }
    return rc;
}

/* ---- names ---- */

spsh_status spsh__audit_corpus_name(const char *path, char **ret_name, spsh_error *err)
{
    const spsh_bytes base = spsh__copy_base_of(path);
    char *name = malloc(base.size_bytes + 1);
    if (name == NULL)
        return SPSH_NO_MEMORY(err);
    memcpy(name, base.data, base.size_bytes);
    name[base.size_bytes] = '\0';
    for (size_t at = 0; at < base.size_bytes;) {
        const size_t bytes =
            spsh__utf8_sequence((spsh_bytes){base.data + at, base.size_bytes - at});
        if (bytes == 0)
            name[at] = '?';
        at += bytes == 0 ? 1 : bytes;
    }
    *ret_name = name;
    return SPSH_OK;
}

/* Name a dataset. If another dataset has the same name, the id is appended. */
static spsh_status name_corpus(const spsh__print_set *set, size_t dataset, char **ret_name,
                               spsh_error *err)
{
    const spsh_dataset *own = spsh__print_set_dataset(set, dataset);
    const spsh_bytes base = spsh__copy_base_of(spsh_dataset_path(own));
    char *name = NULL;
    char id[33];
    bool is_alone = true;
    for (size_t d = 0; d < spsh__print_set_dataset_count(set); d++) {
        const spsh_dataset *other = spsh__print_set_dataset(set, d);
        is_alone =
            is_alone && (d == dataset ||
                         !spsh__bytes_equal(spsh__copy_base_of(spsh_dataset_path(other)), base));
    }
    const spsh_status rc = spsh__audit_corpus_name(spsh_dataset_path(own), &name, err);
    if (rc != SPSH_OK || is_alone) {
        *ret_name = name;
        return rc;
    }
    const size_t bytes = strlen(name) + ID_DIGITS + 4;
    *ret_name = malloc(bytes);
    if (*ret_name != NULL) {
        spsh__hex128(spsh_dataset_info_get(own)->dataset_id, id);
        snprintf(*ret_name, bytes, "%s (%.*s)", name, ID_DIGITS, id);
    }
    free(name);
    return *ret_name != NULL ? SPSH_OK : SPSH_NO_MEMORY(err);
}

/* Return the size of the longest prefix that fits and ends at a whole character. */
static int fit(spsh_bytes text, size_t bytes_max)
{
    size_t bytes = text.size_bytes;
    if (bytes <= bytes_max)
        return (int)bytes;
    bytes = bytes_max;
    while (bytes > 0 && (text.data[bytes] & 0xC0U) == 0x80U)
        bytes--;
    return (int)bytes;
}

/* Make a title like "corpus.spsh: train". */
static void make_title(const spsh__audit_split *split, spsh__leak_split *facts)
{
    static const char none[] = "(no split)";
    const size_t half = sizeof(facts->name) / 2 - 2;
    const spsh_bytes corpus = {(const uint8_t *)split->corpus, strlen(split->corpus)};
    const spsh_bytes name = split->name.size_bytes != 0
                                ? split->name
                                : (spsh_bytes){(const uint8_t *)none, sizeof(none) - 1};
    snprintf(facts->name, sizeof(facts->name), "%.*s: %.*s", fit(corpus, half),
             (const char *)corpus.data, fit(name, half), (const char *)name.data);
}

/* ---- indices of splits ---- */

static int compare_splits(const void *left, const void *right)
{
    const spsh__audit_split *l = left;
    const spsh__audit_split *r = right;
    int order = strcmp(l->corpus, r->corpus);
    if (order == 0)
        order = (l->dataset > r->dataset) - (l->dataset < r->dataset);
    return order != 0 ? order : spsh__name_compare(&l->name, &r->name);
}

static spsh_status list_side(spsh__audit_sides *sides, spsh_side side,
                             spsh__audit_split **ret_splits, size_t *ret_count, spsh_error *err)
{
    const spsh__print_set *set = sides->set;
    spsh__audit_split *splits = NULL;
    size_t count = 0;
    size_t capacity = 0;
    spsh_status rc = SPSH_OK;
    for (size_t d = 0; d < sides->dataset_count; d++) {
        const split_table *table = &sides->tables[d];
        for (uint32_t i = 0; i <= table->name_count && rc == SPSH_OK; i++) {
            if (table->tallies[i].side != side)
                continue;
            if (!SPSH_GROW(splits, capacity, count + 1))
                return SPSH_NO_MEMORY(err);
            *ret_splits = splits;
            spsh__audit_split *split = &splits[count++];
            *split = (spsh__audit_split){
                .dataset = d,
                .number = i < table->name_count ? i : SPSH_NONE_U32,
                .corpus = sides->corpora[d],
            };
            rc = spsh_dataset_name(spsh__print_set_dataset(set, d), SPSH_NAME_SPLIT, split->number,
                                   &split->name, err);
        }
    }
    if (count == 0)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "there is no utterance to %s",
                         side == SPSH_SIDE_TRAIN ? "train on" : "test with");
    *ret_count = count;
    qsort(splits, count, sizeof(*splits), compare_splits);
    return rc;
}

/* Make the facts of a side's splits, and store the index of each split in its table. */
static spsh__leak_split *place_side(spsh__audit_sides *sides, const spsh__audit_split *splits,
                                    size_t count)
{
    spsh__leak_split *facts = calloc(count, sizeof(*facts));
    for (size_t i = 0; i < count && facts != NULL; i++) {
        const split_table *table = &sides->tables[splits[i].dataset];
        tally *t = &table->tallies[splits[i].number == SPSH_NONE_U32 ? table->name_count
                                                                     : splits[i].number];
        t->place = (uint32_t)i;
        facts[i].utterances = t->utterances;
        facts[i].seconds = t->seconds;
        make_title(&splits[i], &facts[i]);
    }
    return facts;
}

static spsh_status train_split(const void *user, uint64_t ordinal, uint32_t *ret_split,
                               spsh_error *err)
{
    const spsh__audit_sides *sides = user;
    uint32_t entry = 0;
    spsh_bytes element;
    if (spsh__print_set_side(sides->set, ordinal) != SPSH_SIDE_TRAIN) {
        *ret_split = SPSH_NONE_U32;
        return SPSH_OK;
    }
    const spsh__set_place at = spsh__print_set_place(sides->set, ordinal);
    const split_table *table = &sides->tables[at.number];
    spsh_status rc =
        spsh_dataset_column(at.dataset, SPSH_COLUMN_SPLIT, at.position, 1, &element, err);
    if (rc == SPSH_OK)
        rc = entry_of(at.dataset, table, spsh__load_u32le(element.data), &entry, err);
    if (rc == SPSH_OK)
        *ret_split = table->tallies[entry].place;
    return rc;
}

/* ---- making ---- */

static spsh_status make_tables(spsh__audit_sides *sides, spsh_error *err)
{
    const size_t datasets = spsh__print_set_dataset_count(sides->set);
    sides->dataset_count = datasets;
    sides->corpora = calloc(datasets + 1, sizeof(*sides->corpora));
    sides->tables = calloc(datasets + 1, sizeof(*sides->tables));
    if (sides->corpora == NULL || sides->tables == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t d = 0; d < datasets; d++) {
        split_table *table = &sides->tables[d];
        const uint64_t names =
            spsh_dataset_name_count(spsh__print_set_dataset(sides->set, d), SPSH_NAME_SPLIT);
        table->name_count = (uint32_t)names;
        table->tallies = calloc((size_t)names + 1, sizeof(*table->tallies));
        if (table->tallies == NULL)
            return SPSH_NO_MEMORY(err);
        const spsh_status rc = name_corpus(sides->set, d, &sides->corpora[d], err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

static spsh_status collect_tests(spsh__audit_sides *sides, spsh_error *err)
{
    const uint64_t tests = spsh__print_set_side_count(sides->set, SPSH_SIDE_TEST);
    if (tests >= SIZE_MAX / sizeof(*sides->test_ordinals))
        return SPSH_NO_MEMORY(err);
    sides->test_ordinals = calloc((size_t)tests + 1, sizeof(*sides->test_ordinals));
    sides->test_splits = calloc((size_t)tests + 1, sizeof(*sides->test_splits));
    sides->test_seconds = calloc((size_t)tests + 1, sizeof(*sides->test_seconds));
    if (sides->test_ordinals == NULL || sides->test_splits == NULL || sides->test_seconds == NULL)
        return SPSH_NO_MEMORY(err);
    return collect_all(sides, err);
}

/* Replace table entries in test_splits by indices in the list of splits. */
static void place_tests(spsh__audit_sides *sides)
{
    for (uint64_t i = 0; i < sides->roster.test_utterance_count; i++) {
        const size_t dataset = spsh__print_set_place(sides->set, sides->test_ordinals[i]).number;
        sides->test_splits[i] = sides->tables[dataset].tallies[sides->test_splits[i]].place;
    }
}

static spsh_status fill(spsh__audit_sides *sides, spsh_error *err)
{
    spsh__audit_roster *roster = &sides->roster;
    spsh_status rc = make_tables(sides, err);
    if (rc == SPSH_OK)
        rc = collect_tests(sides, err);
    if (rc == SPSH_OK)
        rc = list_side(sides, SPSH_SIDE_TRAIN, &sides->train, &roster->train_count, err);
    if (rc == SPSH_OK)
        rc = list_side(sides, SPSH_SIDE_TEST, &sides->test, &roster->test_count, err);
    if (rc != SPSH_OK)
        return rc;
    sides->train_facts = place_side(sides, sides->train, roster->train_count);
    sides->test_facts = place_side(sides, sides->test, roster->test_count);
    if (sides->train_facts == NULL || sides->test_facts == NULL)
        return SPSH_NO_MEMORY(err);
    place_tests(sides);
    roster->train = sides->train_facts;
    roster->test = sides->test_facts;
    roster->test_ordinals = sides->test_ordinals;
    roster->test_splits = sides->test_splits;
    roster->test_seconds = sides->test_seconds;
    roster->train_split_fn = train_split;
    roster->user = sides;
    return SPSH_OK;
}

spsh_status spsh__audit_sides_make(const spsh__print_set *set, spsh__audit_sides **ret_sides,
                                   spsh_error *err)
{
    spsh__audit_sides *sides = calloc(1, sizeof(*sides));
    if (sides == NULL)
        return SPSH_NO_MEMORY(err);
    sides->set = set;
    spsh_status rc = fill(sides, err);
    if (rc == SPSH_OK)
        *ret_sides = sides;
    else
        spsh__audit_sides_free(sides);
    return rc;
}

void spsh__audit_sides_free(spsh__audit_sides *sides)
{
    if (sides == NULL)
        return;
    for (size_t d = 0; d < sides->dataset_count && sides->corpora != NULL && sides->tables != NULL;
         d++) {
        free(sides->corpora[d]);
        free(sides->tables[d].tallies);
    }
    free(sides->corpora);
    free(sides->tables);
    free(sides->train);
    free(sides->test);
    free(sides->train_facts);
    free(sides->test_facts);
    free(sides->test_ordinals);
    free(sides->test_splits);
    free(sides->test_seconds);
    free(sides);
}
