/* show_pairs.c: the judge's opinion of each pair of copies of one clip.
 *
 *     show_pairs FIRST DATASET... > pairs.tsv
 *
 * Each utterance of FIRST is compared with its copies in the other datasets. Copies have the same
 * last part of the id up to its @. Output: a line per pair: both ids and the strongest class
 * that the comparison at every offset finds, or `none`. copies_kit.py reads it. The datasets must
 * have fingerprints.
 */
#include <stdlib.h>
#include <string.h>

#include "copies/judge.h"
#include "set/set_readers.h"

#include "bench_kit.h"

typedef struct named {
    char *id;
    const char *clip; /* the last part of the id */
    size_t clip_length;
    uint64_t ordinal;
} named;

static int compare_named(const void *left, const void *right)
{
    const named *a = left;
    const named *b = right;
    const size_t shorter = a->clip_length < b->clip_length ? a->clip_length : b->clip_length;
    const int order = memcmp(a->clip, b->clip, shorter);
    if (order != 0)
        return order;
    return (a->clip_length > b->clip_length) - (a->clip_length < b->clip_length);
}

static named *read_names(const spsh__print_set *set, size_t *ret_count)
{
    const size_t count = (size_t)spsh__print_set_count(set);
    named *names = calloc(count + 1, sizeof(*names));
    spsh__set_readers readers;
    must(names != NULL, "names");
    check_ok(spsh__set_readers_open(set, &readers, &failure));
    for (size_t i = 0; i < count; i++) {
        spsh_utterance utterance;
        check_ok(spsh__set_readers_metadata(&readers, i, &utterance, &failure));
        named *name = &names[i];
        name->id = strndup((const char *)utterance.id.data, utterance.id.size_bytes);
        must(name->id != NULL, "id");
        const char *slash = strrchr(name->id, '/');
        name->clip = slash == NULL ? name->id : slash + 1;
        name->clip_length = strcspn(name->clip, "@");
        name->ordinal = i;
    }
    spsh__set_readers_close(&readers);
    qsort(names, count, sizeof(*names), compare_named);
    *ret_count = count;
    return names;
}

static spsh_status keep_strongest(void *user, const spsh__match *match, spsh_error *error)
{
    spsh_copy_class *strongest = user;
    (void)error;
    if (match->kind != SPSH_COPY_NONE && (*strongest == SPSH_COPY_NONE || match->kind < *strongest))
        *strongest = match->kind;
    return SPSH_OK;
}

int main(int argc, char **argv)
{
    enum { DATASETS_MAX = 64 };
    must(argc >= 3 && argc <= DATASETS_MAX, "usage: show_pairs FIRST DATASET...");
    spsh_dedup_source sources[DATASETS_MAX];
    for (int i = 1; i < argc; i++)
        sources[i - 1] =
            (spsh_dedup_source){argv[i], NULL, i == 1 ? SPSH_SIDE_TRAIN : SPSH_SIDE_TEST};
    const spsh__judge_options options = {.threads = 1};
    spsh__print_set *set = NULL;
    spsh__judge *judge = NULL;
    size_t count = 0;
    check_ok(spsh__print_set_open(sources, (size_t)argc - 1, NULL, &set, &failure));
    check_ok(spsh__judge_open(set, &options, &judge, &failure));
    named *names = read_names(set, &count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count && compare_named(&names[i], &names[k]) == 0; k++) {
            if (spsh__print_set_side(set, names[i].ordinal) ==
                spsh__print_set_side(set, names[k].ordinal))
                continue;
            spsh_copy_class strongest = SPSH_COPY_NONE;
            check_ok(spsh__judge_pair(judge, names[i].ordinal, names[k].ordinal,
                                      (spsh__match_sink){keep_strongest, &strongest}, &failure));
            printf("%s\t%s\t%s\n", names[i].id, names[k].id, spsh_copy_class_text(strongest));
        }
    }
    for (size_t i = 0; i < count; i++)
        free(names[i].id);
    free(names);
    spsh__judge_close(judge);
    spsh__print_set_close(set);
    return 0;
}
