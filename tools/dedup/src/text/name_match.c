/* name_match.c: names become 128-bit keys, and keys become numbers. The names of the test side get
 * the lowest numbers. So a train utterance is a hit if its number is below the count of test names.
 */
#include "name_match.h"

#include <stdlib.h>

#include "common/file_names.h"
#include "records/hash_map.h"
#include "speechshard/inside.h"
#include "speechshard/io.h"
#include "text_profile.h"

enum { ALIAS_STEPS_MAX = 8, ROWS_AT_ONCE = 1 << 16 };
#define ALIAS_BYTES_MAX ((size_t)256 << 20)

/* ---- aliases ---- */

typedef struct alias {
    spsh_bytes from, to; /* names as ranges of the file's text */
} alias;

struct spsh__name_rules {
    bool fold;
    uint8_t *file;
    spsh__hash_map names;   /* key of a name -> index in aliases */
    spsh__builder aliases;  /* array of alias */
    spsh__builder prefixes; /* array of alias, without the asterisks */
};

static const alias *alias_at(const spsh__builder *list, size_t i)
{
    return (const alias *)(const void *)list->data + i;
}

/* Get the bytes to compare: the folded name, or the name itself if folding leaves nothing. */
static spsh_status compared(bool fold, spsh_bytes name, spsh__builder *out, spsh_bytes *ret_name,
                            spsh_error *err)
{
    *ret_name = name;
    if (!fold)
        return SPSH_OK;
    const spsh_status rc = spsh__text_normalise(SPSH_TEXT_PROFILE_DEFAULT, name, out, err);
    if (rc == SPSH_OK && out->size_bytes > 0)
        *ret_name = spsh__builder_bytes(out);
    return rc;
}

static spsh_status add_alias(spsh__name_rules *rules, const alias *entry, spsh__builder *scratch,
                             spsh_error *err)
{
    spsh_bytes name;
    uint32_t number = 0;
    const bool is_prefix = entry->from.size_bytes > 0 && entry->to.size_bytes > 0 &&
                           entry->from.data[entry->from.size_bytes - 1] == '*' &&
                           entry->to.data[entry->to.size_bytes - 1] == '*';
    if (is_prefix) {
        const alias prefix = {
            {entry->from.data, entry->from.size_bytes - 1},
            {entry->to.data,   entry->to.size_bytes - 1  }
        };
        spsh__builder_append(&rules->prefixes, &prefix, sizeof(prefix));
        return rules->prefixes.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
    }
    const spsh_status rc = compared(rules->fold, entry->from, scratch, &name, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t next = (uint32_t)(rules->aliases.size_bytes / sizeof(*entry));
    if (!spsh__hash_map_add(&rules->names, spsh__hash_of(name), next, &number))
        return SPSH_NO_MEMORY(err);
    if (number != next)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "the same name appears twice");
    spsh__builder_append(&rules->aliases, entry, sizeof(*entry));
    return rules->aliases.failed ? SPSH_NO_MEMORY(err) : SPSH_OK;
}

static spsh_status take_line(spsh__name_rules *rules, spsh_bytes line, spsh__builder *scratch,
                             spsh_error *err)
{
    if (line.size_bytes > 0 && line.data[line.size_bytes - 1] == '\r')
        line.size_bytes--;
    if (line.size_bytes == 0 || line.data[0] == '#')
        return SPSH_OK;
    const uint8_t *tab = memchr(line.data, '\t', line.size_bytes);
    const size_t from = tab == NULL ? 0 : (size_t)(tab - line.data);
    if (from == 0 || from + 1 == line.size_bytes)
        return SPSH_FAIL(err, SPSH_E_SYNTAX, "the line is not a name, a TAB, and another name");
    const alias entry = {
        {line.data, from                      },
        {tab + 1,   line.size_bytes - from - 1}
    };
    return add_alias(rules, &entry, scratch, err);
}

static spsh_status take_file(spsh__name_rules *rules, const char *path, size_t size_bytes,
                             spsh_error *err)
{
    spsh__builder scratch = {0};
    spsh_error line_error = SPSH_ERROR_INIT;
    spsh_status rc = SPSH_OK;
    unsigned long long line = 0;
    for (size_t at = 0; at < size_bytes && rc == SPSH_OK;) {
        const uint8_t *begin = rules->file + at;
        const uint8_t *end = memchr(begin, '\n', size_bytes - at);
        const size_t bytes = end == NULL ? size_bytes - at : (size_t)(end - begin);
        line++;
        rc = take_line(rules, (spsh_bytes){begin, bytes}, &scratch, &line_error);
        at += bytes + 1;
    }
    spsh__builder_free(&scratch);
    if (rc == SPSH_OK)
        return SPSH_OK;
    return SPSH_FAIL(err, rc, "%s, line %llu: %s", path, line, line_error.message);
}

spsh_status spsh__name_rules_open(const char *alias_path, bool fold, spsh__name_rules **ret_rules,
                                  spsh_error *err)
{
    spsh__name_rules *rules = calloc(1, sizeof(*rules));
    size_t size_bytes = 0;
    spsh_status rc = SPSH_OK;
    if (rules == NULL)
        return SPSH_NO_MEMORY(err);
    rules->fold = fold;
    if (alias_path != NULL)
        rc = spsh_io_read_file(spsh_io_default(), alias_path, ALIAS_BYTES_MAX, NULL, &rules->file,
                               &size_bytes, err);
    if (rc == SPSH_OK && alias_path != NULL)
        rc = take_file(rules, alias_path, size_bytes, err);
    if (rc != SPSH_OK) {
        spsh__name_rules_free(rules);
        return rc;
    }
    *ret_rules = rules;
    return SPSH_OK;
}

void spsh__name_rules_free(spsh__name_rules *rules)
{
    if (rules == NULL)
        return;
    spsh__hash_map_free(&rules->names);
    spsh__builder_free(&rules->aliases);
    spsh__builder_free(&rules->prefixes);
    free(rules->file);
    free(rules);
}

/* Scratch space. name and other are swapped, because an alias step builds a new name from the old
 * one. */
typedef struct name_scratch {
    spsh__builder folded, name, other;
} name_scratch;

static const alias *find_prefix(const spsh__name_rules *rules, spsh_bytes name)
{
    const alias *longest = NULL;
    for (size_t i = 0; i < rules->prefixes.size_bytes / sizeof(alias); i++) {
        const alias *a = alias_at(&rules->prefixes, i);
        if (name.size_bytes >= a->from.size_bytes &&
            spsh__bytes_equal((spsh_bytes){name.data, a->from.size_bytes}, a->from) &&
            (longest == NULL || a->from.size_bytes > longest->from.size_bytes))
            longest = a;
    }
    return longest;
}

/* Apply one alias step to scratch->name. *ret_is: the name had an alias. */
static spsh_status follow_alias(const spsh__name_rules *rules, name_scratch *scratch, bool *ret_is,
                                spsh_error *err)
{
    spsh_bytes name = spsh__builder_bytes(&scratch->name);
    spsh_bytes key;
    *ret_is = false;
    const spsh_status rc = compared(rules->fold, name, &scratch->folded, &key, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t number = spsh__hash_map_find(&rules->names, spsh__hash_of(key));
    const alias *prefix = number == SPSH__HASH_NONE ? find_prefix(rules, name) : NULL;
    if (number == SPSH__HASH_NONE && prefix == NULL)
        return SPSH_OK;
    spsh__builder_clear(&scratch->other);
    if (prefix == NULL) {
        spsh__builder_append_bytes(&scratch->other, alias_at(&rules->aliases, number)->to);
    } else {
        spsh__builder_append_bytes(&scratch->other, prefix->to);
        spsh__builder_append(&scratch->other, name.data + prefix->from.size_bytes,
                             name.size_bytes - prefix->from.size_bytes);
    }
    const spsh__builder before = scratch->name;
    scratch->name = scratch->other;
    scratch->other = before;
    *ret_is = true;
    return SPSH_OK;
}

/* Whether the name has only digits and other ASCII characters that are not letters. */
static bool is_local(spsh_bytes name)
{
    for (size_t i = 0; i < name.size_bytes; i++) {
        const uint8_t c = name.data[i] | 0x20;
        if (name.data[i] >= 0x80 || (c >= 'a' && c <= 'z'))
            return false;
    }
    return true;
}

typedef struct name_key {
    spsh__u128 key;
    bool is_local;
} name_key;

static spsh_status key_of(const spsh__name_rules *rules, spsh_bytes name, name_scratch *scratch,
                          name_key *ret_key, spsh_error *err)
{
    spsh_bytes last;
    bool is_alias = true;
    spsh_status rc = SPSH_OK;
    spsh__builder_clear(&scratch->name);
    spsh__builder_append_bytes(&scratch->name, name);
    for (unsigned step = 0; step < ALIAS_STEPS_MAX && is_alias && rc == SPSH_OK; step++)
        rc = follow_alias(rules, scratch, &is_alias, err);
    if (rc == SPSH_OK)
        rc = compared(rules->fold, spsh__builder_bytes(&scratch->name), &scratch->folded, &last,
                      err);
    if (rc != SPSH_OK)
        return rc;
    if (scratch->name.failed || scratch->other.failed)
        return SPSH_NO_MEMORY(err);
    *ret_key = (name_key){spsh__hash_of(last), is_local(last)};
    return SPSH_OK;
}

/* ---- the join ---- */

/* Names of one dataset, indexed by their numbers in it. */
typedef struct name_table {
    name_key *keys;
    uint64_t count;
    spsh__u128 *domains;
    uint64_t domain_count;
} name_table;

struct spsh__name_join {
    const spsh__print_set *set;
    spsh_name_kind kind;
    spsh_column column;
    name_table *tables; /* per dataset */
    size_t table_count;
    spsh__hash_map numbers;
    spsh__hit_table *hits; /* indexed by number; names of the test side only */
    spsh__name_counts counts;
};

static spsh_status load_table(const spsh_dataset *dataset, const spsh__name_join *join,
                              const spsh__name_rules *rules, name_table *table, spsh_error *err)
{
    name_scratch scratch = {0};
    spsh_bytes name;
    spsh_status rc = SPSH_OK;
    table->count = spsh_dataset_name_count(dataset, join->kind);
    table->domain_count = spsh_dataset_name_count(dataset, SPSH_NAME_DOMAIN);
    table->keys = calloc(table->count + 1, sizeof(*table->keys));
    table->domains = calloc(table->domain_count + 1, sizeof(*table->domains));
    if (table->keys == NULL || table->domains == NULL)
        return SPSH_NO_MEMORY(err);
    for (uint64_t i = 0; i < table->count && rc == SPSH_OK; i++) {
        rc = spsh_dataset_name(dataset, join->kind, (uint32_t)i, &name, err);
        if (rc == SPSH_OK)
            rc = key_of(rules, name, &scratch, &table->keys[i], err);
    }
    for (uint64_t i = 0; i < table->domain_count && rc == SPSH_OK; i++) {
        rc = spsh_dataset_name(dataset, SPSH_NAME_DOMAIN, (uint32_t)i, &name, err);
        if (rc == SPSH_OK)
            table->domains[i] = spsh__hash_of(name);
    }
    spsh__builder_free(&scratch.folded);
    spsh__builder_free(&scratch.name);
    spsh__builder_free(&scratch.other);
    return rc;
}

/* Get the key of a row's name. Returns false if the row has no name. A number outside of its table
 * means a damaged index, which spsh_dataset_rows would report. Here the name counts as absent. */
static bool row_key(const name_table *table, uint32_t name, uint32_t domain, spsh__u128 *ret_key)
{
    if (name >= table->count)
        return false;
    spsh__u128 key = table->keys[name].key;
    if (table->keys[name].is_local && domain < table->domain_count) {
        const spsh__u128 pair[2] = {key, table->domains[domain]};
        key = spsh__hash_of((spsh_bytes){(const uint8_t *)pair, sizeof(pair)});
    }
    *ret_key = key;
    return true;
}

/* Number the name of a row. If the row is on the train side and the name is on the test side, add a
 * hit. */
static spsh_status take_row(spsh__name_join *join, spsh_side side, uint64_t ordinal,
                            const spsh__u128 *key, spsh_error *err)
{
    uint32_t number = 0;
    const size_t count = join->numbers.count;
    if (!spsh__hash_map_add(&join->numbers, *key, (uint32_t)count, &number))
        return SPSH_NO_MEMORY(err);
    if (side == SPSH_SIDE_TRAIN && number < join->counts.test)
        spsh__hit_table_add(join->hits, number, &(spsh__hit){ordinal, 0, 0});
    return SPSH_OK;
}

static spsh_status take_rows(spsh__name_join *join, spsh_side side, size_t number, uint64_t first,
                             uint64_t count, spsh_error *err)
{
    spsh_bytes names, domains;
    spsh__u128 key;
    const spsh_dataset *dataset = spsh__print_set_dataset(join->set, number);
    const uint64_t ordinal = spsh__print_set_first(join->set, number) + first;
    spsh_status rc = spsh_dataset_column(dataset, join->column, first, count, &names, err);
    if (rc == SPSH_OK)
        rc = spsh_dataset_column(dataset, SPSH_COLUMN_DOMAIN, first, count, &domains, err);
    for (uint64_t i = 0; i < count && rc == SPSH_OK; i++) {
        if (spsh__print_set_side(join->set, ordinal + i) == side &&
            row_key(&join->tables[number], (uint32_t)spsh__load_le(names.data + 4 * i, 4),
                    (uint32_t)spsh__load_le(domains.data + 4 * i, 4), &key))
            rc = take_row(join, side, ordinal + i, &key, err);
    }
    return rc;
}

static spsh_status take_side(spsh__name_join *join, spsh_side side, spsh_error *err)
{
    spsh_status rc = SPSH_OK;
    for (size_t d = 0; d < join->table_count; d++) {
        const uint64_t count =
            spsh_dataset_info_get(spsh__print_set_dataset(join->set, d))->utterance_count;
        for (uint64_t at = 0; at < count && rc == SPSH_OK; at += ROWS_AT_ONCE)
            rc = take_rows(join, side, d, at, count - at < ROWS_AT_ONCE ? count - at : ROWS_AT_ONCE,
                           err);
    }
    return rc;
}

static spsh_status run_join(spsh__name_join *join, const spsh__name_rules *rules,
                            spsh__hit_rule rule, spsh_error *err)
{
    const spsh__hit *hits = NULL;
    uint32_t kept = 0;
    spsh_status rc = SPSH_OK;
    join->table_count = spsh__print_set_dataset_count(join->set);
    join->tables = calloc(join->table_count + 1, sizeof(*join->tables));
    if (join->tables == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t d = 0; d < join->table_count && rc == SPSH_OK; d++)
        rc = load_table(spsh__print_set_dataset(join->set, d), join, rules, &join->tables[d], err);
    if (rc == SPSH_OK)
        rc = take_side(join, SPSH_SIDE_TEST, err);
    join->counts.test = join->numbers.count;
    if (rc == SPSH_OK)
        rc = spsh__hit_table_open(join->counts.test, rule, &join->hits, err);
    if (rc == SPSH_OK)
        rc = take_side(join, SPSH_SIDE_TRAIN, err);
    for (uint64_t i = 0; i < join->counts.test && rc == SPSH_OK; i++)
        join->counts.shared += spsh__hit_table_get(join->hits, i, &hits, &kept) > 0;
    join->counts.train = join->numbers.count - join->counts.test + join->counts.shared;
    return rc;
}

spsh_status spsh__name_join_open(const spsh__print_set *set, spsh_name_kind kind,
                                 const spsh__name_rules *rules, spsh__hit_rule rule,
                                 spsh__name_join **ret_join, spsh_error *err)
{
    spsh__name_join *join = calloc(1, sizeof(*join));
    if (join == NULL)
        return SPSH_NO_MEMORY(err);
    join->set = set;
    join->kind = kind;
    join->column = kind == SPSH_NAME_SPEAKER ? SPSH_COLUMN_SPEAKER : SPSH_COLUMN_DOCUMENT;
    const spsh_status rc = run_join(join, rules, rule, err);
    if (rc != SPSH_OK) {
        spsh__name_join_free(join);
        return rc;
    }
    *ret_join = join;
    return SPSH_OK;
}

void spsh__name_join_free(spsh__name_join *join)
{
    if (join == NULL)
        return;
    for (size_t d = 0; join->tables != NULL && d < join->table_count; d++) {
        free(join->tables[d].keys);
        free(join->tables[d].domains);
    }
    free(join->tables);
    spsh__hash_map_free(&join->numbers);
    spsh__hit_table_free(join->hits);
    free(join);
}

spsh__name_counts spsh__name_join_counts(const spsh__name_join *join)
{
    return join->counts;
}

spsh_status spsh__name_join_number(const spsh__name_join *join, uint64_t ordinal,
                                   uint32_t *ret_number, spsh_error *err)
{
    spsh_row row;
    spsh__u128 key;
    const name_table *table = &join->tables[spsh__print_set_place(join->set, ordinal).number];
    const spsh_status rc = spsh__print_set_index_row(join->set, ordinal, &row, err);
    if (rc != SPSH_OK)
        return rc;
    const uint32_t name = join->kind == SPSH_NAME_SPEAKER ? row.speaker : row.document;
    *ret_number = row_key(table, name, row.domain, &key) ? spsh__hash_map_find(&join->numbers, key)
                                                         : SPSH__NAME_ABSENT;
    return SPSH_OK;
}

uint64_t spsh__name_join_hits(const spsh__name_join *join, uint32_t number,
                              const spsh__hit **ret_hits, uint32_t *ret_kept)
{
    return spsh__hit_table_get(join->hits, number, ret_hits, ret_kept);
}
