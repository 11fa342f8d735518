/* filter.c: convert the names in the options to the name numbers of each dataset.
 *
 * A name that no dataset has is an error that lists the existing names. Otherwise a filter with a
 * spelling mistake would silently exclude data.
 */
#include "filter.h"

#include <inttypes.h>
#include <stdio.h>

enum { NAME_SHOWN_BYTES = 40 };

typedef struct name_list {
    const char *word; /* kind of the names in messages */
    spsh_name_kind kind;
    const char *const *names;
    uint32_t count;
} name_list;

static bool is_same(spsh_bytes name, const char *text)
{
    size_t size = strlen(text);
    return name.size_bytes == size && (size == 0 || memcmp(name.data, text, size) == 0);
}

/* Find the table slot of a name; SPSH_NONE_U32: none. An empty name means rows without a name. */
static spsh_status find_slot(const spsh_dataset *dataset, spsh_name_kind kind, const char *text,
                             uint32_t *ret_slot, spsh_error *err)
{
    uint32_t count = (uint32_t)spsh_dataset_name_count(dataset, kind);
    *ret_slot = text[0] == '\0' ? count : SPSH_NONE_U32;
    for (uint32_t i = 0; i < count && *ret_slot == SPSH_NONE_U32; i++) {
        spsh_bytes name = {NULL, 0};
        spsh_status rc = spsh_dataset_name(dataset, kind, i, &name, err);
        if (rc != SPSH_OK)
            return rc;
        if (is_same(name, text))
            *ret_slot = i;
    }
    return SPSH_OK;
}

/* ---- the list of existing names ---- */

typedef struct listing {
    char text[240];
    size_t used;
    uint64_t more; /* names that did not fit */
} listing;

static void list_name(listing *l, spsh_bytes name)
{
    size_t shown = name.size_bytes < NAME_SHOWN_BYTES ? name.size_bytes : NAME_SHOWN_BYTES;
    if (l->more > 0 || l->used + shown + 3 > sizeof(l->text)) {
        l->more++;
        return;
    }
    if (l->used > 0) {
        memcpy(l->text + l->used, ", ", 2);
        l->used += 2;
    }
    memcpy(l->text + l->used, name.data, shown);
    l->used += shown;
    l->text[l->used] = '\0';
}

static bool is_in(const spsh_dataset *const *datasets, uint32_t dataset_count, spsh_name_kind kind,
                  spsh_bytes name)
{
    for (uint32_t d = 0; d < dataset_count; d++) {
        uint32_t count = (uint32_t)spsh_dataset_name_count(datasets[d], kind);
        for (uint32_t i = 0; i < count; i++) {
            spsh_bytes other = {NULL, 0};
            if (spsh_dataset_name(datasets[d], kind, i, &other, NULL) == SPSH_OK &&
                other.size_bytes == name.size_bytes &&
                memcmp(other.data, name.data, name.size_bytes) == 0)
                return true;
        }
    }
    return false;
}

static spsh_status fail_unknown(const spsh_dataset *const *datasets, uint32_t dataset_count,
                                const name_list *list, const char *name, spsh_error *err)
{
    listing there = {{0}, 0, 0};
    char more[48] = "";
    for (uint32_t d = 0; d < dataset_count; d++) {
        uint32_t count = (uint32_t)spsh_dataset_name_count(datasets[d], list->kind);
        for (uint32_t i = 0; i < count; i++) {
            spsh_bytes known = {NULL, 0};
            spsh_status rc = spsh_dataset_name(datasets[d], list->kind, i, &known, err);
            if (rc != SPSH_OK)
                return rc;
            /* Once the text is full, names are only counted. */
            if (there.more > 0 || !is_in(datasets, d, list->kind, known))
                list_name(&there, known);
        }
    }
    if (there.more > 0)
        (void)snprintf(more, sizeof(more), " and %" PRIu64 " more", there.more);
    if (there.used == 0)
        return SPSH_FAIL(err, SPSH_E_UNKNOWN_NAME, "%s \"%.80s\": no utterance has a %s",
                         list->word, name, list->word);
    return SPSH_FAIL(err, SPSH_E_UNKNOWN_NAME, "no dataset has %s \"%.80s\"; existing names: %s%s",
                     list->word, name, there.text, more);
}

/* ---- tables ---- */

static spsh_status allow(const spsh_dataset *const *datasets, uint32_t dataset_count,
                         const name_list *list, uint8_t *const *tables, spsh_error *err)
{
    for (uint32_t n = 0; n < list->count; n++) {
        bool found = false;
        if (list->names[n] == NULL)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "%s %u is NULL", list->word, n);
        for (uint32_t d = 0; d < dataset_count; d++) {
            uint32_t slot = 0;
            spsh_status rc = find_slot(datasets[d], list->kind, list->names[n], &slot, err);
            if (rc != SPSH_OK)
                return rc;
            if (slot != SPSH_NONE_U32) {
                tables[d][slot] = 1;
                found = true;
            }
        }
        if (!found)
            return fail_unknown(datasets, dataset_count, list, list->names[n], err);
    }
    return SPSH_OK;
}

static spsh_status make_tables(const spsh_dataset *const *datasets, uint32_t dataset_count,
                               const name_list *list, const spsh_allocator *allocator,
                               uint8_t **tables, spsh_error *err)
{
    for (uint32_t d = 0; d < dataset_count && list->count > 0; d++) {
        uint64_t names = spsh_dataset_name_count(datasets[d], list->kind);
        tables[d] = (uint8_t *)spsh__new(allocator, 1, (size_t)names + 1);
        if (tables[d] == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "table of %" PRIu64 " names", names);
    }
    return allow(datasets, dataset_count, list, tables, err);
}

/* Set the weight of all domains of a dataset. */
static spsh_status take_whole_weight(uint32_t dataset_count, const spsh_weight *weight,
                                     spsh__filter *filters, spsh_error *err)
{
    if (weight->dataset >= dataset_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "a weight without a domain names dataset %u, but there are %u datasets",
                         weight->dataset, dataset_count);
    if (!(weight->weight > 0 && weight->weight <= 1e100))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "dataset %u: weight is %g, must be above 0",
                         weight->dataset, weight->weight);
    spsh__filter *f = &filters[weight->dataset];
    for (uint32_t slot = 0; slot <= f->domain_names; slot++) {
        if (f->weights[slot] > 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "a domain of dataset %u has two weights",
                             weight->dataset);
        f->weights[slot] = weight->weight;
    }
    f->has_whole_weight = true;
    return SPSH_OK;
}

static spsh_status take_weight(const spsh_dataset *const *datasets, uint32_t dataset_count,
                               const spsh_weight *weight, spsh__filter *filters, spsh_error *err)
{
    const name_list list = {"domain", SPSH_NAME_DOMAIN, NULL, 0};
    bool found = false;
    if (weight->domain == NULL)
        return take_whole_weight(dataset_count, weight, filters, err);
    /* Negated, so that not-a-number fails, too. */
    if (!(weight->weight > 0 && weight->weight <= 1e100))
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG, "domain \"%.80s\": weight is %g, must be above 0",
                         weight->domain, weight->weight);
    if (weight->dataset != SPSH_NONE_U32 && weight->dataset >= dataset_count)
        return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                         "domain \"%.80s\": a weight names dataset %u, but there are %u datasets",
                         weight->domain, weight->dataset, dataset_count);
    for (uint32_t d = 0; d < dataset_count; d++) {
        uint32_t slot = 0;
        if (weight->dataset != SPSH_NONE_U32 && weight->dataset != d)
            continue;
        spsh_status rc = find_slot(datasets[d], SPSH_NAME_DOMAIN, weight->domain, &slot, err);
        if (rc != SPSH_OK)
            return rc;
        if (slot == SPSH_NONE_U32)
            continue;
        if (filters[d].weights[slot] > 0)
            return SPSH_FAIL(err, SPSH_E_INVALID_ARG,
                             "domain \"%.80s\" of dataset %u has two weights", weight->domain, d);
        filters[d].weights[slot] = weight->weight;
        found = true;
    }
    return found ? SPSH_OK : fail_unknown(datasets, dataset_count, &list, weight->domain, err);
}

static spsh_status take_weights(const spsh_dataset *const *datasets, uint32_t dataset_count,
                                const spsh_plan_options *options, const spsh_allocator *allocator,
                                spsh__filter *filters, spsh_error *err)
{
    for (uint32_t d = 0; d < dataset_count && options->weight_count > 0; d++) {
        filters[d].weights =
            (double *)spsh__new(allocator, (size_t)filters[d].domain_names + 1, sizeof(double));
        if (filters[d].weights == NULL)
            return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "weights of %u domains",
                             filters[d].domain_names);
    }
    for (uint32_t i = 0; i < options->weight_count; i++) {
        spsh_status rc = take_weight(datasets, dataset_count, &options->weights[i], filters, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

static spsh_status take_skips(const spsh_dataset *dataset, const spsh_allocator *allocator,
                              spsh__filter *filter, spsh_error *err)
{
    uint64_t count = 0;
    spsh_status rc = spsh_dataset_skipped_positions(dataset, NULL, 0, &count, err);
    if (rc != SPSH_OK || count == 0)
        return rc;
    filter->skipped = (uint64_t *)spsh__new(allocator, (size_t)count, sizeof(uint64_t));
    if (filter->skipped == NULL)
        return SPSH_FAIL(err, SPSH_E_NO_MEMORY, "%" PRIu64 " skips", count);
    filter->skipped_count = count;
    return spsh_dataset_skipped_positions(dataset, filter->skipped, count, &count, err);
}

spsh_status spsh__filters_open(const spsh_dataset *const *datasets, uint32_t dataset_count,
                               const spsh_plan_options *options, const spsh_allocator *allocator,
                               spsh__filter **ret_filters, spsh_error *err)
{
    const name_list lists[] = {
        {"split",    SPSH_NAME_SPLIT,    options->splits,    options->split_count   },
        {"domain",   SPSH_NAME_DOMAIN,   options->domains,   options->domain_count  },
        {"language", SPSH_NAME_LANGUAGE, options->languages, options->language_count},
    };
    spsh_status rc = SPSH_OK;
    spsh__filter *filters = (spsh__filter *)spsh__new(allocator, dataset_count, sizeof(*filters));
    uint8_t **tables = (uint8_t **)spsh__new(allocator, dataset_count, sizeof(*tables));
    *ret_filters = filters;
    if (filters == NULL || tables == NULL) {
        rc = SPSH_FAIL(err, SPSH_E_NO_MEMORY, "filters");
        goto out;
    }
    for (uint32_t d = 0; d < dataset_count; d++) {
        spsh__filter *f = &filters[d];
        f->domain_names = (uint32_t)spsh_dataset_name_count(datasets[d], SPSH_NAME_DOMAIN);
        f->split_names = (uint32_t)spsh_dataset_name_count(datasets[d], SPSH_NAME_SPLIT);
        f->language_names = (uint32_t)spsh_dataset_name_count(datasets[d], SPSH_NAME_LANGUAGE);
        f->speaker_names = (uint32_t)spsh_dataset_name_count(datasets[d], SPSH_NAME_SPEAKER);
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && rc == SPSH_OK; i++) {
        memset(tables, 0, dataset_count * sizeof(*tables));
        rc = make_tables(datasets, dataset_count, &lists[i], allocator, tables, err);
        for (uint32_t d = 0; d < dataset_count; d++)
            *(i == 0   ? &filters[d].splits
              : i == 1 ? &filters[d].domains
                       : &filters[d].languages) = tables[d];
    }
    if (rc == SPSH_OK)
        rc = take_weights(datasets, dataset_count, options, allocator, filters, err);
    for (uint32_t d = 0; d < dataset_count && rc == SPSH_OK; d++)
        rc = take_skips(datasets[d], allocator, &filters[d], err);
out:
    spsh__free(allocator, tables);
    return rc;
}

void spsh__filters_close(spsh__filter *filters, uint32_t dataset_count,
                         const spsh_allocator *allocator)
{
    for (uint32_t d = 0; d < dataset_count && filters != NULL; d++) {
        spsh__free(allocator, filters[d].domains);
        spsh__free(allocator, filters[d].splits);
        spsh__free(allocator, filters[d].languages);
        spsh__free(allocator, filters[d].weights);
        spsh__free(allocator, filters[d].skipped);
    }
    spsh__free(allocator, filters);
}
