/* exact_kit.h: the sorted matches of the exact tiers in small datasets.
 *
 *     exact_found found = exact_find(sources, count, &EXACT_PLAIN);
 *     const spsh__match *match = exact_match(&found, a, b);
 *     exact_free(&found);
 */
#ifndef EXACT_KIT_H
#define EXACT_KIT_H

#include "exact/exact.h"
#include "print_set_kit.h"
#include "print_signals.h"
#include "spsh_test.h"

typedef struct exact_found {
    spsh__print_set *set;
    spsh__exact_groups *groups;
    spsh__match *matches; /* in order */
    size_t count, capacity;
} exact_found;

typedef struct exact_settings {
    uint64_t memory_bytes;
    uint32_t threads;
    bool confirm;
} exact_settings;

static const exact_settings exact_plain = {(uint64_t)64 << 20, 2, false};

static inline spsh_status exact_take(void *user, const spsh__match *match, spsh_error *error)
{
    exact_found *found = user;
    (void)error;
    if (found->count == found->capacity) {
        found->capacity = 2 * found->capacity + 64;
        found->matches = realloc(found->matches, found->capacity * sizeof(*match));
        REQUIRE(found->matches != NULL);
    }
    found->matches[found->count++] = *match;
    return SPSH_OK;
}

/* Segments must be there. */
static inline exact_found exact_find(const spsh_dedup_source *sources, size_t source_count,
                                     const exact_settings *settings)
{
    char work[512];
    exact_found found = {0};
    spsh_error error = SPSH_ERROR_INIT;
    test_temp_dir(work, sizeof(work));
    const spsh__exact_options options = {
        .temporary_path = work,
        .memory_bytes = settings->memory_bytes,
        .threads = settings->threads,
        .min_active_s = 0.5,
        .coverage_min = spsh__align_limits_default.coverage_min,
        .confirm = settings->confirm,
    };
    if (spsh__print_set_open(sources, source_count, NULL, &found.set, &error) != SPSH_OK ||
        spsh__exact_find(found.set, &options, (spsh__match_sink){exact_take, &found}, &found.groups,
                         &error) != SPSH_OK)
        fprintf(stderr, "%s\n", error.message);
    REQUIRE(error.status == SPSH_OK);
    if (found.count > 0)
        qsort(found.matches, found.count, sizeof(*found.matches), spsh__match_compare);
    for (size_t i = 0; i < found.count; i++) { /* all fields survive writing and reading */
        uint8_t bytes[SPSH__MATCH_BYTES];
        spsh__match back;
        spsh__match_encode(&found.matches[i], bytes);
        CHECK(spsh__match_decode(bytes, &back, NULL) == SPSH_OK);
        CHECK(i == 0 || spsh__match_compare(&found.matches[i - 1], &found.matches[i]) != 0);
    }
    test_remove_tree(work);
    return found;
}

/* All of one dataset, on one side. */
static inline exact_found exact_find_in(const char *path, const exact_settings *settings)
{
    const spsh_dedup_source source = {path, NULL, SPSH_SIDE_TRAIN};
    return exact_find(&source, 1, settings);
}

static inline void exact_free(exact_found *found)
{
    free(found->matches);
    spsh__exact_groups_free(found->groups);
    spsh__print_set_close(found->set);
}

static inline size_t exact_count(const exact_found *found, uint64_t a, uint64_t b)
{
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++)
        count += found->matches[i].a == a && found->matches[i].b == b;
    return count;
}

/* The only match of the two. */
static inline const spsh__match *exact_match(const exact_found *found, uint64_t a, uint64_t b)
{
    static const spsh__match none;
    const spsh__match *match = &none;
    if (exact_count(found, a, b) != 1)
        fprintf(stderr, "%zu matches of %" PRIu64 " and %" PRIu64 "\n", exact_count(found, a, b), a,
                b);
    CHECK(exact_count(found, a, b) == 1);
    for (size_t i = 0; i < found->count; i++)
        if (found->matches[i].a == a && found->matches[i].b == b)
            match = &found->matches[i];
    return match;
}

static inline bool exact_is_same(const exact_found *left, const exact_found *right)
{
    bool is_same = left->count == right->count;
    for (size_t i = 0; is_same && i < left->count; i++)
        is_same = spsh__match_compare(&left->matches[i], &right->matches[i]) == 0;
    return is_same;
}

#endif
