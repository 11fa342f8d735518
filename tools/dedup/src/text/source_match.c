/* source_match.c: keys of sources, and the table of the test side's sources.
 *
 *     things    each whole file or stretch; hits are counted per thing
 *     map       key -> group; a group has the number of its first thing
 *
 * Stretches are sorted by group and begin. Each one stores the latest end of the stretches up to it
 * in its group. To find all that overlap a stretch, start at the last one that begins before its
 * end, and go back until all earlier ones have ended.
 */
#include "source_match.h"

#include <stdlib.h>

#include "common/file_names.h"
#include "common/jsonl.h"
#include "speechshard/inside.h"

/* ---- keys ---- */

static size_t scheme_bytes(spsh_bytes text)
{
    for (size_t i = 0; i + 3 <= text.size_bytes && i < 16; i++) {
        const uint8_t c = text.data[i];
        if (memcmp(text.data + i, "://", 3) == 0)
            return i == 0 ? 0 : i + 3;
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '+' || c == '.' || c == '-'))
            return 0;
    }
    return 0;
}

static bool starts_with(spsh_bytes text, const char *prefix)
{
    const spsh_bytes p = spsh__bytes_of(prefix);
    return text.size_bytes >= p.size_bytes &&
           spsh__bytes_equal_nocase((spsh_bytes){text.data, p.size_bytes}, p);
}

/* Append the URL in its compared form to out. Returns false if it is not a URL. */
static bool append_url(spsh_bytes url, spsh__builder *out)
{
    const size_t scheme = scheme_bytes(url);
    if (scheme == 0)
        return false;
    spsh_bytes rest = {url.data + scheme, url.size_bytes - scheme};
    const bool is_web = starts_with(url, "http://") || starts_with(url, "https://");
    if (!is_web)
        spsh__builder_append(out, url.data, scheme);
    if (is_web && starts_with(rest, "www."))
        rest = (spsh_bytes){rest.data + 4, rest.size_bytes - 4};
    bool in_host = true;
    for (size_t i = 0; i < rest.size_bytes && rest.data[i] != '?' && rest.data[i] != '#'; i++) {
        uint8_t c = rest.data[i];
        in_host = in_host && c != '/';
        if (in_host && c >= 'A' && c <= 'Z')
            c = (uint8_t)(c + ('a' - 'A'));
        spsh__builder_append(out, &c, 1);
    }
    return true;
}

typedef enum member { MEMBER_SOURCE_URL, MEMBER_START, MEMBER_END, MEMBER_URL, MEMBERS } member;

/* Read a URL from extras, and its stretch if there is one. Returns false if extras have no URL. */
static bool take_extras(spsh_bytes extras, spsh__builder *scratch, spsh__source_key *ret_key)
{
    static const char *const names[MEMBERS] = {"source_url", "source_start", "source_end", "url"};
    spsh__json_value values[MEMBERS];
    size_t offset = 0;
    if (extras.size_bytes == 0 ||
        spsh__json_pick(extras, names, MEMBERS, values, NULL, &offset) != NULL)
        return false;
    const spsh__json_value *url = values[MEMBER_SOURCE_URL].kind == SPSH__JSON_STRING
                                      ? &values[MEMBER_SOURCE_URL]
                                      : &values[MEMBER_URL];
    if (url->kind != SPSH__JSON_STRING)
        return false;
    spsh__builder text = {0};
    spsh__json_unescape(url, &text);
    const bool is_url = append_url(spsh__builder_bytes(&text), scratch);
    scratch->failed |= text.failed;
    spsh__builder_free(&text);
    if (is_url && url == &values[MEMBER_SOURCE_URL])
        ret_key->is_stretch =
            spsh__json_seconds(&values[MEMBER_START], &ret_key->begin_ns) == SPSH__TIME_OK &&
            spsh__json_seconds(&values[MEMBER_END], &ret_key->end_ns) == SPSH__TIME_OK &&
            ret_key->begin_ns < ret_key->end_ns;
    return is_url;
}

spsh_status spsh__source_key_of(const spsh_utterance *utterance, uint32_t dataset,
                                spsh__builder *scratch, spsh__source_key *ret_key, spsh_error *err)
{
    spsh__source_key key = {0};
    uint8_t place[5] = {'u', 0, 0, 0, 0};
    spsh__builder_clear(scratch);
    /* The first byte is the type of the source. The next four are the dataset of a path, or
     * zero. */
    spsh__builder_append(scratch, place, sizeof(place));
    key.is_known =
        take_extras(utterance->extras, scratch, &key) || append_url(utterance->source, scratch);
    if (!key.is_known && utterance->source.size_bytes > 0) {
        spsh__store_le(place + 1, dataset, 4);
        place[0] = 'p';
        spsh__builder_clear(scratch);
        spsh__builder_append(scratch, place, sizeof(place));
        spsh__builder_append_bytes(scratch, utterance->source);
        key.is_known = true;
    }
    if (scratch->failed)
        return SPSH_NO_MEMORY(err);
    if (key.is_stretch)
        scratch->data[0] = 's';
    key.key = spsh__hash_of(spsh__builder_bytes(scratch));
    *ret_key = key;
    return SPSH_OK;
}

/* ---- the test side ---- */

typedef struct thing {
    uint64_t begin_ns, end_ns, latest_ns;
    uint32_t group, number;
} thing;

struct spsh__source_index {
    spsh__hash_map map;
    spsh__builder things; /* array of thing */
    size_t thing_count;
    size_t *firsts; /* index of the first thing, per group */
    spsh__hit_table *hits;
    spsh__hit_rule rule;
};

static thing *things_of(const spsh__source_index *index)
{
    return (thing *)(void *)index->things.data;
}

spsh_status spsh__source_index_open(spsh__hit_rule rule, spsh__source_index **ret_index,
                                    spsh_error *err)
{
    spsh__source_index *index = calloc(1, sizeof(*index));
    if (index == NULL)
        return SPSH_NO_MEMORY(err);
    index->rule = rule;
    *ret_index = index;
    return SPSH_OK;
}

void spsh__source_index_free(spsh__source_index *index)
{
    if (index == NULL)
        return;
    spsh__hash_map_free(&index->map);
    spsh__builder_free(&index->things);
    spsh__hit_table_free(index->hits);
    free(index->firsts);
    free(index);
}

spsh_status spsh__source_index_add(spsh__source_index *index, const spsh__source_key *key,
                                   uint32_t *ret_number, spsh_error *err)
{
    const uint32_t number = (uint32_t)index->thing_count;
    const size_t groups = index->map.count;
    uint32_t group = 0;
    if (index->thing_count >= SPSH__HASH_NONE - 1)
        return SPSH_FAIL(err, SPSH_E_LIMIT, "the test side has more than 2^32 sources");
    if (!key->is_stretch) {
        /* A whole file is a group of one thing, so the value in the map is the number of the
         * thing. */
        uint32_t whole = 0;
        if (!spsh__hash_map_add(&index->map, key->key, number, &whole))
            return SPSH_NO_MEMORY(err);
        *ret_number = whole;
        if (index->map.count == groups)
            return SPSH_OK;
        group = number;
    } else if (!spsh__hash_map_add(&index->map, key->key, number, &group)) {
        return SPSH_NO_MEMORY(err);
    }
    const thing entry = {.begin_ns = key->begin_ns,
                         .end_ns = key->is_stretch ? key->end_ns : UINT64_MAX,
                         .group = group,
                         .number = number};
    spsh__builder_append(&index->things, &entry, sizeof(entry));
    if (index->things.failed)
        return SPSH_NO_MEMORY(err);
    index->thing_count++;
    *ret_number = number;
    return SPSH_OK;
}

static int compare_things(const void *left, const void *right)
{
    const thing *l = left;
    const thing *r = right;
    if (l->group != r->group)
        return (l->group > r->group) - (l->group < r->group);
    if (l->begin_ns != r->begin_ns)
        return (l->begin_ns > r->begin_ns) - (l->begin_ns < r->begin_ns);
    return (l->number > r->number) - (l->number < r->number);
}

spsh_status spsh__source_index_finish(spsh__source_index *index, spsh_error *err)
{
    thing *things = things_of(index);
    const size_t count = index->thing_count;
    index->firsts = calloc(count + 1, sizeof(*index->firsts));
    if (index->firsts == NULL)
        return SPSH_NO_MEMORY(err);
    if (count > 1)
        qsort(things, count, sizeof(*things), compare_things);
    for (size_t i = 0; i < count; i++) {
        const bool is_first = i == 0 || things[i].group != things[i - 1].group;
        const uint64_t before = is_first ? 0 : things[i - 1].latest_ns;
        things[i].latest_ns = before > things[i].end_ns ? before : things[i].end_ns;
        if (is_first)
            index->firsts[things[i].group] = i;
    }
    return spsh__hit_table_open(count, index->rule, &index->hits, err);
}

uint64_t spsh__source_index_bytes(const spsh__source_index *index)
{
    return spsh__hash_map_bytes(&index->map) + index->things.capacity_bytes +
           index->thing_count * sizeof(*index->firsts) +
           spsh__hit_table_bytes(index->thing_count, index->rule);
}

/* Return the index after the last thing of the group that begins before end_ns. first is the first
 * thing of the group. */
static size_t count_before(const spsh__source_index *index, size_t first, uint64_t end_ns)
{
    const thing *things = things_of(index);
    size_t low = first;
    size_t high = index->thing_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (things[middle].group == things[first].group && things[middle].begin_ns < end_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

void spsh__source_index_probe(spsh__source_index *index, uint64_t ordinal,
                              const spsh__source_key *key)
{
    if (!key->is_known)
        return;
    const uint32_t group = spsh__hash_map_find(&index->map, key->key);
    if (group == SPSH__HASH_NONE)
        return;
    if (!key->is_stretch) {
        spsh__hit_table_add(index->hits, group, &(spsh__hit){ordinal, 0, 0});
        return;
    }
    const thing *things = things_of(index);
    const size_t first = index->firsts[group];
    for (size_t i = count_before(index, first, key->end_ns); i > first; i--) {
        const thing *t = &things[i - 1];
        if (t->latest_ns <= key->begin_ns)
            break;
        if (t->end_ns <= key->begin_ns)
            continue;
        const uint64_t begin = t->begin_ns > key->begin_ns ? t->begin_ns : key->begin_ns;
        const spsh__hit hit = {ordinal, seconds(begin - t->begin_ns),
                               seconds(begin - key->begin_ns)};
        spsh__hit_table_add(index->hits, t->number, &hit);
    }
}

uint64_t spsh__source_index_hits(const spsh__source_index *index, uint32_t number,
                                 const spsh__hit **ret_hits, uint32_t *ret_kept)
{
    return spsh__hit_table_get(index->hits, number, ret_hits, ret_kept);
}
