/* pair_offsets.c: sort a's keys and their variants with one flipped bit. Then look up b's keys. */
#include "pair_offsets.h"

#include <stdlib.h>
#include <string.h>

#include "speechshard/inside.h"

enum { FORMS = SPSH__KEY_WEAK_MAX + 1, HITS_MAX = 1 << 22, NEAR = 3, SPREAD = 6, LOW_BITS = 16 };

typedef struct form {
    uint32_t bits;
    uint64_t frame;
} form;

/* Make the upper 32 bits of the key, and one variant for each weak bit among them. Return the
 * number of forms. */
static size_t make_forms(const spsh__print_key *key, form forms[FORMS])
{
    size_t count = 1;
    forms[0] = (form){(uint32_t)(key->bits >> LOW_BITS), key->frame};
    for (size_t i = 0; i < SPSH__KEY_WEAK_MAX; i++) {
        if (key->weak[i] < LOW_BITS)
            continue;
        forms[count] = forms[0];
        forms[count++].bits ^= UINT32_C(1) << (key->weak[i] - LOW_BITS);
    }
    return count;
}

static int compare_forms(const void *left, const void *right)
{
    const form *l = left;
    const form *r = right;
    if (l->bits != r->bits)
        return l->bits < r->bits ? -1 : 1;
    return (l->frame > r->frame) - (l->frame < r->frame);
}

static int compare_offsets(const void *left, const void *right)
{
    const int64_t l = *(const int64_t *)left;
    const int64_t r = *(const int64_t *)right;
    return (l > r) - (l < r);
}

/* Return the index of the first form whose bits are not below `bits`. */
static size_t find_form(const form *forms, size_t count, uint32_t bits)
{
    size_t low = 0;
    while (low < count) {
        const size_t middle = low + (count - low) / 2;
        if (forms[middle].bits < bits)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static size_t find_hits(const form *forms, size_t form_count, const spsh__print_key *b,
                        size_t b_count, int64_t *hits)
{
    size_t count = 0;
    for (size_t k = 0; k < b_count; k++) {
        form mine[FORMS];
        const size_t mine_count = make_forms(&b[k], mine);
        for (size_t f = 0; f < mine_count; f++) {
            size_t at = find_form(forms, form_count, mine[f].bits);
            for (; at < form_count && forms[at].bits == mine[f].bits && count < HITS_MAX; at++)
                hits[count++] = (int64_t)mine[f].frame - (int64_t)forms[at].frame;
        }
    }
    return count;
}

/* Add an offset to the list if it is among the best. */
static void add(spsh__pair_offset *list, size_t *count, spsh__pair_offset one)
{
    size_t at = *count;
    while (at > 0 && list[at - 1].votes < one.votes)
        at--;
    if (at == SPSH__PAIR_OFFSETS_MAX)
        return;
    if (*count < SPSH__PAIR_OFFSETS_MAX)
        (*count)++;
    memmove(list + at + 1, list + at, (*count - 1 - at) * sizeof(*list));
    list[at] = one;
}

/* Group the sorted offsets: adjacent ones differ by at most NEAR, and all by at most SPREAD. Return
 * the length of the list. */
static size_t group(const int64_t *hits, size_t hit_count, spsh__pair_offset *list)
{
    size_t count = 0;
    size_t first = 0;
    for (size_t i = 1; i <= hit_count; i++) {
        if (i < hit_count && hits[i] - hits[i - 1] <= NEAR && hits[i] - hits[first] <= SPREAD)
            continue;
        add(list, &count,
            (spsh__pair_offset){hits[first + (i - first) / 2], (uint32_t)(i - first)});
        first = i;
    }
    return count;
}

spsh_status spsh__pair_offsets_find(const spsh__print_key *a, size_t a_count,
                                    const spsh__print_key *b, size_t b_count,
                                    spsh__pair_offset ret_offsets[SPSH__PAIR_OFFSETS_MAX],
                                    size_t *ret_count, spsh_error *err)
{
    form *forms = calloc(a_count * FORMS + 1, sizeof(*forms));
    int64_t *hits =
        calloc(HITS_MAX, sizeof(*hits)); /* the kernel backs only the used part with memory */
    spsh_status rc = SPSH_OK;
    size_t form_count = 0;

    *ret_count = 0;
    if (forms == NULL || hits == NULL) {
        rc = SPSH_NO_MEMORY(err);
        goto out;
    }
    for (size_t i = 0; i < a_count; i++)
        form_count += make_forms(&a[i], forms + form_count);
    qsort(forms, form_count, sizeof(*forms), compare_forms);
    const size_t hit_count = find_hits(forms, form_count, b, b_count, hits);
    qsort(hits, hit_count, sizeof(*hits), compare_offsets);
    if (hit_count > 0)
        *ret_count = group(hits, hit_count, ret_offsets);
out:
    free(forms);
    free(hits);
    return rc;
}
