/* train_splits.c: one table per dataset that maps its split numbers to train split numbers. */
#include "train_splits.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "speechshard/inside.h"

enum { ROWS_AT_ONCE = 65536, ELEMENT_BYTES = 4 };

struct spsh__train_splits {
    const spsh__print_set *set;
    uint32_t **numbers; /* per dataset, indexed by split, the last for no split; SPSH_NONE_U32: not
                           in train */
    uint32_t *name_counts;
    uint32_t count;
    atomic_bool failed;
};

static uint32_t load(spsh_bytes column, uint64_t row)
{
    return (uint32_t)spsh__load_le(column.data + row * ELEMENT_BYTES, ELEMENT_BYTES);
}

/* Return the entry of a split in the table of its dataset. */
static uint32_t *place_of(const spsh__train_splits *splits, size_t dataset, uint32_t split)
{
    const uint32_t last = splits->name_counts[dataset];
    return &splits->numbers[dataset][split < last ? split : last];
}

static spsh_status number_dataset(spsh__train_splits *splits, size_t dataset, spsh_error *err)
{
    const spsh_dataset *source = spsh__print_set_dataset(splits->set, dataset);
    const uint64_t first = spsh__print_set_first(splits->set, dataset);
    const uint64_t rows = spsh_dataset_info_get(source)->utterance_count;
    for (uint64_t at = 0; at < rows; at += ROWS_AT_ONCE) {
        const uint64_t count = rows - at < ROWS_AT_ONCE ? rows - at : ROWS_AT_ONCE;
        spsh_bytes column;
        const spsh_status rc =
            spsh_dataset_column(source, SPSH_COLUMN_SPLIT, at, count, &column, err);
        if (rc != SPSH_OK)
            return rc;
        for (uint64_t i = 0; i < count; i++) {
            uint32_t *number = place_of(splits, dataset, load(column, i));
            if (*number == SPSH_NONE_U32 &&
                spsh__print_set_side(splits->set, first + at + i) == SPSH_SIDE_TRAIN)
                *number = splits->count++;
        }
    }
    return SPSH_OK;
}

static spsh_status number_all(spsh__train_splits *splits, spsh_error *err)
{
    const size_t datasets = spsh__print_set_dataset_count(splits->set);
    splits->numbers = calloc(datasets + 1, sizeof(*splits->numbers));
    splits->name_counts = calloc(datasets + 1, sizeof(*splits->name_counts));
    if (splits->numbers == NULL || splits->name_counts == NULL)
        return SPSH_NO_MEMORY(err);
    for (size_t d = 0; d < datasets; d++) {
        const uint64_t names =
            spsh_dataset_name_count(spsh__print_set_dataset(splits->set, d), SPSH_NAME_SPLIT);
        splits->name_counts[d] = (uint32_t)names;
        splits->numbers[d] = malloc((size_t)(names + 1) * sizeof(**splits->numbers));
        if (splits->numbers[d] == NULL)
            return SPSH_NO_MEMORY(err);
        for (uint64_t i = 0; i <= names; i++)
            splits->numbers[d][i] = SPSH_NONE_U32;
        const spsh_status rc = number_dataset(splits, d, err);
        if (rc != SPSH_OK)
            return rc;
    }
    return SPSH_OK;
}

spsh_status spsh__train_splits_open(const spsh__print_set *set, spsh__train_splits **ret_splits,
                                    spsh_error *err)
{
    spsh__train_splits *splits = calloc(1, sizeof(*splits));
    if (splits == NULL)
        return SPSH_NO_MEMORY(err);
    splits->set = set;
    atomic_init(&splits->failed, false);
    const spsh_status rc = number_all(splits, err);
    if (rc == SPSH_OK)
        *ret_splits = splits;
    else
        spsh__train_splits_free(splits);
    return rc;
}

uint32_t spsh__train_splits_count(const spsh__train_splits *splits)
{
    return splits->count > 0 ? splits->count : 1;
}

uint32_t spsh__train_splits_number(spsh__train_splits *splits, uint64_t ordinal)
{
    spsh_bytes column;
    if (splits->count <= 1)
        return 0;
    const spsh__set_place at = spsh__print_set_place(splits->set, ordinal);
    if (spsh_dataset_column(at.dataset, SPSH_COLUMN_SPLIT, at.position, 1, &column, NULL) ==
        SPSH_OK) {
        const uint32_t number = *place_of(splits, at.number, load(column, 0));
        if (number != SPSH_NONE_U32)
            return number;
    }
    atomic_store(&splits->failed, true);
    return 0;
}

spsh_status spsh__train_splits_status(const spsh__train_splits *splits, spsh_error *err)
{
    if (atomic_load(&splits->failed))
        return SPSH_FAIL(err, SPSH_E_CORRUPT, "cannot read the splits of an index of train");
    return SPSH_OK;
}

void spsh__train_splits_free(spsh__train_splits *splits)
{
    if (splits == NULL)
        return;
    for (size_t d = 0; splits->numbers != NULL && d < spsh__print_set_dataset_count(splits->set);
         d++)
        free(splits->numbers[d]);
    free(splits->numbers);
    free(splits->name_counts);
    free(splits);
}
